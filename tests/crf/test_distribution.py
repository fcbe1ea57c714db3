"""Entropy, divergence and samples of the distribution over paths agree with enumeration of all paths, in both modes."""

from ms_crf import CRF, allowed_transitions

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from support.chains import MODES, assign, make_crf, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

BIO = tuple(allowed_transitions('BIO', ['O', 'B', 'I']))
SHAPE = {'length': 4, 'batch': 3, 'num_tags': 3}
FORBIDDEN = [(0, 0, 0, 1), (2, 0, slice(None), 2)]
of_plain_operators = pytest.mark.parametrize('compiled', MODES, indirect=True)

CASES = {
    'free': lambda: Case(13, **SHAPE, constraints=BIO).with_pairs(1),
    'large scores': lambda: Case(1, **SHAPE, constraints=BIO, scale=30.0).with_pairs(2, 30.0),
    'forbidden': lambda: Case(2, **SHAPE, constraints=BIO).with_pairs(3, 1.0, FORBIDDEN).forbid(
        emissions=[(1, 0, 0)], end=[1]),
}


def tempered(case, temperature):
    """The rows of a case, with all scores divided by the temperature."""
    for row in case.rows:
        row.scores = row.scores / temperature
    return case.rows


def log_probabilities(row):
    return row.scores - row.log_normalizer()


def tensors_of(case):
    return float_tensor(case.emissions), float_tensor(case.pairs)


made = {}


@of_plain_operators
@pytest.mark.parametrize('name', CASES)
def test_distribution_entropy_and_its_gradients(name, compiled):
    """The entropy and its derivatives by all scores and by the temperature agree with enumeration.

    One graph computes both temperatures.
    """
    case = CASES[name]()
    if (compiled is ms.jit) not in made:
        crf = make_crf(case)

        def total(emissions, pairs, temperature, lengths):
            return crf.entropy(emissions, lengths, pairs, temperature).sum()

        derivative = ms.grad(total, (0, 1, 2), parameters(crf))

        def everything(emissions, pairs, temperature, lengths):
            scores = emissions, pairs, temperature, lengths
            return crf.entropy(emissions, lengths, pairs, temperature), derivative(*scores)

        made[compiled is ms.jit] = crf, compiled(everything)
    crf, run = made[compiled is ms.jit]
    assign(crf, case.scores)
    for temperature in (1.0, 2.5):
        case.rescore()
        scores = [row.scores for row in case.rows]
        rows = tempered(case, temperature)
        entropy, ((by_emissions, by_pairs, by_temperature), by_parameters) = run(
            *tensors_of(case), float_tensor(temperature), int_tensor(case.lengths))
        close(entropy, [-(np.exp(log_probabilities(row)) * log_probabilities(row)).sum() for row in rows])
        by_scores = [row.derivative(-log_probabilities(row)) / temperature for row in rows]
        for found, expected in zip((by_emissions, *by_parameters, by_pairs), case.gradients_by_paths(by_scores)):
            close(found, expected, 5e-5)
        expected = -sum((by_score * score).sum() for by_score, score in zip(by_scores, scores)) / temperature
        close(by_temperature, expected, 5e-5)


