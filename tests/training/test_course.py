"""The number of epochs, early stopping, the choice of the best epoch, and the messages about them."""

import io
import json
import math
import shutil

from ms_crf.cli import train
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course
from ms_crf.training.schedules import BestEpoch, EpochSettings, epoch_settings

import numpy as np
import pytest

from support.corpora import write_corpus
from support.runs import write_tensors
from support.tensors import close
from support.trainings import SMALL, files, options_of

pytestmark = pytest.mark.usefixtures('steps_compiled_once')
OF_40 = EpochSettings(epochs=40, patience=12, warmup=0.5, decay=0.03, average_every=8)


def test_course_long_epochs_are_as_they_were():
    for steps in (25, 43, 106, 5000):
        assert epoch_settings(steps) == OF_40


@pytest.mark.parametrize('steps', [1, 2, 4, 7, 24])
def test_course_short_epochs_are_more(steps):
    course = epoch_settings(steps)
    for epochs, least in ((course.epochs, 1000), (course.patience, 300)):
        assert (epochs - 1) * steps < least <= epochs * steps
    assert course.warmup * steps == pytest.approx(12.5)
    assert course.decay * course.epochs == pytest.approx(1.2, rel=0.1)
    assert course.average_every == 1


def test_course_what_was_given_is_obeyed():
    assert epoch_settings(2, 40, 12, 0.5, 0.03) == OF_40._replace(average_every=1)
    assert epoch_settings(106, 3, 0, 2.0, 0.0) == EpochSettings(3, 0, 2.0, 0.0, 8)
    assert epoch_settings(2, epochs=4).warmup < 1                     # the warm-up must not take all four epochs
    assert epoch_settings(2, epochs=4).patience == 150


def tagged(outside, others):
    return [['O'] * outside + ['B-X'] * others]


def taken(best, scores):
    return [best.take(number, *score) for number, score in enumerate(scores, 1)]


def test_course_an_untrained_model_is_not_the_best():
    """The best epoch of a training on 50 sentences of the sample is not the first one.

    F1 is below 1 % by chance at first, then the model predicts 'O' for every word, then it learns spans.
    """
    best = BestEpoch(tagged(799, 201), plain=False)
    assert taken(best, [(0.0048, 0.0314, 15.7), (0.0, 0.799, 14.9), (0.0, 0.799, 12.8), (0.0, 0.799, 13.0),
                        (0.03, 0.5, 9.0), (0.038, 0.803, 8.0), (0.35, 0.85, 5.0), (0.35, 0.85, 1.0),
                        (0.35, 0.851, 6.0), (0.36, 0.7, 4.0), (0.1, 0.99, 1.0)]) == [
        True, True, True, False, False, True, True, False, True, True, False]
    assert (best.epoch, best.last_progress) == (10, 10)
    assert best.nothing_learned() is None


def test_course_patience_begins_anew_with_every_kind_of_progress():
    best = BestEpoch(tagged(99, 1), plain=False)
    taken(best, [(0.0, 0.99, 3.0), (0.02, 0.9, 3.5), (0.05, 0.97, 3.2), (0.05, 0.95, 3.2)])
    assert (best.epoch, best.last_progress) == (1, 3)


def test_course_a_model_of_the_most_frequent_tag_has_learned_nothing():
    best = BestEpoch(tagged(80, 20), plain=False)
    taken(best, [(0.01, 0.2, 9.0), (0.0, 0.8, 8.0)])
    assert best.nothing_learned().startswith("nothing was learned: on dev the model is no better than predicting the "
                                             "tag 'O' for every word (accuracy 80.00%, 80.00% with that tag)")
    plain = BestEpoch([['NOUN', 'NOUN', 'VERB']], plain=True)
    taken(plain, [(2 / 3, 2 / 3, 1.0)])
    assert "the tag 'NOUN'" in plain.nothing_learned()
    taken(plain, [(1.0, 1.0, 1.0)])
    assert plain.nothing_learned() is None
    alone = BestEpoch([['O', 'O']], plain=False)                      # dev has only this tag
    taken(alone, [(0.0, 1.0, 1.0)])
    assert alone.nothing_learned() is None


def test_course_the_state_of_the_best_epoch():
    best, other, third = (BestEpoch(tagged(8, 2), plain=False) for _ in range(3))
    taken(best, [(0.0, 0.8, 3.0), (0.2, 0.5, 2.0), (0.05, 0.9, 1.0)])
    other.load(np.array(best.state(), np.float64).tolist())
    assert vars(other) == vars(best)
    third.load_score(2, 0.2)                                     # the state of an earlier version
    for score in ((0.2, 0.9, 0.1), (0.21, 0.1, 9.0)):
        assert third.take(9, *score) == (score[0] > 0.2)


