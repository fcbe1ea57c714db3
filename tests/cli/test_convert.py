"""Tests the convert command: which formats file names stand for, the lines it prints, and invalid input."""

import json
import os

from ms_crf.api import convert as convert_text
from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import Lines
from ms_crf.cli import convert

import pytest

JSON_LINES = '{"text": "Ada saw Rome", "label": [[0, 3, "PER"], [8, 12, "LOC"]]}\n'
ROWS = 'Ada\tB-PER\nsaw\tO\nRome\tB-LOC\n\n'


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    """Runs convert in a folder with sample files; returns its exit status and its lines on standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.jsonl').write_text(JSON_LINES)
    (tmp_path / 'a.tsv').write_text(ROWS)

    def run(*arguments):
        capfd.readouterr()
        status = convert.main([str(argument) for argument in arguments])
        out, errors = capfd.readouterr()
        assert out == ''
        return status, errors.splitlines()
    return run


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize('name', ['x.tsv', 'x.bio', 'x.conll', 'x.tsv.gz'])
def test_convert_names_of_columns(call, name):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    assert call('a.jsonl', name) == (0, [f'{name}: 1 text with 2 spans of a.jsonl, as columns'])
    assert call(name, 'y.jsonl', '--to', 'tokens')[0] == 0
    with open('y.jsonl') as file:
        assert json.load(file) == {'tokens': ['Ada', 'saw', 'Rome'], 'tags': ['B-PER', 'O', 'B-LOC']}


def test_convert_names_of_brat(call, tmp_path):
    """Checks that a name in .ann or .txt receives all texts joined, and that a folder receives one pair per text."""
    (tmp_path / 'a.jsonl').write_text(JSON_LINES * 2)
    assert call('a.jsonl', 'one.ann') == (0, [
        'a.jsonl: 1 text joined to the previous text, because one file holds one text; the first, at line 2: '
        "'Ada saw Rome'", 'one.ann: 2 texts with 4 spans of a.jsonl, as brat'])
    assert (tmp_path / 'one.txt').read_text() == 'Ada saw Rome\nAda saw Rome'
    assert (tmp_path / 'one.ann').read_text() == ('T1\tPER 0 3\tAda\nT2\tLOC 8 12\tRome\n'
                                                  'T3\tPER 13 16\tAda\nT4\tLOC 21 25\tRome\n')
    os.mkdir('there')
    for folder, arguments in (('there', []), ('new/', []), ('named', ['--to', 'brat'])):
        assert call('a.jsonl', folder, *arguments)[0] == 0
        assert files(tmp_path / folder) == ['1.ann', '1.txt', '2.ann', '2.txt']
        assert (tmp_path / folder / '2.txt').read_text() == 'Ada saw Rome'
    assert call('a.jsonl', 'there') == (2, ['ms-crf convert: there: expected a new or empty folder, got an existing '
                                            'file or a folder with files; choose another name'])


def test_convert_names_of_texts_are_kept_where_they_can_be(call, tmp_path):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    for name in ('b', 'c'):
        (tmp_path / f'{name}.txt').write_text('Ada')
        (tmp_path / f'{name}.ann').write_text('T1\tPER 0 3\tAda\n')
    assert call('.', 'x.conllu')[0] == 0 and call('x.conllu', 'out/')[0] == 0
    assert files(tmp_path / 'out') == ['b.ann', 'b.txt', 'c.ann', 'c.txt']
    assert call('b.ann', 'b.jsonl', '--to', 'doccano')[1][0] == (
        "b.ann: 1 text written without the name, which the output format cannot hold; the first, at line 1: 'Ada'")


def test_convert_json_is_known_by_how_it_begins(call, tmp_path):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    (tmp_path / 'export').write_text('\n \n' + JSON_LINES)
    assert call('export', 'x.tsv')[0] == 0 and (tmp_path / 'x.tsv').read_text() == ROWS
    (tmp_path / 'export').write_text(ROWS)
    status, (line,) = call('export', 'x.tsv')
    assert status == 2 and line.startswith('ms-crf convert: export: neither the name nor the first line of IN shows '
                                           'its format; name the format with --from, one of json, ')
    assert call('export', 'y.tsv', '--from', 'columns')[0] == 0
    status, (line,) = call('a.tsv', 'x.jsonl')
    assert status == 2 and line.startswith('ms-crf convert: x.jsonl: the name of OUT does not show its format; name '
                                           'the format with --to, one of tokens, doccano, ')


def test_convert_what_a_format_has_no_place_for(call, tmp_path):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    (tmp_path / 'b.jsonl').write_text(json.dumps({'text': 'Ada  saw', 'label': []}) + '\n' + JSON_LINES)
    assert call('b.jsonl', 'x.tsv')[1][0] == (
        'b.jsonl: 1 text written without the original white space, '
        'which the output format cannot hold; the first, at line 1: '
        "'Ada  saw'")
    assert call('a.tsv', 'x.jsonl', '--to', 'spacy')[1][0] == (
        'a.tsv: 1 text made by joining tokens with spaces and sentences with line ends; the first, at line 1: '
        "'Ada saw Rome'")
    (tmp_path / 'b.conllu').write_text('# text = don\'t\n1\tdo\tdo\tAUX\t_\t_\t0\troot\t_\tSpaceAfter=No\n'
                                       "2\tn't\tnot\tPART\t_\t_\t1\tadvmod\t_\t_\n\n")
    assert call('b.conllu', 'x.jsonl', '--to', 'doccano', '--splitter', 'blanks')[1][:-1] == [
        'b.conllu: 1 text written without tokens and sentences, '
        'which the output format cannot hold; the first, at line 2: '
        '"don\'t"',
        'b.conllu: 1 sentence written without the other columns, '
        'which the output format cannot hold; the first, at line 2: '
        '"don\'t"',
        'b.conllu: 1 sentence with plain tags, in which each token became a span; the first, at line 2: "do n\'t"']
    (tmp_path / 'c.tsv').write_text('Ada NNP I-NP B-PER\n')
    assert call('c.tsv', 'x.tsv')[1][0] == (
        "c.tsv: 1 sentence written without the other columns, "
        "which the output format cannot hold; the first, at line 1: 'Ada'")


@pytest.mark.parametrize('output,options', [('x.jsonl', ['--to', 'doccano']), ('x.tsv', ['--scheme', 'BIOES'])])
def test_convert_tags_that_break_their_scheme_are_said(call, tmp_path, output, options):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    (tmp_path / 'b.tsv').write_text('Ada\tI-PER\n\nBob\tB-PER\n\nEve\tB-PER\nsaw\tI-LOC\n')
    line = "b.tsv: 2 sentences with invalid tag sequences, read by the rules of conlleval; the first, at line 1:"
    assert f"{line} 'Ada'" in call('b.tsv', output, *options)[1]


def test_convert_each_span_that_changes_is_shown_if_asked_for(call, tmp_path):
    (tmp_path / 'b.jsonl').write_text('{"text": "Rome, Oslo.", "label": [[0, 4, "LOC"], [6, 10, "LOC"]]}\n')
    blanks = ('--splitter', 'blanks')
    assert call('b.jsonl', 'x.tsv', *blanks)[1][0] == (
        "b.jsonl: 2 spans beginning or ending within a token, widened to whole tokens; the first, at line 1: 'Rome'")
    assert call('b.jsonl', 'x.tsv', '--each', *blanks)[1][:-1] == [
        f"b.jsonl:1: span beginning or ending within a token, widened to whole tokens: '{text}'"
        for text in ('Rome', 'Oslo')]


def test_convert_what_infer_writes_can_be_corrected_in_a_tool(call, tmp_path):
    """Checks that JSON from infer.py becomes doccano JSON with the original text, including all its white space."""
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    record = {'text': ' Ada  saw', 'tokens': ['Ada', 'saw'], 'tags': ['B-PER', 'O'], 'confidences': [1, 1],
              'entities': [{'type': 'PER', 'text': 'Ada', 'first': 0, 'last': 0, 'start': 1, 'end': 4}]}
    (tmp_path / 'b.jsonl').write_text(json.dumps(record))
    assert call('b.jsonl', 'x.jsonl', '--to', 'doccano') == (
        0, ['x.jsonl: 1 sentence with 1 span of b.jsonl, as doccano'])
    assert json.loads((tmp_path / 'x.jsonl').read_text()) == {'text': ' Ada  saw', 'label': [[1, 4, 'PER']]}


def test_convert_columns_of_conllu(call, tmp_path):
    (tmp_path / 'a.conllu').write_text('1\tsea\tsea\tNOUN\tNN\t_\t0\troot\t_\tNER=B-LOC\n\n')
    for columns, tag in (([], 'NOUN'), (['--columns', '1,4'], 'NN'), (['--columns', '1,9'], 'B-LOC')):
        assert call('a.conllu', 'x.tsv', *columns)[0] == 0
        assert (tmp_path / 'x.tsv').read_text() == f'sea\t{tag}\n\n'
    (tmp_path / 'p.tsv').write_text('sea\tXX\n')
    assert call('p.tsv', 'x.conllu', '--tag-column', '4')[0] == 0
    assert (tmp_path / 'x.conllu').read_text().split('\n')[2].split('\t')[3:5] == ['_', 'XX']
    assert call('a.conllu', 'y.conllu', '--columns', '1,4')[0] == 0
    assert (tmp_path / 'y.conllu').read_text() == (tmp_path / 'a.conllu').read_text().replace('NOUN', 'NN')


@pytest.mark.parametrize('name,text,options,message', [
    ('b.jsonl', JSON_LINES + '{"text": "a", "label": [[0, 2, "X"]]}', [], 'b.jsonl:2: expected a span from 0 to 1'),
    ('b.jsonl', JSON_LINES + '{"text": "a"', [], 'b.jsonl:2: expected a JSON object: '),
    ('b.json', '[' + JSON_LINES + ',\n5]', [], "b.json:3, record 2: expected a JSON object, got '5'"),
    ('b.jsonl', '{"tokens": ["a"], "tags": []}', [], 'b.jsonl:1: expected a tag for each token'),
    ('b.tsv', 'a\tO\nb\n', [], 'b.tsv:2: expected columns 0 and -1 to hold token and tag'),
    ('b.tsv', 'a\tB-X\nb\tNOUN\n', [], "b.tsv:2: expected 'O' or one of B, I, E, M, S with a type like 'B-X', got"),
    ('b.conllu', '1\ta\ta\tX\n2\tb\n', [], 'b.conllu:2: expected columns 1 and 3 to hold token and tag'),
    ('b.tsv', 'a\tO\nb\tO\n', ['--from', 'conll2003'], 'b.tsv:1: expected 4 columns, as CoNLL-2003 has them, got'),
    ('b.tsv', '', [], 'b.tsv: expected annotated text, got none'),
    ('b.jsonl', '[]', [], 'b.jsonl: expected annotated text, got none'),
    ('b.jsonl', '{"tokens": ["a"], "tags": ["NOUN"]}\n' + JSON_LINES, [],
     'b.jsonl:2: expected plain tags as in the rest of the file, got spans'),
    ('b.jsonl', '{"tokens": ["a\\tb"], "tags": ["O"]}', [],
     "b.jsonl:1: expected tokens and tags that columns can hold, got a tab in 'a\\tb'; JSON lines can hold it"),
    ('b.jsonl', '{"tokens": ["a b"], "tags": ["O"]}', ['--to', 'conll2003'],
     "b.jsonl:1: expected tokens and tags that columns can hold, got a space in 'a b'; JSON lines can hold it"),
    ('b.jsonl', '{"tokens": ["\\ud800"], "tags": ["O"]}', [], 'got an unpaired surrogate in'),
    ('b.jsonl', '{"tokens": ["-DOCSTART-x"], "tags": ["O"]}', [], 'got a mark that begins a document in'),
    ('b.jsonl', '{"tokens": [" a"], "tags": ["O"]}', [], "got a space at one end in ' a'"),
    ('b.jsonl', '{"text": "a", "label": [[0, 1, "X Y"]]}', ['--to', 'conll2003'], "got a space in 'B-X Y'"),
    ('b.jsonl', '{"text": "a", "label": [[0, 1, "X Y"]]}', ['--to', 'brat'],
     "b.jsonl:1: expected a type without white space for each span, because brat requires it, got 'X Y'"),
    ('b.jsonl', '{"text": "\\ud800", "label": []}', ['--to', 'brat'], 'b.jsonl:1: expected text that UTF-8 can hold'),
    ('b.jsonl', '{"text": "a b", "label": [[0, 1, "X"]]}', ['--scheme', 'plain'],
     "b.jsonl:1: expected a span for each token, because plain tags are made of one-token spans, got none for 'b'"),
    ('b.tsv', 'a\tX\n', ['--scheme', 'BIOES'],
     'the scheme BIOES is for tags of spans, got plain tags; omit the scheme'),
    ('b.tsv', 'a\tO\n', ['--splitter', 'x'], "--splitter must be blanks, "),
    ('b.tsv', 'a\tO\n', ['--splitter', 'blanks'], '--splitter has no effect from columns to columns, as the file has '
                                                  'tokens; omit it'),
    ('b.tsv', 'a\tO\n', ['--columns', '0'], "--columns must be two numbers like 0,-1, got '0'"),
    ('b.jsonl', JSON_LINES, ['--columns', '0,1'], '--columns has no effect with json; omit it'),
    ('b.jsonl', JSON_LINES, ['--scheme', 'BIO', '--to', 'spacy'], '--scheme has no effect with --to spacy, which has '
                                                                  'spans; omit it'),
    ('b.jsonl', JSON_LINES, ['--tag-column', '4'], '--tag-column has no effect with --to columns, only with conllu; '
                                                   'omit it'),
    ('b.jsonl', JSON_LINES, ['--tag-column', '1', '--to', 'conllu'], 'the tag column of CoNLL-U must be from 2 '
                                                                     'to 9, got 1'),
])
def test_convert_a_fault_is_one_line_and_leaves_what_was_there(call, tmp_path, name, text, options, message):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    (tmp_path / name).write_text(text)
    (tmp_path / 'out.tsv').write_text('before')
    before = files(tmp_path)
    status, errors = call(name, 'new' if 'brat' in options else 'out.tsv', *options)
    assert status == 2 and len(errors) == 1 and errors[0].startswith('ms-crf convert: ') and message in errors[0]
    assert (tmp_path / 'out.tsv').read_text() == 'before' and files(tmp_path) == before


@pytest.mark.parametrize('arguments,message', [
    ([], 'IN must be a name, got nothing; see --help'), (['a.tsv'], 'OUT must be a name, got nothing; see --help'),
    (['absent.tsv', 'x.tsv'], 'absent.tsv: no such file'), (['absent', 'x.tsv'], 'absent: no such file'),
    (['absent.ann', 'x.tsv'], 'absent.ann: no such file'), (['.', 'x.tsv'], '.: expected a file, got a folder'),
    (['a.tsv', 'absent/x.tsv'], 'absent/x.tsv: cannot be written: there is no folder '),
    (['a.tsv', 'absent/x.ann'], 'absent/x.txt: cannot be written: there is no folder '),
    (['a.tsv', 'absent/x/'], 'absent/x/: cannot be written: No such file or directory'),
    (['a.tsv', 'a.jsonl', '--to', 'brat'], 'a.jsonl: expected a new or empty folder, got an existing file'),
    (['a.tsv', 'x', '--to', 'brta'], "argument --to: invalid choice: 'brta'")])
def test_convert_names_that_can_not_be(call, tmp_path, arguments, message):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    before = files(tmp_path)
    status, errors = call(*arguments)
    assert status == 2 and len(errors) == 1 and errors[0].startswith(f'ms-crf convert: {message}')
    assert files(tmp_path) == before


def test_convert_a_file_may_be_converted_in_its_place(call, tmp_path):
    assert call('a.tsv', 'a.tsv', '--scheme', 'BIOES')[0] == 0
    assert (tmp_path / 'a.tsv').read_text() == ROWS.replace('B-', 'S-')


def test_convert_is_a_function_for_programs(tmp_path, capfd):
    """Checks that `convert` as a function returns counts and remarks, and prints nothing.

    Its watcher receives the lines that the command prints.
    """
    source, target = tmp_path / 'in.jsonl', tmp_path / 'out.tsv'
    source.write_text('{"text": "Ada saw Lisbon.", "label": [[0, 3, "PER"], [8, 14, "LOC"]], "id": 7}\n')
    lines = []
    found = convert_text(source, target, splitter='blanks', watcher=Lines(lines.append))
    assert target.read_text() == 'Ada\tB-PER\nsaw\tO\nLisbon.\tB-LOC\n\n'
    assert (found.from_, found.to, found.texts, found.spans) == ('json', 'columns', 1, 2)
    assert [remark.kind for remark in found.remarks.all] == ['fields', 'grown']
    assert lines == found.lines and lines[-1] == f'{target}: 1 text with 2 spans of {source}, as columns'
    assert capfd.readouterr() == ('', '')
    back = convert_text(target, tmp_path / 'back.jsonl', to='spacy')
    assert (back.texts, back.sentences, back.spans, back.tokens) == (1, 1, 2, 3)
    plain = convert_text(target, tmp_path / 'plain.tsv', columns='1,0')
    assert plain.spans is None and str(plain).startswith(f'{tmp_path}/plain.tsv: 1 sentence with 3 tags of ')


@pytest.mark.parametrize('arguments,message', [
    ({'to': 'nothing'}, 'to must be one of tokens, doccano, .*, got \'nothing\'$'),
    ({'from_': 'nothing'}, 'from_ must be one of json, tokens, .*, got \'nothing\'$'),
    ({'as_': 'predictions'}, 'as_ has no effect with to columns, which has no predictions; omit it$'),
    ({'columns': '1,1'}, "columns must be two numbers like 0,-1, got '1,1'$"),
    ({'target': 'x'}, '^x: the name of target does not show its format; name the format with to, one of '),
    ({'target': ''}, '^target must be a name, got nothing$'), ({'label_type': ''}, 'label_type must be a name')])
def test_convert_faults_of_the_function_name_its_arguments(tmp_path, arguments, message):
    (tmp_path / 'a.tsv').write_text('Ada\tB-PER\n')
    with pytest.raises(OptionError, match=message):
        convert_text(**{'source': tmp_path / 'a.tsv', 'target': tmp_path / 'b.tsv', **arguments})
