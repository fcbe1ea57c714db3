"""Whether confidences can be believed: how often what has a confidence is right."""

from collections.abc import Sequence
from typing import NamedTuple

from ms_crf.reports.evaluation import Evaluation
from ms_crf.text.partial import certain
from ms_crf.text.schemes import OPEN

import numpy as np

BINS = 10


class Bin(NamedTuple):
    """What has a confidence above `low` and up to `high`, in the first one also 0."""

    low: float
    high: float
    number: int
    confidence: float          # the mean of these; 0 without any
    right: float               # the share of these that is right


class Reliability(NamedTuple):
    """All bins, and their distance from what would be believable."""

    bins: list[Bin]
    ece: float                 # expected calibration error
    number: int
    confidence: float          # the mean of all
    right: float               # the share of all that is right


class Outcomes(NamedTuple):
    """Confidences, and whether what they were said of is right."""

    confidences: np.ndarray
    right: np.ndarray


def reliability(outcomes: Outcomes, bins: int = BINS) -> Reliability | None:
    """Bins of equal width, and the expected calibration error: the mean over all of what the mean confidence of a bin
    and the share of it that is right differ by. None without outcomes.
    """
    confidences, right = outcomes
    count = len(confidences)
    if not count:
        return None
    places = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    filled = np.maximum(counts, 1)
    means = np.bincount(places, confidences, bins) / filled
    shares = np.bincount(places, right, bins) / filled
    ece = float((counts * np.abs(means - shares)).sum() / count)
    made = [Bin(place / bins, (place + 1) / bins, int(counts[place]), float(means[place]), float(shares[place]))
            for place in range(bins)]
    return Reliability(made, ece, count, float(np.mean(confidences)), float(np.mean(right)))


def of_tokens(evaluation: Evaluation) -> Outcomes:
    """The confidence of each token's tag, and whether it is the gold one, of tokens that are judged."""
    judged = [(value, one == other)
              for tagged, gold, predicted in zip(evaluation.tagged, evaluation.gold, evaluation.predicted)
              for value, one, other in zip(tagged.confidences or [], gold, predicted) if OPEN not in one]
    return _outcomes([value for value, _ in judged], [right for _, right in judged])


def of_entities(evaluation: Evaluation) -> Outcomes:
    """The confidence of each predicted entity, and whether it is gold, in type and tokens."""
    confidences: list[float] = []
    right: list[bool] = []
    for gold, (known, _), tagged in zip(evaluation.gold, evaluation.spans, evaluation.tagged):
        sure = certain(gold, evaluation.scheme) if tagged.spans else []
        for span in tagged.spans:
            if all(sure[span.start_token:span.end_token]):
                confidences.append(span.confidence or 0.0)
                right.append(span[:3] in known)
    return _outcomes(confidences, right)


def _outcomes(confidences: Sequence[float], right: Sequence[bool]) -> Outcomes:
    return Outcomes(np.array(confidences, float), np.array(right, bool))
