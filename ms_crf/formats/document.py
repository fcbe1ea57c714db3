"""An annotated document: text, the sentences and tokens in it, spans by character; and remarks on what is not kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief, one_line
from ms_crf.formats.json_fields import Prediction
from ms_crf.formats.readers import Row
from ms_crf.text.splitting import Offsets, is_blank, line_ends_before

SHOWN = 60                     # characters of a text in a remark


class TextSpan(NamedTuple):
    """A stretch of text with a type; offsets count characters, the end is exclusive."""

    start: int
    end: int
    type: str
    line: int                  # of the file in which it stands


class Placed(NamedTuple):
    """A sentence of a document."""

    tokens: list[str]
    places: list[Offsets]      # of each token in the text; words that CoNLL-U writes as one token may share a place
    line: int                  # of the file on which it begins
    tags: list[str] | None = None
    lines: tuple[int, ...] = ()          # of its tokens, if they have lines of their own
    rows: tuple[Row, ...] = ()           # its rows, if it is from CoNLL-U


class Document(NamedTuple):
    """A text with what people have marked in it."""

    text: str
    path: str                            # of its file, for messages
    line: int                            # of the file on which it begins
    spans: Sequence[TextSpan] = ()
    tokens: list[Offsets] | None = None  # where the file has tokens, but no sentences
    sentences: list[Placed] | None = None
    name: str = ''                       # of the document itself, if it has one
    bordered: bool = True                # whether the file says where it begins; otherwise it is a sentence of a file
    has_text: bool = True                # whether the text is that of the file, and not its tokens joined by blanks
    by_line: bool = False                # whether line numbers are those of the text
    text_path: str = ''                  # of the file of the text, if spans are in another one
    prediction: Prediction | None = None          # what is known of the model that has tagged it; None if people have
    record: dict[str, Any] | None = None          # its record, if it is from JSON
    judged: list[Offsets] | None = None  # the parts of the text that somebody has looked at; None for all of it

    @property
    def home(self) -> str:
        """The file that the sentences are in, for messages."""
        return self.text_path or self.path

    def line_numbers(self) -> Callable[[int], int]:
        """Returns a function: the line of the file on which an offset of the text is."""
        if not self.by_line:
            return lambda offset: self.line
        line_ends = line_ends_before(self.text)
        return lambda offset: self.line + line_ends(offset)


class Remark(NamedTuple):
    """Something in a file that is not kept as it stands there."""

    kind: str                  # one of `KINDS`
    path: str
    line: int
    text: str


Report = Callable[[Remark], object]

#: kinds of remark: what it is about, and what is said of that
KINDS = {
    'grown': ('span', 'beginning or ending within a token, widened to whole tokens'),
    'overlap': ('span', 'left out, overlapping or repeating a longer or earlier one'),
    'gap': ('span', 'with gaps, taken from the first part to the last'),
    'empty': ('span', 'of white space alone, left out'),
    'joined': ('span', 'across the border of sentences, which were joined'),
    'ignored': ('annotation', 'left out, being no span (but a relation, event, attribute, choice or note)'),
    'rejected': ('text', 'left out, not accepted by the annotator'),
    'unlabelled': ('text', 'left out, not annotated yet'),
    'second': ('annotation', 'by a further annotator of its text, left out'),
    'odd text': ('sentence', 'with a # text that lacks its forms, which were joined as SpaceAfter says'),
    'no text': ('text', 'made of tokens joined by blanks, and sentences by line ends'),
    'tokens': ('text', 'without its tokens and sentences, which the format has no place for'),
    'sentences': ('text', 'without its sentences, which the format has no place for'),
    'text': ('text', 'without its white space, which the format has no place for'),
    'columns': ('sentence', 'without its other columns, which the format has no place for'),
    'name': ('text', 'without its name, which the format has no place for'),
    'fields': ('text', 'without its id and other fields, which the format has no place for'),
    'predicted': ('text', 'tagged by a model, taken as annotated'),
    'borders': ('text', 'without the border before it, since one file holds one text'),
    'ill-formed': ('sentence', 'with tags that break their scheme, read by the rules of conlleval'),
    'plain': ('sentence', 'of plain tags, in which each token became a span'),
    'judged': ('text', 'without the border between what is judged and what is not, which the format has no place for'),
    'in part': ('sentence', 'with spans or tags that are judged in part, taken as not judged'),
}


class Remarks:
    """Collects remarks on what is read from a file or folder; `add` is a `Report`.

    Args:
        name: of the file or folder.
    """

    def __init__(self, name: object) -> None:
        self.name = str(name)
        self.all: list[Remark] = []

    def add(self, remark: Remark) -> None:
        self.all.append(remark)

    def lines(self) -> list[str]:
        """A line for each kind of remark: how many there are, where the first is, and its text."""
        counts = Counter(remark.kind for remark in self.all)
        first: dict[str, Remark] = {}
        for remark in self.all:
            first.setdefault(remark.kind, remark)
        made = []
        for kind, remark in first.items():
            noun, rest = KINDS[kind]
            where = f'at line {remark.line}' if remark.path == self.name else f'at {remark.path}:{remark.line}'
            made.append(one_line(f'{self.name}: {counted(counts[kind], noun)} {rest}; the first, {where}: '
                                 f'{shown(remark.text)}'))
        return made

    def each(self) -> list[str]:
        """A line for each remark."""
        return [f'{one_line(remark.path)}:{remark.line}: {" ".join(KINDS[remark.kind])}: {shown(remark.text)}'
                for remark in self.all]


def counted(number: int, noun: str) -> str:
    """A number of things: '1 span', '2,000 spans'."""
    return f'{number:,} {noun}{"s" * (number != 1)}'


def shown(text: str) -> str:
    """A text as it is shown in a remark: in one line, and not too long."""
    return brief(text if len(text) <= SHOWN else f'{text[:SHOWN]}…')


def nowhere(remark: Remark) -> None:
    """A `Report` that says nothing."""


def find_tokens(tokens: Iterable[str], text: str) -> list[int] | None:
    """Where each token begins in a text that holds them one after the other; None if it does not."""
    starts, offset = [], 0
    for token in tokens:
        start = text.find(token, offset)
        if start < 0:
            return None
        starts.append(start)
        offset = start + len(token)
    return starts


def places_in(tokens: Sequence[str], text: str) -> list[Offsets] | None:
    """The places of tokens in a text; None unless it holds them in this order with only white space beside them."""
    starts = find_tokens(tokens, text)
    if starts is None:
        return None
    places = [(start, start + len(token)) for start, token in zip(starts, tokens)]
    ends = [0, *(end for _, end in places)]
    gaps = ''.join(text[end:start] for end, start in zip(ends, [*starts, len(text)]))
    return places if all(map(is_blank, gaps)) else None


def joined(tokens: Sequence[str]) -> tuple[str, list[Offsets]]:
    """Tokens joined by blanks, and their places there."""
    places, offset = [], 0
    for token in tokens:
        places.append((offset, offset + len(token)))
        offset += len(token) + 1
    return ' '.join(tokens), places


def moved(places: Iterable[Offsets], by: int) -> list[Offsets]:
    """Places in a text that something of that length is put before."""
    return [(start + by, end + by) for start, end in places]


def check_span(document: Document, start: object, end: object, line: int) -> tuple[int, int]:
    """Raises CorpusError unless two offsets, from a file, are a place in the text; returns them."""
    size = len(document.text)
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= size:
        raise CorpusError(document.path, line, f'expected a span from 0 to {size}, the length of its text, its start '
                                               f'not after its end, got {brief(start)} to {brief(end)}')
    return start, end
