"""Tagging by a hidden Markov model, as `decoding` does with a network."""

from typing import NamedTuple

from ms_crf.models.hmm.recursions import top
from ms_crf.models.labels import Tags, mostly_characters
from ms_crf.models.tasks import CONFIDENCES, PATHS
from ms_crf.runs import records

import numpy as np


class _Encoded(NamedTuple):
    sentences: list
    lengths: np.ndarray


class HMMDecoder:
    """Tags with an `HMM` of words.

    Args:
        model: the `HMM`.
    """

    tasks = frozenset((PATHS, CONFIDENCES))
    runs_graphs = False

    def __init__(self, model):
        self.model, self.vocabulary = model, Tags(model.states, mostly_characters(model.words.words))

    @classmethod
    def load(cls, folder, config, compiled=None):
        """From a run directory."""
        return cls(records.read_hmm(folder))

    def encode(self, sentences):
        """As `Decoder.encode`."""
        return _Encoded(sentences, np.array(list(map(len, sentences))))

    def run(self, encoded, task=PATHS, count=1):
        """As `Decoder.run`, for 'paths' and 'confidences'."""
        for numbers, batch, _ in self.model.batches(encoded.sentences):
            states, scores = batch.viterbi()
            yield numbers, [states.T, scores] if task == PATHS else [states.T, scores, *self._along(batch, states.T)]

    def _along(self, batch, paths):
        """As `CRF.along`."""
        before = self.model.log_transition[paths.T[:-1]]                            # (L - 1, B, S)
        first = np.broadcast_to(self.model.log_start, (1, *before.shape[1:]))
        onward = np.concatenate((first, before)) + batch.emissions + batch.backward()
        weights = np.exp(onward - top(onward))
        given_before = (weights / weights.sum(-1, keepdims=True)).swapaxes(0, 1)    # (B, L, S)
        chosen = np.take_along_axis(batch.posteriors().swapaxes(0, 1), paths[:, :, None], 2)[:, :, 0]
        return chosen, given_before
