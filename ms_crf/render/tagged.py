"""Writers of tagged sentences: text with brackets, HTML, and the formats of the registry."""

from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from ms_crf.formats import json_exports
from ms_crf.formats.document import OutputStyle
from ms_crf.formats.registry import CONLLU, FORMATS, HTML, TEXT, of_stream
from ms_crf.render.html import SPANS, TAGS, WORDS, Mark, Page, escaped, fragment
from ms_crf.text.schemes import PLAIN, spans_of
from ms_crf.text.sentence import Alternative as Alternative
from ms_crf.text.sentence import Sentence, Span

SHOWN = 100                                # maximum number of sentences shown in a notebook
COLOURS = (36, 33, 32, 35, 34, 31)         # colour codes of terminals
_LINE_ENDS = str.maketrans('\r\n', '  ')
_Item = TypeVar('_Item')
Tagged = TaggedText = Sentence             # names of earlier versions
Entity = Span


class TaggedList(list[_Item]):
    """A list of tagged sentences, displayed by notebooks with coloured spans. Slices and sums are plain lists."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Returns HTML for notebooks: the first SHOWN sentences, and the number of further sentences."""
        shown = ''.join(notebook(item) if isinstance(item, Sentence) else f'<div>{escaped(repr(item))}</div>'
                        for item in self[:SHOWN])
        more = len(self) - SHOWN
        return f'<div>{shown}{f"<p>{more:,} more not shown</p>" if more > 0 else ""}</div>'


def notebook(sentence: Sentence) -> str:
    """Returns HTML of a sentence for notebooks, with coloured spans, or with coloured tags if there are no spans.

    Tokens are separated by spaces, unless they are adjacent in the text.
    """
    apart = [True, *(before[1] < after[0] for before, after in pairwise(sentence.offsets))]
    pieces = [' ' * bool(index and space) + token for index, (token, space) in enumerate(zip(sentence.tokens, apart))]
    offsets = [(end - len(token), end) for end, token in zip(accumulate(map(len, pieces)), sentence.tokens)]
    shown = sentence.replace(text=''.join(pieces), start=0, offsets=offsets)
    plain = not sentence.spans and any(tag != 'O' for tag in sentence.tags)
    return fragment(shown.text, _marks(shown, shown.token_spans if plain else shown.spans))


Sentence.renderer = notebook


def _marks(sentence: Sentence, spans: Iterable[Span], confidence: bool = True) -> list[Mark]:
    """Returns a mark for each span of a sentence."""
    return [Mark(span.start - sentence.start, span.end - sentence.start, span.type,
                 span.confidence if confidence else None) for span in spans]


class Writer:
    """Converts tagged sentences to text of an output format.

    Args:
        kind: output format: 'text', 'html', or a stream format of the registry, such as 'conll' and 'json'.
        scheme: tag scheme of the sentences.
        tags: all tags of the model.
        characters: whether tokens are single characters; then spans without a type are words.
        confidence: whether to show confidences; JSON always contains available confidences.
        colour: whether to colour text for a terminal.
        conllu: for CoNLL-U output, the column of plain tags; None for other column formats.
        model: name and version of the model, for JSON; '' for none.
    """

    def __init__(self, kind: str, scheme: str, tags: Iterable[str], characters: bool = False, confidence: bool = False,
                 colour: bool = False, conllu: int | None = None, model: str = '') -> None:
        self.scheme, self.confidence, self.model = scheme, confidence, model
        types = sorted({tag.partition('-')[2] for tag in tags if tag != 'O'})
        self.makes_words = types == [''] and (characters or scheme == 'BMES')
        self.colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(types)} if colour else {}
        row = FORMATS[CONLLU] if conllu is not None else of_stream('', kind) if kind not in (TEXT, HTML) else None
        #: function that returns a sentence as text, including its line end
        self.lines: Callable[[Sentence], str] = self._html if kind == HTML else self._text
        if row is not None and (write := row.line) is not None:
            style = OutputStyle(scheme, confidence, conllu, model)
            self.lines = lambda sentence: write(sentence, style)
        marks = TAGS if scheme == PLAIN else WORDS if self.makes_words else SPANS
        self.kind, self.page = kind, Page(sorted(tags) if marks == TAGS else types, marks, confidence)

    def begin(self, title: str) -> str:
        """Returns the text before the first sentence: the beginning of a page, otherwise ''."""
        return self.page.begin(title) if self.kind == HTML else ''

    def end(self) -> str:
        """Returns the text after the last sentence: the end of a page, otherwise ''."""
        return self.page.end() if self.kind == HTML else ''

    def record(self, sentence: Sentence) -> dict[str, Any]:
        """Returns a sentence as a JSON object: fields of the input, text, tokens, tags, entities and confidences."""
        return json_exports.record_of(sentence, self.model)

    def _text(self, sentence: Sentence) -> str:
        if self.scheme == PLAIN:
            text = sentence.with_spans(sentence.token_spans, self._with_tag)
        elif self.makes_words:
            text = self._words(sentence)
        else:
            text = sentence.with_spans(sentence.spans, self._in_brackets)
        return text if sentence.raw else text.translate(_LINE_ENDS) + '\n'

    def _in_brackets(self, span: Span) -> str:
        text = f'[{span.text}{" " * bool(span.type)}{span.type}{self._note(span, " ")}]'
        return f'\033[1;{self.colours[span.type]}m{text}\033[0m' if span.type in self.colours else text

    def _with_tag(self, span: Span) -> str:
        note = f'/{span.type}{self._note(span, "/")}'
        return span.text + (f'\033[36m{note}\033[0m' if self.colours else note)

    def _note(self, span: Span, before: str) -> str:
        """Returns the confidence of a span after the text `before`; '' if confidences are not shown."""
        return f'{before}{span.confidence:.2f}' if self.confidence and span.confidence is not None else ''

    def _words(self, sentence: Sentence) -> str:
        begins = {span.start_token for span in sentence.spans}
        inside = {index for span in sentence.spans for index in range(span.start_token + 1, span.end_token)}
        notes = {span.end_token - 1: self._note(span, '/') for span in sentence.spans}
        pieces, done = [], sentence.start
        for index, (token, (start, end)) in enumerate(zip(sentence.tokens, sentence.offsets)):
            # All characters of raw text are kept; in other text, spaces are only written between words.
            before = sentence.text_at(done, start) if sentence.raw else ''
            if index and not before and (index in begins or index not in inside):
                before = ' '
            pieces += [before, token, notes.get(index, '')]
            done = end
        return ''.join([*pieces, sentence.text_at(done, sentence.end) if sentence.raw else ''])

    def _html(self, sentence: Sentence) -> str:
        if sentence.raw:
            if not sentence.tokens:
                return ''
            sentence = sentence.stripped()
        nbest = [(self._marks(sentence.replace(tags=each.tags, spans=spans_of(each.tags), confidences=None), True),
                  each.confidence) for each in sentence.alternatives if sentence.tokens]
        return self.page.sentence(sentence.text, self._marks(sentence, self.confidence),
                                  sentence.confidence if self.confidence and sentence.tokens else None, nbest)

    def _marks(self, sentence: Sentence, confidence: bool) -> list[Mark]:
        return _marks(sentence, sentence.token_spans if self.scheme == PLAIN else sentence.spans, confidence)
