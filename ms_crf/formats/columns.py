"""Reads and writes column files: rows of token and tag, or the four columns of CoNLL-2003."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.formats.document import Document, Lines, OutputStyle, ReadOptions, Remark, TaggedDocument, Target
from ms_crf.formats.lines import half_of_pair, numbered_lines
from ms_crf.text.partial import MARK, check_tag, is_open, opened
from ms_crf.text.schemes import PLAIN, is_span_tag
from ms_crf.text.sentence import Row, Sentence

KNOWN_TAGS = 1000              # a last column with more distinct values does not hold tags
DOCSTART = '-DOCSTART-'
WIDTH_2003 = 4                 # token, part of speech, chunk, name
EMPTY = '_'
FILLERS = (EMPTY, '-X-')       # the values of empty columns
MISC, NER = 9, 'NER'           # the last column of CoNLL-U, and its attribute for tags of spans
_NO_WORD = re.compile(r'[0-9]+[-.][0-9]+')     # CoNLL-U numbers of multiword tokens and empty nodes
_NAMES = {'\t': 'a tab', '\r': 'a line end', '\n': 'a line end', ' ': 'a space'}


# Reading

def sentences(lines: Lines, name: object, options: ReadOptions, conllu: bool = False,
              width: int | None = None) -> Iterator[Sentence | None]:
    """Reads sentences with all their rows. Lines without tokens, such as comments alone, are a sentence without tokens.

    Args:
        lines: pairs of line number and text; None, a pause in the input, is yielded unchanged.
        name: name of the file, for messages.
        options: the columns of token and tag, or of the token alone, and the mark of unknown tags.
        conllu: whether the file is CoNLL-U.
        width: the number of columns that each row must have.
    """
    for rows in blocks(lines, conllu, options.mark):
        if rows is None:
            yield None
            continue
        words = [row for row in rows if row.cells]
        odd = next((row for row in words if width is not None and len(row.cells) != width), None)
        if odd is not None:
            raise CorpusError(name, odd.line_number, f'expected {width} columns, as CoNLL-2003 has them, got '
                                                     f'{odd.text!r}')
        cells = [cells_of(name, row, options.columns, conllu) for row in words]
        numbers = [row.line_number for row in words]
        # Most tokens are on consecutive lines; a range needs less memory than a tuple.
        follow = bool(words) and numbers[-1] - numbers[0] == len(numbers) - 1
        yield Sentence([token for token, *_ in cells], [tag for _, tag in cells] if len(options.columns) > 1 else None,
                       line=rows[0].line_number, rows=tuple(rows),
                       lines=range(numbers[0], numbers[-1] + 1) if follow else tuple(numbers))


def attributes(misc: str) -> dict[str, str]:
    """The attributes in the MISC column of CoNLL-U, as a dictionary."""
    pairs = (part.partition('=') for part in misc.split('|'))
    return {name: value for name, equals, value in pairs if equals}


def cells_of(path: object, row: Row, columns: Sequence[int], conllu: bool = False) -> list[str]:
    """The token and the tag of a row, or the token alone, from the columns `columns`.

    In CoNLL-U, the tag in the MISC column is the attribute NER; a row without the attribute has the tag O.
    """
    cells = row.cells
    names = ('token', 'tag')[:len(columns)]
    indices = [column if column >= 0 else len(cells) + column for column in columns]
    if min(indices) < 0 or max(indices) >= len(cells) or len(set(indices)) < len(indices):
        raise CorpusError(path, row.line_number, f'expected column{"s" * (len(columns) > 1)} '
                                                 f'{" and ".join(map(str, columns))} to hold {" and ".join(names)}, '
                                                 f'separated by tabs or spaces, got {row.text!r}')
    values = [cells[index] for index in indices]
    if conllu and indices[1:] == [MISC]:
        values[1] = attributes(values[1]).get(NER, 'O')
    if not all(values):
        raise CorpusError(path, row.line_number, f'expected a {" and a ".join(names)}, got an empty column in '
                                                 f'{row.text!r}')
    for tag in values[1:]:
        check_tag(path, row.line_number, tag)
    return values


def read(path: PathLike, options: ReadOptions, width: int | None = None) -> Iterator[Document]:
    """The documents of a column file. Documents begin with -DOCSTART- rows; without them each sentence is a document.

    Args:
        path: path of the file.
        options: the columns; `report` receives a `Remark` if other columns have content.
        width: the number of columns that each row must have.
    """
    waiting: list[Sentence] = []
    begun = False
    for sentence in sentences(numbered_lines(path), path, options, width=width):
        for row in sentence.rows if sentence else ():
            if row.text.startswith(DOCSTART):
                if waiting:
                    yield document_of(path, waiting, True)
                waiting, begun = [], True
        if sentence and sentence.tokens:
            sentence.line = sentence.lines[0]
            if has_other_columns(sentence, options.columns, FILLERS):
                options.report(Remark('columns', str(path), sentence.line, sentence.text))
            sentence.rows = ()
            if begun:
                waiting.append(sentence)
            else:
                yield document_of(path, [sentence], False)
    if waiting:
        yield document_of(path, waiting, True)


def has_other_columns(sentence: Sentence, columns: Sequence[int], fillers: Sequence[str]) -> bool:
    """Whether the rows of a sentence have content in other columns than `columns`; fillers do not count."""
    return any(cell not in fillers for row in sentence.rows for index, cell in enumerate(row.cells)
               if index not in columns and index - len(row.cells) not in columns)


def document_of(path: PathLike, sentences: Sequence[Sentence], has_boundary: bool) -> Document:
    """A document of sentences; its text is the texts of the sentences, joined with line ends."""
    placed, offset = [], 0
    for sentence in sentences:
        placed.append(sentence.moved(offset) if offset else sentence)
        offset += len(sentence.text) + 1
    return Document('\n'.join(sentence.text for sentence in sentences), str(path), sentences[0].line, sentences=placed,
                    has_boundary=has_boundary, has_text=False)


# Writing

def write(documents: Iterable[TaggedDocument], target: Target) -> Iterator[str]:
    """Writes token, tab and tag in each row, and an empty line after each sentence.

    Raises:
        CorpusError: a column cannot hold a token or tag.
    """
    for document, sentences in documents:
        for sentence in sentences:
            rows = list(zip(sentence.tokens, sentence.tags))
            for row in rows:
                check_cells(document, sentence, row)
            yield ''.join(f'{token}\t{tag}\n' for token, tag in rows) + '\n'


def write_2003(documents: Iterable[TaggedDocument], target: Target) -> Iterator[str]:
    """Writes the four columns of CoNLL-2003, with spaces and -DOCSTART- rows. Plain tags are in the second column."""
    first = True
    for document, sentences in documents:
        if first or document.has_boundary:
            yield f'{DOCSTART} -X- -X- O\n\n'
        first = False
        for sentence in sentences:
            lines = []
            for token, tag in zip(sentence.tokens, sentence.tags):
                check_cells(document, sentence, (token, tag), '\t\r\n ')
                others = f'{tag} {EMPTY} O' if target.scheme == PLAIN else f'{EMPTY} {EMPTY} {tag}'
                lines.append(f'{token} {others}\n')
            yield ''.join(lines) + '\n'


def line(sentence: Sentence, style: OutputStyle) -> str:
    """The rows of a tagged sentence with the tag as an additional column; without rows, one row for each token."""
    if sentence.raw and not sentence.tokens:
        return ''                                # white space between paragraphs
    columns = [sentence.tags]
    if style.confidence and sentence.confidences is not None:
        columns.append([f'{confidence:.4f}' for confidence in sentence.confidences])
    if not sentence.rows:
        return ''.join('\t'.join(row) + '\n' for row in zip(sentence.tokens, *columns)) + '\n'

    def extended(row: Row, index: int) -> str:
        tabs = '\t' in row.text
        # Rows with spaces get a space: a tab would turn the spaces into a part of the first column.
        return (' ' if not tabs and len(row.cells) > 1 else '\t').join(
            [row.text if tabs else row.text.strip(' '), *(column[index] for column in columns)])
    return ''.join(f'{text}\n' for text in rewritten(sentence, extended))


def rewritten(sentence: Sentence, shown: Callable[[Row, int], str]) -> list[str]:
    """The rows of a sentence; rows of tokens are rewritten by `shown`, a function of the row and the token's index."""
    indices = count()
    return [shown(row, next(indices)) if row.cells else row.text for row in sentence.rows]


