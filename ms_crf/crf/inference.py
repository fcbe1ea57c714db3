"""Log partition function, loss and posteriors of a chain: by scaled products, or in the log domain where they
underflow.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import log_domain, scaled, tensors
from ms_crf.crf.tensors import largest_of, log, ones_like, penalized, smallest_of, sum_of, zeros_like

import mindspore as ms
from mindspore import Tensor, ops

SMALLEST_FLOAT = 1e-37    # its logarithm is finite on every device


def posteriors(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
               usable: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Log partition function, marginals, and expected transitions.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        lengths: (B,) int32.
        transitions: (K, K) float32, entry (i, j) scores tag j after tag i; or (L, B, K, K), entry t for the step from
            position t to t + 1, 0 on padding. With (L, B, K, K) everything is computed in the log domain.
        start, end: (K,) float32.
        usable: (K,) bool, True for tags that occur in some allowed path; None if all tags do.

    Returns:
        Log partition function (B,), marginals (L, B, K) and expected transition counts (B, K, K). With transitions
        (L, B, K, K), the last result is the posterior of each tag pair (L, B, K, K), 0 where no real position follows.
    """
    peaks = largest_of(emissions)                                # (L, B, 1)
    lowered = emissions - peaks
    if len(transitions.shape) == 4:
        log_normalizer, marginals, pairs, _ = log_domain.forward_backward(lowered, lengths, transitions, start, end)
    else:
        log_normalizer, marginals, pairs, _, reliable = scaled.forward_backward(
            lowered, lengths, transitions, start, end, usable)
        if not reliable:
            log_normalizer, marginals, pairs, _ = log_domain.forward_backward(lowered, lengths, transitions, start, end)
    value = log_normalizer + penalized(peaks).sum(0).squeeze(-1)
    # select removes nan in rows of length 0
    return ops.select(lengths > 0, value, zeros_like(value)), marginals, pairs


def posteriors_of_path(paths: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                       end: Tensor, usable: Tensor | None, by_logarithms: bool = False) -> tuple[Tensor, Tensor]:
    """Posteriors of the tags of a path, and posteriors of all tags given the previous tag of the path.

    Args:
        paths: (L, B) int32.
        emissions, lengths, transitions, start, end, usable: as in `posteriors`.
        by_logarithms: whether to compute everything in the log domain.

    Returns:
        Posterior of each tag of the path (L, B), and posterior of every tag at a position given the tag of the path at
        the previous position (L, B, K). Both are 0 on padding.
    """
    lowered = emissions - largest_of(emissions)
    if by_logarithms or len(transitions.shape) == 4:
        _, marginals, _, onward = log_domain.forward_backward(lowered, lengths, transitions, start, end)
    else:
        _, marginals, _, weights, reliable = scaled.forward_backward(lowered, lengths, transitions, start, end, usable)
        onward = log(ops.maximum(weights, SMALLEST_FLOAT))
        if not reliable:
            _, marginals, _, onward = log_domain.forward_backward(lowered, lengths, transitions, start, end)
    if len(transitions.shape) == 4:
        before = ops.broadcast_to(paths.expand_dims(2).expand_dims(3), transitions[:, :, :1].shape)
        steps = ops.gather_elements(transitions, 2, before).squeeze(2)           # (L, B, K), from the tag of the path
    else:
        steps = ops.gather(transitions, paths, 0)
    first = ops.broadcast_to(start, emissions[:1].shape)
    steps = ops.concat((first, steps), 0)[:-1]                   # from the previous tag of the path
    conditional = tensors.clear_padding(ops.softmax(steps + onward, 2), lengths)
    marginals = tensors.clear_padding(marginals, lengths)        # nan scores also make padding nan
    return ops.gather_elements(marginals, 2, paths.expand_dims(2)).squeeze(2), conditional


def mark_tags(tags: Tensor, num_tags: int) -> Tensor:
    """Tags (L, B) as a one-hot tensor (L, B, K) float32; a negative tag marks nothing."""
    return ops.equal(tags.expand_dims(-1), ops.arange(num_tags).astype(ms.int32)).astype(ms.float32)


def count_transitions(tags: Tensor, lengths: Tensor, num_tags: int) -> Tensor:
    """Number of times that tag j follows tag i in each row, (B, K, K) float32.

    Args:
        tags: (L, B) int32, negative where unknown. Steps from or to unknown tags are not counted.
        lengths: (B,) int32.
        num_tags: K.
    """
    length, batch = tags.shape
    following = tags                                             # (L, B)
    if length > 1:
        following = ops.concat((tags[1:], tags[:1]), 0)
    counted = ops.logical_and(tensors.continued(lengths, length), ops.minimum(tags, following) >= 0)
    rows = ops.arange(batch).astype(ms.int32) * num_tags * num_tags
    uncounted = batch * num_tags * num_tags
    segments = ops.select(counted, rows + tags * num_tags + following, uncounted * ones_like(tags))
    counts = ops.unsorted_segment_sum(counted.astype(ms.float32).reshape(-1), segments.reshape(-1), uncounted + 1)
    return counts[:uncounted].reshape(batch, num_tags, num_tags)


