"""Losses with weights, costs and soft targets agree with enumeration of all paths in float64."""

import copy
import itertools

from ms_crf import allowed_transitions

import mindspore as ms
import numpy as np
import pytest

from support.chains import NAMES, NOT_IN_A_PLAIN_GRAPH, assign, make_crf, parameters
from support.oracle import Case, Row
from support.tensors import close, compiled_graphs, float_tensor, int_tensor

NUM_TAGS, LENGTH, BATCH = 3, 4, 5
BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
RNG = np.random.default_rng(9)
TAG_WEIGHTS = np.array([0.3, 2.0, 1.5])
TOKEN_WEIGHTS = RNG.uniform(0.0, 3.0, (LENGTH, BATCH))
ROW_WEIGHTS = np.array([2.0, 0.5, 0.0, 1.0, 3.0])
COSTS = RNG.uniform(0.0, 3.0, (NUM_TAGS, NUM_TAGS))


def of_prefix(row, tags, count):
    """Log of the sum over all paths of an `oracle.Row` that agree with the first `count` tags."""
    tags = np.where(np.arange(len(tags)) < count, tags, -1)
    return row.log_normalizer(tags)


def weighted(row, tags, weights):
    """Weighted loss by the chain rule: the sum of -log p(tag | tags before it), times the weight of the tag."""
    return -sum(weight * (of_prefix(row, tags, t + 1) - of_prefix(row, tags, t)) for t, weight in enumerate(weights))


def with_costs(row, tags, costs):
    """The row with the cost of its wrong tags added to the score of each path."""
    result = Row(np.zeros((row.length, row.num_tags)), {'transitions': np.zeros((row.num_tags,) * 2),
                                                        'start': np.zeros(row.num_tags), 'end': np.zeros(row.num_tags)})
    added = np.array([sum(costs[right, other] for right, other in zip(tags, path) if right >= 0 and right != other)
                      for path in row.paths])
    result.paths, result.scores = row.paths, row.scores + added
    return result


def expected_score_of_targets(row, targets, pairs=None):
    """Expected score of a path that is drawn tag by tag from the targets."""
    probabilities = np.ones(len(row.paths))
    for t in range(row.length):
        if pairs is None or t == 0:
            probabilities *= targets[t, row.paths[:, t]]
        else:
            probabilities *= pairs[t - 1, row.paths[:, t - 1], row.paths[:, t]] / targets[t - 1, row.paths[:, t - 1]]
    assert abs(probabilities.sum() - 1.0) < 1e-6
    return (probabilities * row.scores).sum()


def distributions(*shape):
    values = RNG.uniform(0.0, 1.0, shape) ** 3
    return values / values.sum(-1, keepdims=True)


TARGETS = distributions(LENGTH, BATCH, NUM_TAGS)
PATHS = RNG.integers(0, NUM_TAGS, (BATCH, 3, LENGTH))
PATHS[0, 1, 2] = -1
PATH_WEIGHTS = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [0.2, 0.2, 0.2], [0.0, 0.0, 1.0], [0.1, 0.0, 0.9]])
TARGETS_TENSOR, PATHS_TENSOR, PATH_WEIGHTS_TENSOR = float_tensor(TARGETS), int_tensor(PATHS), float_tensor(PATH_WEIGHTS)


# Named functions, because a graph cannot compile lambdas.
def loss_of_tag_weights(crf, emissions, tags, lengths, pairs=None):
    return crf.loss(emissions, tags, lengths, pairs, tag_weights=TAG_WEIGHTS)


def loss_of_everything(crf, emissions, tags, lengths, pairs=None):
    return crf.loss(emissions, tags, lengths, pairs, tag_weights=TAG_WEIGHTS, token_weights=TOKEN_WEIGHTS,
                    row_weights=ROW_WEIGHTS, cost=COSTS)


def loss_of_one_cost(crf, emissions, tags, lengths, pairs=None):
    return crf.loss(emissions, tags, lengths, pairs, cost=2.0)


def loss_of_token_targets(crf, emissions, tags, lengths, pairs=None):
    return crf.cross_entropy(emissions, TARGETS_TENSOR, lengths, pairs, row_weights=ROW_WEIGHTS)