def for_columns(sentences: Iterable[Sentence | None], name: str) -> Iterator[Sentence | None]:
    """Yields all sentences, and None, unchanged; raises CorpusError at the first token that a column cannot hold."""
    for sentence in sentences:
        for token in sentence.tokens if sentence is not None else ():
            if sentence is not None and not {'\t', '\r', '\n'}.isdisjoint(token):
                raise CorpusError(name, sentence.line, f'expected tokens that columns can hold, got a '
                                                       f'{"tab" if chr(9) in token else "line end"} in {brief(token)}; '
                                                       'JSON lines can hold it')
        yield sentence


def check_cells(document: Document, sentence: Sentence, cells: Sequence[str], separators: str = '\t\r\n') -> None:
    """Raises CorpusError if a column cannot hold a value."""
    for cell in cells:
        reasons = [*((character in cell, _NAMES[character]) for character in separators), (not cell, 'an empty value'),
                   (cell != cell.strip(' '), 'a space at one end'), (cell.startswith('\ufeff'), 'a byte order mark'),
                   (cell.startswith(DOCSTART), 'a mark that begins a document'),
                   (half_of_pair([cell]) is not None, 'an unpaired surrogate')]
        why = next((reason for holds, reason in reasons if holds), None)
        if why is not None:
            raise CorpusError(document.source_path, sentence.line, 'expected tokens and tags that columns can hold, '
                                                                   f'got {why} in {brief(cell)}; JSON lines can hold '
                                                                   'it')


