"""Types of requests and answers. Validation, error messages and the OpenAPI document are derived from these types.

msgspec validates requests. pydantic is ten times as large, and rejects single surrogates, which JSON may contain.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ms_crf.base.environment import VERSION
from ms_crf.base.errors import brief
from ms_crf.server.limits import Limits, RequestError
from ms_crf.server.process import ModelInfo

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

TEXT, TEXTS, TOKENS, SENTENCES = INPUTS = ('text', 'texts', 'tokens', 'sentences')
OPTIONS = ('nbest', 'confidence', 'splitter')
RAW = (TEXT, TEXTS)                    # keys with raw text, which needs a splitter

Token = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Entity(Struct):
    """An entity of a sentence."""

    type: str
    text: str
    first: Count
    last: Count
    start: Count
    end: Count
    confidence: Share | UnsetType = UNSET


class Alternative(Struct):
    """Another tagging of a sentence."""

    tags: list[str]
    confidence: Share


class Sentence(Struct):
    """A tagged sentence."""

    text: str
    tokens: list[Token]
    tags: list[str]
    entities: list[Entity]
    confidences: list[Share] | UnsetType = UNSET
    confidence: Share | UnsetType = UNSET
    alternatives: list[Alternative] | UnsetType = UNSET
    start: Count | UnsetType = UNSET
    end: Count | UnsetType = UNSET
    offsets: list[tuple[Count, Count]] | UnsetType = UNSET


class Tagged(Struct):
    """The answer to a request to tag."""

    sentences: list[Sentence]


class Texts(Struct):
    """The answer to a request to tag several texts."""

    texts: list[Tagged]


class Model(Struct):
    """The active model of the server."""

    name: str
    kind: str
    scheme: str
    tags: list[str]
    characters: bool
    splitter: str
    confidence: bool
    nbest: bool
    loaded: Annotated[str, Meta(extra_json_schema={'format': 'date-time'})]
    version: str
    limits: dict[str, float]


class Status(Struct):
    """The state of the server."""

    status: str


class Error(Struct):
    """The reason why a request was refused."""

    error: Annotated[str, Meta(description='one line, with the expected and the actual value')]


def request_types(limits: Limits, info: ModelInfo | None = None) -> dict[str, type[Struct]]:
    """Returns the type of a request for each of `INPUTS`.

    Args:
        limits: limits of requests. Requests with too many tokens or sentences are valid here; they get status 413
            later.
        info: the model. Its types do not allow features that the model does not have. None: all features are allowed.
    """
    sentence: Any = Annotated[list[Token], Meta(extra_json_schema={'maxItems': limits.max_length})]
    inputs: dict[str, Any] = {
        TEXT: Annotated[str, Meta(description='raw text')], TEXTS: Annotated[list[str], Meta(description='raw texts')],
        TOKENS: Annotated[sentence, Meta(description='a sentence')],
        SENTENCES: Annotated[list[sentence], Meta(extra_json_schema={'maxItems': limits.max_sentences})]}
    most = limits.max_nbest if info is None or info.gives_nbest else 0
    nbest: Any = Annotated[int, Meta(ge=0, le=most, description='number of n-best taggings to add')]
    only = {} if info is None or info.gives_confidences else {'enum': [False, None]}
    confidence: Any = Annotated[bool | None, Meta(description='whether to add confidences; null: if the model computes '
                                                              'confidences', extra_json_schema=only)]
    names: Any = str if info is None else Literal[tuple(info.splitters)]
    splitter: Any = Annotated[names | None, Meta(description='splitter for raw text; null: the splitter of the model')]
    return {name: msgspec.defstruct(
        f'{name.capitalize()}Request',
        [(name, kind), ('nbest', nbest, 0), ('confidence', confidence, None),
         ('splitter', splitter if name in RAW else None, None)], forbid_unknown_fields=True)
        for name, kind in inputs.items()}


def validated(record: Mapping[str, Any], kind: type[Struct]) -> Struct:
    """Returns a request as an object of type `kind`; raises RequestError with status 422 if the request is invalid.

    Args:
        record: the parsed JSON object.
        kind: a type from `request_types`.
    """
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        path = re.findall(r'\.(\w+)|\[(\d+)\]', str(error).rpartition(' - at `$')[2])
    schema: Any = {'properties': msgspec.json.schema(kind)['$defs'][kind.__name__]['properties']}
    value: Any = record
    for name, index in path:
        value = value[name or int(index)]
        schema = schema['properties'][name] if name else schema['items']
    where = ''.join(f'"{name}"' if name else f'[{index}]' for name, index in path)
    raise RequestError(422, f'expected {where} to be {_in_words(schema)}, got {brief(value)}')


def _in_words(schema: Mapping[str, Any]) -> str:
    """Returns the values that a JSON schema allows, in words, such as 'a list'."""
    if 'anyOf' in schema:
        return ' or '.join(map(_in_words, schema['anyOf']))
    return {'string': 'a string that is not empty' if 'minLength' in schema else 'a string', 'array': 'a list',
            'integer': f'a whole number from {schema.get("minimum")} to {schema.get("maximum")}',
            'boolean': 'true or false', 'null': 'null'}[schema['type']]


_REF = '#/components/schemas/{name}'


def _ref(name: str) -> dict[str, str]:
    return {'$ref': _REF.format(name=name)}


def _content(kind: str = 'application/json', **schema: Any) -> dict[str, Any]:
    return {kind: {'schema': schema}}


def _answer(text: str, *kind: str, **schema: Any) -> dict[str, Any]:
    return {'description': text, 'content': _content(*kind, **schema)}


def _errors(**texts: str) -> dict[str, Any]:
    """Returns the OpenAPI responses of errors. Keyword names are an underscore and the status, such as `_503`."""
    answers = {name.removeprefix('_'): _answer(text, **_ref('Error')) for name, text in texts.items()}
    if '503' in answers:
        answers['503']['headers'] = {'Retry-After': {'schema': {'type': 'integer'}, 'description': 'seconds'}}
    return answers


def _operation(text: str, locked: bool, answer: dict[str, Any], **errors: str) -> dict[str, Any]:
    """Returns an OpenAPI operation; `locked` says whether it needs a token."""
    operation: dict[str, Any] = {'summary': text, 'responses': {'200': answer, **_errors(**errors)}}
    if locked:
        operation['responses'] |= _errors(_401='missing or wrong token')
        operation['security'] = [{'token': []}]
    return operation


def document(limits: Limits, locked: bool, any_host: bool, info: ModelInfo | None) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document of the server.

    Args:
        limits: limits of requests.
        locked: whether the server has a token.
        any_host: whether requests may name other hosts than the loopback.
        info: the model; None while no model is loaded.
    """
    types = [*request_types(limits, info).values(), Tagged, Texts, Model, Status, Error]
    (*requests, tagged, texts, _, _, _), schemas = msgspec.json.schema_components(types, ref_template=_REF)
    loading = 'no model is loaded'
    tag = _operation(
        'Tags text or tokens', locked,
        {'description': 'one record for each sentence; for "texts" one list of records for each text; with the header '
                        '"Accept: text/html" an HTML fragment',
         'content': _content(anyOf=[tagged, texts]) | _content('text/html', type='string')},
        _400='invalid JSON or HTTP', _408='the client was too slow',
        _413='too many bytes, sentences or tokens, or a sentence is too long',
        _415='not application/json, or compressed', _422='invalid values, or a feature that the model does not have',
        _500='the request cannot be tagged',
        _503=f'{loading}, the queue is full, or the answer took longer than {limits.timeout:g} seconds')
    tag['requestBody'] = {'required': True, 'content': _content(**_ref('Request'))}
    status = _ref('Status')
    paths: dict[str, Any] = {
        '/v1/tag': {'post': tag},
        '/v1/model': {'get': _operation('Describes the model', locked, _answer('the model', **_ref('Model')),
                                        _503=loading)},
        '/healthz': {'get': _operation('Health check: the server runs', False,
                                       _answer('the server runs', **status))},
        '/readyz': {'get': _operation('Readiness check: a model is loaded', False,
                                      _answer('a model is loaded', **status), _503=loading)},
        '/metrics': {'get': _operation('Prometheus metrics', locked,
                                       _answer('the metrics', 'text/plain', type='string'))},
        '/openapi.json': {'get': _operation('This document', False, _answer('the document', type='object'))},
        '/': {'get': _operation('HTML page for pasting text', False,
                                _answer('the page', 'text/html', type='string'), _503=loading)}}
    components: dict[str, Any] = {'schemas': {'Request': {'oneOf': requests}, **schemas}}
    if locked:
        components['securitySchemes'] = {'token': {'type': 'http', 'scheme': 'bearer'}}
        paths['/v1/reload'] = {'post': _operation(
            'Loads the run again; the answer comes when the new model is active', True,
            _answer('the new model is active', **status),
            _500='the run cannot be loaded; the old model stays active', _503='the server is shutting down')}
    if not any_host:
        for methods in paths.values():
            for operation in methods.values():
                operation['responses'] |= _errors(_421='the Host header does not name the loopback')
    return {'openapi': '3.1.0', 'info': {'title': 'ms_crf', 'version': VERSION, 'description': 'A sequence tagger.'},
            'paths': paths, 'components': components}
