"""Vectors for out-of-vocabulary words, from their character n-grams.

Each n-gram gets a vector. The vector of a word is the sum of its n-gram vectors, divided by the square root of their
number. The n-gram vectors are the solution of a least-squares problem: the words of the vector file should get vectors
near their own. A ridge keeps the numbers small. Zhao, Mudgal and Liang 2018 learn bags of n-grams from word vectors in
a similar way. So misspelt words, joined names and place names get vectors near words that look like them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

SHORTEST, LONGEST = 3, 5         # characters of an n-gram, including '<' and '>' for the ends of a word
SIZES = range(SHORTEST, LONGEST + 1)
MOST = 48                        # largest number of n-grams of a word; later n-grams are ignored
OFTEN = 3                        # an n-gram must occur in at least this many words
FITTED = 50_000                  # words of a vector file to learn from, in addition to the words of the text
RIDGE, STEPS = 1.0, 5            # weight of the ridge, and steps of conjugate gradients
COLUMNS = 25                     # columns of the vectors that are computed at the same time
AT_ONCE = 2048                   # words that are processed at the same time, in a few megabytes of memory
_SHORT = 19                      # largest length of a marked word ('<word>') that has at most MOST n-grams
_STARTS = _SHORT - SHORTEST + 1  # offsets at which its n-grams begin; in longer words one less gives MOST
_READ = _SHORT + 1               # characters of a marked word in which all these n-grams lie
_CODE_BITS = 21                  # bits of a code point


def ngrams_of(word: str) -> list[str]:
    """The distinct n-grams of a word in lower case, in the order of their first characters; at most MOST."""
    marked = f'<{word.lower()[:MOST]}>'
    length = len(marked)
    ngrams = [marked[start:start + size] for start in range(length - SHORTEST + 1) for size in SIZES
              if start + size <= length]
    return list(dict.fromkeys(ngrams))[:MOST]


class NgramIndex:
    """Finds the known n-grams of many words at the same time.

    The index is a trie. Each prefix of a known n-gram has a number. The number of the shorter prefix and the next
    character together are the key of a longer prefix.

    Args:
        ngrams: distinct n-grams; their ids begin at 1. Only n-grams with a size in SIZES can be found.
    """

    def __init__(self, ngrams: Sequence[str]) -> None:
        self._ids = dict(zip(ngrams, range(1, 1 + len(ngrams))))
        codes = _codes(ngrams, LONGEST)
        lengths = np.fromiter(map(len, ngrams), np.int64, len(ngrams))
        #: for each size the sorted keys of prefixes, and the id of the n-gram that ends there, or 0
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
        """The ids of the known n-grams of each word (see `ngrams_of`): (words, MOST) int32, then 0."""
        result = np.zeros((len(words), MOST), np.int32)
        for first in range(0, len(words) if self._ids else 0, AT_ONCE):
            part = slice(first, first + AT_ONCE)
            self._find(words[part], result[part])
        return result

    def _find(self, words: Sequence[str], result: np.ndarray) -> None:
        """Writes the ids of the n-grams of some words into the rows of `result`, which are 0."""
        marked = [f'<{word.lower()}>' for word in words]
        lengths = np.fromiter(map(len, marked), np.int64, len(marked))
        codes, is_long = _codes(marked, _READ), lengths > _SHORT
        rows, ids = self._walk(codes, np.where(is_long, _STARTS - 1, lengths - SHORTEST + 1), lengths)
        _, first = np.unique(rows * (1 + len(self._ids)) + ids, return_index=True)       # repeated n-grams count once
        first.sort()
        rows, ids = rows[first], ids[first]
        counts = np.bincount(rows, minlength=len(words))
        result[rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)] = ids
        # If a long word repeats some of its first n-grams, later n-grams are also among the first MOST distinct ones.
        keys = np.sort(_first_keys(*(codes[is_long, offset:_STARTS - 1 + offset] for offset in range(SHORTEST))), 1)
        for word in np.flatnonzero(is_long)[(keys[:, 1:] == keys[:, :-1]).any(1)]:
            known = [self._ids[ngram] for ngram in ngrams_of(words[word]) if ngram in self._ids]
            result[word, :len(known)] = known
            result[word, len(known):] = 0

    def _walk(self, codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The indices of words with known n-grams, and the ids of the n-grams, in the order of `ngrams_of`.

        Args:
            codes: (words, _READ) code points of marked words.
            starts: (words,) number of offsets at which n-grams begin.
            lengths: (words,) lengths of marked words.
        """
        ids = np.zeros(len(codes) * _STARTS * len(SIZES), np.int32)
        rows, firsts = np.nonzero(np.arange(_STARTS) < starts[:, None])
        at, left, slots = rows * _READ + firsts, lengths[rows] - firsts, (rows * _STARTS + firsts) * len(SIZES)
        codes = codes.ravel()
        keys = _first_keys(codes[at], codes[at + 1], codes[at + 2])
        for level, (size, (known, ids_of)) in enumerate(zip(SIZES, self._levels)):
            numbers = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            matches = known[numbers] == keys
            ids[slots[matches] + level] = ids_of[numbers[matches]]
            matches &= left > size
            at, left, slots = at[matches], left[matches], slots[matches]
            if size < LONGEST:
                keys = _next_keys(numbers[matches], codes[at + size])
        slots = np.flatnonzero(ids)
        return slots // (_STARTS * len(SIZES)), ids[slots]


