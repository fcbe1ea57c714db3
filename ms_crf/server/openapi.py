"""The description of the API in the terms of OpenAPI 3.1, for the model that is served."""

from typing import Any

from ms_crf.base.environment import VERSION
from ms_crf.server.limits import Limits
from ms_crf.server.worker import About

_STRINGS = {'type': 'array', 'items': {'type': 'string'}}
_TOKENS = {'type': 'array', 'items': {'type': 'string', 'minLength': 1}}
_COUNT = {'type': 'integer', 'minimum': 0}
_SHARE = {'type': 'number', 'minimum': 0, 'maximum': 1}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {'type': 'object', 'properties': properties, 'required': [name for name in properties
                                                                     if name not in optional]}


def _input(name: str, schema: dict[str, Any], limits: Limits, about: About | None, raw: bool) -> dict[str, Any]:
    most = limits.max_nbest if about is None or about.gives_nbest else 0
    options: dict[str, Any] = {
        'nbest': {'type': 'integer', 'minimum': 0, 'maximum': most, 'default': 0,
                  'description': 'how many of the likeliest taggings to add'},
        'confidence': {'enum': [*([True] if about is None or about.gives_confidences else []), False, None],
                       'description': 'null: if the model gives confidences'}}
    if raw:
        splitters: dict[str, Any] = {'type': ['string', 'null']} if about is None else {
            'enum': [*about.splitters, None]}
        options['splitter'] = {**splitters, 'description': 'what cuts the text; null: as the model was trained'}
    return {**_object({name: schema, **options}, *options), 'additionalProperties': False}


def _schemas(limits: Limits, about: About | None) -> dict[str, Any]:
    entity = _object({'type': {'type': 'string'}, 'text': {'type': 'string'}, 'first': _COUNT, 'last': _COUNT,
                      'start': _COUNT, 'end': _COUNT, 'confidence': _SHARE}, 'confidence')
    other = _object({'tags': _STRINGS, 'confidence': _SHARE})
    sentence = _object({
        'text': {'type': 'string'}, 'tokens': _TOKENS, 'tags': _STRINGS,
        'entities': {'type': 'array', 'items': {'$ref': '#/components/schemas/Entity'}},
        'confidences': {'type': 'array', 'items': _SHARE}, 'confidence': _SHARE,
        'alternatives': {'type': 'array', 'items': {'$ref': '#/components/schemas/Alternative'}},
        'start': _COUNT, 'end': _COUNT,
        'offsets': {'type': 'array', 'items': {'type': 'array', 'items': _COUNT, 'minItems': 2, 'maxItems': 2}}},
        'confidences', 'confidence', 'alternatives', 'start', 'end', 'offsets')
    tagged = _object({'sentences': {'type': 'array', 'items': {'$ref': '#/components/schemas/Sentence'}}})
    return {
        'Request': {'oneOf': [
            _input('text', {'type': 'string', 'description': 'raw text'}, limits, about, True),
            _input('texts', {**_STRINGS, 'description': 'raw texts'}, limits, about, True),
            _input('tokens', {**_TOKENS, 'maxItems': limits.max_length, 'description': 'a sentence'}, limits,
                   about, False),
            _input('sentences', {'type': 'array', 'items': {**_TOKENS, 'maxItems': limits.max_length},
                                 'maxItems': limits.max_sentences}, limits, about, False)]},
        'Entity': entity, 'Alternative': other, 'Sentence': sentence, 'Tagged': tagged,
        'Texts': _object({'texts': {'type': 'array', 'items': {'$ref': '#/components/schemas/Tagged'}}}),
        'Model': _object({'name': {'type': 'string'}, 'kind': {'type': 'string'}, 'scheme': {'type': 'string'},
                          'tags': _STRINGS, 'characters': {'type': 'boolean'}, 'splitter': {'type': 'string'},
                          'confidence': {'type': 'boolean'}, 'nbest': {'type': 'boolean'},
                          'loaded': {'type': 'string', 'format': 'date-time'}, 'version': {'type': 'string'},
                          'limits': {'type': 'object', 'additionalProperties': {'type': 'number'}}}),
        'Status': _object({'status': {'type': 'string'}}),
        'Error': _object({'error': {'type': 'string', 'description': 'what was expected, and what came'}})}


