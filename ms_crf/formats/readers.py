"""Reads tagged sentences from files; messages about faults name file and line."""

import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.text.partial import MARK, check_tag, is_open, opened
from ms_crf.text.schemes import OPEN, is_span_tag

COLUMNS, CONLLU_COLUMNS = (0, -1), (1, 3)      # of token and tag where none are named; of CoNLL-U form and UPOS
KNOWN_TAGS = 1000          # a last column with more distinct values than these does not hold tags
MISC, NER = 9, 'NER'           # the last column of CoNLL-U, and its attribute in which tags of spans are
_HALF_OF_PAIR = re.compile('[\ud800-\udfff]')
_NO_WORD = re.compile(r'[0-9]+[-.][0-9]+')     # the number of a range of words, or of an empty node, of CoNLL-U


class Sentence(NamedTuple):
    """Tokens with their tags, and the line of the file on which it begins."""

    tokens: list[str]
    tags: list[str]
    line: int
    lines: tuple[int, ...] = ()      # of its tokens, where they do not follow each other line by line


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """(line number, text without its end) of a UTF-8 file, with or without BOM, also gzipped (.gz)."""
    for line_number, line in enumerate(byte_lines(path), 1):
        yield line_number, decode(path, line_number, line)


def byte_lines(path: PathLike, raw: bool = False) -> Iterator[bytes]:
    """The lines of a file, also gzipped (.gz); unless it is raw text, lone carriage returns end a line, see `cut`."""
    try:
        file = (gzip.open if str(path).endswith('.gz') else open)(path, 'rb')
    except ValueError:                           # a NUL, or half of a surrogate pair
        raise CorpusError(ascii(str(path)), None, 'expected the name of a file') from None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        with file:
            for line in file:
                yield from [line] if raw else cut(line)
    except (EOFError, zlib.error, OSError) as error:
        raise unreadable(path, error) from None


def check_readable(path: PathLike) -> None:
    """Raises CorpusError unless there is a file, a pipe or a device of this name; pipes are not opened."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISREG(mode):
            open(path, 'rb').close()
    except OSError as error:
        raise unreadable(path, error) from None


def cut(line: bytes) -> list[bytes]:
    """Cuts a line, which ends in a line feed or with the file, at lone carriage returns, which end a line as well.

    Other characters that Unicode counts as line ends are a part of the line.
    """
    if b'\r' not in line:
        return [line]
    text = line.rstrip(b'\r\n') if line.endswith(b'\n') else line[:-1] if line.endswith(b'\r') else line
    return [part + b'\n' for part in text.split(b'\r')] if b'\r' in text else [line]


def unreadable(path: PathLike, error: EOFError | zlib.error | OSError) -> CorpusError:
    """The CorpusError for what is raised by opening or reading a file."""
    if isinstance(error, FileNotFoundError):
        return CorpusError(path, None, 'no such file')
    if isinstance(error, NotADirectoryError):
        return CorpusError(path, None, f'no such file: {os.path.dirname(path)} is not a folder')
    if isinstance(error, IsADirectoryError):
        return CorpusError(path, None, 'expected a file, got a folder')
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return CorpusError(path, None, 'expected a gzip file, got a damaged one; decompress or fetch it again')
    return CorpusError(path, None, f'can not be read: {getattr(error, "strerror", error)}')


def decode(path: object, line_number: int, line: bytes, errors: str = 'strict', raw: bool = False) -> str:
    """Text of a line without its end; raises CorpusError if it is not UTF-8 and `errors` is 'strict'.

    Of raw text the end stays, and a mark of byte order at its beginning.
    """
    try:
        if raw:
            return line.decode('utf-8', errors)
        return line.decode('utf-8-sig' if line_number == 1 else 'utf-8', errors).rstrip('\r\n')
    except UnicodeDecodeError as error:
        raise CorpusError(path, line_number, f'expected UTF-8, got byte 0x{line[error.start]:02x} '
                                             f'at column {error.start + 1}') from None


def split(text: str) -> list[str]:
    """The columns of a line, separated by tabs if it has any, by blanks otherwise; blanks around a column are removed.

    Other white space is part of a token.
    """
    if '\t' in text:
        return [column.strip(' ') for column in text.split('\t')]
    return [column for column in text.split(' ') if column]


class Row(NamedTuple):
    """A line of a column file; it has no cells if it holds no token."""

    line_number: int
    text: str
    cells: list[str]


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


def read_columns(path: PathLike, columns: tuple[int, ...] = COLUMNS,
                 widths: list[int] | None = None, mark: str = MARK) -> Iterator[Sentence]:
    """The sentences of a column file: a row for each token, a blank line between sentences; see `blocks`.

    Args:
        path: the file.
        columns: indices of the columns of token and tag, from 0, or from -1 backwards; see `columns_of`.
        widths: gets the number of columns of each row.
        mark: as of `blocks`.
    """
    columns = columns_of(path, columns)
    for rows in blocks(numbered_lines(path), is_conllu(path), mark):
        words = [row for row in rows or () if row.cells]
        if words:
            if widths is not None:
                widths.extend(len(row.cells) for row in words)
            tokens, tags = map(list, zip(*(cells_of(path, row, columns) for row in words)))
            lines = tuple(row.line_number for row in words)
            yield Sentence(tokens, tags, lines[0], () if lines[-1] - lines[0] == len(lines) - 1 else lines)


def columns_of(path: PathLike, columns: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of the columns of token and tag, or of the token alone; CoNLL-U has a default of its own."""
    return CONLLU_COLUMNS[:len(columns)] if is_conllu(path) and columns == COLUMNS[:len(columns)] else columns


