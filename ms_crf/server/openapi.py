"""The description of the API in the terms of OpenAPI 3.1, for the model that is served."""

from typing import Any

from ms_crf.base.environment import VERSION
from ms_crf.server.limits import Limits
from ms_crf.server.schema import Error, Model, Status, Tagged, Texts, request_types
from ms_crf.server.worker import About

import msgspec

_REF = '#/components/schemas/{name}'


def _content(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {kind: {'schema': schema}}


def _json(name: str, text: str) -> dict[str, Any]:
    return {'description': text, 'content': _content('application/json', {'$ref': _REF.format(name=name)})}


def _errors(**texts: str) -> dict[str, Any]:
    """The answers to refused requests by status, which stands behind an underscore."""
    answers = {name.removeprefix('_'): _json('Error', text) for name, text in texts.items()}
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
         'content': {**_content('application/json', {'anyOf': [tagged, texts]}),
                     **_content('text/html', {'type': 'string'})}},
        _400='no JSON, or no HTTP', _408='it came too slowly', _413='the body, its sentences or tokens are too many',
        _415='not application/json', _422='JSON of another form, or what the model does not do',
        _500='it can not be tagged',
        _503=f'{loading}, too many requests wait, or the answer took longer than {limits.timeout:g} seconds')
    tag['requestBody'] = {'required': True,
                          'content': _content('application/json', {'$ref': _REF.format(name='Request')})}
    paths: dict[str, Any] = {
        '/v1/tag': {'post': tag},
        '/v1/model': {'get': _operation('What model it is', locked, _json('Model', 'the model'), _503=loading)},
        '/healthz': {'get': _operation('Whether the server runs', False, _json('Status', 'it does'))},
        '/readyz': {'get': _operation('Whether requests are answered', False, _json('Status', 'they are'),
                                      _503=loading)},
        '/metrics': {'get': _operation('Counters for Prometheus', locked, {
            'description': 'text', 'content': _content('text/plain', {'type': 'string'})})},
        '/openapi.json': {'get': _operation('This document', False, {
            'description': 'the document', 'content': _content('application/json', {'type': 'object'})})},
        '/': {'get': _operation('A page to paste text into', False, {
            'description': 'a page', 'content': _content('text/html', {'type': 'string'})}, _503=loading)}}
    components: dict[str, Any] = {'schemas': {'Request': {'oneOf': requests}, **schemas}}
    if locked:
        components['securitySchemes'] = {'token': {'type': 'http', 'scheme': 'bearer'}}
        paths['/v1/reload'] = {'post': _operation(
            'Loads the run again, and answers when that is done', True, _json('Status', 'it is loaded'),
            _500='it cannot be loaded; the model that was there continues', _503='the server ends')}
    if not any_host:
        for methods in paths.values():
            for operation in methods.values():
                operation['responses'] |= _errors(_421='the Host header does not name the loopback')
    return {'openapi': '3.1.0', 'info': {'title': 'ms_crf', 'version': VERSION, 'description': 'A sequence tagger.'},
            'paths': paths, 'components': components}
