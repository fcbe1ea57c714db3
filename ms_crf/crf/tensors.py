"""Functions that the recursions share: reductions, forbidden scores, padding, and loops over blocks of steps.

On CPU, `ReduceMax`, `ReduceMin` and `ReduceSum` over a short last axis take 4 to 8 times as long as the operators used
here, and `Stack` of two tensors takes ten times as long as `Concat`. An unrolled step costs the compiler 10 ms and some
of its stack; a loop costs 0.1 ms in each iteration (2 cores).
"""

from collections.abc import Sequence

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant

# Score of a forbidden step. It is below every sum of real scores, and sums of powers of two have no rounding errors.
FORBIDDEN = -2.0 ** 100
MISMATCH = -2.0 ** 120    # score of a tag that is not the known tag: below every sum of forbidden steps
VIOLATION = 1e4           # cost of a forbidden step in a loss, small enough to keep the loss readable
LEAST = -2.0 ** 80        # a caller's score below it forbids: sums of 2**19 larger scores are above FORBIDDEN / 2

# Operators, not the Python functions of these names: the compiler of MindSpore 2.10 may lose such functions in a cell
# that has its own `bprop`.
zeros_like, ones_like = ops.ZerosLike(), ops.OnesLike()

_ONE, _multiplied_log = Tensor(1.0, ms.float32), ops.Xlogy()


def forbid(scores: Tensor) -> Tensor:
    """Scores of a caller with FORBIDDEN in place of -inf and of all other scores below LEAST.

    The gradient of such a score is 0. +inf and nan do not change.
    """
    return ops.masked_fill(scores, scores < LEAST, FORBIDDEN)


def penalized(scores: Tensor) -> Tensor:
    """Scores of single tags or steps, with -VIOLATION in place of each forbidden one."""
    return ops.masked_fill(scores, scores < FORBIDDEN / 2, -VIOLATION)


def penalized_sums(scores: Tensor) -> Tensor:
    """Sums of scores, with -VIOLATION in place of each forbidden step in the sum.

    The other scores of a sum with forbidden steps are lost to rounding, and are left out.
    """
    steps = ops.round(scores / FORBIDDEN)
    return ops.select(scores < FORBIDDEN / 2, -VIOLATION * steps, scores)


def log(values: Tensor) -> Tensor:
    """Natural logarithm.

    `ops.log` on CPU has relative errors of up to 2e-5. It also rounds the last one to three numbers of the part of each
    thread differently, and in the first calls of a graph MindSpore tries different numbers of parts.
    """
    return _multiplied_log(_ONE, values)


def largest_of(values: Tensor) -> Tensor:
    """Maximum over the last axis, which is kept with size 1; without gradient."""
    _, largest = ops.ArgMaxWithValue(len(values.shape) - 1, True)(ops.stop_gradient(values))
    return largest


def lowered(emissions: Tensor) -> Tensor:
    """Emissions (..., K) in float32 minus the largest of each position, unless the largest is forbidden."""
    emissions = emissions.astype(ms.float32)
    highest = largest_of(emissions)
    return emissions - ops.select(highest < LEAST, zeros_like(highest), highest)


def smallest_of(values: Tensor) -> Tensor:
    """Minimum of all entries, a scalar; without gradient."""
    _, smallest = ops.ArgMinWithValue(0)(ops.stop_gradient(values).reshape(-1))
    return smallest


def sum_of(values: Tensor) -> Tensor:
    """Sum over the last axis, which is kept with size 1."""
    return ops.matmul(values, ops.ones((values.shape[-1], 1), ms.float32))


@ops.constexpr
def _constant_positions(first: int, count: int) -> Tensor:
    return Tensor(np.arange(first, first + count, dtype=np.int32).reshape(count, 1))


def _positions(first: int, count: int) -> Tensor:
    """first, first + 1, ... as (count, 1); a constant if the compiler knows the count."""
    if isconstant(count):
        return _constant_positions(first, count)
    return ops.arange(first, first + count, 1, dtype=ms.int32).expand_dims(1)


def real(lengths: Tensor, length: int) -> Tensor:
    """Mark of real positions: (length, batch) bool."""
    return _positions(0, length) < lengths


def continued(lengths: Tensor, length: int) -> Tensor:
    """Mark of positions that another real position follows: (length, batch) bool."""
    return _positions(1, length) < lengths


def turned(values: Tensor, batch_first: bool = True) -> Tensor:
    """Values with the first two axes swapped if batch_first, otherwise unchanged."""
    if not batch_first:
        return values
    return ops.transpose(values, (1, 0, 2, 3)[:len(values.shape)])


def sizes(values: Tensor, batch_first: bool) -> tuple[int, int]:
    """Padded length and batch size: the first two axes, in this order or, with batch_first, in the other order."""
    if batch_first:
        return values.shape[1], values.shape[0]
    return values.shape[0], values.shape[1]


