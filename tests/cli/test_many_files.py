"""Tests a folder or a pattern as the input of `infer.py`.

The command writes one output file per input file, and never overwrites existing output.
"""

import gzip
import os
import signal
import subprocess
import sys

from ms_crf.cli import infer

import pytest

from support.paths import ROOT

TEXTS = {'a.txt': 'to Xan Yan\nof\n', 'b/c.txt': 'of Xel Yel\n', 'b/d.tsv': 'to\nXor\nYor\n\nof\n\n',
         'e.jsonl': '{"text": "of Xan Yor"}\n'}


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / 'texts'
    for name, text in {**TEXTS, '.hidden.txt': 'x\n', '.git/f.txt': 'x\n'}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
    return folder


@pytest.fixture
def infer_py(run, capfd):
    """Runs infer.py in this process and returns its exit status, standard output and standard error."""
    def call(*arguments):
        capfd.readouterr()
        status = infer.main(['--run', str(run), *(str(argument) for argument in arguments)])
        return status, *capfd.readouterr()
    return call


def written(folder):
    return {str(path.relative_to(folder)): path.read_text(encoding='utf-8')
            for path in folder.rglob('*') if path.is_file()}


def one_by_one(infer_py, texts, output, endings, *arguments):
    """Returns the output of infer.py for each file alone, the oracle for its output for the folder."""
    expected = {}
    for name in TEXTS:
        target = output / name.replace('/', '_')
        assert infer_py('--input', texts / name, '--output', target, *arguments)[0] == 0
        expected[name + endings.get(name.partition('.')[2], '')] = target.read_text(encoding='utf-8')
    return expected


@pytest.mark.parametrize('kind,endings', [
    ('text', {}), ('json', {'txt': '.jsonl', 'tsv': '.jsonl'}), ('conll', {'txt': '.tsv', 'jsonl': '.tsv'})])
def test_many_files_a_folder_gives_what_its_files_give(texts, tmp_path, infer_py, kind, endings):
    status, shown, errors = infer_py('--input', texts, '--output', tmp_path / 'out/of', '--format', kind)
    assert (status, shown, errors) == (0, '', '')
    (tmp_path / 'single').mkdir()
    assert written(tmp_path / 'out/of') == one_by_one(infer_py, texts, tmp_path / 'single', endings, '--format', kind)


def test_many_files_a_pattern(texts, tmp_path, infer_py):
    (texts / 'g.txt.gz').write_bytes(gzip.compress(b'of Xan Yan\n'))
    assert infer_py('--input', texts / '*.txt*', '--output', tmp_path / 'out')[0] == 0
    assert written(tmp_path / 'out') == {'a.txt': 'to [Xan Yan PER]\nof\n', 'g.txt': 'of [Xan Yan PER]\n'}
    assert infer_py('--input', f'{texts}/**/*.txt', '--output', tmp_path / 'deep')[0] == 0
    assert sorted(written(tmp_path / 'deep')) == ['a.txt', 'b/c.txt']
    (texts / 'odd[1].txt').write_text('of\n')                    # the name of a file may look like a pattern
    assert infer_py('--input', texts / 'odd[1].txt', '--output', tmp_path / 'one') == (0, '', '')
    assert (tmp_path / 'one').read_text() == 'of\n'


def test_many_files_what_is_there_stays_and_the_rest_is_tagged(texts, tmp_path, infer_py):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'a.txt').write_text('done before\n')
    status, shown, errors = infer_py('--input', texts / '**/*.txt', '--output', out)
    assert (status, shown, errors) == (
        0, '', f'infer.py: 1 of 2 files tagged; {out} already contained the output of the rest\n')
    assert written(out) == {'a.txt': 'done before\n', 'b/c.txt': 'of [Xel Yel PER]\n'}


def test_many_files_at_a_fault_what_was_written_stays_whole_and_the_next_start_goes_on(texts, tmp_path, infer_py):
    out = tmp_path / 'out'
    (texts / 'b/b.txt').write_bytes(b'of Xan\n\xff\n')
    status, shown, errors = infer_py('--input', texts / '**/*.txt', '--output', out, '--strict')
    assert (status, shown) == (2, '')
    assert errors == f'infer.py: {texts}/b/b.txt:2: expected UTF-8, got byte 0xff at column 1\n'
    assert written(out) == {'a.txt': 'to [Xan Yan PER]\nof\n'}
    (texts / 'b/b.txt').write_text('of\n')
    assert infer_py('--input', texts / '**/*.txt', '--output', out, '--strict')[0] == 0
    assert sorted(written(out)) == ['a.txt', 'b/b.txt', 'b/c.txt']


@pytest.mark.slow
def test_many_files_a_killed_command_leaves_whole_files_only(run, tmp_path):
    texts, out = tmp_path / 'texts', tmp_path / 'out'
    texts.mkdir()
    for number in range(200):
        (texts / f'{number:03}.txt').write_text('to Xan Yan of\n' * 500)
    command = [sys.executable, str(ROOT / 'infer.py'), '--run', str(run), '--input', str(texts), '--output', str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not (out / '010.txt').exists() and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    expected = 'to [Xan Yan PER] of\n' * 500
    assert {text for name, text in written(out).items() if not name.startswith('.')} == {expected}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stdout
    assert all((out / f'{number:03}.txt').read_text() == expected for number in range(200))


def test_many_files_scores_of_many_files(corpora, tmp_path, infer_py):
    folder = tmp_path / 'gold'
    folder.mkdir()
    together = tmp_path / 'together.tsv'
    together.write_text('')
    for part in ('dev', 'test'):
        text = (corpora / f'{part}.tsv').read_text()
        (folder / f'{part}.tsv').write_text(text)
        together.write_text(together.read_text() + text)
    expected = infer_py('--input', together, '--score')
    assert expected[0] == 0 and infer_py('--input', folder, '--score') == expected
    assert infer_py('--input', folder, '--score', '--output', tmp_path / 'out')[1] == expected[1]
    (folder / 'test.tsv').write_text('of\tX-PER\n')
    assert infer_py('--input', folder, '--score')[2].startswith(f'infer.py: {folder}/test.tsv:1: expected ')


def test_many_files_faults(texts, tmp_path, infer_py):
    def fault(*arguments):
        status, shown, errors = infer_py(*arguments)
        assert (status, shown) == (2, '')
        return errors

    assert fault('--input', texts) == (f'infer.py: --output must name a folder if --input is several files, as {texts} '
                                       'is\n')
    assert fault('--input', texts / '*.no', '--output', tmp_path / 'o') == (
        f'infer.py: {texts}/*.no: expected files to tag for this pattern, got none\n')
    (tmp_path / 'empty').mkdir()
    assert 'expected files to tag in this folder, got none' in fault('--input', tmp_path / 'empty', '--output',
                                                                             tmp_path / 'o')
    assert 'the output must be a folder if the input is several files, got the file' in fault(
        '--input', texts, '--output', texts / 'a.txt')
    assert 'a.txt would be overwritten' in fault('--input', texts, '--output', texts)
    assert '--raw needs text, got conll in ' in fault('--input', texts, '--output', tmp_path / 'o', '--raw')
    assert '--score needs tags in the input, got text in ' in fault('--input', texts, '--score')
    (texts / 'a.txt.gz').write_bytes(gzip.compress(b'of\n'))
    assert 'would both be written to' in fault('--input', texts, '--output', tmp_path / 'o')
    assert not os.path.exists(tmp_path / 'o')
