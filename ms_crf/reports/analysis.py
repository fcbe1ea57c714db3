"""Analysis of an evaluation: calibration, confusion matrix, scores of groups of entities, and the error list."""

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
Pair = tuple[SpanTuple | None, SpanTuple | None]       # a gold span and a predicted span; None for a missing partner
PairCounts = Counter[tuple[str | None, str | None]]        # number of pairs by gold label and predicted label
SAME, LONGER, SHORTER, CROSSING = BOUNDARIES = ('the same', 'longer', 'shorter', 'crossing')
MOST_LABELS = 20
OTHERS = '\0'                   # stands for all labels that the confusion matrix does not show
SENTENCES, ENTITIES = (5, 10, 20, 40), (1, 2, 3, 4)          # the largest length of each group except the last
SEEN, ELSEWHERE, UNSEEN = SEEN_GROUPS = ('seen with this type', 'seen with other types only', 'not seen')
KNOWN, UNKNOWN = KNOWN_GROUPS = ('all tokens known', 'a token is unknown')


class Bin(NamedTuple):
    """Predictions with a confidence above `low` and up to `high`; the first bin includes 0."""

    low: float
    high: float
    number: int
    confidence: float          # mean confidence; 0 in an empty bin
    accuracy: float            # share of correct predictions


class Reliability(NamedTuple):
    """The calibration of confidences: all bins, and the expected calibration error."""

    bins: list[Bin]
    ece: float                 # expected calibration error
    number: int
    confidence: float          # mean confidence of all predictions
    accuracy: float            # share of correct predictions


class Confidences(NamedTuple):
    """The confidences of predictions, and whether each prediction is correct."""
    confidences: np.ndarray
    correct: np.ndarray


def reliability(predictions: Confidences, bins: int = BINS) -> Reliability | None:
    """Returns the calibration in bins of equal width, or None without predictions.

    The expected calibration error is the mean difference of confidence and accuracy of the bins, weighted by size.
    """
    confidences, correct = predictions
    count = len(confidences)
    if not count:
        return None
    indices = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(indices, minlength=bins)
    filled = np.maximum(counts, 1)
    means = np.bincount(indices, confidences, bins) / filled
    shares = np.bincount(indices, correct, bins) / filled
    ece = float((counts * np.abs(means - shares)).sum() / count)
    filled_bins = [Bin(index / bins, (index + 1) / bins, int(counts[index]), float(means[index]), float(shares[index]))
                   for index in range(bins)]
    return Reliability(filled_bins, ece, count, float(np.mean(confidences)), float(np.mean(correct)))


def of_tokens(evaluation: Evaluation) -> Confidences:
    """Returns the confidences of the tags of annotated tokens, and whether each tag is correct."""
    return _confidences_of([
        (value, one == other)
        for tagged, gold, predicted in zip(evaluation.tagged, evaluation.gold, evaluation.predicted)
        for value, one, other in zip(tagged.confidences or [], gold, predicted) if OPEN not in one])


def of_entities(evaluation: Evaluation) -> Confidences:
    """Returns the confidences of predicted entities, and whether type and tokens of each entity are correct."""
    predictions = []
    for gold, (known, _), tagged in zip(evaluation.gold, evaluation.spans, evaluation.tagged):
        annotated = certain(gold, evaluation.scheme) if tagged.spans else []
        predictions += [(span.confidence or 0.0, span[:3] in known) for span in tagged.spans
                        if all(annotated[span.start_token:span.end_token])]
    return _confidences_of(predictions)


def _confidences_of(predictions: Sequence[tuple[float, bool]]) -> Confidences:
    confidences, correct = np.array(predictions, float).reshape(-1, 2).T
    return Confidences(confidences, correct.astype(bool))


def reliabilities(evaluation: Evaluation) -> dict[str, Reliability]:
    """Returns the calibration of 'tags' and of 'entities'; a unit without predictions is omitted."""
    by_unit = {'tags': reliability(of_tokens(evaluation)), 'entities': reliability(of_entities(evaluation))}
    return {unit: result for unit, result in by_unit.items() if result is not None}


class Confusion(NamedTuple):
    """A confusion matrix of types or plain tags, and the boundary errors of entities.

    Attributes:
        labels: the most frequent types or plain tags.
        counts: number of pairs by gold and predicted label. None is a missing partner, OTHERS any omitted label.
        others: number of omitted labels.
        boundaries: number of pairs by boundary error of the predicted entity (see BOUNDARIES) and by whether the types
            are equal; empty for plain tags.
    """

    labels: list[str]
    counts: PairCounts
    others: int
    boundaries: Counter[tuple[str, bool]]


