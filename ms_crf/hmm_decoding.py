"""Tagging by a hidden Markov model, as `decoding` does with a network."""

from typing import NamedTuple

from ms_crf.hmm_batch import batches, top
from ms_crf.tasks import CONFIDENCES, PATHS

import numpy as np


class _Encoded(NamedTuple):
    scores: list               # for each sentence the log probability of its words in each state (length, S)
    lengths: np.ndarray


class _Vocabulary(NamedTuple):
    tags: list
    words: list


class HMMDecoder:
    """Tags with an `HMM` of words.

    Args:
        model: the `HMM`.
    """

    tasks = frozenset((PATHS, CONFIDENCES))

    def __init__(self, model):
        self.model, self.vocabulary = model, _Vocabulary(model.states, model.words.words)

    def encode(self, sentences):
        """As `Decoder.encode`."""
        return _Encoded([self.model.scores_of(tokens) for tokens in sentences], np.array(list(map(len, sentences))))

    def run(self, encoded, task=PATHS, count=1):
        """As `Decoder.run`, for 'paths' and 'confidences'."""
        for numbers in batches(encoded.lengths):
            batch = self.model.batch([encoded.scores[number] for number in numbers])
            best = batch.viterbi()
            paths = np.zeros((len(numbers), batch.length), np.int64)
            for row, (path, _) in enumerate(best):
                paths[row, :len(path)] = path
            arrays = [paths, np.array([score for _, score in best])]
            yield np.array(numbers), arrays if task == PATHS else [*arrays, *self._along(batch, paths)]

    def _along(self, batch, paths):
        """As `CRF.along`."""
        before = self.model.log_transition[paths.T[:-1]]                            # (L - 1, B, S)
        first = np.broadcast_to(self.model.log_start, (1, *before.shape[1:]))
        onward = np.concatenate((first, before)) + batch.emissions + batch.backward()
        weights = np.exp(onward - top(onward))
        given_before = (weights / weights.sum(-1, keepdims=True)).swapaxes(0, 1)    # (B, L, S)
        chosen = np.take_along_axis(batch.posteriors().swapaxes(0, 1), paths[:, :, None], 2)[:, :, 0]
        return chosen, given_before
