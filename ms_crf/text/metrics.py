"""Scores of predicted tags: precision, recall and F1 of spans, overall and by type, and accuracy of tokens.

Unlabelled tokens are not scored: no token with an unknown gold tag, and no span that touches such a token or could
continue into such a token. `partial.certain` decides this.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.text import schemes
from ms_crf.text.partial import certain, closed, countable, in_scheme, marked, scoring_scheme
from ms_crf.text.schemes import OPEN, PLAIN, SchemeError, SpanTuple, completions, is_span_tag, recognise_scheme


class SpanScore(NamedTuple):
    """Counts of spans, from which precision, recall and F1 are computed."""

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
    """The agreement of predicted tags with gold tags in a corpus."""

    spans: SpanScore                   # all types together; each plain tag counts as a span
    by_type: dict[str, SpanScore]      # sorted by type
    tokens: int                        # number of annotated tokens
    correct_tokens: int
    raw_correct: int | None = None     # correct tokens before conversion; None if no tags were converted

    @property
    def accuracy(self) -> float:
        return self.correct_tokens / self.tokens if self.tokens else 0.0

    @property
    def raw_accuracy(self) -> float:
        """The accuracy that conlleval prints: tags are compared as they are in the file, without conversion."""
        return self._replace(correct_tokens=self.raw_tokens).accuracy

    @property
    def raw_tokens(self) -> int:
        """The number of correct tokens for `raw_accuracy`."""
        return self.correct_tokens if self.raw_correct is None else self.raw_correct


def score(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str,
          strict: bool = False) -> Score:
    """Compares predicted tags with gold tags.

    Args:
        gold, predicted: a list of tags for each sentence, with equal lengths; gold tags may be unknown.
        scheme: 'BIO', 'BIOES', 'BMES' or 'plain'; without `strict` also 'IOB1'.
        strict: whether only spans that are valid in the scheme count; otherwise all spans that `spans_of` returns.
    """
    if len(gold) != len(predicted):
        raise ValueError(f'predicted must hold a sentence for each of gold ({len(gold)}), got {len(predicted)}')
    counters: list[Counter[str]] = [Counter(), Counter(), Counter()]         # correct, predicted, gold
    tokens = correct_tokens = 0
    for index, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted)):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f'sentence {index} must have a predicted tag for each gold tag ({len(gold_tags)}), '
                             f'got {len(predicted_tags)}')
        tokens += len(gold_tags) - sum(OPEN in tag for tag in gold_tags)
        correct_tokens += sum(a == b for a, b in zip(gold_tags, predicted_tags))
        gold_spans, predicted_spans = map(set, compared_spans(gold_tags, predicted_tags, scheme, strict))
        for counter, spans in zip(counters, (gold_spans & predicted_spans, predicted_spans, gold_spans)):
            counter.update(kind for kind, _, _ in spans)
    by_type = {kind: SpanScore(*(counter[kind] for counter in counters))
               for kind in sorted(counters[1] | counters[2])}
    overall = SpanScore(*(counter.total() for counter in counters))
    return Score(overall, by_type, tokens, correct_tokens)


def compared_spans(gold: Sequence[str], predicted: Sequence[str], scheme: str,
                   strict: bool = False) -> tuple[list[SpanTuple], list[SpanTuple]]:
    """The gold spans and the predicted spans of a sentence that are scored; for the arguments see `score`."""
    is_certain = certain(gold, scheme)
    return (countable(schemes.spans_in(closed(gold), scheme, strict), is_certain),
            countable(schemes.spans_in(predicted, scheme, strict), is_certain))


def total(results: Sequence[Score]) -> Score:
    """The `Score` of several corpora together."""
    kinds = sorted({kind for result in results for kind in result.by_type})
    by_type = {kind: _sum(result.by_type[kind] for result in results if kind in result.by_type) for kind in kinds}
    converted = any(result.raw_correct is not None for result in results)
    return Score(_sum(result.spans for result in results), by_type, sum(result.tokens for result in results),
                 sum(result.correct_tokens for result in results),
                 sum(result.raw_tokens for result in results) if converted else None)


def _sum(counts: Iterable[SpanScore]) -> SpanScore:
    return SpanScore(*map(sum, zip(SpanScore(0, 0, 0), *counts)))


#: the keys of `as_record` that are always present
RATES = ('precision', 'recall', 'f1', 'accuracy')


def as_record(result: Score) -> dict[str, float]:
    """The rates of a `Score` as a JSON object; `raw_accuracy` is included only if it differs from `accuracy`."""
    raw = {'raw_accuracy': result.raw_accuracy} if result.raw_tokens != result.correct_tokens else {}
    return {'precision': result.spans.precision, 'recall': result.spans.recall, 'f1': result.spans.f1,
            'accuracy': result.accuracy, **raw}


def table(result: Score) -> list[str]:
    """The lines that conlleval prints: totals, then one line for each type.

    If tags were converted, and this changes the accuracy, a last line has the accuracy of conlleval.
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
    """A share in percent, computed in the order of conlleval so that ties are rounded equally: 23 of 160 is 14.38."""
    return 100 * part / whole if whole else 0.0


def _rates(counts: SpanScore) -> str:
    precision, recall = percent(counts.correct, counts.predicted), percent(counts.correct, counts.gold)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f'precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}'