class Recorder(train.TrainingTerminal):
    """Records the weights after each step."""

    def __init__(self):
        super().__init__(io.StringIO())
        self.run, self.weights = None, []

    def step(self, sentences, loss):
        super().step(sentences, loss)
        self.weights.append(records.as_arrays(self.run.network.trainable_params()))


@pytest.mark.slow
def test_course_a_small_corpus_is_averaged_from_its_first_step(corpora, tmp_path):
    """The averaged weights agree with the average of the weights of all steps, computed here in float64."""
    given = [*files(corpora), *SMALL, '--epochs', '2', '--save', str(tmp_path / 'run')]
    options, recorder = options_of(given), Recorder()
    recorder.run = run = course.start(options, recorder)
    first = records.as_arrays(run.network.trainable_params())
    expected = {name: array.astype(float) for name, array in first.items()}
    run.run_epoch()
    assert run.epoch_settings == epoch_settings(len(recorder.weights), epochs=2)
    for step, weights in enumerate(recorder.weights, 1):
        decay = min(0.9, step / (10 + step))
        for name, array in weights.items():
            expected[name] = decay * expected[name] + (1 - decay) * array
    for name, array in records.as_arrays(run.scored.trainable_params()).items():
        close(array, expected[name.removeprefix('average.')])


@pytest.mark.slow
def test_course_what_a_training_on_few_sentences_says(tmp_path, capsys):
    """A training on few sentences reports tags that train lacks, short epochs, and that nothing was learned."""
    for part, count in (('train', 9), ('dev', 4), ('test', 4)):
        write_corpus(tmp_path / f'{part}.tsv', count, 1)
    for part in ('train', 'test'):
        path = tmp_path / f'{part}.tsv'
        path.write_text(path.read_text().replace('B-PER', 'O').replace('I-PER', 'O' if part == 'train' else 'I-LOC'))
    folder = tmp_path / 'run'
    given = [*files(tmp_path), *SMALL[:SMALL.index('--epochs')], '--learning-rate', '0.05', '--device', 'CPU',
             '--epochs', '9', '--save', str(folder)]
    assert train.main(given) == 0
    lines = capsys.readouterr().out.splitlines()
    dev = tmp_path / 'dev.tsv'
    first = next(number for number, line in enumerate(dev.read_text().splitlines(), 1) if 'PER' in line)
    assert (f"{dev}: 8 tags do not occur in train and cannot be predicted (PER 8); the first is 'B-PER' at line "
            f'{first}') in lines
    assert sum('4 tags do not occur in train and cannot be predicted (LOC 4)' in line for line in lines) == 1
    for start in ('short epochs of ',
                  "nothing was learned: on dev the model is no better than predicting the tag 'O'"):
        assert sum(line.startswith(start) for line in lines) == 1
    metrics = [json.loads(line) for line in (folder / records.METRICS).read_text().splitlines()]
    assert {record['f1'] for record in metrics} == {0.0}
    assert json.loads((folder / records.SCORES).read_text())['test']['f1'] == 0
    options = SavedRun.open(folder).options
    assert (options.epochs, options.patience, options.warmup) == (9, None, None)


@pytest.mark.slow
def test_course_why_a_training_ended(undisturbed, tmp_path, capsys):
    """Early stopping is reported once, and the best epoch is three epochs (`--patience`) before the last.

    The state has the format of an earlier version, without the entry `best`.
    """
    folder = tmp_path / 'run'
    shutil.copytree(undisturbed[0], folder)
    arrays = records.read_tensors(folder / records.STATE)
    del arrays['best']
    write_tensors(folder / records.STATE, arrays)
    assert train.main(['--resume', str(folder), '--epochs', '60', '--patience', '3']) == 0
    shown = capsys.readouterr().out.splitlines()
    scores = json.loads((folder / records.SCORES).read_text())
    assert scores['epochs'] < 60 and scores['dev']['f1'] == 1
    assert shown.count('early stopping: no better dev score for 3 epochs') == 1
    assert scores['best_epoch'] == scores['epochs'] - 3


@pytest.mark.slow
def test_course_the_learning_rate_of_each_epoch_is_recorded(undisturbed):
    """The recorded rate of each epoch is the rate in its middle, computed here from the formula of the schedule.

    The rate rises to 0.05 within half an epoch. Then it falls with a cosine for 2.5 epochs.
    """
    rates = [record['learning_rate'] for record in SavedRun.open(undisturbed[0]).metrics]
    assert rates == pytest.approx([0.05 * (1 + math.cos(math.pi * done / 2.5)) / 2 for done in (0, 1, 2)])
