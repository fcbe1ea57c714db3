"""The ids of words, bigrams, character n-grams, characters and tags."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ms_crf.base.errors import brief
from ms_crf.base.fields import Fault, checked, distinct_strings
from ms_crf.models.base import Tags, tag_names
from ms_crf.models.words.ngrams import NgramIndex, composed
from ms_crf.models.words.vectors import form_in, lookup_forms
from ms_crf.text.splitting import mostly_characters

import numpy as np

PADDING, UNKNOWN = 0, 1
FIRST = 2                                                # id of the first word and of the first character
MOST_CHARACTERS = 1000                                   # upper limit of `char_length`
OFTEN = 2                                                # a bigram gets an id if it occurs at least this often


def _codes(text: str) -> np.ndarray:
    """The code point of each character."""
    return np.frombuffer(text.encode('utf-32-le', 'surrogatepass'), np.uint32)


def bigrams_of(tokens: Iterable[str]) -> list[str]:
    """The n + 1 bigrams of a sentence of n tokens; an empty token is added before and after the sentence."""
    around = ['', *tokens, '']
    return [f'{one} {other}' for one, other in zip(around, around[1:])]


def _characters(items: list[str]) -> Fault | None:
    longer = next((item for item in items if len(item) > 1), None)
    return distinct_strings(items) if longer is None else ('single characters', brief(longer))


@dataclass(kw_only=True)
class VocabularyRecord:
    """The fields of `Vocabulary` in vocab.json."""

    words: list[str] = checked(must=distinct_strings)
    characters: list[str] = checked(must=_characters)
    bigrams: list[str] = checked((), must=distinct_strings)
    ngrams: list[str] = checked((), must=distinct_strings)
    tags: list[str] = checked(must=tag_names)
    char_length: int = checked(least=1, most=MOST_CHARACTERS)


class Vocabulary(Tags):
    """The ids of words, bigrams, n-grams, characters and tags, for a model over word vectors and characters.

    Args:
        words, characters: strings; their ids begin at 2. Id 0 is padding, id 1 an unknown word or character.
        tags: strings; their ids begin at 0.
        char_length: largest number of characters of a word that the network reads: of longer words it reads the first
            half and the last half of this number.
        bigrams: pairs of neighbouring tokens with a space between them; beyond the ends of a sentence the token is
            empty. Empty for models without bigrams. The first id after the ids of words is for unknown bigrams; then
            follow the ids of the known bigrams.
        ngrams: character n-grams, which give vectors to out-of-vocabulary words; empty for models without n-grams.
            Their ids begin at 1 and are rows of a separate table, whose row 0 is zero.

    Attributes:
        num_words, num_characters: number of ids of words and of characters.
        num_rows: number of ids of words and bigrams.
        columns: number of ids of words and bigrams that a token has: 1, or 3 with bigrams.
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
        # The id of each code point up to the largest known one; the last entry is UNKNOWN, for all larger code points.
        self._ids = np.full(int(codes.max(initial=0)) + 2, UNKNOWN, np.int32)
        self._ids[codes] = np.arange(FIRST, FIRST + len(codes))

    @classmethod
    def of(cls, training: Sequence[Iterable[str]], others: Iterable[Iterable[str]], tags: Iterable[str],
           vectors: dict[str, np.ndarray], char_length: int, bigrams: bool = False,
           before: 'Vocabulary | None' = None, ngrams: Iterable[str] = ()) -> 'Vocabulary':
        """The vocabulary of corpora.

        Args:
            training: sentences as lists of tokens; the vocabulary has all their words.
            others: sentences as lists of tokens; the vocabulary has their words with a vector.
            tags: all tags.
            vectors: word vectors by form; may be empty.
            char_length: largest number of characters of a word that the network reads.
            bigrams: whether the model reads bigrams; the vocabulary has the bigrams that occur more than once.
            before: vocabulary of the base run. Its words, bigrams, n-grams and characters keep their ids, and new ones
                follow; the model reads bigrams if this vocabulary has bigrams.
            ngrams: character n-grams with vectors; ignored if there is a base run.
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
        known = dict.fromkeys((*before.bigrams, *(pair for pair, count in pairs.items() if count >= OFTEN)))
        return cls(words, characters, tags, char_length, known, ngrams)

    def word_id(self, word: str) -> int:
        """The id of the first known form of a word (see `lookup_forms`), or UNKNOWN."""
        for form in lookup_forms(word):
            if form in self._word_ids:
                return self._word_ids[form]
        return UNKNOWN

    def knows(self, word: str) -> bool:
        """Whether a form of the word is in the vocabulary."""
        return self.word_id(word) != UNKNOWN

    def word_ids(self, words: Sequence[str]) -> np.ndarray:
        """The id of each word: (words,) int32; see `word_id`."""
        ids = map(self._word_ids.get, words)         # most words need no other form
        return np.array([self.word_id(word) if known is None else known for word, known in zip(words, ids)], np.int32)

    def bigram_ids(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """The ids of pairs of bigrams: (pairs, 2) int32; unknown bigrams have the id `num_words`."""
        ids, unknown = self._bigram_ids, self.num_words
        return np.array([(ids.get(one, unknown), ids.get(other, unknown)) for one, other in pairs], np.int32)

    def ngram_ids(self, words: Sequence[str]) -> np.ndarray:
        """The ids of the known n-grams of each word: (words, MOST) int32, then 0."""
        return self._ngram_index.find(words)

    def spellings(self, words: Sequence[str]) -> np.ndarray:
        """The ids of the characters of each word: (words, char_length), then PADDING."""
        head = (self.char_length + 1) // 2
        tail = self.char_length - head
        cut = [word if len(word) <= self.char_length else word[:head] + word[len(word) - tail:] for word in words]
        spellings = np.full((len(words), self.char_length), PADDING, np.int32)
        lengths = np.array([len(word) for word in cut], np.int64)
        codes = np.minimum(_codes(''.join(cut)), len(self._ids) - 1)
        spellings[np.arange(self.char_length) < lengths[:, None]] = self._ids[codes]
        return spellings

    def to_json(self) -> dict:
        """The content of vocab.json; empty lists of bigrams and n-grams are omitted."""
        return {name: value for name, value in super().to_json().items() if name not in ('bigrams', 'ngrams') or value}

    def initial_rows(self, vectors: dict[str, np.ndarray], width: int, generator: np.random.Generator,
                     ngram_table: np.ndarray | None = None) -> np.ndarray:
        """Initial vectors of words and bigrams: (num_rows, width).

        A word starts with its pretrained vector if there is one, otherwise with the vector of its n-grams, otherwise
        with random numbers. If there are pretrained vectors, random numbers have a quarter of their standard
        deviation: the network should recognise rare words by their characters and context. With large random vectors
        it would memorise each rare word.

        Args:
            vectors: vectors of words.
            width: width of a vector.
            generator: a NumPy random generator.
            ngram_table: vectors of n-grams (1 + n-grams, width); None without n-grams.
        """
        spread = float(np.std(list(vectors.values()))) / 4 if vectors else 1 / width ** 0.5
        rows = generator.normal(0, spread, (self.num_rows, width)).astype(np.float32)
        rows[PADDING] = 0
        self.put_vectors(rows, self.words, vectors, ngram_table)
        return rows

    def put_vectors(self, rows: np.ndarray, words: Sequence[str], vectors: Mapping[str, np.ndarray],
                    ngram_table: np.ndarray | None) -> None:
        """Writes the pretrained vectors of some words, or the vectors of their n-grams, into their rows."""
        for word in words:
            if word in vectors:
                rows[self._word_ids[word]] = vectors[word]
        others = [word for word in words if word not in vectors]
        if ngram_table is not None and others:
            sums, has_ngrams = composed(ngram_table, self.ngram_ids(others))
            rows[[self._word_ids[word] for word, known in zip(others, has_ngrams) if known]] = sums[has_ngrams]
