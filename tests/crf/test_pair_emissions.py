"""Pair emissions, scores of pairs of tags at each step: the layer agrees with enumeration in both modes.

Also tests the errors for invalid pair emissions.
"""

from ms_crf import allowed_transitions, post_decode

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from support.chains import MODES, assign, check_paths_and_posteriors, make_crf, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

BIO = tuple(allowed_transitions('BIO', ['O', 'B', 'I']))
SHAPE = {'length': 5, 'batch': 4, 'num_tags': 3}
FORBIDDEN = [(0, slice(None), 0, 1), (2, 0, slice(None), 2), (3, 0, 1, slice(None))]

CASES = {
    'plain': lambda: Case(0, **SHAPE).with_pairs(1),
    'unknown tags': lambda: Case(1, **SHAPE, unknown=0.4).with_pairs(2),
    'large scores': lambda: Case(2, **SHAPE, scale=50.0).with_pairs(3, 50.0),
    'forbidden': lambda: Case(3, **SHAPE, unknown=0.3).with_pairs(4, 1.0, FORBIDDEN),
}
of_plain_operators = pytest.mark.parametrize('compiled', MODES, indirect=True)
calls = {}


def all_calls(case, compiled, n=4):
    """The results of all calls for a case. They are compiled once for each number of tags and constraints."""
    key = compiled is ms.jit, case.num_tags, str(case.constraints)
    if key not in calls:
        crf = make_crf(case)

        def loss(emissions, pairs, tags, lengths):
            return crf.loss(emissions, tags, lengths, pairs)

        derivative = ms.value_and_grad(loss, (0, 1), parameters(crf))

        def everything(emissions, pairs, tags, lengths):
            value, ((by_emissions, by_pairs), by_scores) = derivative(emissions, pairs, tags, lengths)
            best = crf.decode(emissions, lengths, pairs)
            return (value, (by_emissions, *by_scores, by_pairs),
                    crf.log_prob(emissions, tags, lengths, pairs),
                    (*best, *crf.path_posteriors(emissions, best[0], lengths, pairs),
                     crf.marginals(emissions, lengths, pairs), crf.normalizer(emissions, lengths, pairs)),
                    crf.viterbi(emissions, lengths, pairs), crf.nbest(emissions, n, lengths, pairs),
                    crf.edge_marginals(emissions, lengths, pairs))

        calls[key] = crf, compiled(everything)
    crf, run = calls[key]
    assign(crf, case.scores)
    return run(float_tensor(case.emissions), float_tensor(case.pairs), int_tensor(case.tags),
               int_tensor(case.lengths))


def by_step(case, of_row):
    """An array (L - 1, B, K, K) of the values (n - 1, K, K) of each row, with 0 on padding."""
    result = np.zeros((len(case.emissions) - 1, len(case.rows), case.num_tags, case.num_tags))
    for b, row in enumerate(case.rows):
        if row.length:
            result[:row.length - 1, b] = of_row(b, row)
    return result


def check(case, actual):
    loss, (*gradients, by_pairs), log_prob, known, viterbi, (paths, scores), edges = actual
    check_paths_and_posteriors(case, known)
    close(loss, case.losses().sum())
    close(log_prob, -case.losses())
    for gradient, expected in zip(gradients, case.gradients()):
        close(gradient, expected)
    close(by_pairs, by_step(case, lambda b, row: row.pair_marginals() - row.pair_marginals(case.known(b))))
    close(edges, by_step(case, lambda _, row: row.pair_marginals()))
    assert post_decode(*viterbi, int_tensor(case.lengths)) == [row.best() for row in case.rows]
    for b, row in enumerate(case.rows):
        count = min(len(row.scores), scores.shape[1])
        close(scores[b, :count], row.ranked()[:count])
        by_path = dict(zip(map(tuple, row.paths.tolist()), row.scores))
        several = [tuple(path[:row.length].tolist()) for path in paths.asnumpy()[b, :count]]
        assert len(set(several)) == count
        close([by_path[path] for path in several], scores[b, :count])


