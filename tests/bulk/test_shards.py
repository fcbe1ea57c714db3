"""Tagging of single shards with a hidden Markov model: each file format, its records and its error messages."""

import gzip
import json
import os
import re
import tracemalloc

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.bulk.rows import Fields
from ms_crf.bulk.shards import shards_of
from ms_crf.bulk.worker import Worker, WorkerSettings
from ms_crf.cli import infer, train
from ms_crf.models.opening import open_model

import pytest

from support.trainings import files

TEXTS = ['to Xan Yan of in', '', 'on  Xel Yel\tby', 'Xor Yor', '\u05e9\u05dc\u05d5\u05dd Xan \U0001f600 e\u0301',
         'at <b> Xan "Yan" \\ \u2028 Zoe']


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('counted') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return str(folder)


@pytest.fixture(scope='module')
def infer_py(run, tmp_path_factory):
    """A function that returns the JSON records of infer.py for lines of text, without `model_version`."""
    def call(texts, *options):
        folder = tmp_path_factory.mktemp('inferred')
        (folder / 'text.txt').write_bytes('\n'.join([*texts, '']).encode())
        assert infer.main(['--run', run, '--input', str(folder / 'text.txt'), '--output', str(folder / 'out.jsonl'),
                           '--format', 'json', *options]) == 0
        found = [json.loads(line) for line in (folder / 'out.jsonl').read_text('utf-8').split('\n')[:-1]]
        assert {record.pop('model_version') for record in found} == {open_model(run).version}
        return found
    return call


def tag(run, source, output, kind='jsonl', **order):
    """Tags a file with one worker; returns the worker's result and the path of the output file."""
    [shard] = shards_of([str(source)], str(output), kind)
    worker = Worker(WorkerSettings(run, 'digest', order.pop('fields', Fields()), kind, **order))
    assert worker.begin().fault is None
    os.makedirs(output, exist_ok=True)
    return worker.tag(shard, shard.target + '.draft'), shard.target


def packed(name, data):
    """The data, compressed if the ending of the name is .gz or .zst."""
    if name.endswith('.gz'):
        return gzip.compress(data)
    if name.endswith('.zst'):
        arrow = pytest.importorskip('pyarrow')
        sink = arrow.BufferOutputStream()
        with arrow.CompressedOutputStream(sink, 'zstd') as file:
            file.write(data)
        return sink.getvalue().to_pybytes()
    return data


def unpacked(path):
    with open(path, 'rb') as file:
        data = file.read()
    if path.endswith('.gz'):
        return gzip.decompress(data)
    if path.endswith('.zst'):
        arrow = pytest.importorskip('pyarrow')
        return arrow.input_stream(path, compression='zstd').read()
    return data


def records(path):
    if path.endswith('.parquet'):
        return pytest.importorskip('pyarrow.parquet').read_table(path).to_pylist()
    return [json.loads(line) for line in unpacked(path).decode().split('\n')[:-1]]


def write_parquet(path, columns):
    arrow = pytest.importorskip('pyarrow')
    pytest.importorskip('pyarrow.parquet').write_table(arrow.table(columns), path, row_group_size=2)


@pytest.mark.parametrize('name,written', [('a.jsonl', 'a.jsonl'), ('a.json.gz', 'a.json.gz'),
                                          ('a.jsonl.zst', 'a.jsonl.zst')])
@pytest.mark.parametrize('confidence', [False, True])
def test_shards_json_lines_give_the_records_of_infer_with_their_ids(run, tmp_path, infer_py, name, written, confidence):
    rows = [{'id': f'row {index}', 'text': text, 'other': 1} for index, text in enumerate(TEXTS)]
    (tmp_path / name).write_bytes(packed(name, '\n'.join([*map(json.dumps, rows), '', '']).encode()))
    done, target = tag(run, tmp_path / name, tmp_path / 'out', confidence=confidence)
    assert (done.fault, done.lines, os.path.basename(target)) == (None, len(TEXTS), written)
    expected = infer_py(TEXTS, '--confidence' if confidence else '--no-confidence')
    assert records(target) == [{'id': row['id'], **record} for row, record in zip(rows, expected, strict=True)]
    assert done.entities == sum(len(record['entities']) for record in expected) > 2
    assert os.listdir(tmp_path / 'out') == [written]


