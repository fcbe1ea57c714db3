"""Reads sentences to tag from text, column files and JSON lines, one after the other as they arrive."""

import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.formats import json_lines, json_records
from ms_crf.formats.alignment import tagged
from ms_crf.formats.document import Document, Report, find_tokens, nowhere
from ms_crf.formats.json_fields import flat, text_of
from ms_crf.formats.readers import (
    Row,
    blocks,
    byte_lines,
    cells_of,
    check_tags,
    columns_of,
    cut,
    decode,
    is_conllu,
    strings_of,
    tokens_and_tags,
    unreadable,
)
from ms_crf.text.partial import MARK, as_json
from ms_crf.text.splitting import AUTO, BLANKS, Deferred, Splitter

TEXT, CONLL, JSON = FORMATS = ('text', 'conll', 'json')
HTML = 'html'                             # is only written
_COLUMN_FILES = ('.tsv', '.conll', '.conllu', '.col', '.bio', '.iob', '.iob2', '.bioes', '.bmes')
_CHUNK = 1 << 16
_WORD, _CHARACTER = re.compile(f'[^{BLANKS}]+'), re.compile(f'[^{BLANKS}]')


class Item(NamedTuple):
    """A sentence of the input, with all that is needed to write it out again with its tags."""

    line: int                                 # the number of the line on which it begins
    text: str                                 # as it stands there, or the tokens joined by blanks
    tokens: list[str]
    starts: list[int]                         # where each token begins in the text
    gold: list[str] | None = None             # its tags in the input, if they were asked for
    rows: tuple[Row, ...] = ()                # its rows, if it is from a column file
    record: dict[str, Any] | None = None      # its object, if it is from JSON lines
    offset: int | None = None                 # of raw text: where `text` begins in all of it


def format_of(name: object) -> str:
    """The format of a file by the ending of its name; text for any other ending."""
    name = str(name).removesuffix('.gz')
    return JSON if name.endswith(('.jsonl', '.json')) else CONLL if name.endswith(_COLUMN_FILES) else TEXT


def _arriving(descriptor: int, name: str, raw: bool) -> Iterator[bytes | None]:
    """Lines from a descriptor as they come, each with its end; None whenever the next one is not there yet.

    Args:
        descriptor: of a file, a pipe or a device.
        name: of the input, for messages.
        raw: whether only line feeds end lines; otherwise see `cut`.
    """
    separate = _whole if raw else cut
    rest = []
    while True:
        try:
            waits = not select.select([descriptor], [], [], 0)[0]
        except OSError:            # not for pipes on Windows
            waits = False
        if waits:
            yield None
        try:
            data = os.read(descriptor, _CHUNK)
        except OSError as error:
            raise unreadable(name, error) from None
        if not data:
            break
        first, *others = data.split(b'\n')
        rest.append(first)
        for other in others:
            yield from separate(b''.join(rest) + b'\n')
            rest = [other]
    if any(rest):
        yield from separate(b''.join(rest))


def _whole(line: bytes) -> list[bytes]:
    return [line]


def numbered(lines: Iterable[bytes | None], name: str, strict: bool, report: Callable[[str], object],
             raw: bool = False) -> Iterator[tuple[int, str] | None]:
    """Decodes byte lines and numbers them: yields (line number, text).

    Args:
        lines: byte lines; a None among them, which stands for a pause, is yielded as it is.
        name: of the input, for messages.
        strict: whether a line that is not UTF-8 is an error; otherwise it is decoded with replacement characters.
        report: is called with a message about each line that is decoded so.
        raw: whether line ends and a mark of byte order stay in the text.
    """
    line_number = 0
    for line in lines:
        if line is None:
            yield None
            continue
        line_number += 1
        try:
            text = decode(name, line_number, line, raw=raw)
        except CorpusError as error:
            if strict:
                raise
            report(f'{error}; tagged with replacement characters')
            text = decode(name, line_number, line, 'replace', raw)
        yield line_number, text


def open_lines(name: str, raw: bool = False) -> Iterator[bytes | None]:
    """Byte lines of a file, a pipe or a device, or of standard input if the name is '-'.

    Where the next line has not arrived yet, None is yielded first.

    Args:
        name: of the input.
        raw: whether only line feeds end lines; otherwise see `cut`.
    """
    if name == '-':
        yield from _arriving(sys.stdin.fileno(), 'standard input', raw)
    elif os.path.isfile(name) or name.endswith('.gz'):
        yield from byte_lines(name, raw)
    else:
        try:
            descriptor = os.open(name, os.O_RDONLY)
        except OSError as error:
            raise unreadable(name, error) from None
        try:
            yield from _arriving(descriptor, name, raw)
        finally:
            os.close(descriptor)


