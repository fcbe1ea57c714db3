"""Words as the symbols of a hidden Markov model; a word that was not seen is taken for its shape."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np


def shape_of(word: str) -> str:
    """The class of a word: what kind of characters it has, and the end of a longer one."""
    if any(character.isdigit() for character in word):
        kind = 'digits' if all(not character.isalpha() for character in word) else 'letters and digits'
    elif not any(character.isalpha() for character in word):
        return 'neither'
    elif len(word) == 1:
        kind = 'one letter'
    elif word.isupper():
        kind = 'capitals'
    elif word[0].isupper():
        kind = 'capital'
    else:
        kind = 'small' if word.islower() else 'other'
    ending = word[-2:].lower() if len(word) > 3 and kind in ('small', 'capital') and word.isascii() else ''
    return f'{kind} {ending}'.strip()


class Words:
    """Columns of the table of emissions: known words, then shapes, then what has neither.

    Args:
        words, shapes: strings.
    """

    def __init__(self, words: Iterable[str], shapes: Iterable[str]) -> None:
        self.words, self.shapes = list(words), list(shapes)
        self._columns = {word: column for column, word in enumerate(self.words)}
        self._shapes = {shape: column for column, shape in enumerate(self.shapes, len(self.words))}

    def columns(self, tokens: Iterable[str]) -> np.ndarray:
        """The column of each token."""
        tokens, nothing = list(tokens), len(self.words) + len(self.shapes)
        columns = np.fromiter(map(self._columns.get, tokens, repeat(-1)), np.int64, len(tokens))
        for position in np.flatnonzero(columns < 0).tolist():
            columns[position] = self._shapes.get(shape_of(tokens[position]), nothing)
        return columns

    def known_columns(self, tokens: Iterable[str]) -> np.ndarray:
        """The column of each token, all of which are known words."""
        return np.array([self._columns[token] for token in tokens])

    def shape_indices(self, words: Iterable[str]) -> np.ndarray:
        """Which of `shapes` each word has, all of which are known."""
        return np.array([self._shapes[shape_of(word)] - len(self.words) for word in words], np.int64)


class WordCounts:
    """The words of sentences, as a table of emissions is made of them.

    A state gives to words that it has not met as much as it gave to words that were met once in all; without smoothing
    nothing.

    Args:
        words: the columns of the table.
        columns: (tokens,), the column of each token.
        once: the words that occur once.
        rare: their columns.
    """

    def __init__(self, words: Words, columns: np.ndarray, once: Sequence[str], rare: np.ndarray) -> None:
        self.words, self.columns, self.size, self._once, self._rare = words, columns, len(words.words), once, rare

    @classmethod
    def of(cls, sentences: Sequence[list[str]]) -> 'WordCounts':
        """Counts the words of lists of tokens."""
        counts = Counter(token for tokens in sentences for token in tokens)
        once = [word for word, count in counts.items() if count == 1]
        words = Words(counts, sorted({shape_of(word) for word in once}))
        return cls(words, words.known_columns(token for tokens in sentences for token in tokens), once,
                   np.flatnonzero(np.array(list(counts.values())) == 1))

    def table(self, known: np.ndarray, add: float) -> np.ndarray:
        """The table of emissions (states, columns), in logarithms.

        Args:
            known: (states, words), how often each state has given each word.
            add: added to every count.
        """
        if add == 0:
            unseen = np.zeros((len(known), len(self.words.shapes) + 1))
            return np.log(np.concatenate((known / known.sum(1, keepdims=True), unseen), 1))
        states, rare = len(known), known[:, self._rare]
        shapes = np.zeros((states, len(self.words.shapes) + 1))
        np.add.at(shapes.T, self.words.shape_indices(self._once), rare.T)
        total = known.sum(1, keepdims=True)
        unseen = (rare.sum(1, keepdims=True) + add) / (total + 2 * add)
        shapes = (shapes + add) / (shapes.sum(1, keepdims=True) + add * shapes.shape[1])
        known = (known + add / self.size) / (total + add)
        return np.log(np.concatenate((known * (1 - unseen), shapes * unseen), 1))
