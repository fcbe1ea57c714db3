"""Vectors for words that have none, from the n-grams of their characters.

Each n-gram gets a vector such that those of a word, added up and divided by the square root of their number, come near
the vector that the word has: a least-squares problem over words with vectors, with a ridge that keeps the numbers small
(Zhao, Mudgal and Liang 2018 learn bags of n-grams from vectors of words in much the same way). Words whose parts say
something, as endings of places do, names run together and misspelt words, come to lie where they belong.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

SHORTEST, LONGEST = 3, 5         # characters of an n-gram, '<' and '>' for the ends of a word among them
SIZES = range(SHORTEST, LONGEST + 1)
MOST = 48                        # n-grams of a word that are looked at: those of its first characters
OFTEN = 3                        # words in which an n-gram must occur
FITTED = 50_000                  # words of a file that are learned from, beside those of the text
RIDGE, STEPS = 1.0, 5            # weight of the squares of the numbers, and steps of conjugate gradients
COLUMNS = 25                     # of the vectors that are computed at a time
AT_ONCE = 2048                   # words that are looked at together, in memory of a few megabytes
_SHORT = 19                      # characters of a word with both ends marked that has no more than MOST n-grams
_STARTS = _SHORT - SHORTEST + 1  # at which they begin; MOST of a longer word begin at one fewer, if all are distinct
_READ = _SHORT + 1               # characters of a word that these have
_CODE_BITS = 21                  # of a code point


def ngrams_of(word: str) -> list[str]:
    """The distinct n-grams of a word in lower case, by their first characters; at most MOST."""
    marked = f'<{word.lower()[:MOST]}>'
    length = len(marked)
    found = [marked[start:start + size] for start in range(length - SHORTEST + 1) for size in SIZES
             if start + size <= length]
    return list(dict.fromkeys(found))[:MOST]


class NgramIndex:
    """Finds which n-grams words have, for many words at once.

    Those of a word are followed character by character: each beginning of a known n-gram has a number, and the number
    of a longer beginning is looked up by that of the shorter one and the character behind it.

    Args:
        ngrams: distinct n-grams, their ids counted from 1; of others than SIZES none is found.
    """

    def __init__(self, ngrams: Sequence[str]) -> None:
        self._ids = dict(zip(ngrams, range(1, 1 + len(ngrams))))
        codes = _codes(ngrams, LONGEST)
        lengths = np.fromiter(map(len, ngrams), np.int64, len(ngrams))
        #: for each size the keys of beginnings, sorted, and the ids of the n-grams that are no longer, or 0
        self._levels: list[tuple[np.ndarray, np.ndarray]] = []
        keys = _first_keys(codes[:, 0], codes[:, 1], codes[:, 2])
        for size in SIZES:
            distinct, numbers = np.unique(keys, return_inverse=True)
            ids, whole = np.zeros(len(distinct), np.int32), lengths == size
            ids[numbers[whole]] = 1 + np.flatnonzero(whole)
            self._levels.append((distinct, ids))
            if size < LONGEST:
                keys = _next_keys(numbers, codes[:, size])

    def find(self, words: Sequence[str]) -> np.ndarray:
        """Ids of those n-grams of each word (`ngrams_of`) that are known: (words, MOST) int32, 0 behind them."""
        found = np.zeros((len(words), MOST), np.int32)
        for first in range(0, len(words) if self._ids else 0, AT_ONCE):
            part = slice(first, first + AT_ONCE)
            self._find(words[part], found[part])
        return found

    def _find(self, words: Sequence[str], found: np.ndarray) -> None:
        """Puts the ids of some words into their rows, which are 0."""
        marked = [f'<{word.lower()}>' for word in words]
        lengths = np.fromiter(map(len, marked), np.int64, len(marked))
        codes, is_long = _codes(marked, _READ), lengths > _SHORT
        rows, ids = self._walk(codes, np.where(is_long, _STARTS - 1, lengths - SHORTEST + 1), lengths)
        _, first = np.unique(rows * (1 + len(self._ids)) + ids, return_index=True)       # of those that come again
        first.sort()
        rows, ids = rows[first], ids[first]
        counts = np.bincount(rows, minlength=len(words))
        found[rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)] = ids
        # A long word has room for n-grams from further on where some of its first ones are the same.
        keys = np.sort(_first_keys(*(codes[is_long, place:_STARTS - 1 + place] for place in range(SHORTEST))), 1)
        for word in np.flatnonzero(is_long)[(keys[:, 1:] == keys[:, :-1]).any(1)]:
            known = [self._ids[ngram] for ngram in ngrams_of(words[word]) if ngram in self._ids]
            found[word, :len(known)] = known
            found[word, len(known):] = 0

    def _walk(self, codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which words have known n-grams, by their numbers, and the ids of these, in the order of `ngrams_of`.

        Args:
            codes: (words, _READ), of words with both ends marked.
            starts: (words,), at how many of the first characters n-grams begin.
            lengths: (words,), of words with both ends marked.
        """
        ids = np.zeros(len(codes) * _STARTS * len(SIZES), np.int32)
        rows, firsts = np.nonzero(np.arange(_STARTS) < starts[:, None])
        at, left, places = rows * _READ + firsts, lengths[rows] - firsts, (rows * _STARTS + firsts) * len(SIZES)
        codes = codes.ravel()
        keys = _first_keys(codes[at], codes[at + 1], codes[at + 2])
        for level, (size, (known, ids_of)) in enumerate(zip(SIZES, self._levels)):
            numbers = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            going = known[numbers] == keys
            ids[places[going] + level] = ids_of[numbers[going]]
            going &= left > size
            at, left, places = at[going], left[going], places[going]
            if size < LONGEST:
                keys = _next_keys(numbers[going], codes[at + size])
        places = np.flatnonzero(ids)
        return places // (_STARTS * len(SIZES)), ids[places]


