"""Tagged sentences from column files and JSON lines; every fault is named with file and line."""

import gzip
import json
import zlib
from typing import NamedTuple

from ms_crf.errors import CorpusError


class Sentence(NamedTuple):
    """Tokens with their tags, and the line of the file on which it begins."""

    tokens: list
    tags: list
    line: int


def numbered_lines(path):
    """(line number, text without its end) of a UTF-8 file, with or without BOM, LF or CRLF, also gzipped (.gz)."""
    for number, line in enumerate(byte_lines(path), 1):
        yield number, decode(path, number, line)


def byte_lines(path):
    """The lines of a file, also gzipped (.gz); only a line feed ends one, not what else Unicode counts as one."""
    try:
        with (gzip.open if str(path).endswith('.gz') else open)(path, 'rb') as file:
            yield from file
    except FileNotFoundError:
        raise CorpusError(path, None, 'no such file') from None
    except IsADirectoryError:
        raise CorpusError(path, None, 'expected a file, got a folder') from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorpusError(path, None, 'expected a gzip file, got a damaged one; decompress or fetch it again') from None
    except OSError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None


def decode(path, number, line, errors='strict'):
    """Text of a line without its end; raises CorpusError if it is not UTF-8 and `errors` is 'strict'."""
    try:
        return line.decode('utf-8-sig' if number == 1 else 'utf-8', errors).rstrip('\r\n')
    except UnicodeDecodeError as error:
        raise CorpusError(path, number, f'expected UTF-8, got byte 0x{line[error.start]:02x} '
                                        f'at column {error.start + 1}') from None


def _split(text):
    """Columns, separated by tabs if there is one, by blanks otherwise; other white space is part of a token."""
    if '\t' in text:
        return text.split('\t')
    return [column for column in text.split(' ') if column]


class Row(NamedTuple):
    """A line of a column file; cells are empty where it holds no token."""

    number: int
    text: str
    cells: list


def blocks(lines):
    """Lists of rows, each with the blank line that ends it as its last row; the last may have none.

    -DOCSTART- rows hold no token, nor do comments: lines that begin with '#' and have not as many columns as
    the rows (with as many it is a row, its token a hashtag).

    Args:
        lines: (line number, text) one after the other; None, where more is not there yet, is handed on.
    """
    width, waiting, block = None, [], []
    for line in lines:
        if line is None:
            yield None
            continue
        number, text = line
        cells = _split(text) if text.strip(' \t') else []
        if cells and width is None and not text.startswith(('#', '-DOCSTART-')):
            width = len(cells)
        block.append(Row(number, text, cells))
        if not cells:
            waiting.append(block)
            block = []
            if width is not None:
                yield from (_without_comments(rows, width) for rows in waiting)
                waiting = []
    if block:
        waiting.append(block)
    yield from (_without_comments(rows, width or 0) for rows in waiting)


def _without_comments(rows, width):
    return [row._replace(cells=[]) if row.text.startswith('-DOCSTART-')
            or (row.text.startswith('#') and len(row.cells) != width) else row for row in rows]


def read_columns(path, columns=(0, -1)):
    """Sentences of a column file: a row a token, a blank line between sentences; see `blocks`.

    Args:
        path: the file.
        columns: which column holds the token and which the tag, from 0, or from -1 backwards.
    """
    for rows in blocks(numbered_lines(path)):
        pairs = [cells_of(path, row, columns) for row in rows if row.cells]
        if pairs:
            tokens, tags = map(list, zip(*pairs))
            yield Sentence(tokens, tags, next(row.number for row in rows if row.cells))


def cells_of(path, row, columns):
    """What stands in the columns of token and tag, or of the token alone, in their order."""
    cells = row.cells
    names = ('token', 'tag')[:len(columns)]
    places = [column if column >= 0 else len(cells) + column for column in columns]
    if min(places) < 0 or max(places) >= len(cells) or len(set(places)) < len(places):
        raise CorpusError(path, row.number, f'expected column{"s" * (len(columns) > 1)} '
                                            f'{" and ".join(map(str, columns))} to hold {" and ".join(names)}, '
                                            f'separated by tabs or blanks, got {row.text!r}')
    found = [cells[place] for place in places]
    if not all(found):
        raise CorpusError(path, row.number, f'expected a {" and a ".join(names)}, got an empty column in {row.text!r}')
    return found


def _strings(value):
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def read_json_lines(path):
    """Sentences of a file with {"tokens": [...], "tags": [...]} on each line; blank lines are left out."""
    for number, text in numbered_lines(path):
        if not text.strip():
            continue
        record = json_object(path, number, text)
        tokens, tags = tokens_and_tags(path, number, record)
        if tokens:
            yield Sentence(tokens, tags, number)


def json_object(path, number, text):
    """The object of a line."""
    try:
        record = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f'{error.msg} at column {error.colno}' if isinstance(error, ValueError) else 'one nested too deeply'
        raise CorpusError(path, number, f'expected a JSON object, got {where}') from None
    if not isinstance(record, dict):
        raise CorpusError(path, number, f'expected a JSON object, got {text[:40]!r}')
    return record


def tokens_and_tags(path, number, record):
    """What stands under "tokens" and "tags" of an object."""
    for name in ('tokens', 'tags'):
        if not _strings(record.get(name)):
            raise CorpusError(path, number, f'expected "{name}" to be a list of strings that are not empty, '
                                            f'got {json.dumps(record.get(name), ensure_ascii=False)[:40]}')
    tokens, tags = record['tokens'], record['tags']
    if len(tokens) != len(tags):
        raise CorpusError(path, number, f'expected a tag for each token, got {len(tokens)} tokens and '
                                        f'{len(tags)} tags')
    return tokens, tags


def is_json(path):
    return str(path).endswith(('.jsonl', '.json', '.jsonl.gz', '.json.gz'))


def read_corpus(path, columns=(0, -1)):
    """All sentences of a file: JSON lines if its name ends in .jsonl or .json (or these with .gz), columns otherwise.

    Raises:
        CorpusError: at the first fault, or if there is no sentence.
    """
    sentences = list(read_json_lines(path) if is_json(path) else read_columns(path, columns))
    if not sentences:
        raise CorpusError(path, None, 'expected tagged sentences, got none')
    return sentences
