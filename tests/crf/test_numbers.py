"""Numerical precision: other float types, large scores and long sentences agree with float64 oracles."""

from ms_crf import (
    CRF,
    allowed_transitions,
    compute_normalizer,
    compute_score,
    post_decode,
    sequence_mask,
    viterbi_decode,
)

import mindspore as ms
import numpy as np
import pytest

from support.chains import NOT_IN_A_PLAIN_GRAPH, assign, in_a_plain_graph, make_crf, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

pytestmark = pytest.mark.slow


def log_domain(emissions, scores, lengths):
    """Log normalizer (B,) and marginals (L, B, K) by forward and backward recursions in float64."""
    def log_sum(values, axis):
        top = values.max(axis, keepdims=True)
        return (top + np.log(np.exp(values - top).sum(axis, keepdims=True))).squeeze(axis)

    normalizer, marginals = np.zeros(len(lengths)), np.zeros(emissions.shape)
    for b, n in enumerate(lengths):
        alpha, beta = np.zeros((n, emissions.shape[2])), np.zeros((n, emissions.shape[2]))
        alpha[0], beta[-1] = scores['start'] + emissions[0, b], scores['end']
        for t in range(1, n):
            alpha[t] = log_sum(alpha[t - 1][:, None] + scores['transitions'], 0) + emissions[t, b]
            beta[-t - 1] = log_sum(scores['transitions'] + (emissions[n - t, b] + beta[-t]), 1)
        normalizer[b] = log_sum(alpha[-1] + scores['end'], 0)
        marginals[:n, b] = np.exp(alpha + beta - normalizer[b])
    return normalizer, marginals


def check_loss(case, tolerance=1e-5):
    crf = make_crf(case)
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    loss, gradients = ms.value_and_grad(lambda e: crf(e, tags, lengths), 0, parameters(crf))(emissions)
    close(loss, case.losses().sum())
    for actual, expected in zip((gradients[0], *gradients[1]), case.gradients()):
        close(actual, expected, tolerance)


@NOT_IN_A_PLAIN_GRAPH
def test_numbers_other_floats_are_computed_in_float32(compiled):
    case, dtypes = Case(0, 5, 3, 3), (ms.float16, ms.bfloat16, ms.float64)
    crf = make_crf(case)
    if in_a_plain_graph(compiled):                               # test_mixed_precision.py tests float16 there
        dtypes = dtypes[1:]
    inputs = [float_tensor(np.clip(case.emissions, -9, 9)).astype(dtype) for dtype in dtypes]
    tags, lengths = int_tensor(case.tags), int_tensor(case.lengths)

    def loss(emissions):
        return crf(emissions, tags, lengths)

    def of_two(brain, double, tags):
        return [crf(emissions, tags, lengths) for emissions in (brain, double)]

    def of_three(half, brain, double, tags):
        return [crf(emissions, tags, lengths) for emissions in (half, brain, double)]

    run = compiled(ms.value_and_grad(of_three if len(dtypes) == 3 else of_two, tuple(range(len(dtypes)))))
    values, gradients = run(*inputs, tags)
    for dtype, emissions, value, gradient in zip(dtypes, inputs, values, gradients):
        expected, expected_gradient = ms.value_and_grad(loss)(emissions.astype(ms.float32))
        assert value.dtype == ms.float32
        assert gradient.dtype == dtype
        close(value, expected.asnumpy())
        close(gradient.astype(ms.float32), expected_gradient.asnumpy(), 1e-2)
        assert crf.marginals(emissions, lengths).dtype == ms.float32
        assert crf.decode(emissions, lengths)[1].dtype == ms.float32
        mask, scores = sequence_mask(lengths, 5), [parameter.astype(dtype) for parameter in parameters(crf)]
        assert compute_normalizer(emissions, mask, *scores).dtype == ms.float32
        assert compute_score(emissions, tags, lengths - 1, mask, *scores).dtype == ms.float32
        assert viterbi_decode(emissions, mask, *scores)[0].dtype == ms.float32

    # -inf forbids in all types. All other scores are small whole numbers, which are exact in each type.
    case.emissions = np.round(np.clip(case.emissions, -4, 4))
    case.forbid(emissions=[(1, 0, 1), (3, 0, 0)], transitions=[(1, 1), (0, 2)], start=[2], end=[2])
    assign(crf, case.scores)
    values, gradients = run(*(float_tensor(case.emissions).astype(dtype) for dtype in dtypes), int_tensor(case.tags))
    for value, gradient in zip(values, gradients):
        close(value, case.losses().sum())
        close(gradient.astype(ms.float32), case.gradients()[0], 1e-2)


