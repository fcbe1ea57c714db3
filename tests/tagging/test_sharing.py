"""Tests taggers that threads share, several taggers in one process, and taggers that are sent to other processes."""

import copy
import os
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from ms_crf import Tagger
from ms_crf.cli import train

import pytest

from support.paths import ROOT
from support.runs import WORDS

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def folder(run_of, exported, tmp_path_factory):
    """Returns a folder with a run, and with exported graphs of the run for any shape and for one shape."""
    folder = tmp_path_factory.mktemp('shared')
    shutil.copytree(run_of(), folder / 'run')
    for name, static in (('any', None), ('static', (4, 16))):
        path = exported(run_of(), static=static)
        shutil.copy(path, folder / f'{name}.mindir')
        shutil.copy(path.with_suffix('.json'), folder / f'{name}.json')
    return folder


@pytest.fixture(scope='module')
def texts():
    """Returns the sentences of each call of `tag`, for each of four threads."""
    rng = random.Random(0)
    return [[[rng.choices(WORDS, k=rng.randint(1, 16)) for _ in range(rng.randint(1, 9))] for _ in range(20)]
            for _ in range(4)]


def tags_of(tagger, sentences):
    return [tagged.tags for tagged in tagger.tag(sentences, False)]


def at_once(taggers, texts):
    """Returns the tags from threads that start together; each thread has a tagger and its own sentences."""
    barrier = Barrier(len(taggers), timeout=60)

    def work(tagger, calls):
        barrier.wait()
        return [tags_of(tagger, sentences) for sentences in calls]

    with ThreadPoolExecutor(len(taggers)) as pool:
        return list(pool.map(work, taggers, texts))


@pytest.fixture(scope='module')
def expected(folder, texts):
    """Returns the expected tags, from one tagger that gets one call after another."""
    tagger = Tagger.load(folder / 'run')
    return [[tags_of(tagger, sentences) for sentences in calls] for calls in texts]


@pytest.mark.parametrize('name', ['run', 'any.mindir', 'static.mindir'])
def test_sharing_four_threads_share_a_tagger(folder, texts, expected, name):
    assert at_once([Tagger.load(folder / name)] * 4, texts) == expected


def test_sharing_threads_with_a_tagger_each(folder, texts, expected, capfd):
    """Checks several taggers at once: three were loaded in threads, and one in the main thread.

    Standard error must still work afterwards.
    """
    with ThreadPoolExecutor(3) as pool:
        taggers = list(pool.map(Tagger.load, [folder / 'any.mindir', folder / 'run', folder / 'static.mindir']))
    taggers.append(Tagger.load(folder / 'any.mindir'))
    assert at_once(taggers, texts) == expected
    os.write(2, b'still open\n')
    assert capfd.readouterr().err == 'still open\n'


def test_sharing_a_stream_that_rests_keeps_nobody_waiting(folder, texts, expected):
    tagger = Tagger.load(folder / 'run')
    resting = tagger.stream(texts[0][0], confidence=False)
    next(resting)
    assert at_once([tagger], texts[1:]) == expected[1:2]
    assert [tagged.tags for tagged in resting] == expected[0][0][1:]


@pytest.mark.parametrize('name', ['run', 'any.mindir'])
def test_sharing_copies(folder, texts, expected, name, monkeypatch):
    monkeypatch.chdir(folder)
    tagger = Tagger.load(name)
    assert tags_of(copy.deepcopy(tagger), texts[0][0]) == expected[0][0]
    pickled = pickle.dumps(tagger)
    monkeypatch.chdir(ROOT)  # in another folder, the relative path of the run no longer exists
    assert tags_of(pickle.loads(pickled), texts[0][0]) == expected[0][0]
    with pytest.raises(TypeError, match='got one without a path'):
        pickle.dumps(Tagger(tagger.decoder, tagger.scheme, tagger.file_scheme))


PROCESSES = '''
import multiprocessing, os, sys
sys.path.insert(0, {root!r})
from ms_crf import Tagger

def tag(tagger):
    return tagger.tag([['to', 'Xan']])[0].tags

if __name__ == '__main__':
    tagger = Tagger.load({run!r})
    with multiprocessing.get_context('fork').Pool(1) as pool:    # nothing has been tagged yet
        before = pool.apply(tag, [tagger])
    assert tag(tagger) == before
    child = os.fork()
    if not child:
        faults = []
        for work in (lambda: tag(tagger), lambda: Tagger.load({run!r})):
            try:
                work()
            except RuntimeError as error:
                faults.append(str(error))
        assert len(faults) == 2 and all('start processes by spawn' in fault for fault in faults)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    child = os.fork()
    if not child:                                                # a hidden Markov model has no graphs
        assert Tagger.load({hmm!r}).tag([['to', 'Xan']])[0].tags == ['O', 'B-X']
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        assert pool.apply(tag, [tagger]) == before
'''


def test_sharing_other_processes(folder, tmp_path):
    """After graphs have run, a fork can tag with a hidden Markov model only; a new process tags with every model."""
    (tmp_path / 'train.tsv').write_text('to O\nXan B-X\n')
    assert train.main(['--model', 'hmm', '--train', str(tmp_path / 'train.tsv'), '--dev', str(tmp_path / 'train.tsv'),
                       '--save', str(tmp_path / 'hmm')]) == 0
    program = tmp_path / 'program.py'
    program.write_text(PROCESSES.format(root=str(ROOT), run=str(folder / 'run'), hmm=str(tmp_path / 'hmm')))
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, '', '')
