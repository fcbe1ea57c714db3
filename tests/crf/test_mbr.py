"""Minimum Bayes risk decoding: paths with the fewest expected wrong tags agree with enumeration in float64."""

from ms_crf import CRF
from ms_crf.native import custom

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from support.chains import assign, make_crf
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

# After a tag comes either the same tag or the next tag.
IN_TURN = (np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], bool), np.array([1, 1, 0], bool), np.array([1, 0, 1], bool))
ANY = (ms.Tensor(shape=[None, None, 3], dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.int32))


def most_expected(row):
    """The largest expected number of correct tags of an allowed path, by enumeration."""
    weights = np.exp(row.scores - row.log_normalizer())
    return max(weights @ (row.paths == path).sum(1) for path in row.paths)


def check(case, constrained, free):
    """Compares results with and without constraints with enumeration; returns how many free paths are not allowed."""
    found = 0
    for b, row in enumerate(case.rows):
        for (paths, expected), is_free in ((constrained, False), (free, True)):
            path = paths[b].asnumpy()
            assert not path[row.length:].any()
            if not row.length:
                assert float(expected[b]) == 0.0
                continue
            path, marginals = path[:row.length], row.marginals()
            close(expected[b], marginals[np.arange(row.length), path].sum())
            close(expected[b], marginals.max(1).sum() if is_free else most_expected(row))
            allowed = path.tolist() in row.paths.tolist()
            assert is_free or allowed
            found += is_free and not allowed
    return found


class Both(nn.Cell):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def construct(self, emissions, lengths):
        return self.crf.mbr_decode(emissions, lengths), self.crf.mbr_decode(emissions, lengths, constrained=False)


_made: dict = {}


def both_ways(compiled):
    """A layer with constraints, and a function that decodes with and without them, compiled once for all tests."""
    key = compiled is ms.jit, custom.in_use()
    if key not in _made:
        both = Both(make_crf(Case(0, 5, 8, 3, constraints=IN_TURN)))

        def run(emissions, lengths):
            return both(emissions, lengths)

        _made[key] = both.crf, compiled(run)
    return _made[key]


def test_mbr_the_best_path_and_the_best_tags(compiled):
    """Decoding with and without constraints agrees with enumeration, also with scores of -inf.

    In some rows the most probable tags do not form an allowed path.
    """
    cases = [Case(seed, 5, 8, 3, constraints=IN_TURN, scale=0.5) for seed in (1, 5, 6)]
    cases.append(Case(4, 5, 8, 3, constraints=IN_TURN).forbid(emissions=[(1, 0, 2), (2, 3, 0)], transitions=[(2, 2)],
                                                              end=[2]))
    (crf, run), not_allowed = both_ways(compiled), 0
    for case in cases:
        assign(crf, case.scores)
        not_allowed += check(case, *run(float_tensor(case.emissions), int_tensor(case.lengths)))
    assert not_allowed > 0


def test_mbr_with_scores_of_pairs(compiled):
    """Decoding with pair emissions, some of them -inf, agrees with enumeration."""
    case = Case(6, 5, 8, 3, constraints=IN_TURN, scale=0.5).with_pairs(1, 0.5, [(1, 0, 0, 1), (0, 3, 1, 1)])
    crf = make_crf(case)

    def run(emissions, pairs, lengths):
        return crf.mbr_decode(emissions, lengths, pairs), crf.mbr_decode(emissions, lengths, pairs, constrained=False)

    check(case, *compiled(run)(float_tensor(case.emissions), float_tensor(case.pairs), int_tensor(case.lengths)))


@pytest.mark.slow
def test_mbr_one_exported_graph_for_all_shapes(tmp_path):
    first = Case(0, 5, 8, 3, constraints=IN_TURN)
    ms.export(Both(make_crf(first)), *ANY, file_name=str(tmp_path / 'both'), file_format='MINDIR')
    graph = nn.GraphCell(ms.load(str(tmp_path / 'both.mindir')))
    graph.set_inputs(*ANY)
    for length, batch in ((5, 8), (1, 2), (9, 1), (8, 3)):
        case = Case(length, length, batch, 3, constraints=IN_TURN)
        case.scores = first.scores
        case.rescore()
        check(case, *graph(float_tensor(case.emissions), int_tensor(case.lengths)))


def test_mbr_the_number_to_be_expected_can_be_differentiated(compiled):
    """Derivatives of the expected number of correct tags agree with covariances over the enumerated paths."""
    case = Case(7, 4, 3, 3)
    crf = make_crf(case, batch_first=True)
    lengths = int_tensor(case.lengths)

    def expected(emissions):
        return crf.mbr_decode(emissions, lengths)[1].sum()

    by_emissions = compiled(ms.grad(expected))(float_tensor(case.emissions.swapaxes(0, 1))).asnumpy()
    for b, row in enumerate(case.rows):
        if row.length:
            weights = np.exp(row.scores - row.log_normalizer())
            right = (row.paths == row.marginals().argmax(1)).sum(1)
            right = right if weights @ right >= most_expected(row) - 1e-9 else None
            assert right is not None                             # no constraints: the best tags are a path
            for t in range(row.length):
                for tag in range(3):
                    there = row.paths[:, t] == tag
                    close(by_emissions[b, t, tag], weights @ (right * there) - weights @ right * (weights @ there))


def test_mbr_nan_and_lengths_that_can_not_be_are_seen_in_their_row(compiled):
    case = Case(0, 5, 8, 3, constraints=IN_TURN)
    crf, run = both_ways(compiled)
    assign(crf, case.scores)
    emissions, lengths = np.clip(case.emissions, -9, 9), np.array([5, 2, 5, 1, 0, 3, 4, 5])
    good = run(float_tensor(emissions), int_tensor(lengths))
    emissions[0, 0, 1], lengths[2] = np.nan, 7
    for (paths, expected), (_, others) in zip(run(float_tensor(emissions), int_tensor(lengths)), good):
        assert np.isnan(expected.asnumpy()).tolist() == [True, False, True, *5 * [False]]
        close(expected[3:], others[3:].asnumpy())
        close(expected[1], others[1].asnumpy())
        assert ((paths.asnumpy() >= 0) & (paths.asnumpy() < 3)).all()


def test_mbr_a_row_of_which_no_path_is_allowed_has_the_fewest_breaks(compiled):
    crf = CRF(2, constraints=(np.array([[True, False], [False, True]]), np.array([True, False]),
                              np.array([False, True])))

    def run(emissions):
        return crf.mbr_decode(emissions)

    paths, expected = compiled(run)(float_tensor(np.zeros((3, 1, 2))))
    assert paths.asnumpy().tolist()[0] in ([0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1])
    assert 0.0 < float(expected[0]) <= 3.0


def test_mbr_an_argument_that_is_no_flag():
    with pytest.raises(TypeError, match='constrained must be True or False, got str'):
        CRF(3).mbr_decode(float_tensor(np.zeros((2, 1, 3))), constrained='yes')