@pytest.mark.slow
@of_plain_operators
def test_distribution_divergence_and_its_gradients(compiled):
    """The divergence of two layers and its derivatives by the scores of both agree with enumeration.

    It is 0 between a layer and itself, and inf if the other layer forbids a path that is possible in the first one.
    """
    case, other = Case(3, **SHAPE).with_pairs(5, 1.0, FORBIDDEN), Case(7, **SHAPE).with_pairs(7)
    crf, other_crf = make_crf(case), make_crf(other)
    other_crf.update_parameters_name('other.')
    lengths = int_tensor(case.lengths)

    def divergence(emissions, pairs, other_emissions, other_pairs):
        return crf.kl(other_crf, emissions, lengths, other_emissions, pairs, other_pairs)

    def total(emissions, pairs, other_emissions, other_pairs):
        return divergence(emissions, pairs, other_emissions, other_pairs).sum()

    derivative = ms.grad(total, (0, 1, 2, 3), parameters(crf) + parameters(other_crf))

    def everything(*scores):
        return divergence(*scores), derivative(*scores), crf.kl(crf, scores[0], lengths)

    run = compiled(everything)
    for indices in ({}, {'pairs': FORBIDDEN, 'emissions': [(1, 0, 0)]}):
        for each in (case, other):
            each.forbid(**indices)
        found, (by_inputs, by_parameters), of_itself = run(*tensors_of(case), *tensors_of(other))
        logs = [(log_probabilities(row), log_probabilities(theirs)[[theirs.paths.tolist().index(path)
                                                                    for path in row.paths.tolist()]], theirs)
                for row, theirs in zip(case.rows, other.rows)]
        close(found, [(np.exp(p) * (p - q)).sum() for p, q, _ in logs])
        close(of_itself, np.zeros(3))
        ours = case.gradients_by_paths([row.derivative(p - q) for row, (p, q, _) in zip(case.rows, logs)])
        of_theirs = []
        for row, (p, _, theirs) in zip(case.rows, logs):
            by_score = np.exp(log_probabilities(theirs))
            for path, probability in zip(row.paths.tolist(), np.exp(p)):
                by_score[theirs.paths.tolist().index(path)] -= probability
            of_theirs.append(by_score)
        expected = other.gradients_by_paths(of_theirs)
        for actual, wanted in zip((by_inputs[0], *by_parameters[:3], by_inputs[1]), ours):
            close(actual, wanted, 5e-5)
        for actual, wanted in zip((by_inputs[2], *by_parameters[3:], by_inputs[3]), expected):
            close(actual, wanted, 5e-5)
    other.pairs[1, 2, 0] = -np.inf
    found, (by_inputs, _), _ = run(*tensors_of(case), *tensors_of(other))
    assert np.isinf(found.asnumpy()).tolist() == [False, False, case.lengths[2] > 2]


@pytest.mark.slow
@pytest.mark.parametrize('compiled', [*MODES, 'native pynative'], indirect=True)
def test_distribution_temperature_divides_all_scores(compiled):
    """All calls with a temperature agree with enumeration of paths whose scores are divided by it.

    The tests of losses have their own test of the temperature. A graph compiles only some of the calls.
    """
    case = Case(8, **SHAPE, unknown=0.4, constraints=BIO)
    crf, temperature = make_crf(case), 2.5
    tags, lengths = int_tensor(case.tags), int_tensor(case.lengths)
    best = np.zeros((len(case.rows), len(case.emissions)), int)
    for b, row in enumerate(case.rows):
        best[b, :row.length] = row.paths[np.argmax(row.scores)]
    paths = int_tensor(best)
    every_path = np.broadcast_to(np.arange(4), (4, 4))           # so each tagging is a different set of spans

    def everything(emissions, temperature):
        return (crf.log_prob(emissions, tags, lengths, None, temperature),
                crf.marginals(emissions, lengths, temperature=2.5),
                crf.mbr_decode(emissions, lengths, temperature=temperature))

    def others(emissions, temperature):
        return (crf.path_posteriors(emissions, paths, lengths, temperature=temperature),
                crf.nbest_spans(emissions, 3, every_path, lengths, temperature=temperature),
                crf.normalizer(emissions, lengths, temperature=temperature),
                crf.edge_marginals(emissions, lengths, temperature=temperature),
                crf.kl(crf, emissions, lengths, emissions * 2.0, temperature=temperature))

    inputs = float_tensor(case.emissions), float_tensor(temperature)
    log_prob, marginals, by_risk = compiled(everything)(*inputs)
    of_paths, spans, normalizer, edges, divergence = others(*inputs)
    rows = tempered(case, temperature)
    for b, row in enumerate(rows):
        if not row.length:
            continue
        path, known, positions = best[b, :row.length], row.marginals(), np.arange(row.length)
        close(of_paths[0][b, :row.length], known[positions, path])
        conditional = of_paths[1][b].asnumpy()
        close(conditional[0], known[0])
        together = [np.exp(row.log_normalizer(np.where(positions < t, path, -1)) - row.log_normalizer())
                    for t in range(row.length + 1)]
        close(conditional[positions, path], np.divide(together[1:], together[:-1]))
        weights = np.exp(log_probabilities(row))
        close(by_risk[1][b], max(weights @ (row.paths == path).sum(1) for path in row.paths))
        scores = np.sort(row.scores)[::-1][:3]
        close(spans[1][b, :len(scores)], scores)
        close(spans[2][b, :len(scores)], scores - row.log_normalizer())
    close(log_prob, -case.losses())
    close(normalizer, [row.log_normalizer() for row in rows])
    close(marginals, case.by_position(lambda _, row: row.marginals()))
    for b, row in enumerate(rows):
        close(edges[:max(row.length - 1, 0), b], row.pair_marginals())
    assert (divergence.asnumpy()[case.lengths > 1] > 0.0).all()


