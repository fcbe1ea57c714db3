"""Time in blocks: short sentences are one unrolled block, long ones a loop over blocks of one size.

An unrolled step costs the compiler 10 ms and some of its stack, a loop costs the run 0.1 ms a turn (2 cores).
"""

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant

BLOCK = 64        # steps of a block in a loop
SMALL_BLOCK = 8   # where the number of steps is not known: few are computed for nothing


def is_fixed(tensor):
    """Whether the compiler knows the first two axes of a tensor; where they may be of any size it does not."""
    return isconstant(tensor.shape[0]) and isconstant(tensor.shape[1])


def split_length(steps, unrolled=BLOCK):
    """Number of blocks and steps in each (even), so that blocks * size >= steps; one block up to `unrolled` steps."""
    if isconstant(steps):
        return _split_constant(steps, unrolled)
    return (steps + SMALL_BLOCK - 1) // SMALL_BLOCK, SMALL_BLOCK


@ops.constexpr
def _split_constant(steps, unrolled):
    if steps <= unrolled:
        return 1, max(2, steps + steps % 2)
    return (steps + BLOCK - 1) // BLOCK, BLOCK


def pad_time(tensor, steps):
    """The tensor with zeros behind its first axis, up to `steps`."""
    missing = steps - tensor.shape[0]
    if isconstant(missing) and missing == 0:
        return tensor
    return ops.concat((tensor, ops.zeros((missing,) + tensor.shape[1:], tensor.dtype)), 0)


def put_block(buffer, index, block):
    """The buffer (blocks, ...) with `block` at `index`, a scalar tensor."""
    return ops.tensor_scatter_update(buffer, index.reshape(1, 1), block.expand_dims(0))


def first_block():
    """The loop's counter: a tensor, so that the graph keeps the loop instead of unrolling it."""
    return Tensor(0, ms.int32)
