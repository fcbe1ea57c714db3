"""What an exported graph is given: names and shapes of its inputs, and their arrays from sentences."""

from ms_crf.models.encoder.pretrained import last_id, tokenizer_of
from ms_crf.models.encoder.windows import Pieces, Specials, piece_batch, window_arrays, windows_at_most
from ms_crf.models.labels import Tags
from ms_crf.models.words.batches import Encoded
from ms_crf.models.words.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary

import numpy as np


def check_tags(record):
    """Raises ValueError unless there are tags, and all of them can be written."""
    tags = record.get('tags')
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError('expected tags to be a list of strings')
    if not tags:
        raise ValueError('expected tags to hold at least one, got none')
    wrong = next((tag for tag in tags if not tag or tag.encode('utf-8', 'replace').decode() != tag), None)
    if wrong is not None:
        raise ValueError(f'expected tags that are not empty, of characters that can be written, got {ascii(wrong):.40}')


def check_number(record, key, least):
    """Raises ValueError unless there is a whole number that a tensor's size can be."""
    value = record.get(key)
    if type(value) is not int or not least <= value < 1 << 31:
        raise ValueError(f'expected {key} to be a whole number from {least} to {(1 << 31) - 1}, got {str(value)[:40]}')


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


class PieceGraphInput:
    """Of a network over an encoder; names and methods as of `WordGraphInput`.

    Args:
        vocabulary: `Tags`.
        tokenizer: of the encoder.
        longest: pieces of a window at most, the special ones among them.
    """

    rows, tokens = 64, 2048
    unit = 'tokens or pieces of them'

    def __init__(self, vocabulary, tokenizer, longest):
        self.vocabulary, self.tokenizer, self.longest = vocabulary, tokenizer, longest
        self.specials = Specials.of(tokenizer)

    def inputs(self, static=None):
        batch, length = static or (None, None)
        windows, window = self._windows(static) if static else (None, None)
        return {'pieces': (windows, window), 'window_lengths': (windows,), 'places': (batch, length),
                'words': (batch, length), 'counts': (batch, length), 'lengths': (batch,)}

    def _windows(self, static):
        batch, length = static
        room = self.longest - self.specials.count
        return batch * windows_at_most(length, room), min(length, room) + self.specials.count

    def tables(self):
        return [('.pieces', 'pieces', last_id(self.tokenizer) + 1, False),
                ('.positions', 'positions', self.longest, False)]

    def to_json(self):
        return {**self.vocabulary.to_json(), 'longest': self.longest, 'before_ids': self.specials.before.tolist(),
                'behind_ids': self.specials.behind.tolist(), 'tokenizer': self.tokenizer.to_str()}

    @classmethod
    def from_json(cls, record):
        check_tags(record)
        check_number(record, 'longest', 8)
        vocabulary = Tags.from_json({key: record.get(key) for key in ('tags', 'of_characters')})
        if not isinstance(record['tokenizer'], str):
            raise ValueError(f'expected tokenizer to be text, got {type(record["tokenizer"]).__name__}')
        given = cls(vocabulary, tokenizer_of(record['tokenizer']), record['longest'])
        for key, ids in (('before_ids', given.specials.before), ('behind_ids', given.specials.behind)):
            if record.get(key, ids.tolist()) != ids.tolist():
                raise ValueError(f'expected {key} to be {ids.tolist()}, as the tokenizer has them')
        return given

    def encode(self, sentences):
        return Pieces(sentences, self.tokenizer, self.longest, specials=self.specials)

    def sizes(self, encoded):
        return encoded.sizes

    def arrays(self, encoded, numbers, static):
        shape = static or (len(numbers), encoded.sizes[numbers].max())
        batch = piece_batch(encoded, shape[::-1], numbers)
        if static:
            windows, window = self._windows(static)
        else:
            lengths = np.concatenate([encoded.window_lengths[slice(*encoded.windows_of[number:number + 2])]
                                      for number in numbers])
            windows, window = max(len(lengths), 1), lengths.max(initial=1)
        pieces, lengths, places = window_arrays(encoded, batch, numbers, windows, window)
        return {'pieces': pieces, 'window_lengths': lengths, 'places': np.ascontiguousarray(places.T),
                'words': np.ascontiguousarray(batch.words.T), 'counts': np.ascontiguousarray(batch.counts.T),
                'lengths': batch.lengths}
