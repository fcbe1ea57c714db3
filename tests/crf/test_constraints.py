"""Tag schemes: the allowed transitions of each scheme, and a layer that has them as constraints."""

import itertools

from ms_crf import CRF, allowed_transitions, post_decode

import mindspore as ms
import numpy as np
import pytest

from support.chains import NOT_IN_A_PLAIN_GRAPH, make_crf
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

# The allowed pairs of neighbours, listed in full. ^ is the beginning of a sentence and $ its end.
ALLOWED = {
    ('BIO', ('O', 'B-X', 'I-X', 'B-Y', 'I-Y')): """
        ^ O, ^ B-X, ^ B-Y, O $, B-X $, I-X $, B-Y $, I-Y $,
        O O, O B-X, O B-Y, B-X O, B-X B-X, B-X I-X, B-X B-Y, I-X O, I-X B-X, I-X I-X, I-X B-Y,
        B-Y O, B-Y B-X, B-Y B-Y, B-Y I-Y, I-Y O, I-Y B-X, I-Y B-Y, I-Y I-Y""",
    ('IOB1', ('O', 'B-X', 'I-X', 'I-Y')): """
        ^ O, ^ I-X, ^ I-Y, O $, B-X $, I-X $, I-Y $,
        O O, O I-X, O I-Y, B-X O, B-X B-X, B-X I-X, B-X I-Y, I-X O, I-X B-X, I-X I-X, I-X I-Y,
        I-Y O, I-Y I-X, I-Y I-Y""",
    ('BIOES', ('O', 'B-X', 'I-X', 'E-X', 'S-X', 'E-Y')): """
        ^ O, ^ B-X, ^ S-X, O $, E-X $, S-X $, E-Y $,
        O O, O B-X, O S-X, B-X I-X, B-X E-X, I-X I-X, I-X E-X, E-X O, E-X B-X, E-X S-X,
        S-X O, S-X B-X, S-X S-X, E-Y O, E-Y B-X, E-Y S-X""",
    ('BIOES', ('B', 'I', 'E', 'S')): "^ B, ^ S, E $, S $, B I, B E, I I, I E, E B, E S, S B, S S",
    ('BMES', ('B', 'M', 'E', 'S')): "^ B, ^ S, E $, S $, B M, B E, M M, M E, E B, E S, S B, S S",
    ('BMES', ('O', 'S-X', 'B-X', 'E-X')): """
        ^ O, ^ S-X, ^ B-X, O $, S-X $, E-X $,
        O O, O S-X, O B-X, S-X O, S-X S-X, S-X B-X, B-X E-X, E-X O, E-X S-X, E-X B-X""",
}


@pytest.mark.parametrize('scheme,tags', ALLOWED)
def test_constraints_allowed_pairs(scheme, tags):
    expected = {tuple(pair.split()) for pair in ALLOWED[scheme, tags].split(',')}
    transitions, start, end = allowed_transitions(scheme, tags)
    actual = {(a, b) for (i, a), (j, b) in itertools.product(enumerate(tags), enumerate(tags)) if transitions[i, j]}
    actual |= {('^', tag) for tag, allowed in zip(tags, start) if allowed}
    actual |= {(tag, '$') for tag, allowed in zip(tags, end) if allowed}
    assert actual == expected
    assert transitions.dtype == start.dtype == end.dtype == bool


@pytest.mark.parametrize('scheme,tags,message', [
    (['BIO'], ['O'], r"scheme must be one of BIO, IOB1, BIOES, BMES, got \['BIO'\]"),
    ('BILOU', ['O'], "scheme must be one of BIO, IOB1, BIOES, BMES, got 'BILOU'"),
    ('BIO', [], 'tags must hold at least one tag'),
    ('BIO', ['O', 'O'], "got 'O' more than once"),
    ('BIO', ['O', 'E-X'], "tags must be B-TYPE, I-TYPE, O .* under BIO, got 'E-X' at 1"),
    ('BIO', ['O', 'B-'], "got 'B-' at 1"),
    ('BIO', ['NOUN'], "got 'NOUN' at 0"),
    ('BMES', ['O-X'], "got 'O-X' at 0"),
])
def test_constraints_impossible_tags(scheme, tags, message):
    with pytest.raises(ValueError, match=message):
        allowed_transitions(scheme, tags)


def test_constraints_tags_of_wrong_type():
    with pytest.raises(TypeError, match='tags must be strings, got 3 at 1'):
        allowed_transitions('BIO', ['O', 3])
    with pytest.raises(TypeError, match="tags must be a sequence of strings, got 'BIO'"):
        allowed_transitions('BIO', 'BIO')


