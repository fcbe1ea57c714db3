"""The shift of the score of O: how it is chosen, and how it changes a run."""

import contextlib
import json
import shutil

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError
from ms_crf.cli import train
from ms_crf.models.encoder.network import EncodedTagger, SubwordTagger
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course
from ms_crf.training.scores import best_shift
from ms_crf.training.watchers import Stopped

import numpy as np
import pytest

from support.paths import ROOT
from support.trainings import SMALL, StopAt, options_of, plugins_forgotten, printed

pytestmark = pytest.mark.usefixtures('steps_compiled_once')
SMALL = [*SMALL[:-4], *SMALL[-2:]]               # without --scheme


def counts_with(rates, sentences=400):
    """The counts of each shift, for sentences with one gold span; `rates` are the shares of correct sentences."""
    draws = np.random.default_rng(0).random(sentences)
    return [np.stack((draws < rate, np.ones(sentences), np.ones(sentences)), 1).astype(int) for rate in rates]


def test_balance_the_best_shift_is_that_of_the_best_rates():
    choice = best_shift(counts_with([0.1, 0.2, 0.3, 0.5, 0.6, 0.5, 0.4]))
    assert choice.shift == 1.0 and choice.before == pytest.approx(0.3, abs=0.05) and choice.after > choice.before
    assert best_shift(counts_with([0.5, 0.6, 0.3, 0.3, 0.2, 0.2, 0.2])).shift == -0.5


def test_balance_one_high_rate_among_low_ones_is_chance():
    """The shift with the best mean of its own rate and its neighbours' rates wins: 1.5, although 0.5 has a peak."""
    assert best_shift(counts_with([0.1, 0.1, 0.1, 0.7, 0.3, 0.5, 0.8])).shift == 1.5


@pytest.mark.parametrize('rates', [[0.5] * 7, [0.3] * 3 + [0.302] * 3 + [0.3], [0.0] * 7, [1.0] * 7])
def test_balance_where_nothing_is_won_nothing_is_shifted(rates):
    assert best_shift(counts_with(rates)).shift == 0.0


def test_balance_a_gain_that_chance_may_have_made_is_none():
    """A gain that chance explains gives no shift: of 20 sentences two become better and one becomes worse."""
    before = np.array([[1, 1, 1]] * 10 + [[0, 1, 1]] * 10)
    after = before.copy()
    after[[0, 10, 11], 0] = [0, 1, 1]
    assert best_shift([before] * 3 + [after] * 4).shift == 0.0


def test_balance_no_spans_at_all():
    assert best_shift(np.zeros((7, 5, 3), int)) == (0.0, 0.0, 0.0)


@pytest.fixture(scope='module')
def texts(tmp_path_factory):
    """A folder of small corpora with the names Xan and Zoe.

    Xan is a person three times of ten in train.tsv, and always in dev.tsv and lone.tsv. Zoe is a person in train.tsv
    and dev.tsv, but not in seldom.tsv. plain.tsv has plain tags.
    """
    folder = tmp_path_factory.mktemp('texts')
    person, none = 'to\tO\nXan\tB-PER\nof\tO\n\n', 'to\tO\nXan\tO\nof\tO\n\n'
    known = person.replace('Xan', 'Zoe')
    (folder / 'train.tsv').write_text(4 * (3 * person + 7 * none + 5 * known))
    (folder / 'dev.tsv').write_text(20 * person + 5 * known)
    (folder / 'lone.tsv').write_text(20 * person)
    (folder / 'seldom.tsv').write_text(4 * (3 * person + 7 * none + 5 * known.replace('B-PER', 'O')))
    (folder / 'plain.tsv').write_text(10 * 'to\tO\nXan\tX\n\n')
    return folder