def path_score(emissions: Tensor, lengths: Tensor, marked: Tensor, counts: Tensor, transitions: Tensor, start: Tensor,
               end: Tensor) -> Tensor:
    """Score (B,) of the marked path; each forbidden tag or step costs VIOLATION.

    Args:
        emissions: (L, B, K).
        lengths: (B,).
        marked: (L, B, K), 1 at the tags of the path.
        counts: (B, K, K), number of times each transition occurs. With transitions of each step, (L, B, K, K): 1
            for the transition of the path.
        transitions: (K, K), or (L, B, K, K).
        start, end: (K,).
    """
    _, batch, num_tags = emissions.shape
    emissions, transitions, start, end = penalized(emissions), penalized(transitions), penalized(start), penalized(end)
    on_path = ops.select(marked > 0.0, emissions, zeros_like(emissions))     # other entries may be nan
    at_tags = on_path.sum(0) + marked[:1].squeeze(0) * start + tensors.at_last(marked, lengths) * end   # (B, K)
    if len(transitions.shape) == 4:
        between = (counts * transitions).sum(0).reshape(batch, num_tags * num_tags)
    else:
        between = counts.reshape(batch, -1) * transitions.reshape(-1)
    return sum_of(ops.concat((at_tags, between), 1))[:, 0]


def _known_tags(tags: Tensor, live: Tensor, num_tags: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The known tags, in forms that `losses` needs.

    Args:
        tags: (L, B) int32, negative where unknown.
        live: (L, B) bool, True on real positions.
        num_tags: K.

    Returns:
        Tags (L, B) below num_tags; the known tags as `mark_tags` returns them; the lowest tag of all real positions, a
        scalar; and (B,), nan for rows with a real tag that is not below num_tags, otherwise 0.
    """
    real_tags = ops.select(live, tags, zeros_like(tags)).reshape(-1).astype(ms.float32)
    lowest = smallest_of(real_tags)
    impossible = tensors.nan_where(ops.logical_and(live, tags >= num_tags)).sum(0)
    tags = ops.minimum(tags, num_tags - 1)                       # operators get valid tags only
    return tags, mark_tags(ops.select(live, tags, -ones_like(tags)), num_tags), lowest, impossible


def losses(emissions: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
           usable: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Negative log probability of the known tags, with its gradient.

    The loss is the log partition function of all paths minus the log partition function of the paths through the known
    tags. The gradient is the posteriors of all paths minus the posteriors of the paths through the known tags. Where
    every tag is known, the latter posteriors are plain counts.

    Args:
        emissions, lengths, transitions, start, end, usable: as in `posteriors`.
        tags: (L, B) int32, negative where unknown.

    Returns:
        Loss (B,), nan if a tag is not below K; its gradient by emissions (L, B, K); its gradient by transitions (B, K,
        K), or (L, B, K, K) for transitions of each step.
    """
    length, batch, num_tags = emissions.shape
    by_step = len(transitions.shape) == 4
    emissions = emissions - largest_of(emissions)                # the same from both terms, for smaller rounding errors
    live = tensors.real(lengths, length)                         # (L, B)
    tags, marked, lowest, impossible = _known_tags(tags, live, num_tags)
    if by_step:
        every, marginals, pairs, _ = log_domain.forward_backward(emissions, lengths, transitions, start, end)
        following = ops.concat((marked[1:], zeros_like(marked[:1])), 0)
        counts = marked.expand_dims(3) * following.expand_dims(2)             # (L, B, K, K)
        repeated = lowest < 0.0
    else:
        every, marginals, pairs, _, reliable = scaled.forward_backward(emissions, lengths, transitions, start, end,
                                                                       usable)
        counts = count_transitions(tags, lengths, num_tags)      # (B, K, K)
        repeated = ops.logical_or(lowest < 0.0, ops.logical_not(reliable))
    known = path_score(emissions, lengths, marked, counts, transitions, start, end)
    if repeated:
        unknown = ops.logical_and(live, tags < 0).astype(ms.float32)         # (L, B)
        free = ops.logical_or(unknown.expand_dims(-1) > 0.0, marked > 0.0)
        restricted = tensors.restricted(emissions, free, lengths)
        if by_step:
            value, by_tag, by_pair, _ = log_domain.forward_backward(restricted, lengths, transitions, start, end)
        else:
            # One batch in the log domain: first all paths, then the paths through the known tags.
            value, by_tag, by_pair, _ = log_domain.forward_backward(
                ops.concat((emissions, restricted), 1), ops.concat((lengths, lengths), 0), transitions, start, end)
            every, marginals, pairs = value[:batch], by_tag[:, :batch], by_pair[:batch]
            value, by_tag, by_pair = value[batch:], by_tag[:, batch:], by_pair[batch:]
        rows = (unknown.sum(0) > 0.0).expand_dims(-1)            # (B, 1), rows with unknown tags
        known = ops.select(rows[:, 0], value, known)
        marked = ops.select(ops.broadcast_to(rows, marked.shape), by_tag, marked)
        counts = ops.select(ops.broadcast_to(rows.expand_dims(-1), counts.shape), by_pair, counts)
    value = ops.select(lengths > 0, every - known + impossible, zeros_like(every))
    return value, marginals - marked, pairs - counts


def pack(value: Tensor, by_emissions: Tensor, by_transitions: Tensor, lengths: Tensor) -> Tensor:
    """A value and its gradients as one tensor (2 + L + K, B, K); for transitions of each step (2 + L + L * K, B, K).

    Row 0 is the value, repeated for all tags. The gradients by end scores, emissions and transitions follow.

    Args:
        value: (B,).
        by_emissions: (L, B, K).
        by_transitions: (B, K, K), or (L, B, K, K).
        lengths: (B,).
    """
    _, batch, num_tags = by_emissions.shape
    value = ops.broadcast_to(value.reshape(1, batch, 1), (1, batch, num_tags))
    by_end = tensors.at_last(by_emissions, lengths).expand_dims(0)
    return ops.concat((value, by_end, by_emissions, by_transitions.reshape(-1, batch, num_tags)), 0)
