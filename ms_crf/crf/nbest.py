"""The n best paths: a Viterbi recursion that keeps n paths for each tag.

The n best sets of spans are the n best paths of which no two describe the same spans. A table gives each step from one
tag to the next a number: what the step means for spans (a span ends, a span of this type begins, ...). Two paths
describe the same spans if the numbers of all their steps are equal. So the recursion keeps, for each tag, the best path
of each of n different sequences of numbers. A path that is dropped has n better ones at the same tag, with the same
possible continuations.

Shapes: L length, B batch, K tags, S = K * n states. State tag * n + rank is the path of this rank at this tag.
"""

from ms_crf.base.memory import check_memory
from ms_crf.crf import tensors
from ms_crf.crf.selection import ABSENT, LOWEST, ONE_BY_ONE, best_of_distinct, compact_numbers, largest
from ms_crf.crf.tensors import (
    FORBIDDEN,
    first_block,
    largest_of,
    ones_like,
    pad_time,
    put_block,
    steps_of_block,
    zeros_like,
)
from ms_crf.crf.validation import check_count, check_shape_is_known
from ms_crf.crf.viterbi import back_trace

import mindspore as ms
from mindspore import Tensor, ops


@ops.constexpr(check=False)
def checked_n(n: int, shape: tuple) -> int:
    """The number of paths as an int; raises an error if it is invalid or needs too much memory.

    Args:
        n: number of paths.
        shape: shape of the emissions.
    """
    check_count('n', n)
    check_shape_is_known('nbest', shape)
    check_memory(4 * int(n) * shape[0] * shape[1], f'the n best paths for n = {n}')
    return int(n)


@ops.constexpr
def _at_most(n: int, num_tags: int, length: int) -> int:
    """n, or the number of all possible paths if that is smaller."""
    return min(n, num_tags ** min(length, n.bit_length()))


def _steps_between_states(transitions: Tensor, n: int, blocks: int, size: int) -> Tensor:
    """Scores of the steps from states to tags.

    Args:
        transitions: (K, K), or (T, B, K, K) for each step.
        n: paths of each tag.
        blocks, size: number of blocks, and number of steps C in each.

    Returns:
        (1, S, K), or (blocks, C, B, S, K) for each step.
    """
    num_tags = transitions.shape[-1]
    states = num_tags * n
    if len(transitions.shape) == 2:
        steps = transitions.expand_dims(1)                       # (K, 1, K)
        return ops.broadcast_to(steps, (num_tags, n, num_tags)).reshape(1, states, num_tags)
    steps = pad_time(transitions, blocks * size + 1)[:-1].expand_dims(3)      # (T, B, K, 1, K)
    batch = steps.shape[1]
    steps = ops.broadcast_to(steps, (blocks * size, batch, num_tags, n, num_tags))
    return steps.reshape(blocks, size, batch, states, num_tags)


