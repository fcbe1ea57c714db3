"""The layer against all paths: loss, gradients, best paths, n-best and posteriors, in both modes."""

import itertools

from ms_crf import allowed_transitions, post_decode

import mindspore as ms
import numpy as np
import pytest

from conftest import AllCalls, close, float_tensor, int_tensor, make_crf, parameters
from oracle import Case

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
BIOES = allowed_transitions('BIOES', ['O', 'B', 'I', 'E', 'S'])

# Few shapes, because each is compiled; K ** 3 * B chooses how the best path is found.
SHAPES = {
    'plain': {'length': 5, 'batch': 4, 'num_tags': 3},
    'constrained': {'length': 5, 'batch': 4, 'num_tags': 3, 'constraints': BIO},
    'unknown tags': {'length': 5, 'batch': 4, 'num_tags': 3, 'unknown': 0.4},
    'constrained, unknown tags': {'length': 4, 'batch': 4, 'num_tags': 5, 'constraints': BIOES, 'unknown': 0.5},
    'large scores': {'length': 5, 'batch': 4, 'num_tags': 3, 'scale': 50.0},
    'single tokens': {'length': 1, 'batch': 4, 'num_tags': 3},
    'wide batch': {'length': 3, 'batch': 40, 'num_tags': 5},
}


def check(case, layer):
    """All calls of a layer with the case's scores, an `AllCalls`, beside all paths."""
    actual = layer(float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths))
    close(actual['loss'], case.losses().sum())
    for gradient, expected in zip(actual['gradients'], case.gradients()):
        close(gradient, expected)
    close(actual['log_prob'], -case.losses())
    close(actual['normalizer'], [row.log_normalizer() for row in case.rows])
    close(actual['marginals'], case.by_position(lambda b, row: row.marginals()))

    best = [row.best() for row in case.rows]
    paths, scores = (result.asnumpy() for result in actual['decode'])
    assert [path[:n].tolist() for path, n in zip(paths, case.lengths)] == best
    assert paths.dtype == np.int32
    assert not paths[np.arange(paths.shape[1]) >= case.lengths[:, None]].any()
    close(scores, [row.scores.max() for row in case.rows])
    assert post_decode(*actual['viterbi'], int_tensor(case.lengths)) == best

    paths, scores = (result.asnumpy() for result in actual['nbest'])
    for b, row in enumerate(case.rows):
        count = min(len(row.scores), scores.shape[1])
        close(scores[b, :count], row.ranked()[:count])
        assert (scores[b, count:] < row.scores.min()).all()
        several = [tuple(path[:row.length].tolist()) for path in paths[b, :count]]
        assert len(set(several)) == count
        by_path = dict(zip(map(tuple, row.paths.tolist()), row.scores))
        close([by_path[path] for path in several], scores[b, :count])
        assert several[0] == tuple(best[b])
        posteriors = np.exp(scores[b] - row.log_normalizer())
        rounding = max(1e-5, 1e-7 * np.abs(row.scores).max())    # of the scores, in float32
        close(posteriors[:count], np.exp(row.ranked()[:count] - row.log_normalizer()), rounding)
        assert not posteriors[count:].any()


@pytest.mark.parametrize('name', SHAPES)
def test_agrees_with_all_paths(name, compiled):
    for seed in range(6 if compiled is ms.jit else 2):
        case = Case(seed, **SHAPES[name])
        check(case, AllCalls.of(case, compiled))


@pytest.mark.parametrize('shape', list(itertools.product([1, 2, 7], [1, 3], [1, 2, 4])))
@pytest.mark.parametrize('constrained', [False, True])
def test_agrees_in_many_shapes(shape, constrained):
    constraints = None
    if constrained:
        rng = np.random.default_rng(sum(shape))
        allowed = rng.random((shape[2], shape[2])) < 0.7
        np.fill_diagonal(allowed, True)
        constraints = (allowed, np.arange(shape[2]) < 2, np.arange(shape[2]) > shape[2] - 3)
        constraints[2][0] = True
    case = Case(shape[0], *shape, constraints=constraints, unknown=0.3)
    check(case, AllCalls(case, lambda function: function, n=3))


