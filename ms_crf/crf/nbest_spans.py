"""The n best sets of spans: n best taggings of which no two stand for the same spans.

What a step from one tag to the next says about spans (a span ends, one of this type begins, ...) has a number. Taggings
stand for the same spans where these numbers are the same at each step. So the recursion of the n best paths keeps,
for each tag, the best tagging of each of n different sequences of numbers: what is not among them at some tag has n
better ones there, which go on alike, and is not needed.

Shapes: L length, B batch, K tags, S = K * n states as in `nbest`.
"""

from typing import Any

from ms_crf.crf import tensors
from ms_crf.crf.inputs import has_values
from ms_crf.crf.nbest import (
    ABSENT,
    at_most,
    chosen_paths,
    first_states,
    in_blocks,
    in_order,
    of_states,
    sortable,
    steps_at,
    steps_between_states,
)
from ms_crf.crf.tensors import FORBIDDEN, first_block, largest_of, ones_like, put_block
from ms_crf.crf.validation import check_spans

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

STEPS = 4                     # steps of a block: unrolled, they cost compilation


@ops.constexpr(check=False)
def _constant_table(spans: Any, num_tags: int) -> Tensor:
    return Tensor(check_spans(spans, num_tags).astype(np.int64))


def table_of(spans: Any, num_tags: int) -> Tensor:
    """What steps say about spans (K + 1, K + 1) int64, from an array, or from a tensor."""
    if isinstance(spans, Tensor) and not has_values(spans):
        return spans.astype(ms.int64)
    return _constant_table(spans, num_tags)


def _numbered(keys: Tensor) -> Tensor:
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


def _best_of_each(candidates: Tensor, keys: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
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


def _recursion(scores: Tensor, numbers: Tensor, total: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor,
               spans: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All steps after the first position.

    Args:
        scores: (B, S), of the best tagging up to each tag of each of n sequences of numbers.
        numbers: (B, S), of these sequences.
        total: (B, 1), what was taken out of the scores.
        emissions: (T, B, K) of the positions behind the first.
        lengths: (B,) int32.
        transitions: (K, K), or (T + 1, B, K, K), those of the step after each position.
        spans: (K + 1, K + 1) int64.
        n: int.

    Returns:
        scores and numbers at each row's end, what was taken out of the scores, and the state before each state
        (T, B, S).
    """
    length, batch, num_tags = emissions.shape
    states, kinds = num_tags * n, (num_tags + 1) ** 2
    emissions, following = in_blocks(emissions, lengths, STEPS)
    blocks = following.shape[0]
    steps = steps_between_states(transitions, n, blocks, STEPS)
    said = steps_between_states(spans[:num_tags, :num_tags], n, blocks, STEPS)        # (1, S, K)
    history = ops.zeros((blocks, STEPS, batch, states), ms.int64)
    index = first_block()
    while index < blocks:
        emission = ops.gather(emissions, index, 0)               # (C, B, K)
        moves = ops.gather(following, index, 0)                  # (C, B)
        tables = steps_at(steps, index, STEPS)
        backtrace = []
        for step in range(STEPS):
            candidates = scores.expand_dims(-1) + tables[step] + emission[step].expand_dims(1)      # (B, S, K)
            chosen, values, keys = _best_of_each(candidates, numbers.expand_dims(-1) * kinds + said, n)
            move = ops.broadcast_to(moves[step].expand_dims(-1), (batch, states)) > 0.0
            scores = ops.select(move, values.reshape(batch, states), scores)
            numbers = ops.select(move, _numbered(keys.reshape(batch, states)), numbers)
            backtrace.append(chosen.reshape(batch, states))
        history = put_block(history, index, ops.stack(backtrace, 0))
        peak = largest_of(scores)
        scores = scores - peak
        total = total + peak
        index = index + 1
    return scores, numbers, total, history.reshape(blocks * STEPS, batch, states)[:length]


def best_spans(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, spans: Tensor,
               n: int) -> tuple[Tensor, Tensor]:
    """The best tagging of each of the n best sets of spans: paths (B, n, L) int32, 0 on padding, and scores (B, n),
    best first; LOWEST where there is no further set.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), those of the step after each position.
        start, end: (K,) float32.
        spans: (K + 1, K + 1) int64, what each step says about spans, 0 to (K + 1) ** 2 - 1.
        n: int, how many.
    """
    length, batch, num_tags = emissions.shape
    emissions, transitions, start, end, void = sortable(emissions, lengths, transitions, start, end)
    wanted, n = n, at_most(n, num_tags, length)
    lowered, scores, total = first_states(emissions, start, n)
    numbers = _numbered(ops.broadcast_to(of_states(spans[num_tags, :num_tags], n), (batch, num_tags * n)))
    history = ()
    if length > 1:
        scores, numbers, total, history = _recursion(scores, numbers, total, lowered[1:], lengths, transitions, spans,
                                                     n)
    keys = numbers * (num_tags + 1) ** 2 + of_states(spans[:num_tags, num_tags], n)
    last, scores, _ = _best_of_each((scores + of_states(end, n)).expand_dims(-1), keys.expand_dims(-1), n)  # (B, 1, n)
    return chosen_paths(history, last[:, 0], scores[:, 0] + total, void, lengths, length, wanted)


def masked_chain(paths: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor,
                 spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each path a row of a batch in which all taggings are forbidden but those that stand for the same spans.

    Args:
        paths: (B, n, L) int32.
        emissions, lengths, transitions, spans: as of `best_spans`.

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
    followed = tensors.continued(lengths, length).expand_dims(2).expand_dims(3)
    num_tags = transitions.shape[-1]
    steps = ops.broadcast_to(transitions, (length, lengths.shape[0], num_tags, num_tags))
    return ops.select(followed, steps, ops.zeros_like(steps))


def _said_otherwise(said: Tensor, tags: Tensor) -> Tensor:
    """Whether what is said of each tag (K,) differs from what is said of these tags (L, B): bool (L, B, K)."""
    return ops.not_equal(said, ops.gather(said, tags, 0).expand_dims(-1))
