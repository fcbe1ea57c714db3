"""Tests the conversion of partially annotated text.

The tests check how each format marks unannotated parts, and the remarks about formats that cannot mark them.
"""

import json

from ms_crf.cli import convert

import pytest

TEXT = 'Ada Lovelace saw Rome and Bonn'
RECORD = {'text': TEXT, 'entities': [[0, 12, 'PER']], 'judged': [[0, 21]]}
TAGS = ['B-PER', 'E-PER', 'O', 'O', None, None]


def run(source, target, *arguments):
    splitter = [] if source.suffix == '.tsv' else ['--splitter', 'blanks']
    assert convert.main([str(source), str(target), *splitter, *map(str, arguments)]) == 0
    return target.read_text(encoding='utf-8') if target.is_file() else ''


@pytest.fixture
def spans(tmp_path):
    path = tmp_path / 'spans.jsonl'
    path.write_text(json.dumps(RECORD) + '\n')
    return path


def test_partly_judged_what_is_judged_goes_from_spans_to_tags(spans, tmp_path):
    rows = [f'{token}\t{tag or "?"}' for token, tag in zip(TEXT.split(), TAGS)]
    assert run(spans, tmp_path / 'x.tsv').splitlines() == [*rows, '']
    assert json.loads(run(spans, tmp_path / 'x.jsonl', '--to', 'tokens'))['tags'] == TAGS
    cells = [line.split('\t') for line in run(spans, tmp_path / 'x.conllu').splitlines() if line[:1].isdigit()]
    assert [cell[9] for cell in cells] == ['NER=B-PER', 'NER=E-PER', '_', '_', 'NER=?', 'NER=?']
    assert '\tXX\n' in run(spans, tmp_path / 'y.tsv', '--unknown-tag', 'XX')
    # BIO marks the end of a span by the next tag. Here the next tag is unknown, so the end of the span is lost.
    assert [line.split('\t')[1] for line in run(spans, tmp_path / 'z.tsv', '--scheme', 'BIO').splitlines() if line] == [
        'B-PER', 'I-PER', 'O', 'O', '?', '?']


@pytest.mark.parametrize('target', ['doccano', 'prodigy', 'spacy'])
def test_partly_judged_what_is_judged_goes_from_tags_to_spans_and_back(spans, tmp_path, target):
    run(spans, tmp_path / 'tokens.jsonl', '--to', 'tokens')
    written = json.loads(run(tmp_path / 'tokens.jsonl', tmp_path / 'x.jsonl', '--to', target))
    assert (written[1] if target == 'spacy' else written)['judged'] == [[0, 21]]
    assert json.loads(run(tmp_path / 'x.jsonl', tmp_path / 'again.jsonl', '--to', 'tokens'))['tags'] == TAGS


@pytest.mark.parametrize('target,name', [('label-studio', 'x.json'), ('brat', 'x.ann')])
def test_partly_judged_a_format_without_a_place_for_it_says_so(spans, tmp_path, capsys, target, name):
    run(spans, tmp_path / name, '--to', target)
    assert '1 text annotated only in part, which the output format cannot mark' in (
        capsys.readouterr().err)


def test_partly_judged_a_span_that_may_go_on_is_not_judged_where_there_are_spans(tmp_path, capsys):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    path = tmp_path / 'x.tsv'
    path.write_text('Ada\tB-PER\nLovelace\t?\nsaw\tO\nRome\tB-LOC\n\nBonn\t?-LOC\n')
    records = [json.loads(line) for line in run(path, tmp_path / 'x.jsonl', '--to', 'doccano').splitlines()]
    assert [(record['label'], record['judged']) for record in records] == [
        ([[17, 21, 'LOC']], [[13, 21]]), ([], [])]
    assert '2 sentences with partly unknown tags or spans, treated as unlabelled; the first, at line 1: ' in (
        capsys.readouterr().err)


def test_partly_judged_a_tag_that_may_be_several_is_written_as_what_they_share(tmp_path):
    path = tmp_path / 'x.tsv'
    path.write_text('a\tB-P\nb\t?\nc\tB-?\nd\t?-Q\n\n')
    written = run(path, tmp_path / 'y.tsv', '--scheme', 'BIOES')
    assert [line.split('\t')[1] for line in written.splitlines() if line] == ['?-P', '?', '?-?', '?-Q']
    assert json.loads(run(path, tmp_path / 'y.jsonl', '--to', 'tokens'))['tags'] == ['B-P', None, 'B-?', '?-Q']


def test_partly_judged_without_a_mark_every_tag_is_one(tmp_path, capsys):
    path, lines = tmp_path / 'x.tsv', tmp_path / 'x.jsonl'
    path.write_text('a\tNN\nb\t?\n\n')
    assert json.loads(run(path, tmp_path / 'y.jsonl', '--to', 'tokens', '--unknown-tag', ''))['tags'] == ['NN', '?']
    lines.write_text('{"tokens": ["a"], "tags": [null]}\n')
    assert convert.main([str(lines), str(tmp_path / 'z.tsv'), '--unknown-tag', '']) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f'ms-crf convert: {lines}:1: expected a mark for unknown tags, got none; some tokens here are unlabelled, '
        'and columns need a mark')
    assert not (tmp_path / 'z.tsv').exists()
