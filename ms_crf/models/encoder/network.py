"""The network over a pretrained encoder: subwords, BiLSTM, mean of each word's subwords, projection, head."""

from ms_crf.crf.constraints import Constraints
from ms_crf.models.base import Tags
from ms_crf.models.encoder.pretrained import Sizes
from ms_crf.models.graphs import Served, constraints_of
from ms_crf.nn.head import Head, Layers
from ms_crf.nn.transformer import Encoder
from ms_crf.runs.options import Options

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class SubwordTagger(Layers):
    """Scores of tags for words, from the vectors of their subwords; length first.

    Args:
        width: of a subword's vector.
        num_tags: number of tags.
        hidden_dim: width of a BiLSTM layer's output, half for each direction; even.
        num_layers: number of BiLSTM layers; without any the encoder's vectors themselves are averaged.
        head: 'crf' or 'softmax'.
        constraints: what `allowed_transitions` returns; for the CRF.
    """

    def __init__(self, width: int, num_tags: int, hidden_dim: int = 200, num_layers: int = 1, head: str = 'crf',
                 constraints: Constraints | None = None) -> None:
        super().__init__()
        self.add_layers(width, num_tags, hidden_dim, num_layers, head, constraints)

    def parts(self) -> dict[str, list]:
        """What the option `freeze` may name, and its Parameters."""
        return {'lstm': self.layers.trainable_params()}

    def emissions_of(self, vectors, words, counts, keep=None):
        """Scores of each tag at each word.

        Args:
            vectors: (subwords, batch, width), of a sentence's subwords one after the other.
            words: (subwords, batch) int32, which word each belongs to; `length` behind a sentence's end.
            counts: (length, batch) int32, how many subwords each word has; 0 behind a sentence's end.
            keep: for training, a tensor (subwords, batch, width) for each of `widths` that the values there are
                multiplied with: 0 for what is dropped, 1 / (1 - rate) for the rest.

        Returns:
            (length, batch, num_tags).
        """
        hidden = self.hidden_of(vectors, counts.sum(0).astype(ms.int32), keep)
        return self.scores_of(pool_words(hidden.astype(ms.float32), words, counts))

    def construct(self, vectors, words, counts, seq_length, tags, keep=None):
        """The loss of training, mean of the sentences: see `emissions_of`, and tags (length, batch)."""
        return self.head(self.emissions_of(vectors, words, counts, keep), tags, seq_length)


class EncodedTagger(nn.Cell):
    """Scores of tags for words, from the ids of their subwords: an encoder, and what is above it.

    Args:
        encoder: an `Encoder`.
        tagger: a `SubwordTagger`.
    """

    def __init__(self, encoder: Encoder, tagger: SubwordTagger) -> None:
        super().__init__()
        self.encoder, self.tagger = encoder, tagger
        self.widths = tagger.widths

    @property
    def head(self) -> Head:
        """That of the tagger."""
        return self.tagger.head

    def parts(self) -> dict[str, list]:
        """Those of the tagger."""
        return self.tagger.parts()

    def pretrained_params(self) -> list:
        """Those of the encoder, which learn at a rate of their own."""
        return self.encoder.trainable_params()

    @property
    def tag_bias(self):
        """What is added to the scores of each tag: (num_tags,)."""
        return self.tagger.tag_bias

    def vectors(self, pieces, window_lengths, places):
        """What `SubwordTagger` takes.

        Args:
            pieces: (windows, window length) int32 ids.
            window_lengths: (windows,).
            places: (subwords, batch) int32, index of each subword of a sentence in all windows, one after the other.

        Returns:
            (subwords, batch, width).
        """
        read = self.encoder(pieces, window_lengths)                                 # (windows, window length, width)
        windows, length, width = read.shape
        return ops.gather(ops.reshape(read, (windows * length, width)), places, 0)

    def construct(self, pieces, window_lengths, places, words, counts, seq_length, tags, keep=None):
        """The loss of training, mean of the sentences; see `vectors`, and `SubwordTagger.emissions_of` for the rest."""
        return self.tagger(self.vectors(pieces, window_lengths, places), words, counts, seq_length, tags, keep)


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


def pool_words(vectors, words, counts):
    """The mean of each word's subwords.

    Args:
        vectors: (subwords, batch, width).
        words: (subwords, batch) int32, which word of its row each belongs to; `length` for those that belong to none.
        counts: (length, batch) int32, how many subwords each word has.

    Returns:
        (length, batch, width); zeros for a word without subwords.
    """
    subwords, batch, width = vectors.shape
    length = counts.shape[0]
    segments = ops.reshape(words * batch + ops.arange(batch).astype(ms.int32), (subwords * batch, 1))
    sums = ops.zeros(((length + 1) * batch, width), ms.float32)          # the last of each row: of no word
    sums = ops.tensor_scatter_add(sums, segments, ops.reshape(vectors, (subwords * batch, width)))
    sums = ops.reshape(sums[:length * batch], (length, batch, width))
    return sums / ops.expand_dims(ops.maximum(counts, 1).astype(ms.float32), 2)


def build_tagger(options: Options, vocabulary: Tags, width: int, scheme: str) -> SubwordTagger:
    """The network of a run over an encoder whose vectors have this width; its weights are random."""
    layers = options.layers if options.encoder_lstm else 0
    network = SubwordTagger(width, len(vocabulary.tags), options.encoder_lstm, layers, options.head,
                          constraints_of(options, scheme, vocabulary.tags))
    if options.precision == 'mixed':
        network.layers.to_float(ms.float16)
    return network


def build_encoder(sizes: Sizes, weights: dict[str, np.ndarray] | None = None) -> Encoder:
    """The encoder of these sizes, with what `EncoderFiles.weights` gave, if anything."""
    encoder = Encoder(**sizes._asdict())
    if weights is not None:
        for parameter in encoder.get_parameters():
            parameter.set_data(ms.Tensor(weights[parameter.name]))
    return encoder
