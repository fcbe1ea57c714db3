"""An exported graph over an encoder: the cell, and what it is given, from sentences and from its record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ms_crf.base.errors import brief
from ms_crf.base.fields import checked, load_record, wrong
from ms_crf.models.encoder.pretrained import last_id, tokenizer_of
from ms_crf.models.encoder.windows import Subwords, specials_of, subword_batch, window_arrays, windows_at_most
from ms_crf.models.graphs import GraphInput, Served, Static
from ms_crf.models.labels import Tags

import numpy as np
from mindspore import ops


@dataclass(kw_only=True)
class EncoderGraphRecord:
    """What the record of a graph over an encoder holds beside the tags and what that of every graph does."""

    tokenizer: str
    longest: int = checked(least=8, most=(1 << 31) - 1)


class ServedSubwords(Served):
    """The cell of a graph that is given subwords, with an `EncodedTagger` in it."""

    def construct(self, pieces, window_lengths, places, words, counts, lengths):
        """Tags sentences.

        Args:
            pieces: (windows, window length) int32 ids, the special ones among them.
            window_lengths: (windows,) int32.
            places: (batch, subwords) int32, index of each subword of a sentence in all windows, one after the other.
            words: (batch, subwords) int32, which word each subword belongs to; `length` behind a sentence's end.
            counts: (batch, length) int32, how many subwords each word has; 0 behind a sentence's end.
            lengths: (batch,) int32.
        """
        vectors = self.network.vectors(pieces, window_lengths, ops.transpose(places, (1, 0)))
        words, counts = ops.transpose(words, (1, 0)), ops.transpose(counts, (1, 0))
        return self.tag(self.network.tagger.emissions_of(vectors, words, counts), lengths)


class SubwordGraphInput(GraphInput[Subwords]):
    """What makes the inputs of a graph over an encoder: windows of a batch, and which word each subword belongs to.

    Args:
        vocabulary: the tags.
        tokenizer: of the encoder.
        longest: subwords of a window at most, the special ones among them.
    """

    rows, tokens = 64, 2048
    unit = 'tokens or subwords'

    def __init__(self, vocabulary: Tags, tokenizer: Any, longest: int) -> None:
        super().__init__(vocabulary)
        self.tokenizer, self.longest = tokenizer, longest
        self.specials = specials_of(tokenizer)

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs."""
        batch, length = static or (None, None)
        windows, window = self._windows(*static) if static else (None, None)
        return {'pieces': (windows, window), 'window_lengths': (windows,), 'places': (batch, length),
                'words': (batch, length), 'counts': (batch, length), 'lengths': (batch,)}

    def _windows(self, batch: int, length: int) -> tuple[int, int]:
        """How many windows a batch of this shape may need, and how long they are."""
        room = self.longest - self.specials.size
        return batch * windows_at_most(length, room), min(length, room) + self.specials.size

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """The tables of ids and of positions."""
        return [('.pieces', 'subwords', last_id(self.tokenizer) + 1, False),
                ('.positions', 'positions', self.longest, False)]

    def to_json(self) -> dict[str, Any]:
        """What another program needs to make windows of sentences, and tags of what comes out."""
        return {**self.vocabulary.to_json(), 'longest': self.longest, 'before_ids': self.specials.before.tolist(),
                'behind_ids': self.specials.behind.tolist(), 'tokenizer': self.tokenizer.to_str()}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> 'SubwordGraphInput':
        """From the record of a graph; raises ValueError if it is not what `to_json` gave."""
        loaded = load_record(EncoderGraphRecord, record)
        graph_input = cls(Tags.from_json(record, closed=False), tokenizer_of(loaded.tokenizer), loaded.longest)
        for key, ids in zip(('before_ids', 'behind_ids'), graph_input.specials):
            if record.get(key, ids.tolist()) != ids.tolist():
                raise wrong(key, f'{ids.tolist()}, as the tokenizer has them', brief(record[key]))
        return graph_input

    def encode(self, sentences: Sequence[list[str]]) -> Subwords:
        """Lists of tokens, none of them empty, as subwords in windows."""
        return Subwords.of(sentences, self.tokenizer, self.longest, specials=self.specials)

    def sizes(self, encoded: Subwords) -> np.ndarray:
        """(sentences,): the length that each needs in a batch, of words and of subwords."""
        return encoded.sizes

    def arrays(self, encoded: Subwords, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""
        batch = subword_batch(encoded, self.shape(encoded, indices, static), indices)
        if static:
            windows, window = self._windows(*static)
        else:
            lengths = np.concatenate([encoded.window_lengths[slice(*encoded.windows_of[index:index + 2])]
                                      for index in indices])
            windows, window = max(len(lengths), 1), lengths.max(initial=1)
        ids, lengths, offsets = window_arrays(encoded, batch, indices, windows, window)
        return {'pieces': ids, 'window_lengths': lengths, 'places': np.ascontiguousarray(offsets.T),
                'words': np.ascontiguousarray(batch.words.T), 'counts': np.ascontiguousarray(batch.counts.T),
                'lengths': batch.lengths}
