"""What chance has in a score: sentences are drawn with replacement, again and again, and scored each time.

Counts of spans stand in arrays (sentences, types, 3): correct, predicted and gold, in this order. F1 follows from them,
of one type, or of all together by their sums.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ms_crf.text.metrics import Score

import numpy as np

CORRECT, PREDICTED, GOLD = range(3)
RESAMPLES, SEED, LEVEL = 1000, 1, 0.95
LEAST, MOST = 100, 1_000_000                     # resamples that can be asked for
_CELLS = 1 << 21                                 # draws that are held at a time


class Interval(NamedTuple):
    """The middle part of what the resamples gave."""

    low: float
    high: float


class Difference(NamedTuple):
    """One score minus another, on the same sentences."""

    value: float
    interval: Interval
    p: float                   # how often a difference this large, either way, comes about by chance alone


def counts_of(scores: Sequence[Score], types: Sequence[str]) -> np.ndarray:
    """The counts (sentences, types, 3) of single sentences.

    Args:
        scores: of each sentence by itself.
        types: those that there are.
    """
    counts = [score.by_type.get(kind, (0, 0, 0)) for score in scores for kind in types]
    return np.array(counts, np.int64).reshape(len(scores), len(types), 3)


def f1_of(counts: np.ndarray) -> np.ndarray:
    """F1 of counts (..., 3): (...), nan where nothing is predicted and nothing is gold."""
    both = counts[..., PREDICTED] + counts[..., GOLD]
    return 2 * counts[..., CORRECT] / np.where(both > 0, both, np.nan)


def resampled(counts: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED) -> np.ndarray:
    """Sums of counts over as many sentences as there are, drawn with replacement: (resamples, ...).

    The same sentences are drawn for all counts of as many sentences, under the same seed.

    Args:
        counts: (sentences, ...).
        resamples: how many times sentences are drawn.
        seed: of the generator that draws.
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
    """The interval between the quantiles of resampled values that leaves (1 - level) / 2 on either side.

    A value of nan is left out; None if nothing else is there.
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def difference(one: np.ndarray, other: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED) -> Difference:
    """The paired bootstrap test of two models on the same sentences: F1 of the first minus F1 of the second.

    Args:
        one, other: (sentences, 3) each: correct, predicted and gold.
        resamples: how many times sentences are drawn, the same ones for both.
        seed: of the generator that draws.

    Returns:
        The difference, its interval, and p: the share of resamples whose difference is as far from the one of all
        sentences as that is from 0, with one more that counts as such.
    """
    if len(one) != len(other):
        raise ValueError(f'both must be of the same sentences, got {len(one)} and {len(other)}')
    both = np.stack((one, other), 1)                                                # (sentences, 2, 3)
    value = _minus(both.sum(0))
    drawn = _minus(resampled(both, resamples, seed))
    # Sums of floats: what is equal but for rounding counts as far enough.
    far = np.abs(drawn - value) >= abs(value) - 1e-12
    interval = interval_of(drawn)
    assert interval is not None
    return Difference(float(value), interval, (1 + int(far.sum())) / (1 + resamples))


def _minus(counts: np.ndarray) -> np.ndarray:
    """Differences of F1 from counts (..., 2, 3), 0 standing for that of no spans."""
    rates = np.nan_to_num(f1_of(counts))
    return rates[..., 0] - rates[..., 1]
