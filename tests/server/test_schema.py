"""Validation of requests: which values are refused with which message, and what the OpenAPI description allows."""

import json

import pytest

pytest.importorskip('msgspec', reason="the server's libraries are missing: pip install -r requirements-serve.txt")
from ms_crf.server.limits import Limits, RequestError  # noqa: E402
from ms_crf.server.process import ModelInfo  # noqa: E402
from ms_crf.server.reading import parse_request  # noqa: E402
from ms_crf.server.schema import document, request_types  # noqa: E402

TYPES = request_types(Limits(max_nbest=4))
FILLED = 'a string that is not empty'


@pytest.mark.parametrize('record,where,expected,got', [
    ({'text': 3}, '"text"', 'a string', '3'), ({'text': None}, '"text"', 'a string', 'None'),
    ({'texts': 'a'}, '"texts"', 'a list', "'a'"), ({'texts': ['a', None]}, '"texts"[1]', 'a string', 'None'),
    ({'tokens': ['a', '']}, '"tokens"[1]', FILLED, "''"), ({'tokens': [['a']]}, '"tokens"[0]', FILLED, "['a']"),
    ({'sentences': {'a': 1}}, '"sentences"', 'a list', "{'a': 1}"),
    ({'sentences': [[], 'a']}, '"sentences"[1]', 'a list', "'a'"),
    ({'sentences': [[], ['a', 'b', 1]]}, '"sentences"[1][2]', FILLED, '1'),
    ({'text': '', 'nbest': -1}, '"nbest"', 'a whole number from 0 to 4', '-1'),
    ({'text': '', 'nbest': 5}, '"nbest"', 'a whole number from 0 to 4', '5'),
    ({'text': '', 'nbest': True}, '"nbest"', 'a whole number from 0 to 4', 'True'),
    ({'text': '', 'nbest': 1.0}, '"nbest"', 'a whole number from 0 to 4', '1.0'),
    ({'text': '', 'confidence': 1}, '"confidence"', 'true or false or null', '1'),
    ({'text': '', 'splitter': []}, '"splitter"', 'a string or null', '[]')])
def test_schema_names_the_place_what_was_expected_and_what_came(record, where, expected, got):
    with pytest.raises(RequestError) as error:
        parse_request(json.dumps(record).encode(), TYPES)
    assert (error.value.status, error.value.message) == (422, f'expected {where} to be {expected}, got {got}')


def test_schema_keeps_values_as_they_came():
    sentences = [['\ud800', '\U0001f600', ' '], []]
    record = {'sentences': sentences, 'nbest': 4, 'confidence': False, 'splitter': None}
    assert parse_request(json.dumps(record).encode(), TYPES) == ('sentences', sentences, False, 4, None)
    assert parse_request(b'{"texts": []}', TYPES) == ('texts', [], None, 0, None)


def test_schema_description_allows_what_the_model_computes():
    info = ModelInfo('hmm', 'BIO', ['O'], False, 'spacy-en', False, False)
    schemas = document(Limits(max_length=7), False, False, info)['components']['schemas']
    request = schemas['TextsRequest']['properties']
    assert (request['nbest']['minimum'], request['nbest']['maximum'], request['nbest']['default']) == (0, 0, 0)
    assert request['confidence']['enum'] == [False, None]
    assert {'enum': ['blanks', 'characters', 'characters+words', 'spacy-en']} in request['splitter']['anyOf']
    assert schemas['TokensRequest']['properties']['tokens']['maxItems'] == 7
    assert schemas['TokensRequest']['required'] == ['tokens']
    assert [one['$ref'].rpartition('/')[2] for one in schemas['Request']['oneOf']] == [
        'TextRequest', 'TextsRequest', 'TokensRequest', 'SentencesRequest']