def _codes(texts: Sequence[str], width: int) -> np.ndarray:
    """The code points of the first `width` characters of each text: (texts, width) int64, then 0."""
    return np.array(texts, f'U{width}').view(np.uint32).reshape(-1, width).astype(np.int64)


def _first_keys(one: np.ndarray, two: np.ndarray, three: np.ndarray) -> np.ndarray:
    """A key for each triple of code points."""
    return (one << 2 * _CODE_BITS) | (two << _CODE_BITS) | three


def _next_keys(numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A key for each prefix number and code point."""
    return (numbers << _CODE_BITS) | codes


def has_letters(word: str) -> bool:
    """Whether a word contains a letter; numbers and punctuation marks get no vectors from n-grams."""
    return any(map(str.isalpha, word))


def learn(vectors: Mapping[str, np.ndarray],
          done: Callable[[int], object] | None = None) -> tuple[list[str], np.ndarray]:
    """Learns n-gram vectors from word vectors.

    Args:
        vectors: vectors of words, all of the same width.
        done: is called with the number of columns of the table that were just computed.

    Returns:
        n-grams, and a table (1 + n-grams, width) float32 with a row of 0, then the vectors of the n-grams. The mean of
        the word vectors is subtracted before learning.
    """
    words = {word: ngrams_of(word) for word in vectors if has_letters(word)}
    counts = Counter(chain.from_iterable(words.values()))
    ngrams = [ngram for ngram, count in counts.items() if count >= OFTEN]
    ids = dict(zip(ngrams, range(len(ngrams))))
    known_of = {word: known for word, parts in words.items() if (known := [ids[part] for part in parts if part in ids])}
    width = len(next(iter(vectors.values()), ()))
    if not known_of:
        return [], np.zeros((1, width), np.float32)
    targets = np.array([vectors[word] for word in known_of], np.float32)
    targets -= targets.mean(0)
    table = least_squares(list(known_of.values()), len(ngrams), targets, done)
    return ngrams, np.concatenate((np.zeros((1, width), np.float32), table))


def composed(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of words from the vectors of their n-grams.

    Args:
        table: (1 + n-grams, width), a row of 0, then the vectors of n-grams.
        ids: (words, MOST) rows of the table, then 0.

    Returns:
        (words, width), and (words,) bools: which words have n-grams.
    """
    counts = np.count_nonzero(ids, 1)
    order = np.argsort(-counts, kind='stable')           # most n-grams first, so that slices can be added
    ordered, sums = ids[order], np.zeros((len(ids), table.shape[1]), np.float32)
    for column in range(counts.max(initial=0)):
        size = np.count_nonzero(counts > column)
        sums[:size] += table[ordered[:size, column]]
    vectors = np.empty_like(sums)
    vectors[order] = sums
    vectors /= np.sqrt(np.maximum(counts, 1), dtype=np.float32)[:, None]
    return vectors, counts > 0


def least_squares(rows: Sequence[Sequence[int]], columns: int, targets: np.ndarray,
                  done: Callable[[int], object] | None = None) -> np.ndarray:
    """W (columns, width) that minimises |X W - targets|² + RIDGE |W|², by conjugate gradients for each column of W.

    X is sparse: a row with n entries has 1 / sqrt(n) in each entry. Before each step, the residual is divided by the
    diagonal of X.T @ X + RIDGE. Then few steps are enough, although some n-grams occur in three words and others in
    thousands.

    Args:
        rows: for each row of X the columns of its entries, at least one.
        columns: number of columns of X; each has an entry.
        targets: (rows, width).
        done: is called with the number of columns of W that were just computed.
    """
    from scipy.sparse import csr_matrix  # here, because tagging does not need it
    sizes = np.array([len(row) for row in rows])
    entries = csr_matrix((np.ones(sizes.sum(), np.float32), np.fromiter(chain.from_iterable(rows), np.int64),
                          np.append(0, np.cumsum(sizes))), (len(rows), columns))
    transposed, share = entries.T.tocsr(), (1 / np.sqrt(sizes)).astype(np.float32)[:, None]
    result = np.zeros((columns, targets.shape[1]), np.float32)
    diagonal = transposed @ (share * share) + np.float32(RIDGE)
    for first in range(0, targets.shape[1], COLUMNS):
        part = slice(first, first + COLUMNS)
        residual = transposed @ (np.ascontiguousarray(targets[:, part]) * share)
        direction = scaled = residual / diagonal
        squares = (residual * scaled).sum(0)
        for _ in range(STEPS):
            image = transposed @ ((entries @ direction) * share * share) + RIDGE * direction
            step = _ratio(squares, (direction * image).sum(0))
            result[:, part] += step * direction
            residual = residual - step * image
            scaled = residual / diagonal
            before, squares = squares, (residual * scaled).sum(0)
            direction = scaled + _ratio(squares, before) * direction
        if done is not None:
            done(direction.shape[1])
    return result


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotients, 0 where the divisor is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
