"""A sentence and its spans: the two classes that readers, splitters, the tagger and all writers share.

Offsets count characters of the text that a sentence was found in; a sentence that came as tokens has the text of its
tokens joined by spaces. All ends are exclusive.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from ms_crf.text.schemes import is_span_tag, spans_of

Offsets = tuple[int, int]              # where something begins in the text, and where it ends, exclusive


class Row(NamedTuple):
    """A line of a column file; it has no cells if it holds no token."""

    line_number: int
    text: str
    cells: list[str]


class Alternative(NamedTuple):
    """One of the n best taggings of a sentence; `confidence` is its posterior."""

    tags: list[str]
    confidence: float


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """A stretch of text with a type: a name, a chunk or a word.

    Args:
        type: of the span.
        start, end: its characters in the text: from `start` up to `end`, exclusive.
        start_token, end_token: its tokens in the sentence, in the same way; -1 if it is not tied to tokens.
        confidence: the posterior of exactly this span; None if it was not computed.
        line: of the file in which it stands.
        source: the sentence, or the document, that holds its text.
    """

    type: str
    start: int
    end: int
    start_token: int = -1
    end_token: int = -1
    confidence: float | None = None
    line: int = field(default=0, compare=False)
    source: Any = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The text of the span."""
        return self.source.text_at(self.start, self.end)

    @property
    def first(self) -> int:
        """The first token, as in earlier versions; use `start_token`."""
        return self.start_token

    @property
    def last(self) -> int:
        """The last token, inclusive, as in earlier versions; use `end_token`."""
        return self.end_token - 1

    def __iter__(self) -> Iterator[Any]:
        """Unpacks (type, first, last, confidence), as in earlier versions."""
        return iter((self.type, self.first, self.last, self.confidence))

    def __getitem__(self, index: int | slice) -> Any:
        return tuple(self)[index]