def loss_of_path_targets(crf, emissions, tags, lengths, pairs=None):
    return crf.path_cross_entropy(emissions, PATHS_TENSOR, PATH_WEIGHTS_TENSOR, lengths, pairs)


# For each loss: the call of the layer, and the loss of one row by enumeration.
LOSSES = {
    'weights of tags': (loss_of_tag_weights,
                        lambda row, tags, b: weighted(row, tags, TAG_WEIGHTS[np.maximum(tags, 0)])),
    'all weights and costs': (loss_of_everything, lambda row, tags, b: ROW_WEIGHTS[b] * weighted(
        with_costs(row, tags, COSTS), tags, TAG_WEIGHTS[np.maximum(tags, 0)] * TOKEN_WEIGHTS[:len(tags), b])),
    'one cost': (loss_of_one_cost, lambda row, tags, b: with_costs(
        row, tags, np.full((3, 3), 2.0)).log_normalizer() - row.log_normalizer(tags)),
    'targets of tokens': (loss_of_token_targets, lambda row, tags, b: ROW_WEIGHTS[b] * (
        row.log_normalizer() - expected_score_of_targets(row, TARGETS[:, b]))),
    'targets of paths': (loss_of_path_targets, lambda row, tags, b: sum(
        weight * row.loss(path[:row.length]) for path, weight in zip(PATHS[b], PATH_WEIGHTS[b]))),
}


# A graph takes seconds to compile. The graph with all weights and costs contains the graphs with some of them.
IN_A_PLAIN_GRAPH = ('all weights and costs', 'targets of tokens', 'targets of paths')


def expected_losses(name, case):
    return np.array([LOSSES[name][1](row, case.known(b), b) if row.length else 0.0 for b, row in enumerate(case.rows)])


def differences(name, case, step=1e-5):
    """Central differences of the summed loss by emissions, transitions, start and end scores."""
    result = []
    for values in (case.emissions, *(case.scores[key] for key in NAMES)):
        slopes = np.zeros(values.shape)
        for place in itertools.product(*map(range, values.shape)):
            if values is case.emissions and place[0] >= case.lengths[place[1]]:
                continue
            before, sums = values[place], []
            for sign in (1, -1):
                values[place] = before + sign * step
                case.rescore()
                sums.append(expected_losses(name, case).sum())
            values[place] = before
            slopes[place] = (sums[0] - sums[1]) / (2 * step)
        result.append(slopes)
    case.rescore()
    return result


@pytest.mark.parametrize('compiled,name', [
    *itertools.product(('pynative', 'native graph', 'native pynative'), LOSSES),
    *itertools.product(('graph',), IN_A_PLAIN_GRAPH)], indirect=['compiled'])
def test_losses_loss_and_gradient(name, compiled):
    """Each loss agrees with enumeration, and its gradients with central differences of the enumerated loss.

    The second case has unknown tags. The third has scores whose products overflow in float32.
    """
    cases = [Case(1, LENGTH, BATCH, NUM_TAGS), Case(2, LENGTH, BATCH, NUM_TAGS, unknown=0.4),
             Case(3, LENGTH, BATCH, NUM_TAGS, scale=60.0)]
    crf, function = make_crf(cases[0]), LOSSES[name][0]

    def loss(emissions, tags, lengths):
        return function(crf, emissions, tags, lengths)

    run = compiled(ms.value_and_grad(loss, 0, parameters(crf)))
    for case in cases:
        assign(crf, case.scores)
        value, (by_emissions, by_scores) = run(float_tensor(case.emissions), int_tensor(case.tags),
                                               int_tensor(case.lengths))
        close(value, expected_losses(name, case).sum())
        for actual, expected in zip((by_emissions, *by_scores), differences(name, case)):
            close(actual, expected, 1e-4)


def at(row, temperature):
    """The row with all scores divided by the temperature."""
    result = copy.copy(row)
    result.scores = row.scores / temperature
    return result


def expected_at(case, temperature):
    """Sum of the losses of `test_losses_a_temperature_divides_all_scores_and_costs`, by enumeration."""
    total = 0.0
    for b, row in enumerate(case.rows):
        if row.length:
            tags, chain = case.known(b), at(row, temperature)
            total += weighted(at(with_costs(row, tags, COSTS), temperature), tags, TAG_WEIGHTS[np.maximum(tags, 0)])
            total += chain.log_normalizer() - expected_score_of_targets(chain, TARGETS[:, b])
            total += chain.log_normalizer() - chain.log_normalizer(tags)
            total += sum(weight * chain.loss(path[:row.length]) for path, weight in zip(PATHS[b], PATH_WEIGHTS[b]))
    return total