def test_equal_paths_give_the_lowest_tag(compiled):
    """Whole numbers, some of whose best paths are equal; in each of the ways that paths are found."""
    for name, seed in itertools.product(('plain', 'wide batch'), (5, 6)):
        case = Case(seed, **SHAPES[name], integers=True)
        best = [row.best() for row in case.rows]
        assert sum((row.scores == row.scores.max()).sum() > 1 for row in case.rows) > 0
        lengths = int_tensor(case.lengths)
        actual = AllCalls.of(case, compiled)(float_tensor(case.emissions), int_tensor(case.tags), lengths)
        assert post_decode(*actual['viterbi'], lengths) == best
        for paths in (actual['decode'][0].asnumpy(), actual['nbest'][0].asnumpy()[:, 0]):
            assert [path[:n].tolist() for path, n in zip(paths, case.lengths)] == best


def test_reductions_and_layouts(compiled):
    case = Case(1, 5, 4, 3)
    losses = case.losses()
    expected = {'none': losses, 'sum': losses.sum(), 'mean': losses.sum() / (case.lengths > 0).sum(),
                'token_mean': losses.sum() / case.lengths.sum()}
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    first, second, third, fourth = layers = [make_crf(case, reduction=reduction) for reduction in expected]
    for crf in layers:
        crf.update_parameters_name(f'{crf.reduction}.')          # a graph has one Parameter of a name

    def reductions(emissions, tags):
        return (first(emissions, tags, lengths), second(emissions, tags, lengths), third(emissions, tags, lengths),
                fourth(emissions, tags, lengths))

    for actual, value in zip(compiled(reductions)(emissions, tags), expected.values()):
        close(actual, value)
    crf = make_crf(case, batch_first=True, reduction='none')

    def batch_first(emissions, tags):
        return (crf.log_prob(emissions, tags, lengths), crf.marginals(emissions, lengths),
                crf.decode(emissions, lengths)[0])

    log_prob, marginals, paths = compiled(batch_first)(emissions.swapaxes(0, 1), tags.swapaxes(0, 1))
    close(log_prob, -losses)
    close(marginals, case.by_position(lambda b, row: row.marginals()).swapaxes(0, 1))
    assert [path[:n].tolist() for path, n in zip(paths.asnumpy(), case.lengths)] == [row.best() for row in case.rows]


@pytest.mark.parametrize('reduction', ['mean', 'token_mean', 'sum'])
def test_filler_rows_change_nothing(reduction):
    case = Case(5, 5, 3, 3)
    crf = make_crf(case, reduction=reduction)
    emissions, tags = case.emissions, case.tags
    wider = np.concatenate([emissions, np.full_like(emissions, np.nan)], 1)
    wider_tags = np.concatenate([tags, tags], 1)
    lengths = np.concatenate([case.lengths, [0, 0, 0]])
    alone = crf(float_tensor(emissions), int_tensor(tags), int_tensor(case.lengths))
    filled = crf(float_tensor(wider), int_tensor(wider_tags), int_tensor(lengths))
    close(filled, alone.asnumpy())
    nothing = crf(float_tensor(emissions), int_tensor(tags), int_tensor([0, 0, 0]))
    assert float(nothing.asnumpy()) == 0.0


def test_without_lengths_all_rows_are_full(compiled):
    case = Case(2, 4, 3, 3)
    crf = make_crf(case, reduction='none')
    emissions, tags = float_tensor(np.clip(case.emissions, -9, 9)), int_tensor(np.abs(case.tags))

    def loss(emissions, tags):
        return crf(emissions, tags)

    close(compiled(loss)(emissions, tags), crf(emissions, tags, int_tensor([4, 4, 4])).asnumpy())


def test_cells_run_in_graph_mode():
    case = Case(1, 5, 4, 3)
    crf = make_crf(case)
    arguments = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        close(crf(*arguments), case.losses().sum())
        score, history = crf(arguments[0], seq_length=arguments[2])
        assert post_decode(score, history, arguments[2]) == [row.best() for row in case.rows]
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_methods_compile_one_by_one():
    """ms.jit(crf.decode) and the like, in any order, with the cell itself after them."""
    case = Case(1, 5, 4, 3)
    crf = make_crf(case)
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    close(ms.jit(crf.decode)(emissions, lengths)[1], [row.scores.max() for row in case.rows])
    close(ms.jit(crf.marginals)(emissions, lengths), case.by_position(lambda b, row: row.marginals()))
    value_and_grad = ms.value_and_grad(crf, 0, parameters(crf))
    loss, gradients = ms.jit(value_and_grad)(emissions, tags, lengths)
    close(loss, case.losses().sum())
    for actual, expected in zip((gradients[0], *gradients[1]), case.gradients()):
        close(actual, expected)
    close(ms.jit(crf.nbest)(emissions, 2, lengths)[1][:, 0], [row.scores.max() for row in case.rows])
    close(ms.jit(crf.log_prob)(emissions, tags, lengths), -case.losses())
    close(ms.jit(crf.normalizer)(emissions, lengths), [row.log_normalizer() for row in case.rows])
    close(ms.jit(crf)(emissions, tags, lengths), case.losses().sum())


