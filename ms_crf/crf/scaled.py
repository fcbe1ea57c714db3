"""Forward and backward recursion in one pass of scaled products: fast, and with a flag that reports underflow.

Shapes: L length, B batch, K tags; an axis of size 2 is the direction, 0 forward, 1 backward in time.
"""

from ms_crf.crf import tensors

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant

# A sum of products below this number may have lost terms to underflow. A lost term is smaller than 1.2e-38, so sums
# above this number have lost less than K * 1e-8 of their value.
SMALLEST = 1e-30


def _block(arrived: Tensor, potentials: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the forward and backward sums of a block of C steps.

    The sum of a tag contains all paths that lead to the tag, without the potential of the tag itself. After every
    second step the sums of a row are scaled to total 1: float32 has the range for two steps, and scaling each step
    would cost twice as much.

    Args:
        arrived: (2, B, K).
        potentials: (C, 2, B, K), C even.
        step: (2, K, K).

    Returns:
        Sums after the block (2, B, K), sums at each step (C, 2, B, K), and the scales (C/2, 2, B, 1).
    """
    row_sum = ops.ReduceSum(True)
    divide = ops.DivNoNan()                                      # 0 / 0 is 0, without nan in gradients
    history, scales = [], []
    for potential in ops.unstack(potentials, 0):
        history.append(arrived)
        product = arrived * potential                            # (2, B, K)
        if len(history) % 2 == 0:
            scale = row_sum(product, -1)                         # (2, B, 1)
            scales.append(scale)
            product = divide(product, scale)
        arrived = ops.bmm(product, step)                         # (2, B, K)
    shape = potentials.shape
    return (arrived, ops.concat(history, 0).reshape(shape),
            ops.concat(scales, 0).reshape(shape[0] // 2, 2, shape[2], 1))


def _recursion(arrived: Tensor, potentials: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Runs `_block` over whole blocks; returns the sums (L, 2, B, K) and the scales (L/2, 2, B, 1) of all steps."""
    length, _, batch, num_tags = potentials.shape
    blocks, size = tensors.split_length(length)
    if isconstant(blocks) and blocks == 1:
        _, history, scales = _block(arrived, potentials, step)
        return history, scales
    potentials = potentials.reshape(blocks, size, 2, batch, num_tags)
    history = tensors.zeros_like(potentials)
    scales = ops.zeros((blocks, size // 2, 2, batch, 1), ms.float32)
    index = tensors.first_block()
    while index < blocks:
        arrived, block_history, block_scales = _block(arrived, ops.gather(potentials, index, 0), step)
        history = tensors.put_block(history, index, block_history)
        scales = tensors.put_block(scales, index, block_scales)
        index = index + 1
    return history.reshape(length, 2, batch, num_tags), scales.reshape(length // 2, 2, batch, 1)


def _scale_of_positions(scales: Tensor, length: int, batch: int) -> Tensor:
    """Scales (L, B, 1) of all positions: 1 at even positions, the entries of scales (L/2, 1, B, 1) at odd ones."""
    scale = scales.reshape(length // 2, 1, batch, 1)
    scale = ops.select(scale > 0.0, scale, tensors.ones_like(scale))
    return ops.concat((tensors.ones_like(scale), scale), 1).reshape(length, batch, 1)


def _is_reliable(history: Tensor, sums: Tensor, top: Tensor, usable: Tensor | None) -> Tensor:
    """Whether no relevant sum of products is so small that it may have lost terms: a scalar bool.

    Args:
        history: (L, 2, B, K), sums that arrive at each tag.
        sums: (L, B, 1), over all paths; 1 on padding.
        top: (1,), the largest of transitions, start and end.
        usable: as in `forward_backward`.
    """
    # The smallest sum that arrives at each tag. At the first position there are no sums, so nothing can be lost.
    _, arriving = ops.ArgMinWithValue(0)(ops.stop_gradient(history[1:]).reshape(-1, history.shape[3]))   # (K,)
    if usable is not None:
        arriving = ops.select(usable, arriving, tensors.ones_like(arriving))
    reliable = ops.minimum(tensors.smallest_of(arriving), tensors.smallest_of(sums)) >= SMALLEST
    return ops.logical_and(reliable, top.reshape(()) > tensors.LEAST)     # otherwise everything is forbidden


def forward_backward(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
                     usable: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log partition function and posteriors by scaled products.

    Args:
        emissions: (L, B, K) float32; the largest of each position is 0; all 0 on padding.
        lengths: (B,) int32.
        transitions, start, end: (K, K), (K,), (K,) float32; entry (i, j) scores tag j after tag i.
        usable: (K,) bool, True for tags that occur in some allowed path; None if all tags do.

    Returns:
        log_normalizer: (B,).
        marginals: (L, B, K).
        pairs: expected transition counts (B, K, K).
        onward: (L, B, K), the weight of each tag together with everything after it, except for a factor of each
            position.
        reliable: a scalar bool, whether float32 could represent every relevant term. If False, the other results are
            invalid.
    """
    real_length, batch, num_tags = emissions.shape
    blocks, size = tensors.split_length(real_length)
    length = blocks * size
    emissions = tensors.pad_time(emissions, length)
    real = tensors.real(lengths, length).expand_dims(-1)                       # (L, B, 1)
    live = real.astype(ms.float32)
    followed = tensors.continued(lengths, length).expand_dims(-1)              # (L, B, 1)
    span = ops.maximum(lengths, 1)                               # ReverseSequence does not accept 0
    reverse = ops.ReverseSequence(0, 1)

    # The largest score is subtracted, so that all factors are at most 1.
    table = ops.concat((transitions, start.expand_dims(0), end.expand_dims(0)), 0)     # (K + 2, K)
    top = tensors.largest_of(table.reshape(-1))                  # (1,)
    factors = ops.exp(table - top)
    step = factors[:num_tags]                                    # (K, K)
    steps = ops.concat((step, ops.transpose(step, (1, 0))), 0).reshape(2, num_tags, num_tags)
    arrived = ops.broadcast_to(factors[num_tags:].expand_dims(1), (2, batch, num_tags))
    potentials = ops.exp(emissions)                              # (L, B, K)
    both = ops.concat((potentials, reverse(potentials, span)), 1).reshape(length, 2, batch, num_tags)
    history, scales = _recursion(arrived, both, steps)

    sides = ops.Split(1, 2)(history)
    forward = sides[0].reshape(length, batch, num_tags) * potentials
    backward = reverse(sides[1].reshape(length, batch, num_tags), span)
    joint = forward * backward                                   # (L, B, K)
    sums = tensors.sum_of(joint)                                 # (L, B, 1)
    total = ops.select(sums > 0.0, sums, tensors.ones_like(sums))  # keeps invalid results finite

    scale = _scale_of_positions(ops.Split(1, 2)(scales)[0], length, batch)
    logs = ((tensors.log(ops.select(followed, scale, total)) + top) * live).sum(0).squeeze(-1)  # (B,)
    log_normalizer = logs + top * ops.minimum(lengths, 1).astype(ms.float32)

    weight = live / total                                        # (L, B, 1)
    marginals = joint * weight

    # pairs of t: forward[t](i) / scale[t] * step(i, j) * (potentials * backward)[t + 1](j) / total[t + 1]
    left = forward[:-1] / scale[:-1] * weight[1:]                # (L-1, B, K)
    onward = potentials * backward                               # (L, B, K)
    pairs = ops.bmm(ops.transpose(left, (1, 2, 0)), ops.transpose(onward[1:], (1, 0, 2))) * step   # (B, K, K)
    reliable = _is_reliable(history, ops.select(real, sums, tensors.ones_like(sums)), top, usable)
    return log_normalizer, marginals[:real_length], pairs, onward[:real_length], reliable
