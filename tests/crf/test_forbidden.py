"""Scores of -inf forbid tags and steps: the layer agrees with enumeration of the remaining paths, in both modes."""

from ms_crf import allowed_transitions, post_decode
from ms_crf.crf.selection import LOWEST
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest

from support.chains import (
    MODES,
    NOT_IN_A_PLAIN_GRAPH,
    NOT_IN_PLAIN_PYNATIVE,
    AllCalls,
    check_all_calls,
    make_crf,
    parameters,
)
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

pytestmark = pytest.mark.slow

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
BREAK = 1e4   # penalty of a forbidden tag or step in the gold path
LONG = 66     # more than 64 positions: loops over blocks, which subtract the maximum at each position

# Indices of -inf in a case of 5 positions, 4 rows (the first one without padding) and 3 tags. Each leaves a path.
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
    'a tag of each position': {'emissions': list(zip(range(5), 5 * [slice(None)], (0, 2, 1, 0, 2)))},
    'of all kinds': {'emissions': [(1, 0, 1), (3, 0, 0)], 'transitions': [(1, 1), (0, 2)], 'start': [2], 'end': [2]},
}
IN_PYNATIVE = ('all transitions but one way round', 'a tag of each position', 'of all kinds')


def padded(case, length, emission, tag):
    """The case with its emissions and tags padded to a length of `length`."""
    case.emissions = np.concatenate([case.emissions, np.full((length - 5, 4, 3), emission)])
    case.tags = np.concatenate([case.tags, np.full((length - 5, 4), tag)])
    return case


@pytest.mark.parametrize('length,options', [                     # unrolled, then in loops over blocks
    (5, {}), (5, {'unknown': 0.4}), (LONG, {'constraints': BIO}), (LONG, {'constraints': BIO, 'unknown': 0.4})])
def test_forbidden_agrees_with_the_paths_that_remain(length, options, compiled):
    for seed, (name, indices) in enumerate(FORBIDDEN.items()):
        case = Case(seed, 5, 4, 3, **options).forbid(**indices)
        if compiled is ms.jit or name == 'of all kinds' and 'unknown' in options:
            padded(case, length, -np.inf, 2)
        elif 'unknown' in options or name not in IN_PYNATIVE:
            continue                                             # PyNative mode takes a second for each case
        check_all_calls(case, AllCalls.of(case, compiled))


@NOT_IN_PLAIN_PYNATIVE
def test_forbidden_huge_negative_scores_forbid_as_well(compiled):
    """Large negative numbers, which many programs use for -inf, forbid as -inf does."""
    lowest = np.float32(-3.4028235e38)
    for low in (-1e25, -1e30, -3e38, lowest):
        case = Case(1, 5, 4, 3).forbid(**FORBIDDEN['of all kinds'])
        case.emissions[case.emissions == -np.inf] = low
        for scores in case.scores.values():
            scores[scores == -np.inf] = low
        check_all_calls(case, AllCalls.of(case, compiled))


@NOT_IN_PLAIN_PYNATIVE
def test_forbidden_large_scores_beside_minus_infinity(compiled):
    """Large scores and -inf, the two reasons to compute in the log domain, can occur together."""
    case = Case(2, 5, 4, 3, scale=60.0).forbid(**FORBIDDEN['of all kinds'])
    check_all_calls(case, AllCalls.of(case, compiled))


@pytest.mark.parametrize('length,compiled', [(70, 'native graph'), (300, 'native graph'), (300, 'pynative')],
                         indirect=['compiled'])
