"""Sentences in buckets of similar length, so that few shapes are compiled and little is padded.

No sentence is cut or left out.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:                # which imports this module
    from ms_crf.models.learning import Corpus

S = TypeVar('S', bound='Shape')

BUCKET_COST = 8000         # padded tokens an epoch that a bucket must save to be worth its compilation
TAGGING_COST = 200_000     # the same for tagging, in all text so far: 0.8 s to compile, 3 to 4 µs a padded token
ROOM = 512                 # buckets for longer sentences have fewer rows, so that memory stays bounded
TAGGING_ROOM = 128         # the same for tagging, where a batch has more rows


class Shape(Protocol):
    """The shape of batches."""

    @property
    def length(self) -> int:
        """Of the longest sentence that fits."""

    @property
    def rows(self) -> int:
        """How many sentences fit."""


class RowShape(NamedTuple):
    """Of a bucket's batches."""

    length: int
    rows: int


def row_shapes(sizes: np.ndarray, batch_size: int) -> list[RowShape]:
    """Shapes for sentences of these sizes, shortest first."""
    return [RowShape(length, max(1, min(batch_size, batch_size * ROOM // length))) for length in bucket_lengths(sizes)]


def cut_rows(shape: S, indices: np.ndarray) -> list[tuple[S, np.ndarray]]:
    """Batches (shape, indices of sentences) of as many sentences as there are rows."""
    return [(shape, indices[first:first + shape.rows]) for first in range(0, len(indices), shape.rows)]


def bucket_lengths(lengths: np.ndarray) -> list[int]:
    """The lengths to pad to in training: as many as are worth compiling, chosen so that padding is least.

    Args:
        lengths: of all sentences.
    """
    distinct, counts = np.unique(lengths, return_counts=True)
    return buckets(distinct.tolist(), counts, BUCKET_COST)


def buckets(lengths: list[int], counts: np.ndarray, cost: int, compiled: Iterable[int] = ()) -> list[int]:
    """Which of some lengths to pad to, so that padded tokens and the cost of each length are least together.

    Args:
        lengths: in ascending order.
        counts: how many sentences there are of each.
        cost: of one more length, in padded tokens.
        compiled: lengths that cost nothing.

    Returns:
        The lengths that are chosen, in ascending order.
    """
    compiled = set(compiled)
    by_length = dict.fromkeys(compiled, 0)
    by_length.update(zip(lengths, counts.tolist()))
    lengths = sorted(by_length)
    below = np.cumsum([0, *(by_length[length] for length in lengths)]).tolist()
    # least[j]: cost of putting the j shortest lengths into buckets, the last of which begins at last[j].
    least, last = [0], [0]
    for end, length in enumerate(lengths, 1):
        costs = [least[start] + length * (below[end] - below[start]) for start in range(end)]
        last.append(int(np.argmin(costs)))
        least.append(costs[last[-1]] + cost * (length not in compiled))
    chosen, end = [], len(lengths)
    while end:
        if below[end] > below[last[end]]:
            chosen.append(lengths[end - 1])
        end = last[end]
    return chosen[::-1]


def plan(shapes: Sequence[S], lengths: np.ndarray, cut: Callable[[S, np.ndarray], list[tuple[S, np.ndarray]]],
         generator: np.random.Generator | None = None) -> list[tuple[S, np.ndarray]]:
    """(shape, indices of sentences) of every batch: in random order, or the shortest sentences first.

    Args:
        shapes: shortest first, that all sentences fit into.
        lengths: of the sentences; those of length 0 are in no batch.
        cut: a function of a shape and the sentences that fit into it, to their batches (shape, indices).
        generator: of the random order; None for the shortest first.
    """
    batches: list[tuple[S, np.ndarray]] = []
    shorter = 0
    for shape in shapes:
        inside = np.flatnonzero((lengths > shorter) & (lengths <= shape.length))
        if generator is None:
            inside = inside[np.argsort(lengths[inside], kind='stable')]
        else:
            inside = generator.permutation(inside)
        batches += cut(shape, inside)
        shorter = shape.length
    if generator is not None:
        batches = [batches[index] for index in generator.permutation(len(batches))]
    return batches


class TokenBatch(NamedTuple):
    """Sentences side by side, as training, tagging and exported graphs have them."""

    values: np.ndarray         # (length, rows, ...) int32, what the model knows of each token
    lengths: np.ndarray        # (rows,) int32, 0 where there is no sentence
    tags: np.ndarray           # (length, rows) int32 ids, 0 where there are none; or (length, rows, tags) bool


def token_batch(encoded: 'Corpus', values: Sequence[np.ndarray], shape: tuple[int, int], indices: np.ndarray,
                filler: int = 0) -> TokenBatch:
    """The batch of some sentences.

    Args:
        encoded: the corpus: `lengths` of all sentences, and `tags`, for each what `Tags.gold` gave, or None.
        values: for each sentence what is known of its tokens, (tokens, ...).
        shape: (length, rows) that the sentences fit into.
        indices: of the sentences.
        filler: what stands behind a sentence's end in place of values.
    """
    length, rows = shape
    lengths = np.zeros(rows, np.int32)
    lengths[:len(indices)] = encoded.lengths[indices]
    row, position = spread(lengths)

    def padded(sequences: Sequence[np.ndarray], filler: int) -> np.ndarray:
        items = np.concatenate([sequences[index] for index in indices])
        array = np.full((length, rows, *items.shape[1:]), filler, bool if items.dtype == bool else np.int32)
        array[position, row] = items
        return array

    tags = np.zeros((length, rows), np.int32) if encoded.tags is None else padded(encoded.tags, 0)
    return TokenBatch(padded(values, filler), lengths, tags)


def spread(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For rows of these lengths, one after the other: the row of each item, and its position there."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


class TaggingShapes:
    """Shapes of batches for text that is not known beforehand: few at first, more as they turn out to be worth it.

    Args:
        rows: of a batch.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self._lock = rows, threading.Lock()
        self.lengths: list[int] = []
        self._seen = np.zeros(1, np.int64)       # how many sentences there were of each rung

    def plan(self, lengths: np.ndarray) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """((length, rows), indices of sentences) of every batch, the shortest sentences first.

        Args:
            lengths: of all sentences.
        """
        with self._lock:                         # several threads may tag, each after its own plan
            self._learn(lengths)
            sizes = self.lengths
        order = np.argsort(lengths, kind='stable')
        ends = np.searchsorted(lengths[order], sizes, 'right').tolist()
        first = 0
        for length, end in zip(sizes, ends):
            rows = max(1, min(self.rows, self.rows * TAGGING_ROOM // length))
            left = (end - first) % rows
            if end < ends[-1] and left < rows / 2:               # a batch that would be mostly filler
                end -= left
            for start in range(first, end, rows):
                yield (length, rows), order[start:min(start + rows, end)]
            first = end

    def _learn(self, lengths: np.ndarray) -> None:
        longest = int(lengths.max())
        if not self.lengths or longest > self.lengths[-1]:
            # A coarse step, for the next may be a little longer.
            self.lengths = [*self.lengths, rung(longest, 3)]
        counts = np.bincount([rung(length) for length in lengths.tolist()], minlength=len(self._seen))
        counts[:len(self._seen)] += self._seen
        self._seen = counts
        rungs = np.flatnonzero(counts)
        self.lengths = sorted({*self.lengths, *buckets(rungs.tolist(), counts[rungs], TAGGING_COST, self.lengths)})


def rung(length: int, steps: int = 8) -> int:
    """The least step of a ladder that a length fits into: 8, 16, ... 64, 80, ... 128, 160, ...

    Args:
        length: from 1.
        steps: how many of 8 there are before they become twice as long, and again; with 3: 16, 24, 32, 48, 64, 96, ...
    """
    step = 8
    while length > steps * step:
        step *= 2
    return max(16 if steps < 8 else 8, -(-length // step) * step)
