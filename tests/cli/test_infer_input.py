"""Tests the input formats of `infer.py` and the output for each.

The models are hidden Markov models, because they need no graph compilation.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from ms_crf.base.errors import CorpusError
from ms_crf.cli import infer, train
from ms_crf.models.encoder.pretrained import EncoderFiles
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun

import pytest

from support.paths import ROOT

WORDS = 'on\tO\nXan\tB{0}\nYan\tI{0}\nof\tO\n\nof\tO\nXel\tB{0}\n\n' * 3
SPACES = 'on\u00a0Xan Yan\u3000of\t\u2028x \x0b\n'  # Unicode white space; only tabs and spaces separate tokens
TOKENS = ['on\u00a0Xan', 'Yan\u3000of', '\u2028x', '\x0b']


def count(folder, text):
    """Trains a hidden Markov model on the text of a column file and returns its run directory."""
    path = folder / 'train.tsv'
    path.write_text(text, encoding='utf-8')
    run = folder / 'run'
    assert train.main(['--train', str(path), '--dev', str(path), '--model', 'hmm', '--save', str(run)]) == 0
    return run


@pytest.fixture
def infer_py(capfd):
    """Runs infer.py in this process and returns its exit status, standard output and standard error."""
    def call(*arguments):
        capfd.readouterr()
        status = infer.main([str(argument) for argument in arguments])
        return status, *capfd.readouterr()
    return call


def process(*arguments, **others):
    return subprocess.Popen([sys.executable, str(ROOT / 'infer.py'), *map(str, arguments)],
                            **{'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE,
                               'text': True, **others})


def write(folder, text, name):
    path = folder / name
    path.write_text(text, encoding='utf-8')
    return path


# Output

@pytest.mark.parametrize('kind,shown', [('', ''), ('-PER', ' PER')])
def test_infer_input_words_stay_apart_whether_spans_have_types_or_not(infer_py, tmp_path, kind, shown):
    run = count(tmp_path, WORDS.format(kind))
    assert infer_py('--run', run, '--text', 'on  Xan Yan of')[1] == f'on  [Xan Yan{shown}] of\n'
    status, out, _ = infer_py('--run', run, '--text', 'on Xan Yan', '--confidence')
    assert status == 0 and re.fullmatch(rf'on \[Xan Yan{shown} [01]\.\d\d\]\n', out)


@pytest.mark.parametrize('tags', ['BI', 'BE'])
def test_infer_input_characters_become_words(infer_py, tmp_path, tags):
    run = count(tmp_path, '北\t{0}\n京\t{1}\n天\t{0}\n津\t{1}\n\n'.format(*tags) * 3)
    assert infer_py('--run', run, '--text', '天津北京')[1] == '天津 北京\n'


def test_infer_input_a_text_with_line_ends_is_one_line(infer_py, run, tmp_path):
    record = {'text': 'on Xan Yan\nof\r\nXel ', 'tokens': ['on', 'Xan', 'Yan\nof', 'Xel']}
    path = write(tmp_path, json.dumps({'text': record['text']}) + '\n' + json.dumps(record) + '\n', 'in.jsonl')
    status, out, _ = infer_py('--run', run, '--input', path)
    assert status == 0 and [line.replace('[', '').replace(' PER]', '') for line in out.split('\n')] == [
        'on Xan Yan of  Xel '] * 2 + ['']
    assert json.loads(infer_py('--run', run, '--input', path, '--format', 'json')[1].splitlines()[0])['tokens'] == [
        'on', 'Xan', 'Yan', 'of', 'Xel']
    assert infer_py('--run', run, '--text', record['text'])[1].count('\n') == 1


@pytest.mark.parametrize('token,name', [('a\tb', 'a tab'), ('a\nb', 'a line end'), ('\r', 'a line end')])
def test_infer_input_tokens_that_columns_can_not_hold(infer_py, run, tmp_path, token, name):
    path = write(tmp_path, '{"tokens": ["on"]}\n' + json.dumps({'tokens': ['x', token]}) + '\n', 'in.jsonl')
    status, out, errors = infer_py('--run', run, '--input', path, '--format', 'conll')
    assert (status, out) == (2, 'on\tO\n\n')
    assert errors == (f'infer.py: {path}:2: expected tokens that columns can hold, got {name} in {token!r}; '
                      'JSON lines can hold it\n')
    assert infer_py('--run', run, '--input', path, '--format', 'json')[0] == 0


def test_infer_input_what_comes_before_a_fault_is_tagged(infer_py, run, tmp_path):
    path = write(tmp_path, '{"tokens": ["on", "Xan"]}\n' * 500 + 'x\n', 'in.jsonl')
    status, out, errors = infer_py('--run', run, '--input', path, '--format', 'json')
    assert status == 2 and len(out.splitlines()) == 500
    assert errors == f'infer.py: {path}:501: expected a JSON object: Expecting value at column 1\n'
    path = tmp_path / 'in.txt'
    path.write_bytes(b'on\n' * 500 + b'\xff\n')
    status, out, errors = infer_py('--run', run, '--input', path, '--strict')
    assert (status, out) == (2, 'on\n' * 500) and ':501: expected UTF-8' in errors


# Input

def test_infer_input_conllu_is_read_as_in_training(infer_py, run, tmp_path):
    """Checks that infer.py reads CoNLL-U as training does.

    The FORM column gives the tokens. Word ids, multiword tokens, empty nodes and comments are skipped.
    """
    rows = ['# text = Vamonos hoy', '1-2\tVamonos', '1\tVamos\tir\tVERB', '2\tnos\tnos\tPRON', '2.1\tyo',
            '3\thoy\thoy\tADV']
    rows = [row if row.startswith('#') else '\t'.join([*row.split('\t'), *['_'] * 9][:10]) for row in rows]
    path = write(tmp_path, '\n'.join(rows) + '\n\n', 'in.conllu')
    status, out, errors = infer_py('--run', run, '--input', path, '--format', 'json')
    assert (status, json.loads(out.splitlines()[0])['tokens'], errors) == (0, ['Vamos', 'nos', 'hoy'], '')


CONLLU = '''# newdoc
# text = on Xan Yan
1-2\tonXan\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\ton\ton\tADP\tIN\t_\t0\troot\t_\tNER=B-OLD|Gloss=x
2\tXan\t_\t_\t_\t_\t1\tdep\t_\t_
2.1\tyo\t_\t_\t_\t_\t_\t_\t_\tCopyOf=1
3\tYan\t_\tX\tXX\t_\t1\tdep\t_\tSpaceAfter=No

# a comment
1\tXel\t_\t_\t_\t_\t0\troot\t_\t_'''


def test_infer_input_tagged_conllu_is_conllu(infer_py, tmp_path):
    """Checks that tagged CoNLL-U is again CoNLL-U, with span tags in MISC and all other columns unchanged.

    The last sentence also ends with an empty line.
    """
    run = count(tmp_path, WORDS.format('-PER'))
    path = write(tmp_path, CONLLU, 'in.conllu')
    expected = CONLLU.replace('NER=B-OLD|', '').replace('\tdep\t_\t_\n2.1', '\tdep\t_\tNER=B-PER\n2.1')
    expected = expected.replace('SpaceAfter=No\n\n', 'SpaceAfter=No|NER=I-PER\n\n')
    status, out, errors = infer_py('--run', run, '--input', path, '--format', 'conll')
    assert (status, out, errors) == (0, expected[:-1] + 'NER=B-PER\n\n', '')
    again = write(tmp_path, out, 'out.conllu')
    assert infer_py('--run', run, '--input', again, '--score', '--columns', '1,9')[1].splitlines()[0] == (
        'processed 4 tokens with 2 phrases; found: 2 phrases; correct: 2.')
    _, out, _ = infer_py('--run', run, '--input', path, '--format', 'conll', '--confidence')
    assert re.findall(r'(?:\||\t)Confidence=[01]\.\d{4}', out) and all(
        len(line.split('\t')) in (1, 10) for line in out.splitlines())


@pytest.mark.parametrize('columns,index', [([], 3), (['--columns', '1'], 3), (['--columns', '1,4'], 4),
                                           (['--columns', '1,-3'], 7)])
def test_infer_input_parts_of_speech_go_to_their_column(infer_py, tmp_path, columns, index):
    run = count(tmp_path, 'on\tIN\nXan\tNN\nYan\tNN\n\nXel\tNN\n\n' * 3)
    path = write(tmp_path, CONLLU, 'in.conllu')
    status, out, _ = infer_py('--run', run, '--input', path, '--format', 'conll', *columns)
    expected = [line.split('\t') for line in (CONLLU + '\n\n').split('\n')]
    for cells in expected:
        if len(cells) == 10 and cells[0].isdigit():
            cells[index] = {'on': 'IN', 'of': 'IN'}.get(cells[1], 'NN')
    assert (status, [line.split('\t') for line in out.split('\n')]) == (0, expected)


@pytest.mark.parametrize('text,arguments,message', [
    ('1\ton\n', ['--columns', '1'], "{path}:1: expected 10 columns, as CoNLL-U has them, got '1\\ton'"),
    (CONLLU, ['--columns', '1,0'], 'the tag column of CoNLL-U must be from 2 to 9, got 0')])
def test_infer_input_what_would_be_no_conllu(infer_py, run, tmp_path, text, arguments, message):
    path = write(tmp_path, text, 'in.conllu')
    assert infer_py('--run', run, '--input', path, '--format', 'conll', *arguments) == (
        2, '', f'infer.py: {message.format(path=path)}\n')
    assert infer_py('--run', run, '--input', path, *arguments)[0] == 0


SPANS = [{'text': 'on Xan Yan\nof', 'entities': [[3, 10, 'PER']]}, {'text': 'of Xel', 'entities': [[3, 6, 'PER']]}]


@pytest.mark.parametrize('text,name', [('\n'.join(map(json.dumps, SPANS)), 'in.jsonl'), (json.dumps(SPANS), 'in.json')])
def test_infer_input_texts_with_spans_are_scored(infer_py, tmp_path, text, name):
    run, blanks = count(tmp_path, WORDS.format('-PER')), ('--splitter', 'blanks')
    path, output = write(tmp_path, text, name), tmp_path / 'out.jsonl'
    status, out, errors = infer_py('--run', run, '--input', path, '--score', '--output', output, '--format', 'json',
                                   *blanks)
    assert (status, errors) == (0, '') and out.startswith('processed 6 tokens with 2 phrases; found: 2 phrases; '
                                                          'correct: 2.\n')
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row['text'], row['gold']) for row in rows] == [
        ('on Xan Yan', ['O', 'B-PER', 'I-PER']), ('of', ['O']), ('of Xel', ['O', 'B-PER'])]
    write(tmp_path, '{"text": "of Xel.", "spans": [[3, 6, "PER"]]}', name)
    assert infer_py('--run', run, '--input', path, '--score', *blanks)[::2] == (
        0, f'infer.py: {path}: 1 span beginning or ending within a token, widened to whole tokens; the first, at line '
           "1: 'Xel'\n")


@pytest.mark.slow
def test_infer_input_an_array_that_comes_through_a_pipe_is_scored(tmp_path):
    run = count(tmp_path, WORDS.format('-PER'))
    with process('--run', run, '--input-format', 'json', '--score') as tagging:
        out, errors = tagging.communicate(json.dumps(SPANS, indent=1), timeout=60)
    assert (tagging.returncode, errors) == (0, '') and out.startswith('processed 6 tokens with 2 phrases; found: 2 ')


def test_infer_input_brat_is_scored(infer_py, tmp_path):
    run = count(tmp_path, WORDS.format('-PER'))
    folder = tmp_path / 'corpus'
    folder.mkdir()
    for name in ('a', 'b'):
        write(folder, 'on Xan Yan of\nof Xel', f'{name}.txt')
        write(folder, 'T1\tPER 3 10\tXan Yan\nT2\tPER 17 20\tXel\n', f'{name}.ann')
    for path, times in ((folder, 2), (folder / 'a.ann', 1), (folder / 'a.txt', 1)):
        status, out, errors = infer_py('--run', run, '--input', path, '--score')
        assert (status, errors) == (0, '') and out.splitlines()[0] == (
            f'processed {6 * times} tokens with {2 * times} phrases; found: {2 * times} phrases; correct: {2 * times}.')
    assert infer_py('--run', run, '--input', folder, '--score', '--strict') == (
        2, '', 'infer.py: --strict has no effect with brat; omit it\n')


def test_infer_input_texts_with_spans_train(tmp_path, capfd):
    odd = {'text': 'Xel.', 'spans': [[0, 3, 'PER']]}
    path = write(tmp_path, '\n'.join(map(json.dumps, [*SPANS, odd])), 'in.jsonl')
    assert train.main(['--train', str(path), '--dev', str(path), '--model', 'hmm', '--save', str(tmp_path / 'r'),
                       '--splitter', 'blanks']) == 0
    assert train.main(['--train', str(path), '--dev', str(path), '--model', 'hmm', '--columns', '0,1']) == 2
    out, errors = capfd.readouterr()
    assert errors == 'train.py: --columns has no effect with JSON lines; omit it\n'
    assert 'train        4 sentences' in out and out.splitlines()[3] == (
        f"{path}: 1 span beginning or ending within a token, widened to whole tokens; the first, at line 3: 'Xel'")


def test_infer_input_white_space_separates_the_same_in_text_and_columns(infer_py, run, tmp_path):
    """Checks that only tabs and spaces separate tokens, in raw text, in column files and in JSON.

    Any other Unicode white space is part of its token, as in training.
    """
    def tokens(*arguments):
        _, out, _ = infer_py('--run', run, '--format', 'json', *arguments)
        return json.loads(out.split('\n')[0])['tokens']

    columns = write(tmp_path, '\n'.join(TOKENS) + '\n', 'in.tsv')
    records = write(tmp_path, json.dumps({'text': SPACES}), 'in.jsonl')
    found = [tokens('--text', SPACES), tokens('--input', write(tmp_path, SPACES, 'in.txt')),
             tokens('--input', columns), tokens('--input', records)]
    assert found == [TOKENS] * 4
    assert tokens('--text', 'a\u3000 b\tc', '--chars') == ['a', '\u3000', 'b', 'c']


@pytest.mark.parametrize('arguments,why', [
    (['--text', 'on', '--input-format', 'conll'], '--input-format has no effect with --text'),
    (['--text', 'on', '--columns', '0'], '--columns has no effect with --text'),
    (['--text', 'on', '--strict'], '--strict has no effect with --text'),
    (['--input', 'in.tsv', '--chars'], '--chars has no effect with columns'),
    (['--input', 'in.tsv', '--no-chars'], '--chars has no effect with columns'),
    (['--input', 'in.txt', '--input-format', 'conll', '--chars'], '--chars has no effect with columns'),
    (['--input', 'in.txt', '--columns', '0'], '--columns has no effect with text'),
    (['--input', 'in.jsonl', '--columns', '0'], '--columns has no effect with JSON lines'),
    (['--columns', '0'], '--columns has no effect with text'),
    (['--input', 'in.tsv', '--score', '--confidence'], '--confidence has no effect with --score without --output'),
    (['--input', 'in.tsv', '--score', '--format', 'json'], '--format has no effect with --score without --output'),
])
def test_infer_input_options_that_mean_nothing(infer_py, run, arguments, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ('in.tsv', 'in.txt', 'in.jsonl'):
        write(tmp_path, '', name)
    assert infer_py('--run', run, *arguments) == (2, '', f'infer.py: {why}; omit it\n')


@pytest.mark.parametrize('option,value', [('--input', 'b'), ('--run', 'b'), ('--output', 'b'), ('--text', 'b')])
def test_infer_input_what_is_named_twice(infer_py, option, value):
    for again in ([option, value], [f'{option}={value}']):
        assert infer_py(option, 'a', *again) == (2, '', f'infer.py: {option} appears twice, expected it once\n')


@pytest.mark.slow
def test_infer_input_pipes_are_read_and_answered_as_they_speak(run, tmp_path):
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    with process('--run', run, '--input', fifo) as tagging, os.fdopen(
            os.open(fifo, os.O_RDWR), 'w', buffering=1) as speaker:      # O_RDWR does not wait for a reader
        for _ in range(2):
            speaker.write('on\n')
            assert tagging.stdout.readline() == 'on\n'           # while the pipe is still open
        speaker.close()
        assert (tagging.wait(60), tagging.stdout.read(), tagging.stderr.read()) == (0, '', '')
    with process('--run', run, '--input', '/dev/stdin') as tagging:
        assert tagging.communicate('on of\nto\n', timeout=60) == ('on of\nto\n', '')
    ours, theirs = os.pipe()
    os.write(theirs, b'on\tO\n')
    os.close(theirs)
    with process('--run', run, '--input', f'/dev/fd/{ours}', '--input-format', 'conll', '--score',
                 pass_fds=[ours]) as tagging:
        assert tagging.communicate(timeout=60)[0].startswith('processed 1 tokens')
    os.close(ours)


def test_infer_input_a_pipe_may_be_compressed_or_empty(infer_py, run, tmp_path):
    import gzip
    fifo = tmp_path / 'fifo.txt.gz'
    os.mkfifo(fifo)
    speaker = threading.Thread(target=fifo.write_bytes, args=(gzip.compress(b'on of\n'),), daemon=True)
    speaker.start()
    assert infer_py('--run', run, '--input', fifo) == (0, 'on of\n', '')
    speaker.join(60)
    assert infer_py('--run', run, '--input', '/dev/null') == (0, '', '')


def test_infer_input_a_temperature_changes_confidences_alone(infer_py, run):
    arguments = ('--run', run, '--text', 'to Xan Yan of Xel', '--format', 'json')
    usual, hot, same = (json.loads(infer_py(*arguments, *more)[1]) for more in (
        (), ('--temperature', 5), ('--temperature', 1)))
    assert usual == same and hot['tags'] == usual['tags'] and hot['confidence'] < usual['confidence']
    assert infer_py(*arguments[:4], '--temperature', 2) == (
        2, '', 'infer.py: --temperature has no effect without confidences; omit it\n')
    for value, bound in (('0', 'least 0.01'), ('nan', 'least 0.01'), ('101', 'most 100')):
        status, _, errors = infer_py(*arguments, '--temperature', value)
        assert status == 2 and errors.startswith(f'infer.py: --temperature must be at {bound}, got ')


@pytest.mark.parametrize('name,message', [('absent', 'no such file'),
                                          ('file/x', 'no such file: file is not a folder')])
def test_infer_input_inputs_that_are_no_files(infer_py, run, name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, '', 'file')
    assert infer_py('--run', run, '--input', name) == (2, '', f'infer.py: {name}: {message}\n')


@pytest.fixture
def nobody():
    """Returns a folder that every user may enter, and a function that runs an action as a user without rights there."""
    def as_nobody(action):
        root = os.geteuid() == 0                                 # root may read every file
        if root:
            os.seteuid(65534)
        try:
            return action()
        finally:
            if root:
                os.seteuid(0)

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder), as_nobody


@pytest.mark.skipif(not hasattr(os, 'seteuid'), reason='users are another matter there')
@pytest.mark.parametrize('closed,named,arguments', [
    ('runs/r/config.json', 'runs/r/config.json', []), ('runs/r/vocab.json', 'runs/r/vocab.json', []),
    ('runs/r/tables.npz', 'runs/r/tables.npz', []), ('runs/r', 'runs/r/config.json', ['--run', 'runs/r']),
    ('runs/r', 'runs/r', []), ('runs', 'runs', []), ('runs', 'runs/x.json', ['--mindir', 'runs/x.mindir']),
    ('in.txt', 'in.txt', ['--input', 'in.txt']), ('runs', 'runs/in.txt', ['--input', 'runs/in.txt'])])
def test_infer_input_what_may_not_be_read_is_said_so(infer_py, run, nobody, monkeypatch, closed, named, arguments):
    folder, as_nobody = nobody
    monkeypatch.chdir(folder)
    shutil.copytree(run, folder / 'runs' / 'r')
    write(folder, 'on', 'in.txt')
    os.chmod(folder / closed, 0)
    text = [] if '--input' in arguments else ['--text', 'on']
    status, out, errors = as_nobody(lambda: infer_py(*arguments, *text))
    os.chmod(folder / closed, 0o755)
    assert (status, out, errors) == (2, '', f'infer.py: {named}: cannot be read: Permission denied\n')


def test_infer_input_tensors_that_may_not_be_read(nobody, capfd):
    folder, as_nobody = nobody
    for name in ('weights.ckpt', 'metrics.jsonl', 'config.json'):
        write(folder, '', name)
        os.chmod(folder / name, 0)
    for call in (lambda: records.read_tensors(folder / 'weights.ckpt'), lambda: SavedRun.open(folder).metrics,
                 lambda: EncoderFiles(folder)):
        with pytest.raises(CorpusError, match='cannot be read: Permission denied'):
            as_nobody(call)
    assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize('end', ['\r', '\n', '\r\n'])
def test_infer_input_lines_of_a_pipe_end_as_they_do_in_files(run, end):
    rows = ['on O', 'Xan B-PER', '', 'of O', '']
    with process('--run', run, '--input-format', 'conll', '--format', 'json', text=False) as tagging:
        out, errors = tagging.communicate(end.join(rows).encode(), timeout=60)
    assert errors == b'' and [json.loads(line)['tokens'] for line in out.splitlines()] == [['on', 'Xan'], ['of']]


@pytest.mark.slow
@pytest.mark.parametrize('locale', [{'LC_ALL': 'C'}, {'LC_ALL': 'C', 'PYTHONUTF8': '0', 'PYTHONCOERCECLOCALE': '0'}])
def test_infer_input_text_of_a_command_line_is_utf8_in_any_locale(run, locale):
    """Checks that --text is decoded as UTF-8 in every locale.

    Without UTF-8 mode, Python decodes each byte of an argument that is not ASCII as an unpaired surrogate.
    """
    for text, expected in (('Jos\u00e9 北', b'Jos\xc3\xa9 \xe5\x8c\x97\n'), (b'Jos\xff', None)):
        command = [sys.executable, 'infer.py', '--run', str(run), '--text', text if expected is None else text.encode()]
        found = subprocess.run(command, cwd=ROOT, env={**os.environ, **locale}, capture_output=True, timeout=60)
        if expected is None:
            assert (found.returncode, found.stdout) == (2, b'')
            assert found.stderr == b"infer.py: --text must be UTF-8, got byte 0xff at column 4\n"
        else:
            shown = found.stdout.replace(b'[', b'').replace(b' PER]', b'')
            assert (found.returncode, shown, found.stderr) == (0, expected, b'')
