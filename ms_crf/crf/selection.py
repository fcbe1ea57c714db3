"""What the n best paths and sets of spans are selected by: the largest of many candidates, in order, with or without a
key that may occur only once; and what steps say about spans, with the chain of all paths that stand for the same spans.

Shapes: B batch, S candidates, M maximums to be found side by side, L length, K tags.
"""

from ms_crf.crf.inputs import has_values
from ms_crf.crf.tensors import FORBIDDEN, MISMATCH, continued, ones_like
from ms_crf.crf.validation import as_array, check_integers

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from numpy.typing import ArrayLike

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


def _check_spans(spans: ArrayLike, num_tags: int) -> np.ndarray:
    """The table of what steps say about spans, as an array, or ValueError or TypeError."""
    table = as_array(spans)
    if table.shape != (num_tags + 1, num_tags + 1):
        raise ValueError(f'spans must be (num_tags + 1, num_tags + 1) = ({num_tags + 1}, {num_tags + 1}) as span_steps '
                         f'returns it, got shape {table.shape}')
    check_integers('spans', table)
    most = (num_tags + 1) ** 2 - 1
    if table.min() < 0 or table.max() > most:
        raise ValueError(f'spans must hold numbers from 0 to {most}, got {table.min()} to {table.max()}')
    return table


@ops.constexpr(check=False)
def _constant_table(spans: ArrayLike | Tensor, num_tags: int) -> Tensor:
    return Tensor(_check_spans(spans, num_tags).astype(np.int64))


def table_of(spans: ArrayLike | Tensor, num_tags: int) -> Tensor:
    """What steps say about spans (K + 1, K + 1) int64, from an array, or from a tensor."""
    if isinstance(spans, Tensor) and not has_values(spans):
        return spans.astype(ms.int64)
    return _constant_table(spans, num_tags)


def masked_chain(paths: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor,
                 spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each path a row of a batch in which all taggings are forbidden but those that stand for the same spans.

    Args:
        paths: (B, n, L) int32.
        emissions, lengths, transitions, spans: as of `nbest.best_paths`.

    Returns:
        emissions (L, B * n, K), lengths (B * n,) and transitions of each step (L, B * n, K, K).
    """
    batch, n, length = paths.shape
    num_tags, rows = emissions.shape[2], batch * n
    tags = ops.transpose(paths.reshape(rows, length), (1, 0)).astype(ms.int64)           # (L, B * n)
    several = ops.broadcast_to(lengths.expand_dims(1), (batch, n)).reshape(rows)
    emissions = ops.broadcast_to(emissions.expand_dims(2), (length, batch, n, num_tags)).reshape(length, rows, num_tags)

    # What the path says of its first tag must be said of a tag there, and what it says at its end, of one at the end.
    begins, ends = spans[num_tags, :num_tags], spans[:num_tags, num_tags]                 # (K,)
    at_begin = _said_otherwise(begins, tags).astype(ms.float32)                           # (L, B * n, K)
    at_end = _said_otherwise(ends, tags).astype(ms.float32)
    position = ops.arange(length).astype(ms.int32).reshape(length, 1, 1)
    first = ops.equal(position, 0).astype(ms.float32)
    last = ops.equal(position, several.reshape(1, rows, 1) - 1).astype(ms.float32)
    emissions = ops.masked_fill(emissions, at_begin * first + at_end * last > 0.0, FORBIDDEN)

    following = ops.concat((tags[1:], tags[:1]), 0)
    said = ops.gather(spans[:num_tags, :num_tags].reshape(-1), tags * num_tags + following, 0)   # (L, B * n)
    others = ops.not_equal(spans[:num_tags, :num_tags], said.expand_dims(2).expand_dims(3))      # (L, B * n, K, K)
    if len(transitions.shape) == 4:
        transitions = ops.broadcast_to(transitions.expand_dims(2), (length, batch, n, num_tags, num_tags))
        transitions = transitions.reshape(length, rows, num_tags, num_tags)
    else:
        transitions = ops.broadcast_to(transitions, others.shape)
    return emissions, several, of_each_step(ops.masked_fill(transitions, others, FORBIDDEN), several, length)


def of_each_step(transitions: Tensor, lengths: Tensor, length: int) -> Tensor:
    """Transitions (K, K) or (L, B, K, K) as (L, B, K, K), 0 where no real position follows."""
    followed = continued(lengths, length).expand_dims(2).expand_dims(3)
    num_tags = transitions.shape[-1]
    steps = ops.broadcast_to(transitions, (length, lengths.shape[0], num_tags, num_tags))
    return ops.select(followed, steps, ops.zeros_like(steps))


def _said_otherwise(said: Tensor, tags: Tensor) -> Tensor:
    """Whether what is said of each tag (K,) differs from what is said of these tags (L, B): bool (L, B, K)."""
    return ops.not_equal(said, ops.gather(said, tags, 0).expand_dims(-1))