def paired(gold: Sequence[SpanTuple], predicted: Sequence[SpanTuple]) -> list[Pair]:
    """Returns pairs of a gold span and the predicted span that shares the most tokens with the gold span.

    Each span is in one pair. Pairs with more shared tokens come first, then pairs with fewer tokens in only one span,
    then pairs of one type, then pairs that begin first. A span without a partner is paired with None.
    """
    candidates = sorted(
        (-shared, one[2] - one[1] + other[2] - other[1], one[0] != other[0], one[1], other[1], one, other)
        for one in gold for other in predicted
        if (shared := min(one[2], other[2]) - max(one[1], other[1]) + 1) > 0)
    pairs: list[Pair] = []
    remaining = {*gold}, {*predicted}
    for *_, one, other in candidates:
        if one in remaining[0] and other in remaining[1]:
            pairs.append((one, other))
            remaining[0].remove(one)
            remaining[1].remove(other)
    pairs += [(one, None) for one in gold if one in remaining[0]]
    return pairs + [(None, other) for other in predicted if other in remaining[1]]


def boundary_error(gold: SpanTuple, predicted: SpanTuple) -> str:
    """Compares the boundaries of a predicted span with a gold span that shares tokens with it; one of BOUNDARIES."""
    before, after = gold[1] - predicted[1], predicted[2] - gold[2]
    if before == after == 0:
        return SAME
    if before >= 0 and after >= 0:
        return LONGER
    return SHORTER if before <= 0 and after <= 0 else CROSSING


def confusion(evaluation: Evaluation) -> Confusion:
    """Returns the confusion matrix of all sentences."""
    counts: PairCounts = Counter()
    boundaries: Counter[tuple[str, bool]] = Counter()
    for gold, predicted in evaluation.spans:
        pairs: Iterable[Pair] = zip(gold, predicted) if evaluation.plain else paired(gold, predicted)
        for one, other in pairs:
            counts[one and one[0], other and other[0]] += 1
            if one and other and not evaluation.plain:
                boundaries[boundary_error(one, other), one[0] == other[0]] += 1
    labels = _frequent(evaluation.types, counts)
    kept: PairCounts = Counter()
    for pair, count in counts.items():
        first, second = (label if label is None or label in labels else OTHERS for label in pair)
        kept[first, second] += count
    return Confusion(labels, kept, len(evaluation.types) - len(labels), boundaries)


def _frequent(labels: Sequence[str], counts: PairCounts) -> list[str]:
    """Returns the MOST_LABELS most frequent labels, in the order of `labels`."""
    times: Counter[str] = Counter()
    for pair, count in counts.items():
        times.update({label: count for label in pair if label is not None})
    chosen = {label for label, _ in times.most_common(MOST_LABELS)}
    return [label for label in labels if label in chosen or len(labels) <= MOST_LABELS]


def most_confused(counts: PairCounts, number: int = 5) -> Sequence[tuple[str | None, str | None, int]]:
    """Returns the most frequent confusions as (gold label, predicted label, count)."""
    wrong = [(one, other, count) for (one, other), count in counts.items() if one != other and count]
    return sorted(wrong, key=lambda entry: (-entry[2], str(entry[0]), str(entry[1])))[:number]


class Group(NamedTuple):
    """The scores of a group of entities."""

    name: str
    spans: SpanScore
    interval: Interval | None          # confidence interval of F1
    sentences: int                     # number of sentences with such entities


def group_scores(evaluation: Evaluation, names: Sequence[str],
                 group_of: Callable[[list[str], SpanTuple], int]) -> list[Group]:
    """Returns the scores of each group of entities.

    Args:
        evaluation: the tagged sentences.
        names: names of the groups.
        group_of: returns the index of the group of a gold or predicted span, given the tokens of the sentence and the
            span. So a correct span is in the same group as its gold span.
    """
    counts = np.zeros((len(evaluation.tokens), len(names), 3), np.int64)
    for row, (tokens, (gold, predicted)) in enumerate(zip(evaluation.tokens, evaluation.spans)):
        spans = {*gold}, {*predicted}
        for column, chosen in ((GOLD, spans[0]), (PREDICTED, spans[1]), (CORRECT, spans[0] & spans[1])):
            for span in chosen:
                counts[row, group_of(tokens, span), column] += 1
    rates = f1_of(resampled(counts, evaluation.resamples, evaluation.seed))
    sentences = (counts > 0).any(2).sum(0).tolist()
    return [Group(name, SpanScore(*counts[:, index].sum(0).tolist()), interval_of(rates[:, index]), sentences[index])
            for index, name in enumerate(names)]


def _ranges(bounds: Sequence[int]) -> list[str]:
    firsts = [1, *(bound + 1 for bound in bounds)]
    return [str(first) if first == last else f'{first} to {last}' for first, last in zip(firsts, bounds)] + [
        f'{firsts[-1]} or more']


