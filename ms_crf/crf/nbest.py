"""The n best paths: a Viterbi recursion that keeps n of them for each tag.

The n best sets of spans are the n best paths of which no two stand for the same spans. A step from one tag to the next
says something about spans (a span ends, one of this type begins, ...), which has a number. Paths stand for the same
spans if these numbers are the same at each step. So the recursion keeps, for each tag, the best path of each of n
different sequences of numbers. A path that is not kept has n better ones at this tag, and the same continuations.

Shapes: L length, B batch, K tags, S = K * n states, a state being (tag, rank) at tag * n + rank.
"""

from ms_crf.base.memory import check_memory
from ms_crf.crf import tensors
from ms_crf.crf.selection import ABSENT, LOWEST, ONE_BY_ONE, best_of_each, largest, numbered
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
from ms_crf.crf.viterbi import walk_back

import mindspore as ms
from mindspore import Tensor, ops


@ops.constexpr(check=False)
def checked_n(n: int, shape: tuple) -> int:
    """n as an int; the shape is that of the emissions."""
    check_count('n', n)
    check_shape_is_known('nbest', shape)
    check_memory(4 * int(n) * shape[0] * shape[1], f'the n best paths for n = {n}')
    return int(n)


@ops.constexpr
def _at_most(n: int, num_tags: int, length: int) -> int:
    """n, or the number of taggings if that is less."""
    return min(n, num_tags ** min(length, n.bit_length()))


def _steps_between_states(transitions: Tensor, n: int, blocks: int, size: int) -> Tensor:
    """Scores of steps from states to tags: (1, S, K) of transitions (K, K), (blocks, C, B, S, K) of those of steps."""
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
    """Emissions (T, B, K) as (blocks, C, B, K), 0 behind them, and where a step is real as (blocks, C, B) float32.

    In float32, since the compiler can't add up gradients of bools, not even zeros.

    Args:
        emissions: of the positions behind the first.
        lengths: (B,) int32, with the first.
        size: C, steps of a block.
    """
    length, batch, num_tags = emissions.shape
    blocks = (length + size - 1) // size
    following = tensors.continued(lengths, blocks * size).astype(ms.float32).reshape(blocks, size, batch)
    return pad_time(emissions, blocks * size).reshape(blocks, size, batch, num_tags), following


