"""Ids of words, bigrams, n-grams of characters, characters and tags."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ms_crf.base.errors import brief
from ms_crf.base.fields import Fault, checked, distinct_strings
from ms_crf.models.base import Tags, tag_names
from ms_crf.models.words.ngrams import NgramIndex, composed
from ms_crf.models.words.vectors import form_in, forms_of
from ms_crf.text.splitting import mostly_characters

import numpy as np

PADDING, UNKNOWN = 0, 1
FIRST = 2                                                # id of the first word or character of a list
MOST_CHARACTERS = 1000                                   # of a word that are read
OFTEN = 2                                                # a bigram that occurs as often has an id of its own


def _codes(text: str) -> np.ndarray:
    """The code point of each character."""
    return np.frombuffer(text.encode('utf-32-le', 'surrogatepass'), np.uint32)


def bigrams_of(tokens: Iterable[str]) -> list[str]:
    """The bigrams of a sentence: of each token and the next, of nothing and the first, of the last and nothing."""
    around = ['', *tokens, '']
    return [f'{one} {other}' for one, other in zip(around, around[1:])]


def _characters(items: list[str]) -> Fault | None:
    longer = next((item for item in items if len(item) > 1), None)
    return distinct_strings(items) if longer is None else ('single characters', brief(longer))


@dataclass(kw_only=True)
class VocabularyRecord:
    """What vocab.json holds of a `Vocabulary`."""

    words: list[str] = checked(must=distinct_strings)
    characters: list[str] = checked(must=_characters)
    bigrams: list[str] = checked((), must=distinct_strings)
    ngrams: list[str] = checked((), must=distinct_strings)
    tags: list[str] = checked(must=tag_names)
    char_length: int = checked(least=1, most=MOST_CHARACTERS)


class Vocabulary(Tags):
    """What a model over word vectors and characters can read and write; the ids of its tensors.

    Args:
        words, characters: strings, their ids counted from 2; 0 is padding, 1 what is not known.
        tags: strings, their ids counted from 0.
        char_length: how many characters of a word are read: of a longer one the first and the last half.
        bigrams: pairs of neighbouring tokens with a blank between them, nothing standing for what is beyond the ends of
            a sentence; empty if bigrams are not looked at. Their ids are counted on from those of the words, behind one
            for all that are not known.
        ngrams: n-grams of characters, of which words that are not known get vectors; their ids are counted from 1,
            in a table of their own, whose first row is 0. Empty if there are none.

    Attributes:
        num_words, num_characters: how many ids of words and of characters there are.
        num_rows: how many ids of words and of bigrams there are.
        columns: how many of these ids a token has.
    """

    record: ClassVar[type] = VocabularyRecord

    def __init__(self, words: Iterable[str], characters: Iterable[str], tags: Iterable[str],
                 char_length: int, bigrams: Iterable[str] = (), ngrams: Iterable[str] = ()) -> None:
        self.words, self.characters, self.char_length = list(words), list(characters), char_length
        self.bigrams, self.ngrams = list(bigrams), list(ngrams)
        self.num_words, self.num_characters = FIRST + len(self.words), FIRST + len(self.characters)
        self.num_rows = self.num_words + (1 + len(self.bigrams) if self.bigrams else 0)
        self.columns = 3 if self.bigrams else 1
        super().__init__(tags, mostly_characters(self.words))
        self._word_ids = {word: word_id for word_id, word in enumerate(self.words, FIRST)}
        self._bigram_ids = {bigram: bigram_id for bigram_id, bigram in enumerate(self.bigrams, self.num_words + 1)}
        self._ngram_index = NgramIndex(self.ngrams)
        codes = _codes(''.join(self.characters))
        # Of each code point up to the highest that is known the id, and UNKNOWN for all beyond.
        self._ids = np.full(int(codes.max(initial=0)) + 2, UNKNOWN, np.int32)
        self._ids[codes] = np.arange(FIRST, FIRST + len(codes))

    @classmethod
    def of(cls, training: Sequence[Iterable[str]], others: Iterable[Iterable[str]], tags: Iterable[str],
           vectors: dict[str, np.ndarray], char_length: int, bigrams: bool = False,
           before: 'Vocabulary | None' = None, ngrams: Iterable[str] = ()) -> 'Vocabulary':
        """The vocabulary of corpora.

        Args:
            training: token lists; all their words are known.
            others: token lists; their words are known where there are vectors for them.
            tags: all tags.
            vectors: what forms have vectors; may be empty.
            char_length: how many characters of a word are read.
            bigrams: whether bigrams are looked at: those that occur more than once are known.
            before: one whose words, bigrams, n-grams and characters are taken over, with their ids; those that it lacks
                stand behind, and there are no bigrams if it has none.
            ngrams: n-grams of characters that have vectors; those of `before`, if there is one.
        """
        bigrams = bigrams if before is None else bool(before.bigrams)
        ngrams = ngrams if before is None else before.ngrams
        before = before or cls((), (), (), char_length)
        counts = Counter(token for tokens in training for token in tokens)
        words = dict.fromkeys(before.words)
        words.update(dict.fromkeys(form_in(vectors, word) or word for word in counts if not before.knows(word)))
        words.update(dict.fromkeys(form for tokens in others for token in tokens
                                   if (form := form_in(vectors, token)) is not None and not before.knows(token)))
        characters = dict.fromkeys(before.characters)
        characters.update(dict.fromkeys(sorted({character for word in counts for character in word})))
        pairs = Counter(bigram for tokens in training for bigram in bigrams_of(tokens)) if bigrams else {}
        known = dict.fromkeys((*before.bigrams, *(one for one, count in pairs.items() if count >= OFTEN)))
        return cls(words, characters, tags, char_length, known, ngrams)

    def word_id(self, word: str) -> int:
        """The id of the first form of a word that is known, UNKNOWN if none is."""
        for form in forms_of(word):
            if form in self._word_ids:
                return self._word_ids[form]
        return UNKNOWN

    def knows(self, word: str) -> bool:
        """Whether a form of the word is known."""
        return self.word_id(word) != UNKNOWN

    def word_ids(self, words: Sequence[str]) -> np.ndarray:
        """What `word_id` gives for each: (words,) int32."""
        found = map(self._word_ids.get, words)       # most are known as they are
        return np.array([self.word_id(word) if known is None else known for word, known in zip(words, found)], np.int32)

    def bigram_ids(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Ids of two bigrams each: (pairs, 2) int32; the first behind those of words for one that is not known."""
        ids, unknown = self._bigram_ids, self.num_words
        return np.array([(ids.get(one, unknown), ids.get(other, unknown)) for one, other in pairs], np.int32)

    def ngram_ids(self, words: Sequence[str]) -> np.ndarray:
        """Ids of the n-grams of each that are known: (words, MOST) int32, 0 behind them."""
        return self._ngram_index.find(words)

    def spellings(self, words: Sequence[str]) -> np.ndarray:
        """Ids of the characters that are read: (words, char_length), PADDING behind a word's end."""
        head = (self.char_length + 1) // 2
        tail = self.char_length - head
        read = [word if len(word) <= self.char_length else word[:head] + word[len(word) - tail:] for word in words]
        spellings = np.full((len(words), self.char_length), PADDING, np.int32)
        lengths = np.array([len(word) for word in read], np.int64)
        codes = np.minimum(_codes(''.join(read)), len(self._ids) - 1)
        spellings[np.arange(self.char_length) < lengths[:, None]] = self._ids[codes]
        return spellings

    def to_json(self) -> dict:
        """What vocab.json is to hold: of bigrams and n-grams nothing where they are not looked at."""
        return {name: value for name, value in super().to_json().items() if name not in ('bigrams', 'ngrams') or value}

    def initial_rows(self, vectors: dict[str, np.ndarray], width: int, generator: np.random.Generator,
                     ngram_table: np.ndarray | None = None) -> np.ndarray:
        """(num_rows, width): vectors where there are some, of others what their n-grams make, else random numbers.

        Beside vectors these have a quarter of their spread: a rare word is known by its characters and by what stands
        around it, where one with large numbers of its own would be learned by heart.

        Args:
            vectors: of words.
            width: of each.
            generator: a NumPy random generator.
            ngram_table: (1 + n-grams, width), the vectors of n-grams; None where there are none.
        """
        spread = float(np.std(list(vectors.values()))) / 4 if vectors else 1 / width ** 0.5
        rows = generator.normal(0, spread, (self.num_rows, width)).astype(np.float32)
        rows[PADDING] = 0
        self.put_vectors(rows, self.words, vectors, ngram_table)
        return rows

    def put_vectors(self, rows: np.ndarray, words: Sequence[str], vectors: Mapping[str, np.ndarray],
                    ngram_table: np.ndarray | None) -> None:
        """Puts into the rows of some known words their vectors, or what their n-grams make if they have none."""
        for word in words:
            if word in vectors:
                rows[self._word_ids[word]] = vectors[word]
        others = [word for word in words if word not in vectors]
        if ngram_table is not None and others:
            made, found = composed(ngram_table, self.ngram_ids(others))
            rows[[self._word_ids[word] for word, known in zip(others, found) if known]] = made[found]
