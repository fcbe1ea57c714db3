"""Losses of a chain other than the plain negative log likelihood: weights, costs, soft targets, distributions over
paths.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import log_domain, tensors
from ms_crf.crf.inference import mark_tags, path_score
from ms_crf.crf.inputs import (
    Numbers,
    check_like,
    check_sums_of_targets,
    has_values,
    in_range,
    lengths_or_full,
    prepare_tags,
    tensor_of,
)
from ms_crf.crf.validation import TOLERANCE

import mindspore as ms
from mindspore import Tensor, ops


def reduced(losses: Tensor, lengths: Tensor, row_weights: Numbers | None, reduction: str) -> Tensor:
    """Losses (B,) times row weights, reduced.

    Args:
        losses: (B,).
        lengths: (B,) int32. Losses of rows of length 0 are not weighted.
        row_weights: (B,), or None.
        reduction: one of `validation.REDUCTIONS`.
    """
    if row_weights is not None:
        weights = tensor_of('row_weights', row_weights)
        check_like('row_weights', weights, 'seq_length', losses.shape)
        losses = ops.select(lengths > 0, losses * weights.astype(ms.float32), losses)
    return tensors.reduce_losses(losses, lengths, reduction)


def with_costs(emissions: Tensor, tags: Tensor, cost: Numbers, num_tags: int, batch_first: bool) -> Tensor:
    """Emissions in float32 plus the cost of each tag, given the correct tag; the layout does not change.

    Args:
        emissions, tags: arguments of the caller; unknown tags have no costs.
        cost: a number, or (K, K) with the correct tag first.
        num_tags: K.
        batch_first: layout of emissions and tags.
    """
    known = prepare_tags(emissions, tags, num_tags, batch_first)         # (L, B)
    cost = tensor_of('cost', cost).astype(ms.float32)
    if len(cost.shape) > 0:
        check_like('cost', cost, 'transitions', (num_tags, num_tags))
    table = ops.broadcast_to(cost, (num_tags, num_tags))
    table = ops.masked_fill(table, ops.eye(num_tags, num_tags, ms.float32) > 0.0, 0.0)
    costs = ops.gather(table, in_range(known, 0, num_tags - 1), 0)
    costs = ops.masked_fill(costs, (known < 0).expand_dims(-1), 0.0)
    return emissions.astype(ms.float32) + tensors.turned(costs, batch_first)


def log_conditionals(emissions: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                     end: Tensor) -> Tensor:
    """log p(tag | known tags before it, emissions) (L, B), computed in the log domain.

    The sum over a row is the log probability of its known tags. Entries are 0 for unknown tags and on padding, about
    -VIOLATION for a forbidden step, and nan for a tag that is not below K.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        tags: (L, B) int32, negative where unknown.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), entry t for the step from position t to t + 1.
        start, end: (K,) float32.
    """
    length, _, num_tags = emissions.shape
    emissions = emissions - tensors.largest_of(emissions)        # smaller numbers, smaller rounding errors
    live = tensors.real(lengths, length)                 # (L, B)
    unknown = (tags < 0).astype(ms.float32).expand_dims(-1)
    free = unknown + mark_tags(ops.minimum(tags, num_tags - 1), num_tags) > 0.0           # (L, B, K)
    padded = log_domain.whole_blocks(length)
    ahead = tensors.pad_time(tensors.restricted(emissions, free, lengths), padded)
    before, after, _ = log_domain.messages(ahead, tensors.pad_time(emissions, padded), lengths, transitions, start, end)
    # Log weight of each tag: the known tags before it, its emission, and everything after it.
    joint = before[:length] + emissions + after[:length]         # (L, B, K)
    joint = joint - tensors.largest_of(joint)
    every = tensors.log(tensors.sum_of(ops.exp(joint)))          # (L, B, 1)
    among = ops.select(free, joint, tensors.MISMATCH * tensors.ones_like(joint))
    largest = tensors.largest_of(among)
    known = tensors.penalized_sums(largest) + tensors.log(tensors.sum_of(ops.exp(among - largest)))
    counted = ops.logical_and(live, tags >= 0)
    result = ops.select(counted, (known - every).squeeze(-1), ops.zeros_like(emissions[:, :, 0]))
    return result + tensors.nan_where(ops.logical_and(live, tags >= num_tags))


def weighted(known: Tensor, tag_weights: Numbers | None, token_weights: Numbers | None, batch_first: bool,
             emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
             void: Tensor) -> Tensor:
    """Losses (B,) of the known tags, where the term of each token is multiplied with its weights.

    Args:
        known: (L, B) int32, negative where unknown.
        tag_weights: (K,), or None.
        token_weights: in the layout of the caller's tags, or None.
        batch_first: layout of the arguments of the caller.
        emissions, lengths, transitions, start, end, void: as `potentials_of` returns them.
    """
    length, batch, num_tags = emissions.shape
    emissions = tensors.clear_padding(emissions, lengths)
    logs = log_conditionals(emissions, known, lengths, transitions, start, end)      # (L, B)
    weights = ops.ones_like(logs)
    if tag_weights is not None:
        of_tags = tensor_of('tag_weights', tag_weights)
        check_like('tag_weights', of_tags, 'start_transitions', start.shape)
        weights = ops.gather(of_tags.astype(ms.float32), in_range(known, 0, start.shape[0] - 1), 0)
    if token_weights is not None:
        of_tokens = tensor_of('token_weights', token_weights)
        shape = (batch, length) if batch_first else (length, batch)
        check_like('token_weights', of_tokens, 'tags', shape)
        of_tokens = tensors.turned(of_tokens.astype(ms.float32), batch_first)
        weights = weights * ops.select(tensors.real(lengths, length), of_tokens, tensors.zeros_like(of_tokens))
    return void - (weights * logs).sum(0)


def expected_score(targets: Tensor, pair_targets: Tensor | None, batch_first: bool, validate: bool, emissions: Tensor,
                   lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, void: Tensor) -> Tensor:
    """Expected score (B,) of a path that is drawn from targets; nan in rows whose targets are not distributions.

    Args:
        targets: in the layout of the caller's emissions.
        pair_targets: in the layout of pair emissions; None if tokens are independent.
        batch_first: layout of the arguments of the caller.
        validate: whether targets that are not distributions raise ValueError in PyNative mode.
        emissions, lengths, transitions, start, end, void: as `potentials_of` returns them; void is not used.
    """
    targets = tensors.turned(targets.astype(ms.float32), batch_first)
    if validate and has_values(targets):
        check_sums_of_targets('targets', targets, lengths)
    targets = tensors.clear_padding(targets, lengths)            # (L, B, K)
    void = _no_distribution(targets, lengths)
    by_step = len(transitions.shape) == 4
    if pair_targets is None:
        pairs = _independent_pairs(targets, by_step)
    else:
        pairs, unfit = _pair_targets(pair_targets, targets, lengths, batch_first)
        void = void + unfit
        if not by_step:
            pairs = pairs.sum(0)
    expected = ops.select(targets > 0.0, tensors.penalized(emissions) * targets, tensors.zeros_like(targets))
    return path_score(expected, lengths, targets, pairs, transitions, start, end) + void


def of_each_path(paths: Tensor, weights: Tensor, emissions: Tensor, seq_length: Tensor | None,
                 pair_emissions: Tensor | None, batch_first: bool) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """A batch with one row for each path: emissions, tags, lengths (B * n,) and pair emissions.

    Args:
        paths: (B, n, L); paths with weight 0 are replaced with tag 0.
        weights: (B, n).
        emissions, seq_length, pair_emissions: arguments of the caller; the layout does not change.
        batch_first: layout of emissions and pair emissions.
    """
    axis = 0 if batch_first else 1
    length, batch = tensors.sizes(emissions, batch_first)
    n = paths.shape[1]
    check_like('paths', paths, 'batch, n and length of emissions', (batch, n, length))
    check_like('weights', weights, 'paths[:, :, 0]', (batch, n))
    lengths = lengths_or_full(emissions, seq_length, batch_first)
    unused = ops.broadcast_to(ops.equal(weights, 0.0).expand_dims(-1), paths.shape)
    tags = ops.select(unused, tensors.zeros_like(paths), paths).reshape(batch * n, length)
    tags = tensors.turned(tags, not batch_first)
    pairs = None if pair_emissions is None else _repeated(pair_emissions, axis, n)
    return _repeated(emissions, axis, n), tags, _repeated(lengths, 0, n), pairs


def weighted_sum(losses: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum (B,) of the losses (B * n,) of the paths of each row; losses with weight 0 are ignored, even nan."""
    losses, weights = losses.reshape(weights.shape), weights.astype(ms.float32)
    return ops.select(ops.equal(weights, 0.0), tensors.zeros_like(losses), losses * weights).sum(1)


