"""Tests hand-written JSON in the layouts that annotation tools export.

The tests check which texts and spans are read, and which input is rejected.
"""

import gzip
import itertools
import json
import pickle
import re

from ms_crf.base.errors import CorpusError
from ms_crf.formats import json_lines, json_records
from ms_crf.formats.document import ReadOptions
from ms_crf.formats.registry import read_corpus

import pytest

from support.paths import ROOT

TEXT = 'Ada saw Lisbon.'
PAIR = [(TEXT, [(0, 3, 'PER'), (8, 14, 'LOC')])]

DOCCANO = '{"id": 7, "text": "Ada saw Lisbon.", "label": [[0, 3, "PER"], [8, 14, "LOC"]], "Comments": []}\n'
DOCCANO_OLD = '{"id": 7, "text": "Ada saw Lisbon.", "labels": [[0, 3, "PER"], [8, 14, "LOC"]], "meta": {}}\n'
DOCCANO_RELATIONS = '''{"id": 7, "text": "Ada saw Lisbon.", "entities": [{"id": 1, "label": "PER", "start_offset": 0, \
"end_offset": 3}, {"id": 2, "label": "LOC", "start_offset": 8, "end_offset": 14}], "relations": []}
'''
LABEL_STUDIO = '''[
  {"id": 1, "project": 3, "data": {"text": "Ada saw Lisbon."}, "predictions": [],
   "annotations": [
    {"id": 11, "completed_by": 1, "was_cancelled": false, "ground_truth": false, "lead_time": 2.5, "result": [
      {"id": "a", "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual",
       "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}},
      {"id": "b", "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual",
       "value": {"start": 8, "end": 14, "text": "Lisbon", "labels": ["LOC"]}}]}]}
]
'''
LABEL_STUDIO_MIN = '''[{"text": "Ada saw Lisbon.", "id": 1, "annotator": 1, "annotation_id": 11,
  "label": [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]},
            {"start": 8, "end": 14, "text": "Lisbon", "labels": ["LOC"]}]}]'''
PRODIGY = '''{"text": "Ada saw Lisbon.", "_input_hash": 1, "_task_hash": 2, "tokens": [\
{"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": true}, {"text": "saw", "start": 4, "end": 7, "id": 1, "ws": true},\
 {"text": "Lisbon", "start": 8, "end": 14, "id": 2, "ws": false}, {"text": ".", "start": 14, "end": 15, "id": 3}], \
"spans": [{"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "PER"}, \
{"start": 8, "end": 14, "token_start": 2, "token_end": 2, "label": "LOC"}], "answer": "accept"}
'''
SPACY = '[["Ada saw Lisbon.", {"entities": [[0, 3, "PER"], [8, 14, "LOC"]]}]]'
SPACY_LINES = '["Ada saw Lisbon.", {"entities": [[0, 3, "PER"], [8, 14, "LOC"]]}]\n'


def write(folder, text, name='in.jsonl'):
    path = folder / name
    path.write_text(text, encoding='utf-8')
    return path


def found(path):
    """Reads a file and returns (text, spans) of each document and (kind, line, text) of each remark."""
    remarks = []
    documents = [(document.text, [(span.start, span.end, span.type) for span in document.spans])
                 for document in json_records.read(path, ReadOptions(report=remarks.append))]
    return documents, [(remark.kind, remark.line, remark.text) for remark in remarks]


@pytest.mark.parametrize('export', [DOCCANO, DOCCANO_OLD, DOCCANO_RELATIONS, LABEL_STUDIO, LABEL_STUDIO_MIN, PRODIGY,
                                    SPACY, SPACY_LINES, '\ufeff' + DOCCANO, LABEL_STUDIO.replace('\n', '\r\n')])
def test_json_shapes_the_exports_of_tools(tmp_path, export):
    assert found(write(tmp_path, export)) == (PAIR, [])
    (tmp_path / 'in.json.gz').write_bytes(gzip.compress(export.encode()))
    assert found(tmp_path / 'in.json.gz') == (PAIR, [])