def sampler(compiled):
    """A case with constraints and forbidden pairs, its layer, and a function that draws 20,000 samples.

    The function is compiled once for the tests that use it.
    """
    key = 'sampler', compiled is ms.jit
    if key not in made:
        case = Case(2, 3, 4, 3, constraints=BIO).with_pairs(9, 1.0, [(0, 0, 0, 1)])
        crf = make_crf(case, batch_first=True)
        lengths = int_tensor(case.lengths)

        def draw(emissions, pairs, seed, temperature):
            return crf.sample(emissions, 20000, lengths, seed, pairs, temperature)

        made[key] = case, crf, compiled(draw)
    case, crf, run = made[key]
    case.rescore()
    return case, crf, run


def by_row(case):
    """Emissions and pair emissions of a case, batch first."""
    return [float_tensor(np.swapaxes(values, 0, 1)) for values in (case.emissions, case.pairs)]


@pytest.mark.slow
@of_plain_operators
def test_distribution_samples_are_drawn_from_the_distribution(compiled):
    """Samples follow the enumerated probabilities, by Pearson's chi-squared test of 20,000 samples of each row.

    Forbidden paths are never drawn. A seed that is a tensor can change without a new graph, and gives the same samples
    as an int.
    """
    case, crf, run = sampler(compiled)
    emissions, pairs = by_row(case)
    drawn = {}
    for seed, temperature in ((1, 1.0), (2, 1.0), (2 ** 62 + 1, 3.0)):
        case.rescore()
        paths = run(emissions, pairs, ms.Tensor(seed, ms.int64), float_tensor(temperature))
        assert paths.dtype == ms.int32 and paths.shape == (4, 20000, 3)
        drawn[seed] = paths = paths.asnumpy()
        for b, row in enumerate(tempered(case, temperature)):
            assert not paths[b, :, row.length:].any()
            kinds, counts = np.unique(paths[b, :, :row.length], axis=0, return_counts=True)
            counted = dict(zip(map(tuple, kinds.tolist()), counts))
            expected = 20000 * np.exp(log_probabilities(row))
            found = np.array([counted.pop(tuple(path), 0) for path in row.paths.tolist()])
            assert not counted                                   # no forbidden path was drawn
            statistic = ((found - expected) ** 2 / expected).sum()
            freedom = len(expected) - 1
            assert statistic <= freedom + 4 * np.sqrt(2 * freedom)
    assert (drawn[1] != drawn[2]).any(2).mean() > 0.1
    again = crf.sample(emissions, 20000, int_tensor(case.lengths), 2, pairs)
    assert (again.asnumpy() == drawn[2]).all()


