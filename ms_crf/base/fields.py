"""What a record must hold and an option may be: the fields of a dataclass, checked by their types and metadata."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, get_args, get_origin

from ms_crf.base.errors import CorpusError, brief

T = TypeVar('T')
#: what a value must be, such as 'at least 1', and what it is
Fault = tuple[str, str]

_TYPES: dict[Any, str] = {
    str: 'text', int: 'a whole number', float: 'a number', bool: 'true or false', list: 'a list', dict: 'a JSON object',
    list[str]: 'a list of strings', list[int]: 'a list of whole numbers',
    dict[str, list[str]]: 'lists of strings by name'}


def checked(default: Any = MISSING, **limits: Any) -> Any:
    """A field of a dataclass whose values are checked.

    Args:
        default: where the field may be left away; with None it may also be null.
        limits: what a value must be beside of the field's type, and whatever else is to be known of the field:
            choices: what it may be, if that is a list.
            least, most: bounds of a number.
            must: a function that finds what else is wrong with it.
            advice: what to do about a record where it can't be.
    """
    return field(default=default, metadata=limits)


def fault_of(entry: Field, value: Any) -> Fault | None:
    """What is wrong with a value of a field, or None."""
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


def _is(kind: Any, value: Any) -> bool:
    if kind is Any:
        return True
    plain, inside = get_origin(kind) or kind, get_args(kind)
    if isinstance(value, bool) or not isinstance(value, (int, float) if plain is float else plain):
        return kind is bool and isinstance(value, bool)
    items: Any = value.values() if isinstance(value, dict) else value
    return not inside or all(_is(inside[-1], item) for item in items)


def distinct_strings(items: list[str]) -> Fault | None:
    """What is wrong with strings that are to have ids: none may be empty or there twice."""
    if '' in items:
        return 'strings that are not empty', "''"
    if len(set(items)) < len(items):
        return 'distinct', f'{brief(Counter(items).most_common(1)[0][0])} twice'
    return None


def load_record(kind: type[T], record: Any, closed: bool = False) -> T:
    """A record from a JSON object.

    Args:
        kind: a dataclass with a field for each name that counts.
        record: what JSON says.
        closed: whether there may be no other names.

    Raises:
        ValueError: it is no such record; the message has one line and names the first field that can't be.
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
    """What says that a field of a record is not as expected."""
    return ValueError(f'expected "{name}" to be {expected}, got {got}' + (f'; {advice}' if advice else ''))


@contextlib.contextmanager
def found_in(path: object) -> Iterator[None]:
    """Turns the ValueError of what a file holds into a `CorpusError` that names the file."""
    try:
        yield
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None
