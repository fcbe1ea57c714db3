"""What an evaluation shows: calibration of confidences, confusions, scores of parts, the worst mistakes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ms_crf.reports.evaluation import Evaluation
from ms_crf.text.bootstrap import CORRECT, GOLD, PREDICTED, Interval, f1_of, interval_of, resampled
from ms_crf.text.metrics import SpanScore
from ms_crf.text.partial import certain, closed
from ms_crf.text.schemes import OPEN, PLAIN, SpanTuple, spans_of
from ms_crf.text.sentence import Sentence

import numpy as np

BINS = 10
Pair = tuple[SpanTuple | None, SpanTuple | None]       # a gold span and what was predicted there; None for nothing
PairCounts = Counter[tuple[str | None, str | None]]        # by gold and predicted label
SAME, LONGER, SHORTER, CROSSING = BORDERS = ('the same', 'longer', 'shorter', 'crossing')
MOST_LABELS = 20
OTHERS = '\0'                   # in place of labels that are left out
SENTENCES, ENTITIES = (5, 10, 20, 40), (1, 2, 3, 4)          # the greatest length of each part but the last
SEEN, ELSEWHERE, UNSEEN = SEEN_PARTS = ('seen with this type', 'seen with other types only', 'not seen')
KNOWN, UNKNOWN = KNOWN_PARTS = ('all tokens known', 'a token is unknown')


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
    return _outcomes([
        (value, one == other)
        for tagged, gold, predicted in zip(evaluation.tagged, evaluation.gold, evaluation.predicted)
        for value, one, other in zip(tagged.confidences or [], gold, predicted) if OPEN not in one])


def of_entities(evaluation: Evaluation) -> Outcomes:
    """The confidence of each predicted entity, and whether it is gold, in type and tokens."""
    outcomes = []
    for gold, (known, _), tagged in zip(evaluation.gold, evaluation.spans, evaluation.tagged):
        sure = certain(gold, evaluation.scheme) if tagged.spans else []
        outcomes += [(span.confidence or 0.0, span[:3] in known) for span in tagged.spans
                     if all(sure[span.start_token:span.end_token])]
    return _outcomes(outcomes)


def _outcomes(outcomes: Sequence[tuple[float, bool]]) -> Outcomes:
    confidences, right = np.array(outcomes, float).reshape(-1, 2).T
    return Outcomes(confidences, right.astype(bool))


def reliabilities(evaluation: Evaluation) -> dict[str, Reliability]:
    """The calibration of the confidences of 'tags' and 'entities', where there are any."""
    found = {'tags': reliability(of_tokens(evaluation)), 'entities': reliability(of_entities(evaluation))}
    return {unit: one for unit, one in found.items() if one is not None}


class Confusion(NamedTuple):
    """Counts of pairs.

    Attributes:
        labels: types, or plain tags; the most frequent ones.
        counts: by gold and predicted label; None stands for nothing, OTHERS for all labels that are left out.
        others: how many labels are left out.
        borders: by one of BORDERS, said of the predicted one, and whether the type is right; empty for plain tags.
    """

    labels: list[str]
    counts: PairCounts
    others: int
    borders: Counter[tuple[str, bool]]


def paired(gold: Sequence[SpanTuple], predicted: Sequence[SpanTuple]) -> list[Pair]:
    """Returns pairs of a gold span and the predicted span that shares the most tokens with it.

    A span is in one pair. Pairs that share more tokens are made first. If two pairs share equally many tokens, the pair
    with fewer tokens in only one span is made first, then a pair of one type, then the pair that comes first in the
    sentence. A span without a partner is paired with None.
    """
    candidates = sorted(
        (-shared, one[2] - one[1] + other[2] - other[1], one[0] != other[0], one[1], other[1], one, other)
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
    counts: PairCounts = Counter()
    borders: Counter[tuple[str, bool]] = Counter()
    for gold, predicted in evaluation.spans:
        pairs: Iterable[Pair] = zip(gold, predicted) if evaluation.plain else paired(gold, predicted)
        for one, other in pairs:
            counts[one and one[0], other and other[0]] += 1
            if one and other and not evaluation.plain:
                borders[border(one, other), one[0] == other[0]] += 1
    labels = _frequent(evaluation.types, counts)
    kept: PairCounts = Counter()
    for pair, count in counts.items():
        first, second = (label if label is None or label in labels else OTHERS for label in pair)
        kept[first, second] += count
    return Confusion(labels, kept, len(evaluation.types) - len(labels), borders)


def _frequent(labels: Sequence[str], counts: PairCounts) -> list[str]:
    """Those labels that are most often gold or predicted, in their order."""
    times: Counter[str] = Counter()
    for pair, count in counts.items():
        times.update({label: count for label in pair if label is not None})
    chosen = {label for label, _ in times.most_common(MOST_LABELS)}
    return [label for label in labels if label in chosen or len(labels) <= MOST_LABELS]


def most_confused(counts: PairCounts, number: int = 5) -> Sequence[tuple[str | None, str | None, int]]:
    """The pairs of different labels that are most frequent: (gold, predicted, times)."""
    wrong = [(one, other, count) for (one, other), count in counts.items() if one != other and count]
    return sorted(wrong, key=lambda entry: (-entry[2], str(entry[0]), str(entry[1])))[:number]


class Part(NamedTuple):
    """Some of the entities."""

    name: str
    spans: SpanScore
    interval: Interval | None          # of F1
    sentences: int                     # in which they are


def parts(evaluation: Evaluation, names: Sequence[str], part_of: Callable[[list[str], SpanTuple], int]) -> list[Part]:
    """The scores of each part; of entities that are right both sides are in the same one.

    Args:
        evaluation: what was tagged.
        names: of the parts.
        part_of: says, by the tokens of a sentence and a gold or predicted span of it, which part that is in.
    """
    counts = np.zeros((len(evaluation.tokens), len(names), 3), np.int64)
    for row, (tokens, (gold, predicted)) in enumerate(zip(evaluation.tokens, evaluation.spans)):
        spans = {*gold}, {*predicted}
        for column, chosen in ((GOLD, spans[0]), (PREDICTED, spans[1]), (CORRECT, spans[0] & spans[1])):
            for span in chosen:
                counts[row, part_of(tokens, span), column] += 1
    rates = f1_of(resampled(counts, evaluation.resamples, evaluation.seed))
    found = (counts > 0).any(2).sum(0).tolist()
    return [Part(name, SpanScore(*counts[:, place].sum(0).tolist()), interval_of(rates[:, place]), found[place])
            for place, name in enumerate(names)]


def _ranges(bounds: Sequence[int]) -> list[str]:
    firsts = [1, *(bound + 1 for bound in bounds)]
    return [str(first) if first == last else f'{first} to {last}' for first, last in zip(firsts, bounds)] + [
        f'{firsts[-1]} or more']


def by_sentence_length(evaluation: Evaluation) -> list[Part]:
    """By the number of tokens in the sentence."""
    return parts(evaluation, _ranges(SENTENCES), lambda tokens, _: sum(len(tokens) > bound for bound in SENTENCES))


def by_entity_length(evaluation: Evaluation) -> list[Part]:
    """By the number of tokens in the entity."""
    return parts(evaluation, _ranges(ENTITIES),
                 lambda _, span: sum(span[2] - span[1] + 1 > bound for bound in ENTITIES))


def by_training(evaluation: Evaluation, training: Sequence[Sentence]) -> list[Part]:
    """By whether the same tokens are an entity, or have a plain tag, in the training sentences."""
    types: dict[tuple[str, ...], set[str]] = {}
    for sentence in training:
        spans = ([(tag, place, place) for place, tag in enumerate(sentence.tags) if OPEN not in tag]
                 if evaluation.scheme == PLAIN else spans_of(closed(sentence.tags)))
        for kind, first, last in spans:
            types.setdefault(tuple(sentence.tokens[first:last + 1]), set()).add(kind)

    def part_of(tokens: list[str], span: SpanTuple) -> int:
        found = types.get(tuple(tokens[span[1]:span[2] + 1]))
        return SEEN_PARTS.index(UNSEEN if not found else SEEN if span[0] in found else ELSEWHERE)
    return parts(evaluation, SEEN_PARTS, part_of)


def by_vocabulary(evaluation: Evaluation, knows: Callable[[str], bool]) -> list[Part]:
    """By whether all tokens of the entity are in the model's vocabulary."""
    known = {token: knows(token) for token in {token for tokens in evaluation.tokens for token in tokens}}

    def part_of(tokens: list[str], span: SpanTuple) -> int:
        return int(not all(known[token] for token in tokens[span[1]:span[2] + 1]))
    return parts(evaluation, KNOWN_PARTS, part_of)