def at_last(values: Tensor, lengths: Tensor) -> Tensor:
    """Values (B, K) at the last real position of each row of (L, B, K); 0 for rows of length 0."""
    _, batch, width = values.shape
    index = ops.broadcast_to(ops.maximum(lengths - 1, 0).reshape(1, batch, 1), (1, batch, width))
    last = ops.gather_elements(values, 0, index).squeeze(0)             # (B, K)
    return ops.select((lengths > 0).expand_dims(-1), last, zeros_like(last))


def clear_padding(values: Tensor, lengths: Tensor) -> Tensor:
    """Values (L, B, K) with 0 on padding, also in place of nan."""
    return ops.select(real(lengths, values.shape[0]).expand_dims(-1), values, zeros_like(values))


def restricted(emissions: Tensor, free: Tensor, lengths: Tensor) -> Tensor:
    """Emissions (L, B, K) with MISMATCH for all tags that are not free, and 0 on padding; `free` is bool."""
    return clear_padding(ops.select(free, emissions, MISMATCH * ones_like(emissions)), lengths)


def nan_where(wrong: Tensor) -> Tensor:
    """nan where `wrong` (bool) holds, otherwise 0, in float32. Adding 0 does not change the bits of a value."""
    return ops.masked_fill(zeros_like(wrong.astype(ms.float32)), wrong, float('nan'))


def nan_in_rows(emissions: Tensor, lengths: Tensor) -> Tensor:
    """Mark (B,), without gradient: nan if a real position of emissions (L, B, K) has nan or +inf, otherwise 0."""
    length, _, num_tags = emissions.shape
    sums = ops.matmul(ops.stop_gradient(emissions), ops.zeros((num_tags, 1), ms.float32))   # (L, B, 1)
    return clear_padding(sums, lengths).sum(0)[:, 0]


def nan_in_scores(transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Mark, without gradient: nan if transitions, start or end have nan or +inf, otherwise 0.

    Args:
        transitions: (K, K); or (L, B, K, K), 0 on padding.
        start, end: (K,).

    Returns:
        A scalar; for transitions (L, B, K, K) one entry for each row (B,).
    """
    nothing = ops.stop_gradient(transitions + start + end) * 0.0
    return nothing.sum((0, 2, 3)) if len(transitions.shape) == 4 else nothing.sum()


def reduce_losses(losses: Tensor, lengths: Tensor, reduction: str) -> Tensor:
    """Losses of rows (batch,), reduced: 'none', 'sum', 'mean' over rows that are not empty, or 'token_mean'."""
    if reduction == 'none':
        return losses
    if reduction == 'sum':
        return losses.sum()
    counted = ops.minimum(lengths, 1) if reduction == 'mean' else lengths
    return losses.sum() / ops.maximum(counted.astype(ms.float32).sum(), 1.0)


BLOCK = 64        # number of steps in a block of a loop
SMALL_BLOCK = 8   # the same for an unknown number of steps, small because the last block may be padded


def is_fixed(tensor: Tensor) -> bool:
    """Whether the compiler knows the first two axes of a tensor; for dynamic shapes it does not."""
    return isconstant(tensor.shape[0]) and isconstant(tensor.shape[1])


def split_length(steps: int, unrolled: int = BLOCK) -> tuple[int, int]:
    """Number of blocks, and the even number of steps in each, so that blocks * size >= steps.

    There is one block up to `unrolled` steps.
    """
    if isconstant(steps):
        return _split_constant(steps, unrolled)
    return (steps + SMALL_BLOCK - 1) // SMALL_BLOCK, SMALL_BLOCK


@ops.constexpr
def _split_constant(steps: int, unrolled: int) -> tuple[int, int]:
    if steps <= unrolled:
        return 1, max(2, steps + steps % 2)
    return (steps + BLOCK - 1) // BLOCK, BLOCK


def pad_time(tensor: Tensor, steps: int) -> Tensor:
    """The tensor with zeros after the end of its first axis, up to `steps` entries."""
    missing = steps - tensor.shape[0]
    if isconstant(missing) and missing == 0:
        return tensor
    return ops.concat((tensor, ops.zeros((missing,) + tensor.shape[1:], tensor.dtype)), 0)


def put_block(buffer: Tensor, index: Tensor, block: Tensor) -> Tensor:
    """The buffer (blocks, ...) with `block` at `index`, a scalar tensor."""
    return ops.tensor_scatter_update(buffer, index.reshape(1, 1), block.expand_dims(0))


def steps_of_block(steps: Tensor, axes: int, index: Tensor, size: int) -> Sequence[Tensor]:
    """Scores of the steps of one block, as a sequence of tensors.

    Args:
        steps: (blocks, C, ...) with `axes` axes, the scores of all blocks. With fewer axes, the scores of every step.
        axes: number of axes, an int.
        index: index of the block, a scalar tensor.
        size: C.
    """
    if len(steps.shape) < axes:
        return [steps for _ in range(size)]
    return ops.unstack(ops.gather(steps, index, 0), 0)


def first_block() -> Tensor:
    """Counter of a loop: a tensor, so that the graph keeps the loop instead of unrolling it."""
    return Tensor(0, ms.int32)
