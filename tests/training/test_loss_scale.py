"""Dynamic loss scaling for 16-bit floats, and training with a frozen word table."""

import io

from ms_crf.cli import train
from ms_crf.models.encoder.network import SubwordTagger
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.runs import records
from ms_crf.training import course
from ms_crf.training import step as steps
from ms_crf.training.schedules import GROWS_AFTER, INITIAL_SCALE, MAX_SCALE, MIN_SCALE, LossScale
from ms_crf.training.step import BETA1, BETA2, Optimizer
from ms_crf.training.watchers import NotFinite, Stopped

import mindspore as ms
import numpy as np
import pytest

from support.tensors import close, float_tensor, int_tensor
from support.trainings import SMALL, files, options_of

pytestmark = pytest.mark.usefixtures('steps_compiled_once')
WORDS, PIECES = 'words', 'pieces'


@pytest.fixture
def made(compiled, monkeypatch):
    """A function that creates a network, always with the same weights, its optimizer and its training step."""
    monkeypatch.setattr(steps.ms, 'jit', compiled)

    def make(reads, scaled, **options):
        ms.set_seed(1)
        network = TaggerNetwork(5, 3, 2, 4, char='none') if reads == WORDS else SubwordTagger(3, 2, 4)
        optimizer = Optimizer(network, **options)
        return network, optimizer, steps.make_step(network, optimizer, scaled)
    return make


def batch_of(reads, fill=1.0):
    """Three sentences of 2, 1 and 0 words; all dropout factors are 1, except the first factor of the input, `fill`."""
    keep = [np.ones((2, 3, 3)), np.ones((2, 3, 4))]
    keep[0][0, 0, 0] = fill
    places, tags, lengths = [[1, 2, 0], [0, 0, 0]], [[0, 1, 0], [1, 0, 0]], [2, 1, 0]
    if reads == WORDS:
        none = np.zeros((1, 2))
        arrays = [[3, 1, 4], [0, 1, 2], none, none, places, lengths, tags]
    else:
        arrays = [[[0, 0, 2], [1, 2, 2]], [[1, 1, 0], [1, 0, 0]], lengths, tags]
    batch = [int_tensor(array) for array in arrays]
    if reads == PIECES:
        batch.insert(0, float_tensor(np.random.default_rng(1).normal(size=(2, 3, 3))))
    return [*batch, *map(float_tensor, keep)]


def now(count, *scale):
    return float_tensor([0.1, BETA1 ** count, BETA2 ** count, *scale])


def values(network, optimizer):
    return records.as_arrays([*network.trainable_params(), *optimizer.state()])


@pytest.mark.parametrize('compiled,reads,options', [     # the training below compiles a graph with WORDS
    ('graph', PIECES, {'kind': 'adamw', 'weight_decay': 0.1}),
    ('pynative', WORDS, {}), ('pynative', PIECES, {'kind': 'adamw', 'weight_decay': 0.1}),
    ('pynative', WORDS, {'kind': 'sgd', 'row_rate': 0.0})], indirect=['compiled'])
def test_loss_scale_an_overflow_changes_nothing_and_any_scale_gives_the_same_step(made, reads, options):
    """Scaled steps agree with unscaled steps, and a step that overflows changes no weight."""
    network, optimizer, step = made(reads, True, **options)
    peer, peers_optimizer, plain = made(reads, False, **options)
    good, bad = batch_of(reads), batch_of(reads, np.inf)
    found = step(now(1, 1024.0), *good)
    close(np.stack([value.asnumpy() for value in found]),
          np.stack([value.asnumpy() for value in plain(now(1), *good)]))
    before = values(network, optimizer)
    for scale, batch in ((np.inf, good), (1.0, bad)):
        loss, norm = step(now(2, scale), *batch)
        assert not np.isfinite(loss.asnumpy()) or not np.isfinite(norm.asnumpy())
        for name, array in values(network, optimizer).items():
            assert array.tobytes() == before[name].tobytes(), name
    step(now(2, 64.0), *good)
    plain(now(2), *good)
    expected = values(peer, peers_optimizer)
    for name, array in values(network, optimizer).items():
        close(array, expected[name])
    assert any((expected[name] != array).any() for name, array in before.items())


