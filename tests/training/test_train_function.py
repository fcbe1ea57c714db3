"""`ms_crf.api.train` in a program: arguments, errors, watchers, resuming, several workers, and no output."""

import inspect
import os
import signal
import threading

from ms_crf.api import train
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.watchers import Lines
from ms_crf.cli.train import parser
from ms_crf.runs import records
from ms_crf.training.watchers import Stopped, TrainingWatcher

import pytest

from support.trainings import SMALL, assert_same_bits, close_to

pytestmark = pytest.mark.usefixtures('steps_compiled_once')
OPTIONS = {name.removeprefix('--').replace('-', '_'): value for name, value in zip(SMALL[::2], SMALL[1::2])}
for name, value in OPTIONS.items():
    OPTIONS[name] = float(value) if '.' in value else int(value) if value.isdecimal() else value


def parts(corpora):
    return {part: corpora / f'{part}.tsv' for part in ('train', 'dev', 'test')}


def test_train_function_each_option_of_the_command_is_an_argument_with_its_default():
    arguments = inspect.signature(train).parameters
    options = {action.dest: action.default for action in parser()._actions if action.dest != 'help'}
    assert len(options) > 50
    assert set(options) <= set(arguments) and set(arguments) - set(options) == {'watcher', 'children'}
    for name in arguments.keys() & options:
        assert arguments[name].default == options[name], name
    assert arguments['hidden'].annotation is int and arguments['epochs'].annotation == (int | None)


def test_train_function_a_run_in_a_thread_is_returned_with_its_scores_and_its_tagger(corpora, tmp_path, capfd):
    results, lines = [], []

    def call():
        results.append(train(**parts(corpora), model='hmm', save=tmp_path / 'run', watcher=Lines(lines.append)))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    [done] = results
    assert capfd.readouterr() == ('', '')
    assert lines[0].startswith('train ') and 'scheme: BIO; 3 tags' in lines
    assert done.folder == tmp_path / 'run' and done.scores == done.run.scores
    tokens = ['Xan', 'of']
    assert done.run.tagger().tag([tokens])[0].tokens == tokens


@pytest.mark.parametrize('arguments,error,message', [
    ({'hiden': 8}, TypeError, "train() got an unexpected keyword argument 'hiden'; did you mean hidden?"),
    ({'hidden': 7}, OptionError, 'hidden must be even, half for each direction, got 7'),
    ({'workers': 0}, OptionError, 'workers must be at least 1, got 0'),
    ({'momentum': 0.5}, OptionError, 'momentum has no effect with optimizer adam, only with sgd; omit it'),
    ({'train': 'mine.tsv'}, OptionError, 'train needs dev, a file of tagged sentences'),
    ({'device': 'CPU', 'precision': 'mixed'}, OptionError, 'precision mixed needs a GPU or Ascend, got CPU'),
    ({'train': 'nowhere.tsv', 'dev': 'dev.tsv'}, CorpusError, 'nowhere.tsv: no such file'),
    ({'resume': 'nowhere', 'hidden': 8}, OptionError, 'resume can only be combined with device, epochs, patience, '),
    ({'resume': 'nowhere'}, CorpusError, 'nowhere/config.json: no such file'),
])
def test_train_function_errors_name_arguments(arguments, error, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as raised:
        train(**arguments)
    assert str(raised.value).startswith(message)
    assert capfd.readouterr() == ('', '') and not list(tmp_path.iterdir())


class Events(TrainingWatcher):
    """Records the events of a training, and calls `action` after step `number`."""

    def __init__(self, number=0, action=None):
        self.number, self.action, self.epochs, self.steps, self.closed = number, action, [], [], 0

    def step(self, sentences, loss):
        self.steps.append(sentences)
        if len(self.steps) == self.number:
            self.action()

    def epoch_ends(self, record):
        self.epochs.append(record['epoch'])

    def close(self):
        self.closed += 1


@pytest.mark.slow
def test_train_function_an_interrupted_training_is_saved_and_resumed_to_the_bit(corpora, undisturbed, tmp_path, capfd):
    """A training stopped by Ctrl-C, then by its watcher, ends with exactly the same weights as an uninterrupted one.

    The signal handlers of the program are restored.
    """
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    folder, events = tmp_path / 'run', Events(4, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as raised:
        train(**parts(corpora), **OPTIONS, save=folder, watcher=events)
    assert isinstance(raised.value, Stopped) and raised.value.folder == folder and events.closed == 1
    assert (len(events.steps), events.epochs) == (4, []) and (folder / records.STATE).exists()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    events.action, events.number = events.ask_to_stop, 7
    with pytest.raises(KeyboardInterrupt):
        train(resume=folder, watcher=events)
    assert (len(events.steps), events.epochs) == (7, [1])
    events.number = 0
    done = train(resume=folder, watcher=events)
    assert events.epochs == [1, 2, 3] and done.scores['epochs'] == 3
    assert capfd.readouterr() == ('', '')
    assert_same_bits(folder, undisturbed[0])


@pytest.mark.slow
def test_train_function_several_workers_report_to_the_program(corpora, undisturbed, tmp_path, capfd):
    """Two workers learn the same weights as one process, up to rounding.

    The errors of a worker are raised in the program. Workers that are asked to stop save their state.
    """
    events = Events()
    done = train(**parts(corpora), **OPTIONS, workers=2, save=tmp_path / 'run', watcher=events)
    assert events.epochs == [1, 2, 3] and sum(events.steps) == 3 * 21
    assert done.folder == tmp_path / 'run' and done.scores == done.run.scores
    close_to(undisturbed[0], done.folder, len(events.steps))
    (tmp_path / 'odd.tsv').write_text('a\tO\nb\n')
    with pytest.raises(CorpusError, match='odd.tsv:2: expected columns 0 and -1'):
        train(**{**parts(corpora), 'dev': tmp_path / 'odd.tsv'}, **OPTIONS, workers=2, save=tmp_path / 'none')
    events = Events(3)
    events.action = events.ask_to_stop
    with pytest.raises(Stopped) as raised:
        train(**parts(corpora), **{**OPTIONS, 'epochs': 5000}, patience=0, workers=2, save=tmp_path / 'stopped',
              watcher=events)
    assert raised.value.folder == tmp_path / 'stopped' and (tmp_path / 'stopped' / records.STATE).exists()
    assert capfd.readouterr() == ('', '')
