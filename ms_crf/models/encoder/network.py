"""The network over a pretrained encoder: subword vectors, BiLSTM, mean of the subwords of a word, projection, head."""

from ms_crf.crf.constraints import Constraints
from ms_crf.models.base import Tags
from ms_crf.models.encoder.pretrained import Sizes
from ms_crf.models.graphs import ExportCell, constraints_of
from ms_crf.nn.head import Head, Layers
from ms_crf.nn.transformer import Encoder
from ms_crf.runs.options import Options

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class SubwordTagger(Layers):
    """Computes scores of tags for words, from the vectors of their subwords; length first.

    Args:
        width: width of a subword vector.
        num_tags: number of tags.
        hidden_dim: width of a BiLSTM layer's output, half for each direction; even.
        num_layers: number of BiLSTM layers; with 0 the vectors of the encoder are averaged directly.
        head: 'crf' or 'softmax'.
        constraints: the result of `allowed_transitions`, for the CRF.
    """

    def __init__(self, width: int, num_tags: int, hidden_dim: int = 200, num_layers: int = 1, head: str = 'crf',
                 constraints: Constraints | None = None) -> None:
        super().__init__()
        self.add_layers(width, num_tags, hidden_dim, num_layers, head, constraints)

    def parts(self) -> dict[str, list]:
        """The names that the option `freeze` accepts, and their Parameters."""
        return {'lstm': self.layers.trainable_params()}

    def emissions_of(self, vectors, words, counts, keep=None):
        """The score of each tag for each word.

        Args:
            vectors: (subwords, batch, width), the vectors of the subwords of each sentence.
            words: (subwords, batch) int32, the word of each subword; `length` for padding.
            counts: (length, batch) int32, the number of subwords of each word; 0 for padding.
            keep: in training the dropout masks: for each of `widths` a tensor (subwords, batch, width), with 0 for
                dropped values and 1 / (1 - rate) for all others.

        Returns:
            (length, batch, num_tags).
        """
        hidden = self.hidden_of(vectors, counts.sum(0).astype(ms.int32), keep)
        return self.scores_of(pool_words(hidden.astype(ms.float32), words, counts))

    def construct(self, vectors, words, counts, seq_length, tags, keep=None):
        """The training loss, averaged over sentences; tags are (length, batch). For the rest see `emissions_of`."""
        return self.head(self.emissions_of(vectors, words, counts, keep), tags, seq_length)


class EncodedTagger(nn.Cell):
    """Computes scores of tags for words, from the ids of their subwords: an encoder and a `SubwordTagger`.

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
        """The head of the tagger."""
        return self.tagger.head

    def parts(self) -> dict[str, list]:
        """The names that the option `freeze` accepts, and their Parameters: the parts of the tagger."""
        return self.tagger.parts()

    def pretrained_params(self) -> list:
        """The Parameters of the encoder, which have a learning rate of their own."""
        return self.encoder.trainable_params()

    @property
    def tag_bias(self):
        """The Parameter (num_tags,) that is added to the tag scores."""
        return self.tagger.tag_bias

    def vectors(self, pieces, window_lengths, places):
        """The vectors of subwords, the input of `SubwordTagger`.

        Args:
            pieces: (windows, window length) int32 ids.
            window_lengths: (windows,).
            places: (subwords, batch) int32, the index of each subword in the concatenated windows.

        Returns:
            (subwords, batch, width).
        """
        read = self.encoder(pieces, window_lengths)                                 # (windows, window length, width)
        windows, length, width = read.shape
        return ops.gather(ops.reshape(read, (windows * length, width)), places, 0)

    def construct(self, pieces, window_lengths, places, words, counts, seq_length, tags, keep=None):
        """The training loss, averaged over sentences; see `vectors` and `SubwordTagger.emissions_of`."""
        return self.tagger(self.vectors(pieces, window_lengths, places), words, counts, seq_length, tags, keep)


class SubwordExportCell(ExportCell):
    """The cell of an exported graph over an encoder; its network is an `EncodedTagger`."""

    def construct(self, pieces, window_lengths, places, words, counts, lengths):
        """Tags sentences.

        Args:
            pieces: (windows, window length) int32 ids, including special tokens.
            window_lengths: (windows,) int32.
            places: (batch, subwords) int32, the index of each subword in the concatenated windows.
            words: (batch, subwords) int32, the word of each subword; `length` for padding.
            counts: (batch, length) int32, the number of subwords of each word; 0 for padding.
            lengths: (batch,) int32.
        """
        vectors = self.network.vectors(pieces, window_lengths, ops.transpose(places, (1, 0)))
        words, counts = ops.transpose(words, (1, 0)), ops.transpose(counts, (1, 0))
        return self.tag(self.network.tagger.emissions_of(vectors, words, counts), lengths)


def pool_words(vectors, words, counts):
    """The mean of the subword vectors of each word.

    Args:
        vectors: (subwords, batch, width).
        words: (subwords, batch) int32, the word of each subword in its sentence; `length` for padding.
        counts: (length, batch) int32, the number of subwords of each word.

    Returns:
        (length, batch, width); zeros for a word without subwords.
    """
    subwords, batch, width = vectors.shape
    length = counts.shape[0]
    segments = ops.reshape(words * batch + ops.arange(batch).astype(ms.int32), (subwords * batch, 1))
    sums = ops.zeros(((length + 1) * batch, width), ms.float32)          # the last row is for padding
    sums = ops.tensor_scatter_add(sums, segments, ops.reshape(vectors, (subwords * batch, width)))
    sums = ops.reshape(sums[:length * batch], (length, batch, width))
    return sums / ops.expand_dims(ops.maximum(counts, 1).astype(ms.float32), 2)


def build_tagger(options: Options, vocabulary: Tags, width: int, scheme: str) -> SubwordTagger:
    """The network of a run above an encoder with vectors of this width; its weights are random."""
    layers = options.layers if options.encoder_lstm else 0
    network = SubwordTagger(width, len(vocabulary.tags), options.encoder_lstm, layers, options.head,
                          constraints_of(options, scheme, vocabulary.tags))
    if options.precision == 'mixed':
        network.layers.to_float(ms.float16)
    return network


def build_encoder(sizes: Sizes, weights: dict[str, np.ndarray] | None = None) -> Encoder:
    """An encoder of these sizes; `weights` is the result of `EncoderFiles.weights`, or None for random weights."""
    encoder = Encoder(**sizes._asdict())
    if weights is not None:
        for parameter in encoder.get_parameters():
            parameter.set_data(ms.Tensor(weights[parameter.name]))
    return encoder
