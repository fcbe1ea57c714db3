"""The n best paths: a Viterbi recursion that keeps n of them for each tag.

Shapes: L length, B batch, K tags, S = K * n states, a state being (tag, rank) at tag * n + rank.
"""

from collections.abc import Sequence

from ms_crf.base.memory import check_memory
from ms_crf.crf import tensors
from ms_crf.crf.tensors import FORBIDDEN, MISMATCH, first_block, largest_of, ones_like, pad_time, put_block, zeros_like
from ms_crf.crf.validation import check_n, check_shape_is_known
from ms_crf.crf.viterbi import walk_back

import mindspore as ms
from mindspore import Tensor, ops

ABSENT = MISMATCH             # stands for a path that is not there
LOWEST = -3.4028234663852886e38
# Up to here the largest are taken one after the other; beyond, the graph would grow with n.
ONE_BY_ONE = 8


@ops.constexpr(check=False)
def checked_n(n: int, shape: tuple) -> int:
    """n as an int; the shape is that of the emissions."""
    check_n(n)
    check_shape_is_known('nbest', shape)
    check_memory(4 * int(n) * shape[0] * shape[1], f'the n best paths for n = {n}')
    return int(n)


@ops.constexpr
def at_most(n: int, num_tags: int, length: int) -> int:
    """n, or the number of taggings if that is less."""
    taggings = 1
    for _ in range(length):
        taggings *= num_tags
        if taggings >= n:
            return n
    return taggings


def _largest(candidates: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest over axis 1 of (B, S, M), the first of equals first: indices and values, both (B, M, n)."""
    if n > ONE_BY_ONE:
        return _largest_by_order(candidates, n)
    positions = ops.arange(candidates.shape[1]).astype(ms.int64).reshape(1, -1, 1)
    choose = ops.ArgMaxWithValue(1, True)
    indices, values = [], []
    for _ in range(n):
        index, value = choose(candidates)                        # (B, 1, M)
        indices.append(index)
        values.append(value)
        candidates = ops.select(ops.equal(positions, index), LOWEST * ones_like(candidates), candidates)
    return ops.transpose(ops.concat(indices, 1), (0, 2, 1)), ops.transpose(ops.concat(values, 1), (0, 2, 1))


def _largest_by_order(candidates: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The same by sorting: a graph and memory that don't grow with n."""
    chosen = in_order(candidates)[:, :, :n]
    return chosen, ops.gather_elements(ops.transpose(candidates, (0, 2, 1)), 2, chosen)


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


def steps_between_states(transitions: Tensor, n: int, blocks: int, size: int) -> Tensor:
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


def steps_at(steps: Tensor, index: Tensor, size: int) -> Sequence[Tensor]:
    """C of (1 or B, S, K): those of one block, from what `steps_between_states` gives."""
    if len(steps.shape) == 3:
        return [steps for _ in range(size)]
    return ops.unstack(ops.gather(steps, index, 0), 0)


def in_blocks(emissions: Tensor, lengths: Tensor, size: int) -> tuple[Tensor, Tensor]:
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


def _recursion(scores: Tensor, total: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor,
               n: int) -> tuple[Tensor, Tensor, Tensor]:
    """All steps after the first position.

    Args:
        scores: (B, S), of the n best paths up to each tag at the first position.
        total: (B, 1), what was taken out of the scores.
        emissions: (T, B, K) of the positions behind the first.
        lengths: (B,) int32.
        transitions: (K, K), or (T + 1, B, K, K), those of the step after each position.
        n: int.

    Returns:
        scores at each row's end, what was taken out of them, and the state before each state (T, B, S).
    """
    length, batch, num_tags = emissions.shape
    states = num_tags * n
    # Steps of a block: unrolled, they cost compilation; a loop writes all of the history at each turn.
    size = max(1, 16 // n) if n <= ONE_BY_ONE else 4
    emissions, following = in_blocks(emissions, lengths, size)
    blocks = following.shape[0]
    steps = steps_between_states(transitions, n, blocks, size)
    history = ops.zeros((blocks, size, batch, states), ms.int64)
    index = first_block()
    while index < blocks:
        emission = ops.gather(emissions, index, 0)               # (C, B, K)
        moves = ops.gather(following, index, 0)                  # (C, B)
        tables = steps_at(steps, index, size)
        backtrace = []
        for step in range(size):
            candidates = scores.expand_dims(-1) + tables[step] + emission[step].expand_dims(1)       # (B, S, K)
            chosen, values = _largest(candidates, n)             # (B, K, n)
            move = ops.broadcast_to(moves[step].expand_dims(-1), (batch, states)) > 0.0
            scores = ops.select(move, values.reshape(batch, states), scores)
            backtrace.append(chosen.reshape(batch, states))
        history = put_block(history, index, ops.stack(backtrace, 0))
        peak = largest_of(scores)
        scores = scores - peak
        total = total + peak
        index = index + 1
    return scores, total, history.reshape(blocks * size, batch, states)[:length]


def sortable(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
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


def of_states(values: Tensor, n: int) -> Tensor:
    """Values of tags (K,) as those of states (S,)."""
    return ops.broadcast_to(values.expand_dims(-1), (values.shape[0], n)).reshape(-1)


def first_states(emissions: Tensor, start: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions (L, B, K) with each position's largest brought to 0, scores (B, S) at the first position, and what was
    taken out of all positions (B, 1)."""
    _, batch, num_tags = emissions.shape
    peaks = largest_of(emissions)                                # (L, B, 1)
    lowered = emissions - peaks
    scores = (start + lowered[0]).expand_dims(-1)                # (B, K, 1)
    if n > 1:
        scores = ops.concat((scores, ops.full((batch, num_tags, n - 1), ABSENT, dtype=ms.float32)), 2)
    return lowered, scores.reshape(batch, num_tags * n), peaks.sum(0)


def chosen_paths(history: Tensor, last: Tensor, scores: Tensor, void: Tensor, lengths: Tensor, length: int,
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


def best_paths(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
               n: int) -> tuple[Tensor, Tensor]:
    """Paths (B, n, L) int32, 0 on padding, and scores (B, n), best first; LOWEST where there is no further path.

    nan or +inf in the emissions of a row makes its scores nan, in the other scores all; the paths are some paths then.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), those of the step after each position, the last without meaning.
        start, end: (K,) float32.
        n: int, how many.
    """
    wanted = checked_n(n, emissions.shape)
    length, _, num_tags = emissions.shape
    emissions, transitions, start, end, void = sortable(emissions, lengths, transitions, start, end)
    n = at_most(wanted, num_tags, length)
    lowered, scores, total = first_states(emissions, start, n)
    history = ()
    if length > 1:
        scores, total, history = _recursion(scores, total, lowered[1:], lengths, transitions, n)
    last, scores = _largest((scores + of_states(end, n)).expand_dims(-1), n)         # (B, 1, n)
    return chosen_paths(history, last[:, 0], scores[:, 0] + total, void, lengths, length, wanted)