class Piece(NamedTuple):
    """A part of a sentence: an entity, or what is between two of them."""

    text: str
    type: str | None = None            # of the entity; None between entities
    wrong: bool = False                # whether the other side has not the same entity
    confidence: float | None = None


class Mistake(NamedTuple):
    """A sentence, as it should be and as it was tagged."""

    place: int                         # of the sentence, from 0
    confidence: float | None           # of the wrong part that the model is surest of
    gold: list[Piece]
    predicted: list[Piece]


def mistakes(evaluation: Evaluation, number: int, blank: str = ' ') -> tuple[list[Mistake], int]:
    """The worst mistakes, and how many sentences have any.

    A predicted entity that is wrong counts with its confidence; a gold one that is not found, and has no predicted one
    in its place, with the lowest confidence among the tags of its tokens. A sentence counts with its highest. Without
    confidences the sentences come in their order. What nobody has judged is no mistake.

    Args:
        evaluation: what was tagged.
        number: of mistakes to show.
        blank: what stands between two tokens.
    """
    ranked = [(-_worst(one, other, evaluation.tagged[index]), index)
              for index, (one, other) in enumerate(evaluation.spans) if one != other]
    chosen = sorted(ranked)[:number]
    return [_mistake(evaluation, index, -confidence, blank) for confidence, index in chosen], len(ranked)


