"""What is taken for what: types of entities, their borders, and plain tags."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ms_crf.reports.evaluation import Evaluation
from ms_crf.text.schemes import SpanTuple

Pair = tuple[SpanTuple | None, SpanTuple | None]       # a gold span and what was predicted there; None for nothing
SAME, LONGER, SHORTER, CROSSING = BORDERS = ('the same', 'longer', 'shorter', 'crossing')
MOST_LABELS = 20
OTHERS = '\0'                   # in place of labels that are left out


class Confusion(NamedTuple):
    """Counts of pairs.

    Attributes:
        labels: types, or plain tags; the most frequent ones.
        counts: by gold and predicted label; None stands for nothing, OTHERS for all labels that are left out.
        others: how many labels are left out.
        borders: by one of BORDERS, said of the predicted one, and whether the type is right; empty for plain tags.
    """

    labels: list[str]
    counts: Counter[tuple[str | None, str | None]]
    others: int
    borders: Counter[tuple[str, bool]]


def paired(gold: Sequence[SpanTuple], predicted: Sequence[SpanTuple]) -> list[Pair]:
    """Each gold span beside the predicted one that it shares most tokens with, each in one pair at most.

    Pairs are made beginning with those that share the most tokens; of equals, those that have the fewest tokens in one
    span alone, then those of one type, then the first. Spans that are left have None beside them.
    """
    candidates = sorted((-shared, _length(one) + _length(other), one[0] != other[0], one[1], other[1], one, other)
                        for one in gold for other in predicted
                        if (shared := min(one[2], other[2]) - max(one[1], other[1]) + 1) > 0)
    pairs: list[Pair] = []
    left = {*gold}, {*predicted}
    for *_, one, other in candidates:
        if one in left[0] and other in left[1]:
            pairs.append((one, other))
            left[0].remove(one)
            left[1].remove(other)
    pairs += [(one, None) for one in gold if one in left[0]]
    return pairs + [(None, other) for other in predicted if other in left[1]]


def _length(span: SpanTuple) -> int:
    return span[2] - span[1] + 1


def border(gold: SpanTuple, predicted: SpanTuple) -> str:
    """How the borders of a predicted span lie to those of a gold one that it shares tokens with: one of BORDERS."""
    before, behind = gold[1] - predicted[1], predicted[2] - gold[2]
    if before == behind == 0:
        return SAME
    if before >= 0 and behind >= 0:
        return LONGER
    return SHORTER if before <= 0 and behind <= 0 else CROSSING


def confusion(evaluation: Evaluation) -> Confusion:
    """What is taken for what in all sentences."""
    counts: Counter[tuple[str | None, str | None]] = Counter()
    borders: Counter[tuple[str, bool]] = Counter()
    for gold, predicted in evaluation.spans:
        if evaluation.plain:
            counts.update((one[0], other[0]) for one, other in zip(gold, predicted))
            continue
        for one, other in paired(gold, predicted):
            counts[one and one[0], other and other[0]] += 1
            if one and other:
                borders[border(one, other), one[0] == other[0]] += 1
    labels = _frequent(evaluation.types, counts)
    kept: Counter[tuple[str | None, str | None]] = Counter()
    for pair, count in counts.items():
        first, second = (label if label is None or label in labels else OTHERS for label in pair)
        kept[first, second] += count
    return Confusion(labels, kept, len(evaluation.types) - len(labels), borders)


def _frequent(labels: Sequence[str], counts: Counter[tuple[str | None, str | None]]) -> list[str]:
    """Those labels that are most often gold or predicted, in their order."""
    if len(labels) <= MOST_LABELS:
        return list(labels)
    times: Counter[str] = Counter()
    for pair, count in counts.items():
        times.update({label: count for label in pair if label is not None})
    chosen = {label for label, _ in times.most_common(MOST_LABELS)}
    return [label for label in labels if label in chosen]


def most_confused(counts: Counter[tuple[str | None, str | None]],
                  number: int = 5) -> Iterable[tuple[str | None, str | None, int]]:
    """The pairs of different labels that are most frequent: (gold, predicted, times)."""
    wrong = [(one, other, count) for (one, other), count in counts.items() if one != other and count]
    return sorted(wrong, key=lambda entry: (-entry[2], str(entry[0]), str(entry[1])))[:number]
