"""Reads the records of JSON: objects, or arrays of a text and its annotations, one a line or in arrays of them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.text.splitting import BLANKS

Lines = Iterable[tuple[int, str] | None]


def records(path: object, lines: Lines) -> Iterator[tuple[int, Any] | None]:
    """(line, value) of each record, None for a blank line's value; a None among the lines is passed on."""
    record, rest = 0, iter(lines)
    for line in rest:
        if line is None:
            yield None
            continue
        number, text = line
        if not text.strip(BLANKS):
            yield number, None
            continue
        array = text.lstrip(BLANKS).startswith('[')
        value = _array_on(text) if array else json_object(path, number, text)
        if value is None:
            following = [text, *(other[1] for other in rest if other is not None)]
            yield from _Values(path, '\n'.join(following), number, record)
            return
        if array and not is_pair(value):
            raise CorpusError(path, number, f'expected a JSON object, got {text[:40]!r}')
        record += 1
        yield number, value


def _array_on(text: str) -> list[Any] | None:
    """The array that a line holds by itself; None if it is one of records, does not end there, or has a fault."""
    if _opens_a_list(text, text.index('[')):
        return None
    try:
        return json_of(text, None)
    except JSONFault:
        return None


def _opens_a_list(text: str, at: int) -> bool:
    """Whether the array that begins at a place of a text is one of records, and not a record itself."""
    inner = text[at + 1:at + 1000].lstrip(BLANKS)[:1]
    return inner in ('{', '[', ']')


class RecordLine(int):
    """The number of a line of a file that holds an array, which is shown with the number of a record, from 1.

    Args:
        line: on which the record begins; an array may be one long line.
        record: its number in the file.
    """

    def __new__(cls, line: int, record: int) -> 'RecordLine':
        made = super().__new__(cls, line)
        made.record = record
        return made

    record: int

    def __reduce__(self) -> tuple[type, tuple[int, int]]:
        return RecordLine, (int(self), self.record)

    def __str__(self) -> str:
        return f'{int(self)}, record {self.record}'

    def __format__(self, form: str) -> str:
        return format(int(self), form) if form else str(self)


class _Values:
    """The records of a text that begins with an array: its items, and what comes after it.

    Args:
        path: of the file, for messages.
        text: all that is left of it.
        line: on which the text begins.
        record: how many records come before it.
    """


    def __init__(self, path: object, text: str, line: int, record: int) -> None:
        self.path, self.text, self.line, self.at, self.counted, self.record = path, text, line, 0, 0, record
        self.decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        while self._skip():
            if self.text[self.at] == '[' and _opens_a_list(self.text, self.at):
                self.at += 1
                yield from self._items()
            else:
                yield self._value()

    def _items(self) -> Iterator[tuple[int, Any]]:
        """The items of an array after its bracket."""
        if self._take(']'):
            return
        while True:
            self._skip()
            yield self._value()
            if self._take(']'):
                return
            if not self._take(','):
                raise self._fault('expected a comma or ] after a record')

    def _take(self, character: str) -> bool:
        """Goes on after a character if it comes next."""
        comes = self._skip() and self.text[self.at] == character
        self.at += comes
        return comes

    def _skip(self) -> bool:
        while self.at < len(self.text) and self.text[self.at] in BLANKS:
            self.at += 1
        return self.at < len(self.text)

    def _line(self) -> int:
        self.line += self.text.count('\n', self.counted, self.at)
        self.counted = self.at
        return self.line

    def _fault(self, expected: str) -> CorpusError:
        line = RecordLine(self._line(), self.record)
        return CorpusError(self.path, line, f'{expected}, got {self.text[self.at:self.at + 40]!r}')

    def _value(self) -> tuple[int, Any]:
        self.record += 1
        line, begin = RecordLine(self._line(), self.record), self.at
        try:
            _, self.at = self.decoder.raw_decode(self.text, begin)
            value = json_of(self.text[begin:self.at], None)
        except RecursionError:
            raise CorpusError(self.path, line, 'expected a JSON object: it is nested too deeply') from None
        except json.JSONDecodeError as error:
            column = error.pos - self.text.rfind('\n', 0, error.pos)
            where = line + self.text.count('\n', begin, error.pos)
            raise CorpusError(self.path, RecordLine(where, self.record),
                              f'expected a JSON object: {error.msg} at column {column}') from None
        except JSONFault as error:
            where = RecordLine(line + (error.line or 1) - 1, self.record)
            raise CorpusError(self.path, where, f'expected a JSON object: {error}') from None
        except ValueError as error:              # a number of thousands of digits
            raise CorpusError(self.path, line, f'expected a JSON object: {str(error).partition(";")[0]}') from None
        if not isinstance(value, dict) and not is_pair(value):
            raise CorpusError(self.path, line, f'expected a JSON object, got {self.text[begin:self.at][:40]!r}')
        return line, value


def is_pair(value: Any) -> bool:
    """Whether a value is [text, annotations], as spaCy's training data had it."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def as_object(record: Any) -> dict[str, Any]:
    """A record as an object, also if it is [text, annotations]."""
    return {**record[1], 'text': record[0]} if is_pair(record) else record


def json_object(path: object, line_number: int, text: str) -> dict[str, Any]:
    """Parses the JSON object on a line."""
    try:
        record = json_of(text, None)
    except JSONFault as error:
        raise CorpusError(path, line_number, f'expected a JSON object: {error}') from None
    if not isinstance(record, dict):
        raise CorpusError(path, line_number, f'expected a JSON object, got {text[:40]!r}')
    return record