@pytest.mark.slow
@pytest.mark.parametrize('compiled', ['pynative', 'native pynative'], indirect=True)
def test_losses_a_temperature_divides_all_scores_and_costs(compiled):
    """Losses at a temperature agree with enumeration, and their derivatives with central differences.

    The derivatives are by emissions and by the temperature. nan on padding changes nothing.
    """
    case, temperature, step = Case(2, LENGTH, BATCH, NUM_TAGS, unknown=0.4), 1.7, 1e-5
    crf, tags, lengths = make_crf(case), int_tensor(case.tags), int_tensor(case.lengths)

    def losses(emissions, temperature):
        return (crf.loss(emissions, tags, lengths, tag_weights=TAG_WEIGHTS, cost=COSTS, temperature=temperature)
                + crf.cross_entropy(emissions, TARGETS_TENSOR, lengths, temperature=temperature)
                + crf.loss(emissions, tags, lengths, temperature=temperature)
                + crf.path_cross_entropy(emissions, PATHS_TENSOR, PATH_WEIGHTS_TENSOR, lengths,
                                         temperature=temperature))

    value, (by_emissions, by_temperature) = ms.value_and_grad(losses, (0, 1))(
        float_tensor(np.where(case.by_position(lambda _, row: np.ones((row.length, NUM_TAGS))) > 0, case.emissions,
                              np.nan)), float_tensor(temperature))
    close(value, expected_at(case, temperature))
    close(by_temperature, (expected_at(case, temperature + step)
                           - expected_at(case, temperature - step)) / (2 * step), 1e-4)
    for place in itertools.product(*map(range, case.emissions.shape)):
        if place[0] < case.lengths[place[1]]:
            before, sums = case.emissions[place], []
            for sign in (1, -1):
                case.emissions[place] = before + sign * step
                case.rescore()
                sums.append(expected_at(case, temperature))
            case.emissions[place] = before
            close(by_emissions[place], (sums[0] - sums[1]) / (2 * step), 1e-4)


def test_losses_without_weights_and_costs_it_is_the_loss_of_the_call():
    """Losses with weights of 1 and one-hot targets are the enumerated loss, in every reduction.

    Row weights do not change the divisor of a mean.
    """
    case = Case(5, LENGTH, BATCH, NUM_TAGS)
    losses = case.losses()
    divisors = {'sum': 1, 'mean': (case.lengths > 0).sum(), 'token_mean': case.lengths.sum()}
    for reduction, divisor in divisors.items():
        crf = make_crf(case, reduction=reduction, batch_first=True)
        inputs = (float_tensor(case.emissions.swapaxes(0, 1)), int_tensor(case.tags.T), int_tensor(case.lengths))
        close(crf.loss(*inputs), losses.sum() / divisor)
        close(crf.loss(*inputs, row_weights=ROW_WEIGHTS), (losses * ROW_WEIGHTS).sum() / divisor)
        close(crf.loss(*inputs, token_weights=np.ones((BATCH, LENGTH))), losses.sum() / divisor)
        close(crf.cross_entropy(inputs[0], float_tensor(np.eye(3)[np.maximum(case.tags.T, 0)]), inputs[2]),
              losses.sum() / divisor)
        close(crf.path_cross_entropy(inputs[0], inputs[1].expand_dims(1), float_tensor(np.ones((BATCH, 1))),
                                     inputs[2]), losses.sum() / divisor)
        close(crf.loss(*inputs, cost=COSTS), sum(
            with_costs(row, case.known(b), COSTS).log_normalizer() - row.log_normalizer(case.known(b))
            for b, row in enumerate(case.rows)) / divisor)


def test_losses_loss_of_each_row():
    case = Case(5, LENGTH, BATCH, NUM_TAGS, unknown=0.3)
    crf = make_crf(case, reduction='none')
    for function, _ in LOSSES.values():
        assert crf.reduction == 'none'
        losses = function(crf, float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths))
        name = next(name for name, (other, _) in LOSSES.items() if other is function)
        close(losses, expected_losses(name, case))


