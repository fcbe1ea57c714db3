"""What the recursions share: reductions over scores and what is forbidden, rows and their padding, time in blocks.

On CPU, `ReduceMax`, `ReduceMin` and `ReduceSum` over a short last axis take 4 to 8 times as long as the operators used
here, and `Stack` of two tensors ten times as long as `Concat`. An unrolled step costs the compiler 10 ms and some of
its stack, a loop costs the run 0.1 ms a turn (2 cores).
"""

from collections.abc import Sequence

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant

FORBIDDEN = -2.0 ** 100   # a step that constraints forbid: outweighs any sum of real scores, and powers of
MISMATCH = -2.0 ** 120    # two add up without rounding; a tag other than the known one: outweighs many such steps
VIOLATION = 1e4           # what a forbidden step costs in a loss, where it has to stay readable
LEAST = -2.0 ** 80        # a caller's score below it forbids: sums of 2**19 others stay above FORBIDDEN / 2

# As operators: the compiler of MindSpore 2.10 may lose the functions of these names, which are written in
# Python, inside a cell that has its own `bprop`.
zeros_like, ones_like = ops.ZerosLike(), ops.OnesLike()

_ONE, _multiplied_log = Tensor(1.0, ms.float32), ops.Xlogy()


def forbid(scores: Tensor) -> Tensor:
    """A caller's scores in which -inf, and whatever else is below LEAST, is FORBIDDEN and has a gradient of 0.

    +inf and nan stay.
    """
    return ops.masked_fill(scores, scores < LEAST, FORBIDDEN)


def price(scores: Tensor) -> Tensor:
    """Scores of single steps in which a forbidden one costs VIOLATION."""
    return ops.masked_fill(scores, scores < FORBIDDEN / 2, -VIOLATION)


def soften(scores: Tensor) -> Tensor:
    """Sums of scores in which each forbidden step costs VIOLATION; what it hid by rounding stays out."""
    steps = ops.round(scores / FORBIDDEN)
    return ops.select(scores < FORBIDDEN / 2, -VIOLATION * steps, scores)


def log(values: Tensor) -> Tensor:
    """Natural logarithm.

    `ops.log` on CPU is off by up to 2e-5 relative, and rounds the last one to three numbers of each thread's part in
    another way than the rest, while MindSpore tries at a graph's first calls which division into parts is fastest.
    """
    return _multiplied_log(_ONE, values)


def largest_of(values: Tensor) -> Tensor:
    """Maximum over the last axis, which stays as 1; without gradient."""
    _, largest = ops.ArgMaxWithValue(len(values.shape) - 1, True)(ops.stop_gradient(values))
    return largest


def lowered(emissions: Tensor) -> Tensor:
    """Emissions (..., K) in float32 with each position's largest brought to 0, unless it is forbidden."""
    emissions = emissions.astype(ms.float32)
    highest = largest_of(emissions)
    return emissions - ops.select(highest < LEAST, zeros_like(highest), highest)


def smallest_of(values: Tensor) -> Tensor:
    """Minimum of everything, a scalar; without gradient."""
    _, smallest = ops.ArgMinWithValue(0)(ops.stop_gradient(values).reshape(-1))
    return smallest


def sum_of(values: Tensor) -> Tensor:
    """Sum over the last axis, which stays as 1."""
    return ops.matmul(values, ops.ones((values.shape[-1], 1), ms.float32))


@ops.constexpr
def _constant_positions(first: int, count: int) -> Tensor:
    return Tensor(np.arange(first, first + count, dtype=np.int32).reshape(count, 1))


def _positions(first: int, count: int) -> Tensor:
    """first, first + 1, ... as (count, 1); a constant where the compiler knows how many."""
    if isconstant(count):
        return _constant_positions(first, count)
    return ops.arange(first, first + count, 1, dtype=ms.int32).expand_dims(1)


def real(lengths: Tensor, length: int) -> Tensor:
    """(length, batch) bool: True on real positions."""
    return _positions(0, length) < lengths


def continued(lengths: Tensor, length: int) -> Tensor:
    """(length, batch) bool: True where another real position follows."""
    return _positions(1, length) < lengths


def turned(values: Tensor, batch_first: bool = True) -> Tensor:
    """Values with their first two axes swapped if batch_first, else as they are."""
    if not batch_first:
        return values
    return ops.transpose(values, (1, 0, 2, 3)[:len(values.shape)])


def sizes(values: Tensor, batch_first: bool) -> tuple[int, int]:
    """Padded length and batch, the first two axes in either order."""
    if batch_first:
        return values.shape[1], values.shape[0]
    return values.shape[0], values.shape[1]


