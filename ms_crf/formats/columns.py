"""Reads and writes columns: a token and its tag a row, or the four columns of CoNLL-2003."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.formats.document import Document, Lines, Look, Reading, Remark, Tagged, Target
from ms_crf.formats.lines import half_of_pair, numbered_lines
from ms_crf.text.partial import MARK, check_tag, is_open, opened
from ms_crf.text.schemes import PLAIN, is_span_tag
from ms_crf.text.sentence import Row, Sentence

KNOWN_TAGS = 1000          # a last column with more distinct values than these does not hold tags
DOCSTART = '-DOCSTART-'
WIDTH_2003 = 4                 # token, part of speech, chunk, name
EMPTY = '_'
FILLERS = (EMPTY, '-X-')       # which stand where there is nothing to say
MISC, NER = 9, 'NER'           # the last column of CoNLL-U, and its attribute in which tags of spans are
_NO_WORD = re.compile(r'[0-9]+[-.][0-9]+')     # the number of a range of words, or of an empty node, of CoNLL-U
_NAMES = {'\t': 'a tab', '\r': 'a line end', '\n': 'a line end', ' ': 'a blank'}


# Reading

def sentences(lines: Lines, name: object, reading: Reading, conllu: bool = False,
              width: int | None = None) -> Iterator[Sentence | None]:
    """The sentences of rows, with all their rows; lines without any token in them are a sentence without tokens.

    Args:
        lines: (line number, text) one after the other; a None among them is yielded as it is.
        name: of the file, for messages.
        reading: the columns of the token and of the tag, or of the token alone, and the mark of unknown tags.
        conllu: whether the file is in the format CoNLL-U.
        width: the number of columns that each row must have.
    """
    for rows in blocks(lines, conllu, reading.mark):
        if rows is None:
            yield None
            continue
        words = [row for row in rows if row.cells]
        odd = next((row for row in words if width is not None and len(row.cells) != width), None)
        if odd is not None:
            raise CorpusError(name, odd.line_number, f'expected {width} columns, as CoNLL-2003 has them, got '
                                                     f'{odd.text!r}')
        cells = [cells_of(name, row, reading.columns, conllu) for row in words]
        numbers = [row.line_number for row in words]
        # Most rows follow each other line by line; a range holds that in less memory.
        follow = bool(words) and numbers[-1] - numbers[0] == len(numbers) - 1
        yield Sentence([token for token, *_ in cells], [tag for _, tag in cells] if len(reading.columns) > 1 else None,
                       line=rows[0].line_number, rows=tuple(rows),
                       lines=range(numbers[0], numbers[-1] + 1) if follow else tuple(numbers))


def attributes(misc: str) -> dict[str, str]:
    """The attributes in the column MISC of CoNLL-U."""
    pairs = (part.partition('=') for part in misc.split('|'))
    return {name: value for name, equals, value in pairs if equals}


def cells_of(path: object, row: Row, columns: Sequence[int], conllu: bool = False) -> list[str]:
    """The token and the tag of a row, or the token alone, by the indices of their columns.

    In CoNLL-U the tag in the column MISC is its attribute NER, O where it has none.
    """
    cells = row.cells
    names = ('token', 'tag')[:len(columns)]
    indices = [column if column >= 0 else len(cells) + column for column in columns]
    if min(indices) < 0 or max(indices) >= len(cells) or len(set(indices)) < len(indices):
        raise CorpusError(path, row.line_number, f'expected column{"s" * (len(columns) > 1)} '
                                                 f'{" and ".join(map(str, columns))} to hold {" and ".join(names)}, '
                                                 f'separated by tabs or blanks, got {row.text!r}')
    values = [cells[index] for index in indices]
    if conllu and indices[1:] == [MISC]:
        values[1] = attributes(values[1]).get(NER, 'O')
    if not all(values):
        raise CorpusError(path, row.line_number, f'expected a {" and a ".join(names)}, got an empty column in '
                                                 f'{row.text!r}')
    for tag in values[1:]:
        check_tag(path, row.line_number, tag)
    return values


def read(path: PathLike, reading: Reading, width: int | None = None) -> Iterator[Document]:
    """The documents of a file: those that -DOCSTART- rows begin, or each sentence by itself where there are none.

    Args:
        path: of the file.
        reading: the columns; its `report` is called with a `Remark` on columns beside those of token and tag.
        width: the number of columns that each row must have.
    """
    waiting: list[Sentence] = []
    begun = False
    for sentence in sentences(numbered_lines(path), path, reading, width=width):
        for row in sentence.rows if sentence else ():
            if row.text.startswith(DOCSTART):
                if waiting:
                    yield document_of(path, waiting, True)
                waiting, begun = [], True
        if sentence and sentence.tokens:
            sentence.line = sentence.lines[0]
            if has_more(sentence, reading.columns, FILLERS):
                reading.report(Remark('columns', str(path), sentence.line, sentence.text))
            sentence.rows = ()
            if begun:
                waiting.append(sentence)
            else:
                yield document_of(path, [sentence], False)
    if waiting:
        yield document_of(path, waiting, True)


def has_more(sentence: Sentence, columns: Sequence[int], fillers: Sequence[str]) -> bool:
    """Whether the rows of a sentence hold anything but fillers in other columns than some."""
    return any(cell not in fillers for row in sentence.rows for index, cell in enumerate(row.cells)
               if index not in columns and index - len(row.cells) not in columns)


def document_of(path: PathLike, sentences: Sequence[Sentence], bordered: bool) -> Document:
    """A document of sentences: its text is theirs, joined by line ends."""
    placed, offset = [], 0
    for sentence in sentences:
        placed.append(sentence.moved(offset) if offset else sentence)
        offset += len(sentence.text) + 1
    return Document('\n'.join(sentence.text for sentence in sentences), str(path), sentences[0].line, sentences=placed,
                    bordered=bordered, has_text=False)


# Writing

def write(documents: Iterable[Tagged], target: Target) -> Iterator[str]:
    """Rows of token, tab, tag; a blank line after each sentence.

    Raises:
        CorpusError: a token or tag can't stand in a column.
    """
    for document, sentences in documents:
        for sentence in sentences:
            rows = list(zip(sentence.tokens, sentence.tags))
            for row in rows:
                check_cells(document, sentence, row)
            yield ''.join(f'{token}\t{tag}\n' for token, tag in rows) + '\n'


def write_2003(documents: Iterable[Tagged], target: Target) -> Iterator[str]:
    """Rows of four columns separated by blanks, a -DOCSTART- row before each document; plain tags are in the second."""
    first = True
    for document, sentences in documents:
        if first or document.bordered:
            yield f'{DOCSTART} -X- -X- O\n\n'
        first = False
        for sentence in sentences:
            lines = []
            for token, tag in zip(sentence.tokens, sentence.tags):
                check_cells(document, sentence, (token, tag), '\t\r\n ')
                others = f'{tag} {EMPTY} O' if target.scheme == PLAIN else f'{EMPTY} {EMPTY} {tag}'
                lines.append(f'{token} {others}\n')
            yield ''.join(lines) + '\n'


def line(sentence: Sentence, look: Look) -> str:
    """The rows of a tagged sentence with the tag as a further column; a row for each token where there were no rows."""
    if sentence.raw and not sentence.tokens:
        return ''                                # blanks between paragraphs
    columns = [sentence.tags]
    if look.confidence and sentence.confidences is not None:
        columns.append([f'{confidence:.4f}' for confidence in sentence.confidences])
    if not sentence.rows:
        return ''.join('\t'.join(row) + '\n' for row in zip(sentence.tokens, *columns)) + '\n'

    def extended(row: Row, index: int) -> str:
        tabs = '\t' in row.text
        # A row that is separated by blanks stays so: with a tab in it, these would be part of its columns.
        return (' ' if not tabs and len(row.cells) > 1 else '\t').join(
            [row.text if tabs else row.text.strip(' '), *(column[index] for column in columns)])
    return ''.join(f'{text}\n' for text in rewritten(sentence, extended))


def rewritten(sentence: Sentence, shown: Callable[[Row, int], str]) -> list[str]:
    """The rows of a sentence, those of its tokens as a function of the row and the token's index shows them."""
    indices = count()
    return [shown(row, next(indices)) if row.cells else row.text for row in sentence.rows]


