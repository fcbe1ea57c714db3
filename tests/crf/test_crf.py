"""Loss, gradients, best paths, n best paths and posteriors agree with enumeration of all paths, in both modes."""

import itertools

from ms_crf import allowed_transitions, post_decode
from ms_crf.native import custom

import mindspore as ms
import numpy as np
import pytest

from support.chains import (
    NOT_IN_A_PLAIN_GRAPH,
    AllCalls,
    assign,
    check_all_calls,
    in_a_plain_graph,
    make_crf,
    parameters,
)
from support.oracle import Case, Row
from support.tensors import close, float_tensor, int_tensor

BIOES = allowed_transitions('BIOES', ['O', 'B', 'I', 'E', 'S'])

# There are few shapes and constraints, because each needs a graph. K ** 3 * B decides how the layer finds the best
# path: step by step in wide batches, otherwise by joining steps in pairs.
WIDE = {'length': 4, 'batch': 40, 'num_tags': 5, 'constraints': BIOES}
SHAPES = {
    'plain': {'length': 5, 'batch': 4, 'num_tags': 3},
    'unknown tags': {'length': 5, 'batch': 4, 'num_tags': 3, 'unknown': 0.4},
    'large scores': {'length': 5, 'batch': 4, 'num_tags': 3, 'scale': 50.0},
    'single tokens': {'length': 1, 'batch': 4, 'num_tags': 3},
    'wide batch, constrained': WIDE,
    'wide batch, constrained, unknown tags': {**WIDE, 'unknown': 0.5},
}
# In a graph of plain operators, wide batches test only the best paths, because no other call depends on the width.
# test_forbidden.py tests all calls with constraints.
QUICK = ('plain', 'unknown tags', 'large scores', 'wide batch, constrained')
IN_PYNATIVE = pytest.mark.quick('pynative', 'native graph')


def layer_of(name, case, compiled, only_paths=False):
    """The layer for a shape of `SHAPES`, with all its calls or only with the calls that find paths."""
    only_paths = only_paths or 'wide' in name and in_a_plain_graph(compiled)
    return AllCalls.of(case, compiled, results=AllCalls.PATHS if only_paths else AllCalls.RESULTS)


@pytest.mark.parametrize('name', [*(pytest.param(name, marks=IN_PYNATIVE) for name in QUICK),
                                  *(name for name in SHAPES if name not in QUICK)])
def test_crf_agrees_with_all_paths(name, compiled):
    for seed in range(6 if compiled is ms.jit else 2 if custom.in_use() else 1):
        case = Case(seed, **SHAPES[name])
        check_all_calls(case, layer_of(name, case, compiled))


@pytest.mark.parametrize('shape', list(itertools.product([1, 2, 7], [1, 3], [1, 2, 4])))
@pytest.mark.parametrize('constrained', [False, True])
def test_crf_agrees_in_many_shapes(shape, constrained):
    constraints = None
    if constrained:
        rng = np.random.default_rng(sum(shape))
        allowed = rng.random((shape[2], shape[2])) < 0.7
        np.fill_diagonal(allowed, True)
        constraints = (allowed, np.arange(shape[2]) < 2, np.arange(shape[2]) > shape[2] - 3)
        constraints[2][0] = True
    case = Case(shape[0], *shape, constraints=constraints, unknown=0.3)
    check_all_calls(case, AllCalls(case, lambda function: function, n=3))


def test_crf_equal_paths_give_the_lowest_tag(compiled):
    """Of several best paths, all calls return the path with the lowest tags, as enumeration does.

    The scores are whole numbers, so that ties occur. The shapes cover both ways of finding the best path.
    """
    for name, seed in itertools.product(('plain', 'wide batch, constrained'), (5, 6)):
        case = Case(seed, **SHAPES[name], integers=True)
        best = [row.best() for row in case.rows]
        assert sum((row.scores == row.scores.max()).sum() > 1 for row in case.rows) > 0
        lengths = int_tensor(case.lengths)
        layer = layer_of(name, case, compiled, only_paths=compiled is not ms.jit)
        actual = layer(float_tensor(case.emissions), int_tensor(case.tags), lengths)
        assert post_decode(*actual['viterbi'], lengths) == best
        for paths in (actual['decode'][0].asnumpy(), actual['nbest'][0].asnumpy()[:, 0]):
            assert [path[:n].tolist() for path, n in zip(paths, case.lengths)] == best


