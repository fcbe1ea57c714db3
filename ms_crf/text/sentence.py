"""The classes `Sentence` and `Span`, which readers, splitters, the tagger and all writers share.

Offsets count characters of the source text, in which the sentence was found. The source text of a list of tokens is the
tokens joined with spaces. All ends are exclusive.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from ms_crf.text.schemes import is_span_tag, spans_of

Offsets = tuple[int, int]              # start and end in the text; the end is exclusive


class Row(NamedTuple):
    """A line of a column file; `cells` is empty if the line has no token."""

    line_number: int
    text: str
    cells: list[str]


class Alternative(NamedTuple):
    """One of the n best taggings of a sentence; `confidence` is its probability."""

    tags: list[str]
    confidence: float


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """A part of a text with a type: an entity, a chunk or a word.

    Args:
        type: type of the span.
        start, end: offsets of its characters in the text; `end` is exclusive.
        start_token, end_token: indices of its tokens in the sentence; `end_token` is exclusive. -1 without tokens.
        confidence: probability of exactly this span; None if it was not computed.
        line: line of the span in its file.
        source: the sentence or document that contains the text.
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
        """Index of the first token. Alias of `start_token`."""
        return self.start_token

    @property
    def last(self) -> int:
        """Index of the last token, inclusive. Use `end_token`, which is exclusive."""
        return self.end_token - 1

    def __iter__(self) -> Iterator[Any]:
        """Unpacks the span as a tuple (type, first, last, confidence)."""
        return iter((self.type, self.first, self.last, self.confidence))

    def __getitem__(self, index: int | slice) -> Any:
        return tuple(self)[index]


