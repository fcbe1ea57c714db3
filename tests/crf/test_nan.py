"""nan and +inf in emissions and parameters, and invalid lengths, make all results of their rows nan."""

from ms_crf import CRF, allowed_transitions
from ms_crf.crf.selection import LOWEST
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest

from support.chains import MODES, NOT_IN_PLAIN_PYNATIVE, AllCalls, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor, is_nan

NAN, INF = float('nan'), float('inf')
BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
BIOES = allowed_transitions('BIOES', ['O', 'B', 'I', 'E', 'S'])

# These shapes cover each algorithm: one position, steps joined in pairs, step by step, and in blocks. Other files use
# the same shapes and constraints, so their graphs are reused.
SHAPES = {'one position': (1, 4, 3), 'pairwise': (5, 4, 3), 'one by one': (4, 40, 5), 'in blocks': (66, 4, 3),
          'one by one in blocks': (130, 6, 9)}
CONSTRAINTS = {'one by one': BIOES, 'in blocks': BIO}
SLOW = [pytest.param(name, marks=pytest.mark.slow) if 'blocks' in name else name for name in SHAPES]


def layer_for(name, compiled):
    """The layer for a shape. If steps are computed one by one, it only finds best paths: no other call does that."""
    case = Case(0, 2, 2, SHAPES[name][2], constraints=CONSTRAINTS.get(name))
    return AllCalls.of(case, compiled, results=AllCalls.PATHS if 'one by one' in name else AllCalls.RESULTS)


def paths_and_values(layer, *inputs):
    """Arrays of the paths, and arrays of all other results of each row."""
    actual = layer(*inputs)
    paths, values = zip(actual['decode'], actual['nbest'])
    values += (actual['viterbi'][0],)
    if layer.results == layer.RESULTS:
        values += (actual['log_prob'], actual['normalizer'], *actual['path_posteriors'],
                   actual['marginals'].swapaxes(0, 1))
    return [[tensor.asnumpy() for tensor in part] for part in (paths, values)]


@NOT_IN_PLAIN_PYNATIVE
@pytest.mark.parametrize('name', SLOW)
def test_nan_in_one_emission_is_seen(name, compiled):
    """nan or +inf in an emission makes all values of its row nan. Paths stay valid, and other rows do not change."""
    length, batch, num_tags = SHAPES[name]
    rng = np.random.default_rng(0)
    emissions, tags = rng.normal(size=SHAPES[name]).astype(np.float32), rng.integers(0, num_tags, (length, batch))
    lengths = rng.integers(1, length + 1, batch)
    lengths[:2] = [length, 1]
    layer = layer_for(name, compiled)

    def results(emissions):
        return paths_and_values(layer, float_tensor(emissions), int_tensor(tags), int_tensor(lengths))

    clean_paths, clean_values = results(emissions)
    places = [(length // 2, 1, NAN), (0, 0, NAN), (length - 1, 2, NAN), (length // 2, 0, INF)]
    for position, tag, value in places:
        faulty = emissions.copy()
        faulty[position, 0, tag] = value
        faulty[1:, 1] = value                                    # padding has no influence
        several, actual = results(faulty)
        for values, expected in zip(actual, clean_values):
            assert np.isnan(values[0]).all()
            close(values[1:], expected[1:])
        for paths, expected in zip(several, clean_paths):
            assert ((paths >= 0) & (paths < num_tags)).all() and (paths[1:] == expected[1:]).all()


@NOT_IN_PLAIN_PYNATIVE
@pytest.mark.parametrize('name', SLOW)
def test_nan_a_length_that_can_not_be_gives_nan_in_its_row_alone(name, compiled):
    """An invalid length makes only the values of its row nan; its paths are the paths of the nearest valid length."""
    length, batch, num_tags = SHAPES[name]
    rng = np.random.default_rng(1)
    emissions = float_tensor(rng.normal(size=SHAPES[name]))
    tags = int_tensor(rng.integers(0, num_tags, (length, batch)))
    lengths = rng.integers(1, length + 1, batch)
    layer = layer_for(name, compiled)

    def results(first):
        lengths[0] = first
        return paths_and_values(layer, emissions, tags, int_tensor(lengths))

    wrongs = (-1, length + 1, -2 ** 31)
    for wrong, nearest in zip(wrongs, (length if wrong > 0 else 0 for wrong in wrongs)):
        paths, actual = results(wrong)
        paths_of_nearest, good = results(nearest)                # valid input still works afterwards
        for values, expected in zip(actual, good):
            assert np.isnan(values[0]).all() and np.isfinite(expected).all()
            close(values[1:], expected[1:])
        for several, expected in zip(paths, paths_of_nearest):
            assert (several == expected).all()


@NOT_IN_PLAIN_PYNATIVE
def test_nan_in_a_parameter_is_seen(compiled):
    case = Case(0, 5, 4, 3)
    inputs = float_tensor(case.emissions), int_tensor(case.tags), int_tensor([5, 1, 3, 2])
    layer = AllCalls.of(case, compiled)
    for scores, parameter in zip(case.scores.values(), parameters(layer.crf)):
        for value in (NAN, INF):
            faulty = scores.copy()
            faulty.flat[-1] = value
            ms.ops.assign(parameter, float_tensor(faulty))       # a compiled graph does not see set_data
            _, (best, nbest, viterbi, *probabilities) = paths_and_values(layer, *inputs)
            for actual in (best, viterbi, nbest):
                assert np.isnan(actual).all()
            for actual in probabilities:
                assert np.isnan(actual[0]).any()
            ms.ops.assign(parameter, float_tensor(scores))


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # the softmax head has no operators in C++
def test_nan_the_softmax_head_sees_nan_and_lengths_that_can_not_be(compiled):
    head = Softmax(3, reduction='none')
    emissions = np.random.default_rng(0).normal(size=(4, 3, 3))
    tags = int_tensor([[0, 1, 2]] * 2 + [[-1, 1, 2]] * 2)

    def everything(emissions, lengths):
        paths, scores = head.decode(emissions, lengths)
        return (scores, head.nbest(emissions, 2, lengths)[1][:, 0], head(emissions, tags, lengths),
                head.normalizer(emissions, lengths), head.marginals(emissions, lengths).sum((0, 2)),
                head.path_posteriors(emissions, paths, lengths)[0].sum(1))

    run = compiled(everything)
    for actual in run(float_tensor(emissions), ms.Tensor(np.array([4, 2 ** 32 + 2, -3]))):
        assert is_nan(actual) == [False, True, True]
    for value in (NAN, INF):
        emissions[2, 0, 1], emissions[2, 1, 1] = value, value    # at a real position, and on padding
        for actual in run(float_tensor(emissions), ms.Tensor(np.array([4, 2, 4]))):
            assert is_nan(actual) == [True, False, False]


def test_nan_absent_paths_of_a_row_with_nan():
    """If n exceeds the number of paths, a row with nan has only nan scores; other rows pad with the score LOWEST."""
    crf = CRF(2)
    emissions = np.zeros((2, 2, 2))
    emissions[0, 0, 0] = NAN
    _, scores = crf.nbest(float_tensor(emissions), 6)
    assert np.isnan(scores[0].asnumpy()).all()
    assert (scores[1, 4:].asnumpy() == np.float32(LOWEST)).all()
