"""The n best paths agree with enumeration for any n: the paths, their order, and how many exist."""

from ms_crf import CRF, allowed_transitions
from ms_crf.crf.selection import LOWEST
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest

from support.chains import MODES, NOT_IN_A_PLAIN_GRAPH, assign, make_crf
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])


def in_order(row):
    """All paths of an `oracle.Row`, best first. Ties are in the order of the last tag, then of the tag before it."""
    return sorted(zip(row.scores, row.paths.tolist()), key=lambda pair: (-pair[0], pair[1][::-1]))


def check(case, actual, n):
    paths, scores = (tensor.asnumpy() for tensor in actual)
    assert paths.shape == (len(case.rows), n, len(case.emissions)) and paths.dtype == np.int32
    for b, row in enumerate(case.rows):
        expected = in_order(row)[:n]
        count = len(expected)
        close(scores[b, :count], [score for score, _ in expected])
        assert paths[b, :count, :row.length].tolist() == [path for _, path in expected]
        assert (scores[b, count:] == np.float32(LOWEST)).all() and not paths[b, count:].any()
        assert not paths[b, :, row.length:].any()


@pytest.mark.parametrize('constraints,few,many', [                       # another algorithm for n above 8
    (None, 8, 300), pytest.param(BIO, 9, 40, marks=NOT_IN_A_PLAIN_GRAPH)])
def test_nbest_many_paths_and_ties(constraints, few, many, compiled):
    """Ties are in the documented order, by enumeration: first with whole numbers, then with zeros for all scores."""
    case = Case(3, 5, 4, 3, integers=True, constraints=constraints)
    crf = make_crf(case)

    def nbest(emissions, lengths):
        return crf.nbest(emissions, few, lengths), crf.nbest(emissions, many, lengths)

    run = compiled(nbest)
    for factor in (1.0, 0.0):
        case.emissions = case.emissions * factor
        case.scores = {name: values * factor for name, values in case.scores.items()}
        case.rescore()
        assign(crf, case.scores)
        for n, actual in zip((few, many), run(float_tensor(case.emissions), int_tensor(case.lengths))):
            check(case, actual, n)


@NOT_IN_A_PLAIN_GRAPH
def test_nbest_two_hundred_of_six_words_and_a_thousand_of_one(compiled):
    for length, n in ((6, 200), (1, 1000)):
        case = Case(1, length, 2, 5)
        crf = make_crf(case)

        def nbest(emissions, lengths, crf=crf, n=n):
            return crf.nbest(emissions, n, lengths)

        check(case, compiled(nbest)(float_tensor(case.emissions), int_tensor(case.lengths)), n)


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # the softmax head has no operators in C++
def test_nbest_softmax_head(compiled):
    case = Case(2, 4, 3, 3)
    case.scores = {name: np.zeros_like(values) for name, values in case.scores.items()}
    case.rescore()
    head = Softmax(3)

    def nbest(emissions, lengths):
        return head.nbest(emissions, 90, lengths)

    paths, scores = compiled(nbest)(float_tensor(case.emissions), int_tensor(case.lengths))
    normalizers = np.array([row.log_normalizer() for row in case.rows])
    scores = scores.asnumpy()
    real = scores > LOWEST / 2
    check(case, (paths, float_tensor(np.where(real, scores + normalizers[:, None], scores))), 90)


def test_nbest_scores_of_many_can_be_differentiated(compiled):
    """The score of a path has the derivative 1 by each emission on the path, and 0 by all others."""
    case = Case(4, 3, 2, 3)
    crf = make_crf(case)
    lengths = int_tensor(case.lengths)

    def ninth(emissions):
        return crf.nbest(emissions, 12, lengths)[1][:1, 8].sum()

    expected = np.zeros(case.emissions.shape)
    expected[np.arange(3), 0, in_order(case.rows[0])[8][1]] = 1.0
    close(compiled(ms.grad(ninth))(float_tensor(case.emissions)), expected)


@pytest.mark.parametrize('n,error,message', [
    (0, ValueError, 'n must be at least 1, got 0'), (True, TypeError, 'n must be an int, got bool'),
    (2.0, TypeError, 'n must be an int, got float'), ('2', TypeError, 'n must be an int, got str'),
    (10 ** 13, ValueError, 'the n best paths for n = 10000000000000 needs at least')])
def test_nbest_faults_of_n(n, error, message):
    with pytest.raises(error, match=message):
        CRF(3).nbest(float_tensor(np.zeros((2, 1, 3))), n)


@pytest.mark.parametrize('compiled', ['native graph', 'pynative'], indirect=True)
def test_nbest_numpy_integers(compiled):
    crf, n = CRF(3), np.int64(2)

    def nbest(emissions):
        return crf.nbest(emissions, n)

    assert compiled(nbest)(float_tensor(np.zeros((1, 1, 3))))[0].shape == (1, 2, 1)
