"""Tagging with a network in compiled graphs of fixed shapes, whatever the network reads."""

import time
from pathlib import Path

from ms_crf.models.base import CONFIDENCES, NBEST, PATHS, tags_of
from ms_crf.models.bucketing import TaggingShapes
from ms_crf.models.graph_calls import graph_call
from ms_crf.runs import records

import mindspore as ms

ROWS = 64                  # sentences of a batch; with more, what the LSTMs work on leaves the processor's cache
FEW = 8                    # best paths of each sentence for which a batch has that many


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
        chosen, given_before = head.path_posteriors(emissions, best, lengths)
        return best, scores, chosen, given_before

    @ms.jit
    def nbest(lengths, *inputs):
        emissions = network.emissions_of(*inputs)
        best, scores = head.nbest(emissions, count, lengths)
        chosen, given_before = head.path_posteriors(emissions, best[:, 0], lengths)
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
            best paths (B, L) and their scores (B,); of 'confidences' also what `CRF.path_posteriors` gives, (B, L) and
            (B, L, K); of 'nbest' paths (B, n, L) and scores (B, n), what `CRF.path_posteriors` gives of the first of
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
        return tags_of(self, encoded)


def load_weights(folder, network):
    """Puts the weights of a run's best epoch into a network; raises CorpusError if they are damaged or don't fit."""
    path = Path(folder) / records.WEIGHTS
    arrays = records.read_tensors(path)
    parameters = network.trainable_params()
    records.check_fit(path, arrays, {parameter.name: parameter.shape for parameter in parameters})
    for parameter in parameters:
        parameter.set_data(ms.Tensor(arrays[parameter.name]))
