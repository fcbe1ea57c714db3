"""Scores of -inf forbid: the layer and the tutorial's functions against all paths that remain, in both modes."""

from ms_crf import allowed_transitions, compute_normalizer, compute_score, post_decode, sequence_mask, viterbi_decode
from ms_crf.crf.nbest import LOWEST
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from test_any_length import Everything, exported
from test_any_length import check as check_everything
from test_crf import check

from conftest import AllCalls, assign, close, float_tensor, int_tensor, make_crf, parameters
from oracle import Case, Row

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
BREAK = 1e4   # what a forbidden tag or step of the gold path costs

# Places of -inf in a case of 5 positions, 4 rows (the first full) and 3 tags; a path remains in all of them.
FORBIDDEN = {
    'a transition': {'transitions': [(0, 1)]},
    'all transitions but one way round': {'transitions': [(0, 0), (0, 2), (1, 0), (1, 1), (2, 1), (2, 2)]},
    'a row of transitions': {'transitions': [(2, slice(None))]},
    'a column of transitions': {'transitions': [(slice(None), 1)]},
    'starts': {'start': [0, 2]},
    'ends': {'end': [1, 2]},
    'an emission': {'emissions': [(0, 0, 1)]},
    'all tags of a position but one': {'emissions': [(2, 0, 0), (2, 0, 1), (4, 0, 1), (4, 0, 2)]},
    'a tag everywhere': {'emissions': [(slice(None), slice(None), 2)]},
    'of all kinds': {'emissions': [(1, 0, 1), (3, 0, 0)], 'transitions': [(1, 1), (0, 2)], 'start': [2], 'end': [2]},
}


def padded(case, length, emission, tag):
    """The case with its emissions and tags padded to a length."""
    case.emissions = np.concatenate([case.emissions, np.full((length - 5, 4, 3), emission)])
    case.tags = np.concatenate([case.tags, np.full((length - 5, 4), tag)])
    return case


@pytest.mark.parametrize('length', [5, 140])                     # unrolled, and in loops over blocks
@pytest.mark.parametrize('options', [{}, {'unknown': 0.4}, {'constraints': BIO}])
def test_agrees_with_the_paths_that_remain(options, length, compiled):
    for seed, (name, indices) in enumerate(FORBIDDEN.items()):
        if name in ('starts', 'all transitions but one way round') and 'constraints' in options:
            continue                                             # nothing would remain
        if compiled is not ms.jit and (length == 140 or 'unknown' in options) and name != 'of all kinds':
            continue                                             # which takes a second each in PyNative mode
        case = padded(Case(seed, 5, 4, 3, **options).forbid(**indices), length, -np.inf, 2)
        check(case, AllCalls.of(case, compiled))


def test_huge_negative_scores_forbid_as_well(compiled):
    """What people write for -inf."""
    for low in (-1e25, -1e30, -3e38, np.float32(-3.4028235e38)):
        case = Case(1, 5, 4, 3).forbid(**FORBIDDEN['of all kinds'])
        case.emissions[case.emissions == -np.inf] = low
        for scores in case.scores.values():
            scores[scores == -np.inf] = low
        check(case, AllCalls.of(case, compiled))


@pytest.mark.parametrize('dtype', [ms.float16, ms.float64])
def test_minus_infinity_of_other_types(dtype, compiled):
    case = Case(1, 5, 4, 3)
    case.emissions = np.round(np.clip(case.emissions, -4, 4))
    case.forbid(**FORBIDDEN['of all kinds'])
    crf = make_crf(case, reduction='none')
    tags, lengths = int_tensor(case.tags), int_tensor(case.lengths)

    def loss(emissions):
        return crf(emissions, tags, lengths)

    value, gradient = compiled(ms.value_and_grad(loss))(ms.Tensor(case.emissions, dtype))
    close(value, case.losses())
    close(gradient.astype(ms.float32), case.gradients()[0], 1e-3)


