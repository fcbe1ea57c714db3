"""Validation of records: JSON from untrusted files, and dataclass fields with types and limits."""

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, Field, field, fields
from typing import Any, NoReturn, TypeVar, get_args, get_origin

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike

LARGEST_JSON = 1 << 30     # bytes
DEEPEST_JSON = 20          # levels of nesting; records have three or four
_TOO_DEEP = 'it is nested too deeply'

T = TypeVar('T')
#: (expected, found), such as ('at least 1', '0')
Fault = tuple[str, str]

_TYPES: dict[Any, str] = {
    str: 'text', int: 'a whole number', float: 'a number', bool: 'true or false', list: 'a list', dict: 'a JSON object',
    list[str]: 'a list of strings', list[int]: 'a list of whole numbers',
    dict[str, list[str]]: 'lists of strings by name'}


def checked(default: Any = MISSING, **limits: Any) -> Any:
    """Returns a dataclass field whose values are checked against its type and some limits.

    Args:
        default: default value, if the field may be omitted; with None the field may also be null.
        limits: limits in addition to the field's type, and other metadata:
            choices: the allowed values, if there is a fixed list.
            least, most: bounds of a number, inclusive.
            must: a function that returns a `Fault` for other invalid values, or None.
            advice: end of the message about an invalid value, such as 'train again'.
    """
    return field(default=default, metadata=limits)


def fault_of(entry: Field, value: object) -> Fault | None:
    """Returns the `Fault` of a value of a field, or None if the value is valid."""
    if value is None and entry.default is None:
        return None
    choices, least, most, must = map(entry.metadata.get, ('choices', 'least', 'most', 'must'))
    right = _is(entry.type, value)
    if choices and not (right and value in choices):
        return f'one of {", ".join(choices)}' if len(choices) > 1 else repr(choices[0]), brief(value)
    if not right:
        return _TYPES[entry.type], brief(value)
    if least is not None and not value >= least:
        return f'at least {least}', brief(value)
    if most is not None and not value <= most:
        return f'at most {most}', brief(value)
    return must(value) if must else None


def _is(kind: Any, value: object) -> bool:
    if kind is Any:
        return True
    plain, inside = get_origin(kind) or kind, get_args(kind)
    if isinstance(value, bool) or not isinstance(value, (int, float) if plain is float else plain):
        return kind is bool and isinstance(value, bool)
    items: Any = value.values() if isinstance(value, dict) else value
    return not inside or all(_is(inside[-1], item) for item in items)


def distinct_strings(items: list[str]) -> Fault | None:
    """Returns the `Fault` of a list of names, which must be distinct and not empty; None if the list is valid."""
    if '' in items:
        return 'strings that are not empty', "''"
    if len(set(items)) < len(items):
        return 'distinct', f'{brief(Counter(items).most_common(1)[0][0])} twice'
    return None


def load_record(kind: type[T], record: object, closed: bool = False) -> T:
    """Returns a checked dataclass with the values of a JSON object.

    Args:
        kind: a dataclass with a field for each key that is used.
        record: the parsed JSON.
        closed: whether other keys are an error instead of being ignored.

    Raises:
        ValueError: the record is invalid; the message has one line and names the first invalid field.
    """
    if not isinstance(record, dict):
        raise ValueError(f'expected a JSON object, got {type(record).__name__}')
    entries: dict[str, Field] = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    needed = {name for name, entry in entries.items() if entry.default is MISSING}
    if closed and not needed <= record.keys() <= entries.keys():
        raise ValueError(f'expected the keys {", ".join(entries)}, got {brief(list(record))}')
    for name, entry in entries.items():
        if name in record:
            if fault := fault_of(entry, record[name]):
                raise wrong(name, *fault, entry.metadata.get('advice'))
        elif entry.default is MISSING:
            expected, _ = fault_of(entry, None) or ('there', '')
            raise wrong(name, expected, 'none', entry.metadata.get('advice'))
    return kind(**{name: record[name] for name in entries if name in record})


def wrong(name: str, expected: str, got: str, advice: str | None = None) -> ValueError:
    """Returns the error for an invalid field of a record."""
    return ValueError(f'expected "{name}" to be {expected}, got {got}' + (f'; {advice}' if advice else ''))


@contextlib.contextmanager
def errors_in(path: object) -> Iterator[None]:
    """Turns a ValueError within the block into a `CorpusError` that names the file."""
    try:
        yield
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None


def read_whole(path: PathLike, missing: str) -> bytes:
    """Returns the bytes of a JSON file; raises CorpusError, with the message `missing` if the file does not exist."""
    try:
        if os.stat(path).st_size > LARGEST_JSON:
            raise CorpusError(path, None, f'expected at most {LARGEST_JSON:,} bytes of JSON, got more')
        with open(path, 'rb') as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(path, None, missing) from None
    except OSError as error:
        raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None


def read_json(path: PathLike, maker: str, missing: str = 'no such file') -> Any:
    """Returns the parsed contents of a JSON file; for arguments and errors see `read_whole` and `parse_json`."""
    return parse_json(path, read_whole(path, missing), maker)


def parse_json(path: PathLike, data: bytes, maker: str) -> Any:
    """Returns parsed JSON.

    Args:
        path: path of the file, for messages.
        data: the bytes of the file, or of one line.
        maker: name of the program that writes such files, for messages.

    Raises:
        CorpusError: `json_of` rejects the JSON.
    """
    try:
        return json_of(data)
    except JSONFault as error:
        line = f' of line {error.line}' if (error.line or 1) > 1 else ''
        raise CorpusError(path, None, f'expected JSON as {maker} writes it: {error}{line}') from None


class JSONFault(ValueError):
    """The reason why JSON is invalid or rejected; `line` is the line number, or None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def json_of(text: str | bytes, deepest: int | None = DEEPEST_JSON) -> Any:
    """Returns parsed JSON.

    Args:
        text: the JSON as a string, or as bytes in UTF-8.
        deepest: limit of nested levels; None for the limit of Python's parser.

    Raises:
        JSONFault: the text is not JSON; an object has the same key twice; a number is not finite or has thousands of
            digits; or the nesting is too deep.
    """
    try:
        text = text if isinstance(text, str) else text.decode('utf-8')
        record = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise JSONFault(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise JSONFault(f'{error.msg} at column {error.colno}', error.lineno) from None
    except UnicodeDecodeError as error:
        raise JSONFault(f'expected UTF-8, got byte {error.object[error.start]:#04x}') from None
    except JSONFault:
        raise
    except ValueError as error:                  # from Python, with advice to programmers after a semicolon
        raise JSONFault(str(error).partition(';')[0]) from None
    level = [record]
    for _ in range(0 if deepest is None else deepest + 1):
        level = [part for item in level if isinstance(item, (dict, list))
                 for part in (item.values() if isinstance(item, dict) else item)]
    if level and deepest is not None:
        raise JSONFault(_TOO_DEEP)
    return record


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        (twice, _), = Counter(name for name, _ in pairs).most_common(1)
        raise JSONFault(f'{brief(twice)} appears twice, expected it once')
    return record


def _no_number(word: str) -> NoReturn:
    raise JSONFault(f'{word} is not a finite number')


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JSONFault(f'{text[:20]} is too large for a number')
    return value