@pytest.mark.parametrize('name,written', [('a.txt', 'a.txt.jsonl'), ('a.txt.gz', 'a.txt.jsonl.gz'),
                                          ('a.txt.zst', 'a.txt.jsonl.zst')])
def test_shards_a_line_of_text_has_file_and_line_as_its_id(run, tmp_path, infer_py, name, written):
    (tmp_path / name).write_bytes(packed(name, '\r\n'.join([*TEXTS, '']).encode()))
    done, target = tag(run, tmp_path / name, tmp_path / 'out')
    assert (done.fault, os.path.basename(target)) == (None, written)
    assert records(target) == [{'id': f'{name}:{line}', **record} for line, record in
                               enumerate(infer_py(TEXTS, '--no-confidence'), 1)]


@pytest.mark.parametrize('kind,written', [('jsonl', 'a.parquet.jsonl'), ('parquet', 'a.parquet')])
def test_shards_parquet_gives_the_same_and_keeps_numbers_as_ids(run, tmp_path, infer_py, kind, written):
    ids = [7, 5, 2 ** 40, -1, 0, 3]
    write_parquet(tmp_path / 'a.parquet', {'other': ids, 'text': TEXTS, 'id': ids})
    done, target = tag(run, tmp_path / 'a.parquet', tmp_path / 'out', kind, confidence=True)
    assert (done.fault, os.path.basename(target)) == (None, written)
    assert records(target) == [{'id': number, **record} for number, record in
                               zip(ids, infer_py(TEXTS, '--confidence'), strict=True)]


def test_shards_parquet_is_written_of_other_kinds_with_text_as_ids(run, tmp_path, infer_py):
    pytest.importorskip('pyarrow')
    (tmp_path / 'a.jsonl.gz').write_bytes(gzip.compress(b'{"id": 12, "text": "to Xan Yan"}\n{"text": "by"}\n'))
    done, target = tag(run, tmp_path / 'a.jsonl.gz', tmp_path / 'out', 'parquet')
    assert (done.fault, os.path.basename(target)) == (None, 'a.jsonl.parquet')
    assert records(target) == [{'id': name, **record} for name, record in
                               zip(['12', 'a.jsonl.gz:2'], infer_py(['to Xan Yan', 'by'], '--no-confidence'))]


def test_shards_an_empty_shard_is_an_empty_shard(run, tmp_path):
    (tmp_path / 'a.jsonl').write_bytes(b'')
    done, target = tag(run, tmp_path / 'a.jsonl', tmp_path / 'out')
    assert (done.fault, done.lines, records(target)) == (None, 0, [])
    write_parquet(tmp_path / 'b.parquet', {'id': [], 'text': []})
    done, target = tag(run, tmp_path / 'b.parquet', tmp_path / 'out', 'parquet')
    assert (done.fault, done.lines, records(target)) == (None, 0, [])


@pytest.mark.parametrize('kind', ['jsonl', 'parquet'])
def test_shards_tokens_and_fields_of_other_names(run, tmp_path, kind):
    tokens, text = ['to', 'Xan Yan', 'of'], 'to  Xan Yan, of'
    columns = {'key': ['a', 'b'], 'words': [tokens, ['Xel']], 'line': [text, 'no']}
    path = tmp_path / f'a.{kind}'
    if kind == 'parquet':
        write_parquet(path, columns)
    else:
        path.write_text(''.join(json.dumps(dict(zip(columns, row))) + '\n' for row in zip(*columns.values())))
    done, target = tag(run, path, tmp_path / 'out', fields=Fields('key', 'line', 'words'))
    assert done.fault is None
    found = records(target)
    assert [(record['id'], record['text'], record['tokens']) for record in found] == [
        ('a', text, tokens), ('b', 'Xel', ['Xel'])]
    assert [record['tags'] for record in found] == [
        sentence.tags for sentence in Tagger.load(run).tag(columns['words'])]


