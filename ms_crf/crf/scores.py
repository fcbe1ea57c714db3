"""Scores of what is forbidden, and reductions over scores that are fast on every device.

On CPU, `ReduceMax`, `ReduceMin` and `ReduceSum` over a short last axis take 4 to 8 times as long as
the operators used here, and `Stack` of two tensors ten times as long as `Concat`.
"""

import mindspore as ms
from mindspore import Tensor, ops

FORBIDDEN = -2.0 ** 100   # a step that constraints forbid: outweighs any sum of real scores, and powers of
MISMATCH = -2.0 ** 120    # two add up without rounding; a tag other than the known one: outweighs many such steps
VIOLATION = 1e4           # what a forbidden step costs in a loss, where it has to stay readable
LEAST = -2.0 ** 80        # a caller's score below it forbids: sums of 2**19 others stay above FORBIDDEN / 2

# As operators: the compiler of MindSpore 2.10 may lose the functions of these names, which are written in
# Python, inside a cell that has its own `bprop`.
zeros_like, ones_like = ops.ZerosLike(), ops.OnesLike()

_ONE, _multiplied_log = Tensor(1.0, ms.float32), ops.Xlogy()


def forbid(scores):
    """A caller's scores in which -inf, and whatever else is below LEAST, is FORBIDDEN and has a gradient of 0.

    +inf and nan stay.
    """
    return ops.masked_fill(scores, scores < LEAST, FORBIDDEN)


def price(scores):
    """Scores of single steps in which a forbidden one costs VIOLATION."""
    return ops.masked_fill(scores, scores < FORBIDDEN / 2, -VIOLATION)


def soften(scores):
    """Sums of scores in which each forbidden step costs VIOLATION; what it hid by rounding stays out."""
    steps = ops.round(scores / FORBIDDEN)
    return ops.select(scores < FORBIDDEN / 2, -VIOLATION * steps, scores)


def log(values):
    """Natural logarithm.

    `ops.log` on CPU is off by up to 2e-5 relative, and rounds the last one to three numbers of each thread's part in
    another way than the rest, while MindSpore tries at a graph's first calls which division into parts is fastest.
    """
    return _multiplied_log(_ONE, values)


def largest_of(values):
    """Maximum over the last axis, which stays as 1; without gradient."""
    _, largest = ops.ArgMaxWithValue(len(values.shape) - 1, True)(ops.stop_gradient(values))
    return largest


def smallest_of(values):
    """Minimum of everything, a scalar; without gradient."""
    _, smallest = ops.ArgMinWithValue(0)(ops.stop_gradient(values).reshape(-1))
    return smallest


def sum_of(values):
    """Sum over the last axis, which stays as 1."""
    return ops.matmul(values, ops.ones((values.shape[-1], 1), ms.float32))