def _pair_targets(pair_targets: Tensor, targets: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """Pair targets (L, B, K, K), 0 where no real position follows, and a mark (B,) for invalid rows.

    The mark is nan if pair targets are negative or do not agree with the targets, otherwise 0.
    """
    length, batch, num_tags = targets.shape
    shape = (batch, length - 1) if batch_first else (length - 1, batch)
    check_like('pair_targets', pair_targets, 'the pairs of emissions', (*shape, num_tags, num_tags))
    pair_targets = tensors.turned(pair_targets, batch_first)
    nothing = ops.zeros((1, batch, num_tags, num_tags), ms.float32)
    pairs = nothing
    if length > 1:
        pairs = ops.concat((pair_targets.astype(ms.float32), nothing), 0)
    followed = tensors.continued(lengths, length).expand_dims(-1)             # (L, B, 1)
    pairs = ops.select(followed.expand_dims(-1), pairs, tensors.zeros_like(pairs))
    following = ops.concat((targets[1:], targets[:1]), 0)
    off = ops.maximum(ops.abs(pairs.sum(3) - targets), ops.abs(pairs.sum(2) - following))     # (L, B, K)
    off = ops.select(followed, off, tensors.zeros_like(off)).sum(2) + ops.maximum(-pairs, 0.0).sum((2, 3))
    return pairs, tensors.nan_where(off.sum(0) > TOLERANCE * length)


def _independent_pairs(targets: Tensor, of_steps: bool) -> Tensor:
    """Joint distributions of neighbours whose targets are independent.

    Args:
        targets: (L, B, K), 0 on padding.
        of_steps: True returns (L, B, K, K), one for each step; False returns their sum (B, K, K).
    """
    following = ops.concat((targets[1:], tensors.zeros_like(targets[:1])), 0)     # 0 after the last position
    if of_steps:
        return targets.expand_dims(3) * following.expand_dims(2)
    return ops.bmm(ops.transpose(targets, (1, 2, 0)), ops.transpose(following, (1, 0, 2)))


def _no_distribution(targets: Tensor, lengths: Tensor) -> Tensor:
    """Mark (B,) for invalid rows: nan if a real position has targets that are no distribution, otherwise 0.

    Targets (L, B, K) of a real position must not be negative and must add up to 1, within TOLERANCE.
    """
    sums = tensors.sum_of(targets).squeeze(-1)                   # (L, B)
    fits = ops.logical_and(ops.abs(sums - 1.0) < TOLERANCE, ops.maximum(-targets, 0.0).sum(2) < TOLERANCE)
    wrong = ops.logical_and(tensors.real(lengths, targets.shape[0]), ops.logical_not(fits))
    return tensors.nan_where(wrong).sum(0)


def _repeated(tensor: Tensor, axis: int, n: int) -> Tensor:
    """The tensor with each entry of an axis repeated n times."""
    shape = tensor.shape
    repeated = ops.broadcast_to(tensor.expand_dims(axis + 1), shape[:axis + 1] + (n,) + shape[axis + 1:])
    return repeated.reshape(shape[:axis] + (shape[axis] * n,) + shape[axis + 1:])