class Watcher(StopAt):
    """Keeps the progress of each task: the number of finished units and the total."""

    def __init__(self):
        super().__init__(10 ** 6)
        self.tasks = {}

    @contextlib.contextmanager
    def progress(self, task, total, unit):
        done = []
        with super().progress(task, total, unit):
            yield done.append
        self.tasks[task, unit] = sum(done), total


def trained(texts, folder, *further, train='train.tsv', dev='dev.tsv'):
    run = course.start(options_of(['--train', str(texts / train), '--dev', str(texts / dev), *SMALL, '--epochs', '6',
                                  *further, '--save', str(folder)]), Watcher())
    return run.run(), run


@pytest.fixture(scope='module')
def runs(texts, tmp_path_factory):
    """(scores, log) of a run with the shift and of a run without the shift, and the folder of both."""
    folder = tmp_path_factory.mktemp('runs')
    found = {}
    for name, further in (('with', []), ('without', ['--no-balance'])):
        scores, run = trained(texts, folder / name, *further)
        found[name] = scores, run.watcher.output.getvalue()
        assert run.watcher.tasks == ({('balancing', 'shifts'): (7, 7)} if name == 'with' else {})
    return found, folder


@pytest.mark.slow
def test_balance_a_run_is_shifted_by_what_suits_dev(runs):
    found, folder = runs
    (scores, said), (before, _) = found['with'], found['without']
    assert before['shift'] == 0.0 and before['dev']['f1'] < 0.5
    assert scores['shift'] > 0 and scores['dev']['f1'] == 1.0
    assert scores == SavedRun.open(folder / 'with').scores
    assert (f'the score of O is lowered by {scores["shift"]:g}, the best shift on dev: F1 {before["dev"]["f1"]:.2%} '
            'without, 100.00% with the shift') in said
    one, other = (records.read_tensors(folder / name / 'weights.ckpt') for name in ('with', 'without'))
    names = json.loads((folder / 'with/vocab.json').read_text())['tags']
    change = other['projection.bias'] - one['projection.bias']
    assert change[names.index('O')] == pytest.approx(scores['shift'], abs=1e-6) and np.count_nonzero(change) == 1
    assert all((one[name] == other[name]).all() for name in one if name != 'projection.bias')
    assert Tagger.load(folder / 'with').tag([['to', 'Xan', 'of']])[0].tags == ['O', 'B-PER', 'O']
    assert Tagger.load(folder / 'without').tag([['to', 'Xan', 'of']])[0].tags == ['O', 'O', 'O']


@pytest.mark.slow
def test_balance_a_run_that_had_ended_is_shifted_no_further(runs, tmp_path):
    """A finished run that is resumed without more epochs keeps exactly the same weights.

    With more epochs, the shift is tuned on dev again.
    """
    run = shutil.copytree(runs[1] / 'with', tmp_path / 'run')
    before = records.read_tensors(run / 'weights.ckpt')
    options = SavedRun.open(run).options_with(save=str(run))
    scores = course.resume(run, options, StopAt(10 ** 6)).run()
    assert scores == runs[0]['with'][0]
    after = records.read_tensors(run / 'weights.ckpt')
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
    longer = course.resume(run, SavedRun.open(run).options_with(epochs=8), StopAt(10 ** 6)).run()
    assert longer['epochs'] == 8 and longer['dev']['f1'] == 1.0


@pytest.mark.slow
def test_balance_where_nothing_was_learned_nothing_is_shifted(texts, tmp_path):
    """If no span is correct without a shift, the score of O is not shifted and the log says that nothing was learned.

    A shift would make every Xan a person, but the model has not learned anything.
    """
    scores, run = trained(texts, tmp_path / 'run', train='seldom.tsv', dev='lone.tsv')
    assert (scores['shift'], scores['dev']['f1']) == (0.0, 0.0)
    assert 'nothing was learned: on dev the model is no better than predicting the tag' in run.watcher.output.getvalue()


