"""An exported graph over words: the cell, and what it is given, from sentences and from its record."""

from ms_crf.models.labels import check_number, check_tags
from ms_crf.models.served import Served
from ms_crf.models.words.batches import Encoded
from ms_crf.models.words.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary

import numpy as np
from mindspore import ops


class ServedWords(Served):
    """Of words and characters."""

    def construct(self, words, spellings, places, lengths):
        """Tags sentences.

        Args:
            words: (words,) int32 ids of the distinct words of the batch; more than once does no harm.
            spellings: (words, characters) int32 ids of their characters, 0 behind a word's end.
            places: (batch, length) int32, which of the words stands there.
            lengths: (batch,) int32.
        """
        return self._tag_places(self.network.form_vectors(words, spellings), places, lengths)

    def _tag_places(self, vectors, places, lengths):
        hidden = ops.gather(vectors, ops.transpose(places, (1, 0)), 0)
        return self.tag(self.network.emissions_of(hidden, lengths), lengths)


class ServedWithoutCharacters(ServedWords):
    """The same for a network that reads no characters: `construct` takes no spellings."""

    def construct(self, words, places, lengths):
        return self._tag_places(self.network.form_vectors(words), places, lengths)


class WordGraphInput:
    """Of a network over words.

    Args:
        vocabulary: a `Vocabulary`.
        with_characters: whether the network reads characters.
    """

    rows, tokens = 512, 16384      # of a batch at most, where the graph takes any number
    unit = 'tokens'

    def __init__(self, vocabulary, with_characters):
        self.vocabulary, self.with_characters = vocabulary, with_characters

    def inputs(self, static=None):
        """Names and shapes of the graph's inputs, all int32; None is an axis of any size.

        Args:
            static: (batch, length), or None for any.
        """
        batch, length = static or (None, None)
        words = batch * length if static else None
        inputs = {'words': (words,), 'spellings': (words, self.vocabulary.char_length), 'places': (batch, length),
                  'lengths': (batch,)}
        if not self.with_characters:
            del inputs['spellings']
        return inputs

    def tables(self):
        """Of the graph's parameters whose size follows from the record: (end of the name, what, how many, exactly)."""
        tables = [('.word_table', 'ids of words', self.vocabulary.num_words, True)]
        if self.with_characters:
            tables.append(('.characters.table.weight', 'ids of characters', self.vocabulary.num_characters, True))
        return tables

    def to_json(self):
        """What another program needs to make ids of words, and tags of what comes out."""
        return {'padding_id': PADDING, 'unknown_id': UNKNOWN, 'first_id': FIRST, **self.vocabulary.to_json()}

    @classmethod
    def from_json(cls, record):
        """From the record of a graph; raises ValueError if it is not what `to_json` gave."""
        keys = ('words', 'characters', 'tags', 'char_length')
        check_tags(record)
        check_number(record, 'char_length', 1)
        for key, number in (('padding_id', PADDING), ('unknown_id', UNKNOWN), ('first_id', FIRST)):
            if record.get(key, number) != number:
                raise ValueError(f'expected {key} to be {number}, got {record[key]!r:.40}')
        vocabulary = Vocabulary.from_json({key: record.get(key) for key in keys})
        inputs = record.get('inputs')
        names = [entry.get('name') for entry in inputs if isinstance(entry, dict)] if isinstance(inputs, list) else []
        return cls(vocabulary, 'spellings' in names)

    def encode(self, sentences):
        """As `Decoder.encode`."""
        return Encoded(sentences, self.vocabulary)

    def sizes(self, encoded):
        """By which sentences are put into batches."""
        return encoded.lengths

    def arrays(self, encoded, numbers, static):
        """The inputs by name.

        Args:
            encoded: what `encode` gave.
            numbers: of the sentences of a batch.
            static: as in `inputs`.
        """
        forms, flat = np.unique(np.concatenate([encoded.tokens[number] for number in numbers]), return_inverse=True)
        rows, length = static or (len(numbers), encoded.lengths[numbers].max())
        words = rows * length if static else len(forms)
        lengths = np.zeros(rows, np.int32)
        lengths[:len(numbers)] = encoded.lengths[numbers]
        arrays = {'words': np.full(words, PADDING, np.int32), 'places': np.zeros((rows, length), np.int32),
                  'spellings': np.full((words, encoded.spelling_of.shape[1]), PADDING, np.int32), 'lengths': lengths}
        arrays['words'][:len(forms)] = encoded.word_of[forms]
        arrays['spellings'][:len(forms)] = encoded.spelling_of[forms]
        arrays['places'][np.arange(length) < lengths[:, None]] = flat
        return arrays
