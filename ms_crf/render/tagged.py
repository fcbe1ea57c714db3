"""Tagged sentences: what a tagger says of them, and how that is written as text, columns, JSON lines and HTML."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeVar

from ms_crf.base.errors import CorpusError, brief
from ms_crf.formats.conllu import cells_in, row_with
from ms_crf.formats.json_fields import MODEL, without_prediction
from ms_crf.formats.readers import MISC
from ms_crf.formats.stream import CONLL, HTML, JSON, TEXT, Item
from ms_crf.render.html import SPANS, TAGS, WORDS, Mark, Page, escaped, fragment
from ms_crf.text.schemes import PLAIN, spans_of

SHOWN = 100                                # sentences of a list that a notebook shows
COLOURS = (36, 33, 32, 35, 34, 31)         # of terminals: a type keeps its colour
_LINE_ENDS = str.maketrans('\r\n', '  ')


class Span(NamedTuple):
    """A name, chunk or word: the tokens from `first` to `last`; `confidence` is the posterior of this span."""

    type: str
    first: int
    last: int
    confidence: float | None = None


class Alternative(NamedTuple):
    """One of the n best taggings of a sentence; `confidence` is its posterior."""

    tags: list[str]
    confidence: float


class Tagged(NamedTuple):
    """A sentence with its tags; `confidences` and `confidence` are None unless they were asked for."""

    tokens: list[str]
    tags: list[str]
    spans: list[Span]
    confidences: list[float] | None = None           # for each token the posterior of its tag
    confidence: float | None = None                  # the posterior of all tags together
    alternatives: tuple[Alternative, ...] = ()       # the n best taggings; the first has the same tags

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: tokens joined by spaces, with coloured spans, or tags without spans."""
        return _fragment(self, [True] * len(self.tokens))


class Entity(NamedTuple):
    """A span at its place in a text: the characters from `start` to `end`, exclusive."""

    type: str
    start: int
    end: int
    confidence: float | None = None


class TaggedText(NamedTuple):
    """A sentence that was found in a text, with its tags; places count the characters of the text."""

    start: int
    end: int
    offsets: list[tuple[int, int]]                   # where each token is
    sentence: Tagged

    @property
    def entities(self) -> list[Entity]:
        """The spans of the sentence, at their places in the text."""
        return [Entity(span.type, self.offsets[span.first][0], self.offsets[span.last][1], span.confidence)
                for span in self.sentence.spans]

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: as for `Tagged`, but tokens that touch in the text are not separated."""
        return _fragment(self.sentence, [True, *(before[1] < after[0] for before, after in pairwise(self.offsets))])


_Sentence = TypeVar('_Sentence')


class TaggedList(list[_Sentence]):
    """A list of tagged sentences, which notebooks show with coloured spans. Slices and sums of it are plain lists."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the first SHOWN sentences, and the number of the others."""
        shown = ''.join(item._repr_html_() if isinstance(item, (Tagged, TaggedText)) else
                        f'<div>{escaped(repr(item))}</div>' for item in self[:SHOWN])
        more = len(self) - SHOWN
        return f'<div>{shown}{f"<p>{more:,} more not shown</p>" if more > 0 else ""}</div>'


def _fragment(sentence: Tagged, spaced: Sequence[bool]) -> str:
    """A sentence for a notebook; `spaced` says for each token whether a space separates it from the token before."""
    pieces = [' ' * bool(index and space) + token for index, (token, space) in enumerate(zip(sentence.tokens, spaced))]
    ends = accumulate(map(len, pieces))
    item = Item(1, ''.join(pieces), sentence.tokens, [end - len(token) for end, token in zip(ends, sentence.tokens)])
    plain = not sentence.spans and any(tag != 'O' for tag in sentence.tags)
    return fragment(item.text, _of_tokens(item, sentence.tags, sentence.confidences) if plain else
                    _of_spans(item, sentence.spans, True))


def _two_digits(confidence: float) -> str:
    return f'{confidence:.2f}'


def _rounded(confidence: float) -> float:
    return round(confidence, 6)


def for_columns(items: Iterable[Item | None], name: str, conllu: bool = False) -> Iterator[Item | None]:
    """Passes items on, None among them; raises CorpusError at the first token that a column can't hold.

    Args:
        items: those that `read` yields.
        name: of the input, for messages.
        conllu: whether rows must be those of CoNLL-U, since they are written as such.
    """
    for item in items:
        if item is not None:
            _check_tokens(item, name)
            for row in item.rows if conllu else ():
                if row.cells:
                    cells_in(name, row)
        yield item


def _check_tokens(item: Item, name: str) -> None:
    for token in item.tokens:
        if not {'\t', '\r', '\n'}.isdisjoint(token):
            raise CorpusError(name, item.line, f'expected tokens that columns can hold, got a '
                                               f'{"tab" if chr(9) in token else "line end"} in {brief(token)}; '
                                               'JSON lines can hold it')


