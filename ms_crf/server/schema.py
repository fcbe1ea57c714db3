"""Types of requests and answers; validation, messages of invalid requests and the OpenAPI document follow from them.

Requests are validated by msgspec, and not by pydantic, which is ten times as large and refuses the halves of surrogate
pairs that JSON may hold.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ms_crf.base.environment import VERSION
from ms_crf.base.errors import brief
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.process import About

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

TEXT, TEXTS, TOKENS, SENTENCES = INPUTS = ('text', 'texts', 'tokens', 'sentences')
OPTIONS = ('nbest', 'confidence', 'splitter')
RAW = (TEXT, TEXTS)                    # inputs that a splitter cuts

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
    """The model that is served."""

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
    """Why a request is refused."""

    error: Annotated[str, Meta(description='what was expected, and what came')]


def request_types(limits: Limits, about: About | None = None) -> dict[str, type[Struct]]:
    """Returns the type of a request for each of `INPUTS`.

    Args:
        limits: of requests. More tokens or sentences than allowed are valid, but refused with status 413.
        about: the model, so that requests that the model refuses are invalid; None for any model.
    """
    sentence: Any = Annotated[list[Token], Meta(extra_json_schema={'maxItems': limits.max_length})]
    inputs: dict[str, Any] = {
        TEXT: Annotated[str, Meta(description='raw text')], TEXTS: Annotated[list[str], Meta(description='raw texts')],
        TOKENS: Annotated[sentence, Meta(description='a sentence')],
        SENTENCES: Annotated[list[sentence], Meta(extra_json_schema={'maxItems': limits.max_sentences})]}
    most = limits.max_nbest if about is None or about.gives_nbest else 0
    nbest: Any = Annotated[int, Meta(ge=0, le=most, description='how many of the likeliest taggings to add')]
    only = {} if about is None or about.gives_confidences else {'enum': [False, None]}
    confidence: Any = Annotated[bool | None, Meta(description='null: if the model gives confidences',
                                                  extra_json_schema=only)]
    names: Any = str if about is None else Literal[tuple(about.splitters)]
    splitter: Any = Annotated[names | None, Meta(description='what cuts the text; null: as the model was trained')]
    return {name: msgspec.defstruct(
        f'{name.capitalize()}Request',
        [(name, kind), ('nbest', nbest, 0), ('confidence', confidence, None),
         ('splitter', splitter if name in RAW else None, None)], forbid_unknown_fields=True)
        for name, kind in inputs.items()}


def checked(record: Mapping[str, Any], kind: type[Struct]) -> Struct:
    """Returns a request as an object of one of `request_types`; raises Refused if it is invalid."""
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
    raise Refused(422, f'expected {where} to be {_in_words(schema)}, got {brief(value)}')


def _in_words(schema: Mapping[str, Any]) -> str:
    """What a schema allows."""
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
    """The answers to refused requests by status, which stands behind an underscore."""
    answers = {name.removeprefix('_'): _answer(text, **_ref('Error')) for name, text in texts.items()}
    if '503' in answers:
        answers['503']['headers'] = {'Retry-After': {'schema': {'type': 'integer'}, 'description': 'seconds'}}
    return answers


def _operation(text: str, locked: bool, answer: dict[str, Any], **errors: str) -> dict[str, Any]:
    """An operation; `locked` if it asks for a token."""
    operation: dict[str, Any] = {'summary': text, 'responses': {'200': answer, **_errors(**errors)}}
    if locked:
        operation['responses'] |= _errors(_401='no token, or another one')
        operation['security'] = [{'token': []}]
    return operation


def document(limits: Limits, locked: bool, any_host: bool, about: About | None) -> dict[str, Any]:
    """Returns the document.

    Args:
        limits: of requests.
        locked: whether a token is asked for.
        any_host: whether requests may name other hosts than the loopback.
        about: the model; None while it is loaded.
    """
    types = [*request_types(limits, about).values(), Tagged, Texts, Model, Status, Error]
    (*requests, tagged, texts, _, _, _), schemas = msgspec.json.schema_components(types, ref_template=_REF)
    loading = 'no model is loaded'
    tag = _operation(
        'Tags text or tokens', locked,
        {'description': 'a record for each sentence; of "texts" a list for each text; or, where text/html is accepted, '
                        'the sentences as a piece of a page',
         'content': _content(anyOf=[tagged, texts]) | _content('text/html', type='string')},
        _400='no JSON, or no HTTP', _408='it came too slowly', _413='the body, its sentences or tokens are too many',
        _415='not application/json', _422='JSON of another form, or what the model does not do',
        _500='it can not be tagged',
        _503=f'{loading}, too many requests wait, or the answer took longer than {limits.timeout:g} seconds')
    tag['requestBody'] = {'required': True, 'content': _content(**_ref('Request'))}
    status = _ref('Status')
    paths: dict[str, Any] = {
        '/v1/tag': {'post': tag},
        '/v1/model': {'get': _operation('What model it is', locked, _answer('the model', **_ref('Model')),
                                        _503=loading)},
        '/healthz': {'get': _operation('Whether the server runs', False, _answer('it does', **status))},
        '/readyz': {'get': _operation('Whether requests are answered', False, _answer('they are', **status),
                                      _503=loading)},
        '/metrics': {'get': _operation('Counters for Prometheus', locked,
                                       _answer('text', 'text/plain', type='string'))},
        '/openapi.json': {'get': _operation('This document', False, _answer('the document', type='object'))},
        '/': {'get': _operation('A page to paste text into', False, _answer('a page', 'text/html', type='string'),
                                _503=loading)}}
    components: dict[str, Any] = {'schemas': {'Request': {'oneOf': requests}, **schemas}}
    if locked:
        components['securitySchemes'] = {'token': {'type': 'http', 'scheme': 'bearer'}}
        paths['/v1/reload'] = {'post': _operation(
            'Loads the run again, and answers when that is done', True, _answer('it is loaded', **status),
            _500='it cannot be loaded; the model that was there continues', _503='the server ends')}
    if not any_host:
        for methods in paths.values():
            for operation in methods.values():
                operation['responses'] |= _errors(_421='the Host header does not name the loopback')
    return {'openapi': '3.1.0', 'info': {'title': 'ms_crf', 'version': VERSION, 'description': 'A sequence tagger.'},
            'paths': paths, 'components': components}
