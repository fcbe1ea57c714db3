"""The operators in C++ agree with NumPy in float64, and the layer with them agrees with plain operators."""

import inspect
import subprocess
import sys

from ms_crf import CRF, allowed_transitions
from ms_crf.crf.backends import NativeBackend, PlainBackend
from ms_crf.native import custom, library

import mindspore as ms
import numpy as np
import pytest

from support.chains import make_crf, parameters
from support.oracle import Case
from support.paths import ROOT
from support.tensors import close, float_tensor, int_tensor

sys.path.insert(0, str(ROOT / 'benchmarks'))
from fuzz_chain import Chain, check, check_chain  # noqa: E402
from fuzz_native import Operators, WrongInputs  # noqa: E402

pytestmark = pytest.mark.skipif(library.find().path is None, reason=library.find().reason)
BIO = allowed_transitions('BIO', ['O', 'B', 'I'])


@pytest.fixture(scope='module')
def chain_operators():
    return Operators(library.find().path)


@pytest.mark.slow
def test_native_random_batches(chain_operators):
    for seed in range(120):
        check_chain(chain_operators, np.random.default_rng(seed))


def test_native_wrong_inputs_are_refused():
    """Each operator refuses a wrong number, shape or type of inputs before it reads an input."""
    operators = WrongInputs(library.find().path, np.random.default_rng(0))
    for seed in range(20):
        check_chain(operators, np.random.default_rng(seed))


WRONG_INPUT = """
import ms_crf, mindspore as ms
from mindspore import ops
crf = ms_crf.CRF(3)
scores = crf.transitions, crf.start_transitions, crf.end_transitions
wrong = ms.Tensor([1, 1, 1])
print(ms.jit(crf.backends.native.packed_normalizer)(ops.zeros((4, 2, 3)), wrong, *scores, wrong))
"""