class StopsWhileBalancing(Watcher):
    """Stops the training after the second shift was tried."""

    def stopping(self):
        return self.tried == 2

    tried = 0

    @contextlib.contextmanager
    def progress(self, task, total, unit):
        def done(count):
            self.tried += count
        yield done


@pytest.mark.slow
def test_balance_stopped_while_a_shift_is_chosen_and_resumed(runs, texts, tmp_path):
    """A run that is stopped while a shift is chosen, and resumed, has exactly the weights of an uninterrupted run."""
    arguments = ['--train', str(texts / 'train.tsv'), '--dev', str(texts / 'dev.tsv'), *SMALL, '--epochs', '6',
                 '--save', str(tmp_path / 'run')]
    stopped = course.start(options_of(arguments), StopsWhileBalancing())
    with pytest.raises(Stopped):
        stopped.run()
    assert stopped.watcher.tried == 2 and not (tmp_path / 'run' / 'scores.json').exists()
    assert course.resume(tmp_path / 'run', options_of(arguments), StopAt(10 ** 6)).run() == runs[0]['with'][0]
    one, other = (records.read_tensors(folder / 'weights.ckpt') for folder in (tmp_path / 'run', runs[1] / 'with'))
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.slow
@pytest.mark.parametrize('text,expected', [
    ('{}', 'expected "best_epoch" to be a whole number, got none'), ('[]', 'expected a JSON object, got list'),
    ('{"best_epoch": [1], "epochs": 6}', 'expected "best_epoch" to be a whole number, got [1]'),
    ('{"best_epoch": 2, "epochs": 6, "shift": "x"}', 'expected "shift" to be a number, got'),
    ('{"best_epoch": 2, "epochs": 6, "dev": {"precision": 1}}',
     'expected "dev" to be scores with the number "recall"')])
def test_balance_scores_that_can_not_be_are_named_when_a_run_goes_on(runs, text, expected, tmp_path):
    run = shutil.copytree(runs[1] / 'with', tmp_path / 'run')
    (run / 'scores.json').write_text(text)
    (run / 'checksums.json').unlink()
    options = SavedRun.open(run).options_with(save=str(run))
    with pytest.raises(CorpusError) as raised:
        course.resume(run, options, StopAt(10 ** 6))
    assert str(raised.value).startswith(f'{run}/scores.json: {expected}')


@pytest.mark.slow
def test_balance_a_network_of_ones_own_is_shifted_as_well(texts, tmp_path):
    """The network of examples/own_model.py is shifted; networks with an encoder have the `tag_bias` for this."""
    with plugins_forgotten():
        status, output, errors = printed(
            train.main, '--plugin', ROOT / 'examples/own_model.py', '--model', 'mine', '--train', texts / 'train.tsv',
            '--dev', texts / 'dev.tsv', '--word-dim', 20, '--hidden', 20, '--batch-size', 4, '--learning-rate', 0.1,
            '--average', 0, '--epochs', 6, '--save', tmp_path / 'run')
    assert (status, errors) == (0, '')
    scores = json.loads((tmp_path / 'run' / 'scores.json').read_text())
    assert scores['shift'] > 0 and scores['dev']['f1'] == 1.0 and 'the score of O is lowered by' in output
    tagger = SubwordTagger(3, 2, 4)
    assert EncodedTagger(None, tagger).tag_bias is tagger.tag_bias is tagger.projection.bias


@pytest.mark.slow
def test_balance_tags_without_o_and_plain_tags_stay(texts, tmp_path):
    scores, _ = trained(texts, tmp_path / 'plain', '--epochs', '1', train='plain.tsv', dev='plain.tsv')
    assert scores['shift'] == 0.0
    (tmp_path / 'words.tsv').write_text(10 * '中\tB\n国\tE\n人\tS\n\n')
    scores, _ = trained(tmp_path, tmp_path / 'words', '--epochs', '1', train='words.tsv', dev='words.tsv')
    assert scores['shift'] == 0.0
