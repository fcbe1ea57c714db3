"""The n best sets of spans agree with enumeration: the sets, their order and their total probabilities."""

from collections import Counter

from ms_crf import CRF, allowed_transitions, span_steps
from ms_crf.crf.selection import LOWEST
from ms_crf.text.schemes import spans_of

import mindspore as ms
import numpy as np
import pytest

from support.chains import MODES, assign, make_crf
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

TAGS = ['O', 'B-X', 'I-X', 'I-Y']


def sets_in_order(row, same):
    """The sets of equivalent paths of an `oracle.Row`, best first, by enumeration.

    Each item is the score and the tags of the best path of a set, and the log probability of the set. Ties are in the
    order of the last tag, then of the tag before it.

    Args:
        row: an `oracle.Row`.
        same: function that maps a path to its set.
    """
    found = {}
    for score, path in sorted(zip(row.scores, row.paths.tolist()), key=lambda pair: (-pair[0], pair[1][::-1])):
        found.setdefault(same(path), []).append((score, path))
    return [(*several[0], np.logaddexp.reduce([score for score, _ in several]) - row.log_normalizer())
            for several in found.values()]


def spans_of_path(path):
    return tuple(spans_of([TAGS[tag] for tag in path]))


def check(case, actual, n, same=spans_of_path):
    paths, scores, log_probs = (tensor.asnumpy() for tensor in actual)
    assert paths.shape == (len(case.rows), n, len(case.emissions)) and paths.dtype == np.int32
    for b, row in enumerate(case.rows):
        expected = sets_in_order(row, same)[:n]
        count = len(expected)
        assert paths[b, :count, :row.length].tolist() == [path for _, path, _ in expected]
        close(scores[b, :count], [score for score, _, _ in expected])
        close(log_probs[b, :count], [value for _, _, value in expected])
        assert (scores[b, count:] == np.float32(LOWEST)).all() and (log_probs[b, count:] == np.float32(LOWEST)).all()
        assert not paths[b, count:].any() and not paths[b, :, row.length:].any()


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # nbest_spans has no operator in C++
def test_nbest_spans_every_set_of_spans_counts_once(compiled):
    """Each set of spans is returned once, as in enumeration, even if up to eight taggings have the same spans.

    One case has whole numbers, so that many scores are equal. In another case all scores are 0.
    """
    case = Case(3, 5, 5, 4, integers=True)
    crf, table = make_crf(case), span_steps(TAGS)
    assert max(Counter(map(spans_of_path, case.rows[0].paths.tolist())).values()) == 8

    def nbest(emissions, lengths):
        return crf.nbest_spans(emissions, 3, table, lengths), crf.nbest_spans(emissions, 40, table, lengths)

    run = compiled(nbest)
    for seed in range(3):
        case = Case(seed, 5, 5, 4, integers=seed > 0)
        if seed == 2:
            case.emissions, case.scores = case.emissions * 0, {name: value * 0 for name, value in case.scores.items()}
            case.rescore()
        assign(crf, case.scores)
        for n, actual in zip((3, 40), run(float_tensor(case.emissions), int_tensor(case.lengths))):
            check(case, actual, n)


def test_nbest_spans_scores_of_pairs():
    case = Case(4, 4, 4, 4).with_pairs(2, 1.0, [(0, 0, 1, 2), (1, 0, 0, 0)])
    crf, table = make_crf(case), span_steps(TAGS)
    check(case, crf.nbest_spans(float_tensor(case.emissions), 9, table, int_tensor(case.lengths),
                                float_tensor(case.pairs)), 9)


@pytest.mark.slow
def test_nbest_spans_any_table():
    """Any table of steps can be used; n may be larger than the number of sets.

    With a table of zeros, all taggings form one set. With different values for all steps, the result equals `nbest`.
    """
    case = Case(4, 3, 4, 3)
    crf = make_crf(case, batch_first=True)
    inputs, lengths = float_tensor(case.emissions.swapaxes(0, 1)), int_tensor(case.lengths)
    check(case, crf.nbest_spans(inputs, 2, np.zeros((4, 4), int), lengths), 2, lambda path: 0)
    every = np.broadcast_to(np.arange(4), (4, 4))
    check(case, crf.nbest_spans(inputs, 30, ms.Tensor(every), lengths), 30, tuple)
    paths, scores = crf.nbest(inputs, 30, lengths)
    several, their_scores, _ = crf.nbest_spans(inputs, 30, every.tolist(), lengths)
    assert (paths.asnumpy() == several.asnumpy()).all()
    close(their_scores[0], scores[0].asnumpy())