@pytest.mark.parametrize('kind', ['jsonl', 'parquet'])
@pytest.mark.parametrize('splitter', ['blanks', None])
def test_shards_raw_text_is_tagged_as_a_tagger_does(run, tmp_path, kind, splitter):
    if splitter is None:
        pytest.importorskip('spacy')
    texts = ['to Xan Yan, of in.\n\nXel Yel!  Xor (Yor) at', ' \n', '', 'by Xan Yel.']
    lines = [json.dumps({'id': str(number), 'text': text}) + '\n' for number, text in enumerate(texts)]
    (tmp_path / 'a.jsonl').write_text(''.join(lines))
    if kind == 'parquet':
        pytest.importorskip('pyarrow')
    done, target = tag(run, tmp_path / 'a.jsonl', tmp_path / 'out', kind, raw=True, splitter=splitter, confidence=True)
    assert done.fault is None
    tagger, found = Tagger.load(run), records(target)
    assert [(record['id'], record['text']) for record in found] == [(str(n), text) for n, text in enumerate(texts)]
    for record, text in zip(found, texts):
        expected = tagger.tag_text(text, splitter=splitter)
        assert [(one['start'], one['end']) for one in record['sentences']] == [(one.start, one.end) for one in expected]
        assert [[tuple(pair) for pair in one['offsets']] for one in record['sentences']] == [
            one.offsets for one in expected]
        assert [one['tags'] for one in record['sentences']] == [one.sentence.tags for one in expected]
        assert [(entity['sentence'], entity['type'], entity['start'], entity['end']) for entity in record['entities']
                ] == [(index, entity.type, entity.start, entity.end) for index, one in enumerate(expected)
                      for entity in one.entities]
        for entity in record['entities']:
            assert text[entity['start']:entity['end']] == entity['text']
    assert found[0]['entities'] and len(found[0]['sentences']) > 1


@pytest.mark.parametrize('data,options,message', [
    (b'{"id": 1, "text": "to"}\n{"id": 2, "text"\n', {}, ":2: expected a JSON object: Expecting ':' delimiter at"),
    (b'{"id": 1, "text": "to"}\n\n{"id": 2}\n', {},
     ':3: expected "tokens", a list of strings, or "text", a string, got neither'),
    (b'{"id": 1, "text": 5}\n', {}, ':1: expected "text" to be a string, got 5'),
    (b'{"id": null, "text": "to"}\n', {}, ':1: expected the id "id" to be a string or an integer, got null'),
    (b'{"id": true, "text": "to"}\n', {}, ':1: expected the id "id" to be a string or an integer, got true'),
    (b'{"id": 1, "text": "to"}\n', {'fields': Fields('key')},
     ':1: expected the id "key" to be a string or an integer, got none'),
    (b'{"tokens": ["to", ""]}\n', {},
     ':1: expected "tokens" to be a list of strings that are not empty, got ["to", ""]'),
    (b'{"tokens": ["to"]}\n', {'raw': True}, ':1: expected "text", a string, got none'),
    (b'{"text": "to"}\n{"text": "\xff"}\n', {}, ':2: expected UTF-8, got byte 0xff at column 11'),
    (b'[1]\n', {}, ":1: expected a JSON object, got '[1]'")])