@of_plain_operators
@pytest.mark.parametrize('name', CASES)
def test_pair_emissions_agrees_with_all_paths(name, compiled):
    case = CASES[name]()
    check(case, all_calls(case, compiled))


@pytest.mark.slow
@pytest.mark.parametrize('compiled,shape', [
    ('pynative', (1, 3, 2)), ('pynative', (2, 1, 3)), ('pynative', (11, 2, 2)),
    ('graph', (11, 2, 2))], indirect=['compiled'])
def test_pair_emissions_agrees_in_other_shapes(shape, compiled):
    """The layer agrees with enumeration without any step, with one step, and with more steps than a block has."""
    case = Case(5, *shape, unknown=0.3).with_pairs(6)
    check(case, all_calls(case, compiled))


@pytest.mark.slow
def test_pair_emissions_agrees_with_constraints():
    case = Case(7, **SHAPE, constraints=BIO, unknown=0.3).with_pairs(8, 1.0, [(1, 0, 0, 1), (0, 0, 1, 0)])
    check(case, all_calls(case, lambda function: function))


@pytest.mark.slow
@pytest.mark.parametrize('compiled', ['pynative', 'native pynative'], indirect=True)
def test_pair_emissions_pairs_of_zero_change_nothing(compiled):
    """Pair emissions of 0 do not change any result.

    Without pair emissions the layer uses operators in C++ or scaled products, with them the log domain.
    """
    case = Case(9, **SHAPE, unknown=0.3)
    crf = make_crf(case, reduction='none')
    nothing = float_tensor(np.zeros((4, 4, 3, 3)))

    def both(emissions, tags, lengths):
        return [(crf.loss(emissions, tags, lengths, pairs), crf.normalizer(emissions, lengths, pairs),
                 crf.marginals(emissions, lengths, pairs), *crf.decode(emissions, lengths, pairs),
                 *crf.nbest(emissions, 3, lengths, pairs)) for pairs in (None, nothing)]

    without, with_them = compiled(both)(float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths))
    for found, expected in zip(with_them, without):
        close(found, expected.asnumpy())


@of_plain_operators
def test_pair_emissions_posteriors_of_pairs_and_their_gradients(compiled):
    """Posteriors of pairs and their gradients agree with enumeration, with `batch_first` and with forbidden steps.

    The posteriors are also tested without pair emissions.
    """
    case = Case(10, **SHAPE).with_pairs(11, 1.0, FORBIDDEN).forbid(emissions=[(1, 0, 1)], transitions=[(2, 0)])
    factors = np.random.default_rng(0).normal(size=case.pairs.shape)
    crf = make_crf(case, batch_first=True)
    lengths, by_row = int_tensor(case.lengths), float_tensor(factors.swapaxes(0, 1))

    def mean(emissions, pairs):
        return (crf.edge_marginals(emissions, lengths, pairs) * by_row).sum()

    def everything(emissions, pairs):
        (by_emissions, by_pairs), by_scores = derivative(emissions, pairs)
        return (crf.edge_marginals(emissions, lengths, pairs), crf.edge_marginals(emissions, lengths), by_emissions,
                *by_scores, by_pairs)

    derivative = ms.grad(mean, (0, 1), parameters(crf))
    edges, without_pairs, *gradients = compiled(everything)(
        float_tensor(case.emissions.swapaxes(0, 1)), float_tensor(case.pairs.swapaxes(0, 1)))
    gradients[0], gradients[-1] = gradients[0].swapaxes(0, 1), gradients[-1].swapaxes(0, 1)
    close(edges, by_step(case, lambda _, row: row.pair_marginals()).swapaxes(0, 1))
    of_paths = [factors[np.arange(row.length - 1)[None], b, row.paths[:, :-1], row.paths[:, 1:]].sum(1)
                if row.length > 1 else np.zeros(len(row.paths)) for b, row in enumerate(case.rows)]
    by_scores = [row.derivative(values) for row, values in zip(case.rows, of_paths)]
    for gradient, expected in zip(gradients, case.gradients_by_paths(by_scores)):
        close(gradient, expected, 3e-5)
    case.pairs = None
    case.rescore()
    close(without_pairs, by_step(case, lambda _, row: row.pair_marginals()).swapaxes(0, 1))