def by_sentence_length(evaluation: Evaluation) -> list[Group]:
    """Returns scores by the number of tokens of the sentence."""
    return group_scores(evaluation, _ranges(SENTENCES),
                        lambda tokens, _: sum(len(tokens) > bound for bound in SENTENCES))


def by_entity_length(evaluation: Evaluation) -> list[Group]:
    """Returns scores by the number of tokens of the entity."""
    return group_scores(evaluation, _ranges(ENTITIES),
                        lambda _, span: sum(span[2] - span[1] + 1 > bound for bound in ENTITIES))


def by_training(evaluation: Evaluation, training: Sequence[Sentence]) -> list[Group]:
    """Returns scores by whether the same tokens are an entity, or for plain tags a token, of the training sentences."""
    types: dict[tuple[str, ...], set[str]] = {}
    for sentence in training:
        spans = ([(tag, index, index) for index, tag in enumerate(sentence.tags) if OPEN not in tag]
                 if evaluation.scheme == PLAIN else spans_of(closed(sentence.tags)))
        for kind, first, last in spans:
            types.setdefault(tuple(sentence.tokens[first:last + 1]), set()).add(kind)

    def group_of(tokens: list[str], span: SpanTuple) -> int:
        seen = types.get(tuple(tokens[span[1]:span[2] + 1]))
        return SEEN_GROUPS.index(UNSEEN if not seen else SEEN if span[0] in seen else ELSEWHERE)
    return group_scores(evaluation, SEEN_GROUPS, group_of)


def by_vocabulary(evaluation: Evaluation, knows: Callable[[str], bool]) -> list[Group]:
    """Returns scores by whether all tokens of the entity are in the vocabulary; `knows` tests a token."""
    known = {token: knows(token) for token in {token for tokens in evaluation.tokens for token in tokens}}

    def group_of(tokens: list[str], span: SpanTuple) -> int:
        return int(not all(known[token] for token in tokens[span[1]:span[2] + 1]))
    return group_scores(evaluation, KNOWN_GROUPS, group_of)


class Piece(NamedTuple):
    """A part of a sentence in the error list: an entity, or the text between two entities."""

    text: str
    type: str | None = None            # type of the entity; None between entities
    wrong: bool = False                # whether the entity is only gold or only predicted
    confidence: float | None = None


class Mistake(NamedTuple):
    """A sentence of the error list, with its gold and predicted entities."""

    sentence_index: int                # from 0
    confidence: float | None           # highest confidence of a mistake in the sentence
    gold: list[Piece]
    predicted: list[Piece]


def mistakes(evaluation: Evaluation, number: int, blank: str = ' ') -> tuple[list[Mistake], int]:
    """Returns the sentences with the worst mistakes, and the number of sentences with mistakes.

    The weight of a wrong predicted entity is its confidence. The weight of a gold entity without any overlapping
    prediction is the lowest confidence among the tags of its tokens. The weight of a sentence is the highest weight of
    its mistakes. Without confidences the sentences keep their order. Tokens that are not annotated are never mistakes.

    Args:
        evaluation: the tagged sentences.
        number: number of sentences to return.
        blank: separator of tokens in the returned texts.
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
    """Returns the confidences of predicted spans; for plain tags the confidences of the tokens."""
    if tagged.confidences is None:
        return {}
    known = {(span.type, span.start_token, span.end_token - 1): span.confidence or 0.0 for span in tagged.spans}
    return {span: known.get(span, tagged.confidences[span[1]]) for span in spans}


def _worst(gold: Sequence[SpanTuple], predicted: Sequence[SpanTuple], tagged: Sentence) -> float:
    if tagged.confidences is None:
        return 0.0
    known, correct = _confidences(predicted, tagged), {*gold} & {*predicted}
    values = [known[span] for span in predicted if span not in correct]
    values += [min(tagged.confidences[first:last + 1]) for kind, first, last in gold
               if not any(first <= other[2] and other[1] <= last for other in predicted)]
    return max(values, default=0.0)


def _pieces(tokens: Sequence[str], spans: Sequence[SpanTuple], others: set[SpanTuple],
            known: dict[SpanTuple, float], blank: str, plain: bool) -> Iterator[Piece]:
    """Yields the pieces of a sentence from left to right; plain tags are only marked if they are wrong."""
    end = 0
    for span in [span for span in spans if span not in others] if plain else spans:
        kind, first, last = span
        if first > end:
            yield Piece(blank.join(tokens[end:first]))
        yield Piece(blank.join(tokens[first:last + 1]), kind, span not in others, known.get(span))
        end = last + 1
    if end < len(tokens):
        yield Piece(blank.join(tokens[end:]))