@pytest.mark.parametrize('name', ['entities', 'spans', 'label', 'labels'])
@pytest.mark.parametrize('span', [[8, 14, 'LOC'], {'start': 8, 'end': 14, 'label': 'LOC'},
                                  {'start': 8, 'end': 14, 'type': 'LOC'}, {'start': 8, 'end': 14, 'labels': ['LOC']}])
def test_json_shapes_spans_under_each_name_and_in_each_form(tmp_path, name, span):
    path = write(tmp_path, json.dumps({'text': TEXT, name: [span]}))
    assert found(path) == ([(TEXT, [(8, 14, 'LOC')])], [])


def test_json_shapes_the_records_of_the_documentation(tmp_path):
    page = (ROOT / 'docs' / 'formats.md').read_text(encoding='utf-8').split('### JSON')[1].split('### brat')[0]
    shown = re.findall(r'`([\[{][^`]*Ada saw Rome[^`]*[\]}])`', page)
    assert len(shown) == 5
    for record in shown:
        (text, spans), = found(write(tmp_path, record))[0]
        assert text == 'Ada saw Rome' and spans[0] == (0, 3, 'PER')


def test_json_shapes_tokens_of_prodigy_are_kept(tmp_path):
    """Checks that Prodigy's tokens are kept. Splitting at spaces would not separate the full stop."""
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    sentence, = read_corpus(write(tmp_path, PRODIGY))
    assert (sentence.tokens, sentence.tags) == (['Ada', 'saw', 'Lisbon', '.'], ['B-PER', 'O', 'B-LOC', 'O'])
    assert (sentence.line, sentence.line_of(3)) == (1, 1)


def test_json_shapes_tokens_and_tags_stay_as_they_are(tmp_path):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    rows = [{'tokens': ['a b', 'c'], 'tags': ['O', 'B'], 'text': 'a b c', 'entities': [[0, 1, 'X']]},
            {'text': 'Ada left', 'entities': [[0, 3, 'PER']]}]
    path = write(tmp_path, '\n\n'.join(map(json.dumps, rows)))
    assert [(one.tokens, one.tags, one.line, one.line_of(1)) for one in read_corpus(path)] == [
        (['a b', 'c'], ['O', 'B'], 1, 1), (['Ada', 'left'], ['B-PER', 'O'], 3, 3)]
    path = write(tmp_path, json.dumps(rows), 'in.json')
    assert [(sentence.tokens, sentence.tags) for sentence in read_corpus(path)] == [(['a b', 'c'], ['O', 'B']),
                                                                (['Ada', 'left'], ['B-PER', 'O'])]


def test_json_shapes_lines_of_records_in_an_array(tmp_path):
    text = '[\n{"text": "a\\nb",\n "label": []},\n\n {"text": "c", "label": [[0, 1, "X"]]}\n]\n'
    path = write(tmp_path, text, 'x.json')
    assert [sentence.line for sentence in read_corpus(path, splitter='blanks')] == [2, 2, 5]


def test_json_shapes_offsets_in_units_of_utf16_are_known_by_the_text(tmp_path):
    """Checks that the text of a span shows whether offsets count characters or UTF-16 code units.

    Tools in browsers count UTF-16 code units, so a character beyond U+FFFF counts as two.
    """
    task = {'data': {'text': '\U0001f4a9 Ada \U0001f600 x'}, 'annotations': [{'result': [
        {'value': {'start': 3, 'end': 9, 'text': 'Ada \U0001f600', 'labels': ['PER']}}]}]}
    assert found(write(tmp_path, json.dumps([task])))[0][0][1] == [(2, 7, 'PER')]
    task['annotations'][0]['result'][0]['value'].update(start=2, end=7)
    assert found(write(tmp_path, json.dumps([task])))[0][0][1] == [(2, 7, 'PER')]


def test_json_shapes_offsets_in_units_of_utf16_of_a_span_at_the_end_of_a_text(tmp_path):
    """Checks UTF-16 offsets of a span at the end of a text.

    Python truncates a slice at the end of a string. So the same offsets, read as characters, also give the text of the
    span.
    """
    task = {'data': {'text': 'Ada \U0001f600'}, 'annotations': [{'result': [
        {'value': {'start': 4, 'end': 6, 'text': '\U0001f600', 'labels': ['X']}}]}]}
    assert found(write(tmp_path, json.dumps([task])))[0][0][1] == [(4, 5, 'X')]