def for_columns(sentences: Iterable[Sentence | None], name: str) -> Iterator[Sentence | None]:
    """Passes sentences on, None among them; raises CorpusError at the first token that a column can't hold."""
    for sentence in sentences:
        for token in sentence.tokens if sentence is not None else ():
            if sentence is not None and not {'\t', '\r', '\n'}.isdisjoint(token):
                raise CorpusError(name, sentence.line, f'expected tokens that columns can hold, got a '
                                                       f'{"tab" if chr(9) in token else "line end"} in {brief(token)}; '
                                                       'JSON lines can hold it')
        yield sentence


def check_cells(document: Document, sentence: Sentence, cells: Sequence[str], separators: str = '\t\r\n') -> None:
    """Raises CorpusError if a column can't hold one of some values."""
    for cell in cells:
        reasons = [*((character in cell, _NAMES[character]) for character in separators), (not cell, 'nothing'),
                   (cell != cell.strip(' '), 'a blank at its end'), (cell.startswith('\ufeff'), 'a byte order mark'),
                   (cell.startswith(DOCSTART), 'the sign of a border between documents'),
                   (half_of_pair([cell]) is not None, 'half of a surrogate pair')]
        why = next((reason for holds, reason in reasons if holds), None)
        if why is not None:
            raise CorpusError(document.home, sentence.line, 'expected tokens and tags that columns can hold, got '
                                                            f'{why} in {brief(cell)}; JSON lines can hold it')


