"""Forward and backward recursion in the log domain: slower than scaled products, but correct for all scores.

Shapes: L length, B batch, K tags; an axis of size 2 is the direction, 0 forward, 1 backward in time.
"""

from collections.abc import Sequence

from ms_crf.crf import tensors
from ms_crf.crf.tensors import first_block, largest_of, log, pad_time, penalized_sums, put_block, steps_of_block, sum_of

import mindspore as ms
from mindspore import Tensor, ops

STEPS = 8  # number of steps in a block; buffers are written once in each block


def _block(arrived: Tensor, emissions: Tensor, steps: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """C steps in both directions.

    Args:
        arrived: (2, B, K), log sums of all paths to each tag, without the emission of the tag.
        emissions: (C, 2, B, K).
        steps: C tensors (2, 1, K, K) or (2, B, K, K); entry (j, i) is the score of the step from tag i to tag j.

    Returns:
        Log sums after the block (2, B, K); log sums at each step (C, 2, B, K); and the numbers (C, 2, B, 1) that were
        subtracted after each step to keep the largest log sum at 0.
    """
    history, peaks = [], []
    of_positions = ops.unstack(emissions, 0)
    for index in range(STEPS):                                   # MindSpore 2.10 may lose `zip` in a `bprop`
        history.append(arrived)
        paths = arrived + of_positions[index]
        peak = largest_of(paths)                                 # (2, B, 1)
        peaks.append(peak)
        paths = (paths - peak).expand_dims(-2) + steps[index]    # (2, B, K, K), entry (j, i): from i to j
        largest = largest_of(paths)                              # (2, B, K, 1)
        arrived = (log(sum_of(ops.exp(paths - largest))) + largest).squeeze(-1)
    shape = emissions.shape
    return (arrived, ops.concat(history, 0).reshape(shape), ops.concat(peaks, 0).reshape(shape[:-1] + (1,)))


def _expected_transitions(left: Tensor, right: Tensor, weight: Tensor, transitions: Tensor) -> Tensor:
    """Expected counts of transitions (B, K, K), computed in blocks of (C, B, K, K).

    Args:
        left: (blocks, C, B, K), log sums of all paths to each tag.
        right: (blocks, C, B, K), log sums of all paths from each tag at the next position.
        weight: (blocks, C, B, 1), 1 where another real position follows, otherwise 0.
        transitions: (K, K).
    """
    blocks, _, batch, num_tags = left.shape
    pairs = ops.zeros((batch, num_tags * num_tags), ms.float32)
    index = first_block()
    while index < blocks:
        paths = (ops.gather(left, index, 0).expand_dims(-1) + transitions
                 + ops.gather(right, index, 0).expand_dims(-2))  # (C, B, K, K)
        paths = paths.reshape(STEPS, batch, num_tags * num_tags)
        paths = ops.exp(paths - largest_of(paths))
        pairs = pairs + (paths * (ops.gather(weight, index, 0) / sum_of(paths))).sum(0)
        index = index + 1
    return pairs.reshape(batch, num_tags, num_tags)


def _posteriors_of_pairs(left: Tensor, right: Tensor, weight: Tensor, transitions: Tensor) -> Tensor:
    """Posterior (L, B, K, K) of each tag pair, 0 where the weight is 0.

    Args:
        left: (L, B, K), log sums of all paths to each tag.
        right: (L, B, K), log sums of all paths from each tag at the next position.
        weight: (L, B, 1), 1 where another real position follows, otherwise 0.
        transitions: (L, B, K, K).
    """
    length, batch, num_tags = left.shape
    paths = left.expand_dims(-1) + transitions + right.expand_dims(-2)
    paths = paths.reshape(length, batch, num_tags * num_tags)
    paths = ops.exp(paths - largest_of(paths))
    return (paths * (weight / sum_of(paths))).reshape(length, batch, num_tags, num_tags)


def _pairs(left: Tensor, right: Tensor, weight: Tensor, transitions: Tensor) -> Tensor:
    """Expected transition counts (B, K, K), or for transitions of each step the posteriors of tag pairs.

    Args:
        left, right: (L, B, K), as in `_posteriors_of_pairs`; L is a multiple of STEPS.
        weight: (L, B, 1).
        transitions: (K, K), or (L', B, K, K) with the real length L'; the result is (L', B, K, K) then.
    """
    length, batch, num_tags = left.shape
    if len(transitions.shape) == 4:
        real = transitions.shape[0]
        return _posteriors_of_pairs(left[:real], right[:real], weight[:real], transitions)
    size = (length // STEPS, STEPS, batch)
    return _expected_transitions(left.reshape(size + (num_tags,)), right.reshape(size + (num_tags,)),
                                 weight.reshape(size + (1,)), transitions)


def _steps_of_both(transitions: Tensor, lengths: Tensor, length: int) -> Tensor:
    """Transitions in blocks for both directions, (blocks, C, 2, B, K, K); entry (j, i) is for the step from i to j.

    Args:
        transitions: (L, B, K, K), entry t for the step from position t to t + 1.
        lengths: (B,).
        length: a multiple of C, to which the transitions are padded.
    """
    transitions = pad_time(transitions, length)
    _, batch, num_tags, _ = transitions.shape
    flat = transitions.reshape(length, batch, num_tags * num_tags)
    back = ops.ReverseSequence(0, 1)(flat, ops.maximum(lengths - 1, 1)).reshape(length, 1, batch, num_tags, num_tags)
    both = ops.concat((ops.transpose(transitions, (0, 1, 3, 2)).expand_dims(1), back), 1)
    return both.reshape(length // STEPS, STEPS, 2, batch, num_tags, num_tags)


def messages(ahead: Tensor, back: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
             end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Forward and backward messages: log sums over all partial paths, except for a constant of each position.

    Args:
        ahead: emissions (L, B, K) for the forward recursion; L is a multiple of STEPS; 0 on padding.
        back: emissions (L, B, K) for the backward recursion, with the same properties.
        lengths, transitions, start, end: as in `forward_backward`.

    Returns:
        Log sums over all paths before each tag (L, B, K), without the emission of the tag; log sums over all paths
        after each tag (L, B, K); and the numbers (L, B, 1) that were subtracted from the forward sums at each step.
    """
    length, batch, _ = ahead.shape
    num_tags = start.shape[0]                                    # start has a fixed shape even if emissions have not
    blocks = length // STEPS
    span = ops.maximum(lengths, 1)                               # ReverseSequence does not accept 0
    reverse = ops.ReverseSequence(0, 1)
    size = (blocks, STEPS, 2, batch)
    if len(transitions.shape) == 2:
        steps = ops.concat((ops.transpose(transitions, (1, 0)), transitions), 0).reshape(2, 1, num_tags, num_tags)
    else:
        steps = _steps_of_both(transitions, lengths, length)
    both = ops.concat((ahead, reverse(back, span)), 1).reshape(size + (num_tags,))
    arrived = ops.concat((ops.tile(start.expand_dims(0), (batch, 1)), ops.tile(end.expand_dims(0), (batch, 1))),
                         0).reshape(2, batch, num_tags)
    history = ops.zeros(size + (num_tags,), ms.float32)
    peaks = ops.zeros(size + (1,), ms.float32)
    index = first_block()
    while index < blocks:
        of_block = steps_of_block(steps, 6, index, STEPS)
        arrived, block_history, block_peaks = _block(arrived, ops.gather(both, index, 0), of_block)
        history = put_block(history, index, block_history)
        peaks = put_block(peaks, index, block_peaks)
        index = index + 1
    sides = ops.Split(1, 2)(history.reshape(length, 2, batch, num_tags))
    peaks = ops.Split(1, 2)(peaks.reshape(length, 2, batch, 1))[0].reshape(length, batch, 1)
    shape = (length, batch, num_tags)
    return sides[0].reshape(shape), reverse(sides[1].reshape(shape), span), peaks


def whole_blocks(length: int) -> int:
    """The length rounded up to a multiple of STEPS."""
    return (length + STEPS - 1) // STEPS * STEPS


def forward_backward(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                     end: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log partition function and posteriors in the log domain.

    Args:
        emissions: (L, B, K) float32, all 0 on padding.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), entry t for the step from position t to t + 1.
        start, end: (K,) float32.

    Returns:
        log_normalizer: (B,).
        marginals: (L, B, K).
        pairs: expected transition counts (B, K, K). For transitions of each step, the posterior of each tag pair
            (L, B, K, K), 0 where no real position follows.
        onward: (L, B, K), the log weight of each tag together with everything after it, except for a constant of each
            position.
    """
    real_length = emissions.shape[0]
    length = whole_blocks(real_length)
    emissions = pad_time(emissions, length)
    live = tensors.real(lengths, length).astype(ms.float32).expand_dims(-1)    # (L, B, 1)
    forward, backward, peaks = messages(emissions, emissions, lengths, transitions, start, end)
    forward = forward + emissions
    joint = forward + backward                                   # (L, B, K)
    largest = largest_of(joint)                                  # (L, B, 1)
    share = ops.exp(joint - largest)
    total = sum_of(share)                                        # (L, B, 1)
    marginals = share * (live / total)
    # After the loop in `messages`: a bool that is used before and after a loop has no gradient.
    followed = tensors.continued(lengths, length).expand_dims(-1)
    parts = ops.select(followed, penalized_sums(peaks), penalized_sums(largest) + log(total))
    log_normalizer = (parts * live).sum(0).squeeze(-1)                 # (B,)

    onward = emissions + backward                                # (L, B, K)
    pairs = _pairs(forward - peaks, ops.concat((onward[1:], onward[:1]), 0), followed.astype(ms.float32), transitions)
    return log_normalizer, marginals[:real_length], pairs, onward[:real_length]