@pytest.mark.slow
@of_plain_operators
def test_distribution_what_is_cold_is_the_best_path(compiled):
    """At a temperature near 0 all samples are the best path. A row with nan gives paths of valid tags."""
    case, _, run = sampler(compiled)
    emissions, pairs = by_row(case)
    seed, cold = ms.Tensor(0, ms.int64), float_tensor(1e-3)
    paths = run(emissions, pairs, seed, cold).asnumpy()
    for b, row in enumerate(case.rows):
        assert (paths[b, :, :row.length] == row.best()).all()
    with_nan = emissions.asnumpy().copy()
    with_nan[0, 0, 1] = np.nan
    with_nan = run(float_tensor(with_nan), pairs, seed, cold).asnumpy()
    assert (with_nan[1:] == paths[1:]).all() and ((with_nan >= 0) & (with_nan < 3)).all()


@pytest.mark.slow
def test_distribution_samples_are_the_same_in_both_modes_and_independent_of_each_other():
    """Both modes draw the same samples for the same seed.

    Samples of two equal rows are uncorrelated, and so are successive samples of one row, measured by their first tags.
    """
    case = Case(3, 2, 1, 2)
    crf = make_crf(case)
    emissions = float_tensor(np.repeat(np.clip(case.emissions, -3, 3), 2, 1))

    def draw(emissions):
        return crf.sample(emissions, 20000, seed=5)

    paths = draw(emissions).asnumpy()
    assert (ms.jit(draw)(emissions).asnumpy() == paths).all()
    first = paths[:, :, 0]
    for one, other in ((first[0], first[1]), (first[0, 1:], first[0, :-1])):
        together = (one * other).mean() - one.mean() * other.mean()
        assert abs(together) < 4 * 0.25 / np.sqrt(20000)


@pytest.mark.slow
@of_plain_operators
def test_distribution_a_row_hurts_no_other(compiled):
    """A row without any possible path, a row with nan and an empty row do not change the results of a valid row."""
    case = Case(11, 4, 4, 3)
    case.lengths = np.array([4, 3, 0, 4])
    case.with_pairs(12)
    sound = case.rows[3]
    case.pairs[1, 0], case.pairs[0, 1, 0, 1] = -np.inf, np.nan
    crf, lengths = make_crf(case), int_tensor(case.lengths)

    def of_one(emissions, pairs):
        return crf.entropy(emissions, lengths, pairs)[3] + crf.kl(crf, emissions, lengths, -emissions, pairs)[3]

    def everything(emissions, pairs):
        return (crf.entropy(emissions, lengths, pairs), crf.kl(crf, emissions, lengths, -emissions, pairs),
                ms.grad(of_one)(emissions, pairs))

    entropy, divergence, gradient = (values.asnumpy() for values in compiled(everything)(*tensors_of(case)))
    close(entropy[3], -(np.exp(log_probabilities(sound)) * log_probabilities(sound)).sum())
    for values in (entropy, divergence):
        assert np.isnan(values[1]) and np.isfinite(values[[0, 2, 3]]).all() and values[2] == 0
    assert gradient[:, 3].any() and not gradient[:, [0, 2]].any()


class Everything(nn.Cell):
    def __init__(self, crf, other):
        super().__init__()
        self.crf, self.other = crf, other

    def construct(self, emissions, lengths, seed):
        return (self.crf.entropy(emissions, lengths), self.crf.kl(self.other, emissions, lengths),
                self.crf.sample(emissions, 5, lengths, seed))


@pytest.mark.slow
def test_distribution_one_exported_graph_serves_all_shapes(tmp_path):
    cases = [Case(length, length, batch, 3) for length, batch in ((5, 4), (1, 2), (9, 1))]
    crf, other = make_crf(cases[0]), make_crf(Case(7, 5, 4, 3))
    anything = (ms.Tensor(shape=[None, None, 3], dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.int32),
                ms.Tensor(0, ms.int64))
    ms.export(Everything(crf, other), *anything, file_name=str(tmp_path / 'graph'), file_format='MINDIR')
    graph = nn.GraphCell(ms.load(str(tmp_path / 'graph.mindir')))
    graph.set_inputs(*anything)
    for case in cases:
        case.scores = cases[0].scores
        case.rescore()
        emissions, lengths = float_tensor(case.emissions), int_tensor(case.lengths)
        entropy, divergence, paths = graph(emissions, lengths, ms.Tensor(3, ms.int64))
        close(entropy, [-(np.exp(log_probabilities(row)) * log_probabilities(row)).sum() for row in case.rows])
        close(divergence, crf.kl(other, emissions, lengths).asnumpy())
        assert (paths.asnumpy() == crf.sample(emissions, 5, lengths, 3).asnumpy()).all()