@pytest.mark.slow
def test_native_a_wrong_input_is_named():
    """MindSpore's exception names the wrong input. The test uses a new process, because the error breaks MindSpore."""
    result = subprocess.run([sys.executable, '-c', WRONG_INPUT], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert 'ChainNormalizer: seq_length: expected integers of shape (2), found int64 of shape (3)' in result.stderr


@pytest.mark.slow
def test_native_random_batches_with_the_checks_of_the_compiler():
    """Random batches raise no error of the address sanitizer or of the undefined behaviour sanitizer."""
    command = [sys.executable, 'benchmarks/fuzz_native.py', '--cases', '150', '--seed', '7', '--sanitize']
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    if 'no sanitizers' in result.stdout:
        pytest.skip(result.stdout.strip())
    assert (result.returncode, result.stderr) == (0, '') and 'no fault' in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize('length,batch,tags', [(5000, 2, 9), (12, 3, 500)])
def test_native_long_sentences_and_many_tags(length, batch, tags, chain_operators):
    rng = np.random.default_rng(length)
    draw = [rng.normal(size=shape).astype(np.float32) for shape in ((length, batch, tags), (tags, tags), tags, tags)]
    chain = Chain(draw[0], rng.integers(0, tags, (length, batch)), np.array([length, *[length // 2] * (batch - 1)]),
                  *(part.astype(float) for part in draw[1:]))
    check(chain_operators, chain, False, rng)


def counted(call):
    """Number of rows that a call computes by products, and number of rows that it repeats in the log domain."""
    before = library.counts()
    call()
    return tuple(after - earlier for earlier, after in zip(before, library.counts()))


def test_native_which_way_rows_go():
    """The operators in C++ use the log domain only for rows whose products overflow; plain operators count no rows."""
    case, wide = Case(0, 5, 4, 3), Case(0, 5, 4, 3, scale=2000.0)
    emissions, lengths = float_tensor(case.emissions), int_tensor([5, 3, 5, 0])
    for scores, by_logarithms in ((case.scores, 0), (wide.scores, 3)):
        case.scores = scores
        crf = make_crf(case)
        assert counted(lambda: crf.normalizer(emissions, lengths).asnumpy()) == (3, by_logarithms)    # noqa: B023
        assert counted(lambda: ms.jit(crf.normalizer)(emissions, lengths).asnumpy()) == (3, by_logarithms)  # noqa: B023
    custom.use(False)
    try:
        assert counted(lambda: crf.normalizer(emissions, lengths).asnumpy()) == (0, 0)
    finally:
        custom.use(True)


@pytest.mark.slow
@pytest.mark.parametrize('constraints', [None, BIO])
def test_native_equal_to_the_graph_of_plain_operators(constraints):
    """C++ and plain operators agree: values within 1e-6, gradients within 1e-5, paths exactly."""
    rng = np.random.default_rng(1)
    crf = CRF(3, batch_first=True, constraints=constraints)
    for parameter in parameters(crf):
        parameter.set_data(float_tensor(rng.normal(size=parameter.shape)))
    emissions, tags = float_tensor(rng.normal(size=(6, 20, 3))), int_tensor(np.zeros((6, 20)))
    lengths = int_tensor([20, 7, 0, 1, 13, 20])

    def loss(emissions):
        return crf(emissions, tags, lengths)

    def everything(emissions):
        value, (by_emissions, by_scores) = ms.value_and_grad(loss, 0, parameters(crf))(emissions)
        paths, score = crf.decode(emissions, lengths)
        several, scores = crf.nbest(emissions, 3, lengths)
        return ((value, score, scores, crf.normalizer(emissions, lengths), crf.log_prob(emissions, tags, lengths)),
                (by_emissions, *by_scores, crf.marginals(emissions, lengths),
                 *crf.path_posteriors(emissions, paths, lengths)), (paths, several))

    native = ms.jit(everything)(emissions)
    custom.use(False)
    try:
        plain = everything(emissions)
    finally:
        custom.use(True)
    for tolerance, one, other in zip((1e-6, 1e-5, 0.0), native, plain):
        for actual, expected in zip(one, other):
            close(actual, expected.asnumpy(), tolerance)


def test_native_one_place_chooses_the_implementation():
    """`backend_for` chooses plain operators for pair emissions and temperatures, which the operators in C++ lack."""
    backends = CRF(3).backends
    pairs = float_tensor(np.zeros((3, 2, 3, 3)))
    assert backends.backend_for() is backends.native
    assert backends.backend_for(pairs) is backends.backend_for(None, 2.0) is backends.plain
    custom.use(False)
    try:
        assert backends.backend_for() is backends.plain
    finally:
        custom.use(True)


def test_native_both_implementations_have_the_same_calls():
    def calls(implementation):
        return {name for name, value in vars(implementation).items() if callable(value) and not name.startswith('_')}

    # `potentials` prepares the recursions of plain operators. `nbest_spans` uses plain operators on all devices.
    assert calls(PlainBackend) - calls(NativeBackend) == {'potentials', 'nbest_spans'}
    assert calls(NativeBackend) < calls(PlainBackend)
    for name in calls(NativeBackend):
        one, other = (inspect.signature(getattr(owner, name)) for owner in (PlainBackend, NativeBackend))
        assert list(one.parameters) == list(other.parameters)


@pytest.mark.slow
def test_native_an_exported_graph_has_plain_operators(tmp_path):
    """An exported graph contains only plain operators, so it runs without the library of C++ operators."""
    case = Case(0, 4, 2, 3)
    crf = make_crf(case)
    emissions, lengths = float_tensor(case.emissions), int_tensor(case.lengths)
    before = crf.decode(emissions, lengths)[1].asnumpy()         # with the operators in C++

    class Decode(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.crf = crf

        def construct(self, emissions, lengths):
            return self.crf.decode(emissions, lengths)[1]

    cell = Decode()
    cell(emissions, lengths)
    ms.export(cell, emissions, lengths, file_name=str(tmp_path / 'decode'), file_format='MINDIR')
    assert b'Custom' not in (tmp_path / 'decode.mindir').read_bytes()
    after = ms.nn.GraphCell(ms.load(str(tmp_path / 'decode.mindir')))(emissions, lengths)
    close(after, before)