class Sentence:
    """Tokens, and all that is known of them: tags, spans, confidences, and where the sentence stands in its text.

    Args:
        tokens: the tokens.
        tags: a tag for each token; empty if there are none.
        spans: (type, first token, last token), and the confidence where there is one; None for the spans of the tags.
        confidences: for each token the posterior of its tag.
        confidence: the posterior of all tags together.
        alternatives: the n best taggings; the first has the same tags.
        text: of the sentence, which holds the tokens one after the other; None for the tokens joined by spaces.
        start: where this text begins in the text that the sentence was found in.
        offsets: (start, end) of each token there; None if they follow from `text`.
        raw: whether the sentence was found in raw text.
        line: of the file on which the sentence begins.
        lines: of each token; empty if all tokens are on `line`.
        rows: of the sentence in a column file.
        record: of the sentence in a JSON file.

    Attributes:
        The arguments; `spans` are objects of the class `Span`.
    """

    __slots__ = ('_offsets', '_span_tuples', '_spans', '_text', 'alternatives', 'confidence', 'confidences', 'line',
                 'lines', 'raw', 'record', 'rows', 'start', 'tags', 'tokens')

    #: makes HTML of a sentence, for notebooks; `ms_crf.render.tagged` sets it
    renderer: ClassVar[Callable[['Sentence'], str] | None] = None

    def __init__(self, tokens: list[str], tags: list[str] | None = None, spans: Sequence[tuple] | None = None,
                 confidences: list[float] | None = None, confidence: float | None = None,
                 alternatives: tuple[Alternative, ...] = (), text: str | None = None, start: int = 0,
                 offsets: list[Offsets] | None = None, raw: bool = False, line: int = 1,
                 lines: Sequence[int] = (), rows: Sequence[Row] = (), record: dict[str, Any] | None = None) -> None:
        self.tokens, self.tags, self._span_tuples = tokens, tags or [], spans
        self._spans: list[Span] | None = None
        self.confidences, self.confidence, self.alternatives = confidences, confidence, alternatives
        self._text, self.start, self._offsets, self.raw = text, start, offsets, raw
        self.line, self.lines, self.rows, self.record = line, lines, rows, record

    @classmethod
    def of_text(cls, text: str, offsets: list[Offsets], **others: Any) -> 'Sentence':
        """The sentence of a text whose tokens are at some offsets, at least one."""
        start, end = offsets[0][0], offsets[-1][1]
        return cls([text[begin:stop] for begin, stop in offsets], text=text[start:end], start=start, offsets=offsets,
                   **others)

    def replace(self, **changes: Any) -> 'Sentence':
        """A copy with other values of some arguments; spans that are not named follow from the tags if these change."""
        values = {'text': self._text, 'offsets': self._offsets, **{
            name: getattr(self, name) for name in self.__slots__ if name[0] != '_'}}
        if 'tags' not in changes:
            values['spans'] = self._span_tuples
        return Sentence(**{**values, **changes})

    @property
    def prediction(self) -> tuple:
        """What a tagger says of the sentence: tags, spans as tuples, confidences, confidence, alternatives."""
        return self.tags, self._span_tuples, self.confidences, self.confidence, self.alternatives

    def predicted(self, prediction: tuple) -> 'Sentence':
        """The same sentence with the `prediction` of a tagger."""
        names = 'tags', 'spans', 'confidences', 'confidence', 'alternatives'
        return self.replace(**dict(zip(names, prediction)))

    @property
    def text(self) -> str:
        """The text of the sentence."""
        if self._text is None:
            self._offsets = self.offsets         # those of tokens joined by spaces, as long as there is no other text
            self._text = ' '.join(self.tokens)
        return self._text

    @property
    def end(self) -> int:
        """Where the sentence ends in the text that it was found in."""
        return self.start + len(self.text)

    @property
    def offsets(self) -> list[Offsets]:
        """Where each token is in the text that the sentence was found in."""
        if self._offsets is None:
            found = None if self._text is None else find_tokens(self.tokens, self._text, self.start)
            if found is None:                    # the text joins the tokens by spaces
                starts = accumulate((len(token) + 1 for token in self.tokens), initial=self.start)
                found = [(start, start + len(token)) for start, token in zip(starts, self.tokens)]
            self._offsets = found
        return self._offsets

    @property
    def spans(self) -> list[Span]:
        """The names, chunks or words; none if tags stand for single tokens, such as parts of speech."""
        if self._spans is None:
            found = self._span_tuples
            if found is None:
                of_spans = all(tag == 'O' or is_span_tag(tag) for tag in self.tags)
                found = spans_of(self.tags) if of_spans else []
            self._spans = self.spans_at(found) if found else []
        return self._spans

    entities = spans

    def spans_at(self, spans: Iterable[tuple]) -> list[Span]:
        """Spans of this sentence from (type, first token, last token, confidence), the last of which may be missing."""
        offsets = self.offsets
        return [Span(kind, offsets[first][0], offsets[last][1], first, last + 1, rest[0] if rest else None,
                     self.line_of(first), self) for kind, first, last, *rest in spans]

    @property
    def token_spans(self) -> list[Span]:
        """A span for each token, with its tag as type."""
        confidences: Sequence[float | None] = self.confidences or [None] * len(self.tokens)
        return self.spans_at((tag, index, index, confidence) for index, (tag, confidence) in
                             enumerate(zip(self.tags, confidences)))

    @property
    def sentence(self) -> 'Sentence':
        """The sentence itself, as in earlier versions, where a sentence of a text was another class."""
        return self

    def text_at(self, start: int, end: int) -> str:
        """What the text of the sentence has from one offset to another."""
        return self.text[start - self.start:end - self.start]

    def line_of(self, index: int) -> int:
        """The line of a token in the file."""
        return self.lines[index] if self.lines else self.line

    def stripped(self) -> 'Sentence':
        """The sentence without the white space around its tokens that belongs to its text."""
        start, end = self.offsets[0][0], self.offsets[-1][1]
        return self.replace(text=self.text_at(start, end), start=start)

    def moved(self, start: int) -> 'Sentence':
        """The sentence in a longer text, in which its own text begins at `start`."""
        by = start - self.start
        offsets = None if self._offsets is None else [(begin + by, end + by) for begin, end in self._offsets]
        return self.replace(start=start, offsets=offsets)

    def with_spans(self, spans: Iterable[Span], shown: Callable[[Span], str]) -> str:
        """The text, in which a function writes each of some spans."""
        pieces, done = [], self.start
        for span in spans:
            pieces += [self.text_at(done, span.start), shown(span)]
            done = span.end
        return ''.join([*pieces, self.text_at(done, self.end)])

    def to_dict(self) -> dict[str, Any]:
        """The sentence as an object of JSON: text, tokens, tags, entities, and confidences where there are some."""
        offsets = self.offsets
        placed = self.raw and bool(offsets)
        record: dict[str, Any] = {'start': offsets[0][0], 'end': offsets[-1][1], 'offsets': offsets} if placed else {}
        record.update(text=self.text_at(offsets[0][0], offsets[-1][1]) if placed else self.text, tokens=self.tokens,
                      tags=self.tags, entities=list(map(_entity, self.spans)))
        if self.confidences is not None and self.confidence is not None:
            record.update(confidences=[round(each, 6) for each in self.confidences],
                          confidence=round(self.confidence, 6))
        if self.alternatives:
            record['alternatives'] = [{'tags': other.tags, 'confidence': round(other.confidence, 6)}
                                      for other in self.alternatives]
        return record

    def __str__(self) -> str:
        """The text with its spans in brackets; with tags that stand for single tokens, each token with its tag."""
        if self.spans or not any(tag != 'O' for tag in self.tags):
            return self.with_spans(self.spans, lambda span: f'[{span.text}{" " * bool(span.type)}{span.type}]')
        return self.with_spans(self.token_spans, lambda span: f'{span.text}/{span.type}')

    def __repr__(self) -> str:
        return f'Sentence({str(self)!r})'

    def __eq__(self, other: object) -> bool:
        """Whether another sentence has the same tokens, tagged alike, wherever it stands."""
        return isinstance(other, Sentence) and (self.tokens, *self.prediction) == (other.tokens, *other.prediction)

    __hash__ = None  # type: ignore[assignment] # as lists have none

    def _repr_html_(self) -> str | None:
        """Returns what a notebook shows: the text with coloured spans, or with tags where there are no spans."""
        return None if Sentence.renderer is None else Sentence.renderer(self)


def _entity(span: Span) -> dict[str, Any]:
    entity = {'type': span.type, 'text': span.text, 'first': span.first, 'last': span.last, 'start': span.start,
              'end': span.end}
    if span.confidence is not None:
        entity['confidence'] = round(span.confidence, 6)
    return entity


def find_tokens(tokens: Iterable[str], text: str, start: int = 0) -> list[Offsets] | None:
    """The offsets of tokens in a text, which begins at `start`; None unless it holds them one after the other."""
    offsets, done = [], 0
    for token in tokens:
        begin = text.find(token, done)
        if begin < 0:
            return None
        done = begin + len(token)
        offsets.append((start + begin, start + done))
    return offsets
