"""nan and +inf in emissions and parameters, and lengths that can't be: seen in all that is said of their rows."""

from ms_crf import CRF
from ms_crf.crf.selection import LOWEST
from ms_crf.native import custom
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops

from support.chains import assign, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor, is_nan

NAN, INF = float('nan'), float('inf')


# Each way of finding paths: one position, steps joined pairwise, one by one, and one by one in blocks.
SHAPES = {'one position': (1, 3, 3), 'pairwise': (5, 4, 3), 'one by one': (5, 6, 9), 'in blocks': (130, 6, 9)}


_made: dict = {}


def layer_and_calls(name, compiled):
    """Those of this process for a shape: the layer, and what compiles once for any scores and lengths, all that it says
    of emissions as (paths, values); where steps are taken one by one, of best paths, because other calls know no such
    way."""
    key = name, compiled is ms.jit, custom.in_use()
    if key in _made:
        return _made[key]
    crf = CRF(SHAPES[name][2], reduction='none')

    def best_paths(emissions, tags, lengths):
        paths, best = crf.decode(emissions, lengths)
        return [paths], [best, crf(emissions, seq_length=lengths)[0]]

    def everything(emissions, tags, lengths):
        (paths,), values = best_paths(emissions, tags, lengths)
        several, scores = crf.nbest(emissions, 3, lengths)
        chosen, conditional = crf.path_posteriors(emissions, paths, lengths)
        return [paths, several], [*values, scores, crf(emissions, tags, lengths), crf.normalizer(emissions, lengths),
                                  chosen, conditional, ops.transpose(crf.marginals(emissions, lengths), (1, 0, 2))]

    _made[key] = crf, compiled(best_paths if name == 'one by one' else everything)
    return _made[key]


@pytest.mark.parametrize('name', [*list(SHAPES)[:-1], pytest.param('in blocks', marks=pytest.mark.slow)])
def test_nan_in_one_emission_is_seen(name, compiled):
    """In its row's scores, wherever it stands; paths are valid, the other rows are as they were."""
    length, batch, num_tags = SHAPES[name]
    rng = np.random.default_rng(0)
    emissions, tags = rng.normal(size=SHAPES[name]).astype(np.float32), rng.integers(0, num_tags, (length, batch))
    lengths = rng.integers(1, length + 1, batch)
    lengths[:2] = [length, 1]
    _, run = layer_and_calls(name, compiled)

    def paths_and_values(emissions):
        actual = run(float_tensor(emissions), int_tensor(tags), int_tensor(lengths))
        return [[tensor.asnumpy() for tensor in part] for part in actual]

    clean_paths, clean_values = paths_and_values(emissions)
    places = [(length // 2, 1, NAN), (0, 0, NAN), (length - 1, 2, NAN), (length // 2, 0, INF)]
    for position, tag, value in places if compiled is ms.jit or length == 5 else places[:1]:
        faulty = emissions.copy()
        faulty[position, 0, tag] = value
        faulty[1:, 1] = value                                    # padding is not looked at
        several, actual = paths_and_values(faulty)
        for values, expected in zip(actual, clean_values):
            assert np.isnan(values[0]).all()
            close(values[1:], expected[1:])
        for paths, expected in zip(several, clean_paths):
            assert ((paths >= 0) & (paths < num_tags)).all() and (paths[1:] == expected[1:]).all()


@pytest.mark.parametrize('name', SHAPES)
def test_a_length_that_can_not_be_gives_nan_in_its_row_alone(name, compiled):
    """All calls stay usable; paths are those of a length of 0 or of the padded length."""
    length, batch, num_tags = SHAPES[name]
    rng = np.random.default_rng(1)
    emissions = float_tensor(rng.normal(size=SHAPES[name]))
    tags = int_tensor(rng.integers(0, num_tags, (length, batch)))
    lengths = rng.integers(1, length + 1, batch)
    _, run = layer_and_calls(name, compiled)

    def paths_and_values(first):
        lengths[0] = first
        return [[tensor.asnumpy() for tensor in part] for part in run(emissions, tags, int_tensor(lengths))]

    wrongs = (-1, length + 1, -2 ** 31) if compiled is ms.jit or length <= 5 else (length + 1,)
    for wrong, nearest in zip(wrongs, (length if wrong > 0 else 0 for wrong in wrongs)):
        paths, actual = paths_and_values(wrong)
        paths_of_nearest, good = paths_and_values(nearest)       # the function goes on serving good input
        for values, expected in zip(actual, good):
            assert np.isnan(values[0]).all() and np.isfinite(expected).all()
            close(values[1:], expected[1:])
        for several, expected in zip(paths, paths_of_nearest):
            assert (several == expected).all()


def test_nan_in_a_parameter_is_seen(compiled):
    case = Case(0, 5, 4, 3)
    inputs = float_tensor(case.emissions), int_tensor(case.tags), int_tensor([5, 1, 3, 2])
    crf, run = layer_and_calls('pairwise', compiled)
    assign(crf, case.scores)
    for scores, parameter in zip(case.scores.values(), parameters(crf)):
        for value in (NAN, INF):
            faulty = scores.copy()
            faulty.flat[-1] = value
            ms.ops.assign(parameter, float_tensor(faulty))       # a graph does not see set_data once it is compiled
            best, viterbi, nbest, *probabilities = run(*inputs)[1]
            for actual in (best, viterbi, nbest):
                assert np.isnan(actual.asnumpy()).all()
            for actual in probabilities:
                assert np.isnan(actual[0].asnumpy()).any()
            ms.ops.assign(parameter, float_tensor(scores))


def test_the_softmax_head_sees_nan_and_lengths_that_can_not_be(compiled):
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
        emissions[2, 0, 1], emissions[2, 1, 1] = value, value    # real, and on padding
        for actual in run(float_tensor(emissions), ms.Tensor(np.array([4, 2, 4]))):
            assert is_nan(actual) == [True, False, False]


def test_absent_paths_of_a_row_with_nan():
    """More paths asked for than there are, in a row that can't be scored."""
    crf = CRF(2)
    emissions = np.zeros((2, 2, 2))
    emissions[0, 0, 0] = NAN
    _, scores = crf.nbest(float_tensor(emissions), 6)
    assert np.isnan(scores[0].asnumpy()).all()
    assert (scores[1, 4:].asnumpy() == np.float32(LOWEST)).all()
