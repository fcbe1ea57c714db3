"""Records read into dataclasses: which JSON values each field accepts, and the message for all other values."""

from dataclasses import dataclass
from typing import Any

from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import checked, distinct_strings, errors_in, load_record

import pytest


@dataclass(kw_only=True)
class Record:
    format: int = checked(choices=(1,), advice='train again')
    kind: str = checked(choices=('a', 'b'))
    share: float = checked(0.5, least=0, most=1)
    flag: bool = checked(None)
    names: list[str] = checked(must=distinct_strings)
    listed: dict[str, list[str]]
    rest: Any


WHOLE = {'format': 1, 'kind': 'a', 'names': ['x', 'y'], 'listed': {'x': ['y']}, 'rest': None}


def test_fields_what_may_be_left_away_gets_its_default_and_further_names_are_left_alone():
    assert load_record(Record, {**WHOLE, 'more': 2}) == Record(**WHOLE, share=0.5, flag=None)
    assert load_record(Record, {**WHOLE, 'share': 1, 'flag': None}).share == 1


@pytest.mark.parametrize('change,message', [
    ({'format': 2}, 'expected "format" to be 1, got 2; train again'), ({'format': True}, '"format" to be 1, got True'),
    ({'format': 1.0}, 'got 1.0; train again'), ({'kind': ['a']}, '"kind" to be one of a, b, got [\'a\']'),
    ({'share': True}, '"share" to be a number, got True'), ({'share': float('nan')}, 'at least 0, got nan'),
    ({'share': 2}, 'at most 1, got 2'), ({'share': None}, 'a number, got None'), ({'flag': 0}, 'true or false, got 0'),
    ({'names': 'xy'}, '"names" to be a list of strings, got \'xy\''), ({'names': ['x', 1]}, 'a list of strings, got'),
    ({'names': ['x', 'x']}, '"names" to be distinct, got \'x\' twice'), ({'names': ['']}, 'not empty, got \'\''),
    ({'listed': {'x': ['y', None]}}, '"listed" to be lists of strings by name'), ({'listed': []}, 'by name, got []')])
def test_fields_the_first_field_that_can_not_be_is_named_with_what_came(change, message):
    with pytest.raises(ValueError) as raised:
        load_record(Record, {**WHOLE, **change})
    assert message in str(raised.value) and len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize('name,message', [
    ('format', 'expected "format" to be 1, got none; train again'),
    ('names', '"names" to be a list of strings, got none'),
    ('rest', 'expected "rest" to be there, got none')])
def test_fields_a_field_that_is_not_there(name, message):
    with pytest.raises(ValueError, match=message):
        load_record(Record, {key: value for key, value in WHOLE.items() if key != name})


def test_fields_a_closed_record_has_these_names_and_no_others():
    whole = {**WHOLE, 'share': 0.1, 'flag': True}
    assert load_record(Record, whole, closed=True).flag
    assert load_record(Record, WHOLE, closed=True).share == 0.5  # an optional field gets its default
    lacking = {name: value for name, value in whole.items() if name != 'names'}
    for other in (lacking, {**whole, 'more': 1}):
        with pytest.raises(ValueError, match='expected the keys format, kind, share, flag, names, listed, rest, got'):
            load_record(Record, other, closed=True)
    for other in ([], None, 'x'):
        with pytest.raises(ValueError, match='expected a JSON object, got '):
            load_record(Record, other)


def test_fields_the_file_is_named_once():
    for error in (ValueError('expected one'), CorpusError('a.json', None, 'expected one')):
        with pytest.raises(CorpusError, match='^a.json: expected one$'), errors_in('a.json'):
            raise error
