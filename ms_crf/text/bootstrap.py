"""Bootstrap of F1: resampling sentences with replacement for confidence intervals and significance tests.

Counts of spans are arrays (sentences, types, 3) with the numbers of correct, predicted and gold spans. Their sums give
F1 for one type or for all types together.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ms_crf.text.metrics import Score

import numpy as np

CORRECT, PREDICTED, GOLD = range(3)
RESAMPLES, SEED, LEVEL = 1000, 1, 0.95
LEAST, MOST = 100, 1_000_000                     # limits for the number of resamples
_CELLS = 1 << 21                                 # random draws in memory at once


class Interval(NamedTuple):
    """A bootstrap confidence interval."""

    low: float
    high: float


class Difference(NamedTuple):
    """The difference of the scores of two models on the same sentences."""

    value: float
    interval: Interval
    p: float                   # probability of a difference at least this large if both models were equally good


def counts_of(scores: Sequence[Score], types: Sequence[str]) -> np.ndarray:
    """Counts (sentences, types, 3) of correct, predicted and gold spans.

    Args:
        scores: the score of each single sentence.
        types: the span types to count.
    """
    counts = [score.by_type.get(kind, (0, 0, 0)) for score in scores for kind in types]
    return np.array(counts, np.int64).reshape(len(scores), len(types), 3)


def f1_of(counts: np.ndarray) -> np.ndarray:
    """F1 (...) of counts (..., 3); nan if there are neither predicted nor gold spans."""
    both = counts[..., PREDICTED] + counts[..., GOLD]
    return 2 * counts[..., CORRECT] / np.where(both > 0, both, np.nan)


def resampled(counts: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED) -> np.ndarray:
    """Sums (resamples, ...) of the counts of sentences drawn with replacement, each time as many as `counts` has.

    With the same seed and the same number of sentences, the same sentences are drawn.

    Args:
        counts: counts for each sentence, (sentences, ...).
        resamples: number of resamples.
        seed: seed of the random generator.
    """
    sentences, rest = len(counts), counts.shape[1:]
    flat = counts.reshape(sentences, -1).astype(np.float64)      # sums below 2 ** 53 are exact
    generator = np.random.default_rng(seed)
    sums = np.empty((resamples, flat.shape[1]))
    rows = max(1, _CELLS // sentences)
    for first in range(0, resamples, rows):
        size = min(rows, resamples - first)
        drawn = generator.integers(0, sentences, (size, sentences)) + sentences * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences)
        sums[first:first + size] = times.astype(np.float64) @ flat
    return sums.reshape(resamples, *rest)


def interval_of(values: np.ndarray, level: float = LEVEL) -> Interval | None:
    """The central interval of resampled values that contains the share `level` of the values.

    Values of nan are ignored; the result is None if no other value exists.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def difference(one: np.ndarray, other: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED) -> Difference:
    """Paired bootstrap test of two models on the same sentences: F1 of the first model minus F1 of the second model.

    Args:
        one, other: counts of the two models, (sentences, 3) each: correct, predicted and gold spans.
        resamples: number of resamples; both models get the same sentences.
        seed: seed of the random generator.

    Returns:
        The difference, its interval, and p. A resample counts for p if its difference is at least as far from the
        observed difference as the observed difference is from 0; p is (1 + count) / (1 + resamples).
    """
    if len(one) != len(other):
        raise ValueError(f'both must be of the same sentences, got {len(one)} and {len(other)}')
    both = np.stack((one, other), 1)                                                # (sentences, 2, 3)
    value = _minus(both.sum(0))
    drawn = _minus(resampled(both, resamples, seed))
    # The tolerance is for rounding errors of floats.
    far = np.abs(drawn - value) >= abs(value) - 1e-12
    interval = interval_of(drawn)
    assert interval is not None
    return Difference(float(value), interval, (1 + int(far.sum())) / (1 + resamples))


def _minus(counts: np.ndarray) -> np.ndarray:
    """Differences of F1 from counts (..., 2, 3); F1 without any span is 0."""
    rates = np.nan_to_num(f1_of(counts))
    return rates[..., 0] - rates[..., 1]