@NOT_IN_A_PLAIN_GRAPH
def test_numbers_zero_scores_count_paths(compiled):
    """If all scores are 0, the normalizer is the log of the number of paths: length * log(num_tags)."""
    lengths = [12, 7, 1, 0]
    mask = sequence_mask(int_tensor(lengths), 12)

    def normalizer(emissions, transitions, ends):
        return compute_normalizer(emissions, mask, transitions, ends, ends)

    for num_tags in (9,) if in_a_plain_graph(compiled) else (2, 9):
        zeros = [float_tensor(np.zeros(shape)) for shape in ((12, 4, num_tags), (num_tags, num_tags), num_tags)]
        close(compiled(normalizer)(*zeros), np.array(lengths) * np.log(num_tags))


@pytest.mark.parametrize('constrained', [False, True])
@pytest.mark.parametrize('size', [100.0, 10000.0])
def test_numbers_large_emissions_stay_finite_and_exact(size, constrained):
    constraints = allowed_transitions('BIO', ['O', 'B', 'I']) if constrained else None
    rng = np.random.default_rng(0)
    for seed in range(5):
        case = Case(seed, 6, 4, 3, constraints=constraints)
        case.emissions[:] = rng.choice([-size, 0.0, size], case.emissions.shape)
        case.rescore()
        check_loss(case, max(1e-5, size * 1e-7))                 # float32 has about seven digits


def test_numbers_what_products_can_not_hold():
    """With transitions of -900 nats products underflow, but the loss agrees with enumeration.

    The only good step begins at a tag whose score is 900 nats lower.
    """
    case = Case(0, 6, 4, 3)
    case.scores['transitions'][:] = -900.0
    case.scores['transitions'][2, 1] = 0.0
    case.rescore()
    check_loss(case)


@pytest.mark.parametrize('scale,length,compiled', [(1.0, 300, 'native graph'), (100.0, 5000, 'native graph'),
                                                   (1.0, 300, 'pynative')], indirect=['compiled'])