def read(lines: Iterable[tuple[int, str] | None], name: str, kind: str, characters: bool = False,
         columns: tuple[int, ...] = (0,), splitter: str | Splitter = AUTO,
         report: Report = nowhere, mark: str = MARK) -> Iterator[Item | None]:
    """The items of an input.

    Args:
        lines: what `numbered` yields; None is yielded as it is.
        name: of the input, for messages; a name that ends in .conllu stands for CoNLL-U.
        kind: the format, 'text', 'conll' or 'json'.
        characters: whether each character of a text is a token; otherwise each word is one.
        columns: the index of the column that holds the token, and of the one that holds the gold tag if gold tags are
            wanted. For JSON lines only their number counts: with two of them, "tags" is read, or spans in a text.
        splitter: what finds sentences and tokens in a text with spans, or its name; each sentence becomes an item.
        report: is called with a `Remark` on each span that is not kept as it is.
        mark: of a column file: what stands in place of a tag that nobody has judged; '' for nothing.
    """
    if kind == CONLL:
        yield from _of_columns(blocks(lines, is_conllu(name), mark), name, columns_of(name, columns))
        return
    if kind == JSON and len(columns) == 1:
        for entry in json_lines.records(name, lines):
            yield None if entry is None else _of_json(name, *entry, characters)
        return
    if kind == JSON:
        yield from _with_gold(name, lines, Deferred(splitter) if isinstance(splitter, str) else splitter, report)
        return
    for line in lines:
        yield None if line is None else item_of_text(*line, characters)


def item_of_text(line_number: int, text: str, characters: bool) -> Item:
    """The item of a line of text: tabs, blanks and line ends separate its words, as they do in column files."""
    matches = [(match.group(), match.start()) for match in (_CHARACTER if characters else _WORD).finditer(text)]
    return Item(line_number, text, [token for token, _ in matches], [start for _, start in matches])


def _joined(line_number: int, tokens: list[str], **others: Any) -> Item:
    starts, offset = [], 0
    for token in tokens:
        starts.append(offset)
        offset += len(token) + 1
    return Item(line_number, ' '.join(tokens), tokens, starts, **others)


def _of_columns(sentences: Iterable[list[Row] | None], name: str, columns: tuple[int, ...]) -> Iterator[Item | None]:
    for rows in sentences:
        if rows is None:
            yield None
            continue
        cells = [cells_of(name, row, columns) for row in rows if row.cells]
        gold = [tag for _, tag in cells] if len(columns) > 1 else None
        yield _joined(rows[0].line_number, [cell[0] for cell in cells], gold=gold, rows=tuple(rows))


def _of_json(name: str, line_number: int, record: Any, characters: bool) -> Item:
    """The item of a record, None for a blank line: of its tokens, or of the words or characters of its text."""
    if record is None:
        return Item(line_number, '', [], [])
    record = json_lines.as_object(record)
    text = text_of(record)
    if text is not None and json_records.has_placed_tokens(record):
        places = json_records.places_of(Document(text, name, line_number), record['tokens'])
        return Item(line_number, text, [text[start:end] for start, end in places], [start for start, _ in places],
                    record=record)
    if 'tokens' in record:
        return _of_record(line_number, strings_of(name, line_number, record, 'tokens'), None, record)
    if text is not None:
        return item_of_text(line_number, text, characters)._replace(record=record)
    raise CorpusError(name, line_number, 'expected "tokens", a list of strings, or "text", a string, got neither')


def _of_record(line_number: int, tokens: list[str], gold: list[str] | None, record: dict[str, Any]) -> Item:
    return item_of_tokens(line_number, tokens, record.get('text'), gold=gold, record=record)


def item_of_tokens(line_number: int, tokens: list[str], text: object = None, **others: Any) -> Item:
    """The item of a list of tokens: in the text that was given with them, if that holds them one after the other, and
    otherwise joined by blanks."""
    if isinstance(text, str) and (starts := find_tokens(tokens, text)) is not None:
        return Item(line_number, text, tokens, starts, **others)
    return _joined(line_number, tokens, **others)


def _with_gold(name: str, lines: Iterable[tuple[int, str] | None], splitter: Splitter,
               report: Report) -> Iterator[Item | None]:
    for entry in json_lines.records(name, lines):
        if entry is None:
            yield None
            continue
        line_number, record = entry
        if record is None:
            yield Item(line_number, '', [], [], gold=[])
        elif json_records.has_spans(record):
            document = json_records.document_of(name, line_number, record, report)
            yield from items_of([document] if document else [], splitter, report)
        else:
            tokens, tags = tokens_and_tags(name, line_number, record)
            check_tags(name, line_number, tags)
            yield _of_record(line_number, tokens, tags, record)


def items_of(documents: Iterable[Document], splitter: Splitter, report: Report) -> Iterator[Item]:
    """An item for each sentence of annotated documents, with gold tags in BIO.

    Args:
        documents: texts with spans.
        splitter: finds sentences and tokens.
        report: is called with a `Remark` on each span that is not kept as it is.
    """
    for document in documents:
        for sentence in tagged(document, splitter, report):
            begin, end = sentence.places[0][0], sentence.places[-1][1]
            yield Item(sentence.line, document.text[begin:end], sentence.tokens,
                       [start - begin for start, _ in sentence.places], gold=sentence.tags,
                       record={**flat(document.record), 'tags': as_json(sentence.tags or [])})