@pytest.mark.parametrize('compiled', ['pynative'], indirect=True)      # `test_options_at_work` compiles a graph
def test_loss_scale_a_word_table_that_stays_has_no_gradient(made):
    """With `row_rate` 0 the word table does not change, and its gradient does not count in the norm for clipping.

    The norm is compared with the norm of all changes, which are the gradients for SGD at learning rate 1.
    """
    batch, norms, tables = batch_of(WORDS), [], []
    for rate in (1.0, 0.0):
        network, optimizer, step = made(WORDS, False, kind='sgd', momentum=0.0, clip=0.0, row_rate=rate)
        before = values(network, optimizer)
        norms.append(float(step(float_tensor([1, 1, 1]), *batch)[1].asnumpy()))
        moved = {name: (before[name] - array).astype(float) for name, array in values(network, optimizer).items()}
        tables.append(np.abs(moved['word_table']).sum())
        squares = sum((moved[weight.name] ** 2).sum() for weight in network.trainable_params())
        assert np.isclose(norms[-1] ** 2, squares, rtol=1e-4)
    assert tables[0] > 0 == tables[1] and norms[1] < norms[0]


def test_loss_scale_the_scale_follows_what_floats_can_hold():
    scale = LossScale()
    for _ in range(GROWS_AFTER - 1):
        scale.take(True)
    assert scale.scale == INITIAL_SCALE
    scale.take(True)
    assert (scale.scale, scale.good) == (2 * INITIAL_SCALE, 0)
    scale.take(True)
    scale.take(False)
    assert (scale.scale, scale.good) == (INITIAL_SCALE, 0) and not scale.exhausted()
    again = LossScale()
    again.load(scale.state())
    for _ in range(GROWS_AFTER * 20):
        again.take(True)
    assert again.scale == MAX_SCALE
    while again.scale > MIN_SCALE:
        again.take(False)
    assert not again.exhausted()
    again.take(False)
    assert again.exhausted()


class Steps(train.TrainingTerminal):
    """Stops the training after some steps, and keeps the weights after each step."""

    def __init__(self, count):
        super().__init__(io.StringIO())
        self.left, self.run, self.kept = count, None, []

    def step(self, sentences, loss):
        super().step(sentences, loss)
        self.left -= 1
        self.kept.append((records.as_arrays(self.run._parameters()), self.run.steps))

    def stopping(self):
        return self.left == 0


@pytest.mark.slow
def test_loss_scale_a_training_in_16_bits_skips_what_overflows_and_is_resumed_to_the_bit(corpora, tmp_path):
    options = options_of([*files(corpora), *SMALL, '--precision', 'mixed', '--save',
                                        str(tmp_path / 'run')])

    run = course.start(options, Steps(4))
    run.watcher.run = run
    run.scaling.scale = MAX_SCALE                                     # so large that the first two steps overflow
    first = records.as_arrays(run._parameters())
    with pytest.raises(Stopped):
        run.run()
    for weights, count in run.watcher.kept[:2]:
        assert count == 0 and all((weights[name] == array).all() for name, array in first.items())
    state = records.read_tensors(tmp_path / 'run' / records.STATE)
    assert state['position'].tolist()[1:3] == [4, run.steps]
    assert state['loss_scale'].tolist() == [run.scaling.scale, run.scaling.good] < [MAX_SCALE / 2, 0]
    assert np.isfinite(run.loss_sum)
    again = course.resume(tmp_path / 'run', options, Steps(-1))
    again.watcher.run = again
    assert again.scaling.state() == run.scaling.state()
    run.watcher.left = again.watcher.left = 2
    for each in (run, again):
        with pytest.raises(Stopped):
            each.run()
    for name, array in records.as_arrays(run._parameters()).items():
        assert array.tobytes() == records.as_arrays(again._parameters())[name].tobytes()
    run.scaling.load([2 * MIN_SCALE, 0])
    bias = run.network.projection.bias
    ms.ops.assign(bias, bias * np.nan)                           # overflows at any scale
    run.watcher.left = -1
    with pytest.raises(NotFinite, match=f'loss nan, norm of gradients nan at a loss scale of {MIN_SCALE:g}; the '):
        run.run()