@NOT_IN_A_PLAIN_GRAPH
def test_crf_reductions_and_layouts(compiled):
    """Reductions, `batch_first` and calls without `seq_length` agree with enumeration.

    Reduction 'sum' is missing here, because `AllCalls` tests it.
    """
    case, full = Case(1, 5, 4, 3), Case(1, 5, 4, 3)
    full.emissions = np.clip(full.emissions, -9, 9)
    full.lengths[:] = 5
    full.rescore()
    losses = case.losses()
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    none, token_mean, mean = (make_crf(case, reduction=reduction, batch_first=reduction == 'mean')
                              for reduction in ('none', 'token_mean', 'mean'))
    token_mean.transitions, token_mean.start_transitions, token_mean.end_transitions = parameters(mean)

    def everything(emissions, tags, clipped, by_row, tags_by_row):
        return (token_mean(clipped, tags), mean(by_row, tags_by_row, lengths), mean.marginals(by_row, lengths),
                mean.decode(by_row, lengths)[0])

    by_row, tags_by_row = emissions.swapaxes(0, 1), tags.swapaxes(0, 1)
    of_tokens, of_rows, marginals, paths = compiled(everything)(
        emissions, tags, float_tensor(full.emissions), by_row, tags_by_row)
    close(of_tokens, full.losses().sum() / full.lengths.sum())
    close(of_rows, losses.sum() / (case.lengths > 0).sum())
    close(marginals, case.by_position(lambda b, row: row.marginals()).swapaxes(0, 1))
    assert [path[:n].tolist() for path, n in zip(paths.asnumpy(), case.lengths)] == [row.best() for row in case.rows]
    close(none(emissions, tags, lengths), losses)
    close(token_mean(emissions, tags, lengths), losses.sum() / case.lengths.sum())
    close(mean.log_prob(by_row, tags_by_row, lengths), -losses)


@pytest.mark.parametrize('reduction', ['mean', 'token_mean', 'sum'])
def test_crf_filler_rows_change_nothing(reduction):
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


@pytest.mark.slow
def test_crf_cells_run_in_graph_mode():
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


@pytest.mark.slow
def test_crf_methods_compile_one_by_one():
    """Each method can be compiled alone with ms.jit, in any order, and the cell itself afterwards."""
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


def test_crf_marginals_can_be_differentiated(compiled):
    """Derivatives of marginals agree with central differences of enumerated marginals, and are 0 where forbidden."""
    case = Case(4, 4, 3, 3)
    crf = make_crf(case)
    weights = np.random.default_rng(0).normal(size=case.emissions.shape)
    lengths, weight_tensor = int_tensor(case.lengths), float_tensor(weights)

    def weighted(emissions):
        return (crf.marginals(emissions, lengths) * weight_tensor).sum()

    run, step = compiled(ms.grad(weighted)), 1e-4
    for indices in ({}, {'emissions': [(1, 0, 2)], 'transitions': [(0, 1)]}):
        case.forbid(**indices)
        assign(crf, case.scores)
        actual = run(float_tensor(case.emissions)).asnumpy()
        for b, n in enumerate(case.lengths):
            for t, k in itertools.product(range(n), range(3)):
                values = []
                for sign in (1, -1):
                    emissions = case.emissions[:n, b].copy()
                    emissions[t, k] += sign * step
                    values.append((Row(emissions, case.scores).marginals() * weights[:n, b]).sum())
                assert actual[t, b, k] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-4)
        assert not actual[np.arange(4)[:, None] >= case.lengths].any()
        assert not actual[case.emissions == -np.inf].any()


@NOT_IN_A_PLAIN_GRAPH
def test_crf_best_paths_can_serve_as_tags_and_their_scores_be_differentiated(compiled):
    """Best paths can be the tags of the loss, as in self-training, and scores of paths have gradients.

    The gradient of the loss is the marginals minus the best path, because the path itself has no gradient. The score
    of a path has the derivative 1 by each emission on the path.
    """
    case = Case(4, 4, 3, 3)
    crf = make_crf(case)
    lengths = int_tensor(case.lengths)

    def chosen(emissions, of_decode, factors):
        paths, best = crf.decode(emissions, lengths)
        several, scores = crf.nbest(emissions, 2, lengths)
        tags = ms.ops.where(of_decode, paths, several[:, 0]).swapaxes(0, 1)
        return crf(emissions, tags, lengths) * factors[0] + best.sum() * factors[1] + scores[:, 1].sum() * factors[2]

    loss = case.by_position(lambda _, row: row.marginals() - row.marginals(np.array(row.best())))
    paths = crf.nbest(float_tensor(case.emissions), 2, lengths)[0].asnumpy()
    ranked = np.zeros((2, *case.emissions.shape))
    for b, n in enumerate(case.lengths):
        for rank in range(2 if n else 1):
            ranked[rank, np.arange(n), b, paths[b, rank, :n]] = 1.0
    run = compiled(ms.grad(chosen))                              # one graph for all four combinations
    for of_decode, factors, expected in zip((True, False, True, True), np.eye(3)[[0, 0, 1, 2]], (loss, loss, *ranked)):
        close(run(float_tensor(case.emissions), ms.Tensor([of_decode]), float_tensor(factors)), expected)


@pytest.mark.parametrize('length,batch', [(1, 3), (4, 3), (4, 90)])
def test_crf_padding_may_hold_anything(length, batch):
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


