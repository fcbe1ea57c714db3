"""The network over a pretrained encoder: pieces of words, BiLSTM, mean of each word's pieces, projection, head."""

from ms_crf.nn.layers import Layers

import mindspore as ms
from mindspore import nn, ops


class PieceTagger(Layers):
    """Scores of tags for words, from the vectors of their pieces; length first.

    Args:
        width: of a piece's vector.
        num_tags, hidden_dim, num_layers, head, constraints: as in `TaggerNetwork`; without layers the encoder's
            vectors themselves are averaged.
    """

    def __init__(self, width, num_tags, hidden_dim=200, num_layers=1, head='crf', constraints=None):
        super().__init__()
        self.add_layers(width, num_tags, hidden_dim, num_layers, head, constraints)

    def emissions_of(self, vectors, words, counts, keep=None):
        """Scores of each tag at each word.

        Args:
            vectors: (pieces, batch, width), of a sentence's pieces one after the other.
            words: (pieces, batch) int32, which word each belongs to; `length` behind a sentence's end.
            counts: (length, batch) int32, how many pieces each word has; 0 behind a sentence's end.
            keep: as in `TaggerNetwork.emissions`, (pieces, batch, width) for each of `widths`.

        Returns:
            (length, batch, num_tags).
        """
        hidden = self.hidden_of(vectors, counts.sum(0).astype(ms.int32), keep)
        return self.scores_of(pool_words(hidden.astype(ms.float32), words, counts))

    def construct(self, vectors, words, counts, seq_length, tags, keep=None):
        """The loss of training, mean of the sentences: see `emissions_of`, and tags (length, batch)."""
        return self.head(self.emissions_of(vectors, words, counts, keep), tags, seq_length)


class EncodedTagger(nn.Cell):
    """The same from the ids of pieces: an encoder, and what is above it.

    Args:
        encoder: an `Encoder`.
        tagger: a `PieceTagger`.
    """

    def __init__(self, encoder, tagger):
        super().__init__()
        self.encoder, self.tagger = encoder, tagger
        self.widths = tagger.widths

    @property
    def head(self):
        return self.tagger.head

    def vectors(self, pieces, window_lengths, places):
        """What `PieceTagger` takes.

        Args:
            pieces: (windows, window length) int32 ids.
            window_lengths: (windows,).
            places: (pieces, batch) int32, where in all windows, one after the other, each piece of a sentence stands.

        Returns:
            (pieces, batch, width).
        """
        found = self.encoder(pieces, window_lengths)                                # (windows, window length, width)
        windows, length, width = found.shape
        return ops.gather(ops.reshape(found, (windows * length, width)), places, 0)

    def construct(self, pieces, window_lengths, places, words, counts, seq_length, tags, keep=None):
        """The loss of training, mean of the sentences: see `vectors` and `PieceTagger`."""
        return self.tagger(self.vectors(pieces, window_lengths, places), words, counts, seq_length, tags, keep)


def pool_words(vectors, words, counts):
    """The mean of each word's pieces.

    Args:
        vectors: (pieces, batch, width).
        words: (pieces, batch) int32, to which word of its row a piece belongs; `length` for those that belong to none.
        counts: (length, batch) int32, how many pieces each word has.

    Returns:
        (length, batch, width); zeros for a word without pieces.
    """
    pieces, batch, width = vectors.shape
    length = counts.shape[0]
    segments = ops.reshape(words * batch + ops.arange(batch).astype(ms.int32), (pieces * batch, 1))
    sums = ops.zeros(((length + 1) * batch, width), ms.float32)          # the last of each row: of no word
    sums = ops.tensor_scatter_add(sums, segments, ops.reshape(vectors, (pieces * batch, width)))
    sums = ops.reshape(sums[:length * batch], (length, batch, width))
    return sums / ops.expand_dims(ops.maximum(counts, 1).astype(ms.float32), 2)