@pytest.mark.parametrize('constraints,error,message', [
    (np.ones((3, 3), bool), TypeError, r'constraints must be \(transitions, start, end\)'),
    ((np.ones((2, 2), bool), np.ones(3, bool), np.ones(3, bool)), ValueError,
     r'constraints.transitions must have shape \(3, 3\) for num_tags = 3, got \(2, 2\)'),
    ((np.ones((3, 3)), np.ones(3, bool), np.ones(3, bool)), TypeError, 'constraints.transitions must be bool'),
    ((np.ones((3, 3), bool), np.zeros(3, bool), np.ones(3, bool)), ValueError,
     'constraints.start must allow at least one tag'),
])
def test_constraints_impossible_constraints(constraints, error, message):
    with pytest.raises(error, match=message):
        CRF(3, constraints=constraints)


@pytest.fixture(scope='module')
def bioes():
    return allowed_transitions('BIOES', ['O', 'B', 'I', 'E', 'S'])


@NOT_IN_A_PLAIN_GRAPH
@pytest.mark.slow
@pytest.mark.quick
def test_constraints_hold_against_emissions(bioes, compiled):
    """Results agree with enumeration of the allowed paths, even if emissions favour forbidden tags by 20,000 nats."""
    case = Case(0, 6, 4, 5, constraints=bioes, scale=10000.0)
    crf = make_crf(case)
    lengths = int_tensor(case.lengths)

    def everything(emissions, tags):
        paths, scores = crf.decode(emissions, lengths)
        return crf.log_prob(emissions, tags, lengths), crf.marginals(emissions, lengths), paths, scores

    log_prob, marginals, paths, scores = compiled(everything)(float_tensor(case.emissions), int_tensor(case.tags))
    close(log_prob, -case.losses())
    close(marginals, case.by_position(lambda b, row: row.marginals()))
    best = [row.best() for row in case.rows]
    assert [path[:n].tolist() for path, n in zip(paths.asnumpy(), case.lengths)] == best
    close(scores, [row.scores.max() for row in case.rows])
    score, history = crf(float_tensor(case.emissions), seq_length=lengths)
    assert post_decode(score, history, lengths) == best


def test_constraints_forbidden_tags_have_no_posterior(bioes):
    case = Case(0, 6, 4, 5, constraints=bioes)
    marginals = make_crf(case).marginals(float_tensor(case.emissions), int_tensor(case.lengths)).asnumpy()
    assert not marginals[0, :, [2, 3]].any()                     # I and E cannot begin a sentence
    for b, n in enumerate(case.lengths):
        assert n == 0 or not marginals[n - 1, b, [1, 2]].any()   # B and I cannot end a sentence


@pytest.mark.parametrize('unknown', [False, True])
def test_constraints_gold_tags_that_break_constraints_cost_much(bioes, unknown):
    case = Case(0, 5, 3, 5, constraints=bioes)
    crf = make_crf(case, reduction='none')
    tags = np.array([[2, 0, 1], [0, 0, 4], [0, 0, 4], [0, 0, 4], [0, 0, 0]])   # begins with I; valid; B before S
    if unknown:
        tags[3] = -1
    lengths = int_tensor([5, 5, 5])
    emissions = float_tensor(np.clip(case.emissions, -5, 5))
    losses, gradient = ms.value_and_grad(lambda e: crf(e, int_tensor(tags), lengths).sum())(emissions)
    assert np.isfinite(gradient.asnumpy()).all()
    losses = crf(emissions, int_tensor(tags), lengths).asnumpy()
    assert np.isfinite(losses).all()
    assert losses[1] < 100
    assert (losses[[0, 2]] > 9000).all()
    assert (losses[[0, 2]] < 30000).all()


@NOT_IN_A_PLAIN_GRAPH
def test_constraints_no_path_at_all(compiled):
    """A sentence of one word whose tags need two words has no allowed path.

    The best path is the one that breaks the fewest constraints, and all results are finite.
    """
    crf = CRF(2, constraints=allowed_transitions('BMES', ['B', 'E']), reduction='none')
    emissions, tags, lengths = float_tensor([[[1.0, 2.0]], [[0.0, 0.0]]]), int_tensor([[0], [0]]), int_tensor([1])

    def everything(emissions):
        paths, scores = crf.decode(emissions, lengths)
        _, nbest = crf.nbest(emissions, 4, lengths)
        return crf(emissions, tags, lengths), crf.marginals(emissions, lengths), paths, scores, nbest

    loss, marginals, paths, scores, nbest = (result.asnumpy() for result in compiled(everything)(emissions))
    assert np.isfinite(loss).all() and np.isfinite(scores).all() and np.isfinite(nbest).all()
    close(marginals[0].sum(), 1.0)
    assert paths.tolist() == [[0, 0]]
    assert (nbest < -1e38).all()


def test_constraints_tags_that_nothing_reaches():
    """Without B-Y no allowed path reaches I-Y: its posterior is 0, and the losses agree with enumeration."""
    constraints = allowed_transitions('BIO', ['O', 'B-X', 'I-X', 'I-Y'])
    case = Case(1, 5, 4, 4, constraints=constraints)
    crf = make_crf(case, reduction='none')
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    close(crf(emissions, tags, lengths), case.losses())
    assert not crf.marginals(emissions, lengths).asnumpy()[..., 3].any()
