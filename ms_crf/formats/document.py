"""Annotated documents, the remarks on lost information, and the options for reading and writing them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief, one_line
from ms_crf.text.partial import MARK
from ms_crf.text.sentence import Offsets, Sentence, Span, find_tokens
from ms_crf.text.splitting import Splitter, is_blank, line_ends_before

SHOWN = 60                     # longest text in a remark, in characters
COLUMNS = (0, -1)              # default columns of token and tag
UPOS = 3                       # default column of CoNLL-U for plain tags

Lines = Iterable[tuple[int, str] | None]         # (line number, text); None is a pause in the input


class Names(NamedTuple):
    """The names that a Label Studio project uses in its labelling interface.

    Args:
        from_name: name of the tag with the labels.
        to_name: name of the tag with the text.
        label_type: type of the results; it is also the key of the labels in a result.
    """

    from_name: str | None = None
    to_name: str | None = None
    label_type: str | None = None


DEFAULT = Names('label', 'text', 'labels')


class Prediction(NamedTuple):
    """The fields of a record that describe a model's prediction.

    Args:
        confidence: confidence in all tags of the record; None if the record has no confidence.
        model: name and version of the model; '' if the record does not name the model.
    """

    confidence: float | None = None
    model: str = ''


class Document(NamedTuple):
    """A text with annotations: with spans, or with sentences that have tags."""

    text: str
    path: str                            # file of the annotations, for messages
    line: int                            # first line in the file
    spans: Sequence[Span] = ()
    tokens: list[Offsets] | None = None  # offsets of the tokens, if the file has tokens but no sentences
    sentences: list[Sentence] | None = None
    name: str = ''                       # name of the document, if the file has names
    has_boundary: bool = True            # whether the file marks the beginning; otherwise it is one sentence of a file
    has_text: bool = True                # whether the text is in the file; otherwise tokens were joined with spaces
    by_line: bool = False                # whether line numbers count the lines of the text
    text_path: str = ''                  # file of the text, if it is not the file of the annotations
    prediction: Prediction | None = None          # the prediction of a model; None if people annotated the text
    record: dict[str, Any] | None = None          # the JSON record of the document
    annotated: list[Offsets] | None = None        # the annotated parts of the text; None means the whole text

    @property
    def source_path(self) -> str:
        """The path of the file with the sentences, for messages."""
        return self.text_path or self.path

    def text_at(self, start: int, end: int) -> str:
        """The text between two offsets."""
        return self.text[start:end]

    def line_numbers(self) -> Callable[[int], int]:
        """Returns a function that converts an offset of the text to a line number of the file."""
        if not self.by_line:
            return lambda offset: self.line
        line_ends = line_ends_before(self.text)
        return lambda offset: self.line + line_ends(offset)


class Remark(NamedTuple):
    """A message about information that was changed or dropped."""

    kind: str                  # a key of `KINDS`
    path: str
    line: int
    text: str


Report = Callable[[Remark], object]

#: for each kind of remark: the affected item and the change
KINDS = {
    'grown': ('span', 'beginning or ending within a token, widened to whole tokens'),
    'overlap': ('span', 'dropped, because of an overlap with a longer or earlier span'),
    'gap': ('span', 'with gaps, read from the first part to the last part'),
    'empty': ('span', 'of white space only, dropped'),
    'joined': ('span', 'across a sentence boundary (the sentences were joined)'),
    'ignored': ('annotation', 'other than a span, ignored (relation, event, attribute, choice or note)'),
    'rejected': ('text', 'skipped, not accepted by the annotator'),
    'unlabelled': ('text', 'skipped, not annotated yet'),
    'second': ('annotation', 'skipped, by another annotator of the same text'),
    'odd text': ('sentence', 'whose comment "# text" does not match the forms and was ignored'),
    'no text': ('text', 'made by joining tokens with spaces and sentences with line ends'),
    'tokens': ('text', 'written without tokens and sentences, which the output format cannot hold'),
    'sentences': ('text', 'written without sentences, which the output format cannot hold'),
    'text': ('text', 'written without the original white space, which the output format cannot hold'),
    'columns': ('sentence', 'written without the other columns, which the output format cannot hold'),
    'name': ('text', 'written without the name, which the output format cannot hold'),
    'fields': ('text', 'written without "id" and other fields, which the output format cannot hold'),
    'predicted': ('text', 'tagged by a model, treated as annotated text'),
    'borders': ('text', 'joined to the previous text, because one file holds one text'),
    'ill-formed': ('sentence', 'with invalid tag sequences, read by the rules of conlleval'),
    'plain': ('sentence', 'with plain tags, in which each token became a span'),
    'judged': ('text', 'annotated only in part, which the output format cannot mark'),
    'in part': ('sentence', 'with partly unknown tags or spans, treated as unlabelled'),
}


class Remarks:
    """Collects remarks about one input; `add` can be passed as a `Report`.

    Args:
        name: name of the input file or folder.
    """

    def __init__(self, name: object) -> None:
        self.name = str(name)
        self.all: list[Remark] = []

    def add(self, remark: Remark) -> None:
        self.all.append(remark)

    def lines(self) -> list[str]:
        """One line for each kind of remark: the number of remarks, and line and text of the first remark."""
        first, result = {remark.kind: remark for remark in reversed(self.all)}, []
        for kind, count in Counter(remark.kind for remark in self.all).items():
            remark, (noun, rest) = first[kind], KINDS[kind]
            where = f'at line {remark.line}' if remark.path == self.name else f'at {remark.path}:{remark.line}'
            result.append(one_line(f'{self.name}: {counted(count, noun)} {rest}; the first, {where}: '
                                   f'{shown(remark.text)}'))
        return result

    def each(self) -> list[str]:
        """One line for each remark."""
        return [f'{one_line(remark.path)}:{remark.line}: {" ".join(KINDS[remark.kind])}: {shown(remark.text)}'
                for remark in self.all]


def counted(number: int, noun: str) -> str:
    """A number with a noun: '1 span', '2,000 spans'."""
    return f'{number:,} {noun}{"s" * (number != 1)}'


def shown(text: str) -> str:
    """A text on one line, shortened to `SHOWN` characters, for a remark."""
    return brief(text if len(text) <= SHOWN else f'{text[:SHOWN]}…')


def discard(remark: Remark) -> None:
    """A `Report` that discards all remarks."""


class ReadOptions(NamedTuple):
    """Options for reading a file.

    Args:
        columns: indices of the columns of token and tag, or of the token alone; from 0, or from -1 backwards.
        mark: the mark of unknown tags; '' for no mark.
        report: receives a `Remark` about everything that is changed or dropped.
        splitter: finds sentences and tokens in texts with spans.
        characters: whether texts without tokens are split into characters; otherwise they are split into words.
    """

    columns: tuple[int, ...] = COLUMNS
    mark: str = MARK
    report: Report = discard
    splitter: Splitter | None = None
    characters: bool = False

    @property
    def with_gold(self) -> bool:
        """Whether the gold tags are read, and not only the tokens."""
        return len(self.columns) > 1


class Target(NamedTuple):
    """Options for writing a converted file.

    Args:
        format: the name of the format.
        splitter: finds sentences and tokens in texts that have none.
        scheme: the scheme for tags of spans. None keeps the scheme of the source; spans then become BIO tags, or BIOES
            tags if some text is not annotated. 'plain' turns one-token spans into plain tags. Writers receive the
            scheme that was finally chosen.
        column: the column of CoNLL-U for plain tags.
        mark: the mark of unknown tags.
        names: names in the labelling interface of Label Studio; names that are None are copied from the source.
    """

    format: str
    splitter: Splitter
    scheme: str | None = None
    column: int = UPOS
    mark: str = MARK
    names: Names = Names()


TaggedDocument = tuple[Document, Sequence[Sentence]]   # a document with its tagged sentences
SpanDocument = tuple[Document, Sequence[Span]]         # a document with its spans


class OutputStyle(NamedTuple):
    """Options for writing the tagged sentences of a stream.

    Args:
        scheme: the scheme of the tags.
        confidence: whether confidences are written.
        conllu: the column of CoNLL-U for plain tags; None unless the input is CoNLL-U and stays CoNLL-U.
        model: name and version of the model; '' to omit it.
    """

    scheme: str
    confidence: bool = False
    conllu: int | None = None
    model: str = ''


def offsets_in(tokens: Sequence[str], text: str) -> list[Offsets] | None:
    """Offsets of consecutive tokens that together make up the text except white space; None if they do not."""
    offsets = find_tokens(tokens, text)
    if offsets is None:
        return None
    gaps = ''.join(text[end:start] for (_, end), (start, _) in zip([(0, 0), *offsets], [*offsets, (len(text), 0)]))
    return offsets if all(map(is_blank, gaps)) else None


def check_span(document: Document, start: object, end: object, line: int) -> tuple[int, int]:
    """Returns the two offsets of a span after checking them; raises CorpusError if they are invalid for the text."""
    size = len(document.text)
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= size:
        raise CorpusError(document.path, line, f'expected a span from 0 to {size}, the length of its text, its start '
                                               f'not after its end, got {brief(start)} to {brief(end)}')
    return start, end
