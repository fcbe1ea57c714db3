"""Scores of a model's tags: gold and predicted tags are brought into one scheme and compared."""

from collections.abc import Sequence

from ms_crf.base.errors import CorpusError
from ms_crf.text.metrics import Score, percent, score, table, total
from ms_crf.text.partial import in_scheme, marked, scoring_scheme
from ms_crf.text.recognition import SchemeError, recognise_scheme
from ms_crf.text.schemes import OPEN, PLAIN, completions, is_span_tag


def score_in(file_scheme: str, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]],
             model_scheme: str, raw: Sequence[Sequence[str]] | None = None) -> Score:
    """The score of a model's predictions.

    Args:
        file_scheme: the scheme of the files that the model was trained on.
        gold: a list of tags for each sentence: in `file_scheme` if that is `model_scheme`, otherwise in its
            `scoring_scheme`.
        predicted: a list of tags for each sentence, in `model_scheme`.
        model_scheme: the scheme that the model was trained in.
        raw: the gold tags of the file, if `gold` has them converted: for `Score.raw_accuracy`.
    """
    result = score(gold, _as_gold(file_scheme, predicted, model_scheme), scoring_scheme(file_scheme))
    return result if raw is None else result._replace(raw_correct=equal_tags(raw, predicted, gold))


def equal_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]],
               compared: Sequence[Sequence[str]]) -> int:
    """The number of tokens whose predicted tag is the gold one.

    Args:
        gold, predicted: a list of tags for each sentence, both in any scheme.
        compared: gold tags as they count in scores; a token is left out if its tag is open here.
    """
    return sum(one == other or other in completions(one, ())
               for row, others, judged in zip(gold, predicted, compared)
               for one, other, tag in zip(row, others, judged) if OPEN not in tag)


def _as_gold(file_scheme: str, predicted: Sequence[Sequence[str]], model_scheme: str) -> Sequence[Sequence[str]]:
    """Predicted tags in the scheme in which they are compared with gold ones."""
    if file_scheme == model_scheme:
        return predicted
    return [in_scheme(tags, scoring_scheme(file_scheme)) for tags in predicted]


class Scores:
    """Adds up the score of a model over sentences that come bit by bit.

    Args:
        file_scheme, model_scheme: the same as for `score_in`.
        path: the file that the gold tags are from, for messages.
    """

    def __init__(self, file_scheme: str, model_scheme: str, path: object) -> None:
        self.file_scheme, self.model_scheme, self.path = file_scheme, model_scheme, path
        self.result, self._same_spans, self._open = total([]), 0, 0

    def add(self, lines: Sequence[int], gold: Sequence[list[str]], predicted: Sequence[list[str]]) -> None:
        """Adds sentences.

        Args:
            lines: the line on which each of them begins.
            gold: their tags in the file.
            predicted: the model's tags.
        """
        known = [self._gold(tags, line) for line, tags in zip(lines, gold)]
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
        """The gold and the predicted tags of sentences, in the scheme in which `add` compares them."""
        known = [self._gold(tags, line) for line, tags in zip(lines, gold)]
        return known, list(map(list, _as_gold(self.file_scheme, predicted, self.model_scheme)))

    def _gold(self, tags: list[str], line: int) -> list[str]:
        """Gold tags, in any scheme of spans or plain, converted to the scheme in which `score_in` compares them.

        Raises:
            CorpusError: the model's tags are of spans, and these are not.
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
            raise CorpusError(self.path, line, f"expected 'O' or tags of spans like {scoring_scheme(scheme)} has "
                                               f'them, got {odd!r} in the sentence that begins here')
        try:
            recognise_scheme([tags])
        except SchemeError as error:
            raise CorpusError(self.path, line, f'{error} in the sentence that begins here') from None
        return tags if scheme == self.model_scheme else in_scheme(tags, scoring_scheme(scheme))

    def lines(self) -> list[str]:
        """The table of conlleval; then the accuracy after conversion to one scheme, where it differs, and the number of
        tokens that are not judged, if there are some."""
        lines = table(self.result)
        if self._same_spans != self.result.correct_tokens:
            lines.append(f'accuracy of the same spans, all written in {scoring_scheme(self.file_scheme)}: '
                         f'{percent(self._same_spans, self.result.tokens):.2f}%')
        if self._open:
            lines.append(f'{self._open} tokens beside these are not judged and do not count, nor do spans with them')
        return lines