def test_marginals_can_be_differentiated(compiled):
    """Against central differences of the enumerated marginals."""
    case = Case(4, 4, 3, 3)
    crf = make_crf(case)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=case.emissions.shape)
    lengths = int_tensor(case.lengths)
    weight_tensor = float_tensor(weights)

    def weighted(emissions):
        return (crf.marginals(emissions, lengths) * weight_tensor).sum()

    actual = compiled(ms.grad(weighted))(float_tensor(case.emissions)).asnumpy()

    from oracle import Row
    step = 1e-4
    for b, n in enumerate(case.lengths):
        for t, k in itertools.product(range(n), range(3)):
            values = []
            for sign in (1, -1):
                emissions = case.emissions[:n, b].copy()
                emissions[t, k] += sign * step
                values.append((Row(emissions, case.scores).marginals() * weights[:n, b]).sum())
            assert actual[t, b, k] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-4)
    assert not actual[np.arange(4)[:, None] >= case.lengths].any()


def test_best_paths_can_serve_as_tags(compiled):
    """Self-training: the gradient is posteriors minus the best path, which itself has none."""
    case = Case(4, 4, 3, 3)
    crf = make_crf(case)
    lengths = int_tensor(case.lengths)

    def loss(emissions):
        return crf(emissions, crf.decode(emissions, lengths)[0].swapaxes(0, 1), lengths)

    def loss_of_nbest(emissions):
        return crf(emissions, crf.nbest(emissions, 2, lengths)[0][:, 0].swapaxes(0, 1), lengths)

    def gradients(emissions):
        return ms.grad(loss)(emissions), ms.grad(loss_of_nbest)(emissions)

    expected = case.by_position(lambda b, row: row.marginals() - row.marginals(np.array(row.best())))
    for actual in compiled(gradients)(float_tensor(case.emissions)):
        close(actual, expected)


@pytest.mark.parametrize('length,batch', [(1, 3), (4, 3), (4, 90)])
def test_padding_may_hold_anything(length, batch):
    case = Case(0, length, batch, 3)
    case.emissions[np.arange(length)[:, None] >= case.lengths] = np.nan
    crf = make_crf(case)
    emissions, lengths = float_tensor(case.emissions), int_tensor(case.lengths)
    score, history = crf(emissions, seq_length=lengths)
    assert np.isfinite(score.asnumpy()).all()
    assert post_decode(score, history, lengths) == [row.best() for row in case.rows]
    close(crf(emissions, int_tensor(case.tags), lengths), case.losses().sum())
    for result in (crf.decode(emissions, lengths)[1], crf.marginals(emissions, lengths),
                   crf.normalizer(emissions, lengths)):
        assert np.isfinite(result.asnumpy()).all()


def test_scores_of_best_paths_can_be_differentiated(compiled):
    """A path's score changes by 1 with each emission on it."""
    case = Case(4, 4, 3, 3)
    crf = make_crf(case)
    lengths = int_tensor(case.lengths)
    paths = crf.nbest(float_tensor(case.emissions), 2, lengths)[0].asnumpy()
    expected = np.zeros((2, *case.emissions.shape))
    for b, n in enumerate(case.lengths):
        for rank in range(2 if n else 1):
            expected[rank, np.arange(n), b, paths[b, rank, :n]] = 1.0

    def best(emissions):
        return crf.decode(emissions, lengths)[1].sum()

    def second(emissions):
        return crf.nbest(emissions, 2, lengths)[1][:, 1].sum()

    def gradients(emissions):
        return ms.grad(best)(emissions), ms.grad(second)(emissions)

    for actual, values in zip(compiled(gradients)(float_tensor(case.emissions)), expected):
        close(actual, values)
