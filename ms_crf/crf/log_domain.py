"""Forward and backward recursion in the log domain: slower, for scores that products can't hold.

Shapes: L length, B batch, K tags; an axis of 2 is the direction, 0 forward, 1 backward in time.
"""

from ms_crf.crf import tensors
from ms_crf.crf.tensors import first_block, largest_of, log, pad_time, put_block, soften, sum_of

import mindspore as ms
from mindspore import Tensor, ops

STEPS = 8  # steps of a block: the buffers are written once a block


def _block(arrived: Tensor, emissions: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """C steps of both directions.

    Args:
        arrived: (2, B, K), log sums of all paths up to each tag, without its own emission.
        emissions: (C, 2, B, K).
        step: (2, 1, K, K), entry (j, i) scores tag j reached from tag i.

    Returns:
        log sums after the block (2, B, K), at each step (C, 2, B, K), and what was taken out of
        them after each step to keep the largest at 0 (C, 2, B, 1).
    """
    history, peaks = [], []
    for emission in ops.unstack(emissions, 0):
        history.append(arrived)
        paths = arrived + emission
        peak = largest_of(paths)                                 # (2, B, 1)
        peaks.append(peak)
        paths = (paths - peak).expand_dims(-2) + step            # (2, B, K, K), entry (j, i): from i to j
        largest = largest_of(paths)                              # (2, B, K, 1)
        arrived = (log(sum_of(ops.exp(paths - largest))) + largest).squeeze(-1)
    shape = emissions.shape
    return (arrived, ops.concat(history, 0).reshape(shape), ops.concat(peaks, 0).reshape(shape[:-1] + (1,)))


def _expected_transitions(left: Tensor, right: Tensor, weight: Tensor, transitions: Tensor) -> Tensor:
    """Expected counts of transitions (B, K, K), block by block: (C, B, K, K) at a time.

    Args:
        left, right: (blocks, C, B, K), log sums of all paths up to each tag, and from each tag at the next position.
        weight: (blocks, C, B, 1), 1 where another real position follows, else 0.
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


def forward_backward(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                     end: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normaliser and posteriors in the log domain.

    Args:
        emissions: (L, B, K) float32, all 0 on padding.
        lengths: (B,) int32.
        transitions, start, end: (K, K), (K,), (K,) float32.

    Returns:
        log normaliser (B,), marginals (L, B, K), expected transition counts (B, K, K), and the log weight of
        each tag with all that may follow it (L, B, K), up to a summand for each position.
    """
    real_length, batch, num_tags = emissions.shape
    blocks = (real_length + STEPS - 1) // STEPS
    length = blocks * STEPS
    emissions = pad_time(emissions, length)
    live = tensors.real(lengths, length).astype(ms.float32).expand_dims(-1)    # (L, B, 1)
    span = ops.maximum(lengths, 1)                               # ReverseSequence takes no 0
    reverse = ops.ReverseSequence(0, 1)
    size = (blocks, STEPS, 2, batch)

    step = ops.concat((ops.transpose(transitions, (1, 0)), transitions), 0).reshape(2, 1, num_tags, num_tags)
    both = ops.concat((emissions, reverse(emissions, span)), 1).reshape(size + (num_tags,))
    arrived = ops.concat((ops.tile(start.expand_dims(0), (batch, 1)), ops.tile(end.expand_dims(0), (batch, 1))),
                         0).reshape(2, batch, num_tags)
    history = ops.zeros(size + (num_tags,), ms.float32)
    peaks = ops.zeros(size + (1,), ms.float32)
    index = first_block()
    while index < blocks:
        arrived, block_history, block_peaks = _block(arrived, ops.gather(both, index, 0), step)
        history = put_block(history, index, block_history)
        peaks = put_block(peaks, index, block_peaks)
        index = index + 1
    sides = ops.Split(1, 2)(history.reshape(length, 2, batch, num_tags))
    peaks = ops.Split(1, 2)(peaks.reshape(length, 2, batch, 1))[0].reshape(length, batch, 1)

    forward = sides[0].reshape(length, batch, num_tags) + emissions
    backward = reverse(sides[1].reshape(length, batch, num_tags), span)
    joint = forward + backward                                   # (L, B, K)
    largest = largest_of(joint)                                  # (L, B, 1)
    share = ops.exp(joint - largest)
    total = sum_of(share)                                        # (L, B, 1)
    marginals = share * (live / total)
    followed = tensors.continued(lengths, length).expand_dims(-1)     # a bool across a loop has no gradient
    parts = ops.select(followed, soften(peaks), soften(largest) + log(total))
    log_normalizer = (parts * live).sum(0).squeeze(-1)                 # (B,)

    left = (forward - peaks).reshape(blocks, STEPS, batch, num_tags)
    onward = emissions + backward                                # (L, B, K)
    right = ops.concat((onward[1:], onward[:1]), 0).reshape(blocks, STEPS, batch, num_tags)
    weight = followed.astype(ms.float32).reshape(blocks, STEPS, batch, 1)
    pairs = _expected_transitions(left, right, weight, transitions)
    return log_normalizer, marginals[:real_length], pairs, onward[:real_length]
