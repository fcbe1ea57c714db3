"""The best path: the Viterbi recursion and the back-trace, both in the graph.

Shapes: L length, B batch, K tags, T steps, S states of a path (K, or K * n for n paths of each tag).
"""

from collections.abc import Sequence
from typing import TypeAlias

from ms_crf.crf import tensors

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant

UNROLLED = 128  # with this many steps, a loop costs 0.3 ms more to run and 0.7 s less to compile
SHORT = 64      # up to this many positions, rounding errors of sums are small
STAY = -3e38    # forbids a change of the tag on padding: below every score
# Up to this B * K ** 3, joining steps pairwise is faster than step by step: on 2 cores, with L = 128, 0.4 ms
# instead of 1.7 for B = 1, K = 9; 0.8 instead of 1.8 for B = 4, K = 9; the same time for B = 1, K = 17.
PAIRWISE = 4096

History: TypeAlias = Tensor | tuple[()]   # a tensor (L - 1, B, S), or an empty tuple if L is 1


def _block(scores: Tensor, emissions: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """C steps, computed in pairs: odd steps return rows, even steps return columns, so that no step has to transpose.

    Args:
        scores: (B, K), of the best path to each tag.
        emissions: (C, B, K), C even.
        transitions: (K, K), or (C, B, K, K) for each step.

    Returns:
        Scores after each step (C, B, K), and the previous tags (C, B, K).
    """
    size, batch, num_tags = emissions.shape
    half = size // 2
    odd, even = ops.Split(1, 2)(emissions.reshape(half, 2, batch, num_tags))
    rows = ops.unstack(odd.reshape(half, batch, 1, num_tags), 0)
    columns = ops.unstack(even.reshape(half, batch, num_tags, 1), 0)
    downs, acrosses = _alternating_transitions(transitions, half)
    best_of_rows, best_of_columns = ops.ArgMaxWithValue(1, True), ops.ArgMaxWithValue(2, True)
    scores = scores.expand_dims(2)                               # (B, K, 1)
    row_scores, row_tags, column_scores, column_tags = [], [], [], []
    for row, column, down, across in zip(rows, columns, downs, acrosses):
        chosen, scores = best_of_rows(scores + down)             # (B, 1, K)
        scores = scores + row
        row_tags.append(chosen)
        row_scores.append(scores)
        chosen, scores = best_of_columns(scores + across)        # (B, K, 1)
        scores = scores + column
        column_tags.append(chosen)
        column_scores.append(scores)
    return (_interleave(ops.concat(row_scores, 0), ops.concat(column_scores, 0), emissions.shape),
            _interleave(ops.concat(row_tags, 0), ops.concat(column_tags, 0), emissions.shape))


def _alternating_transitions(transitions: Tensor, half: int) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Transitions of the odd steps of a block, (1 or B, i, j), and of the even steps, (1 or B, j, i).

    Args:
        transitions: (K, K), or (C, B, K, K) for each step.
        half: C / 2.
    """
    if len(transitions.shape) == 2:
        down = transitions.expand_dims(0)
        across = ops.transpose(transitions, (1, 0)).expand_dims(0)
        return [down for _ in range(half)], [across for _ in range(half)]
    _, batch, num_tags, _ = transitions.shape
    size = (half, batch, num_tags, num_tags)
    odd, even = ops.Split(1, 2)(transitions.reshape(half, 2, batch, num_tags, num_tags))
    return ops.unstack(odd.reshape(size), 0), ops.unstack(ops.transpose(even.reshape(size), (0, 1, 3, 2)), 0)


def _interleave(odd: Tensor, even: Tensor, shape: tuple) -> Tensor:
    """The entries of `odd` and `even`, alternating along the first axis of the result."""
    half = (shape[0] // 2, 1, -1)
    return ops.concat((odd.reshape(half), even.reshape(half)), 1).reshape(shape)


def _in_blocks(first: Tensor, emissions: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """T steps in a loop over blocks.

    Args:
        first: (B, K), scores at the first position.
        emissions: (blocks, C, B, K), together T steps; C even.
        transitions: (K, K), or (blocks, C, B, K, K) for each step.

    Returns:
        Scores after each step (T, B, K), and the previous tags (T, B, K).
    """
    blocks, size, batch, num_tags = emissions.shape
    scores = ops.zeros((blocks, size, batch, num_tags), ms.float32)
    history = ops.zeros((blocks, size, batch, num_tags), ms.int64)
    total = ops.zeros((batch, 1), ms.float32)
    index = tensors.first_block()
    while index < blocks:
        steps = transitions                                      # the same for all steps, or separate
        if len(transitions.shape) > 2:
            steps = ops.gather(transitions, index, 0)
        block_scores, block_history = _block(first, ops.gather(emissions, index, 0), steps)
        scores = tensors.put_block(scores, index, block_scores + total)
        history = tensors.put_block(history, index, block_history)
        peak = tensors.largest_of(block_scores[-1])              # long sums stay small, with smaller rounding errors
        first = block_scores[-1] - peak
        total = total + peak
        index = index + 1
    shape = (blocks * size, batch, num_tags)
    return scores.reshape(shape), history.reshape(shape)


def _pairwise(first: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """T steps by joining neighbouring steps in pairs, in a logarithmic number of operations.

    Steps are joined to tables of two, four, ... steps. Then scores are computed from the largest table down to single
    steps. This takes 2 log2(T) operations one after the other instead of T, and K times as much arithmetic.

    Args:
        first: (B, K), scores at the first position.
        emissions: (T, B, K).
        lengths: (B,).
        transitions: (K, K).

    Returns:
        Scores (B, K) at the end of each row, and the previous tag of each tag (T, B, K).
    """
    real_steps, batch, num_tags = emissions.shape
    steps = 2
    while steps < real_steps:
        steps = steps * 2
    emissions = tensors.pad_time(emissions, steps)
    stay = STAY * (1.0 - ops.eye(num_tags, num_tags, ms.float32))
    live = tensors.continued(lengths, steps).reshape(steps, batch, 1, 1)
    table = ops.select(live, emissions.expand_dims(2) + transitions, stay)        # (T, B, K, K)

    best_middle = ops.ArgMaxWithValue(3)
    halves = []                                                  # (T/2, 2, B*K*K), (T/4, ...), ... (1, ...)
    while steps > 1:
        steps = steps // 2
        halves.append(table.reshape(steps, 2, batch * num_tags * num_tags))
        left, right = ops.Split(1, 2)(halves[-1])
        _, table = best_middle(left.reshape(steps, batch, num_tags, num_tags, 1)
                               + right.reshape(steps, batch, 1, num_tags, num_tags))

    best_previous = ops.ArgMaxWithValue(2)
    scores = first.reshape(1, batch, num_tags, 1)                # before each table of a level
    for level in halves[:0:-1]:
        steps = level.shape[0]
        left, _ = ops.Split(1, 2)(level)
        _, between = best_previous(scores + left.reshape(steps, batch, num_tags, num_tags))
        scores = _interleave(scores, between, (2 * steps, batch, num_tags, 1))
    left, right = ops.Split(1, 2)(halves[0])
    shape = (halves[0].shape[0], batch, num_tags, num_tags)
    odd, between = best_previous(scores + left.reshape(shape))
    even, scores = best_previous(between.expand_dims(-1) + right.reshape(shape))
    return scores[-1], _interleave(odd, even, (2 * shape[0], batch, num_tags))[:real_steps]


def best_scores(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                end: Tensor) -> tuple[Tensor, History]:
    """Scores (B, K) of the best path that ends in each tag, and the history (L - 1, B, K).

    history[t, b, j] is the tag at t of the best path that has tag j at t + 1; of equals, the lowest. Entries after the
    end of a row have no meaning. If length is 1, the history is an empty tuple. If the compiler does not know the
    length, the history can be longer than L - 1.

    Args:
        emissions: (L, B, K) float32; padding has no effect.
        lengths: (B,) int32.
        transitions: (K, K) float32, entry (i, j) scores tag j after tag i; or (L, B, K, K), entry t for the step from
            position t to t + 1.
        start, end: (K,) float32.
    """
    length, batch, num_tags = emissions.shape
    fixed = tensors.is_fixed(emissions)
    total = end
    if not fixed or length > SHORT:
        # The largest of each position is subtracted here and added at the end, for smaller rounding errors.
        peaks = tensors.largest_of(emissions)                    # (L, B, 1)
        emissions = emissions - peaks
        live = tensors.real(lengths, length).expand_dims(-1)     # (L, B, 1)
        total = ops.select(live, peaks, tensors.zeros_like(peaks)).sum(0) + end  # (B, K)
    # Rows of length 0 have no first position.
    first = start + ops.select((lengths > 0).expand_dims(-1), emissions[0], tensors.zeros_like(emissions[0]))  # (B, K)
    if fixed and length == 1:
        return first + total, ()
    constant = len(transitions.shape) == 2                       # the same transitions at all steps
    if fixed and constant and batch * num_tags ** 3 <= PAIRWISE:
        scores, history = _pairwise(first, emissions[1:], lengths, transitions)
        return scores + total, history
    if fixed and constant:
        blocks, size = tensors.split_length(length - 1, UNROLLED)
    else:
        # One additional step, so that a sentence of one token has a step.
        blocks, size = (length + tensors.SMALL_BLOCK - 1) // tensors.SMALL_BLOCK, tensors.SMALL_BLOCK
    later = tensors.pad_time(emissions, blocks * size + 1)[1:]
    if fixed and constant and blocks == 1:
        scores, history = _block(first, later, transitions)
    else:
        if not constant:
            transitions = tensors.pad_time(transitions, blocks * size).reshape(blocks, size, batch, num_tags, num_tags)
        scores, history = _in_blocks(first, later.reshape(blocks, size, batch, num_tags), transitions)
    if fixed:
        history = history[:length - 1]
    last_step = ops.broadcast_to(ops.maximum(lengths - 2, 0).reshape(1, -1, 1), first.expand_dims(0).shape)
    scores = ops.gather_elements(scores, 0, last_step)[0]        # at each row's end
    return ops.select((lengths > 1).expand_dims(-1), scores, first) + total, history


def back_trace(history: History, last: Tensor, lengths: Tensor) -> Tensor:
    """States of the paths that end in states `last` at the last position of each row.

    history[t] (B, S) maps a state at t + 1 to the previous state. If the compiler knows the number of maps, they are
    joined
    to maps over two, four, ... positions: log2(L) gathers instead of L.

    Args:
        history: (T, B, S), or an empty tuple if L is 1.
        last: (B, n).
        lengths: (B,); after the end of a row the state does not change.

    Returns:
        (T + 1, B, n) int32; or (T, B, n), at least L, if the compiler does not know T.
    """
    last = last.astype(ms.int32)
    if isinstance(history, tuple):
        return last.expand_dims(0)                               # (1, B, n)
    steps, batch, states = history.shape
    stay = ops.arange(states).astype(ms.int32)
    moves = ops.broadcast_to(tensors.continued(lengths, steps).expand_dims(-1), history.shape)
    maps = ops.select(moves, history.astype(ms.int32), ops.broadcast_to(stay, history.shape))   # maps[t]: t + 1 to t
    if not isconstant(steps):
        return _back_trace_in_blocks(maps, last)
    reach = 1
    while reach < steps:                                         # now maps[t]: from t + reach to t
        joined = ops.gather_elements(maps[:-reach], 2, maps[reach:])
        maps = ops.concat((joined, maps[-reach:]), 0)
        reach = reach * 2
    last = last.expand_dims(0)                                   # (1, B, n)
    index = ops.broadcast_to(last, (steps, batch, last.shape[-1]))
    return ops.concat((ops.gather_elements(maps, 2, index), last), 0)


def _back_trace_in_blocks(maps: Tensor, state: Tensor) -> Tensor:
    """States (T, B, n) before each step, in a loop over blocks.

    Args:
        maps: (T, B, S), a whole number of blocks.
        state: (B, n), the last states.
    """
    steps, batch, states = maps.shape
    blocks, chains = steps // tensors.SMALL_BLOCK, state.shape[1]
    maps = maps.reshape(blocks, tensors.SMALL_BLOCK, batch, states)
    paths = ops.zeros((blocks, tensors.SMALL_BLOCK, batch, chains), ms.int32)
    done = tensors.first_block()
    while done < blocks:
        index = blocks - 1 - done
        block = ops.gather(maps, index, 0)                       # (C, B, S)
        before = []
        for step in range(tensors.SMALL_BLOCK):
            state = ops.gather_elements(block[tensors.SMALL_BLOCK - 1 - step], 1, state)
            before.append(state)
        paths = tensors.put_block(paths, index, ops.stack(before[::-1], 0))
        done = done + 1
    return paths.reshape(blocks * tensors.SMALL_BLOCK, batch, chains)


def best_paths_of(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                  end: Tensor) -> tuple[Tensor, Tensor]:
    """Best paths (L, B) int32, 0 on padding and in rows whose score is nan, and their scores (B,).

    Args:
        emissions, lengths, transitions, start, end: as in `best_scores`.
    """
    # If all tags of a position are forbidden, FORBIDDEN would hide the other scores. So it is subtracted there.
    peaks = tensors.largest_of(emissions)                        # (L, B, 1)
    closed = tensors.clear_padding(ops.select(peaks < tensors.LEAST, peaks, tensors.zeros_like(peaks)), lengths)
    scores, history = best_scores(emissions - closed, lengths, transitions, start, end)
    last, score = ops.ArgMaxWithValue(1, True)(scores)           # (B, 1)
    score = score[:, 0]
    paths = back_trace(history, last, lengths)[:emissions.shape[0], :, 0]         # (L, B)
    kept = ops.logical_and(tensors.real(lengths, paths.shape[0]), ops.equal(score, score))
    paths = ops.stop_gradient(ops.select(kept, paths, tensors.zeros_like(paths)))  # callers may pass them back as tags
    return paths, ops.select(lengths > 0, score, tensors.zeros_like(score)) + closed.sum((0, 2))