@pytest.mark.slow
@of_plain_operators
def test_pair_emissions_a_row_hurts_no_other(compiled):
    """A row without any path, a row with nan or +inf in its pairs and an empty row do not change a valid row."""
    for value in (np.nan, np.inf):
        case = Case(12, **SHAPE)
        case.lengths = np.array([5, 3, 0, 5])
        case.with_pairs(13)
        sound = case.rows[3]
        case.tags = np.abs(case.tags)
        case.pairs[1, 0], case.pairs[0, 1, 0, 1] = -np.inf, value
        _, _, log_prob, (paths, score, _, _, marginals, normalizer), _, (several, scores), edges = all_calls(
            case, compiled)
        for values in (log_prob, normalizer, marginals.swapaxes(0, 1), edges.swapaxes(0, 1), score, scores):
            values = values.asnumpy().reshape(4, -1)
            assert np.isnan(values[1]).all() and np.isfinite(values[[0, 2, 3]]).all()
        assert -2e4 < normalizer[0] < -9e3 and score[0] < -1e30
        assert normalizer[2] == score[2] == log_prob[2] == 0 and not marginals[:, 2].asnumpy().any()
        close(normalizer[3], sound.log_normalizer())
        close(score[3], sound.scores.max())
        close(marginals[:, 3], sound.marginals())
        close(edges[:, 3], sound.pair_marginals())
        assert paths[3].asnumpy().tolist() == several[3, 0].asnumpy().tolist() == sound.best()


def test_pair_emissions_gradients_of_a_sound_row_stay_in_it():
    """The gradient of a valid row's loss is 0 in a row without any path and in an empty row, next to nan and +inf."""
    case = Case(12, 4, 5, 3)
    case.lengths = np.array([4, 3, 4, 0, 4])
    case.with_pairs(13)
    case.pairs[1, 0], case.pairs[0, 1, 0, 1], case.pairs[2, 2, 1, 1] = -np.inf, np.nan, np.inf
    crf = make_crf(case, reduction='none')
    lengths, tags = int_tensor(case.lengths), int_tensor(np.abs(case.tags))

    def sound(emissions, pairs):
        return crf.loss(emissions, tags, lengths, pairs)[4]

    for gradient in ms.grad(sound, (0, 1))(float_tensor(case.emissions), float_tensor(case.pairs)):
        gradient = gradient.asnumpy()
        assert gradient[:, 4].any() and not gradient[:, [0, 3]].any()


@of_plain_operators
def test_pair_emissions_second_derivatives(compiled):
    """In a graph, second derivatives of the loss agree with central differences of enumerated gradients."""
    if compiled is not ms.jit:
        pytest.skip('PyNative mode of MindSpore gets second derivatives wrong')
    case = Case(14, 4, 2, 2, unknown=0.3).with_pairs(15)
    crf = make_crf(case)
    tags, lengths = int_tensor(case.tags), int_tensor(case.lengths)
    direction = np.random.default_rng(1).normal(size=case.pairs.shape) * (np.abs(case.pairs) < 100)
    along = float_tensor(direction)

    def loss(emissions, pairs):
        return crf.loss(emissions, tags, lengths, pairs)

    first = ms.grad(loss, (0, 1))

    def slope(emissions, pairs):
        return (first(emissions, pairs)[1] * along).sum()

    by_emissions, by_pairs = compiled(ms.grad(slope, (0, 1)))(float_tensor(case.emissions), float_tensor(case.pairs))
    differences, step, here = [], 1e-4, case.pairs
    for sign in (1, -1):
        case.pairs = here + sign * step * direction
        case.rescore()
        differences.append((case.gradients()[0], by_step(
            case, lambda b, row: row.pair_marginals() - row.pair_marginals(case.known(b)))))
    for found, after, before in zip((by_emissions, by_pairs), *differences):
        close(found, (after - before) / (2 * step), 1e-4)