def _recursion(scores: Tensor, numbers: Tensor, total: Tensor, emissions: Tensor, lengths: Tensor,
               transitions: Tensor, spans: Tensor | None, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All steps after the first position.

    Args:
        scores: (B, S), of the n best paths up to each tag at the first position.
        numbers: (B, S) int64: paths of different numbers stand for different spans. Without spans it has no part.
        total: (B, 1), what was taken out of the scores.
        emissions: (T, B, K) of the positions after the first.
        lengths: (B,) int32.
        transitions: (K, K), or (T + 1, B, K, K), those of the step after each position.
        spans: (K + 1, K + 1) int64, what each step says about spans; None for paths.
        n: int.

    Returns:
        scores and numbers at each row's end, what was taken out of the scores, and the state before each state
        (T, B, S).
    """
    length, batch, num_tags = emissions.shape
    states, kinds = num_tags * n, (num_tags + 1) ** 2
    # Steps of a block: unrolled, they cost compilation; a loop writes all of the history at each turn.
    size = max(1, 16 // n) if spans is None and n <= ONE_BY_ONE else 4
    emissions, following = _in_blocks(emissions, lengths, size)
    blocks = following.shape[0]
    steps = _steps_between_states(transitions, n, blocks, size)
    said = numbers
    if spans is not None:
        said = _steps_between_states(spans[:num_tags, :num_tags], n, blocks, size)        # (1, S, K)
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
                chosen, values, keys = best_of_each(candidates, numbers.expand_dims(-1) * kinds + said, n)
                numbers = ops.select(move, numbered(keys.reshape(batch, states)), numbers)
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
    """Emissions and scores with other numbers where there is nan, of which sorting promises nothing, and nan or 0 for
    each row (B,), or for all (1,): to be added to its scores."""
    batch = emissions.shape[1]
    void, worthless = tensors.nan_in_rows(emissions, lengths), tensors.nan_in_scores(transitions, start, end)
    emissions = ops.masked_fill(emissions, ops.not_equal(void, void).reshape(1, batch, 1), 0.0)
    faulty = ops.not_equal(worthless, worthless)
    if len(transitions.shape) == 4:                              # then it is of rows
        transitions = ops.masked_fill(transitions, faulty.reshape(1, batch, 1, 1), 0.0)
        faulty = ops.not_equal(tensors.nan_in_scores(start.expand_dims(0), start, end), 0.0)
    transitions = ops.masked_fill(transitions, faulty, 0.0)
    start, end = ops.masked_fill(start, faulty, 0.0), ops.masked_fill(end, faulty, 0.0)
    void = void + worthless
    return emissions, transitions, start, end, ops.select(lengths > 0, void, zeros_like(void))


def _of_states(values: Tensor, n: int) -> Tensor:
    """Values of tags (K,) as those of states (S,)."""
    return ops.broadcast_to(values.expand_dims(-1), (values.shape[0], n)).reshape(-1)


def _first_states(emissions: Tensor, start: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions (L, B, K) with each position's largest brought to 0, scores (B, S) at the first position, and what was
    taken out of all positions (B, 1)."""
    _, batch, num_tags = emissions.shape
    peaks = largest_of(emissions)                                # (L, B, 1)
    lowered = emissions - peaks
    scores = (start + lowered[0]).expand_dims(-1)                # (B, K, 1)
    if n > 1:
        scores = ops.concat((scores, ops.full((batch, num_tags, n - 1), ABSENT, dtype=ms.float32)), 2)
    return lowered, scores.reshape(batch, num_tags * n), peaks.sum(0)


def _chosen_paths(history: Tensor, last: Tensor, scores: Tensor, void: Tensor, lengths: Tensor, length: int,
                 wanted: int) -> tuple[Tensor, Tensor]:
    """Paths (B, wanted, L) and scores (B, wanted) from what the recursion gives.

    Args:
        history: the state before each state (L - 1, B, S), () where L is 1.
        last: (B, n), the states at which the n paths end, best first.
        scores: (B, n).
        void: nan or 0, for each row (B,).
        lengths: (B,) int32.
        length: L.
        wanted: at least n.
    """
    batch, n = scores.shape
    allowed = ops.stop_gradient(scores) > FORBIDDEN / 2
    # A row of length 0 has one path, the empty one.
    empty = ops.broadcast_to((lengths == 0).expand_dims(-1), allowed.shape)
    first = ops.broadcast_to(ops.arange(n) == 0, allowed.shape)
    scores = ops.select(empty, zeros_like(scores), scores)
    present = ops.stop_gradient(ops.select(empty, first, allowed))
    scores = ops.select(present, scores, LOWEST * ones_like(scores))
    paths = walk_back(history, last, lengths) // n               # (L, B, n)
    present = ops.logical_and(present, ops.equal(void, void).expand_dims(-1))
    kept = ops.logical_and(tensors.real(lengths, length).expand_dims(-1), present)        # (L, B, n)
    paths = ops.stop_gradient(paths * kept.astype(ms.int32))     # they may come back as tags
    paths = ops.transpose(paths, (1, 2, 0))                      # (B, n, L)
    if wanted > n:
        paths = ops.concat((paths, ops.zeros((batch, wanted - n, length), ms.int32)), 1)
        scores = ops.concat((scores, ops.full((batch, wanted - n), LOWEST, dtype=ms.float32)), 1)
    return paths, scores + void.expand_dims(-1)


def best_paths(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, wanted: int,
               spans: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Paths (B, wanted, L) int32, 0 on padding, and scores (B, wanted), best first; LOWEST where there is none more.

    nan or +inf in the emissions of a row makes its scores nan, in the other scores all; the paths are some paths then.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), those of the step after each position, the last without meaning.
        start, end: (K,) float32.
        wanted: int, how many.
        spans: (K + 1, K + 1) int64, what each step says about spans, 0 to (K + 1) ** 2 - 1. Then each path is the best
            of a set of spans, and no two paths stand for the same spans.
    """
    length, batch, num_tags = emissions.shape
    emissions, transitions, start, end, void = _sortable(emissions, lengths, transitions, start, end)
    n = _at_most(wanted, num_tags, length)
    lowered, scores, total = _first_states(emissions, start, n)
    numbers = ops.zeros((batch, num_tags * n), ms.int64)
    if spans is not None:
        numbers = numbered(ops.broadcast_to(_of_states(spans[num_tags, :num_tags], n), (batch, num_tags * n)))
    history = ()
    if length > 1:
        scores, numbers, total, history = _recursion(scores, numbers, total, lowered[1:], lengths, transitions, spans,
                                                     n)
    candidates = (scores + _of_states(end, n)).expand_dims(-1)   # (B, S, 1)
    if spans is None:
        last, scores = largest(candidates, n)                    # (B, 1, n)
    else:
        keys = numbers * (num_tags + 1) ** 2 + _of_states(spans[:num_tags, num_tags], n)
        last, scores, _ = best_of_each(candidates, keys.expand_dims(-1), n)
    return _chosen_paths(history, last[:, 0], scores[:, 0] + total, void, lengths, length, wanted)
