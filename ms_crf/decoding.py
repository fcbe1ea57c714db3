"""Tagging of encoded sentences by a network, in compiled graphs of fixed shapes."""

import time

from ms_crf.batches import make_batch, plan

import mindspore as ms

PATHS, CONFIDENCES, NBEST = 'paths', 'confidences', 'nbest'      # what is asked for


def _compiled(network, task, count):
    """The compiled function of a task: what `TaggerNetwork.decode` takes, to tensors of `Decoder.run`."""
    head = network.head

    def emissions(words, form_words, long_spellings, short_spellings, places, lengths):
        return network.emissions(network.rows(words), form_words, long_spellings, short_spellings, places, lengths)

    @ms.jit
    def paths(words, form_words, long_spellings, short_spellings, places, lengths):
        return network.decode(words, form_words, long_spellings, short_spellings, places, lengths)

    @ms.jit
    def confidences(words, form_words, long_spellings, short_spellings, places, lengths):
        scores = emissions(words, form_words, long_spellings, short_spellings, places, lengths)
        best, value = head.decode(scores, lengths)
        chosen, given_before = head.along(scores, best, lengths)
        return best, value, chosen, given_before

    @ms.jit
    def nbest(words, form_words, long_spellings, short_spellings, places, lengths):
        scores = emissions(words, form_words, long_spellings, short_spellings, places, lengths)
        best, values = head.nbest(scores, count, lengths)
        chosen, given_before = head.along(scores, best[:, 0], lengths)
        return best, values, chosen, given_before, head.normalizer(scores, lengths)

    return {PATHS: paths, CONFIDENCES: confidences, NBEST: nbest}[task]


class Decoder:
    """Tags with a network.

    Args:
        network: a `TaggerNetwork`.
        batcher: a `Batcher` or `TaggingBatcher`.
        compiled: is called with 'tagging', shape and seconds after a graph was compiled.
    """

    tasks = frozenset((PATHS, CONFIDENCES, NBEST))

    def __init__(self, network, batcher, compiled=None):
        self.network, self.batcher, self.compiled = network, batcher, compiled
        self._functions, self._seen = {}, set()

    def run(self, encoded, task=PATHS, count=1):
        """Tags sentences, batch by batch.

        Args:
            encoded: `Encoded` sentences.
            task: 'paths', 'confidences' or 'nbest'.
            count: how many best paths.

        Yields:
            numbers of the sentences of a batch, and arrays, whose first rows are these sentences: of 'paths' the
            best paths (B, L) and their scores (B,); of 'confidences' also what `CRF.along` gives, (B, L) and
            (B, L, K); of 'nbest' paths (B, n, L) and scores (B, n), what `CRF.along` gives of the first of
            them, and the normaliser (B,).
        """
        function = self._functions.get((task, count))
        if function is None:
            function = self._functions[task, count] = _compiled(self.network, task, count)
        codes = encoded.codes()
        for shape, numbers in plan(self.batcher.shapes_for(encoded), encoded):
            batch = make_batch(encoded, shape, numbers, codes)
            began = time.perf_counter()
            arrays = [tensor.asnumpy() for tensor in function(*map(ms.Tensor, batch.inputs))]
            if (task, count, shape) not in self._seen:
                self._seen.add((task, count, shape))
                if self.compiled is not None:
                    self.compiled('tagging', shape, time.perf_counter() - began)
            yield numbers, arrays

    def tags(self, encoded, names):
        """Lists of tag names for all sentences, in their order."""
        found = [None] * len(encoded.tokens)
        for numbers, (paths, _) in self.run(encoded):
            for row, number in enumerate(numbers):
                found[number] = [names[tag] for tag in paths[row, :encoded.lengths[number]]]
        return found
