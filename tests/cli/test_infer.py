"""Tests `infer.py` and `python -m ms_crf.export`: all input and output formats, and invalid arguments and input."""

import functools
import json
import os
import pty
import re
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.cli import export, infer
from ms_crf.formats.registry import read_corpus
from ms_crf.runs import records

import pytest

from support.paths import ROOT

LINES = ['of Xan  Yel', '', 'to\tof Xor Yan', 'of']
PIECES = re.compile(r'\[(.*?) PER\]')


@pytest.fixture(scope='module')
def run(undisturbed):
    """Returns the run directory of a small training."""
    return str(undisturbed[0])


@pytest.fixture(scope='module')
def load():
    """Returns a cached `Tagger.load`, because compiling the graphs of a model takes seconds."""
    return functools.lru_cache(maxsize=None)(Tagger.load)


@pytest.fixture(scope='module')
def tagger(run, load):
    """Returns the tagger of the run; its predictions are the oracle for the output of infer.py."""
    return load(run)


@pytest.fixture
def infer_py(capsys, load, monkeypatch):
    """Runs infer.py in this process and returns its exit status, standard output and standard error."""
    monkeypatch.setattr(Tagger, 'load', load)

    def call(*arguments):
        status = infer.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()
    return call


def write(folder, text, name):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def process(*arguments, **others):
    return subprocess.Popen([sys.executable, str(ROOT / 'infer.py'), *map(str, arguments)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **others)


def test_infer_text_a_line_in_is_a_line_out(infer_py, run, tagger, tmp_path):
    path = write(tmp_path, '\r\n'.join(LINES), 'in.txt')         # the last line has no line end
    status, out, errors = infer_py('--run', run, '--input', path)
    lines = out.split('\n')
    assert (status, errors) == (0, '') and len(lines) == 5
    assert [PIECES.sub(r'\1', line) for line in lines] == [*LINES, '']
    for line, found, tagged in zip(LINES, lines, tagger.tag([line.split() for line in LINES])):
        names = [line.split()[span.first:span.last + 1] for span in tagged.spans]
        assert [name.split() for name in PIECES.findall(found)] == names
    assert '[' in out
    status, out, _ = infer_py('--run', run, '--text', LINES[0], '--confidence')
    assert status == 0 and re.search(r'\[.* PER [01]\.\d\d\]', out)


@pytest.mark.slow
def test_infer_json_lines_say_where_things_are(infer_py, run, tagger, tmp_path):
    path = write(tmp_path, '\n'.join(LINES) + '\n', 'in.txt')
    status, out, errors = infer_py('--run', run, '--input', path, '--format', 'json', '--nbest', 2)
    records = [json.loads(line) for line in out.splitlines()]
    assert (status, errors, len(records)) == (0, '', 4)
    expected = tagger.tag([line.split() for line in LINES], nbest=2)
    for line, record, tagged in zip(LINES, records, expected):
        assert (record['text'], record['tokens'], record['tags']) == (line, line.split(), tagged.tags)
        assert record['confidences'] == pytest.approx(tagged.confidences, abs=1e-5)
        assert record['confidence'] == pytest.approx(tagged.confidence, abs=1e-5)
        for entity, span in zip(record['entities'], tagged.spans):
            assert line[entity['start']:entity['end']] == entity['text']
            assert (entity['type'], entity['first'], entity['last']) == span[:3]
            assert entity['confidence'] == pytest.approx(span.confidence, abs=1e-5)
        assert [other['tags'] for other in record['alternatives']] == [other.tags for other in tagged.alternatives]
    assert sum(len(record['entities']) for record in records) > 0
    assert len(records[1]['alternatives']) == 1                  # an empty line has exactly one possible tagging
    _, out, _ = infer_py('--run', run, '--input', path, '--format', 'json', '--no-confidence')
    assert 'confidence' not in out


@pytest.mark.slow
def test_infer_columns_stay_as_they_are(infer_py, run, tagger, tmp_path):
    rows = ['-DOCSTART- O', '', '# id = 1', 'of IN O', 'Xan NNP B-PER', 'Yel NNP I-PER', '', '', 'on IN O']
    path = write(tmp_path, '\n'.join(rows) + '\n', 'in.conll')
    tags = [tag for tagged in tagger.tag([['of', 'Xan', 'Yel'], ['on']]) for tag in tagged.tags]
    status, out, _ = infer_py('--run', run, '--input', path, '--format', 'conll')
    assert status == 0
    assert out.splitlines() == ['-DOCSTART- O', '', '# id = 1', f'of IN O {tags[0]}', f'Xan NNP B-PER {tags[1]}',
                                f'Yel NNP I-PER {tags[2]}', '', '', f'on IN O {tags[3]}']
    tabbed = write(tmp_path, out.replace(' ', '\t'), 'tabbed.tsv')
    _, again, _ = infer_py('--run', run, '--input', tabbed, '--format', 'conll', '--columns', '0', '--confidence')
    cells = again.splitlines()[4].split('\t')
    assert cells[:5] == ['Xan', 'NNP', 'B-PER', tags[1], tags[1]] and 0 < float(cells[5]) <= 1
    # Convert text to columns, and columns to text.
    text = write(tmp_path, 'of Xan Yel\n\non\n', 'in.txt')
    _, out, _ = infer_py('--run', run, '--input', text, '--format', 'conll')
    assert out == 'of\t{}\nXan\t{}\nYel\t{}\n\n\non\t{}\n\n'.format(*tags)
    _, out, _ = infer_py('--run', run, '--input', path)
    assert [PIECES.sub(r'\1', line) for line in out.splitlines() if line] == ['of Xan Yel', 'on']


@pytest.mark.slow
def test_infer_json_lines_keep_what_they_hold(infer_py, run, tagger, tmp_path):
    records = [{'id': 7, 'tokens': ['of', 'Xan', 'Yel'], 'tags': ['O', 'O', 'O']}, {'text': 'on Xor Yan'},
               {'text': 'on  "Xor"', 'tokens': ['on', '"', 'Xor', '"']}, {'tokens': []}]
    path = write(tmp_path, '\n'.join(map(json.dumps, records)) + '\n\n', 'in.jsonl')
    status, out, _ = infer_py('--run', run, '--input', path, '--format', 'json')
    found = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and len(found) == 5
    assert found[0]['id'] == 7 and found[0]['gold'] == ['O', 'O', 'O']
    assert found[0]['tags'] == tagger.tag([['of', 'Xan', 'Yel']])[0].tags
    assert found[0]['text'] == 'of Xan Yel' and found[1]['tokens'] == ['on', 'Xor', 'Yan']
    assert found[2]['text'] == 'on  "Xor"' and found[3]['tokens'] == [] and found[4]['tokens'] == []
    path = write(tmp_path, '{"text": "\\ud800 Xan Yel"}\n', 'odd.jsonl')      # an unpaired surrogate
    _, out, _ = infer_py('--run', run, '--input', path, '--format', 'json')
    assert json.loads(out)['text'] == '\ud800 Xan Yel'


@pytest.mark.slow
def test_infer_scores_are_those_of_training(infer_py, run, corpora, tmp_path):
    table = json.loads((undisturbed_scores(run)).read_text())['test']['table']
    status, out, errors = infer_py('--run', run, '--input', corpora / 'test.tsv', '--score')
    assert (status, out.splitlines(), errors) == (0, table, '')
    records = [json.dumps({'tokens': sentence.tokens, 'tags': sentence.tags})
               for sentence in read_corpus(corpora / 'test.tsv')]
    path = write(tmp_path, '\n'.join(records), 'test.jsonl')
    output = tmp_path / 'out.jsonl'
    status, out, _ = infer_py('--run', run, '--input', path, '--score', '--output', output, '--format', 'json')
    assert (status, out.splitlines()) == (0, table) and len(output.read_text().splitlines()) == len(records)


def undisturbed_scores(run):
    return ROOT / run / records.SCORES


@pytest.mark.slow
def test_infer_exported_and_tagged_without_the_run(infer_py, run, corpora, tmp_path, capsys):
    graph = tmp_path / 'model.mindir'
    assert export.main(['--run', run, '--output', str(graph), '--confidence']) == 0
    assert capsys.readouterr() == (f'{run} is in {graph} and {tmp_path / "model.json"}\n', '')
    both = [infer_py(*model, '--input', corpora / 'test.tsv', '--format', 'conll', '--confidence')
            for model in (('--run', run), ('--mindir', graph))]
    assert both[0][0] == 0 and both[0] == both[1]


@pytest.mark.slow
def test_infer_what_a_static_graph_does_not_take_or_give_is_named_by_line_and_option(infer_py, run, tmp_path, capsys):
    graph = tmp_path / 'model.mindir'
    assert export.main(['--run', run, '--output', str(graph), '--static', '2', '4']) == 0
    capsys.readouterr()
    path = write(tmp_path, 'on\n\nof Xan Yel\nto to to of Xan\non\n', 'in.txt')
    for options, reason in ((['--confidence'], '--confidence: this graph computes no confidences; export it with '
                                               '--confidence, or use the run itself'),
                            (['--format', 'json', '--nbest', '2'], '--nbest: n-best taggings need the run of a '
                             'neural network; exported graphs and hidden Markov models do not compute them')):
        assert infer_py('--mindir', graph, '--input', path, *options) == (2, '', f'infer.py: {reason}\n')
    status, out, errors = infer_py('--mindir', graph, '--input', path)
    assert status == 2 and [PIECES.sub(r'\1', line) for line in out.splitlines()] == ['on', '', 'of Xan Yel']
    reason = 'the graph takes sentences of up to 4 tokens, got 5; export a graph for any length, or for a greater'
    assert errors == f'infer.py: {path}:4: {reason} length\n'
    assert infer_py('--mindir', graph, '--text', 'a a a a a') == (2, '', f'infer.py: --text: {reason} length\n')


@pytest.mark.slow
def test_infer_characters(infer_py, tmp_path):
    from support.runs import TAGS, make_run
    folder = make_run(tmp_path / 'words', 'BMES', char='none')
    vocabulary = json.loads((folder / 'vocab.json').read_text())
    records.write_json(folder / 'vocab.json', {**vocabulary, 'words': list('中文分词很好用的')})
    path = write(tmp_path, '中文 分词\n\n', 'in.txt')
    status, out, _ = infer_py('--run', folder, '--input', path, '--format', 'json')
    record = json.loads(out.splitlines()[0])
    assert status == 0 and record['tokens'] == list('中文分词') and set(record['tags']) <= set(TAGS['BMES'])
    assert ''.join(entity['text'].replace(' ', '') for entity in record['entities']) == '中文分词'
    _, out, _ = infer_py('--run', folder, '--input', path)
    words = [entity['text'].replace(' ', '') for entity in record['entities']]
    assert out == ' '.join(words) + '\n\n'
    _, out, _ = infer_py('--run', folder, '--input', path, '--format', 'json', '--no-chars')
    assert json.loads(out.splitlines()[0])['tokens'] == ['中文', '分词']


@pytest.mark.slow
def test_infer_plain_tags(infer_py, tmp_path):
    from support.runs import make_run
    folder = make_run(tmp_path / 'plain', 'plain')
    tags = Tagger.load(folder).tag([['to', 'Xan']])[0].tags
    assert infer_py('--run', folder, '--text', 'to  Xan ')[1] == f'to/{tags[0]}  Xan/{tags[1]} \n'


@pytest.mark.slow
def test_infer_bytes_that_are_not_utf8(infer_py, run, tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbfof\nXan \xff Yel\non\n', 'in.txt')
    status, out, errors = infer_py('--run', run, '--input', path, '--format', 'json')
    assert status == 0 and [json.loads(line)['text'] for line in out.splitlines()] == ['of', 'Xan \ufffd Yel', 'on']
    assert errors == (f'infer.py: {path}:2: expected UTF-8, got byte 0xff at column 5; tagged with replacement '
                      'characters\n')
    output = tmp_path / 'out.txt'
    status, out, errors = infer_py('--run', run, '--input', path, '--strict', '--output', output)
    assert (status, out) == (2, '') and errors.startswith(f'infer.py: {path}:2: expected UTF-8')
    assert sorted(file.name for file in tmp_path.iterdir()) == ['in.txt']    # no partial output file


@pytest.mark.slow
def test_infer_a_pipe_is_answered_as_it_speaks_and_may_break(run):
    with process('--run', run) as tagging:
        for line in LINES:
            tagging.stdin.write(line + '\n')
            tagging.stdin.flush()
            assert PIECES.sub(r'\1', tagging.stdout.readline()) == line + '\n'      # while standard input is still open
        tagging.stdout.close()
        tagging.stdin.write('of\n' * 20000)
        tagging.stdin.close()
        assert tagging.wait(60) == 0 and tagging.stderr.read() == ''


@pytest.mark.slow
def test_infer_a_conversation(run, tmp_path):
    """Checks infer.py on a terminal.

    It loads the newest run of the current folder, shows a prompt and colours entities.
    """
    (tmp_path / 'runs').mkdir()
    os.symlink(run, tmp_path / 'runs' / 'mine')
    ours, theirs = pty.openpty()
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'TERM': 'dumb'}
    talk = subprocess.Popen([sys.executable, str(ROOT / 'infer.py')], stdin=theirs, stdout=theirs, stderr=theirs,
                            cwd=tmp_path, env=environment, close_fds=True)
    os.close(theirs)
    os.write(ours, f'{LINES[0]}\n\n'.encode())
    shown = b''
    try:
        while data := os.read(ours, 1000):
            shown += data
    except OSError:                                              # the terminal was closed
        pass
    assert talk.wait(60) == 0
    text = shown.decode()
    assert 'loading runs/mine' in text and '> ' in text and 'Traceback' not in text
    assert '\033[1;36m[' in text and ' PER]\033[0m' in text


@pytest.mark.parametrize('arguments,message', [
    (['--frobnicate'], 'unrecognized arguments: --frobnicate; see --help'),
    (['--run', 'a', '--mindir', 'b'], '--run and --mindir name two models'),
    (['--text', 'a', '--input', 'b'], '--text and --input name two inputs'),
    (['--input', 'absent.txt'], 'absent.txt: no such file'),
    (['--text', 'a', '--output', 'absent/x'], 'absent/x: cannot be written: there is no folder'),
    (['--text', 'a', '--output', '.'], '.: expected the name of a file to write, got a folder'),
    (['--text', 'a', '--run', 'absent'], 'absent/config.json: no such file; expected a run made by training'),
    (['--text', 'a', '--mindir', 'absent.mindir'], 'absent.json: no such file'),
    (['--text', 'a'], 'runs: no run found; create one with: python train.py'),
    (['--text', 'a', '--nbest', '2'], '--nbest needs --format json or html, got text'),
    (['--text', 'a', '--nbest', '-1'], '--nbest must be at least 0, got -1'),
    (['--text', 'a', '--nbest', '1001', '--format', 'json'], '--nbest must be at most 1000, got 1001'),
    (['--input-format', 'conll', '--columns', 'x'], "--columns must be a number or two like 0,-1, got 'x'"),
    (['--text', 'a', '--score'], '--score needs tags in the input, got text'),
    (['--text', 'a', '--device', 'TPU'], "argument --device: invalid choice: 'TPU'"),
])
def test_infer_what_it_can_not_do(infer_py, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, errors = infer_py(*arguments)
    assert (status, out) == (2, '') and errors.startswith(f'infer.py: {message}') and len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name,text,arguments,message', [
    ('in.tsv', 'of O\n\nXan\n', ['--score'], 'in.tsv:3: expected columns 0 and -1 to hold token and tag'),
    ('in.tsv', 'a O\n\nXan NOUN\n', ['--score'], "in.tsv:3: expected 'O' or tags of spans in the scheme BIO, got "),
    ('in.tsv', 'a M-X\nb I-X\n', ['--score'], 'in.tsv:1: expected M inside of spans as in the rest of the corpus, got'),
    ('in.tsv', 'of O\n', ['--columns', '3'], 'in.tsv:1: expected column 3 to hold token'),
    ('in.tsv', '\n', ['--score'], 'in.tsv: expected tagged sentences, got none'),
    ('in.jsonl', '{"text": "on"}\nx\n', [], 'in.jsonl:2: expected a JSON object: Expecting value at column 1'),
    ('in.jsonl', '{"a": 1}\n', [], 'in.jsonl:1: expected "tokens", a list of strings, or "text", a string, got nei'),
    ('in.jsonl', '{"tokens": ["a", ""]}\n', [], 'in.jsonl:1: expected "tokens" to be a list of strings'),
    ('in.jsonl', '{"tokens": ["a"], "tags": []}\n', ['--score'], 'in.jsonl:1: expected a tag for each token'),
])
def test_infer_faults_of_input(infer_py, run, tmp_path, name, text, arguments, message):
    path = write(tmp_path, text, name)
    status, _, errors = infer_py('--run', run, '--input', path, '--output', tmp_path / 'out', *arguments)
    assert status == 2 and errors.startswith(f'infer.py: {tmp_path}/{message}') and len(errors.splitlines()) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == [name]


@pytest.mark.parametrize('arguments,message', [
    (['--output', 'model.txt'], '--output must end in .mindir, got model.txt'),
    (['--output', 'absent/a.mindir'], 'absent/a.mindir: cannot be written'),
    (['--static', '0', '4'], '--static must be two numbers of at least 1, got 0 4'),
    (['--emissions', '--confidence'], 'argument --confidence: not allowed with argument --emissions'),
    (['--run', 'absent'], 'absent/config.json: no such file'), ([], 'runs: no run found')])
def test_infer_what_can_not_be_exported(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert export.main(arguments) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f'ms_crf.export: {message}') and len(errors.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_infer_a_sentence_of_ten_thousand_words(infer_py, run, tagger, tmp_path):
    words = ['to', 'of', 'Xan', 'Yel'] * 2500
    path = write(tmp_path, ' '.join(words), 'in.txt')
    status, out, _ = infer_py('--run', run, '--input', path, '--format', 'json', '--no-confidence')
    tags = json.loads(out)['tags']
    assert status == 0 and len(tags) == 10000
    assert tags[100:200] == tags[5000:5100] == tagger.tag([words[:300]], False)[0].tags[100:200]
