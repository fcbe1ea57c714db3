"""Vectors for words that have none, from the n-grams of their characters.

Each n-gram gets a vector such that those of a word, added up and divided by the square root of their number, come near
the vector that the word has: a least-squares problem over words with vectors, with a ridge that keeps the numbers small
(Zhao, Mudgal and Liang 2018 learn bags of n-grams from vectors of words in much the same way). Words whose parts say
something, as endings of places do, names run together and misspelt words, come to lie where they belong.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

SHORTEST, LONGEST = 3, 5         # characters of an n-gram, '<' and '>' for the ends of a word among them
SIZES = range(SHORTEST, LONGEST + 1)
MOST = 48                        # n-grams of a word that are looked at: those of its first characters
OFTEN = 3                        # words in which an n-gram must occur
FITTED = 50_000                  # words of a file that are learned from, beside those of the text
RIDGE, STEPS = 1.0, 5            # weight of the squares of the numbers, and steps of conjugate gradients
COLUMNS = 25                     # of the vectors that are computed at a time


def ngrams_of(word: str) -> list[str]:
    """The distinct n-grams of a word in lower case, by their first characters; at most MOST."""
    marked = f'<{word.lower()[:MOST]}>'
    length = len(marked)
    found = [marked[start:start + size] for start in range(length - SHORTEST + 1) for size in SIZES
             if start + size <= length]
    return list(dict.fromkeys(found))[:MOST]


def has_letters(word: str) -> bool:
    """Whether there is a letter in a word; n-grams say nothing of numbers and marks."""
    return any(map(str.isalpha, word))


def learn(vectors: Mapping[str, np.ndarray]) -> tuple[list[str], np.ndarray]:
    """N-grams, and a table of their vectors.

    Args:
        vectors: of words, all of one width.

    Returns:
        n-grams, and (1 + n-grams, width) float32, a row of 0 and their vectors; the words' mean is not in them. Without
        any n-gram the table is of that one row.
    """
    words = {word: ngrams_of(word) for word in vectors if has_letters(word)}
    counts = Counter(chain.from_iterable(words.values()))
    ngrams = [ngram for ngram, count in counts.items() if count >= OFTEN]
    ids = dict(zip(ngrams, range(len(ngrams))))
    found = {word: known for word, parts in words.items() if (known := [ids[part] for part in parts if part in ids])}
    width = len(next(iter(vectors.values()), ()))
    if not found:
        return [], np.zeros((1, width), np.float32)
    product = Product(list(found.values()), len(ngrams))
    wanted = np.array([vectors[word] for word in found], np.float32)
    wanted -= wanted.mean(0)
    table = np.zeros((1 + len(ngrams), width), np.float32)
    for first in range(0, width, COLUMNS):
        part = slice(first, first + COLUMNS)
        table[1:, part] = least_squares(product, np.ascontiguousarray(wanted[:, part]))
    return ngrams, table


def composed(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of words from those of their n-grams.

    Args:
        table: (1 + n-grams, width), the vectors of n-grams behind one of 0.
        ids: (words, MOST), rows of the table, 0 for none.

    Returns:
        (words, width), and which words have n-grams, (words,) bools.
    """
    counts = np.count_nonzero(ids, 1)
    found, made = counts > 0, np.zeros((len(ids), table.shape[1]), np.float32)
    if found.any():
        some = counts[found]
        sums = np.add.reduceat(table[ids[ids > 0]], np.cumsum(some) - some)
        made[found] = sums / np.sqrt(some)[:, None]
    return made, found


class Product:
    """Products with the sparse matrix X (rows, columns) of what n-grams words have, and with its transpose.

    A row with n entries has 1 / sqrt(n) in each of them.

    Args:
        rows: for each row the columns of its entries, at least one.
        columns: how many there are; each has an entry.
    """

    def __init__(self, rows: Sequence[Sequence[int]], columns: int) -> None:
        sizes = np.array([len(row) for row in rows])
        self._columns = np.fromiter(chain.from_iterable(rows), np.int64, sizes.sum())
        self._starts = np.cumsum(sizes) - sizes
        self._share = (1 / np.sqrt(sizes)).astype(np.float32)[:, None]
        self._rows = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(self._columns, kind='stable')]
        by_column = np.bincount(self._columns, minlength=columns)
        self._column_starts = np.cumsum(by_column) - by_column
        #: (columns, 1), the diagonal of X.T @ X
        self.diagonal = self.transposed_times(np.broadcast_to(self._share, (len(sizes), 1)))

    def times(self, values: np.ndarray) -> np.ndarray:
        """X @ values: (columns, width) to (rows, width)."""
        return np.add.reduceat(values[self._columns], self._starts) * self._share

    def transposed_times(self, values: np.ndarray) -> np.ndarray:
        """X.T @ values: (rows, width) to (columns, width)."""
        return np.add.reduceat((values * self._share)[self._rows], self._column_starts)


def least_squares(product: Product, wanted: np.ndarray) -> np.ndarray:
    """W (columns, width) that makes |X W - wanted|² + RIDGE |W|² small, by conjugate gradients for each of its columns.

    Dividing by the diagonal of X.T @ X + RIDGE before each step makes a few of them enough: some n-grams occur in three
    words, others in thousands.

    Args:
        product: of X.
        wanted: (rows, width).
    """
    diagonal = product.diagonal + RIDGE
    residual = product.transposed_times(wanted)
    scaled = residual / diagonal
    found, direction, squares = np.zeros_like(residual), scaled, (residual * scaled).sum(0)
    for _ in range(STEPS):
        image = product.transposed_times(product.times(direction)) + RIDGE * direction
        step = _ratio(squares, (direction * image).sum(0))
        found += step * direction
        residual = residual - step * image
        scaled = residual / diagonal
        before, squares = squares, (residual * scaled).sum(0)
        direction = scaled + _ratio(squares, before) * direction
    return found


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotients, 0 where nothing is left to divide by."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