def test_shards_name_a_fault_by_file_and_line_and_leave_nothing(run, tmp_path, monkeypatch, data, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.jsonl').write_bytes(data)
    done, target = tag(run, 'a.jsonl', 'out', **options)
    assert done.fault.startswith(f'a.jsonl{message}') and '\n' not in done.fault
    assert os.listdir('out') == []


@pytest.mark.parametrize('name,data,message', [
    ('a.jsonl.zst', b'no', 'expected a zstd file, got a damaged file; download or create it again'),
    ('a.jsonl.gz', b'no', 'expected a gzip file, got a damaged one; decompress or fetch it again'),
    ('a.parquet', b'no', 'expected a Parquet file, got another format or a damaged file: ')])
def test_shards_what_is_no_such_file_is_told(run, tmp_path, name, data, message):
    pytest.importorskip('pyarrow')
    (tmp_path / name).write_bytes(data)
    done, _ = tag(run, tmp_path / name, tmp_path / 'out')
    assert done.fault.startswith(f'{tmp_path / name}: {message}') and '\n' not in done.fault


@pytest.mark.slow
def test_shards_a_file_that_ends_too_early_leaves_nothing(run, tmp_path):
    data = packed('a.jsonl.zst', b''.join(b'{"text": "to Xan %d"}\n' % number for number in range(9999)))
    (tmp_path / 'a.jsonl.zst').write_bytes(data[:-20])
    done, _ = tag(run, tmp_path / 'a.jsonl.zst', tmp_path / 'out')
    message = 'expected a zstd file, got a damaged file; download or create it again'
    assert done.fault == f'{tmp_path / "a.jsonl.zst"}: {message}'
    assert os.listdir(tmp_path / 'out') == []


def test_shards_half_of_a_surrogate_pair_goes_into_json_and_not_into_parquet(run, tmp_path):
    pytest.importorskip('pyarrow')
    (tmp_path / 'a.jsonl').write_text('{"id": 1, "text": "to"}\n{"id": 2, "text": "to \\ud83d Xan"}\n')
    done, target = tag(run, tmp_path / 'a.jsonl', tmp_path / 'out')
    assert done.fault is None and records(target)[1]['text'] == 'to \ud83d Xan'
    done, target = tag(run, tmp_path / 'a.jsonl', tmp_path / 'other', 'parquet')
    assert 'got a single surrogate' in done.fault and not os.path.exists(target)


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jsonl', 'parquet'])
def test_shards_a_long_shard_takes_no_more_memory_than_a_short_one(run, tmp_path, kind):
    if kind == 'parquet':
        pytest.importorskip('pyarrow')
    peaks = []
    for count in (4500, 13500):
        (tmp_path / f'{count}.jsonl').write_text('{"text": "to Xan Yan of in Xel Yel"}\n' * count)
        tracemalloc.start()
        done, _ = tag(run, tmp_path / f'{count}.jsonl', tmp_path / 'out', kind)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert done.fault is None and done.lines == count
    assert peaks[1] < 1.2 * peaks[0]


# Selection of the shards

def names(shards, folder):
    return [(shard.name, os.path.relpath(shard.target, folder)) for shard in shards]


def test_shards_folders_patterns_and_files_are_read_once(tmp_path):
    for name in ('in/a.txt', 'in/deep/b.jsonl', 'in/.hidden.txt', 'other/c.parquet', 'other/d.txt'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('to\n')
    given = [str(tmp_path / name) for name in ('in', 'in/a.txt', 'other/*.parquet', 'other/d.txt')]
    assert names(shards_of(given, tmp_path / 'out', 'jsonl'), tmp_path / 'out') == [
        ('a.txt', 'a.txt.jsonl'), ('deep/b.jsonl', 'deep/b.jsonl'), ('c.parquet', 'c.parquet.jsonl'),
        ('d.txt', 'd.txt.jsonl')]


def test_shards_outputs_that_can_not_be_told_apart_are_refused(tmp_path):
    for name in ('one/a.txt', 'two/a.txt', 'one/a.md'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('to\n')
    first, second = (str(tmp_path / name / 'a.txt') for name in ('one', 'two'))
    with pytest.raises(OptionError, match=re.escape(f'{first} and {second} would both be written to ')):
        shards_of([first, second], tmp_path / 'out', 'jsonl')
    (tmp_path / 'one' / 'b.jsonl').write_text('')
    with pytest.raises(OptionError, match='in another folder than the input'):
        shards_of([str(tmp_path / 'one' / 'b.jsonl')], tmp_path / 'one', 'jsonl')
    with pytest.raises(OptionError, match='^expected names that end in .*a.md; use a pattern to select files$'):
        shards_of([str(tmp_path / 'one')], tmp_path / 'out', 'jsonl')
    with pytest.raises(CorpusError, match='no such file$'):
        shards_of([str(tmp_path / 'none.txt')], tmp_path / 'out', 'jsonl')