def test_json_shapes_offsets_in_units_of_utf16_where_they_differ_by_white_space_alone(tmp_path):
    task = {'data': {'text': 'an \U0001f600 Ada'}, 'annotations': [{'result': [
        {'value': {'start': 3, 'end': 5, 'text': '\U0001f600', 'labels': ['X']}}]}]}
    assert found(write(tmp_path, json.dumps([task])))[0][0][1] == [(3, 4, 'X')]
    task['annotations'][0]['result'][0]['value'].update(text='\U0001f600 ')
    assert found(write(tmp_path, json.dumps([task])))[0][0][1] == [(3, 5, 'X')]


def test_json_shapes_a_text_with_byte_order_marks_between_its_tokens_is_kept(tmp_path):
    record = {'text': 'Ada \ufeff saw', 'tokens': ['Ada', 'saw'], 'tags': ['B-PER', 'O']}
    assert found(write(tmp_path, json.dumps(record)))[0] == [('Ada \ufeff saw', [])]


def test_json_shapes_what_is_left_out_is_reported(tmp_path):
    span = {'id': 'a', 'type': 'labels', 'value': {'start': 0, 'end': 1, 'text': 'b', 'labels': ['X', 'Y']}}
    choice = {'id': 'b', 'type': 'choices', 'value': {'choices': ['good']}}
    relation = {'from_id': 'a', 'to_id': 'a', 'type': 'relation', 'direction': 'right'}
    tasks = [{'data': {'text': 'a'}, 'annotations': []},
             {'data': {'text': 'b'}, 'annotations': [{'result': [], 'was_cancelled': True},
                                                     {'result': [span, choice, relation]}, {'result': []}]},
             {'data': {'content': 'c', 'number': 4}, 'annotations': [{'result': [], 'was_cancelled': True}]}]
    path = write(tmp_path, '[' + ',\n'.join(map(json.dumps, tasks)) + ']')
    assert found(path) == ([('b', [(0, 1, 'X'), (0, 1, 'Y')])], [
        ('unlabelled', 1, 'a'), ('second', 2, 'b'), ('ignored', 2, 'b'), ('ignored', 2, 'b'), ('rejected', 3, 'c')])
    rows = [{'text': 'a', 'answer': 'reject', 'spans': []}, {'text': 'b', 'answer': 'ignore'},
            {'text': 'c', 'answer': 'accept'}, {'text': 'd', 'entities': [], 'relations': [{'id': 1}]}]
    assert found(write(tmp_path, '\n'.join(map(json.dumps, rows)))) == (
        [('c', []), ('d', [])], [('rejected', 1, 'a'), ('rejected', 2, 'b'), ('ignored', 4, 'd')])


