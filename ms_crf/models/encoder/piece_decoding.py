"""Tagging by a network over an encoder, in compiled graphs of fixed shapes, as `decoding` does it from words."""

import contextlib

from ms_crf.models.assembly import load_encoded
from ms_crf.models.encoder.vectors import Reader
from ms_crf.models.encoder.windows import Pieces, Specials, piece_batch
from ms_crf.models.graphs import GraphDecoder
from ms_crf.models.labels import Tags
from ms_crf.runs import records


def _unseen(_):
    return contextlib.nullcontext()


class PieceDecoder(GraphDecoder):
    """Tags with a network over an encoder.

    Args:
        network: a `PieceTagger`.
        vocabulary: its `Tags`.
        reader: a `Reader` of its encoder.
        files: `EncoderFiles` of the encoder.
        compiled: as in `GraphDecoder`.
        reading: `Watcher.reading` of the command, or None.
    """

    def __init__(self, network, vocabulary, reader, files, compiled=None, reading=None):
        super().__init__(network, vocabulary, compiled)
        self.reader, self.files, self.reading = reader, files, reading or _unseen
        self._specials = Specials.of(files.tokenizer)

    @classmethod
    def load(cls, folder, config, compiled=None):
        """As `Decoder.load`."""
        options, vocabulary = records.read_options(folder, config), records.read_vocabulary(folder, Tags)
        files = records.read_encoder(folder, config)
        network = load_encoded(folder, options, vocabulary, files, config['scheme'])
        return cls(network.tagger, vocabulary, Reader(network.encoder), files, compiled)

    def encode(self, sentences):
        """Lists of tokens, none of them empty, as `run` takes them."""
        return Pieces(sentences, self.files.tokenizer, self.files.sizes.longest, specials=self._specials)

    def inputs(self, encoded, at_most):
        """As `Decoder.inputs`."""
        vectors = encoded.vectors
        if vectors is None:
            with self.reading(len(encoded.windows)) as done:
                vectors = self.reader.vectors(encoded, done)
        for shape, numbers in self.plan(encoded.sizes, at_most):
            batch = piece_batch(encoded, shape, numbers)
            yield shape, numbers, (batch.lengths, batch.vectors(vectors), batch.words, batch.counts)