def _codes(texts: Sequence[str], width: int) -> np.ndarray:
    """(texts, width) int64, the code points of the first characters of each, 0 behind them."""
    return np.array(texts, f'U{width}').view(np.uint32).reshape(-1, width).astype(np.int64)


def _first_keys(one: np.ndarray, two: np.ndarray, three: np.ndarray) -> np.ndarray:
    """A number for each three code points."""
    return (one << 2 * _CODE_BITS) | (two << _CODE_BITS) | three


def _next_keys(numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A number for each number and code point."""
    return (numbers << _CODE_BITS) | codes


def has_letters(word: str) -> bool:
    """Whether there is a letter in a word; n-grams say nothing of numbers and marks."""
    return any(map(str.isalpha, word))


def learn(vectors: Mapping[str, np.ndarray],
          done: Callable[[int], object] | None = None) -> tuple[list[str], np.ndarray]:
    """N-grams, and a table of their vectors.

    Args:
        vectors: of words, all of one width.
        done: is called with the number of columns of the table just learned.

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
    wanted = np.array([vectors[word] for word in found], np.float32)
    wanted -= wanted.mean(0)
    table = least_squares(list(found.values()), len(ngrams), wanted, done)
    return ngrams, np.concatenate((np.zeros((1, width), np.float32), table))


def composed(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of words from those of their n-grams.

    Args:
        table: (1 + n-grams, width), the vectors of n-grams behind one of 0.
        ids: (words, MOST), rows of the table, 0 behind them.

    Returns:
        (words, width), and which words have n-grams, (words,) bools.
    """
    counts = np.count_nonzero(ids, 1)
    order = np.argsort(-counts, kind='stable')           # words with the most come first, so that each sum is of slices
    ordered, sums = ids[order], np.zeros((len(ids), table.shape[1]), np.float32)
    for column in range(counts.max(initial=0)):
        still = np.count_nonzero(counts > column)
        sums[:still] += table[ordered[:still, column]]
    made = np.empty_like(sums)
    made[order] = sums
    made /= np.sqrt(np.maximum(counts, 1), dtype=np.float32)[:, None]
    return made, counts > 0


def least_squares(rows: Sequence[Sequence[int]], columns: int, wanted: np.ndarray,
                  done: Callable[[int], object] | None = None) -> np.ndarray:
    """W (columns, width) that makes |X W - wanted|² + RIDGE |W|² small, by conjugate gradients for each of its columns.

    X is sparse: a row with n entries has 1 / sqrt(n) in each of them. Dividing by the diagonal of X.T @ X + RIDGE
    before each step makes a few steps enough: some n-grams occur in three words, others in thousands.

    Args:
        rows: for each row of X the columns of its entries, at least one.
        columns: of X; each has an entry.
        wanted: (rows, width).
        done: is called with the number of columns of W that were just computed.
    """
    from scipy.sparse import csr_matrix  # here, because tagging does without
    sizes = np.array([len(row) for row in rows])
    entries = csr_matrix((np.ones(sizes.sum(), np.float32), np.fromiter(chain.from_iterable(rows), np.int64),
                          np.append(0, np.cumsum(sizes))), (len(rows), columns))
    turned, share = entries.T.tocsr(), (1 / np.sqrt(sizes)).astype(np.float32)[:, None]
    found = np.zeros((columns, wanted.shape[1]), np.float32)
    diagonal = turned @ (share * share) + np.float32(RIDGE)
    for first in range(0, wanted.shape[1], COLUMNS):
        part = slice(first, first + COLUMNS)
        residual = turned @ (np.ascontiguousarray(wanted[:, part]) * share)
        direction = scaled = residual / diagonal
        squares = (residual * scaled).sum(0)
        for _ in range(STEPS):
            image = turned @ ((entries @ direction) * share * share) + RIDGE * direction
            step = _ratio(squares, (direction * image).sum(0))
            found[:, part] += step * direction
            residual = residual - step * image
            scaled = residual / diagonal
            before, squares = squares, (residual * scaled).sum(0)
            direction = scaled + _ratio(squares, before) * direction
        if done is not None:
            done(direction.shape[1])
    return found


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotients, 0 where nothing is left to divide by."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
