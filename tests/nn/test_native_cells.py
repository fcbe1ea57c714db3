"""The C++ operators of BiLSTM and characters agree with float64 NumPy, and networks with plain operators."""

import sys

from ms_crf.models.words.network import TaggerNetwork
from ms_crf.native import custom, library

import mindspore as ms
import numpy as np
import pytest

from support.paths import ROOT
from support.tensors import close, float_tensor, int_tensor

sys.path.insert(0, str(ROOT / 'benchmarks'))
from fuzz_native import Operators, WrongInputs  # noqa: E402
from fuzz_network import check_characters, check_lstm  # noqa: E402

pytestmark = pytest.mark.skipif(library.find().path is None, reason=library.find().reason)


@pytest.mark.slow
@pytest.mark.parametrize('check', [check_lstm, check_characters])
def test_native_cells_random_batches(check):
    operators = Operators(library.find().path)
    for seed in range(80):
        check(operators, np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize('check', [check_lstm, check_characters])
def test_native_cells_wrong_inputs_are_refused(check):
    """Each operator refuses a wrong number, shape or type of inputs before it reads an input."""
    operators = WrongInputs(library.find().path, np.random.default_rng(0))
    for seed in range(15):
        check(operators, np.random.default_rng(seed))


@pytest.fixture(scope='module')
def network():
    """A small network with characters and two BiLSTM layers."""
    ms.set_seed(1)
    return TaggerNetwork(9, 5, 4, 6, num_layers=2, num_characters=7, char_dim=4, char_width=3)


def arrays():
    """Inputs and tags of a batch: seven distinct word forms, two of them long, in sentences of 4, 1 and 0 words."""
    rng = np.random.default_rng(0)
    spellings = rng.integers(0, 7, (7, 6))
    spellings[2:, 3:] = 0
    return (float_tensor(rng.normal(size=(6, 5))), int_tensor([0, 1, 5, 3, 3, 2, 4]), int_tensor(spellings[:2]),
            int_tensor(spellings[2:, :3]), int_tensor(rng.integers(0, 7, (4, 3))), int_tensor([4, 1, 0]),
            int_tensor(rng.integers(0, 4, (4, 3))))


@pytest.mark.slow
def test_native_cells_equal_to_the_graph_of_plain_operators(network):
    """C++ and plain operators agree: the loss within 1e-6, gradients within 1e-5, paths exactly."""
    step = ms.value_and_grad(network, 0, network.trainable_params())

    def everything(*batch):
        return step(*batch), network.head.decode(network.emissions(*batch[:-1]), batch[5])[0]

    (loss, (by_rows, by_weights)), paths = ms.jit(everything)(*arrays())
    custom.use(False)
    try:
        (plain_loss, (by_rows_plainly, plain)), plain_paths = everything(*arrays())
    finally:
        custom.use(True)
    close(loss, plain_loss.asnumpy(), 1e-6)
    close(by_rows, by_rows_plainly.asnumpy())
    assert len(by_weights) == len(plain)
    for actual, expected in zip(by_weights, plain):
        close(actual, expected.asnumpy())
    assert (paths.asnumpy() == plain_paths.asnumpy()).all()


@pytest.mark.parametrize('jit', [pytest.param(ms.jit, marks=pytest.mark.slow), lambda function: function])
def test_native_cells_gates_of_forms_beforehand(jit):
    """Emissions from the precomputed gates of distinct word forms agree with plain operators on the words' vectors.

    Forms after the first `count` have no influence.
    """
    ms.set_seed(1)
    network = TaggerNetwork(9, 5, 4, 6, char='none')
    vectors = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    places, lengths = int_tensor([[0, 4, 1], [2, 4, 0], [3, -1, -1]]), int_tensor([3, 2, 0])

    def scores(vectors, count, places, lengths):
        return network.emissions_of_gates(network.form_gates(vectors, count), places, lengths)

    found = jit(scores)(float_tensor(vectors), int_tensor([5]), places, lengths).asnumpy()
    assert found.shape == (3, 3, 4) and not found[2, 1:].any() and not found[:, 2].any()
    custom.use(False)
    try:
        expected = network.emissions_of(float_tensor(vectors[places.asnumpy()]), lengths).asnumpy()
    finally:
        custom.use(True)
    close(found[:, 0], expected[:, 0])
    close(found[:2, 1], expected[:2, 1])


@pytest.mark.slow
def test_native_cells_an_exported_graph_has_plain_operators(network, tmp_path):
    """An exported graph contains only plain operators, so it runs without the library. Its emissions are the same."""

    class Emissions(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.network = network

        def construct(self, *batch):
            return self.network.emissions(*batch)

    cell, batch = Emissions(), arrays()[:-1]
    before = cell(*batch).asnumpy()
    ms.export(cell, *batch, file_name=str(tmp_path / 'emissions'), file_format='MINDIR')
    assert b'Custom' not in (tmp_path / 'emissions.mindir').read_bytes()
    after = ms.nn.GraphCell(ms.load(str(tmp_path / 'emissions.mindir')))(*batch).asnumpy()
    close(after[:, 0], before[:, 0])
