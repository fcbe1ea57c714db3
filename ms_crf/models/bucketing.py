"""Buckets: batches of sentences of similar length, with few different shapes and little padding.

No sentence is cut or left out.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:                # `learning` imports this module
    from ms_crf.models.learning import Corpus

S = TypeVar('S', bound='Shape')

BUCKET_COST = 8000         # padded tokens per epoch that a bucket must save to be worth its compilation
TAGGING_COST = 200_000     # the same for tagging, in all text so far: 0.8 s to compile, 3 to 4 µs for a padded token
ROOM = 512                 # batches of longer sentences have fewer rows, so that memory stays bounded
TAGGING_ROOM = 128         # the same for tagging, where a batch has more rows


class Shape(Protocol):
    """The shape of a batch."""

    @property
    def length(self) -> int:
        """The length to which sentences are padded."""

    @property
    def rows(self) -> int:
        """The number of sentences."""


class RowShape(NamedTuple):
    """The shape of the batches of a bucket."""

    length: int
    rows: int


def row_shapes(sizes: np.ndarray, batch_size: int) -> list[RowShape]:
    """The shapes of batches for sentences of these sizes, shortest first."""
    return [RowShape(length, max(1, min(batch_size, batch_size * ROOM // length))) for length in bucket_lengths(sizes)]


def cut_rows(shape: S, indices: np.ndarray) -> list[tuple[S, np.ndarray]]:
    """Batches (shape, indices of sentences) of `shape.rows` sentences each; the last may have fewer."""
    return [(shape, indices[first:first + shape.rows]) for first in range(0, len(indices), shape.rows)]


def bucket_lengths(lengths: np.ndarray) -> list[int]:
    """The lengths of the buckets of a training, chosen to minimise padding plus the cost of compilation.

    Args:
        lengths: lengths of all sentences.
    """
    distinct, counts = np.unique(lengths, return_counts=True)
    return buckets(distinct.tolist(), counts, BUCKET_COST)


def buckets(lengths: list[int], counts: np.ndarray, cost: int, compiled: Iterable[int] = ()) -> list[int]:
    """The lengths of buckets that minimise the padded tokens plus the cost of all lengths.

    Args:
        lengths: the possible lengths, in ascending order.
        counts: number of sentences of each length.
        cost: cost of another length, in padded tokens.
        compiled: lengths without cost, because their graphs are compiled already.

    Returns:
        The chosen lengths, in ascending order.
    """
    compiled = set(compiled)
    by_length = dict.fromkeys(compiled, 0)
    by_length.update(zip(lengths, counts.tolist()))
    lengths = sorted(by_length)
    below = np.cumsum([0, *(by_length[length] for length in lengths)]).tolist()
    # least[j]: lowest cost of buckets for the j shortest lengths. The last bucket begins at last[j].
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
    """(shape, indices of sentences) of all batches: in random order, or shortest sentences first.

    Args:
        shapes: shapes for all sentences, shortest first.
        lengths: lengths of the sentences; sentences of length 0 are in no batch.
        cut: function that divides the sentences of a shape into batches (shape, indices).
        generator: random generator for the order of sentences and batches; None for shortest first.
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
    """The arrays of a batch of sentences, for training, tagging and exported graphs."""

    values: np.ndarray         # (length, rows, ...) int32, the input of the model for each token
    lengths: np.ndarray        # (rows,) int32, 0 for rows without a sentence
    tags: np.ndarray           # (length, rows) int32 ids, 0 for padding; or (length, rows, tags) bool


def token_batch(encoded: 'Corpus', values: Sequence[np.ndarray], shape: tuple[int, int], indices: np.ndarray,
                filler: int = 0) -> TokenBatch:
    """The batch of some sentences.

    Args:
        encoded: the corpus: `lengths` of all sentences, and `tags`, the result of `Tags.gold` or None.
        values: the input of the model for the tokens of each sentence: arrays (tokens, ...).
        shape: (length, rows) of the batch.
        indices: indices of the sentences.
        filler: the value of padding.
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
    """The row of each item and its position in the row, for consecutive rows with the lengths `lengths`."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


class TaggingShapes:
    """Shapes of batches for text that is not known in advance: few at first, more as they save enough padding.

    Args:
        rows: number of rows of a batch.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self._lock = rows, threading.Lock()
        self.lengths: list[int] = []
        self._seen = np.zeros(1, np.int64)       # number of sentences of each rung so far

    def plan(self, lengths: np.ndarray) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """((length, rows), indices of sentences) of all batches, shortest sentences first.

        Args:
            lengths: lengths of all sentences.
        """
        with self._lock:                         # several threads may plan and tag at the same time
            self._learn(lengths)
            sizes = self.lengths
        order = np.argsort(lengths, kind='stable')
        ends = np.searchsorted(lengths[order], sizes, 'right').tolist()
        first = 0
        for length, end in zip(sizes, ends):
            rows = max(1, min(self.rows, self.rows * TAGGING_ROOM // length))
            left = (end - first) % rows
            if end < ends[-1] and left < rows / 2:               # a batch of mostly padding: use the next length
                end -= left
            for start in range(first, end, rows):
                yield (length, rows), order[start:min(start + rows, end)]
            first = end

    def _learn(self, lengths: np.ndarray) -> None:
        """Adds lengths that are worth compiling, after counting the lengths of new sentences."""
        longest = int(lengths.max())
        if not self.lengths or longest > self.lengths[-1]:
            # A coarse step, because the next text may have slightly longer sentences.
            self.lengths = [*self.lengths, rung(longest, 3)]
        counts = np.bincount([rung(length) for length in lengths.tolist()], minlength=len(self._seen))
        counts[:len(self._seen)] += self._seen
        self._seen = counts
        rungs = np.flatnonzero(counts)
        self.lengths = sorted({*self.lengths, *buckets(rungs.tolist(), counts[rungs], TAGGING_COST, self.lengths)})


def rung(length: int, steps: int = 8) -> int:
    """The smallest of a series of lengths that holds `length`: 8, 16, ... 64, 80, ... 128, 160, ...

    Args:
        length: at least 1.
        steps: number of steps of equal size before the step size doubles; with 3: 16, 24, 32, 48, 64, 96, ...
    """
    step = 8
    while length > steps * step:
        step *= 2
    return max(16 if steps < 8 else 8, -(-length // step) * step)