@pytest.mark.parametrize('text,message', [
    ('{"text": 5, "label": []}', ':1: expected "text" to be a string, got 5'),
    ('\n{"text": "a"}', ':2: expected spans under "entities", "spans", "label", "labels", or "tokens" and "tags", got '
                        '"text"'),
    ('{"text": "a", "label": [[0, 1]]}', ':1: expected a span as [start, end, type] or as an object with "start", '
                                         '"end" and "label", got [0, 1]'),
    ('{"text": "a", "label": [[0, 1, 3]]}', ':1: expected a span as [start, end, type] or as an object'),
    ('{"text": "a", "label": ["positive"]}', ':1: expected a span as [start, end, type] or as an object'),
    ('{"text": "a", "label": [[0, 1.5, "X"]]}', ':1: expected a span as [start, end, type] or as an object'),
    ('{"text": "a", "label": [[true, 1, "X"]]}', ':1: expected a span as [start, end, type] or as an object'),
    ('{"text": "a", "label": [{"start": 0, "end": 1}]}', ':1: expected a span as [start, end, type] or as an object'),
    ('{"text": "a", "label": [[0, 2, "X"]]}', ':1: expected a span from 0 to 1, the length of its text, its start not '
                                              'after its end, got 0 to 2'),
    ('{"text": "abc", "label": [[2, 1, "X"]]}', ':1: expected a span from 0 to 3, the length of its text, its start '
                                                'not after its end, got 2 to 1'),
    ('{"text": "abc", "label": [[-1, 1, "X"]]}', ':1: expected a span from 0 to 3'),
    ('{"text": "abc", "label": [{"start": 0, "end": 1, "label": "X", "text": "c"}]}',
     ":1: expected 'c' at 0 to 1, the text of the span, got 'a'"),
    ('{"text": "abc", "label": [[0, 1, "X"]], "spans": [[0, 1, "X"]]}',
     ':1: expected spans under one key, got spans under "spans" and "label"'),
    ('{"text": "abc", "spans": [], "tokens": [{"start": 1, "end": 2}, {"start": 0, "end": 1}]}',
     ':1: expected tokens in the order of the text, got 0 to 1 after a token that ends at 2'),
    ('{"text": "abc", "spans": [], "tokens": [{"start": 1, "end": "2"}]}', ':1: expected a span from 0 to 3'),
    ('[{"text": "a", "label": []},\n {"text": "a" "label": []}]',
     ":2: expected a JSON object: Expecting ',' delimiter at column 15"),
    ('[{"text": "a", "label": []}\n {"text": "a", "label": []}]', ":2: expected a comma or ] after a record, got "),
    ('[{"text": "a", "label": []},\n', ':1: expected a JSON object: Expecting value at column 29'),
    ('[{"text": "a", "label": []}', ":1: expected a comma or ] after a record, got ''"),
    ('[{"text": "a", "label": []},\n5]', ":2: expected a JSON object, got '5'"),
    ('[\n{"text": "a",\n"label": [], "label": []}]', ":2: expected a JSON object: 'label' appears twice"),
    ('[{"text": "a", "label": [], "x": NaN}]', ':1: expected a JSON object: NaN is not a finite number'),
    ('[{"data": {"a": "x", "b": "y"}, "annotations": []}]', ':1: expected "text", a string, in "data", got {'),
    ('[{"data": {"text": "x"}, "annotations": [5]}]', ':1: expected annotations with a "result" each, got [5]'),
    ('[{"data": {"text": "x"}, "annotations": 5, "predictions": []}]',
     ':1: expected annotations with a "result" each, got 5'),
    ('[{"data": {"text": "x"}, "annotations": [{"result": [{"value": {"start": "/p[1]", "end": "/p[1]", '
     '"labels": ["X"]}}]}]}]', ':1: expected a span as [start, end, type] or as an object'),
    ('[]', ': expected tagged sentences, got none'),
])
def test_json_shapes_faults_are_named_with_file_and_line(tmp_path, text, message):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    path = write(tmp_path, text)
    with pytest.raises(CorpusError) as raised:
        read_corpus(path)
    shown = re.sub(r'(:[0-9]+), record [0-9]+: ', r'\1: ', str(raised.value))    # without the record number
    assert shown.startswith(f'{path}{message}') and len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize('between', ['', '\n'])
def test_json_shapes_a_record_of_an_array_is_named_by_its_number(tmp_path, between):
    """Checks that errors and remarks give the record number in an array, because an array may be one long line."""
    good, ill = '{"text": "Ada saw", "label": [[0, 3, "P"]]}', '{"text": "a", "label": [[0, 9, "X"]]}'
    path = write(tmp_path, '[' + f',{between}'.join([good] * 6 + [ill]) + ']')
    line = 7 if between else 1
    with pytest.raises(CorpusError, match=f':{line}, record 7: expected a span from 0 to 1'):
        read_corpus(path)
    path = write(tmp_path, '[' + f',{between}'.join([good] * 2 + ['{"text": "Ada"x}']) + ']')
    with pytest.raises(CorpusError, match=f':{3 if between else 1}, record 3: expected a JSON object: '):
        read_corpus(path)
    overlapping = '{"text": "Ada saw", "label": [[0, 3, "P"], [0, 3, "Q"]]}'
    path = write(tmp_path, '[' + f',{between}'.join([good] * 3 + [overlapping]) + ']')
    remarks = []
    sentences = read_corpus(path, report=remarks.append)
    assert len(remarks) == 1 and f'{remarks[0].line}' == f'{4 if between else 1}, record 4'
    assert [int(sentence.line) for sentence in pickle.loads(pickle.dumps(sentences))] == (
        [1, 2, 3, 4] if between else [1] * 4)
    assert json.dumps(sentences[3].line) == ('4' if between else '1')
    path = write(tmp_path, f'{good}\n{ill}\n')                   # JSON Lines have line numbers only
    with pytest.raises(CorpusError, match=':2: expected a span from 0 to 1'):
        read_corpus(path)


