"""Tagging over words: one compiled graph reads each distinct word once, another goes over the sentences."""

from ms_crf.models.assembly import load_network
from ms_crf.models.graph_calls import graph_call
from ms_crf.models.graphs import GraphDecoder
from ms_crf.models.words.batches import Encoded
from ms_crf.models.words.vocabulary import PADDING
from ms_crf.runs import records

import mindspore as ms
import numpy as np

FORMS = 512                # that are read at a time


def _reading(network):
    """The compiled function from (forms,) word ids and (forms, characters) ids to vectors (forms, width)."""
    @ms.jit
    def read(words, spellings):
        return network.form_vectors(words, spellings)

    return read


class Decoder(GraphDecoder):
    """Tags with a network over words.

    Args:
        network: a `TaggerNetwork`.
        vocabulary: its `Vocabulary`.
        compiled: as in `GraphDecoder`.
    """

    def __init__(self, network, vocabulary, compiled=None):
        super().__init__(network, vocabulary, compiled)
        self._read = _reading(network)

    @classmethod
    def load(cls, folder, config, compiled=None):
        """From a run directory and what `runs.read_config` gave."""
        vocabulary = records.read_vocabulary(folder)
        network = load_network(folder, records.read_options(folder, config), vocabulary, config['word_dim'],
                               config['scheme'])
        return cls(network, vocabulary, compiled)

    def encode(self, sentences):
        """Lists of tokens, none of them empty, as `run` takes them."""
        return Encoded(sentences, self.vocabulary)

    def inputs(self, encoded, at_most):
        """(length, rows), numbers of the sentences, and arrays of each batch: lengths, what `emissions_of` takes.

        Args:
            encoded: what `encode` gave.
            at_most: sentences of a batch.
        """
        vectors = self._vectors(encoded)
        for (length, rows), numbers in self.plan(encoded.lengths, at_most):
            lengths = np.zeros(rows, np.int32)
            lengths[:len(numbers)] = encoded.lengths[numbers]
            tokens = np.concatenate([encoded.tokens[number] for number in numbers])
            places = np.full((rows, length), len(vectors) - 1)
            places[np.arange(length) < lengths[:, None]] = tokens
            hidden = vectors.take(places.T, 0)
            yield (length, rows), numbers, (lengths, hidden, lengths)

    def _vectors(self, encoded):
        """(forms + 1, width): a vector for each form, and zeros."""
        found = np.zeros((encoded.num_forms + 1, self.network.widths[0]), np.float32)
        is_long = encoded.is_long[:encoded.num_forms]
        for chosen, width in ((np.flatnonzero(is_long), encoded.spelling_of.shape[1]),
                              (np.flatnonzero(~is_long), encoded.half)):
            for first in range(0, len(chosen), FORMS):
                forms = chosen[first:first + FORMS]
                words, spellings = np.full(FORMS, PADDING, np.int32), np.full((FORMS, width), PADDING, np.int32)
                words[:len(forms)] = encoded.word_of[forms]
                spellings[:len(forms)] = encoded.spelling_of[forms, :width]
                with graph_call():
                    vectors = self._read(ms.Tensor(words), ms.Tensor(spellings)).asnumpy()
                found[forms] = vectors[:len(forms)]
        return found