@pytest.mark.parametrize('error,expected,options', [
    (ValueError, 'n must be at least 1, got 0', {'n': 0}),
    (TypeError, 'n must be an int, got float', {'n': 2.0}),
    (ValueError, 'seed must be at least 0, got -1', {'seed': -1}),
    (ValueError, r'seed must be below 2 \*\* 63', {'seed': 2 ** 63}),
    (TypeError, 'seed must be an int, got str', {'seed': 'a'}),
    (TypeError, 'seed must be a number or a tensor of one of Int8', {'seed': float_tensor(1)}),
    (ValueError, r'seed must be a number or a tensor without axes, got shape \(1,\)', {'seed': int_tensor([1])}),
    (ValueError, 'temperature must be above 0, got 0', {'temperature': 0}),
    (ValueError, 'temperature must be above 0, got nan', {'temperature': float('nan')}),
    (TypeError, 'temperature must be a number, got str', {'temperature': '1'}),
    (TypeError, 'temperature must be a number or a tensor of one of Float16', {'temperature': int_tensor(1)}),
    (ValueError, r'without axes, got shape \(1,\)', {'temperature': float_tensor([1])})])
def test_distribution_what_cannot_be_is_named(error, expected, options):
    with pytest.raises(error, match=expected):
        CRF(3).sample(float_tensor(np.zeros((2, 1, 3))), **{'n': 1, **options})


def test_distribution_a_temperature_that_is_not_above_0_makes_nan():
    assert np.isnan(CRF(3).entropy(float_tensor(np.zeros((2, 1, 3))), temperature=float_tensor(-1.0)).asnumpy()).all()


@pytest.mark.parametrize('other,expected', [
    (CRF(2), 'other must have the same number of tags, 3, got 2'),
    (CRF(3, batch_first=True), 'other must have the same layout, batch_first = False, got True')])
def test_distribution_layers_that_cannot_be_compared_are_named(other, expected):
    with pytest.raises(ValueError, match=expected):
        CRF(3).kl(other, float_tensor(np.zeros((2, 1, 3))))


@pytest.mark.slow
def test_distribution_one_graph_learns_at_all_shapes():
    """Gradients of loss plus entropy, compiled once for any length and batch size, agree with enumeration."""
    cases = [Case(length, length, batch, 3).with_pairs(length) for length, batch in ((4, 3), (7, 2), (5, 1), (3, 4))]
    crf = make_crf(cases[0])

    def both(emissions, pairs, tags, lengths):
        return crf.loss(emissions, tags, lengths, pairs) + crf.entropy(emissions, lengths, pairs).sum()

    gradient = ms.jit(ms.grad(both, (0, 1), parameters(crf)), dynamic=1)
    for case in cases:
        case.scores = cases[0].scores
        case.rescore()
        (by_emissions, by_pairs), by_parameters = gradient(*tensors_of(case), int_tensor(case.tags),
                                                           int_tensor(case.lengths))
        of_entropy = case.gradients_by_paths([row.derivative(-log_probabilities(row)) for row in case.rows])
        of_loss = case.gradients_by_paths([np.exp(log_probabilities(row)) - (row.paths == case.known(b)).all(1)
                                           for b, row in enumerate(case.rows)])
        for found, one, other in zip((by_emissions, *by_parameters, by_pairs), of_loss, of_entropy):
            close(found, one + other, 5e-5)