def _mistake(evaluation: Evaluation, index: int, confidence: float, blank: str) -> Mistake:
    tokens, tagged = evaluation.tokens[index], evaluation.tagged[index]
    gold, predicted = evaluation.spans[index]
    known = _confidences(predicted, tagged)
    return Mistake(index, confidence if tagged.confidences else None,
                   list(_pieces(tokens, gold, {*predicted}, {}, blank, evaluation.plain)),
                   list(_pieces(tokens, predicted, {*gold}, known, blank, evaluation.plain)))


def _confidences(spans: Sequence[SpanTuple], tagged: Sentence) -> dict[SpanTuple, float]:
    """Of predicted spans; of plain tags those of the tokens."""
    if tagged.confidences is None:
        return {}
    known = {(span.type, span.start_token, span.end_token - 1): span.confidence or 0.0 for span in tagged.spans}
    return {span: known.get(span, tagged.confidences[span[1]]) for span in spans}


def _worst(gold: Sequence[SpanTuple], predicted: Sequence[SpanTuple], tagged: Sentence) -> float:
    if tagged.confidences is None:
        return 0.0
    known, right = _confidences(predicted, tagged), {*gold} & {*predicted}
    values = [known[span] for span in predicted if span not in right]
    values += [min(tagged.confidences[first:last + 1]) for kind, first, last in gold
               if not any(first <= other[2] and other[1] <= last for other in predicted)]
    return max(values, default=0.0)


def _pieces(tokens: Sequence[str], spans: Sequence[SpanTuple], others: set[SpanTuple],
            known: dict[SpanTuple, float], blank: str, plain: bool) -> Iterator[Piece]:
    """The sentence from left to right; of plain tags only those are shown that are wrong."""
    done = 0
    for span in [span for span in spans if span not in others] if plain else spans:
        kind, first, last = span
        if first > done:
            yield Piece(blank.join(tokens[done:first]))
        yield Piece(blank.join(tokens[first:last + 1]), kind, span not in others, known.get(span))
        done = last + 1
    if done < len(tokens):
        yield Piece(blank.join(tokens[done:]))