def test_numbers_long_sentences(scale, length, compiled):
    """Sentences that are too long for unrolled loops agree with recursions in float64."""
    rng = np.random.default_rng(0)
    batch, num_tags = 4, 9
    lengths = np.array([length, length - 1, 2, length // 2])
    emissions = (scale * rng.normal(size=(length, batch, num_tags))).astype(np.float32)
    crf = CRF(num_tags)
    scores = {'transitions': crf.transitions.asnumpy().astype(float), 'start': crf.start_transitions.asnumpy(),
              'end': crf.end_transitions.asnumpy()}
    tags = rng.integers(0, num_tags, (length, batch))
    tag_tensor, length_tensor = int_tensor(tags), int_tensor(lengths)

    def loss(emissions):
        return crf(emissions, tag_tensor, length_tensor)

    def others(emissions):
        return (crf.marginals(emissions, length_tensor), *crf.decode(emissions, length_tensor),
                *crf(emissions, seq_length=length_tensor))

    def path_score(b, path):
        path = np.asarray(path)
        return (emissions[np.arange(len(path)), b, path].astype(float).sum() + scores['start'][path[0]]
                + scores['end'][path[-1]] + scores['transitions'][path[:-1], path[1:]].sum())

    value, gradient = compiled(ms.value_and_grad(loss))(float_tensor(emissions))
    normalizer, marginals = log_domain(emissions.astype(float), scores, lengths)
    gold, expected = 0.0, marginals.copy()
    for b, n in enumerate(lengths):
        gold += path_score(b, tags[:n, b])
        expected[np.arange(n), b, tags[:n, b]] -= 1.0
    close(value, normalizer.sum() - gold)
    close(gradient, expected, 1e-4)
    marginals, paths, actual, *viterbi = compiled(others)(float_tensor(emissions))
    marginals = marginals.asnumpy()
    assert np.isfinite(marginals).all()
    assert np.abs(marginals.sum(-1) - (np.arange(length)[:, None] < lengths)).max() < 1e-3

    best = post_decode(*viterbi, length_tensor)
    assert [path[:n].tolist() for path, n in zip(paths.asnumpy(), lengths)] == best
    for b, n in enumerate(lengths):
        score = path_score(b, best[b])
        assert actual.asnumpy()[b] == pytest.approx(score, rel=1e-5)
        assert score == pytest.approx(max_product(emissions[:n, b].astype(float), scores), rel=1e-7)


def max_product(emissions, scores):
    """Score of the best path by a Viterbi recursion in float64."""
    best = scores['start'] + emissions[0]
    for emission in emissions[1:]:
        best = (best[:, None] + scores['transitions']).max(0) + emission
    return (best + scores['end']).max()


def test_numbers_one_block_and_many_agree():
    """The same sentences have equal results padded to 140 positions, in a loop over blocks, and to 60, in one block."""
    case = Case(0, 4, 2, 3)
    crf = make_crf(case, reduction='none')
    rng = np.random.default_rng(0)
    emissions, tags = rng.normal(size=(140, 160, 3)), rng.integers(0, 3, (140, 160))
    lengths = int_tensor(rng.integers(0, 61, 160))
    long, short = ((float_tensor(emissions[:length]), int_tensor(tags[:length])) for length in (140, 60))
    close(crf(*long, lengths), crf(*short, lengths).asnumpy())
    assert (post_decode(*crf(long[0], seq_length=lengths), lengths)
            == post_decode(*crf(short[0], seq_length=lengths), lengths))


@pytest.mark.parametrize('spread', [20.0, 60.0, 100.0])
def test_numbers_confident_models(spread):
    """Losses and marginals agree with enumeration if one tag leads by tens of nats, as after long training."""
    rng = np.random.default_rng(0)
    case = Case(0, 7, 4, 3)
    case.scores = {'transitions': rng.normal(size=(3, 3)) * spread / 4, 'start': rng.normal(size=3) * spread,
                   'end': rng.normal(size=3) * spread}
    case.emissions[:] = rng.permuted(np.broadcast_to([0.0, spread / 2, spread], case.emissions.shape), axis=2)
    case.rescore()
    crf = make_crf(case, reduction='none')
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    close(crf(emissions, tags, lengths), case.losses())
    close(crf.marginals(emissions, lengths), case.by_position(lambda b, row: row.marginals()))


@pytest.mark.parametrize('batch,unknown', [(6, 0.0), (10, 0.3)])
def test_numbers_calls_repeat_to_the_bit(batch, unknown):
    """32 calls of a graph return exactly the same bits.

    MindSpore tries different divisions among threads in the sixth to fifteenth call, to find the fastest.
    """
    case = Case(0, 5, batch, 3, unknown=unknown)
    crf = make_crf(case)
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    weights = parameters(crf)

    def everything(emissions, tags, lengths):
        loss, (by_emissions, by_scores) = ms.value_and_grad(crf, 0, weights)(emissions, tags, lengths)
        paths, score = crf.decode(emissions, lengths)
        chosen, conditional = crf.path_posteriors(emissions, paths, lengths)
        return (loss, by_emissions, *by_scores, score, chosen, conditional, crf.normalizer(emissions, lengths),
                crf.log_prob(emissions, tags, lengths), crf.marginals(emissions, lengths))

    graph = ms.jit(everything)
    actual = [[result.asnumpy().tobytes() for result in graph(emissions, tags, lengths)] for _ in range(32)]
    for results in actual[1:]:
        assert results == actual[0]
