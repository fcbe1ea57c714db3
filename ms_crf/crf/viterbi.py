"""The best path: the Viterbi recursion and the back-trace through its choices, both in the graph.

Shapes: L length, B batch, K tags, T steps, S states that a path goes through (K, or K ranks times n).
"""

from collections.abc import Sequence
from typing import TypeAlias

from ms_crf.crf import tensors

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant

UNROLLED = 128  # a loop would cost 0.3 ms here, for 0.7 s less of compilation
SHORT = 64      # up to this many positions sums are small enough to round well as they are
STAY = -3e38    # keeps each tag where it is on padding: below any score
# Up to this B * K ** 3 joining steps pairwise beats going step by step: on 2 cores, at L = 128, 0.4 ms
# instead of 1.7 for B = 1, K = 9, 0.8 instead of 1.8 for B = 4, K = 9, as long for B = 1, K = 17.
PAIRWISE = 4096

History: TypeAlias = Tensor | tuple[()]   # a tensor (L - 1, B, S), or an empty tuple if L is 1


def _block(scores: Tensor, emissions: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """C steps, one after the other, two at a time: one leaves its result as a row, the next as a column,
    so that each is already laid out as the other needs it.

    Args:
        scores: (B, K), best path up to each tag.
        emissions: (C, B, K), C even.
        transitions: (K, K), or (C, B, K, K), one for each step.

    Returns:
        scores after each step (C, B, K) and the tags they came from (C, B, K).
    """
    size, batch, num_tags = emissions.shape
    half = size // 2
    odd, even = ops.Split(1, 2)(emissions.reshape(half, 2, batch, num_tags))
    rows = ops.unstack(odd.reshape(half, batch, 1, num_tags), 0)
    columns = ops.unstack(even.reshape(half, batch, num_tags, 1), 0)
    downs, acrosses = _by_turns(transitions, half)
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


def _by_turns(transitions: Tensor, half: int) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Transitions of the first, third, ... step of a block, (1 or B, i, j), and of the others, (1 or B, j, i)."""
    if len(transitions.shape) == 2:
        down = transitions.expand_dims(0)
        across = ops.transpose(transitions, (1, 0)).expand_dims(0)
        return [down for _ in range(half)], [across for _ in range(half)]
    _, batch, num_tags, _ = transitions.shape
    size = (half, batch, num_tags, num_tags)
    odd, even = ops.Split(1, 2)(transitions.reshape(half, 2, batch, num_tags, num_tags))
    return ops.unstack(odd.reshape(size), 0), ops.unstack(ops.transpose(even.reshape(size), (0, 1, 3, 2)), 0)


def _interleave(odd: Tensor, even: Tensor, shape: tuple) -> Tensor:
    """One of `odd`, one of `even`, along the first axis of the result."""
    half = (shape[0] // 2, 1, -1)
    return ops.concat((odd.reshape(half), even.reshape(half)), 1).reshape(shape)


def _in_blocks(first: Tensor, emissions: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (T, B, K) after each of T steps, and the tags (T, B, K) they came from, by a loop over blocks.

    Args:
        first: (B, K).
        emissions: (blocks, C, B, K), together T steps; C even.
        transitions: (K, K), or (blocks, C, B, K, K), one for each step.
    """
    blocks, size, batch, num_tags = emissions.shape
    scores = ops.zeros((blocks, size, batch, num_tags), ms.float32)
    history = ops.zeros((blocks, size, batch, num_tags), ms.int64)
    total = ops.zeros((batch, 1), ms.float32)
    index = tensors.first_block()
    while index < blocks:
        steps = transitions                                      # the same for all, or of each step
        if len(transitions.shape) > 2:
            steps = ops.gather(transitions, index, 0)
        block_scores, block_history = _block(first, ops.gather(emissions, index, 0), steps)
        scores = tensors.put_block(scores, index, block_scores + total)
        history = tensors.put_block(history, index, block_history)
        peak = tensors.largest_of(block_scores[-1])              # keeps long sums small: less to round
        first = block_scores[-1] - peak
        total = total + peak
        index = index + 1
    shape = (blocks * size, batch, num_tags)
    return scores.reshape(shape), history.reshape(shape)


def _pairwise(first: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (B, K) at each row's end and the tags (T, B, K) that each tag's best path came from.

    Steps are joined to tables of two, four, ... steps, and scores go back down from the largest table:
    2 log2(T) operations one after the other instead of T, for K times as much arithmetic.

    Args:
        first: (B, K).
        emissions: (T, B, K).
        lengths: (B,).
        transitions: (K, K).
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
    """Scores (B, K) of the best path that ends in each tag, and its history (L - 1, B, K).

    history[t, b, j] is the tag at t of the best path that has tag j at t + 1, the lowest of equals. What
    stands there after a row's end has no meaning. With one position there is no history: an empty tuple. The
    history is longer than L - 1 if the compiler does not know the length.

    Args:
        emissions: (L, B, K) float32; padding is not looked at.
        lengths: (B,) int32.
        transitions: (K, K) float32, entry (i, j) scores tag j after tag i; or (L, B, K, K), those of the step after
            each position.
        start, end: (K,) float32.
    """
    length, batch, num_tags = emissions.shape
    fixed = tensors.is_fixed(emissions)
    total = end
    if not fixed or length > SHORT:
        # Each position's largest is taken out and given back at the end: less to round.
        peaks = tensors.largest_of(emissions)                    # (L, B, 1)
        emissions = emissions - peaks
        live = tensors.real(lengths, length).expand_dims(-1)     # (L, B, 1)
        total = ops.select(live, peaks, tensors.zeros_like(peaks)).sum(0) + end  # (B, K)
    # Rows of length 0 have nothing there that may be looked at.
    first = start + ops.select((lengths > 0).expand_dims(-1), emissions[0], tensors.zeros_like(emissions[0]))  # (B, K)
    if fixed and length == 1:
        return first + total, ()
    alike = len(transitions.shape) == 2                          # at all steps
    if fixed and alike and batch * num_tags ** 3 <= PAIRWISE:
        scores, history = _pairwise(first, emissions[1:], lengths, transitions)
        return scores + total, history
    if fixed and alike:
        blocks, size = tensors.split_length(length - 1, UNROLLED)
    else:
        # One step more than there are, so that there is one in a sentence of one token.
        blocks, size = (length + tensors.SMALL_BLOCK - 1) // tensors.SMALL_BLOCK, tensors.SMALL_BLOCK
    later = tensors.pad_time(emissions, blocks * size + 1)[1:]
    if fixed and alike and blocks == 1:
        scores, history = _block(first, later, transitions)
    else:
        if not alike:
            transitions = tensors.pad_time(transitions, blocks * size).reshape(blocks, size, batch, num_tags, num_tags)
        scores, history = _in_blocks(first, later.reshape(blocks, size, batch, num_tags), transitions)
    if fixed:
        history = history[:length - 1]
    last_step = ops.broadcast_to(ops.maximum(lengths - 2, 0).reshape(1, -1, 1), first.expand_dims(0).shape)
    scores = ops.gather_elements(scores, 0, last_step)[0]        # at each row's end
    return ops.select((lengths > 1).expand_dims(-1), scores, first) + total, history


def walk_back(history: History, last: Tensor, lengths: Tensor) -> Tensor:
    """States of the paths that end in states `last` (B, n) at each row's last position.

    history[t] (B, S) maps a state at t + 1 to the one before it. Where the compiler knows how many there are, the maps
    are joined to maps over two, four, ... positions: log2(L) gathers instead of L.

    Args:
        history: (T, B, S), or an empty tuple if L is 1.
        last: (B, n).
        lengths: (B,); after a row's end the state stays.

    Returns:
        (T + 1, B, n) int32, or (T, B, n) where T is not known, at least L.
    """
    last = last.astype(ms.int32)
    if isinstance(history, tuple):
        return last.expand_dims(0)                               # (1, B, n)
    steps, batch, states = history.shape
    stay = ops.arange(states).astype(ms.int32)
    moves = ops.broadcast_to(tensors.continued(lengths, steps).expand_dims(-1), history.shape)
    maps = ops.select(moves, history.astype(ms.int32), ops.broadcast_to(stay, history.shape))   # maps[t]: t + 1 to t
    if not isconstant(steps):
        return _walk_in_blocks(maps, last)
    reach = 1
    while reach < steps:                                         # now maps[t]: from t + reach to t
        joined = ops.gather_elements(maps[:-reach], 2, maps[reach:])
        maps = ops.concat((joined, maps[-reach:]), 0)
        reach = reach * 2
    last = last.expand_dims(0)                                   # (1, B, n)
    index = ops.broadcast_to(last, (steps, batch, last.shape[-1]))
    return ops.concat((ops.gather_elements(maps, 2, index), last), 0)


def _walk_in_blocks(maps: Tensor, state: Tensor) -> Tensor:
    """States (T, B, n) before each step, from the maps (T, B, S) of whole blocks and the last states (B, n)."""
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
    """Best paths (L, B) int32, 0 on padding and in rows with a score of nan, and their scores (B,).

    Args:
        emissions, lengths, transitions, start, end: as of `best_scores`.
    """
    # Where all tags of a position are forbidden, all count alike: what is forbidden would hide the other scores.
    peaks = tensors.largest_of(emissions)                        # (L, B, 1)
    closed = tensors.clear_padding(ops.select(peaks < tensors.LEAST, peaks, tensors.zeros_like(peaks)), lengths)
    scores, history = best_scores(emissions - closed, lengths, transitions, start, end)
    last, score = ops.ArgMaxWithValue(1, True)(scores)           # (B, 1)
    score = score[:, 0]
    paths = walk_back(history, last, lengths)[:emissions.shape[0], :, 0]         # (L, B)
    kept = ops.logical_and(tensors.real(lengths, paths.shape[0]), ops.equal(score, score))
    paths = ops.stop_gradient(ops.select(kept, paths, tensors.zeros_like(paths)))  # they may come back as tags
    return paths, ops.select(lengths > 0, score, tensors.zeros_like(score)) + closed.sum((0, 2))