def test_large_scores_beside_minus_infinity(compiled):
    """Both kinds of falling back on the log domain at once."""
    case = Case(2, 5, 4, 3, scale=60.0).forbid(**FORBIDDEN['of all kinds'])
    check(case, AllCalls.of(case, compiled))


@pytest.mark.parametrize('constraints', [None, BIO])
def test_in_one_graph_for_all_shapes(constraints, tmp_path):
    transitions = {'transitions': [(0, 1)], 'end': [0]}
    first = Case(0, 4, 2, 3, constraints=constraints).forbid(**transitions)
    everything = exported(Everything(make_crf(first)), tmp_path / 'a')
    for length, batch in ((5, 4), (1, 2), (9, 2)):
        case = Case(length, length, batch, 3, constraints=constraints)
        case.scores = first.scores
        case.forbid(emissions=[(0, 0, 0), (length - 1, 0, 2)])
        if all(len(row.paths) for row in case.rows):
            check_everything(case, everything(float_tensor(case.emissions), int_tensor(case.lengths)))


def test_what_is_known_of_a_path(compiled):
    crf = make_crf(Case(3, 5, 4, 3))
    run = compiled(Everything(crf))
    for indices in FORBIDDEN.values():
        case = Case(3, 5, 4, 3).forbid(**indices)
        assign(crf, case.scores)
        check_everything(case, run(float_tensor(case.emissions), int_tensor(case.lengths)))


def test_functions_of_the_tutorial(compiled):
    lengths = Case(0, 5, 4, 3).lengths
    mask, ends = sequence_mask(int_tensor(lengths), 5), int_tensor(lengths - 1)

    def loss(emissions, tags, transitions, start, end):
        score = compute_score(emissions, tags, ends, mask, transitions, start, end)
        return (compute_normalizer(emissions, mask, transitions, start, end) - score).sum()

    def viterbi(emissions, transitions, start, end):
        return viterbi_decode(emissions, mask, transitions, start, end)

    run, decode = compiled(ms.value_and_grad(loss, (0, 2, 3, 4))), compiled(viterbi)
    for indices in (FORBIDDEN['of all kinds'], FORBIDDEN['a column of transitions']):
        case = Case(0, 5, 4, 3).forbid(**indices)
        scores = [float_tensor(case.scores[name]) for name in ('transitions', 'start', 'end')]
        emissions = float_tensor(case.emissions)
        value, gradients = run(emissions, int_tensor(case.tags), *scores)
        close(value, case.losses().sum())
        for actual, expected in zip(gradients, case.gradients()):
            close(actual, expected)
        assert post_decode(*decode(emissions, *scores), lengths) == [row.best() for row in case.rows]


