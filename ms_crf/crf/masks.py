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
    found = ops.gather_elements(values, 0, place).squeeze(0)            # (B, K)
    return ops.select((lengths > 0).expand_dims(-1), found, zeros_like(found))


def clear_padding(values, lengths):
    """Values (L, B, K) with 0 on padding, whatever stood there."""
    return ops.select(real(lengths, values.shape[0]).expand_dims(-1), values, zeros_like(values))


def nan_where(wrong):
    """nan where `wrong` (bool) holds, else 0, in float32: added to a value, 0 changes none of its bits."""
    return ops.masked_fill(zeros_like(wrong.astype(ms.float32)), wrong, float('nan'))


def nan_in_rows(emissions, lengths):
    """(B,) float32 without gradient: nan where a real position of emissions (L, B, K) has nan or +inf, else 0."""
    length, _, num_tags = emissions.shape
    found = ops.matmul(ops.stop_gradient(emissions), ops.zeros((num_tags, 1), ms.float32))   # (L, B, 1)
    return clear_padding(found, lengths).sum(0)[:, 0]


def nan_in_scores(transitions, start, end):
    """A scalar without gradient: nan if there is nan or +inf in transitions (K, K), start (K,) or end (K,), else 0."""
    return (ops.stop_gradient(transitions + start + end) * 0.0).sum()


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
