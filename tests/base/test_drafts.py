"""Drafts and temporary folders of killed commands are removed; drafts of running processes are kept."""

import importlib.util
import os
import signal
import subprocess
import sys

from ms_crf.base import files

import psutil
import pytest

from support.paths import ROOT
from support.trainings import files as named

needs_report = pytest.mark.skipif(importlib.util.find_spec('matplotlib') is None, reason='needs the extra report')
needs_ray = pytest.mark.skipif(importlib.util.find_spec('ray') is None, reason='needs the extra bulk')
# Kills the process with SIGKILL just before it renames a draft to its final name.
HOOK = '''import os, signal, sys
def killed(before):
    def replace(source, target, **others):
        if str(target).startswith(os.environ["WITHIN"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return before(source, target, **others)
    return replace
os.replace, os.rename = killed(os.replace), killed(os.rename)
'''


def hidden(folder):
    return sorted(path.name for path in folder.rglob('.*') if path.name != '.tag-many.json')


@pytest.fixture
def killed_and_repeated(tmp_path, hmm):
    """A function that runs a command, kills it, and runs it again; the second command must remove all drafts.

    In the arguments, {w} stands for a work folder and {r} for a run.
    """
    folder, temporary = tmp_path / 'work', tmp_path / 'temporary'
    folder.mkdir()
    temporary.mkdir()
    (tmp_path / 'hook').mkdir()
    (tmp_path / 'hook' / 'sitecustomize.py').write_text(HOOK)
    (folder / 'in').mkdir()
    for name in 'ab':
        (folder / 'in' / f'{name}.txt').write_text('to Xan Yan\n')

    def call(*arguments):
        arguments = [argument.replace('{w}', str(folder)).replace('{r}', str(hmm)) for argument in arguments]
        for status, paths in ((-signal.SIGKILL, [tmp_path / 'hook', ROOT]), (0, [ROOT])):
            environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(map(str, paths)), 'TMPDIR': str(temporary),
                           'WITHIN': str(folder)}
            process = subprocess.run([sys.executable, '-m', *arguments], env=environment, cwd=folder, timeout=120,
                                     capture_output=True, text=True)
            assert process.returncode == status, process.stderr
            if status:
                assert hidden(folder), 'the test kills too early or too late'
        assert hidden(folder) == [] and hidden(temporary) == []
        return folder
    return call


@pytest.mark.slow
def test_drafts_tagging_a_folder(killed_and_repeated):
    folder = killed_and_repeated('ms_crf', 'infer', '--run', '{r}', '--input', '{w}/in', '--output', '{w}/out')
    assert sorted(path.name for path in (folder / 'out').iterdir()) == ['a.txt', 'b.txt']


@pytest.mark.slow
@pytest.mark.parametrize('target,output', [('jsonl', 'out.jsonl'), ('brat', 'out')])
def test_drafts_conversion(killed_and_repeated, corpora, target, output):
    killed_and_repeated('ms_crf', 'convert', str(corpora / 'test.tsv'), f'{{w}}/{output}', '--to',
                        {'jsonl': 'doccano'}.get(target, target))


@pytest.mark.slow
def test_drafts_scores_and_suggestions(killed_and_repeated, corpora):
    killed_and_repeated('ms_crf', 'evaluate', '--run', '{r}', '--input', str(corpora / 'test.tsv'), '--json',
                        '{w}/a.json')
    killed_and_repeated('ms_crf', 'suggest', '--run', '{r}', '--input', '{w}/in/a.txt', '--output', '{w}/s.jsonl')


@pytest.mark.slow
def test_drafts_training(killed_and_repeated, corpora):
    folder = killed_and_repeated('ms_crf', 'train', '--model', 'hmm', *named(corpora), '--save', '{w}/run')
    assert (folder / 'run' / 'scores.json').exists()


@pytest.mark.slow
@needs_report
def test_drafts_a_report(killed_and_repeated):
    killed_and_repeated('ms_crf', 'report', '{r}', '--output', '{w}/report.html')


@pytest.mark.slow
@needs_ray
def test_drafts_many_files(killed_and_repeated):
    """The command is killed when it writes the folder's record; the hook is not active in Ray's worker processes."""
    killed_and_repeated('ms_crf', 'tag-many', '--run', '{r}', '--input', '{w}/in', '--output', '{w}/out', '--workers',
                        '1')


def test_drafts_temporary_folders(tmp_path):
    program = ('import os, signal\nfrom ms_crf.base.files import new_folder\n'
               'open(new_folder() + "/file", "w").close()\n')
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'TMPDIR': str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, '-c', f'{program}os.kill(os.getpid(), signal.SIGKILL)'], env=environment)
        assert len(hidden(tmp_path)) == 1                        # only the folder of the latest process


def test_drafts_of_processes_that_run_stay(tmp_path):
    """Drafts of running processes and of other machines stay.

    Drafts of ended processes are removed, also if another process has the same process id in the meantime.
    """
    with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) as other:
        start, machine = round(psutil.Process(other.pid).create_time()), files.draft_prefix().split('-')[-1]
        running = f'.ms_crf-{other.pid}-{start}-{machine}a.txt'
        elsewhere = f'.ms_crf-{other.pid}-{start - 100}-00000000.a.txt'
        reused = f'.ms_crf-{other.pid}-{start - 100}-{machine}a.txt'
        others = ['.123.a.txt', '.ms_crf', '.ms_crf-1-2.a.txt', 'ms_crf-1-2-00000000.a']
        for name in (running, elsewhere, reused, *others):
            (tmp_path / name).write_text('draft')
        files.write_text(tmp_path / 'a.txt', 'text')
        assert sorted(os.listdir(tmp_path)) == sorted([running, elsewhere, *others, 'a.txt'])
        other.stdin.close()
    files._cleared.clear()                                      # a new command would start with an empty set, too
    files.write_text(tmp_path / 'a.txt', 'text')
    assert sorted(os.listdir(tmp_path)) == sorted([elsewhere, *others, 'a.txt'])


def test_drafts_a_forked_process_has_drafts_of_its_own(tmp_path):
    own = files.draft_of(tmp_path / 'a')
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, files.draft_of(tmp_path / 'a').encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000).decode() != own
