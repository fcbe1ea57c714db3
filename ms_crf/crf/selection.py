"""Selection of the n best candidates, and sets of spans: step numbers, and the chain of all paths of a set.

Shapes: B batch, S candidates, M independent selections, L length, K tags.
"""

from ms_crf.crf.inputs import has_values
from ms_crf.crf.tensors import FORBIDDEN, MISMATCH, continued, ones_like
from ms_crf.crf.validation import as_array, check_integers

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from numpy.typing import ArrayLike

ABSENT = MISMATCH             # score of a missing path
LOWEST = -3.4028234663852886e38
# Up to this n the largest are selected one after the other. For larger n the graph would grow too much.
ONE_BY_ONE = 8


def largest(candidates: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Indices and values (B, M, n) of the n largest over axis 1 of (B, S, M); the first of equal values comes first."""
    if n > ONE_BY_ONE:
        chosen = sorted_indices(candidates)[:, :, :n]            # graph and memory do not grow with n
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


def sorted_indices(candidates: Tensor) -> Tensor:
    """Indices (B, M, S) that sort candidates (B, S, M) over axis 1 in descending order; equal values keep their order.

    Sorting is not stable. So each value gets its rank among the different values, and the pairs of rank and position
    are sorted, no two of which are equal.
    """
    candidates = ops.transpose(candidates, (0, 2, 1))            # (B, M, S)
    size = candidates.shape[2]
    ordered, positions = ops.sort(ops.stop_gradient(candidates), 2, True)
    differs = ops.not_equal(ordered[:, :, 1:], ordered[:, :, :-1]).astype(ms.int32)
    rank = ops.cumsum(ops.concat((ops.zeros_like(differs[:, :, :1]), differs), 2), 2)
    keys, _ = ops.sort(rank.astype(ms.int64) * size + positions.astype(ms.int64), 2, False)
    return keys % size


def compact_numbers(keys: Tensor) -> Tensor:
    """Numbers below S for keys (B, S) int64: equal numbers for equal keys, different numbers for different keys."""
    size = keys.shape[1]
    if size == 1:
        return ops.zeros_like(keys)
    positions = ops.arange(size).astype(ms.int64)
    ordered, _ = ops.sort(keys * size + positions, 1, False)
    differs = ops.not_equal(ordered[:, 1:] // size, ordered[:, :-1] // size).astype(ms.int32)
    numbers = ops.cumsum(ops.concat((ops.zeros_like(differs[:, :1]), differs), 1), 1).astype(ms.int64)
    back, _ = ops.sort(ordered % size * size + numbers, 1, False)
    return back % size


def best_of_distinct(candidates: Tensor, keys: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The n largest over axis 1 of (B, S, M) with different keys; of equal values, the first comes first.

    Args:
        candidates: (B, S, M).
        keys: (B, S, M) int64, non-negative.
        n: number of candidates.

    Returns:
        Indices, values and keys, all (B, M, n). Values are ABSENT if there are fewer than n different keys.
    """
    size = candidates.shape[1]
    if size == 1:
        keys = ops.transpose(keys, (0, 2, 1))
        return ops.zeros_like(keys), ops.transpose(candidates, (0, 2, 1)), keys
    sorted_by_value = sorted_indices(candidates)         # (B, M, S), best first
    keys = ops.gather_elements(ops.transpose(keys, (0, 2, 1)), 2, sorted_by_value)
    # Group equal keys. The best of each group keeps its rank; the others get ranks after all groups.
    groups, _ = ops.sort(keys * size + ops.arange(size).astype(ms.int64), 2, False)
    repeated = ops.equal(groups[:, :, 1:] // size, groups[:, :, :-1] // size).astype(ms.int64)
    repeated = ops.concat((ops.zeros_like(groups[:, :, :1]), repeated), 2)
    ranks, _ = ops.sort(groups % size + repeated * size, 2, False)
    ranks = ranks[:, :, :n]
    chosen = ranks % size
    indices = ops.gather_elements(sorted_by_value, 2, chosen)
    values = ops.gather_elements(ops.transpose(candidates, (0, 2, 1)), 2, indices)
    values = ops.select(ranks < size, values, ABSENT * ones_like(values))
    return indices, values, ops.gather_elements(keys, 2, chosen)


def _check_spans(spans: ArrayLike, num_tags: int) -> np.ndarray:
    """The table of step numbers as an array; raises ValueError or TypeError if it is invalid."""
    table = as_array(spans)
    if table.shape != (num_tags + 1, num_tags + 1):
        raise ValueError(f'spans must be (num_tags + 1, num_tags + 1) = ({num_tags + 1}, {num_tags + 1}) as span_steps '
                         f'returns, got shape {table.shape}')
    check_integers('spans', table)
    most = (num_tags + 1) ** 2 - 1
    if table.min() < 0 or table.max() > most:
        raise ValueError(f'spans must contain integers from 0 to {most}, got {table.min()} to {table.max()}')
    return table


@ops.constexpr(check=False)
def _constant_table(spans: ArrayLike | Tensor, num_tags: int) -> Tensor:
    """The table of step numbers as an int64 tensor that is a constant of the graph."""
    return Tensor(_check_spans(spans, num_tags).astype(np.int64))


def table_of(spans: ArrayLike | Tensor, num_tags: int) -> Tensor:
    """The table of step numbers (K + 1, K + 1) as an int64 tensor.

    Args:
        spans: an array, or a tensor, as the argument of `CRF.nbest_spans`.
        num_tags: K.
    """
    if isinstance(spans, Tensor) and not has_values(spans):
        return spans.astype(ms.int64)
    return _constant_table(spans, num_tags)


def masked_chain(paths: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor,
                 spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A batch with one row for each path, in which only paths that describe the same spans are allowed.

    Args:
        paths: (B, n, L) int32.
        emissions, lengths, transitions, spans: as in `nbest.best_paths`.

    Returns:
        Emissions (L, B * n, K), lengths (B * n,) and transitions of each step (L, B * n, K, K).
    """
    batch, n, length = paths.shape
    num_tags, rows = emissions.shape[2], batch * n
    tags = ops.transpose(paths.reshape(rows, length), (1, 0)).astype(ms.int64)           # (L, B * n)
    several = ops.broadcast_to(lengths.expand_dims(1), (batch, n)).reshape(rows)
    emissions = ops.broadcast_to(emissions.expand_dims(2), (length, batch, n, num_tags)).reshape(length, rows, num_tags)

    # At both ends, only tags with the same step number as the tag of the path are allowed.
    begins, ends = spans[num_tags, :num_tags], spans[:num_tags, num_tags]                 # (K,)
    at_begin = _has_other_step(begins, tags).astype(ms.float32)                           # (L, B * n, K)
    at_end = _has_other_step(ends, tags).astype(ms.float32)
    position = ops.arange(length).astype(ms.int32).reshape(length, 1, 1)
    first = ops.equal(position, 0).astype(ms.float32)
    last = ops.equal(position, several.reshape(1, rows, 1) - 1).astype(ms.float32)
    emissions = ops.masked_fill(emissions, at_begin * first + at_end * last > 0.0, FORBIDDEN)

    following = ops.concat((tags[1:], tags[:1]), 0)
    numbers = ops.gather(spans[:num_tags, :num_tags].reshape(-1), tags * num_tags + following, 0)     # (L, B * n)
    others = ops.not_equal(spans[:num_tags, :num_tags], numbers.expand_dims(2).expand_dims(3))   # (L, B * n, K, K)
    if len(transitions.shape) == 4:
        transitions = ops.broadcast_to(transitions.expand_dims(2), (length, batch, n, num_tags, num_tags))
        transitions = transitions.reshape(length, rows, num_tags, num_tags)
    else:
        transitions = ops.broadcast_to(transitions, others.shape)
    return emissions, several, transitions_by_step(ops.masked_fill(transitions, others, FORBIDDEN), several, length)


def transitions_by_step(transitions: Tensor, lengths: Tensor, length: int) -> Tensor:
    """Transitions (K, K) or (L, B, K, K) as (L, B, K, K), 0 where no real position follows."""
    followed = continued(lengths, length).expand_dims(2).expand_dims(3)
    num_tags = transitions.shape[-1]
    steps = ops.broadcast_to(transitions, (length, lengths.shape[0], num_tags, num_tags))
    return ops.select(followed, steps, ops.zeros_like(steps))


def _has_other_step(numbers: Tensor, tags: Tensor) -> Tensor:
    """Whether a tag has another step number than the tag of the path, bool (L, B, K).

    Args:
        numbers: step numbers of the tags (K,).
        tags: tags of the paths (L, B).
    """
    return ops.not_equal(numbers, ops.gather(numbers, tags, 0).expand_dims(-1))