class Writer:
    """Turns tagged sentences into lines.

    Args:
        kind: the format, 'text', 'conll', 'json' or 'html'.
        scheme: the scheme of the tags.
        tags: all tags of the model.
        characters: whether tokens are single characters; then spans without types are words.
        confidence: whether to show confidences; JSON always has them if there are any.
        colour: whether to colour text for a terminal.
        conllu: for rows of CoNLL-U that are to stay it, the column that tags go to if they are not of spans.
        model: name and version of the model, for JSON; '' leaves them out.
    """

    def __init__(self, kind: str, scheme: str, tags: Iterable[str], characters: bool = False, confidence: bool = False,
                 colour: bool = False, conllu: int | None = None, model: str = '') -> None:
        self.scheme, self.confidence, self.conllu, self.model = scheme, confidence, conllu, model
        types = sorted({tag.partition('-')[2] for tag in tags if tag != 'O'})
        self.makes_words = types == [''] and (characters or scheme == 'BMES')
        self.colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(types)} if colour else {}
        self.write = {TEXT: self._text, CONLL: self._columns, JSON: self._json, HTML: self._html}[kind]
        what = TAGS if scheme == PLAIN else WORDS if self.makes_words else SPANS
        self.kind, self.page = kind, Page(sorted(tags) if what == TAGS else types, what, confidence)

    def begin(self, title: str) -> str:
        """What comes before the first sentence: of a page its head, otherwise nothing."""
        return self.page.begin(title) if self.kind == HTML else ''

    def end(self) -> str:
        """What comes after the last sentence."""
        return self.page.end() if self.kind == HTML else ''

    def lines(self, item: Item, tagged: Tagged) -> str:
        """A sentence as text, with the end of its last line.

        Args:
            item: the sentence in the input.
            tagged: the same sentence with its tags.
        """
        return self.write(item, tagged)

    def _text(self, item: Item, tagged: Tagged) -> str:
        kind = (self._with_tags if self.scheme == PLAIN else self._words if self.makes_words else self._in_brackets)
        text = kind(item, tagged)
        return text.translate(_LINE_ENDS) + '\n' if item.offset is None else text

    def _in_brackets(self, item: Item, tagged: Tagged) -> str:
        pieces, done = [], 0
        for span in tagged.spans:
            begin, end = _offsets(item, span)
            note = f' {span.type}' if span.type else ''
            if self.confidence and span.confidence is not None:
                note += f' {_two_digits(span.confidence)}'
            pieces += [item.text[done:begin], self._coloured(f'[{item.text[begin:end]}{note}]', span.type)]
            done = end
        return ''.join([*pieces, item.text[done:]])

    def _coloured(self, text: str, kind: str) -> str:
        return f'\033[1;{self.colours[kind]}m{text}\033[0m' if kind in self.colours else text

    def _with_tags(self, item: Item, tagged: Tagged) -> str:
        pieces, done = [], 0
        confidences = tagged.confidences if self.confidence else None
        for index, (token, start) in enumerate(zip(item.tokens, item.starts)):
            end = start + len(token)
            note = f'/{tagged.tags[index]}' + (f'/{_two_digits(confidences[index])}' if confidences else '')
            pieces += [item.text[done:end], f'\033[36m{note}\033[0m' if self.colours else note]
            done = end
        return ''.join([*pieces, item.text[done:]])

    def _words(self, item: Item, tagged: Tagged) -> str:
        begins = {span.first for span in tagged.spans}
        inside = {index for span in tagged.spans for index in range(span.first + 1, span.last + 1)}
        notes = {span.last: f'/{_two_digits(span.confidence)}' for span in tagged.spans
                 if self.confidence and span.confidence is not None}
        pieces, done = [], 0
        for index, (token, start) in enumerate(zip(item.tokens, item.starts)):
            # Of raw text all characters stay; a line of text has blanks only where words end.
            before = item.text[done:start] if item.offset is not None else ''
            if index and not before and (index in begins or index not in inside):
                before = ' '
            pieces += [before, token, notes.get(index, '')]
            done = start + len(token)
        return ''.join([*pieces, item.text[done:] if item.offset is not None else ''])

    def _columns(self, item: Item, tagged: Tagged) -> str:
        if item.offset is not None and not item.tokens:
            return ''                            # blanks between paragraphs
        if self.conllu is not None and item.rows:
            return self._conllu(item, tagged, self.conllu)
        columns = [tagged.tags]
        if self.confidence and tagged.confidences is not None:
            columns.append([f'{confidence:.4f}' for confidence in tagged.confidences])
        if not item.rows:
            return ''.join('\t'.join(row) + '\n' for row in zip(item.tokens, *columns)) + '\n'
        values, lines = iter(zip(*columns)), []
        for row in item.rows:
            if row.cells:
                # A row that is separated by blanks stays so: with a tab in it, these would be part of its columns.
                blanks = '\t' not in row.text and len(row.cells) > 1
                text = row.text if '\t' in row.text else row.text.strip(' ')
                lines.append((' ' if blanks else '\t').join([text, *next(values)]) + '\n')
            else:
                lines.append(row.text + '\n')
        return ''.join(lines)

    def _conllu(self, item: Item, tagged: Tagged, column: int) -> str:
        shown = tagged.confidences if self.confidence else None
        lines, index = [], 0
        for row in item.rows:
            text = row.text
            if row.cells:
                others = {'Confidence': f'{shown[index]:.4f}'} if shown else {}
                text = row_with('', row, tagged.tags[index], column if self.scheme == PLAIN else MISC, others)
                index += 1
            lines.append(text + '\n')
        if tagged.tokens and item.rows[-1].text.strip(' \t'):     # the last line of a file without a blank line
            lines.append('\n')
        return ''.join(lines)

    def _json(self, item: Item, tagged: Tagged) -> str:
        if item.offset is not None and not item.tokens:
            return ''                            # blanks between paragraphs
        return json.dumps(self.record(item, tagged), ensure_ascii=False) + '\n'

    def record(self, item: Item, tagged: Tagged) -> dict[str, Any]:
        """A sentence as an object of JSON: what the input said of it, text, tokens, tags, entities, confidences."""
        record = without_prediction(item.record or {})
        if 'tags' in record:
            record['gold'] = record['tags']
        if item.offset is not None:
            places = [(item.offset + start, item.offset + start + len(token))
                      for token, start in zip(item.tokens, item.starts)]
            record.update(start=places[0][0], end=places[-1][1], offsets=places)
            item = _without_blanks(item)
        record.update(text=item.text, tokens=tagged.tokens, tags=tagged.tags)
        record['entities'] = [self._entity(item, span) for span in tagged.spans]
        if tagged.confidences is not None and tagged.confidence is not None:
            record['confidences'] = list(map(_rounded, tagged.confidences))
            record['confidence'] = _rounded(tagged.confidence)
        if tagged.alternatives:
            record['alternatives'] = [{'tags': other.tags, 'confidence': _rounded(other.confidence)}
                                      for other in tagged.alternatives]
        if self.model:
            record[MODEL] = self.model
        return record

    def _html(self, item: Item, tagged: Tagged) -> str:
        if item.offset is not None:
            if not item.tokens:
                return ''
            item = _without_blanks(item)
        others = [(self._marks(item, other.tags, [Span(*span) for span in spans_of(other.tags)]), other.confidence)
                  for other in tagged.alternatives if item.tokens]
        confidences, confidence = (tagged.confidences, tagged.confidence) if self.confidence else (None, None)
        return self.page.sentence(item.text, self._marks(item, tagged.tags, tagged.spans, confidences),
                                  confidence if item.tokens else None, others)

    def _marks(self, item: Item, tags: list[str], spans: list[Span],
               confidences: list[float] | None = None) -> list[Mark]:
        if self.scheme == PLAIN:
            return _of_tokens(item, tags, confidences)
        return _of_spans(item, spans, self.confidence)

    def _entity(self, item: Item, span: Span) -> dict[str, Any]:
        begin, end = _offsets(item, span)
        entity = {'type': span.type, 'text': item.text[begin:end], 'first': span.first, 'last': span.last,
                  'start': begin + (item.offset or 0), 'end': end + (item.offset or 0)}
        if span.confidence is not None:
            entity['confidence'] = _rounded(span.confidence)
        return entity


def _without_blanks(item: Item) -> Item:
    """A sentence of raw text without what stands before and behind it."""
    begin, end = item.starts[0], item.starts[-1] + len(item.tokens[-1])
    return item._replace(text=item.text[begin:end], starts=[start - begin for start in item.starts],
                         offset=(item.offset or 0) + begin)


def _of_tokens(item: Item, tags: list[str], confidences: Sequence[float | None] | None) -> list[Mark]:
    """A mark for each token, with its tag."""
    return [Mark(start, start + len(token), tag, confidence) for token, start, tag, confidence in
            zip(item.tokens, item.starts, tags, confidences or [None] * len(tags))]


def _of_spans(item: Item, spans: list[Span], confidence: bool) -> list[Mark]:
    """A mark for each span, with its type."""
    return [Mark(*_offsets(item, span), span.type, span.confidence if confidence else None) for span in spans]


def _offsets(item: Item, span: Span) -> tuple[int, int]:
    """The offsets in the text at which a span begins and ends."""
    return item.starts[span.first], item.starts[span.last] + len(item.tokens[span.last])
