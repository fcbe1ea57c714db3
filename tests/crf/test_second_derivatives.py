"""Second derivatives agree with central differences of enumerated gradients, in both modes."""

from ms_crf import CRF, allowed_transitions, compute_normalizer

import mindspore as ms
import numpy as np
import pytest

from support.chains import NOT_IN_A_PLAIN_GRAPH, assign, make_crf, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

pytestmark = pytest.mark.slow

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
NAMES = ('transitions', 'start', 'end')
STEP = 1e-5


def directions(case, seed):
    """Random directions for emissions, transitions, start and end scores, also on padding."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=array.shape) for array in (case.emissions, *(case.scores[name] for name in NAMES))]


def difference(case, direction, of_case):
    """Central difference along a direction of `of_case(case)`."""
    values = []
    emissions, scores = case.emissions, case.scores
    for sign in (1, -1):
        case.emissions = emissions + sign * STEP * direction[0]
        case.scores = {name: scores[name] + sign * STEP * part for name, part in zip(NAMES, direction[1:])}
        case.rescore()
        values.append(of_case(case))
    case.emissions, case.scores = emissions, scores
    case.rescore()
    return [(one - other) / (2 * STEP) for one, other in zip(*values)]


def gradients_of_normalizer(case):
    """Gradients of the summed normalizer by emissions, transitions, start and end scores."""
    emissions = case.by_position(lambda _, row: row.marginals())
    transitions = sum(row.transition_counts() for row in case.rows if row.length)
    ends = sum(emissions[n - 1, b] for b, n in enumerate(case.lengths) if n)
    return emissions, transitions, emissions[0].sum(0), ends


def derivative_of_gradient(function, crf):
    """A function that returns the derivative, by emissions and the layer's scores, of a gradient times a direction.

    Its arguments are emissions, tags and lengths, and the direction of emissions, transitions, start and end scores.
    """
    weights = parameters(crf)

    def gradient_along(emissions, tags, lengths, along_emissions, along_transitions, along_start, along_end):
        by_emissions, (by_transitions, by_start, by_end) = ms.grad(function, 0, weights)(emissions, tags, lengths)
        return ((by_emissions * along_emissions).sum() + (by_transitions * along_transitions).sum()
                + (by_start * along_start).sum() + (by_end * along_end).sum())

    return ms.grad(gradient_along, 0, weights)


def tensors(case, direction):
    """Arguments of a function that `derivative_of_gradient` returns."""
    return (float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths),
            *map(float_tensor, direction))


def check(actual, expected):
    by_emissions, by_scores = actual
    assert max(np.abs(part).max() for part in expected) > 1e-3
    for one, other in zip((by_emissions, *by_scores), expected):
        close(one, other, 3e-5)


# There are few shapes and constraints, because each needs a graph.
CASES = {
    'constrained': {'length': 4},
    'unknown tags': {'length': 4, 'unknown': 0.4},
    'more unknown tags': {'length': 4, 'unknown': 0.5},
    'scores that products can not hold': {'length': 4, 'scale': 50.0},
    'single tokens': {'length': 1},
}


def test_second_derivatives_of_the_loss(compiled):
    crf = make_crf(Case(0, 4, 3, 3, constraints=BIO))

    def loss(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    run = compiled(derivative_of_gradient(loss, crf))
    for name, options in CASES.items():
        if name == 'single tokens' and compiled is ms.jit:
            continue                                             # would need a graph, but computes like length 4
        case = Case(5, batch=3, num_tags=3, constraints=BIO, **options)
        if 'products' in name:
            case.emissions[:2, 0, :2] = 0.0                      # two equal tags, so that the derivative is not 0
            for scores in case.scores.values():
                scores[..., :2] = np.round(scores[..., :1] / 50)
            case.rescore()
        assign(crf, case.scores)
        direction = directions(case, 0)
        check(run(*tensors(case, direction)), difference(case, direction, Case.gradients))


def test_second_derivatives_of_what_is_made_of_the_loss():
    """In a graph, second derivatives of squared losses agree with central differences of enumerated gradients.

    PyNative mode of MindSpore computes such derivatives wrongly, even for (x * x * x).sum().
    """
    case = Case(1, 3, 4, 3)
    case.lengths[2] = 0
    case.rescore()
    direction = directions(case, 1)
    none, crf = (make_crf(case, batch_first=True, reduction=reduction) for reduction in ('none', 'token_mean'))
    crf.transitions, crf.start_transitions, crf.end_transitions = parameters(none)    # names in a graph are unique

    def squared(emissions, tags, lengths):
        emissions, tags = emissions.swapaxes(0, 1), tags.swapaxes(0, 1)
        losses, mean = none(emissions, tags, lengths), crf(emissions, tags, lengths)
        return (losses * losses).sum() + mean * mean

    def gradients(case):
        losses = case.losses()
        emissions = case.by_position(lambda b, row: row.marginals() - row.marginals(case.known(b)))
        rows = [row.transition_counts() - row.transition_counts(case.known(b)) if row.length else 0.0
                for b, row in enumerate(case.rows)]
        # By the chain rule, the squares of a row's loss and of the mean scale the gradient of the row.
        factors = 2 * losses + 2 * losses.sum() / case.lengths.sum() ** 2
        emissions = emissions * factors[:, None]
        ends = sum(emissions[n - 1, b] for b, n in enumerate(case.lengths) if n)
        return emissions, sum(f * row for f, row in zip(factors, rows)), emissions[0].sum(0), ends

    run = ms.jit(derivative_of_gradient(squared, crf))
    check(run(*tensors(case, direction)), difference(case, direction, gradients))


@NOT_IN_A_PLAIN_GRAPH
def test_second_derivatives_of_normalizer_and_log_probability_together(compiled):
    case = Case(2, 4, 3, 3)
    crf, direction = make_crf(case), directions(case, 2)

    def normalizer(emissions, tags, lengths):                    # only this one in a graph, to save seconds
        return crf.normalizer(emissions, lengths).sum()

    def total(emissions, tags, lengths):
        return 2.0 * crf.normalizer(emissions, lengths).sum() + crf.log_prob(emissions, tags, lengths).sum()

    run = compiled(derivative_of_gradient(normalizer if compiled is ms.jit else total, crf))
    check(run(*tensors(case, direction)), difference(case, direction, gradients_of_normalizer))


@pytest.mark.parametrize('compiled', ['pynative', 'native pynative'], indirect=True)
def test_second_derivatives_of_the_function_of_the_tutorial(compiled):
    """Second derivatives of `compute_normalizer` agree with central differences of enumerated gradients.

    They are not tested in a graph, where the function uses the same cell as the normalizer of a layer.
    """
    case = Case(3, 4, 3, 3)
    direction = directions(case, 3)
    mask = ms.Tensor(np.arange(4)[:, None] < case.lengths)
    factors = [float_tensor(part) for part in direction]

    def total(emissions, transitions, start, end):
        return compute_normalizer(emissions, mask, transitions, start, end).sum()

    def gradient_along(emissions, transitions, start, end):
        gradients = ms.grad(total, (0, 1, 2, 3))(emissions, transitions, start, end)
        return sum((gradient * factor).sum() for gradient, factor in zip(gradients, factors))

    arguments = [float_tensor(case.emissions), *(float_tensor(case.scores[name]) for name in NAMES)]
    gradients = compiled(ms.grad(gradient_along, (0, 1, 2, 3)))(*arguments)
    for one, other in zip(gradients, difference(case, direction, gradients_of_normalizer)):
        close(one, other, 3e-5)


def test_second_derivatives_in_long_sentences():
    """Without transitions the positions are independent, so the second derivatives are known: diag(p) - p p'."""
    length, num_tags = 150, 3
    rng = np.random.default_rng(0)
    emissions, direction = rng.normal(size=(2, length, 1, num_tags))
    crf = CRF(num_tags)
    for parameter in parameters(crf):
        parameter.set_data(ms.ops.zeros_like(parameter))
    factors, tags, lengths = float_tensor(direction), int_tensor(np.zeros((length, 1))), int_tensor([length])

    def gradient_along(emissions):
        return (ms.grad(crf)(emissions, tags, lengths) * factors).sum()

    shares = np.exp(emissions)
    shares /= shares.sum(2, keepdims=True)
    close(ms.jit(ms.grad(gradient_along))(float_tensor(emissions)),
          shares * (direction - (shares * direction).sum(2, keepdims=True)))
