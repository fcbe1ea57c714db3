"""Trainings in child processes: their order, their output, and how they end.

Small programs replace the trainings.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import SILENT, Lines
from ms_crf.experiments.runner import Children, PlannedRun, options_of, run_all
from ms_crf.runs.directory import nearest_folder

import pytest

#: creates the file NAME.begun, and NAME.saved when it receives SIGTERM; then executes the action of its last argument
PROGRAM = """
import pathlib, signal, sys, time
folder, name, action = pathlib.Path(sys.argv[1]), sys.argv[2].partition('=')[2], sys.argv[3].partition('=')[2]
def save(*_):
    (folder / f'{name}.{"heard" if action == "deaf" else "saved"}').touch()
    if action != 'deaf':
        sys.exit(130)
signal.signal(signal.SIGTERM, save)
(folder / f'{name}.begun').touch()
print(f'hello \\x1b from {name}', flush=True)
print(f'{name}: a remark', file=sys.stderr, flush=True)
def wait(file):
    while not (folder / file).exists():
        time.sleep(0.01)
if action == 'deaf':
    wait('never')
elif action.startswith('wait '):
    wait(action.partition(' ')[2])
elif action == 'count':
    print(len(list(folder.glob('*.begun'))) - len(list(folder.glob('*.ended'))), flush=True)
elif action.startswith('exit '):
    sys.exit(int(action.partition(' ')[2]))
(folder / f'{name}.ended').touch()
"""
SECONDS = 20


@pytest.fixture
def start(tmp_path):
    """A function that runs trainings with these names and actions, and returns the runs."""
    def call(actions, jobs=1, watcher=SILENT, output=None, errors=None, gently=True):
        runs = [PlannedRun(name, tmp_path / name, {'name': name, 'action': action}, gently=gently)
                for name, action in actions.items()]
        run_all(runs, jobs, 'the rest is kept', Children(
            lambda *arguments: [sys.executable, '-c', PROGRAM, str(tmp_path), *arguments], output, errors), watcher)
        return runs
    return call


@pytest.fixture
def streams(tmp_path):
    with open(tmp_path / 'output', 'w') as output, open(tmp_path / 'errors', 'w') as errors:
        yield output, errors


def text(stream):
    stream.flush()
    return Path(stream.name).read_text()


def test_runner_starts_one_training_after_another(start, streams):
    labels = []
    runs = start({'one': 'count', 'two': 'count'}, watcher=Lines(labels.append), output=streams[0], errors=streams[1])
    assert labels == ['one', 'two'] and all(0 < run.seconds < SECONDS for run in runs)
    assert text(streams[0]) == 'hello \x1b from one\n1\nhello \x1b from two\n1\n'
    assert text(streams[1]) == 'one: a remark\ntwo: a remark\n'


def test_runner_labels_the_lines_of_trainings_that_run_at_the_same_time(start, streams):
    """The output lines of trainings that run at the same time begin with the name of the training.

    The first two trainings wait for each other to start. The third training starts when the first or second ends.
    """
    start({'one': 'wait two.begun', 'two': 'wait one.begun', 'three': 'count'}, 2, output=streams[0], errors=streams[1])
    lines = text(streams[0]).splitlines()
    assert sorted(lines[:2]) == ['one: hello \\x1b from one', 'two: hello \\x1b from two']
    assert lines[2] == 'three: hello \\x1b from three' and lines[3] in ('three: 1', 'three: 2')
    assert sorted(text(streams[1]).splitlines()) == [f'{name}: {name}: a remark' for name in ('one', 'three', 'two')]


def test_runner_gives_all_lines_to_the_watcher_without_streams(start, capfd):
    lines = []
    start({'one': 'end'}, watcher=Lines(lines.append))
    assert lines[0] == 'one' and sorted(lines[1:]) == ['one: hello \\x1b from one', 'one: one: a remark']
    assert capfd.readouterr() == ('', '')


def test_runner_stops_the_other_trainings_when_one_fails(start, streams, tmp_path):
    actions = {'one': 'wait never', 'two': 'exit 2', 'three': 'end'}
    with pytest.raises(OptionError, match='^a training ended with status 2: two: two: a remark; the rest is kept$'):
        start(actions, 2)
    assert (tmp_path / 'one.saved').exists() and not (tmp_path / 'three.begun').exists()
    with pytest.raises(OptionError, match='^a training ended with status 2, see above; the rest is kept$'):
        start(actions, 2, output=streams[0], errors=streams[1])


def test_runner_names_the_signal_that_ended_a_training(start, tmp_path):
    def kill():
        while not (tmp_path / 'one.begun').exists():
            time.sleep(0.01)
        [child] = Path(f'/proc/self/task/{threading.main_thread().native_id}/children').read_text().split()[-1:]
        os.kill(int(child), signal.SIGKILL)
    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(OptionError, match='^a training ended by signal 9: one'):
        start({'one': 'wait never'})
    thread.join()


@pytest.mark.parametrize('gently', [True, False])
def test_runner_stopped_by_a_signal_stops_its_trainings(start, tmp_path, gently):
    begun = tmp_path / 'one.begun'
    thread = threading.Thread(target=signal_when, args=(begun.exists, signal.SIGHUP))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        start({'one': 'wait never', 'two': 'end'}, gently=gently)
    thread.join()
    assert (tmp_path / 'one.saved').exists() == gently and not (tmp_path / 'two.begun').exists()


def signal_when(condition, number):
    last = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < last:
        time.sleep(0.01)
    os.kill(os.getpid(), number)


def test_runner_kills_a_training_at_the_second_signal(start, tmp_path):
    def twice():
        signal_when((tmp_path / 'one.begun').exists, signal.SIGTERM)
        signal_when((tmp_path / 'one.heard').exists, signal.SIGTERM)
    thread = threading.Thread(target=twice)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        start({'one': 'deaf'})
    thread.join()
    assert not (tmp_path / 'one.ended').exists()


def test_runner_takes_a_training_that_was_stopped_for_a_stop_of_all(start, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        start({'one': 'exit 130', 'two': 'end'})
    assert not (tmp_path / 'two.begun').exists()


def test_runner_works_in_another_thread(start, tmp_path):
    """Trainings can be started from a thread, in which Python cannot set signal handlers."""
    thread = threading.Thread(target=start, args=({'one': 'end', 'two': 'end'},))
    thread.start()
    thread.join(SECONDS)
    assert (tmp_path / 'two.ended').exists()


def test_runner_ends_its_trainings_when_the_watcher_fails(start, tmp_path):
    """An error in the watcher kills the running training, without a stop request, before the error is raised."""
    def say(line):
        if line == 'two':
            while not (tmp_path / 'one.begun').exists():
                time.sleep(0.01)
            raise RuntimeError('no more')
    with pytest.raises(RuntimeError, match='no more'):
        start({'one': 'wait never', 'two': 'end'}, 2, Lines(say))
    children = Path(f'/proc/self/task/{threading.get_native_id()}/children').read_text().split()
    assert not any(PROGRAM in Path(f'/proc/{child}/cmdline').read_text() for child in children)
    assert not (tmp_path / 'one.saved').exists()


def test_runner_options_of_arguments():
    assert list(options_of({'learning_rate': 0.5, 'bigrams': False, 'balance': True, 'test': '', 'char': None})) == [
        '--learning-rate=0.5', '--no-bigrams', '--balance', '--test=']


def test_runner_nearest_folder_is_the_first_that_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert nearest_folder('a/b') == tmp_path and nearest_folder(tmp_path) == tmp_path
