"""Words as ids and in batches, for training, tagging and exported graphs.

A form is a word with its spelling, and with its bigrams if the vocabulary has any.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from ms_crf.models.bucketing import TokenBatch, row_shapes, token_batch
from ms_crf.models.words.ngrams import MOST
from ms_crf.models.words.vocabulary import PADDING, UNKNOWN, Vocabulary, bigrams_of

import numpy as np

STEP = 32                  # the number of forms is a multiple of it
NO_FORM = -1               # where there is no token


class Shape(NamedTuple):
    """Of a bucket's batches."""

    length: int
    rows: int
    long_forms: int        # room for forms of any number of characters
    short_forms: int       # for those of no more than half as many as are read at most

    @property
    def forms(self) -> int:
        """Room for forms in all."""
        return self.long_forms + self.short_forms


@dataclass(eq=False)
class EncodedWords:
    """A corpus as ids; `EncodedWords.of` makes one."""

    tokens: list[np.ndarray]             # for each sentence the forms of its tokens
    lengths: np.ndarray                  # (sentences,), tokens of each
    word_of: np.ndarray                  # (forms,), ids of words
    spelling_of: np.ndarray              # (forms, characters), ids of characters
    bigrams_of: np.ndarray | None        # (forms, 2), ids of bigrams
    composed: np.ndarray                 # (some,), the forms of unknown words that have known n-grams
    ngrams_of: np.ndarray                # (some, MOST), ids of these n-grams
    is_long: np.ndarray                  # by code, see `codes`: whether a form has more than `half` characters
    half: int                            # half as many characters as are read at most
    tags: list[np.ndarray] | None        # for each sentence what `Tags.gold` returned

    @property
    def num_forms(self) -> int:
        """How many distinct forms there are."""
        return len(self.word_of)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary,
           tags: list[np.ndarray] | None = None) -> 'EncodedWords':
        """Encodes sentences.

        Args:
            sentences: lists of tokens.
            vocabulary: gives words and characters their ids.
            tags: for each sentence what `Tags.gold` returned; None where there are no tags.
        """
        together: list[Any] = list(chain.from_iterable(sentences))
        if vocabulary.bigrams:
            bigrams = [bigrams_of(tokens) for tokens in sentences]
            together = list(zip(together, chain.from_iterable(pairs[:-1] for pairs in bigrams),
                                chain.from_iterable(pairs[1:] for pairs in bigrams)))
        forms = dict.fromkeys(together)
        code_of = dict(zip(forms, range(len(forms))))
        codes = np.fromiter(map(code_of.__getitem__, together), np.int64, len(together))
        lengths = np.fromiter(map(len, sentences), np.int32, len(sentences))
        words, bigram_ids = list(forms), None
        if vocabulary.bigrams:
            words, bigram_ids = [form[0] for form in forms], vocabulary.bigram_ids([form[1:] for form in forms])
        word_of = vocabulary.word_ids(words)
        composed, ngrams = np.zeros(0, np.int64), np.zeros((0, MOST), np.int32)
        if vocabulary.ngrams:
            unknown = np.flatnonzero(word_of == UNKNOWN)
            ids = vocabulary.ngram_ids([words[form] for form in unknown])
            found = ids.any(1)
            composed, ngrams = unknown[found], ids[found]
        half = (vocabulary.char_length + 1) // 2
        return cls(np.split(codes, np.cumsum(lengths[:-1])), lengths, word_of, vocabulary.spellings(words), bigram_ids,
                   composed, ngrams, np.array([len(word) > half for word in words] * 2, bool), half,
                   tags)

    def word_counts(self) -> np.ndarray:
        """How often the word of each form occurs in the corpus: (forms,)."""
        by_form = np.bincount(np.concatenate(self.tokens), minlength=self.num_forms)
        return np.bincount(self.word_of, by_form)[self.word_of]

    def codes(self, unknown: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """For each sentence the forms of its tokens, those that the unknown word stands for counted anew.

        Args:
            unknown: for each sentence which of its tokens are replaced, bools; None for none of them.
        """
        if unknown is None:
            return self.tokens
        return [tokens + self.num_forms * replaced for tokens, replaced in zip(self.tokens, unknown)]

    def arrays(self, forms: np.ndarray, room: int, characters: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the words of some forms (room,) and of their characters (room, characters), PADDING as filler.

        With bigrams the first are (room, 3): of the word, and of the bigrams that it ends and begins.

        Args:
            forms: their codes.
            room: for so many.
            characters: how many of each are read; None for all.
        """
        replaced, forms = np.divmod(forms, self.num_forms)
        known = self.spelling_of[forms, :characters]
        words, spellings = np.full(room, PADDING, np.int32), np.full((room, known.shape[1]), PADDING, np.int32)
        words[:len(forms)], spellings[:len(forms)] = np.where(replaced, UNKNOWN, self.word_of[forms]), known
        if self.bigrams_of is None:
            return words, spellings
        both = np.full((room, 2), PADDING, np.int32)
        both[:len(forms)] = self.bigrams_of[forms]
        return np.column_stack((words, both)), spellings

    def ngrams(self, forms: np.ndarray, room: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Which of some forms are composed of n-grams (room,), indices into them, and ids of these (room, MOST), int32.

        Args:
            forms: their codes.
            room: for so many, 0 as filler; None for as many as there are, but for one at least.
        """
        which = np.flatnonzero(np.isin(forms, self.composed))
        known = self.ngrams_of[np.searchsorted(self.composed, forms[which])]
        room = max(len(which), 1) if room is None else room
        places, ids = np.zeros(room, np.int32), np.zeros((room, MOST), np.int32)
        places[:len(which)], ids[:len(which)] = which, known
        return places, ids


def word_shapes(encoded: EncodedWords, batch_size: int) -> list[Shape]:
    """Shapes of the batches of a training, shortest first.

    Args:
        encoded: the corpus.
        batch_size: rows of a batch.
    """
    shapes: list[Shape] = []
    shorter = 0
    for length, rows in row_shapes(encoded.lengths, batch_size):
        inside = np.flatnonzero((encoded.lengths > shorter) & (encoded.lengths <= length))
        inside = np.random.default_rng(0).permutation(inside)
        sizes = []
        for first in range(0, min(len(inside), 50 * rows), rows):
            forms = np.unique(np.concatenate([encoded.tokens[index] for index in inside[first:first + rows]]))
            sizes.append((encoded.is_long[forms].sum(), len(forms)))
        room = -(-np.quantile(sizes, 0.9, axis=0).astype(int) // STEP) * STEP   # most batches fit
        long_forms, forms = np.clip(room, length, length * rows).tolist()
        shapes.append(Shape(length, rows, long_forms, max(forms - long_forms, 1)))
        shorter = length
    return shapes


def cut_by_forms(encoded: EncodedWords, codes: Sequence[np.ndarray], shape: Shape,
                 indices: Iterable[int]) -> list[tuple[Shape, np.ndarray]]:
    """Batches (shape, indices of sentences) of as many sentences as rows and room for forms allow.

    Args:
        encoded: the corpus.
        codes: what `encoded.codes` gave.
        shape: of the batches.
        indices: of the sentences.
    """
    batches: list[tuple[Shape, np.ndarray]] = []
    batch: list[int] = []
    seen: set[int] = set()
    for index in indices:
        new = set(codes[index].tolist())
        grown = seen | new
        full = (len(batch) == shape.rows or len(grown) > shape.forms
                or encoded.is_long[list(grown)].sum() > shape.long_forms)
        if batch and full:
            batches.append((shape, np.array(batch)))
            batch, grown = [], new
        batch.append(index)
        seen = grown
    if batch:
        batches.append((shape, np.array(batch)))
    return batches


def word_batch(encoded: EncodedWords, shape: tuple[int, int], indices: np.ndarray,
               codes: Sequence[np.ndarray] | None = None) -> TokenBatch:
    """The batch of some sentences: of each token the code of its form, NO_FORM behind a sentence's end.

    Args:
        encoded: the corpus.
        shape: (length, rows) that they fit into.
        indices: of the sentences.
        codes: what `encoded.codes` gave; None for the forms as they are.
    """
    return token_batch(encoded, encoded.tokens if codes is None else codes, shape, indices, NO_FORM)


def distinct_forms(encoded: EncodedWords, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(forms,) codes of the distinct forms of a batch, long ones first, and which of them stands where.

    Args:
        encoded: the corpus.
        codes: `values` of a `word_batch`; the second result is of this shape, int32, 0 behind a sentence's end.
    """
    real = codes != NO_FORM
    forms, flat = np.unique(codes[real], return_inverse=True)
    order = np.argsort(~encoded.is_long[forms], kind='stable')
    places = np.zeros(codes.shape, np.int32)
    places[real] = np.argsort(order)[flat]
    return forms[order], places


def step_arrays(encoded: EncodedWords, shape: Shape, batch: TokenBatch,
                part: slice = slice(None)) -> tuple[np.ndarray, ...]:
    """What a step of training takes: the arguments of `TaggerNetwork.construct`, but ids of words for their rows.

    Args:
        encoded: the corpus.
        shape: of the batch.
        batch: a `word_batch`.
        part: the rows to make arrays of; words, forms and spellings are those of all rows.

    Returns:
        words (forms,), distinct ids, PADDING as filler; form_words (forms,), index of each form's word there; with
        bigrams (3 * forms,) and (forms, 3); spellings of long forms (long_forms, characters) and of short ones
        (short_forms, characters / 2), places, lengths and tags.
    """
    forms, places = distinct_forms(encoded, batch.values)
    of_forms, spellings = encoded.arrays(forms, shape.forms)
    distinct, indices = np.unique(of_forms[:len(forms)], return_inverse=True)
    words, form_words = np.full(of_forms.size, PADDING, np.int32), np.zeros(of_forms.shape, np.int32)
    words[:len(distinct)], form_words[:len(forms)] = distinct, indices.reshape(of_forms[:len(forms)].shape)
    short_spellings = np.ascontiguousarray(spellings[shape.long_forms:, :encoded.half])
    of_rows = places[:, part], batch.lengths[part], batch.tags[:, part]
    return words, form_words, spellings[:shape.long_forms], short_spellings, *map(np.ascontiguousarray, of_rows)


def replaced(generator: np.random.Generator, sentences: Sequence[np.ndarray], counts: np.ndarray,
             strength: float) -> list[np.ndarray]:
    """Draws for each sentence which of its tokens are replaced by the unknown word.

    Args:
        generator: a NumPy random generator.
        sentences: for each sentence the forms of its tokens, indices into `counts`.
        counts: how often the word of each form occurs.
        strength: Z of the probability Z / (Z + count).

    Returns:
        For each sentence an array of bools, one for each token.
    """
    rates = strength / (strength + counts)
    lengths = np.cumsum([len(tokens) for tokens in sentences])[:-1]
    drawn = generator.random(sum(map(len, sentences))) < rates[np.concatenate(sentences)]
    return np.split(drawn, lengths)
