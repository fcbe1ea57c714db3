"""Sentences that are tagged wrongly, those first where the model is surest of what is wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ms_crf.reports.evaluation import Evaluation
from ms_crf.text.schemes import SpanTuple
from ms_crf.text.sentence import Sentence


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
    ranked: list[tuple[float, int]] = []
    for index, (one, other) in enumerate(evaluation.spans):
        if one != other:
            ranked.append((-(_worst(one, other, evaluation.tagged[index]) or 0.0), index))
    chosen = sorted(ranked)[:number]
    return [_mistake(evaluation, index, -confidence, blank) for confidence, index in chosen], len(ranked)


def _mistake(evaluation: Evaluation, index: int, confidence: float, blank: str) -> Mistake:
    tokens, tagged = evaluation.tokens[index], evaluation.tagged[index]
    gold, predicted = evaluation.spans[index]
    known = _confidences(predicted, tagged)
    return Mistake(index, confidence if tagged.confidences else None,
                   list(_pieces(tokens, gold, {*predicted}, {}, blank, evaluation.plain)),
                   list(_pieces(tokens, predicted, {*gold}, known, blank, evaluation.plain)))


def _confidences(spans: Iterable[SpanTuple], tagged: Sentence) -> dict[SpanTuple, float]:
    """Of predicted spans; of plain tags those of the tokens."""
    if tagged.confidences is None:
        return {}
    known = {(span.type, span.start_token, span.end_token - 1): span.confidence or 0.0 for span in tagged.spans}
    return {span: known.get(span, tagged.confidences[span[1]]) for span in spans}


def _worst(gold: Sequence[SpanTuple], predicted: Sequence[SpanTuple], tagged: Sentence) -> float | None:
    if tagged.confidences is None:
        return None
    known, right = _confidences(predicted, tagged), {*gold} & {*predicted}
    values = [known[span] for span in predicted if span not in right]
    values += [min(tagged.confidences[first:last + 1]) for kind, first, last in gold
               if not any(first <= other[2] and other[1] <= last for other in predicted)]
    return max(values, default=0.0)


def _pieces(tokens: Sequence[str], spans: Sequence[SpanTuple], others: set[SpanTuple],
            known: dict[SpanTuple, float], blank: str, plain: bool) -> Iterator[Piece]:
    """The sentence from left to right; of plain tags only those are shown that are wrong."""
    done = 0
    shown = [span for span in spans if span not in others] if plain else spans
    for span in shown:
        kind, first, last = span
        if first > done:
            yield Piece(blank.join(tokens[done:first]))
        yield Piece(blank.join(tokens[first:last + 1]), kind, span not in others, known.get(span))
        done = last + 1
    if done < len(tokens):
        yield Piece(blank.join(tokens[done:]))
