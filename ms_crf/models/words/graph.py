"""An exported graph over words: the cell, and what it is given, from sentences and from its record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ms_crf.base.fields import checked, load_record
from ms_crf.models.graphs import GraphInput, Served, Static
from ms_crf.models.words.batches import EncodedWords, distinct_forms, word_batch
from ms_crf.models.words.ngrams import MOST
from ms_crf.models.words.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary

import numpy as np
from mindspore import ops


@dataclass
class WordGraphIds:
    """What the record of a graph over words may say of ids, which are always the same."""

    padding_id: int = checked(PADDING, choices=(PADDING,))
    unknown_id: int = checked(UNKNOWN, choices=(UNKNOWN,))
    first_id: int = checked(FIRST, choices=(FIRST,))


class ServedWords(Served):
    """The cell of a graph that is given words and their characters."""

    def construct(self, words, spellings, places, lengths, composed=None, ngrams=None):
        """Tags sentences.

        Args:
            words: (words,) int32 ids of the distinct words of the batch, more than once does no harm; with bigrams
                (words, 3), ids of a word and of the bigrams that it ends and begins.
            spellings: (words, characters) int32 ids of their characters, 0 behind a word's end.
            places: (batch, length) int32, index of the word that stands there.
            lengths: (batch,) int32.
            composed: with n-grams, (some,) int32, which of the words are unknown ones that are composed of n-grams.
            ngrams: with n-grams, (some, n-grams) int32 ids of these, 0 behind them.
        """
        return self._tag_words(self.network.form_vectors(words, spellings, composed, ngrams), places, lengths)

    def _tag_words(self, vectors, places, lengths):
        hidden = ops.gather(vectors, ops.transpose(places, (1, 0)), 0)
        return self.tag(self.network.emissions_of(hidden, lengths), lengths)


class ServedWithoutCharacters(ServedWords):
    """The cell of a graph whose network reads no characters: `construct` takes no spellings."""

    def construct(self, words, places, lengths, composed=None, ngrams=None):  # type: ignore[override]
        return self._tag_words(self.network.form_vectors(words, None, composed, ngrams), places, lengths)


class WordGraphInput(GraphInput[EncodedWords]):
    """What makes the inputs of a graph over words: the distinct words of a batch, and which of them stands where.

    Args:
        vocabulary: the tags, and the ids of words and characters.
        with_characters: whether the network reads characters.
    """

    vocabulary: Vocabulary

    def __init__(self, vocabulary: Vocabulary, with_characters: bool) -> None:
        super().__init__(vocabulary)
        self.with_characters = with_characters

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs."""
        batch, length = static or (None, None)
        words = static[0] * static[1] if static else None
        inputs: dict[str, tuple] = {
            'words': (words, 3) if self.vocabulary.bigrams else (words,),
            'spellings': (words, self.vocabulary.char_length), 'places': (batch, length), 'lengths': (batch,)}
        if not self.with_characters:
            del inputs['spellings']
        if self.vocabulary.ngrams:
            inputs.update({'composed': (words,), 'ngrams': (words, MOST)})
        return inputs

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """The tables of ids of words, characters and n-grams."""
        tables = [('.word_table', 'ids of words', self.vocabulary.num_rows, True)]
        if self.with_characters:
            tables.append(('.characters.table.weight', 'ids of characters', self.vocabulary.num_characters, True))
        if self.vocabulary.ngrams:
            tables.append(('.ngram_table', 'ids of n-grams', 1 + len(self.vocabulary.ngrams), True))
        return tables

    def to_json(self) -> dict[str, Any]:
        """What another program needs to make ids of words, and tags of what comes out."""
        return {'padding_id': PADDING, 'unknown_id': UNKNOWN, 'first_id': FIRST, **self.vocabulary.to_json()}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> 'WordGraphInput':
        """From what a `GraphRecord` was read from; raises ValueError if `to_json` gave something else."""
        load_record(WordGraphIds, record)
        names = [tensor.get('name') for tensor in record['inputs'] if isinstance(tensor, dict)]
        return cls(Vocabulary.from_json(record, closed=False), 'spellings' in names)

    def encode(self, sentences: Sequence[list[str]]) -> EncodedWords:
        """Lists of tokens, none of them empty, as ids of words and characters."""
        return EncodedWords.of(sentences, self.vocabulary)

    def arrays(self, encoded: EncodedWords, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""
        length, rows = shape = self.shape(encoded, indices, static)
        batch = word_batch(encoded, shape, indices)
        forms, places = distinct_forms(encoded, batch.values)
        room = rows * length if static else len(forms)
        words, spellings = encoded.arrays(forms, room)
        composed, ngrams = encoded.ngrams(forms, room if static else None)
        return {'words': words, 'spellings': spellings, 'places': np.ascontiguousarray(places.T),
                'lengths': batch.lengths, 'composed': composed, 'ngrams': ngrams}