# Rows

def split(text: str) -> list[str]:
    """Splits a line into columns: at tabs if it has any, otherwise at spaces. Spaces around a column are removed.

    Other white space is part of a token.
    """
    if '\t' in text:
        return [column.strip(' ') for column in text.split('\t')]
    return [column for column in text.split(' ') if column]


def blocks(lines: Iterable[tuple[int, str] | None], conllu: bool = False,
           mark: str = MARK) -> Iterator[list[Row] | None]:
    """Groups lines into sentences. Yields lists of rows; the last row is the empty line that ends the sentence.

    Comments, -DOCSTART- rows, and multiword tokens (1-2) and empty nodes (1.1) of CoNLL-U become rows without cells.
    At the end of the file the empty line may be missing.

    Args:
        lines: pairs of line number and text; None, a pause in the input, is yielded unchanged.
        conllu: whether the file is CoNLL-U.
        mark: the mark of unknown tags; '' for no mark.
    """
    comments, waiting, block = _Comments(conllu, mark), [], []
    for line in lines:
        if line is None:
            yield None
            continue
        line_number, text = line
        cells = split(text) if text.strip(' \t') else []
        if conllu and len(cells) >= 10 and _NO_WORD.fullmatch(cells[0]):
            block.append(Row(line_number, text, []))
            continue
        if cells:
            comments.see(text, cells)
        block.append(Row(line_number, text, cells))
        if not cells:
            waiting.append(block)
            block = []
            if comments.width is not None or conllu:
                yield from map(comments.without, waiting)
                waiting = []
    if block:
        waiting.append(block)
    yield from map(comments.without, waiting)


class _Comments:
    """Decides whether a line that begins with '#' is a comment, or a row whose token is a hashtag or '#'.

    In CoNLL-U every such line is a comment. In other files such a line is a comment if

    - its number of columns differs from the rows of tokens; or
    - the file has tabs, and the line has none; or
    - the file has spaces, the line is before the first token of its sentence, its first column is '#' alone, and the
      line has the form '# key = value' or does not end in a tag. Tags are O, ?, tags of spans such as B-PER and ?-PER
      (also with another mark), and the last columns of all rows so far.

    If every line of the file begins with '#', lines of that form, and lines that do not end in a tag, are comments.
    """

    def __init__(self, conllu: bool, mark: str) -> None:
        self.conllu, self.tabs, self.tags, self.marks = conllu, False, {'O'}, (MARK, mark)
        self.width: int | None = None

    def see(self, text: str, cells: list[str]) -> None:
        """Learns the number of columns, their separator and a tag from a row."""
        if text.startswith(('#', '-DOCSTART-')):
            return
        if self.width is None:
            self.width, self.tabs = len(cells), '\t' in text
        if len(self.tags) < KNOWN_TAGS:
            self.tags.add(cells[-1])

    def without(self, rows: list[Row]) -> list[Row]:
        """The rows of a sentence; comments and -DOCSTART- rows lose their cells."""
        checked, begun = [], False
        for row in rows:
            if row.cells and (row.text.startswith('-DOCSTART-') or self._is_comment(row, begun)):
                row = row._replace(cells=[])
            begun |= bool(row.cells)
            checked.append(row)
        return checked

    def _is_comment(self, row: Row, begun: bool) -> bool:
        cells = row.cells
        if not row.text.startswith('#'):
            return False
        unknown = any(is_open(opened(cells[-1:], mark)) for mark in self.marks)
        remark = cells[2:3] == ['='] or not (unknown or cells[-1] in self.tags or is_span_tag(cells[-1]))
        if self.width is None and not self.conllu:
            return len(cells) == 1 or remark
        if self.conllu or len(cells) != self.width:
            return True
        if self.tabs:
            return '\t' not in row.text
        return remark and not begun and cells[0] == '#' and len(cells) > 1