def test_losses_targets_of_pairs():
    """The cross entropy with targets of pairs agrees with enumeration; targets that do not fit the pairs give nan."""
    case = Case(6, LENGTH, BATCH, NUM_TAGS)
    steps = distributions(LENGTH - 1, BATCH, NUM_TAGS, NUM_TAGS)
    targets = [distributions(BATCH, NUM_TAGS)]
    for step in steps:
        targets.append((targets[-1][:, :, None] * step).sum(1))
    targets = np.array(targets)
    pairs = targets[:-1, :, :, None] * steps
    expected = [row.log_normalizer() - expected_score_of_targets(row, targets[:, b], pairs[:, b]) if row.length else 0.0
                for b, row in enumerate(case.rows)]
    lengths = int_tensor(case.lengths)
    inputs = float_tensor(case.emissions), float_tensor(targets), lengths
    close(make_crf(case, reduction='none').cross_entropy(*inputs, pair_targets=float_tensor(pairs)), expected)
    crf = make_crf(case, reduction='none', batch_first=True)
    inputs = float_tensor(case.emissions.swapaxes(0, 1)), float_tensor(targets.swapaxes(0, 1)), lengths
    close(crf.cross_entropy(*inputs, pair_targets=float_tensor(pairs.swapaxes(0, 1))), expected)
    wrong = float_tensor(np.roll(pairs, 1, 3).swapaxes(0, 1))    # sums do not match the targets
    losses = crf.cross_entropy(*inputs, pair_targets=wrong)
    assert np.isnan(losses.asnumpy()).tolist() == (case.lengths > 1).tolist()


@NOT_IN_A_PLAIN_GRAPH
def test_losses_what_is_forbidden_has_a_price_and_no_gradient(compiled):
    """A gold tag that violates a constraint adds about 10,000 times its weight to the loss.

    An emission of -inf adds nothing where the target is 0, and its gradient is 0.
    """
    case = Case(2, 3, 1, 3, constraints=(BIO.transitions, BIO.start, BIO.end))
    crf = make_crf(case)
    tags, weights = int_tensor([[1], [0], [2]]), np.array([[1.0], [1.0], [0.5]])
    targets = np.zeros((3, 1, 3))
    targets[0, 0, 1] = targets[1, 0, 2] = targets[2, 0, 0] = 1.0
    case.emissions[0, 0, 2] = -np.inf
    case.rescore()

    def losses(emissions):
        return (crf.loss(emissions, tags, token_weights=weights) +
                crf.cross_entropy(emissions, float_tensor(targets)) * 1000.0)

    loss, gradient = compiled(ms.value_and_grad(losses))(float_tensor(case.emissions))
    soft = case.rows[0].loss(np.array([1, 2, 0]))
    assert abs(float(loss) - 1000.0 * soft - 5000.0) < 20.0
    assert np.isfinite(gradient.asnumpy()).all() and float(gradient[0, 0, 2]) == 0.0


def test_losses_what_can_not_be_is_nan_in_its_row(compiled):
    """nan, an invalid length or tag, and targets that do not add up to 1 make only the loss of their row nan."""
    case = Case(4, 4, 5, 3)
    case.lengths[:] = [4, 3, 4, 2, 4]
    case.rescore()
    crf = make_crf(case, reduction='none')

    def losses(emissions, tags, targets, paths, lengths):
        return (crf.loss(emissions, tags, lengths, tag_weights=TAG_WEIGHTS),
                crf.loss(emissions, tags, lengths, cost=1.0),
                crf.cross_entropy(emissions, targets, lengths),
                crf.path_cross_entropy(emissions, paths, float_tensor(np.ones((5, 1))), lengths))

    run = compiled(losses)
    emissions, tags, targets = case.emissions.copy(), np.maximum(case.tags, 0), TARGETS.copy()
    good = [float_tensor(emissions), int_tensor(tags), float_tensor(targets), int_tensor(tags.T[:, None]),
            int_tensor(case.lengths)]
    emissions[1, 0, 2], emissions[3, 3, 0] = np.nan, np.nan      # the second one is on padding
    targets[1, 1] = 0.5
    faulty = run(float_tensor(emissions), good[1], float_tensor(targets), good[3], int_tensor([4, 3, 5, 2, 4]))
    for actual, expected in zip(faulty, run(*good)):
        assert np.isnan(actual.asnumpy())[[0, 2]].all()
        close(actual[3:], expected[3:].asnumpy())
    assert np.isnan(faulty[2].asnumpy())[1]
    tags[1, 1] = 3
    weighted, costly, _, of_paths = run(good[0], int_tensor(tags), good[2], int_tensor(tags.T[:, None]), good[4])
    for actual in (weighted, costly, of_paths):
        assert np.isnan(actual.asnumpy())[1]