# Scores of a model, with its tags converted to the scheme of the gold tags

def score_in(file_scheme: str, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]],
             model_scheme: str, raw: Sequence[Sequence[str]] | None = None) -> Score:
    """The score of a model's predictions.

    Args:
        file_scheme: the scheme of the files that the model was trained on.
        gold: a list of tags for each sentence. The tags are in `file_scheme` if both schemes are equal, and
            otherwise in the `scoring_scheme` of `file_scheme`.
        predicted: a list of tags for each sentence, in `model_scheme`.
        model_scheme: the scheme that the model was trained in.
        raw: the gold tags of the file if `gold` was converted; they are used for `Score.raw_accuracy`.
    """
    result = score(gold, _as_gold(file_scheme, predicted, model_scheme), scoring_scheme(file_scheme))
    return result if raw is None else result._replace(raw_correct=equal_tags(raw, predicted, gold))


def equal_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]],
               compared: Sequence[Sequence[str]]) -> int:
    """The number of tokens whose predicted tag is equal to the gold tag.

    Args:
        gold, predicted: a list of tags for each sentence, in any scheme.
        compared: the gold tags that are scored; a token is skipped if its tag is unknown here.
    """
    return sum(one == other or other in completions(one, ())
               for row, others, scored in zip(gold, predicted, compared)
               for one, other, tag in zip(row, others, scored) if OPEN not in tag)


def _as_gold(file_scheme: str, predicted: Sequence[Sequence[str]], model_scheme: str) -> Sequence[Sequence[str]]:
    """Predicted tags, converted to the scheme for the comparison with gold tags."""
    if file_scheme == model_scheme:
        return predicted
    return [in_scheme(tags, scoring_scheme(file_scheme)) for tags in predicted]


class Scores:
    """Accumulates the score of a model over batches of sentences.

    Args:
        file_scheme, model_scheme: see `score_in`.
        path: the file of the gold tags, for messages.
    """

    def __init__(self, file_scheme: str, model_scheme: str, path: object) -> None:
        self.file_scheme, self.model_scheme, self.path = file_scheme, model_scheme, path
        self.result, self._same_spans, self._open = total([]), 0, 0

    def add(self, lines: Sequence[int], gold: Sequence[list[str]], predicted: Sequence[list[str]]) -> None:
        """Adds sentences.

        Args:
            lines: the first line of each sentence.
            gold: the tags of each sentence in the file.
            predicted: the tags that the model predicts.
        """
        known = list(map(self._gold, gold, lines))
        self._open += sum(OPEN in tag for tags in known for tag in tags)
        raw = None if self.file_scheme == self.model_scheme else gold
        result = score_in(self.file_scheme, known, predicted, self.model_scheme, raw)
        self.result = total([self.result, result])
        if raw is not None or self.file_scheme == PLAIN:
            self._same_spans += result.correct_tokens
            return
        scheme = scoring_scheme(self.file_scheme)
        gold, predicted = ([in_scheme(tags, scheme) for tags in rows] for rows in (gold, predicted))
        self._same_spans += equal_tags(gold, predicted, known)

    def compared(self, lines: Sequence[int], gold: Sequence[list[str]],
                 predicted: Sequence[list[str]]) -> tuple[list[list[str]], list[list[str]]]:
        """The gold tags and the predicted tags of sentences, in the scheme in which `add` compares them."""
        return (list(map(self._gold, gold, lines)),
                list(map(list, _as_gold(self.file_scheme, predicted, self.model_scheme))))

    def _gold(self, tags: list[str], line: int) -> list[str]:
        """Gold tags converted to the scheme in which `score_in` compares them.

        Raises:
            CorpusError: the model predicts spans, and the gold tags are plain tags, or the reverse.
        """
        scheme = self.file_scheme
        if scheme == PLAIN:
            odd = next((tag for tag in tags if OPEN in tag and tag != OPEN), None)
            if odd is not None:
                raise CorpusError(self.path, line, f'expected plain tags, got {marked(odd)!r}, which stands for tags '
                                                   'of spans, in the sentence that begins here')
            return tags
        odd = next((tag for tag in tags if not is_span_tag(tag) and tag != 'O' and OPEN not in tag), None)
        if odd is not None:
            raise CorpusError(self.path, line, f"expected 'O' or tags of spans in the scheme {scoring_scheme(scheme)}, "
                                               f'got {odd!r} in the sentence that begins here')
        try:
            recognise_scheme([tags])
        except SchemeError as error:
            raise CorpusError(self.path, line, f'{error} in the sentence that begins here') from None
        return tags if scheme == self.model_scheme else in_scheme(tags, scoring_scheme(scheme))

    def lines(self) -> list[str]:
        """The table of conlleval. More lines follow if the accuracy after conversion to one scheme differs, and if
        tokens are unlabelled."""
        lines = table(self.result)
        if self._same_spans != self.result.correct_tokens:
            lines.append(f'accuracy of the same spans, all written in {scoring_scheme(self.file_scheme)}: '
                         f'{percent(self._same_spans, self.result.tokens):.2f}%')
        if self._open:
            lines.append(f'{self._open} more tokens are not annotated and not scored, nor are spans with such tokens')
        return lines
