"""Where rows of a batch are real, by their lengths, and what that means for sums over them."""

from ms_crf.crf.scores import zeros_like

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant


@ops.constexpr
def _constant_positions(first, count):
    return Tensor(np.arange(first, first + count, dtype=np.int32).reshape(count, 1))


def _positions(first, count):
    """first, first + 1, ... as (count, 1); a constant where the compiler knows how many."""
    if isconstant(count):
        return _constant_positions(first, count)
    return ops.arange(first, first + count, 1, dtype=ms.int32).expand_dims(1)


def real(lengths, length):
    """(length, batch) bool: True on real positions."""
    return _positions(0, length) < lengths


def continued(lengths, length):
    """(length, batch) bool: True where another real position follows."""
    return _positions(1, length) < lengths


def at_last(values, lengths):
    """What stands at the last real position of each row: (L, B, K) to (B, K), 0 for rows of length 0."""
    _, batch, width = values.shape
    place = ops.broadcast_to(ops.maximum(lengths - 1, 0).reshape(1, batch, 1), (1, batch, width))
    found = ops.gather_elements(values, 0, place)[0]             # (B, K)
    return ops.select((lengths > 0).expand_dims(-1), found, zeros_like(found))


def clear_padding(values, lengths):
    """Values (L, B, K) with 0 on padding, whatever stood there."""
    return ops.select(real(lengths, values.shape[0]).expand_dims(-1), values, zeros_like(values))


def reduce_losses(losses, lengths, reduction):
    """Losses of rows (batch,) reduced: 'none', 'sum', 'mean' over rows that are not empty, 'token_mean'."""
    if reduction == 'none':
        return losses
    if reduction == 'sum':
        return losses.sum()
    if reduction == 'mean':
        counted = ops.minimum(lengths, 1)
    else:
        counted = lengths
    return losses.sum() / ops.maximum(counted.astype(ms.float32).sum(), 1.0)
