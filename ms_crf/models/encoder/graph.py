"""An exported graph over an encoder: the cell, and what it is given, from sentences and from its record."""

from ms_crf.models.encoder.pretrained import last_id, tokenizer_of
from ms_crf.models.encoder.windows import Pieces, Specials, piece_batch, window_arrays, windows_at_most
from ms_crf.models.labels import Tags, check_number, check_tags
from ms_crf.models.served import Served

import numpy as np
from mindspore import ops


class ServedPieces(Served):
    """Of pieces of words, by an `EncodedTagger`."""

    def construct(self, pieces, window_lengths, places, words, counts, lengths):
        """Tags sentences.

        Args:
            pieces: (windows, window length) int32 ids, the special ones among them.
            window_lengths: (windows,) int32.
            places: (batch, pieces) int32, where in all windows, one after the other, each piece of a sentence stands.
            words: (batch, pieces) int32, which word each piece belongs to; `length` behind a sentence's end.
            counts: (batch, length) int32, how many pieces each word has; 0 behind a sentence's end.
            lengths: (batch,) int32.
        """
        vectors = self.network.vectors(pieces, window_lengths, ops.transpose(places, (1, 0)))
        words, counts = ops.transpose(words, (1, 0)), ops.transpose(counts, (1, 0))
        return self.tag(self.network.tagger.emissions_of(vectors, words, counts), lengths)


class PieceGraphInput:
    """Of a network over an encoder; names and methods as of `GraphInput`.

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