@pytest.mark.parametrize('length', [70, 300])
def test_long_sentences(length):
    """Beside plain recursions in float64, in which -inf is -inf."""
    rng = np.random.default_rng(length)
    batch, num_tags = 4, 6
    lengths = np.array([length, length - 1, 66, length // 2])
    case = Case(0, 2, batch, num_tags)
    case.emissions = rng.normal(size=(length, batch, num_tags)).astype(np.float32)
    case.emissions[rng.random(case.emissions.shape) < 0.3] = -np.inf
    case.emissions[:, :, 3] = rng.normal(size=(length, batch))   # a way through
    case.scores['transitions'][rng.random((num_tags, num_tags)) < 0.3] = -np.inf
    case.scores['transitions'][3, 3] = 0.5
    case.scores['start'][1] = case.scores['end'][2] = -np.inf
    emissions = float_tensor(case.emissions)
    case.emissions = emissions.asnumpy().astype(float)
    crf, length_tensor = make_crf(case), int_tensor(lengths)
    transitions, start, end = case.scores.values()

    normalizers, bests, marginals = [], [], np.zeros(case.emissions.shape)
    for b, n in enumerate(lengths):
        forward, backward, best = [start + case.emissions[0, b]], [end], start + case.emissions[0, b]
        for t in range(1, n):
            forward.append(np.logaddexp.reduce(forward[-1][:, None] + transitions, 0) + case.emissions[t, b])
            backward.append(np.logaddexp.reduce(transitions + case.emissions[n - t, b] + backward[-1], 1))
            best = (best[:, None] + transitions).max(0) + case.emissions[t, b]
        normalizers.append(np.logaddexp.reduce(forward[-1] + end))
        bests.append((best + end).max())
        marginals[:n, b] = np.exp(np.array(forward) + np.array(backward[::-1]) - normalizers[-1])

    def normalizer(emissions):
        return crf.normalizer(emissions, length_tensor).sum()

    value, gradients = ms.jit(ms.value_and_grad(normalizer, 0, parameters(crf)))(emissions)
    close(value, sum(normalizers))
    close(gradients[0], marginals, 1e-4)
    for gradient, parameter in zip(gradients[1], parameters(crf)):
        assert np.isfinite(gradient.asnumpy()).all()
        assert not gradient.asnumpy()[parameter.asnumpy() == -np.inf].any()
    paths, scores = crf.decode(emissions, length_tensor)
    close(scores, bests)
    for b, n in enumerate(lengths):
        path = paths.asnumpy()[b, :n]
        close(case.emissions[np.arange(n), b, path].sum() + transitions[path[:-1], path[1:]].sum()
              + start[path[0]] + end[path[-1]], bests[b])


def priced(case):
    """The case with a cost of BREAK for each -inf, so that nothing is forbidden."""
    case.emissions[case.emissions == -np.inf] = -BREAK
    for scores in case.scores.values():
        scores[scores == -np.inf] = -BREAK
    case.rescore()
    return case


def test_a_forbidden_gold_tag_costs_10_000(compiled):
    """Each tag and step that -inf forbids, beside what remains; gradients are finite, 0 where forbidden."""
    crf = make_crf(Case(0, 5, 4, 3), reduction='none')

    def loss(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    run = compiled(ms.value_and_grad(loss, 0, parameters(crf)))
    for indices in ({'emissions': [(2, 0, 2)]}, {'transitions': [(0, 1), (2, 2)]}, {'start': [0], 'end': [0]},
                    {'emissions': [(1, 0, 1)], 'transitions': [(0, 1)], 'end': [0]}):
        case = Case(0, 5, 4, 3)
        case.tags[:, 0] = [0, 1, 2, 2, 0]
        gold = case.tags.copy()
        case.forbid(**indices).tags = gold
        assign(crf, case.scores)
        before = [case.emissions.copy(), *(scores.copy() for scores in case.scores.values())]
        value, gradients = run(float_tensor(case.emissions), int_tensor(gold), int_tensor(case.lengths))
        expected = priced(case).losses()
        assert value[0].asnumpy() == pytest.approx(expected[0], abs=5)       # of emissions, against the position's best
        close(value[1:], expected[1:])
        for gradient, scores in zip((gradients[0], *gradients[1]), before):
            assert np.isfinite(gradient.asnumpy()).all()
            assert not gradient.asnumpy()[scores == -np.inf].any()


@pytest.mark.parametrize('length,constraints', [(5, None), (140, BIO)])
def test_a_row_without_any_path_hurts_no_other(length, constraints, compiled):
    """All tags of a position are -inf: the other rows are as they are without it, and all gradients finite."""
    whole = padded(Case(1, 5, 4, 3, constraints=constraints), length, 0.0, 0)
    emissions = whole.emissions.copy()
    emissions[2, 0] = -np.inf
    actual = AllCalls.of(whole, compiled)(float_tensor(emissions), int_tensor(whole.tags), int_tensor(whole.lengths))

    without, gradients = whole.rows[0], actual['gradients']
    assert np.isfinite(actual['loss'].asnumpy())
    for gradient in gradients:
        assert np.isfinite(gradient.asnumpy()).all()
    close(gradients[0][:, 1:], whole.gradients()[0][:, 1:])
    close(actual['log_prob'][1:], -whole.losses()[1:])
    marginals = actual['marginals']
    close(marginals[:, 1:], whole.by_position(lambda b, row: row.marginals())[:, 1:])
    close(marginals[:5, 0].sum(-1), np.ones(5))
    normalizer = actual['normalizer']
    close(normalizer[1:], [row.log_normalizer() for row in whole.rows[1:]])
    assert normalizer[0].asnumpy() == pytest.approx(-BREAK, abs=100)

    paths, scores = actual['decode']
    assert tuple(paths[0, :5].asnumpy()) in set(map(tuple, without.paths.tolist()))    # breaks nothing else
    assert scores[0].asnumpy() < -1e30
    close(scores[1:], [row.scores.max() for row in whole.rows[1:]])
    assert post_decode(*actual['viterbi'], int_tensor(whole.lengths))[1:] == [row.best() for row in whole.rows[1:]]
    _, scores = actual['nbest']
    assert (scores[0].asnumpy() == np.float32(LOWEST)).all()
    close(scores[1:, 0], [row.scores.max() for row in whole.rows[1:]])


@pytest.mark.parametrize('length,num_tags', [(4, 1), (5, 3)])
def test_everything_forbidden_stays_finite(length, num_tags, compiled):
    case = Case(0, length, 4, num_tags)
    for scores in case.scores.values():
        scores[:] = -np.inf
    actual = AllCalls.of(case, compiled)(float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths))
    assert 0.0 <= actual['loss'].asnumpy() < 100.0               # the gold path breaks no more than any other
    for gradient in actual['gradients']:
        assert np.isfinite(gradient.asnumpy()).all()
    close(actual['normalizer'] / BREAK, [-(n + 1.0) if n else 0.0 for n in case.lengths], 1e-2)
    close(actual['marginals'].sum(-1), np.arange(length)[:, None] < case.lengths)


def test_marginals_can_be_differentiated(compiled):
    """Against central differences of the enumerated marginals; 0 where forbidden."""
    case = Case(4, 4, 2, 3).forbid(emissions=[(1, 0, 2)], transitions=[(0, 1)])
    crf, lengths = make_crf(case), int_tensor(case.lengths)
    weights = np.random.default_rng(0).normal(size=case.emissions.shape)
    weight_tensor = float_tensor(weights)

    def weighted(emissions):
        return (crf.marginals(emissions, lengths) * weight_tensor).sum()

    actual = compiled(ms.grad(weighted))(float_tensor(case.emissions)).asnumpy()
    step = 1e-4
    for t, k in np.ndindex(4, 3):
        values = []
        for sign in (1, -1):
            emissions = case.emissions[:4, 0].copy()
            emissions[t, k] += sign * step
            values.append((Row(emissions, case.scores).marginals() * weights[:, 0]).sum())
        assert actual[t, 0, k] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-4)


def test_softmax_head(compiled):
    case = Case(2, 4, 3, 3)
    case.scores = {name: np.zeros_like(values) for name, values in case.scores.items()}
    case.forbid(emissions=[(0, 0, 1), (2, 0, 0), (2, 0, 2)])
    head = Softmax(3, reduction='none')
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)

    def loss(emissions):
        return head(emissions, tags, lengths)

    value, gradient = compiled(ms.value_and_grad(loss))(emissions)
    close(value, case.losses())
    close(gradient, case.gradients()[0])
    close(head.marginals(emissions, lengths), case.by_position(lambda _, row: row.marginals()))
    paths = head.decode(emissions, lengths)[0].asnumpy()
    assert [path[:n].tolist() for path, n in zip(paths, case.lengths)] == [row.best() for row in case.rows]
    broken = int_tensor(np.where(case.emissions == -np.inf, np.arange(3), -1).max(-1))
    assert (head(emissions, broken, lengths)[:1].asnumpy() > BREAK).all()