class Everything(nn.Cell):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def construct(self, emissions, lengths, pairs):
        paths, scores = self.crf.decode(emissions, lengths, pairs)
        score, history = self.crf.viterbi(emissions, lengths, pairs)
        return (paths, scores, *self.crf.path_posteriors(emissions, paths, lengths, pairs),
                self.crf.marginals(emissions, lengths, pairs), self.crf.normalizer(emissions, lengths, pairs),
                self.crf.edge_marginals(emissions, lengths, pairs), score, history)


@pytest.mark.slow
def test_pair_emissions_one_exported_graph_serves_all_shapes(tmp_path):
    shapes = [(5, 4), (2, 1), (9, 3)]
    cases = [Case(length, length, batch, 2).with_pairs(length) for length, batch in shapes]
    anything = (ms.Tensor(shape=[None, None, 2], dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.int32),
                ms.Tensor(shape=[None, None, 2, 2], dtype=ms.float32))
    ms.export(Everything(make_crf(cases[0])), *anything, file_name=str(tmp_path / 'graph'), file_format='MINDIR')
    graph = nn.GraphCell(ms.load(str(tmp_path / 'graph.mindir')))
    graph.set_inputs(*anything)
    for case in cases:
        case.scores = cases[0].scores
        case.rescore()
        *known, edges, score, history = graph(float_tensor(case.emissions), int_tensor(case.lengths),
                                              float_tensor(case.pairs))
        check_paths_and_posteriors(case, known)
        close(edges, by_step(case, lambda _, row: row.pair_marginals()))
        assert post_decode(score, history, int_tensor(case.lengths)) == [
            row.best() if row.length else [] for row in case.rows]


@pytest.mark.parametrize('shape,expected', [
    ((4, 4, 3, 2), r'pair_emissions must be \(length - 1, batch, num_tags, num_tags\) = \(4, 4, 3, 3\)'),
    ((5, 4, 3, 3), r'for emissions \(5, 4, 3\), got shape \(5, 4, 3, 3\); batch_first is False'),
    ((4, 4, 3), r'got shape \(4, 4, 3\)')])
def test_pair_emissions_a_wrong_shape_is_named(shape, expected):
    case = Case(0, **SHAPE)
    with pytest.raises(ValueError, match=expected):
        make_crf(case).marginals(float_tensor(case.emissions), None, float_tensor(np.zeros(shape)))


def test_pair_emissions_a_wrong_type_is_named():
    case = Case(0, **SHAPE)
    with pytest.raises(TypeError, match='pair_emissions must be a tensor of floats, got Int32'):
        make_crf(case).normalizer(float_tensor(case.emissions), None, int_tensor(np.zeros((4, 4, 3, 3))))
    with pytest.raises(TypeError, match='pair_emissions must be a Tensor, got ndarray'):
        make_crf(case).normalizer(float_tensor(case.emissions), None, np.zeros((4, 4, 3, 3)))


def test_pair_emissions_values_that_cannot_be_are_named_where_the_layer_checks_them():
    case = Case(0, **SHAPE).with_pairs(0)
    crf = make_crf(case, check_values=True)
    case.pairs[2, 0, 1, 2] = np.nan
    case.emissions[np.abs(case.emissions) > 100] = 0.0
    with pytest.raises(ValueError, match='pair_emissions must be numbers, or -inf for a forbidden step, got nan in '
                                         'row 0, from position 2 to 3, from tag 1 to 2'):
        crf.decode(float_tensor(case.emissions), int_tensor(case.lengths), float_tensor(case.pairs))
