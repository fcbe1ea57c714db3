"""The largest of many candidates, in order, for the n best paths: with or without a key that may occur only once.

Shapes: B batch, S candidates, M maximums to be found side by side.
"""

from ms_crf.crf.tensors import MISMATCH, ones_like

import mindspore as ms
from mindspore import Tensor, ops

ABSENT = MISMATCH             # stands for a path that is not there
LOWEST = -3.4028234663852886e38
# Up to here the largest are taken one after the other; beyond, the graph would grow with n.
ONE_BY_ONE = 8


def largest(candidates: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest over axis 1 of (B, S, M), the first of equals first: indices and values, both (B, M, n)."""
    if n > ONE_BY_ONE:
        chosen = in_order(candidates)[:, :, :n]                  # a graph and memory that don't grow with n
        return chosen, ops.gather_elements(ops.transpose(candidates, (0, 2, 1)), 2, chosen)
    positions = ops.arange(candidates.shape[1]).astype(ms.int64).reshape(1, -1, 1)
    choose = ops.ArgMaxWithValue(1, True)
    indices, values = [], []
    for _ in range(n):
        index, value = choose(candidates)                        # (B, 1, M)
        indices.append(index)
        values.append(value)
        candidates = ops.select(ops.equal(positions, index), LOWEST * ones_like(candidates), candidates)
    return ops.transpose(ops.concat(indices, 1), (0, 2, 1)), ops.transpose(ops.concat(values, 1), (0, 2, 1))


def in_order(candidates: Tensor) -> Tensor:
    """Indices (B, M, S) of candidates (B, S, M) from the largest over axis 1 on, the first of equals first.

    Sorting promises no order among equals. So each value gets its rank among the different values, and what
    is sorted then are the ranks with the positions, no two of which are equal.
    """
    candidates = ops.transpose(candidates, (0, 2, 1))            # (B, M, S)
    size = candidates.shape[2]
    ordered, positions = ops.sort(ops.stop_gradient(candidates), 2, True)
    differs = ops.not_equal(ordered[:, :, 1:], ordered[:, :, :-1]).astype(ms.int32)
    rank = ops.cumsum(ops.concat((ops.zeros_like(differs[:, :, :1]), differs), 2), 2)
    keys, _ = ops.sort(rank.astype(ms.int64) * size + positions.astype(ms.int64), 2, False)
    return keys % size


def numbered(keys: Tensor) -> Tensor:
    """Numbers below S for keys (B, S) int64: the same for the same, others for others."""
    size = keys.shape[1]
    if size == 1:
        return ops.zeros_like(keys)
    positions = ops.arange(size).astype(ms.int64)
    ordered, _ = ops.sort(keys * size + positions, 1, False)
    differs = ops.not_equal(ordered[:, 1:] // size, ordered[:, :-1] // size).astype(ms.int32)
    numbers = ops.cumsum(ops.concat((ops.zeros_like(differs[:, :1]), differs), 1), 1).astype(ms.int64)
    back, _ = ops.sort(ordered % size * size + numbers, 1, False)
    return back % size


def best_of_each(candidates: Tensor, keys: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The n largest over axis 1 of (B, S, M) with different keys, the first of equals first.

    Returns:
        indices, values and keys, all (B, M, n); a value is ABSENT where there are fewer than n different keys.
    """
    size = candidates.shape[1]
    if size == 1:
        keys = ops.transpose(keys, (0, 2, 1))
        return ops.zeros_like(keys), ops.transpose(candidates, (0, 2, 1)), keys
    order = in_order(candidates)                                 # (B, M, S), best first
    keys = ops.gather_elements(ops.transpose(keys, (0, 2, 1)), 2, order)
    # Keys together, the best of each first; its place is taken, others come after all places.
    groups, _ = ops.sort(keys * size + ops.arange(size).astype(ms.int64), 2, False)
    repeated = ops.equal(groups[:, :, 1:] // size, groups[:, :, :-1] // size).astype(ms.int64)
    repeated = ops.concat((ops.zeros_like(groups[:, :, :1]), repeated), 2)
    places, _ = ops.sort(groups % size + repeated * size, 2, False)
    places = places[:, :, :n]
    chosen = places % size
    indices = ops.gather_elements(order, 2, chosen)
    values = ops.gather_elements(ops.transpose(candidates, (0, 2, 1)), 2, indices)
    values = ops.select(places < size, values, ABSENT * ones_like(values))
    return indices, values, ops.gather_elements(keys, 2, chosen)
