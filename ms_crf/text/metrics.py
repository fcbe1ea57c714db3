"""Scores of predicted tags: precision, recall and F1 of spans, overall and by type, and accuracy of tokens.

What nobody has judged does not count: no token whose gold tag is open, and no span, gold or predicted, with a token
that is open or in a gold span which may go on in one that is; see `partial.certain`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ms_crf.text.partial import certain, closed, countable, is_open
from ms_crf.text.schemes import OPEN, PLAIN, SpanTuple, spans_of, strict_spans_of


class SpanScore(NamedTuple):
    """Counts of spans; the rates follow from them."""

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        both = self.predicted + self.gold
        return 2 * self.correct / both if both else 0.0


class Score(NamedTuple):
    """How well the predicted tags of a corpus agree with the gold ones."""

    spans: SpanScore                   # of all types together; with plain tags each token is a span
    by_type: dict[str, SpanScore]      # in the order of the types' names
    tokens: int                        # those that are judged
    correct_tokens: int
    raw_correct: int | None = None     # of unconverted tags; None if these are the tags that are compared

    @property
    def accuracy(self) -> float:
        return self.correct_tokens / self.tokens if self.tokens else 0.0

    @property
    def raw_accuracy(self) -> float:
        """The accuracy that conlleval prints: of the tags as they are in the file, without any conversion."""
        return self._replace(correct_tokens=self.raw_tokens).accuracy

    @property
    def raw_tokens(self) -> int:
        """The tokens that count as correct in `raw_accuracy`."""
        return self.correct_tokens if self.raw_correct is None else self.raw_correct


def score(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str,
          strict: bool = False) -> Score:
    """Compares predicted with gold tag sequences.

    Args:
        gold, predicted: a list of tags for each sentence, of the same lengths; gold ones may be open.
        scheme: 'BIO', 'BIOES', 'BMES' or 'plain'; without `strict` 'IOB1' as well.
        strict: count only spans that are well-formed in the scheme; otherwise all that `spans_of` finds.
    """
    if len(gold) != len(predicted):
        raise ValueError(f'predicted must hold a sentence for each of gold ({len(gold)}), got {len(predicted)}')
    predicted_counts: Counter[str] = Counter()
    gold_counts: Counter[str] = Counter()
    correct_counts: Counter[str] = Counter()
    tokens = correct_tokens = 0
    for index, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted)):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f'sentence {index} must have a predicted tag for each gold tag ({len(gold_tags)}), '
                             f'got {len(predicted_tags)}')
        tokens += len(gold_tags) - sum(OPEN in tag for tag in gold_tags)
        correct_tokens += sum(a == b for a, b in zip(gold_tags, predicted_tags))
        gold_spans, predicted_spans = map(set, compared_spans(gold_tags, predicted_tags, scheme, strict))
        gold_counts.update(kind for kind, _, _ in gold_spans)
        predicted_counts.update(kind for kind, _, _ in predicted_spans)
        correct_counts.update(kind for kind, _, _ in gold_spans & predicted_spans)
    by_type = {kind: SpanScore(correct_counts[kind], predicted_counts[kind], gold_counts[kind])
               for kind in sorted(predicted_counts | gold_counts)}
    overall = SpanScore(*(sum(counts.values()) for counts in (correct_counts, predicted_counts, gold_counts)))
    return Score(overall, by_type, tokens, correct_tokens)


def compared_spans(gold: Sequence[str], predicted: Sequence[str], scheme: str,
                   strict: bool = False) -> tuple[list[SpanTuple], list[SpanTuple]]:
    """The gold spans of a sentence and the predicted ones, those that count; the arguments are those of `score`."""
    if not is_open(gold):
        return _spans(gold, scheme, strict), _spans(predicted, scheme, strict)
    sure = certain(gold, scheme)
    return (countable(_spans(gold if scheme == PLAIN else closed(gold), scheme, strict), sure),
            countable(_spans(predicted, scheme, strict), sure))


def total(results: Sequence[Score]) -> Score:
    """The `Score` of several corpora together."""
    by_type: dict[str, SpanScore] = {}
    for result in results:
        for kind, counts in result.by_type.items():
            by_type[kind] = _sum(by_type.get(kind, SpanScore(0, 0, 0)), counts)
    spans, tokens, correct_tokens, raw_correct = SpanScore(0, 0, 0), 0, 0, 0
    for result in results:
        spans = _sum(spans, result.spans)
        tokens, correct_tokens = tokens + result.tokens, correct_tokens + result.correct_tokens
        raw_correct += result.raw_tokens
    converted = any(result.raw_correct is not None for result in results)
    return Score(spans, dict(sorted(by_type.items())), tokens, correct_tokens, raw_correct if converted else None)


def _sum(one: SpanScore, other: SpanScore) -> SpanScore:
    return SpanScore(*map(sum, zip(one, other)))


def _spans(tags: Sequence[str], scheme: str, strict: bool) -> list[SpanTuple]:
    if scheme == PLAIN:
        return [(tag, position, position) for position, tag in enumerate(tags)]
    return strict_spans_of(tags, scheme) if strict else spans_of(tags)


#: what `as_record` gives
RATES = ('precision', 'recall', 'f1', 'accuracy')


def as_record(result: Score) -> dict[str, float]:
    """The rates of a `Score`, to be written as JSON; `raw_accuracy` only where it differs from `accuracy`."""
    raw = {'raw_accuracy': result.raw_accuracy} if result.raw_tokens != result.correct_tokens else {}
    return {'precision': result.spans.precision, 'recall': result.spans.recall, 'f1': result.spans.f1,
            'accuracy': result.accuracy, **raw}


def table(result: Score) -> list[str]:
    """The lines that conlleval prints: totals, then a line a type.

    Where tags were converted before they were compared, and this changes the accuracy, a last line has the accuracy
    that conlleval would print.
    """
    spans = result.spans
    lines = [f'processed {result.tokens} tokens with {spans.gold} phrases; found: {spans.predicted} phrases; '
             f'correct: {spans.correct}.',
             f'accuracy: {percent(result.correct_tokens, result.tokens):6.2f}%; {_rates(spans)}']
    lines += [f'{kind:>17}: {_rates(counts)}  {counts.predicted}' for kind, counts in result.by_type.items() if kind]
    if result.raw_tokens != result.correct_tokens:
        lines.append(f'accuracy as conlleval computes it, of unconverted tags: '
                     f'{percent(result.raw_tokens, result.tokens):.2f}%')
    return lines


def percent(part: int, whole: int) -> float:
    """The share as a percentage, computed in conlleval's order, so that ties are rounded alike: 23 of 160 is 14.38."""
    return 100 * part / whole if whole else 0.0


def _rates(counts: SpanScore) -> str:
    precision, recall = percent(counts.correct, counts.predicted), percent(counts.correct, counts.gold)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f'precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}'