def _in_blocks(emissions: Tensor, lengths: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Emissions and marks of real steps in blocks of C steps.

    The marks are float32, because the compiler cannot add gradients of bools, not even zeros.

    Args:
        emissions: (T, B, K), of the positions after the first.
        lengths: (B,) int32, including the first position.
        size: C.

    Returns:
        Emissions (blocks, C, B, K), 0 after the end, and (blocks, C, B) float32, 1 where a step is real.
    """
    length, batch, num_tags = emissions.shape
    blocks = (length + size - 1) // size
    following = tensors.continued(lengths, blocks * size).astype(ms.float32).reshape(blocks, size, batch)
    return pad_time(emissions, blocks * size).reshape(blocks, size, batch, num_tags), following


def _recursion(scores: Tensor, numbers: Tensor, total: Tensor, emissions: Tensor, lengths: Tensor,
               transitions: Tensor, spans: Tensor | None, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All steps after the first position.

    Args:
        scores: (B, S), of the n best paths to each tag at the first position.
        numbers: (B, S) int64: paths with different numbers describe different spans. Without spans it is not used.
        total: (B, 1), the sum that was subtracted from the scores.
        emissions: (T, B, K), of the positions after the first.
        lengths: (B,) int32.
        transitions: (K, K), or (T + 1, B, K, K), entry t for the step from position t to t + 1.
        spans: (K + 1, K + 1) int64, number of each step; None for paths.
        n: number of paths of each tag.

    Returns:
        Scores and numbers at the end of each row, the sum that was subtracted, and the previous state of each state
        (T, B, S).
    """
    length, batch, num_tags = emissions.shape
    states, kinds = num_tags * n, (num_tags + 1) ** 2
    # Number of steps in a block. Unrolled steps cost compilation; a loop writes the whole history in each iteration.
    size = max(1, 16 // n) if spans is None and n <= ONE_BY_ONE else 4
    emissions, following = _in_blocks(emissions, lengths, size)
    blocks = following.shape[0]
    steps = _steps_between_states(transitions, n, blocks, size)
    step_numbers = numbers
    if spans is not None:
        step_numbers = _steps_between_states(spans[:num_tags, :num_tags], n, blocks, size)        # (1, S, K)
    history = ops.zeros((blocks, size, batch, states), ms.int64)
    index = first_block()
    while index < blocks:
        emission = ops.gather(emissions, index, 0)               # (C, B, K)
        moves = ops.gather(following, index, 0)                  # (C, B)
        tables = steps_of_block(steps, 5, index, size)
        backtrace = []
        for step in range(size):
            candidates = scores.expand_dims(-1) + tables[step] + emission[step].expand_dims(1)       # (B, S, K)
            move = ops.broadcast_to(moves[step].expand_dims(-1), (batch, states)) > 0.0
            if spans is None:
                chosen, values = largest(candidates, n)          # (B, K, n)
            else:
                chosen, values, keys = best_of_distinct(candidates, numbers.expand_dims(-1) * kinds + step_numbers, n)
                numbers = ops.select(move, compact_numbers(keys.reshape(batch, states)), numbers)
            scores = ops.select(move, values.reshape(batch, states), scores)
            backtrace.append(chosen.reshape(batch, states))
        history = put_block(history, index, ops.stack(backtrace, 0))
        peak = largest_of(scores)
        scores = scores - peak
        total = total + peak
        index = index + 1
    return scores, numbers, total, history.reshape(blocks * size, batch, states)[:length]


def _sortable(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
             end: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Emissions and scores without nan, because sorting is undefined for nan, and a mark for invalid rows.

    Returns:
        Emissions, transitions, start and end, with 0 in place of rows or scores with nan; and void (B,) or (1,), nan
        for rows with nan, otherwise 0, to be added to their scores.
    """
    batch = emissions.shape[1]
    void, worthless = tensors.nan_in_rows(emissions, lengths), tensors.nan_in_scores(transitions, start, end)
    emissions = ops.masked_fill(emissions, ops.not_equal(void, void).reshape(1, batch, 1), 0.0)
    faulty = ops.not_equal(worthless, worthless)
    if len(transitions.shape) == 4:                              # one entry for each row
        transitions = ops.masked_fill(transitions, faulty.reshape(1, batch, 1, 1), 0.0)
        faulty = ops.not_equal(tensors.nan_in_scores(start.expand_dims(0), start, end), 0.0)
    transitions = ops.masked_fill(transitions, faulty, 0.0)
    start, end = ops.masked_fill(start, faulty, 0.0), ops.masked_fill(end, faulty, 0.0)
    void = void + worthless
    return emissions, transitions, start, end, ops.select(lengths > 0, void, zeros_like(void))


def _of_states(values: Tensor, n: int) -> Tensor:
    """Values of tags (K,) as values of states (S,)."""
    return ops.broadcast_to(values.expand_dims(-1), (values.shape[0], n)).reshape(-1)


def _first_states(emissions: Tensor, start: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The start of the recursion.

    Args:
        emissions: (L, B, K).
        start: (K,).
        n: number of paths of each tag.

    Returns:
        Emissions (L, B, K) whose largest entry at each position is 0, scores (B, S) at the first position, and the sum
        (B, 1) that was subtracted at all positions.
    """
    _, batch, num_tags = emissions.shape
    peaks = largest_of(emissions)                                # (L, B, 1)
    lowered = emissions - peaks
    scores = (start + lowered[0]).expand_dims(-1)                # (B, K, 1)
    if n > 1:
        scores = ops.concat((scores, ops.full((batch, num_tags, n - 1), ABSENT, dtype=ms.float32)), 2)
    return lowered, scores.reshape(batch, num_tags * n), peaks.sum(0)


def _chosen_paths(history: Tensor, last: Tensor, scores: Tensor, void: Tensor, lengths: Tensor, length: int,
                 count: int) -> tuple[Tensor, Tensor]:
    """Paths (B, count, L) and scores (B, count), from the results of the recursion.

    Args:
        history: previous state of each state (L - 1, B, S), or () if L is 1.
        last: (B, n), the last states of the n paths, best first.
        scores: (B, n).
        void: nan or 0, for each row (B,).
        lengths: (B,) int32.
        length: L.
        count: at least n; missing paths are filled up with 0, and their scores with LOWEST.
    """
    batch, n = scores.shape
    allowed = ops.stop_gradient(scores) > FORBIDDEN / 2
    # A row of length 0 has one path, the empty one.
    empty = ops.broadcast_to((lengths == 0).expand_dims(-1), allowed.shape)
    first = ops.broadcast_to(ops.arange(n) == 0, allowed.shape)
    scores = ops.select(empty, zeros_like(scores), scores)
    present = ops.stop_gradient(ops.select(empty, first, allowed))
    scores = ops.select(present, scores, LOWEST * ones_like(scores))
    paths = back_trace(history, last, lengths) // n               # (L, B, n)
    present = ops.logical_and(present, ops.equal(void, void).expand_dims(-1))
    kept = ops.logical_and(tensors.real(lengths, length).expand_dims(-1), present)        # (L, B, n)
    paths = ops.stop_gradient(paths * kept.astype(ms.int32))     # callers may pass them back as tags
    paths = ops.transpose(paths, (1, 2, 0))                      # (B, n, L)
    if count > n:
        paths = ops.concat((paths, ops.zeros((batch, count - n, length), ms.int32)), 1)
        scores = ops.concat((scores, ops.full((batch, count - n), LOWEST, dtype=ms.float32)), 1)
    return paths, scores + void.expand_dims(-1)


def best_paths(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, count: int,
               spans: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Paths (B, count, L) int32, 0 on padding, and scores (B, count), best first; LOWEST for missing paths.

    nan or +inf in the emissions of a row makes its scores nan, in other scores all scores. The paths are arbitrary
    then.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), entry t for the step from position t to t + 1; the last entry
            is not used.
        start, end: (K,) float32.
        count: number of paths, an int.
        spans: (K + 1, K + 1) int64, number of each step for spans, 0 to (K + 1) ** 2 - 1. Then each path is the
            best path of a set of spans, and no two paths describe the same spans.
    """
    length, batch, num_tags = emissions.shape
    emissions, transitions, start, end, void = _sortable(emissions, lengths, transitions, start, end)
    n = _at_most(count, num_tags, length)
    lowered, scores, total = _first_states(emissions, start, n)
    numbers = ops.zeros((batch, num_tags * n), ms.int64)
    if spans is not None:
        numbers = compact_numbers(ops.broadcast_to(_of_states(spans[num_tags, :num_tags], n), (batch, num_tags * n)))
    history = ()
    if length > 1:
        scores, numbers, total, history = _recursion(scores, numbers, total, lowered[1:], lengths, transitions, spans,
                                                     n)
    candidates = (scores + _of_states(end, n)).expand_dims(-1)   # (B, S, 1)
    if spans is None:
        last, scores = largest(candidates, n)                    # (B, 1, n)
    else:
        keys = numbers * (num_tags + 1) ** 2 + _of_states(spans[:num_tags, num_tags], n)
        last, scores, _ = best_of_distinct(candidates, keys.expand_dims(-1), n)
    return _chosen_paths(history, last[:, 0], scores[:, 0] + total, void, lengths, length, count)