FAULTS = {
    'tag_weights must have the shape of start_transitions, (3,), got (2,)':
        lambda crf, *inputs: crf.loss(*inputs, tag_weights=[1.0, 2.0]),
    'token_weights must have the shape of tags, (4, 2), got (2, 4)':
        lambda crf, *inputs: crf.loss(*inputs, token_weights=np.ones((2, 4))),
    'row_weights must have the shape of seq_length, (2,), got (3,)':
        lambda crf, *inputs: crf.loss(*inputs, row_weights=np.ones(3)),
    'cost must have the shape of transitions, (3, 3), got (3,)': lambda crf, *inputs: crf.loss(*inputs, cost=[1, 2, 3]),
    "cost must be a number or a tensor of numbers, got str": lambda crf, *inputs: crf.loss(*inputs, cost='1'),
    'targets must have the shape of emissions, (4, 2, 3), got (4, 2)':
        lambda crf, emissions, tags: crf.cross_entropy(emissions, tags),
    'targets must be a Tensor, got list': lambda crf, emissions, tags: crf.cross_entropy(emissions, [1]),
    'pair_targets must have the shape of the pairs of emissions, (3, 2, 3, 3), got (4, 2, 3)':
        lambda crf, emissions, tags: crf.cross_entropy(emissions, emissions, pair_targets=emissions),
    'paths must have the shape of batch, n and length of emissions, (2, 1, 4), got (4, 1, 2)':
        lambda crf, emissions, tags: crf.path_cross_entropy(emissions, tags.expand_dims(1), float_tensor([[1], [1]])),
    'weights must have the shape of paths[:, :, 0], (2, 1), got (2,)':
        lambda crf, emissions, tags: crf.path_cross_entropy(emissions, tags.swapaxes(0, 1).expand_dims(1),
                                                            float_tensor([1, 1])),
}


@pytest.mark.parametrize('message', FAULTS)
def test_losses_faults_of_arguments(message):
    case = Case(0, 4, 2, 3)
    with pytest.raises((TypeError, ValueError)) as raised:
        FAULTS[message](make_crf(case), float_tensor(case.emissions), int_tensor(case.tags))
    assert str(raised.value) == message


def test_losses_targets_that_are_no_distributions_are_named():
    case = Case(0, 4, 2, 3)
    targets = np.full((4, 2, 3), 1 / 3)
    targets[1, 0] = [0.5, 0.25, 0.5]
    with pytest.raises(ValueError, match=r'targets must be distributions, non-negative numbers that add up to 1, got '
                                         r'\[0.5, 0.25, 0.5\] in row 0, position 1'):
        make_crf(case, check_values=True).cross_entropy(float_tensor(np.zeros((4, 2, 3))), float_tensor(targets))


def test_losses_gradients_by_weights_and_costs():
    """Gradients by weights and costs agree with enumeration.

    By a tag weight, the gradient is the sum of the loss terms with this weight. By the cost, it is the expected number
    of wrong tags in the chain with costs.
    """
    case = Case(8, LENGTH, BATCH, NUM_TAGS)
    crf = make_crf(case)
    inputs = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)

    def loss(tag_weights, cost):
        return crf.loss(*inputs, tag_weights=tag_weights), crf.loss(*inputs, cost=cost)

    weights, cost = float_tensor(TAG_WEIGHTS), float_tensor(1.5)
    by_weights = ms.grad(lambda weights: loss(weights, cost)[0])(weights)
    by_cost = ms.grad(lambda cost: loss(weights, cost)[1])(cost)
    close(by_weights, [sum(weighted(row, case.known(b), np.eye(3)[tag][case.known(b)])
                           for b, row in enumerate(case.rows) if row.length) for tag in range(3)])
    expected = 0.0
    for b, row in enumerate(case.rows):
        costly = with_costs(row, case.known(b), np.full((3, 3), 1.5))
        expected += np.exp(costly.scores - costly.log_normalizer()) @ (row.paths != case.known(b)).sum(1)
    close(by_cost, expected)