def test_forbidden_long_sentences(length, compiled):
    """Long sentences with -inf agree with forward, backward and Viterbi recursions in float64.

    With 11 tags the layer finds best paths step by step, in blocks.
    """
    rng = np.random.default_rng(length)
    batch, num_tags = 4, 11
    lengths = np.array([length, length - 1, 66, length // 2])
    case = Case(0, 2, batch, num_tags)
    case.emissions = rng.normal(size=(length, batch, num_tags)).astype(np.float32)
    case.emissions[rng.random(case.emissions.shape) < 0.3] = -np.inf
    case.emissions[:, :, 3] = rng.normal(size=(length, batch))   # tag 3 is always possible
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

    value, gradients = compiled(ms.value_and_grad(normalizer, 0, parameters(crf)))(emissions)
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
    """The case with the penalty BREAK instead of each -inf, so that all paths are possible."""
    case.emissions[case.emissions == -np.inf] = -BREAK
    for scores in case.scores.values():
        scores[scores == -np.inf] = -BREAK
    case.rescore()
    return case


@NOT_IN_PLAIN_PYNATIVE
def test_forbidden_a_forbidden_gold_tag_costs_10_000(compiled):
    """Each forbidden tag or step in the gold path adds 10,000 to the loss, as enumeration with penalties does.

    Gradients are finite, and 0 where a score is -inf.
    """
    for indices in ({'emissions': [(2, 0, 2)]}, {'transitions': [(0, 1), (2, 2)]}, {'start': [0], 'end': [0]},
                    {'emissions': [(1, 0, 1)], 'transitions': [(0, 1)], 'end': [0]}):
        case = Case(0, 5, 4, 3)
        case.tags[:, 0] = [0, 1, 2, 2, 0]
        gold = case.tags.copy()
        case.forbid(**indices).tags = gold
        layer = AllCalls.of(case, compiled)
        before = [case.emissions.copy(), *(scores.copy() for scores in case.scores.values())]
        actual = layer(float_tensor(case.emissions), int_tensor(gold), int_tensor(case.lengths))
        value, expected = -actual['log_prob'], priced(case).losses()
        assert value[0].asnumpy() == pytest.approx(expected[0], abs=5)       # relative to the position's best
        close(value[1:], expected[1:])
        for gradient, scores in zip(actual['gradients'], before):
            assert np.isfinite(gradient.asnumpy()).all()
            assert not gradient.asnumpy()[scores == -np.inf].any()


@NOT_IN_PLAIN_PYNATIVE
@pytest.mark.parametrize('length,constraints', [(5, None), (LONG, BIO)])
def test_forbidden_a_row_without_any_path_hurts_no_other(length, constraints, compiled):
    """A row in which all tags of a position are -inf does not change the results of the other rows.

    All gradients are finite.
    """
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
    assert tuple(paths[0, :5].asnumpy()) in set(map(tuple, without.paths.tolist()))    # respects all other constraints
    assert scores[0].asnumpy() < -1e30
    close(scores[1:], [row.scores.max() for row in whole.rows[1:]])
    assert post_decode(*actual['viterbi'], int_tensor(whole.lengths))[1:] == [row.best() for row in whole.rows[1:]]
    _, scores = actual['nbest']
    assert (scores[0].asnumpy() == np.float32(LOWEST)).all()
    close(scores[1:, 0], [row.scores.max() for row in whole.rows[1:]])


@pytest.mark.parametrize('num_tags', [pytest.param(1, marks=NOT_IN_A_PLAIN_GRAPH), 3])
def test_forbidden_everything_forbidden_stays_finite(num_tags, compiled):
    case = Case(0, 5, 4, num_tags)
    for scores in case.scores.values():
        scores[:] = -np.inf
    inputs = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    if num_tags == 3:
        actual = AllCalls.of(case, compiled)(*inputs)
        loss, gradients, marginals = (actual[name] for name in ('loss', 'gradients', 'marginals'))
        close(actual['normalizer'] / BREAK, [-(n + 1.0) if n else 0.0 for n in case.lengths], 1e-2)
    else:
        crf = make_crf(case)

        def probabilities(emissions, tags, lengths):
            value, (by_emissions, by_scores) = ms.value_and_grad(crf, 0, parameters(crf))(emissions, tags, lengths)
            return value, (by_emissions, *by_scores), crf.marginals(emissions, lengths)

        loss, gradients, marginals = compiled(probabilities)(*inputs)
    assert 0.0 <= loss.asnumpy() < 100.0                         # all paths have the same penalties
    for gradient in gradients:
        assert np.isfinite(gradient.asnumpy()).all()
    close(marginals.sum(-1), np.arange(5)[:, None] < case.lengths)


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # the softmax head has no operators in C++
def test_forbidden_softmax_head(compiled):
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