# Rows

def split(text: str) -> list[str]:
    """The columns of a line, separated by tabs if it has any, by blanks otherwise; blanks around a column are removed.

    Other white space is part of a token.
    """
    if '\t' in text:
        return [column.strip(' ') for column in text.split('\t')]
    return [column for column in text.split(' ') if column]


def blocks(lines: Iterable[tuple[int, str] | None], conllu: bool = False,
           mark: str = MARK) -> Iterator[list[Row] | None]:
    """Groups lines by sentence: yields lists of rows, of which the last is the blank line that ends the sentence.

    -DOCSTART- rows and comments hold no token, and neither do the ranges of words (1-2) and empty nodes (1.1) of
    CoNLL-U. At the end of the file the blank line may be missing.

    Args:
        lines: (line number, text) one after the other; a None among them, which stands for a pause in the input, is
            yielded as it is.
        conllu: whether the file is in the format CoNLL-U.
        mark: what stands in place of a tag that nobody has judged; '' for nothing.
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
    """Decides whether a line that begins with '#' is a comment or a row whose token is a hashtag or '#'.

    In CoNLL-U every such line is a comment. In other files it is a comment if

    - it has another number of columns than the rows;
    - columns are separated by tabs, and it has none;
    - columns are separated by blanks, it stands before the first row of a sentence, its first column is '#' alone, and
      it has the form '# key = value' or does not end in a tag. Tags are O, ?, tags of spans such as B-PER and ?-PER,
      also with another mark in place of ?, and what the rows of this and of earlier sentences end in.

    In a file in which all lines begin with '#', those are comments that have this form or do not end in a tag.
    """

    def __init__(self, conllu: bool, mark: str) -> None:
        self.conllu, self.tabs, self.tags, self.marks = conllu, False, {'O'}, (MARK, mark)
        self.width: int | None = None

    def see(self, text: str, cells: list[str]) -> None:
        """Learns from a row how many columns there are, what separates them, and its tag."""
        if text.startswith(('#', '-DOCSTART-')):
            return
        if self.width is None:
            self.width, self.tabs = len(cells), '\t' in text
        if len(self.tags) < KNOWN_TAGS:
            self.tags.add(cells[-1])

    def without(self, rows: list[Row]) -> list[Row]:
        """The rows of a sentence, without cells where a row holds no token."""
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