def combined(crf, emissions, tags, lengths):
    """Sum of all losses, for graphs of any length."""
    paths = ms.ops.stop_gradient(crf.decode(emissions, lengths)[0]).expand_dims(1)
    return (crf.loss(emissions, tags, lengths, tag_weights=TAG_WEIGHTS, cost=0.5) +
            crf.cross_entropy(emissions, ms.ops.softmax(emissions, -1), lengths) +
            crf.path_cross_entropy(emissions, paths, ms.ops.ones((emissions.shape[1], 1), ms.float32), lengths))


@pytest.mark.slow
def test_losses_compiled_once_for_all_lengths():
    """A graph compiled for any length agrees with PyNative mode, which other tests compare with enumeration."""
    first = Case(3, 3, 4, 3)
    crf = make_crf(first)

    def loss(emissions, tags, lengths):
        return combined(crf, emissions, tags, lengths)

    gradient = ms.value_and_grad(loss, 0, parameters(crf))
    step = ms.jit(gradient, dynamic=1)
    compiled = []
    for length in (3, 4, 6, 2, 7, 1):
        case = Case(length, length, 4, 3, unknown=0.3)
        case.emissions = np.clip(case.emissions, -9, 9)
        inputs = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
        (value, (by_emissions, by_scores)), (other, (also, scores)) = step(*inputs), gradient(*inputs)
        close(value, other.asnumpy())
        for actual, expected in zip((by_emissions, *by_scores), (also, *scores)):
            close(actual, expected.asnumpy(), 1e-4)
        compiled.append(compiled_graphs())
    assert len(set(compiled[2:])) == 1


@pytest.mark.parametrize('compiled,name', [                     # pair emissions have no operators in C++
    *itertools.product(('pynative',), LOSSES), *itertools.product(('graph',), IN_A_PLAIN_GRAPH)], indirect=['compiled'])
def test_losses_loss_and_gradient_with_scores_of_pairs(name, compiled):
    """Losses with pair emissions and unknown tags agree with enumeration, and gradients with central differences."""
    case = Case(2, LENGTH, BATCH, NUM_TAGS, unknown=0.4).with_pairs(3)
    crf, function = make_crf(case), LOSSES[name][0]

    def loss(emissions, tags, lengths, pairs):
        return function(crf, emissions, tags, lengths, pairs)

    value, (by_emissions, by_pairs) = compiled(ms.value_and_grad(loss, (0, 3)))(
        float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths), float_tensor(case.pairs))
    close(value, expected_losses(name, case).sum())
    close(by_emissions, differences(name, case)[0], 1e-4)
    step, pairs = 1e-5, case.pairs.copy()
    for place in ((0, 0, 1, 2), (2, 0, 0, 0), (1, 2, 1, 1)):
        sums = []
        for sign in (1, -1):
            case.pairs = pairs.copy()
            case.pairs[place] += sign * step
            case.rescore()
            sums.append(expected_losses(name, case).sum())
        if place[0] + 1 < case.lengths[place[1]]:
            close(by_pairs[place], (sums[0] - sums[1]) / (2 * step), 1e-4)
        else:
            assert float(by_pairs[place]) == 0.0


def test_losses_targets_of_pairs_with_scores_of_pairs():
    """If the targets are the layer's own posteriors, the loss is the enumerated entropy of the layer."""
    case = Case(6, LENGTH, BATCH, NUM_TAGS).with_pairs(5)
    crf = make_crf(case, reduction='none', batch_first=True)
    emissions, lengths = float_tensor(case.emissions.swapaxes(0, 1)), int_tensor(case.lengths)
    pairs = float_tensor(case.pairs.swapaxes(0, 1))
    losses = crf.cross_entropy(emissions, crf.marginals(emissions, lengths, pairs), lengths, pairs,
                               crf.edge_marginals(emissions, lengths, pairs))
    expected = []
    for row in case.rows:
        logs = row.scores - row.log_normalizer()
        expected.append(-(np.exp(logs) * logs).sum())
    close(losses, expected)