OBJECT, TOKENS = '{"text": "Ada", "label": [[0, 3, "P"]]}', '{"tokens": ["Ada"], "tags": ["B-P"]}'
PAIR_OF_SPACY, ARRAY = '["Ada", {"entities": [[0, 3, "P"]]}]', '[\n{"text": "Ada",\n"label": [[0, 3, "P"]]}]'


@pytest.mark.parametrize('records', [*itertools.permutations([OBJECT, TOKENS, PAIR_OF_SPACY, ARRAY])])
def test_json_shapes_each_record_shows_what_it_is_whatever_stands_before_it(tmp_path, records):
    sentences = read_corpus(write(tmp_path, '\n'.join(records)), splitter='blanks')
    assert [(sentence.tokens, sentence.tags) for sentence in sentences] == [(['Ada'], ['B-P'])] * 4
    lines, line = [], 1                                      # the first line of each record
    for record in records:
        lines.append(line + (record == ARRAY))
        line += record.count('\n') + 1
    assert [int(sentence.line) for sentence in sentences] == lines
    items = json_records.sentences(enumerate('\n'.join(records).split('\n'), 1), 'x.jsonl', ReadOptions((0,)))
    assert [item.tokens for item in items] == [['Ada']] * 4


@pytest.mark.parametrize('first', [OBJECT, PAIR_OF_SPACY])
@pytest.mark.parametrize('text,message', [
    (OBJECT.replace('3', '9'), ':2: expected a span from 0 to 3'),
    (PAIR_OF_SPACY.replace('3', '9'), ':2: expected a span from 0 to 3'),
    (OBJECT + 'x', f':2: expected a JSON object: Extra data at column {len(OBJECT) + 1}'),
    (OBJECT.replace('Ada', '\t'), ':2: expected a JSON object: Invalid control character at at column 11'),
    ('["Ada", 5]', ":2: expected a JSON object, got '[\"Ada\", 5]'"),
    ('[5, 6]', ":2: expected a JSON object, got '[5, 6]'"),
    ('["Ada", {"a": NaN}]', ':2, record 2: expected a JSON object: NaN is not a finite number'),
    ('["Ada", {"a": 1, "a": 2}]', ":2, record 2: expected a JSON object: 'a' appears twice, expected it once"),
    (f'[{OBJECT},\n{OBJECT.replace("3", "9")}]', ':3, record 3: expected a span from 0 to 3'),
])
def test_json_shapes_faults_of_mixed_records_are_named_with_their_lines(tmp_path, first, text, message):
    path = write(tmp_path, f'{first}\n{text}\n')
    with pytest.raises(CorpusError) as raised:
        read_corpus(path, splitter='blanks')
    assert str(raised.value).startswith(f'{path}{message}')


def test_json_shapes_records_are_read_as_they_arrive(tmp_path):
    """Checks that each record is returned as soon as its line arrives, also if the line begins with a bracket.

    The next line may come much later, because a person may be typing.
    """
    lines = [(1, OBJECT), (2, PAIR_OF_SPACY), None, (3, PAIR_OF_SPACY), None, (4, TOKENS)]
    records = json_lines.records('x.jsonl', iter(lines))
    assert [entry and entry[0] for entry in records] == [1, 2, None, 3, None, 4]
