"""Tagging of encoded sentences by a network, in compiled graphs of fixed shapes.

Two of them: one reads forms, each once, however often it occurs; the other goes over the sentences.
"""

import time

from ms_crf.models.assembly import load_network
from ms_crf.models.graph_calls import graph_call
from ms_crf.models.tasks import CONFIDENCES, NBEST, PATHS
from ms_crf.models.words.batches import Encoded, TaggingShapes
from ms_crf.models.words.vocabulary import PADDING
from ms_crf.runs import records

import mindspore as ms
import numpy as np

ROWS = 64                  # sentences of a batch; with more, what the LSTMs work on leaves the processor's cache
FEW = 8                    # best paths of each sentence for which a batch has that many
FORMS = 512                # that are read at a time


def _reading(network):
    """The compiled function from (forms,) word ids and (forms, characters) ids to vectors (forms, width)."""
    @ms.jit
    def read(words, spellings):
        return network.form_vectors(words, spellings)

    return read


def _tagging(network, task, count):
    """The compiled function of a task: lengths (B,) and what `emissions_of` takes, to tensors of `GraphDecoder.run`."""
    head = network.head

    @ms.jit
    def paths(lengths, *inputs):
        return head.decode(network.emissions_of(*inputs), lengths)

    @ms.jit
    def confidences(lengths, *inputs):
        emissions = network.emissions_of(*inputs)
        best, scores = head.decode(emissions, lengths)
        chosen, given_before = head.along(emissions, best, lengths)
        return best, scores, chosen, given_before

    @ms.jit
    def nbest(lengths, *inputs):
        emissions = network.emissions_of(*inputs)
        best, scores = head.nbest(emissions, count, lengths)
        chosen, given_before = head.along(emissions, best[:, 0], lengths)
        return best, scores, chosen, given_before, head.normalizer(emissions, lengths)

    return {PATHS: paths, CONFIDENCES: confidences, NBEST: nbest}[task]


class GraphDecoder:
    """Tags with a network; to be inherited, with `encode` and `inputs`.

    Args:
        network: with `emissions_of` and a head.
        vocabulary: with its tags.
        compiled: is called with length, rows and seconds after a graph was compiled.
    """

    tasks = frozenset((PATHS, CONFIDENCES, NBEST))
    runs_graphs = True

    def __init__(self, network, vocabulary, compiled=None):
        self.network, self.vocabulary, self.compiled = network, vocabulary, compiled
        self._functions, self._seen, self._shapes = {}, set(), {}

    def run(self, encoded, task=PATHS, count=1):
        """Tags sentences, batch by batch.

        Args:
            encoded: sentences as `encode` gives them.
            task: 'paths', 'confidences' or 'nbest'.
            count: how many best paths; fewer come where the longest sentence of a batch has fewer.

        Yields:
            numbers of the sentences of a batch, and arrays, whose first rows are these sentences: of 'paths' the
            best paths (B, L) and their scores (B,); of 'confidences' also what `CRF.along` gives, (B, L) and
            (B, L, K); of 'nbest' paths (B, n, L) and scores (B, n), what `CRF.along` gives of the first of
            them, and the normaliser (B,).
        """
        at_most = max(1, min(ROWS, ROWS * FEW // count))          # the more paths, the fewer sentences at a time
        for (length, rows), numbers, arrays in self.inputs(encoded, at_most):
            with graph_call():
                began = time.perf_counter()
                most = min(count, len(self.vocabulary.tags) ** length)
                function = self._functions.get((task, most))
                if function is None:
                    function = self._functions[task, most] = _tagging(self.network, task, most)
                arrays = [tensor.asnumpy() for tensor in function(*map(ms.Tensor, arrays))]
                new, seconds = (task, most, length) not in self._seen, time.perf_counter() - began
                self._seen.add((task, most, length))
            if new and self.compiled is not None:
                self.compiled(length, rows, seconds)
            yield numbers, arrays

    def plan(self, lengths, rows):
        """What `TaggingShapes.plan` gives for batches of so many rows."""
        return self._shapes.setdefault(rows, TaggingShapes(rows)).plan(lengths)

    def tags(self, encoded):
        """Lists of tags for all sentences, in their order."""
        names, found = self.vocabulary.tags, [None] * len(encoded.lengths)
        for numbers, (paths, _) in self.run(encoded):
            for row, number in enumerate(numbers):
                found[number] = [names[tag] for tag in paths[row, :encoded.lengths[number]]]
        return found


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
