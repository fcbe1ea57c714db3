"""An annotated document: text, the sentences and tokens in it, spans by character; and remarks on what is not kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief, one_line
from ms_crf.text.partial import MARK
from ms_crf.text.sentence import Offsets, Sentence, Span, find_tokens
from ms_crf.text.splitting import Splitter, is_blank, line_ends_before

SHOWN = 60                     # characters of a text in a remark
COLUMNS = (0, -1)              # of token and tag
UPOS = 3                       # the column of CoNLL-U for tags that are not of spans

Lines = Iterable[tuple[int, str] | None]         # (line number, text); None stands for a pause in the input


class Names(NamedTuple):
    """How a labelling interface of Label Studio names its parts.

    Args:
        from_name: of the tag with the labels.
        to_name: of the tag with the text.
        label_type: the type of the results; also the name under which a result has its labels.
    """

    from_name: str | None = None
    to_name: str | None = None
    label_type: str | None = None


DEFAULT = Names('label', 'text', 'labels')


class Prediction(NamedTuple):
    """What a record says of the model that has tagged its text.

    Args:
        confidence: of all tags together; None if the record has none.
        model: name and version of the model; '' if the record has none.
    """

    confidence: float | None = None
    model: str = ''


class Document(NamedTuple):
    """A text with what people have marked in it."""

    text: str
    path: str                            # of its file, for messages
    line: int                            # of the file on which it begins
    spans: Sequence[Span] = ()
    tokens: list[Offsets] | None = None  # where the file has tokens, but no sentences
    sentences: list[Sentence] | None = None
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

    def text_at(self, start: int, end: int) -> str:
        """What the text has from one offset to another."""
        return self.text[start:end]

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
        first, made = {remark.kind: remark for remark in reversed(self.all)}, []
        for kind, count in Counter(remark.kind for remark in self.all).items():
            remark, (noun, rest) = first[kind], KINDS[kind]
            where = f'at line {remark.line}' if remark.path == self.name else f'at {remark.path}:{remark.line}'
            made.append(one_line(f'{self.name}: {counted(count, noun)} {rest}; the first, {where}: '
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


class Reading(NamedTuple):
    """How a file is read.

    Args:
        columns: indices of the columns of token and tag, or of the token alone, from 0, or from -1 backwards.
        mark: what stands in place of a tag that nobody has judged; '' for nothing.
        report: is called with a `Remark` on whatever of a text or its spans is not kept.
        splitter: finds sentences and tokens in texts with spans.
        characters: whether each character of a text without tokens is a token; otherwise each word is one.
    """

    columns: tuple[int, ...] = COLUMNS
    mark: str = MARK
    report: Report = nowhere
    splitter: Splitter | None = None
    characters: bool = False

    @property
    def with_gold(self) -> bool:
        """Whether tags are wanted, not tokens alone."""
        return len(self.columns) > 1


class Target(NamedTuple):
    """What is to be written.

    Args:
        format: the name of the format.
        splitter: finds sentences and tokens where there are none.
        scheme: of tags of spans; None for that of the source, if it has spans BIO, or BIOES if some of its text is not
            judged. 'plain' makes tags of spans of one token each. Writers receive the scheme that it comes to.
        column: of CoNLL-U, for tags that are not of spans.
        mark: what stands in place of a tag that nobody has judged.
        names: of a labelling interface of Label Studio; those that are None are copied from the source, if it has some.
    """

    format: str
    splitter: Splitter
    scheme: str | None = None
    column: int = UPOS
    mark: str = MARK
    names: Names = Names()


Tagged = tuple[Document, Sequence[Sentence]]     # a document and its sentences, which have tags
Marked = tuple[Document, Sequence[Span]]         # a document and its spans


class Look(NamedTuple):
    """How tagged sentences are to be written as they come.

    Args:
        scheme: of the tags.
        confidence: whether to show confidences.
        conllu: the column of CoNLL-U for tags that are not of spans; None unless rows are to stay CoNLL-U.
        model: name and version of the model; '' if they are not written.
    """

    scheme: str
    confidence: bool = False
    conllu: int | None = None
    model: str = ''


def offsets_in(tokens: Sequence[str], text: str) -> list[Offsets] | None:
    """The offsets of tokens in a text; None unless it holds them in this order with only white space beside them."""
    offsets = find_tokens(tokens, text)
    if offsets is None:
        return None
    gaps = ''.join(text[end:start] for (_, end), (start, _) in zip([(0, 0), *offsets], [*offsets, (len(text), 0)]))
    return offsets if all(map(is_blank, gaps)) else None


def check_span(document: Document, start: object, end: object, line: int) -> tuple[int, int]:
    """Raises CorpusError unless two offsets, from a file, are a place in the text; returns them."""
    size = len(document.text)
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= size:
        raise CorpusError(document.path, line, f'expected a span from 0 to {size}, the length of its text, its start '
                                               f'not after its end, got {brief(start)} to {brief(end)}')
    return start, end