class Sentence:
    """The tokens of a sentence with tags, spans, confidences and offsets.

    Args:
        tokens: the tokens.
        tags: a tag for each token; empty for an untagged sentence.
        spans: tuples (type, first token, last token) with an optional confidence; None for the spans of the tags.
        confidences: the probability of each tag.
        confidence: the probability of all tags together.
        alternatives: the n best taggings; the first has the same tags as the sentence.
        text: the text of the sentence, which contains the tokens in order; None to join the tokens with spaces.
        start: offset of the sentence in the source text.
        offsets: (start, end) of each token in the source text; None to find the tokens in `text`.
        raw: whether the sentence was found in raw text.
        line: first line of the sentence in its file.
        lines: the line of each token; empty if all tokens are on `line`.
        rows: the rows of the sentence in a column file.
        record: the record of the sentence in a JSON file.

    Attributes:
        The arguments; `spans` contains objects of the class `Span`.
    """

    __slots__ = ('_offsets', '_span_tuples', '_spans', '_text', 'alternatives', 'confidence', 'confidences', 'line',
                 'lines', 'raw', 'record', 'rows', 'start', 'tags', 'tokens')

    #: a function that renders a sentence as HTML for notebooks; `ms_crf.render.tagged` sets it
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
        """The sentence with tokens at these offsets of a text; at least one token is required."""
        start, end = offsets[0][0], offsets[-1][1]
        return cls([text[begin:stop] for begin, stop in offsets], text=text[start:end], start=start, offsets=offsets,
                   **others)

    def replace(self, **changes: Any) -> 'Sentence':
        """A copy with new values of some arguments; new tags also replace the spans, unless `spans` is given."""
        values = {'text': self._text, 'offsets': self._offsets, **{
            name: getattr(self, name) for name in self.__slots__ if name[0] != '_'}}
        if 'tags' not in changes:
            values['spans'] = self._span_tuples
        return Sentence(**{**values, **changes})

    @property
    def prediction(self) -> tuple:
        """The output of a tagger: tags, spans as tuples, confidences, confidence, alternatives."""
        return self.tags, self._span_tuples, self.confidences, self.confidence, self.alternatives

    def predicted(self, prediction: tuple) -> 'Sentence':
        """A copy with another `prediction`."""
        names = 'tags', 'spans', 'confidences', 'confidence', 'alternatives'
        return self.replace(**dict(zip(names, prediction)))

    @property
    def text(self) -> str:
        """The text of the sentence."""
        if self._text is None:
            self._offsets = self.offsets         # before the text is set: offsets of tokens joined with spaces
            self._text = ' '.join(self.tokens)
        return self._text

    @property
    def end(self) -> int:
        """The offset of the end of the sentence in the source text."""
        return self.start + len(self.text)

    @property
    def offsets(self) -> list[Offsets]:
        """The offsets (start, end) of each token in the source text."""
        if self._offsets is None:
            offsets = None if self._text is None else find_tokens(self.tokens, self._text, self.start)
            if offsets is None:                    # tokens joined with spaces
                starts = accumulate((len(token) + 1 for token in self.tokens), initial=self.start)
                offsets = [(start, start + len(token)) for start, token in zip(starts, self.tokens)]
            self._offsets = offsets
        return self._offsets

    @property
    def spans(self) -> list[Span]:
        """The entities, chunks or words; empty for plain tags, such as parts of speech."""
        if self._spans is None:
            tuples = self._span_tuples
            if tuples is None:
                of_spans = all(tag == 'O' or is_span_tag(tag) for tag in self.tags)
                tuples = spans_of(self.tags) if of_spans else []
            self._spans = self.spans_at(tuples) if tuples else []
        return self._spans

    entities = spans

    def spans_at(self, spans: Iterable[tuple]) -> list[Span]:
        """`Span` objects of this sentence from tuples (type, first token, last token) with an optional confidence."""
        offsets = self.offsets
        return [Span(kind, offsets[first][0], offsets[last][1], first, last + 1, rest[0] if rest else None,
                     self.line_of(first), self) for kind, first, last, *rest in spans]

    @property
    def token_spans(self) -> list[Span]:
        """A span for each token, with the tag as type."""
        confidences: Sequence[float | None] = self.confidences or [None] * len(self.tokens)
        return self.spans_at((tag, index, index, confidence) for index, (tag, confidence) in
                             enumerate(zip(self.tags, confidences)))

    @property
    def sentence(self) -> 'Sentence':
        """The sentence itself; for programs written for earlier versions."""
        return self

    def text_at(self, start: int, end: int) -> str:
        """The text between two offsets of the source text."""
        return self.text[start - self.start:end - self.start]

    def line_of(self, index: int) -> int:
        """The line number of a token in the file."""
        return self.lines[index] if self.lines else self.line

    def stripped(self) -> 'Sentence':
        """A copy without white space before the first token and after the last token."""
        start, end = self.offsets[0][0], self.offsets[-1][1]
        return self.replace(text=self.text_at(start, end), start=start)

    def moved(self, start: int) -> 'Sentence':
        """A copy whose text begins at the offset `start` of the source text."""
        shift = start - self.start
        offsets = None if self._offsets is None else [(begin + shift, end + shift) for begin, end in self._offsets]
        return self.replace(start=start, offsets=offsets)

    def with_spans(self, spans: Iterable[Span], shown: Callable[[Span], str]) -> str:
        """The text of the sentence, with each span replaced by the result of the function `shown`."""
        pieces, done = [], self.start
        for span in spans:
            pieces += [self.text_at(done, span.start), shown(span)]
            done = span.end
        return ''.join([*pieces, self.text_at(done, self.end)])

    def to_dict(self) -> dict[str, Any]:
        """The sentence as a JSON object: text, tokens, tags, entities and, if they were computed, confidences."""
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
        """The text with spans in brackets; for plain tags each token with its tag."""
        if self.spans or not any(tag != 'O' for tag in self.tags):
            return self.with_spans(self.spans, lambda span: f'[{span.text}{" " * bool(span.type)}{span.type}]')
        return self.with_spans(self.token_spans, lambda span: f'{span.text}/{span.type}')

    def __repr__(self) -> str:
        return f'Sentence({str(self)!r})'

    def __eq__(self, other: object) -> bool:
        """Whether two sentences have the same tokens and the same prediction; offsets do not matter."""
        return isinstance(other, Sentence) and (self.tokens, *self.prediction) == (other.tokens, *other.prediction)

    __hash__ = None  # type: ignore[assignment] # mutable

    def _repr_html_(self) -> str | None:
        """HTML for notebooks: the text with highlighted spans, or with tags if there are no spans."""
        return None if Sentence.renderer is None else Sentence.renderer(self)


def _entity(span: Span) -> dict[str, Any]:
    entity = {'type': span.type, 'text': span.text, 'first': span.first, 'last': span.last, 'start': span.start,
              'end': span.end}
    if span.confidence is not None:
        entity['confidence'] = round(span.confidence, 6)
    return entity


def find_tokens(tokens: Iterable[str], text: str, start: int = 0) -> list[Offsets] | None:
    """Offsets of tokens that occur in this order in a text with the offset `start`; None if they do not."""
    offsets, done = [], 0
    for token in tokens:
        begin = text.find(token, done)
        if begin < 0:
            return None
        done = begin + len(token)
        offsets.append((start + begin, start + done))
    return offsets