def attributes(misc: str) -> dict[str, str]:
    """The attributes in the column MISC of CoNLL-U."""
    pairs = (part.partition('=') for part in misc.split('|'))
    return {name: value for name, equals, value in pairs if equals}


def cells_of(path: object, row: Row, columns: tuple[int, ...], conllu: bool | None = None) -> list[str]:
    """The token and the tag of a row, or the token alone, by the indices of their columns.

    In CoNLL-U, which the name of a file says unless `conllu` does, the tag in the column MISC is its attribute NER, O
    where it has none.
    """
    cells = row.cells
    names = ('token', 'tag')[:len(columns)]
    indices = [column if column >= 0 else len(cells) + column for column in columns]
    if min(indices) < 0 or max(indices) >= len(cells) or len(set(indices)) < len(indices):
        raise CorpusError(path, row.line_number, f'expected column{"s" * (len(columns) > 1)} '
                                                 f'{" and ".join(map(str, columns))} to hold {" and ".join(names)}, '
                                                 f'separated by tabs or blanks, got {row.text!r}')
    values = [cells[index] for index in indices]
    if indices[1:] == [MISC] and (is_conllu(str(path)) if conllu is None else conllu):
        values[1] = attributes(values[1]).get(NER, 'O')
    if not all(values):
        raise CorpusError(path, row.line_number, f'expected a {" and a ".join(names)}, got an empty column in '
                                                 f'{row.text!r}')
    for tag in values[1:]:
        check_tag(path, row.line_number, tag)
    return values


def strings_of(path: object, line_number: int, record: Mapping[str, Any], name: str, or_null: bool = False) -> list:
    """A list of an object, checked to hold strings that are not empty, or null as well."""
    values = record.get(name)
    if isinstance(values, list) and all((isinstance(item, str) and item) or (or_null and item is None)
                                        for item in values):
        return values
    raise CorpusError(path, line_number, f'expected "{name}" to be a list of strings that are not empty, '
                                         f'got {json.dumps(values, ensure_ascii=False)[:40]}')


def half_of_pair(texts: Iterable[str]) -> str | None:
    """The first of some texts that UTF-8 can't hold, as half of a surrogate pair stands in it; None if all can be."""
    return next((text for text in texts if not text.isascii() and _HALF_OF_PAIR.search(text)), None)


def check_tags(path: object, line_number: int, tags: Iterable[str]) -> None:
    """Raises CorpusError if tags of JSON can't stand in tables and columns."""
    if (odd := half_of_pair(tags)) is not None:
        raise CorpusError(path, line_number, 'expected tags that UTF-8 can hold, got half of a pair of surrogates in '
                                             f'{odd!a}')


def tokens_and_tags(path: object, line_number: int, record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The lists "tokens" and "tags" of an object, checked; null as a tag is OPEN."""
    tokens = strings_of(path, line_number, record, 'tokens')
    tags = strings_of(path, line_number, record, 'tags', True)
    if len(tokens) != len(tags):
        raise CorpusError(path, line_number, f'expected a tag for each token, got {len(tokens)} tokens and '
                                             f'{len(tags)} tags')
    return tokens, [OPEN if tag is None else check_tag(path, line_number, tag) for tag in tags]


def is_json(path: PathLike) -> bool:
    return str(path).endswith(('.jsonl', '.json', '.jsonl.gz', '.json.gz'))


def is_conllu(path: PathLike) -> bool:
    return str(path).endswith(('.conllu', '.conllu.gz'))


def read_corpus(path: PathLike, columns: tuple[int, ...] = COLUMNS, splitter: Any = 'auto',
                report: Callable[[Any], object] | None = None, mark: str = MARK,
               widths: list[int] | None = None) -> list[Sentence]:
    """All tagged sentences of a corpus.

    What it is goes by its name: JSON if that ends in .jsonl or .json (or these with .gz), brat if it is that of a pair
    of .txt and .ann or of a folder of them, columns otherwise. Texts with spans become sentences with tags in BIO by
    the rules of `ms_crf.formats.alignment`. A file is read only once, so that it may be a pipe.

    Args:
        path: the file or folder.
        columns: indices of the columns of token and tag, see `read_columns`.
        splitter: what finds sentences and tokens in texts, or its name, see `ms_crf.text.splitting`.
        report: is called with a `Remark` on whatever of a text or its spans is not kept.
        mark: what stands in place of a tag that nobody has judged, see `ms_crf.text.partial`; '' for nothing. In the
            tags that are returned OPEN stands there.
        widths: as of `read_columns`.

    Raises:
        CorpusError: the file can't be read, has a fault, or holds no sentence.
    """
    from ms_crf.formats import alignment, brat, json_records  # here, as they read files by this module
    from ms_crf.formats.document import nowhere
    from ms_crf.text.splitting import Deferred
    reader = json_records.read if is_json(path) else brat.read if brat.is_brat(path) else None
    if reader is None:
        sentences = list(read_columns(path, columns, widths, mark))
    else:
        report = report or nowhere
        made = Deferred(splitter) if isinstance(splitter, str) else splitter
        sentences = list(alignment.corpus_of(reader(path, report), made, report))
    if not sentences:
        raise CorpusError(path, None, 'expected tagged sentences, got none')
    return [sentence._replace(tags=opened(sentence.tags, mark)) for sentence in sentences]
