"""Batches of words for training: distinct words, their spellings and where they stand; rows of length 0 as filler.

A static graph is compiled once for each shape.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ms_crf.models.bucketing import ROOM, bucket_lengths, spread
from ms_crf.models.words.vocabulary import PADDING, UNKNOWN, Vocabulary

import numpy as np

STEP = 32                  # the number of forms is a multiple of it


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


class WordBatch(NamedTuple):
    """Arrays of one step; a form is a distinct word of the batch with its spelling."""

    words: np.ndarray          # (forms,) distinct word ids, PADDING as filler
    form_words: np.ndarray     # (forms,) index into `words` of each form's word
    long_spellings: np.ndarray     # (long_forms, characters) ids
    short_spellings: np.ndarray    # (short_forms, characters / 2) ids
    places: np.ndarray         # (length, rows) which of the forms each token is
    lengths: np.ndarray        # (rows,)
    tags: np.ndarray           # (length, rows)

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """What the network reads, in the order of its arguments."""
        return (self.words, self.form_words, self.long_spellings, self.short_spellings, self.places,
                self.lengths)


class EncodedWords:
    """A corpus as ids.

    Args:
        sentences: lists of tokens.
        vocabulary: gives words and characters their ids.
        tags: for each sentence a list of tags; None where there are none.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary,
                 tags: Sequence[list] | None = None) -> None:
        forms: dict[str, int] = {}
        self.tokens = [np.array([forms.setdefault(token, len(forms)) for token in tokens], np.int64)
                       for tokens in sentences]
        self.num_forms = len(forms)
        self.word_of = np.array([vocabulary.word_id(form) for form in forms], np.int32)
        self.spelling_of = vocabulary.spellings(list(forms))
        self.half = (vocabulary.char_length + 1) // 2
        is_long = [len(form) > self.half for form in forms]
        self.is_long = np.array(is_long + is_long)       # by code, see `codes`
        self.lengths = np.array([len(tokens) for tokens in sentences], np.int32)
        self.tags = None if tags is None else [np.array(vocabulary.tag_ids(names), np.int32) for names in tags]

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


class Batcher:
    """Makes batches of a training; its shapes are made for one corpus and serve others too.

    Args:
        encoded: the corpus that the shapes are made for.
        batch_size: rows of a batch.
    """

    def __init__(self, encoded: EncodedWords, batch_size: int) -> None:
        self.batch_size = batch_size
        self.shapes: list[Shape] = []
        self._add_shapes(encoded, encoded.lengths)

    def shapes_for(self, encoded: EncodedWords) -> list[Shape]:
        """Shapes, shortest first, that all sentences of a corpus fit into."""
        longer = encoded.lengths[encoded.lengths > self.shapes[-1].length]
        if len(longer):
            self._add_shapes(encoded, longer)
        return self.shapes

    def _add_shapes(self, encoded: EncodedWords, lengths: np.ndarray) -> None:
        """Shapes for sentences of these lengths, of which encoded has some."""
        shorter = self.shapes[-1].length if self.shapes else 0
        for length in bucket_lengths(lengths):
            rows = max(1, min(self.batch_size, self.batch_size * ROOM // length))
            inside = np.flatnonzero((encoded.lengths > shorter) & (encoded.lengths <= length))
            inside = np.random.default_rng(0).permutation(inside)
            sizes = []
            for first in range(0, min(len(inside), 50 * rows), rows):
                forms = np.unique(np.concatenate([encoded.tokens[index] for index in inside[first:first + rows]]))
                sizes.append((encoded.is_long[forms].sum(), len(forms)))
            room = -(-np.quantile(sizes, 0.9, axis=0).astype(int) // STEP) * STEP   # most batches fit
            long_forms, forms = np.clip(room, length, length * rows).tolist()
            self.shapes.append(Shape(length, rows, long_forms, max(forms - long_forms, 1)))
            shorter = length


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


def make_batch(encoded: EncodedWords, shape: Shape, indices: np.ndarray, codes: Sequence[np.ndarray]) -> WordBatch:
    """The batch of some sentences.

    Args:
        encoded: the corpus.
        shape: one that they fit into.
        indices: of the sentences.
        codes: what `encoded.codes` gave.
    """
    forms, flat = np.unique(np.concatenate([codes[index] for index in indices]), return_inverse=True)
    order = np.argsort(~encoded.is_long[forms], kind='stable')                      # long ones first
    forms, flat = forms[order], np.argsort(order)[flat]
    replaced, forms = np.divmod(forms, encoded.num_forms)
    distinct, form_words = np.unique(np.where(replaced, UNKNOWN, encoded.word_of[forms]), return_inverse=True)
    spellings = np.full((shape.forms, encoded.spelling_of.shape[1]), PADDING, np.int32)
    spellings[:len(forms)] = encoded.spelling_of[forms]
    batch = WordBatch(words=np.full(shape.forms, PADDING, np.int32), form_words=np.zeros(shape.forms, np.int32),
                      long_spellings=spellings[:shape.long_forms],
                      short_spellings=np.ascontiguousarray(spellings[shape.long_forms:, :encoded.half]),
                      places=np.zeros((shape.length, shape.rows), np.int32), lengths=np.zeros(shape.rows, np.int32),
                      tags=np.zeros((shape.length, shape.rows), np.int32))
    batch.words[:len(distinct)] = distinct
    batch.form_words[:len(forms)] = form_words
    lengths = encoded.lengths[indices]
    batch.lengths[:len(indices)] = lengths
    row, position = spread(lengths)
    batch.places[position, row] = flat
    if encoded.tags is not None:
        batch.tags[position, row] = np.concatenate([encoded.tags[index] for index in indices])
    return batch