def _json(name: str, text: str) -> dict[str, Any]:
    return {'description': text, 'content': {'application/json': {'schema': {'$ref': f'#/components/schemas/{name}'}}}}


def _faults(**texts: str) -> dict[str, Any]:
    answers = {name.removeprefix('of_'): _json('Error', text) for name, text in texts.items()}
    for name in ('503',):
        if name in answers:
            answers[name]['headers'] = {'Retry-After': {'schema': {'type': 'integer'}, 'description': 'seconds'}}
    return answers


def _operation(text: str, answers: dict[str, Any], locked: bool = False, method: str = 'get') -> dict[str, Any]:
    operation: dict[str, Any] = {'summary': text, 'responses': answers}
    if locked:
        operation['security'] = [{'token': []}]
    return {method: operation}


def document(limits: Limits, locked: bool, any_host: bool, about: About | None) -> dict[str, Any]:
    """The document.

    Args:
        limits: of requests.
        locked: whether a token is asked for.
        any_host: whether requests may name other hosts than the loopback.
        about: the model; None while it is loaded.
    """
    closed = _faults(of_401='no token, or another one') if locked else {}
    loading = _faults(of_503='no model is loaded')
    busy = _faults(of_503='no model is loaded, too many requests wait, or the answer took longer than '
                          f'{limits.timeout:g} seconds')
    broken = _faults(of_408='it came too slowly', of_413='the body, its sentences or tokens are too many',
                     of_415='not application/json', of_400='no JSON, or no HTTP',
                     of_422='JSON of another form, or what the model does not do', of_500='it can not be tagged')
    tagging: dict[str, Any] = {
        'summary': 'Tags text or tokens',
        'requestBody': {'required': True,
                        'content': {'application/json': {'schema': {'$ref': '#/components/schemas/Request'}}}},
        'responses': {'200': {
            'description': 'a record for each sentence; of "texts" a list for each text; or, where text/html is '
                           'accepted, the sentences as a piece of a page',
            'content': {'application/json': {'schema': {'anyOf': [{'$ref': '#/components/schemas/Tagged'},
                                                                  {'$ref': '#/components/schemas/Texts'}]}},
                        'text/html': {'schema': {'type': 'string'}}}},
            **broken, **busy, **closed}}
    if locked:
        tagging['security'] = [{'token': []}]
    text = {'description': 'text', 'content': {'text/plain': {'schema': {'type': 'string'}}}}
    page = {'description': 'a page', 'content': {'text/html': {'schema': {'type': 'string'}}}}
    components: dict[str, Any] = {'schemas': _schemas(limits, about)}
    if locked:
        components['securitySchemes'] = {'token': {'type': 'http', 'scheme': 'bearer'}}
    document: dict[str, Any] = {
        'openapi': '3.1.0', 'info': {'title': 'ms_crf', 'version': VERSION, 'description': 'A sequence tagger.'},
        'paths': {
            '/v1/tag': {'post': tagging},
            '/v1/model': _operation('What model it is', {'200': _json('Model', 'the model'), **loading, **closed},
                                    locked),
            '/healthz': _operation('Whether the server runs', {'200': _json('Status', 'it does')}),
            '/readyz': _operation('Whether requests are answered', {'200': _json('Status', 'they are'), **loading}),
            '/metrics': _operation('Counters for Prometheus', {'200': text, **closed}, locked),
            '/openapi.json': _operation('This document', {'200': {'description': 'the document',
                                                            'content': {'application/json': {'schema':
                                                                        {'type': 'object'}}}}}),
            '/': _operation('A page to paste text into', {'200': page, **loading})},
        'components': components}
    if locked:
        document['paths']['/v1/reload'] = _operation(
            'Loads the run again, and answers when that is done',
            {'200': _json('Status', 'it is loaded'), **closed,
             **_faults(of_500='it cannot be loaded; the model that was there continues', of_503='the server ends')},
            True, 'post')
    if not any_host:
        for methods in document['paths'].values():
            for operation in methods.values():
                operation['responses'].update(_faults(of_421='the Host header does not name the loopback'))
    return document
