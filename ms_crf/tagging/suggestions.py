"""Which sentences of much text to choose: those with the highest scores, none of them like another or like known ones.

Sentences are alike if they have the same tokens, or if they share many word n-grams: if the Jaccard index of the two
sets, what they share of what is in either, is above a threshold. Capitals don't count there.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ms_crf.formats.document import Document

SPARE = 10_000                 # candidates that are held beside as many as are wanted


class Suggestion(NamedTuple):
    """A sentence that may be chosen."""

    score: float               # the higher, the sooner it is chosen; equal tokens have equal scores
    tokens: list[str]
    document: Document         # with its text, file and line; the sentence is all that the document holds
    tags: Sequence[str] = ()   # of the model
    confidence: float = 1.0    # the posterior of all tags together


class Alike:
    """Sentences, and whether others are like one of them.

    Args:
        size: words of an n-gram.
        threshold: the Jaccard index above which two sentences are near-duplicates; 1 leaves only equal ones.
        sentences: lists of tokens.
    """

    def __init__(self, size: int, threshold: float, sentences: Iterable[Sequence[str]] = ()) -> None:
        self.size, self.threshold = size, threshold
        self._same: set[tuple[str, ...]] = set()
        self._with: dict[int, list[int]] = {}    # by the hash of an n-gram the sentences that it is in
        self._ngrams_of: list[set[int]] = []     # hashes of the n-grams of each
        for sentence in sentences:
            self.add(sentence)

    def add(self, tokens: Sequence[str]) -> None:
        if self.same(tokens):
            return
        self._same.add(tuple(tokens))
        if self.threshold < 1:
            found = self._ngrams(tokens)
            for ngram in found:
                self._with.setdefault(ngram, []).append(len(self._ngrams_of))
            self._ngrams_of.append(found)

    def same(self, tokens: Sequence[str]) -> bool:
        """Whether there is a sentence with these tokens."""
        return tuple(tokens) in self._same

    def near(self, tokens: Sequence[str]) -> bool:
        """Whether there is a near-duplicate of a sentence with these tokens."""
        if self.threshold >= 1:
            return False
        found = self._ngrams(tokens)
        # A near-duplicate lacks so few of the n-grams that it has one of any others so many; the rarest are few to see.
        enough = len(found) - int(self.threshold * len(found))
        rarest = sorted(found, key=lambda ngram: len(self._with.get(ngram, ())))[:enough]
        return any(self._share(found, self._ngrams_of[other]) > self.threshold
                   for other in {other for ngram in rarest for other in self._with.get(ngram, ())})

    @staticmethod
    def _share(one: set[int], other: set[int]) -> float:
        both = len(one & other)
        return both / (len(one) + len(other) - both)

    def _ngrams(self, tokens: Sequence[str]) -> set[int]:
        """Hashes of the n-grams; a shorter sentence is one by itself."""
        words = [token.lower() for token in tokens]
        return {hash(tuple(words[first:first + self.size])) for first in range(max(1, len(words) - self.size + 1))}


class Pool:
    """Takes candidates one after the other, and holds only as many as it takes to choose from.

    The chosen ones are those that one gets who goes through all candidates from the highest score downwards, of equal
    ones the first, and leaves out those that are like a known sentence or like one chosen before. When the pool is
    full, it is gone through in this way, and those with the lowest scores are dropped.

    Args:
        count: how many to choose.
        known: sentences that are not to be chosen again.
        spare: how many candidates to hold beside `count`.

    Attributes:
        read: candidates that were added.
        known_left_out: how many of them were known.
        repeated: how many had the tokens of one that is held.
    """

    def __init__(self, count: int, known: Alike, spare: int = SPARE) -> None:
        self.count, self.room, self._known = count, count + spare, known
        self.read = self.known_left_out = self.repeated = 0
        self._held: list[Suggestion] = []
        self._tokens: set[tuple[str, ...]] = set()
        self._least: float | None = None         # the score that one must be above, once some were dropped

    def add(self, candidate: Suggestion) -> None:
        self.read += 1
        key = tuple(candidate.tokens)
        if self._known.same(key):
            self.known_left_out += 1
        elif key in self._tokens:
            self.repeated += 1
        elif self._least is None or candidate.score > self._least:
            self._tokens.add(key)
            self._held.append(candidate)
            if len(self._held) >= 2 * self.room:
                self._shrink()

    def chosen(self) -> tuple[list[Suggestion], int]:
        """The chosen candidates, the best first, and the number of near-duplicates that were left out before."""
        found: list[Suggestion] = []
        left_out = 0
        for candidate, alike in self._in_order():
            if len(found) == self.count:
                break
            left_out += alike
            if not alike:
                found.append(candidate)
        return found, left_out

    def _in_order(self) -> Iterator[tuple[Suggestion, bool]]:
        """All that are held, the best first, and whether each is like a known one or one before it."""
        before = Alike(self._known.size, self._known.threshold)
        for candidate in sorted(self._held, key=lambda held: -held.score):           # stable: the first of equals
            alike = self._known.near(candidate.tokens) or before.near(candidate.tokens)
            if not alike:
                before.add(candidate.tokens)
            yield candidate, alike

    def _shrink(self) -> None:
        different = [candidate for candidate, alike in self._in_order() if not alike]
        self._held = different[:self.room]
        self._tokens = {tuple(candidate.tokens) for candidate in self._held}
        if len(different) > self.room:
            self._least = self._held[-1].score