def at_last(values: Tensor, lengths: Tensor) -> Tensor:
    """Values at the last real position of each row: (L, B, K) to (B, K), 0 for rows of length 0."""
    _, batch, width = values.shape
    index = ops.broadcast_to(ops.maximum(lengths - 1, 0).reshape(1, batch, 1), (1, batch, width))
    last = ops.gather_elements(values, 0, index).squeeze(0)             # (B, K)
    return ops.select((lengths > 0).expand_dims(-1), last, zeros_like(last))


def clear_padding(values: Tensor, lengths: Tensor) -> Tensor:
    """Values (L, B, K) with 0 on padding, whatever stood there."""
    return ops.select(real(lengths, values.shape[0]).expand_dims(-1), values, zeros_like(values))


def restricted(emissions: Tensor, free: Tensor, lengths: Tensor) -> Tensor:
    """Emissions (L, B, K) with MISMATCH for the tags that are not free (bool), 0 on padding."""
    return clear_padding(ops.select(free, emissions, MISMATCH * ones_like(emissions)), lengths)


def nan_where(wrong: Tensor) -> Tensor:
    """nan where `wrong` (bool) holds, else 0, in float32: added to a value, 0 changes none of its bits."""
    return ops.masked_fill(zeros_like(wrong.astype(ms.float32)), wrong, float('nan'))


def nan_in_rows(emissions: Tensor, lengths: Tensor) -> Tensor:
    """(B,) float32 without gradient: nan where a real position of emissions (L, B, K) has nan or +inf, else 0."""
    length, _, num_tags = emissions.shape
    sums = ops.matmul(ops.stop_gradient(emissions), ops.zeros((num_tags, 1), ms.float32))   # (L, B, 1)
    return clear_padding(sums, lengths).sum(0)[:, 0]


def nan_in_scores(transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Without gradient: nan if there is nan or +inf in transitions (K, K), start (K,) or end (K,), else 0: a scalar; of
    transitions (L, B, K, K), of which those on padding are 0, one for each row (B,)."""
    nothing = ops.stop_gradient(transitions + start + end) * 0.0
    return nothing.sum((0, 2, 3)) if len(transitions.shape) == 4 else nothing.sum()


def reduce_losses(losses: Tensor, lengths: Tensor, reduction: str) -> Tensor:
    """Losses of rows (batch,) reduced: 'none', 'sum', 'mean' over rows that are not empty, 'token_mean'."""
    if reduction == 'none':
        return losses
    if reduction == 'sum':
        return losses.sum()
    counted = ops.minimum(lengths, 1) if reduction == 'mean' else lengths
    return losses.sum() / ops.maximum(counted.astype(ms.float32).sum(), 1.0)


BLOCK = 64        # steps of a block in a loop
SMALL_BLOCK = 8   # where the number of steps is not known: few are computed for nothing


def is_fixed(tensor: Tensor) -> bool:
    """Whether the compiler knows the first two axes of a tensor; where they may be of any size it does not."""
    return isconstant(tensor.shape[0]) and isconstant(tensor.shape[1])


def split_length(steps: int, unrolled: int = BLOCK) -> tuple[int, int]:
    """Number of blocks and steps in each (even), so that blocks * size >= steps; one block up to `unrolled` steps."""
    if isconstant(steps):
        return _split_constant(steps, unrolled)
    return (steps + SMALL_BLOCK - 1) // SMALL_BLOCK, SMALL_BLOCK


@ops.constexpr
def _split_constant(steps: int, unrolled: int) -> tuple[int, int]:
    if steps <= unrolled:
        return 1, max(2, steps + steps % 2)
    return (steps + BLOCK - 1) // BLOCK, BLOCK


def pad_time(tensor: Tensor, steps: int) -> Tensor:
    """The tensor with zeros behind its first axis, up to `steps`."""
    missing = steps - tensor.shape[0]
    if isconstant(missing) and missing == 0:
        return tensor
    return ops.concat((tensor, ops.zeros((missing,) + tensor.shape[1:], tensor.dtype)), 0)


def put_block(buffer: Tensor, index: Tensor, block: Tensor) -> Tensor:
    """The buffer (blocks, ...) with `block` at `index`, a scalar tensor."""
    return ops.tensor_scatter_update(buffer, index.reshape(1, 1), block.expand_dims(0))


def steps_of_block(steps: Tensor, axes: int, index: Tensor, size: int) -> Sequence[Tensor]:
    """Scores of each step of one block.

    Args:
        steps: of all blocks (blocks, C, ...), a tensor with so many axes; or with fewer, the same for each step.
        axes: int.
        index: of the block, a scalar tensor.
        size: C.
    """
    if len(steps.shape) < axes:
        return [steps for _ in range(size)]
    return ops.unstack(ops.gather(steps, index, 0), 0)


def first_block() -> Tensor:
    """The loop's counter: a tensor, so that the graph keeps the loop instead of unrolling it."""
    return Tensor(0, ms.int32)
