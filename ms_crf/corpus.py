"""Tagged sentences from column files and JSON lines; every fault is named with file and line."""

import gzip
import json
import zlib
from typing import NamedTuple


class CorpusError(ValueError):
    """A fault in a file, in one line: where, what was expected, what came."""

    def __init__(self, path, line, message):
        super().__init__(f'{path}:{line}: {message}' if line else f'{path}: {message}')


class Sentence(NamedTuple):
    """Tokens with their tags, and the line of the file on which it begins."""

    tokens: list
    tags: list
    line: int


def numbered_lines(path):
    """(line number, text without its end) of a UTF-8 file, with or without BOM, LF or CRLF, also gzipped (.gz)."""
    try:
        with (gzip.open if str(path).endswith('.gz') else open)(path, 'rb') as file:
            # By bytes: only a line feed ends a line, not what else Unicode counts as one.
            for number, line in enumerate(file, 1):
                yield number, _decode(path, number, line)
    except FileNotFoundError:
        raise CorpusError(path, None, 'no such file') from None
    except IsADirectoryError:
        raise CorpusError(path, None, 'expected a file, got a folder') from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorpusError(path, None, 'expected a gzip file, got a damaged one; decompress or fetch it again') from None
    except OSError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None


def _decode(path, number, line):
    try:
        return line.decode('utf-8-sig' if number == 1 else 'utf-8').rstrip('\r\n')
    except UnicodeDecodeError as error:
        raise CorpusError(path, number, f'expected UTF-8, got byte 0x{line[error.start]:02x} '
                                        f'at column {error.start + 1}') from None


def _split(text):
    """Columns, separated by tabs if there is one, by blanks otherwise; other white space is part of a token."""
    if '\t' in text:
        return text.split('\t')
    return [column for column in text.split(' ') if column]


def read_columns(path, columns=(0, -1)):
    """Sentences of a column file: a row a token, a blank line between sentences.

    -DOCSTART- rows are left out, and comments: lines that begin with '#' and have not as many columns as
    the rows (with as many it is a row, its token a hashtag).

    Args:
        path: the file.
        columns: which column holds the token and which the tag, from 0, or from -1 backwards.
    """
    rows = [(number, text, _split(text) if text.strip(' \t') else []) for number, text in numbered_lines(path)]
    width = next((len(cells) for _, text, cells in rows if cells and not text.startswith(('#', '-DOCSTART-'))), 0)
    tokens, tags, first = [], [], 0
    for number, text, cells in [*rows, (0, '', [])]:
        if not cells:
            if tokens:
                yield Sentence(tokens, tags, first)
            tokens, tags = [], []
            continue
        if text.startswith('-DOCSTART-') or (text.startswith('#') and len(cells) != width):
            continue
        places = [column if column >= 0 else len(cells) + column for column in columns]
        if min(places) < 0 or max(places) >= len(cells) or places[0] == places[1]:
            raise CorpusError(path, number, f'expected columns {columns[0]} and {columns[1]} to hold token and tag, '
                                            f'separated by tabs or blanks, got {text!r}')
        token, tag = cells[places[0]], cells[places[1]]
        if not token or not tag:
            raise CorpusError(path, number, f'expected a token and a tag, got an empty column in {text!r}')
        first = first if tokens else number
        tokens.append(token)
        tags.append(tag)


def _strings(value):
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def read_json_lines(path):
    """Sentences of a file with {"tokens": [...], "tags": [...]} on each line; blank lines are left out."""
    for number, text in numbered_lines(path):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise CorpusError(path, number, f'expected a JSON object, got {error.msg} '
                                            f'at column {error.colno}') from None
        if not isinstance(record, dict):
            raise CorpusError(path, number, f'expected a JSON object, got {text[:40]!r}')
        for name in ('tokens', 'tags'):
            if not _strings(record.get(name)):
                raise CorpusError(path, number, f'expected "{name}" to be a list of strings that are not empty, '
                                                f'got {json.dumps(record.get(name), ensure_ascii=False)[:40]}')
        tokens, tags = record['tokens'], record['tags']
        if len(tokens) != len(tags):
            raise CorpusError(path, number, f'expected a tag for each token, got {len(tokens)} tokens and '
                                            f'{len(tags)} tags')
        if tokens:
            yield Sentence(tokens, tags, number)


def read_corpus(path, columns=(0, -1)):
    """All sentences of a file: JSON lines if its name ends in .jsonl or .json (or these with .gz), columns otherwise.

    Raises:
        CorpusError: at the first fault, or if there is no sentence.
    """
    is_json = str(path).endswith(('.jsonl', '.json', '.jsonl.gz', '.json.gz'))
    sentences = list(read_json_lines(path) if is_json else read_columns(path, columns))
    if not sentences:
        raise CorpusError(path, None, 'expected tagged sentences, got none')
    return sentences
