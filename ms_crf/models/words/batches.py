"""Sentences as ids of word forms, and batches of them, for training, tagging and exported graphs.

A word form is a distinct word. If the vocabulary has bigrams, a word form also includes its bigrams with the
neighbouring tokens. The network reads each form of a batch once.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ms_crf.models.bucketing import TokenBatch, row_shapes, token_batch
from ms_crf.models.words.vocabulary import PADDING, UNKNOWN, Vocabulary, bigrams_of

import numpy as np

STEP = 32                  # the number of forms of a shape is a multiple of this number
NO_FORM = -1               # the code of padding


class FormShape(NamedTuple):
    """The shape of the batches of a bucket."""

    length: int
    rows: int
    long_forms: int        # largest number of forms with any number of characters
    short_forms: int       # largest number of further forms, with at most `EncodedWords.half` characters

    @property
    def forms(self) -> int:
        """The largest number of forms."""
        return self.long_forms + self.short_forms


class EncodedWords:
    """A corpus as ids.

    Args:
        sentences: lists of tokens.
        vocabulary: the ids of words and characters.
        tags: the result of `Tags.gold`; None for sentences without gold tags.

    Attributes:
        tokens: for each sentence the indices of the forms of its tokens.
        lengths: (sentences,) number of tokens.
        word_of: (forms,) ids of words.
        spelling_of: (forms, characters) ids of characters.
        bigrams_of: (forms, 2) ids of bigrams; None without bigrams.
        composed: (some,) indices of the forms of out-of-vocabulary words that have known n-grams.
        ngrams_of: (some, MOST) ids of these n-grams.
        is_long: bools by code, see `codes`: whether a form has more than `half` characters.
        half: half of the largest number of characters that the network reads, rounded up.
        num_forms: number of distinct forms.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary,
                 tags: list[np.ndarray] | None = None) -> None:
        flat: list[Any] = list(chain.from_iterable(sentences))
        if vocabulary.bigrams:
            bigrams = [bigrams_of(tokens) for tokens in sentences]
            flat = list(zip(flat, chain.from_iterable(pairs[:-1] for pairs in bigrams),
                                chain.from_iterable(pairs[1:] for pairs in bigrams)))
        forms = dict.fromkeys(flat)
        code_of = dict(zip(forms, range(len(forms))))
        codes = np.fromiter(map(code_of.__getitem__, flat), np.int64, len(flat))
        words: list[str] = list(forms)
        self.bigrams_of: np.ndarray | None = None
        if vocabulary.bigrams:
            words, self.bigrams_of = [form[0] for form in forms], vocabulary.bigram_ids([form[1:] for form in forms])
        self.lengths = np.fromiter(map(len, sentences), np.int32, len(sentences))
        self.tokens, self.tags = np.split(codes, np.cumsum(self.lengths[:-1])), tags
        self.word_of, self.spelling_of = vocabulary.word_ids(words), vocabulary.spellings(words)
        self.num_forms, self.half = len(words), (vocabulary.char_length + 1) // 2
        self.is_long = np.array([len(word) > self.half for word in words] * 2, bool)
        unknown = np.flatnonzero(self.word_of == UNKNOWN)
        ngrams = vocabulary.ngram_ids([words[form] for form in unknown])
        known = ngrams.any(1)
        self.composed, self.ngrams_of = unknown[known], ngrams[known]

    def word_counts(self) -> np.ndarray:
        """How often the word of each form occurs in the corpus: (forms,)."""
        by_form = np.bincount(np.concatenate(self.tokens), minlength=self.num_forms)
        return np.bincount(self.word_of, by_form)[self.word_of]

    def codes(self, unknown: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The codes of the forms of all tokens, an array for each sentence.

        The code of a form is its index; `num_forms` is added if the unknown word replaces its word.

        Args:
            unknown: for each sentence an array of bools: which tokens are replaced; None to replace no token.
        """
        if unknown is None:
            return self.tokens
        return [tokens + self.num_forms * replaced for tokens, replaced in zip(self.tokens, unknown)]

    def arrays(self, forms: np.ndarray, room: int, characters: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The ids of some forms, padded: words (room,), and characters (room, characters).

        With bigrams the first array is (room, 3): the word, the bigram that it ends, and the bigram that it begins.

        Args:
            forms: codes of the forms.
            room: number of rows of the arrays.
            characters: number of characters of each form; None for all.
        """
        replaced, forms = np.divmod(forms, self.num_forms)
        words = np.where(replaced, UNKNOWN, self.word_of[forms])
        if self.bigrams_of is not None:
            words = np.column_stack((words, self.bigrams_of[forms]))
        return _filled(words, room), _filled(self.spelling_of[forms, :characters], room)

    def ngrams(self, forms: np.ndarray, room: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The forms whose vectors are composed of n-grams, and the ids of the n-grams, int32.

        Args:
            forms: codes of forms.
            room: number of rows of the arrays, filled with 0; None for the number of such forms, at least 1.

        Returns:
            (room,) indices into `forms`, and (room, MOST) ids of n-grams.
        """
        indices = np.flatnonzero(np.isin(forms, self.composed))
        known = self.ngrams_of[np.searchsorted(self.composed, forms[indices])]
        room = max(len(indices), 1) if room is None else room
        return _filled(indices, room), _filled(known, room)


def _filled(array: np.ndarray, rows: int) -> np.ndarray:
    """An array as int32, with further rows of PADDING up to `rows`."""
    filled = np.full((rows, *array.shape[1:]), PADDING, np.int32)
    filled[:len(array)] = array
    return filled


def word_shapes(encoded: EncodedWords, batch_size: int) -> list[FormShape]:
    """The shapes of the batches of a training, shortest first.

    Args:
        encoded: the corpus.
        batch_size: number of rows of a batch.
    """
    shapes: list[FormShape] = []
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
        shapes.append(FormShape(length, rows, long_forms, max(forms - long_forms, 1)))
        shorter = length
    return shapes


def cut_by_forms(encoded: EncodedWords, codes: Sequence[np.ndarray], shape: FormShape,
                 indices: Iterable[int]) -> list[tuple[FormShape, np.ndarray]]:
    """Batches (shape, indices of sentences) with as many sentences as rows and forms of the shape allow.

    Args:
        encoded: the corpus.
        codes: the result of `encoded.codes`.
        shape: shape of the batches.
        indices: indices of the sentences.
    """
    batches: list[list[int]] = []
    seen: set[int] = set()
    for index in indices:
        new = set(codes[index].tolist())
        seen = seen | new
        if (not batches or len(batches[-1]) == shape.rows or len(seen) > shape.forms
                or encoded.is_long[list(seen)].sum() > shape.long_forms):
            batches.append([])
            seen = new
        batches[-1].append(index)
    return [(shape, np.array(batch)) for batch in batches]


def word_batch(encoded: EncodedWords, shape: tuple[int, int], indices: np.ndarray,
               codes: Sequence[np.ndarray] | None = None) -> TokenBatch:
    """The batch of some sentences: the code of the form of each token, NO_FORM for padding.

    Args:
        encoded: the corpus.
        shape: (length, rows) of the batch.
        indices: indices of the sentences.
        codes: the result of `encoded.codes`; None to replace no token.
    """
    return token_batch(encoded, encoded.tokens if codes is None else codes, shape, indices, NO_FORM)


def distinct_forms(encoded: EncodedWords, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct forms of a batch, long forms first, and the index of the form of each token.

    Args:
        encoded: the corpus.
        codes: `values` of a `word_batch`.

    Returns:
        (forms,) codes of the forms; and indices into this array, int32, in the shape of `codes`, 0 for padding.
    """
    real = codes != NO_FORM
    forms, flat = np.unique(codes[real], return_inverse=True)
    order = np.argsort(~encoded.is_long[forms], kind='stable')
    places = np.zeros(codes.shape, np.int32)
    places[real] = np.argsort(order)[flat]
    return forms[order], places


def step_arrays(encoded: EncodedWords, shape: FormShape, batch: TokenBatch,
                part: slice = slice(None)) -> tuple[np.ndarray, ...]:
    """The arrays of a training step: the arguments of `TaggerNetwork.construct`, with ids of words instead of rows.

    Args:
        encoded: the corpus.
        shape: shape of the batch.
        batch: a `word_batch`.
        part: the rows of the batch to return; words, forms and spellings are always of all rows.

    Returns:
        words (forms,), distinct ids, then PADDING; form_words (forms,), the index of each form's word; with bigrams
        (3 * forms,) and (forms, 3); spellings of long forms (long_forms, characters) and of short forms
        (short_forms, characters / 2); then places, lengths and tags.
    """
    forms, places = distinct_forms(encoded, batch.values)
    of_forms, spellings = encoded.arrays(forms, shape.forms)
    distinct, indices = np.unique(of_forms[:len(forms)], return_inverse=True)
    words = _filled(distinct, of_forms.size)
    form_words = _filled(indices.reshape(len(forms), *of_forms.shape[1:]), len(of_forms))
    short_spellings = np.ascontiguousarray(spellings[shape.long_forms:, :encoded.half])
    of_rows = places[:, part], batch.lengths[part], batch.tags[:, part]
    return words, form_words, spellings[:shape.long_forms], short_spellings, *map(np.ascontiguousarray, of_rows)


def replaced(generator: np.random.Generator, sentences: Sequence[np.ndarray], counts: np.ndarray,
             strength: float) -> list[np.ndarray]:
    """Draws at random which tokens the unknown word replaces; rare words are replaced more often.

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