@pytest.mark.slow
def test_nbest_spans_many_shapes_and_tables():
    """Random shapes and tables agree with enumeration.

    Tables have one to three different values, so that most sets contain many taggings. Whole numbers cause ties.
    """
    rng = np.random.default_rng(0)
    for seed in range(12):
        num_tags, length, n, kinds = (int(number) for number in rng.integers(1, (5, 6, 25, 4)))
        table = rng.integers(0, kinds, (num_tags + 1, num_tags + 1))
        case = Case(seed, length, 3, num_tags, integers=seed % 2 == 0)

        def same(path, table=table, num_tags=num_tags):
            return tuple(table[[num_tags, *path], [*path, num_tags]]) if path else ()

        actual = make_crf(case).nbest_spans(float_tensor(case.emissions), n, table, int_tensor(case.lengths))
        check(case, actual, n, same)


def test_nbest_spans_tables_of_which_only_begin_and_end_say_something():
    """If the table distinguishes only first and last tags, sets of paths differ only in these tags."""
    case = Case(5, 4, 3, 3)
    table = np.zeros((4, 4), int)
    table[3, :3], table[:3, 3] = [1, 1, 2], [0, 3, 3]
    check(case, make_crf(case).nbest_spans(float_tensor(case.emissions), 5, table, int_tensor(case.lengths)), 5,
          lambda path: (path[0] == 2, path[-1] == 0) if path else ())


@pytest.mark.slow
def test_nbest_spans_constraints_and_minus_infinity():
    """With the constraints of a scheme each set has one tagging, so the sets are the enumerated paths."""
    tags = ['O', 'B', 'I']
    constraints = allowed_transitions('BIO', tags)
    case = Case(6, 4, 4, 3, constraints=(constraints.transitions, constraints.start, constraints.end))
    case.forbid(emissions=[(1, 0, 1)], end=[0])
    actual = make_crf(case).nbest_spans(float_tensor(case.emissions), 9, span_steps(tags), int_tensor(case.lengths))
    check(case, actual, 9, tuple)


@pytest.mark.slow
def test_nbest_spans_gradients_of_scores_and_log_probabilities():
    """Gradients by emissions agree with enumeration.

    The gradient of a score is 1 at each emission on the best tagging. The gradient of a log probability is the
    marginals within the set minus the marginals of all paths.
    """
    case = Case(7, 4, 1, 4)
    crf, table = make_crf(case), span_steps(TAGS)

    def second(emissions):
        _, scores, log_probs = crf.nbest_spans(emissions, 3, table)
        return scores[0, 1], log_probs[0, 1]

    row, emissions = case.rows[0], float_tensor(case.emissions)
    case.lengths[:] = 4
    case.rescore()
    row = case.rows[0]
    path = sets_in_order(row, spans_of_path)[1][1]
    among = np.array([spans_of_path(other) == spans_of_path(path) for other in row.paths.tolist()])
    weights = np.exp(row.scores - row.log_normalizer())
    expected = [((weights * among)[:, None] * (row.paths == tag)).sum(0) / weights[among].sum() for tag in range(4)]
    close(ms.grad(lambda emissions: second(emissions)[0])(emissions)[:, 0], np.eye(4)[path])
    close(ms.grad(lambda emissions: second(emissions)[1])(emissions)[:, 0],
          np.stack(expected, 1) - row.marginals())


def test_nbest_spans_nan_is_seen_in_its_row():
    case = Case(8, 3, 3, 3)
    case.emissions[0, 0, 1] = np.nan
    paths, scores, log_probs = make_crf(case).nbest_spans(float_tensor(case.emissions), 2, np.ones((4, 4), int),
                                                          int_tensor([3, 2, 4]))
    for values in (scores, log_probs):
        assert np.isnan(values.asnumpy()).tolist() == [[True, True], [False, False], [True, True]]
    assert ((paths.asnumpy() >= 0) & (paths.asnumpy() < 3)).all()


@pytest.mark.parametrize('table,error,message', [
    (np.zeros((3, 3), int), ValueError, r'spans must be \(num_tags \+ 1, num_tags \+ 1\) = \(4, 4\) as span_steps '
                                        r'returns, got shape \(3, 3\)'),
    (np.zeros((4, 4)), TypeError, 'spans must be integers, got float64'),
    (np.full((4, 4), 16), ValueError, 'spans must contain integers from 0 to 15, got 16 to 16')])
def test_nbest_spans_faults_of_the_table(table, error, message):
    with pytest.raises(error, match=message):
        CRF(3).nbest_spans(float_tensor(np.zeros((2, 1, 3))), 1, table)
