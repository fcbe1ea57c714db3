"""Arguments of functions that commands call: types, bounds, choices, and which arguments have no effect together.

Each function has a dataclass of its arguments, a subclass of `Arguments`. The function checks its values by it, and the
command makes its options of it, so that a bound, a default and a help text stand in one place.
"""

import errno
import os
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import PurePath
from typing import Any, TypeVar

from ms_crf.base.errors import OptionError, argument, brief, meant
from ms_crf.base.fields import checked, fault_of

FILE, DIR = 'FILE', 'DIR'      # what stands for the value of an argument that is a path
UNLESS_0 = 'unless 0'
T = TypeVar('T', bound='Arguments')


def option(default: Any, group: str, text: str, metavar: str | tuple[str, ...] | None = None,
           choices: Sequence[str] | None = None, least: float | None = None, most: float | None = None,
           needs: Mapping[Any, Any] | None = None, **others: Any) -> Any:
    """A field of `Arguments`.

    Args:
        default: None where it follows from others.
        group: of options, under which help shows it; '' for none.
        text: of help; `argument` marks the names of other arguments in it.
        metavar: what stands for the value there; FILE and DIR are paths, and are checked as such.
        choices: what the value may be, if that is a list.
        least, most: bounds of a number.
        needs: without what it has no effect: dict of other arguments to the values of which they must have one; to True
            or False if they must have any or none; to UNLESS_0 if they must not be 0 where they count.
        others: what only the command needs:
            names: of the option, if it is not called like the argument.
            short: a second name of the option, such as '-n'.
            positional: whether it is no option.
            required: whether it must be there.
            several: whether it takes a list, or how many values it takes.
            negatable: whether the option can be negated; by default every bool that is not False by default.
            may_be_empty: whether a path may be '', by default only if that is its default.
    """
    return checked(default, choices=choices, least=least, most=most, group=group, text=text, metavar=metavar,
                   needs=needs or {}, **others)


class Arguments:
    """The arguments of a function, to be subclassed by dataclasses of fields that `option` makes."""

    @classmethod
    def given(cls: type[T], values: Mapping[str, Any]) -> T:
        """The arguments among the local variables of a function, checked.

        Args:
            values: `locals()`, called first in the function.

        Raises:
            OptionError: a value is invalid, or has no effect with the other arguments.
        """
        names = [entry.name for entry in fields(cls)]  # type: ignore[arg-type] # subclasses are dataclasses
        made = cls(**{name: _plain(values[name]) for name in names if name in values})
        made.check()
        made.check_given([entry.name for entry in fields(made)  # type: ignore[arg-type]
                          if getattr(made, entry.name) != entry.default])
        return made

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        for entry in fields(self):  # type: ignore[arg-type]
            check_value(entry, getattr(self, entry.name))

    def check_given(self, names: Container[str]) -> None:
        """Raises OptionError if one of these arguments has no effect with the other arguments."""
        for entry in fields(self):  # type: ignore[arg-type]
            why = self.idle(entry.name) if entry.name in names else None
            if why:
                raise OptionError(f'{argument(entry.name)} means nothing {why}; leave it away')

    def reasons(self) -> Mapping[str, str | None]:
        """Reasons for which arguments have no effect, such as 'with JSON lines', in addition to `needs`."""
        return {}

    def idle(self, name: str) -> str | None:
        """The reason for which an argument has no effect, such as 'with optimizer adam, only with sgd'; or None."""
        if reason := self.reasons().get(name):
            return reason
        for others, wanted in self._needs(name).items():
            reasons = [self._unmet(other, wanted) for other in (others if isinstance(others, tuple) else (others,))]
            if all(reasons):                                     # of several, one is enough
                return reasons[0]
        return None

    def _needs(self, name: str) -> Mapping[Any, Any]:
        return next(entry.metadata['needs'] for entry in fields(self) if entry.name == name)  # type: ignore[arg-type]

    def _unmet(self, name: str, wanted: Any) -> str | None:
        """Why an argument is not as another one wants it, or None."""
        value, shown = getattr(self, name), argument(name)
        idle = self.idle(name)                                   # what means nothing has no value
        if wanted is False:
            return f'with {shown}' if value and not idle else None
        if wanted == UNLESS_0:
            return f'with {shown} 0' if value == 0 and not idle else None
        if idle:
            return idle
        if value is None:                                        # it follows from the text
            return None
        if wanted is True:
            zero = value == 0 and not isinstance(value, bool)
            return None if value else f'with {shown} 0' if zero else f'without {shown}'
        only = f', only with {" or ".join(wanted)}' if wanted else ''
        return None if value in wanted else f'with {shown} {value}{only}'


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return os.fspath(value) if isinstance(value, PurePath) else value


def check_value(entry: Field, value: object) -> None:
    """Raises OptionError if a field of `Arguments` can't have this value."""
    name, fault, choices = argument(entry.name), fault_of(entry, value), entry.metadata['choices']
    if fault:
        end = meant(value, choices, '') if choices and isinstance(value, str) else ''
        raise OptionError(f'{name} must be {fault[0]}, got {fault[1]}{end}')
    if entry.metadata['metavar'] in (FILE, DIR):
        paths = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        for path in paths:
            if not path and path != entry.default and not entry.metadata.get('may_be_empty'):
                raise OptionError(f'{name} must be a name, got nothing')
            check_path(name, path, entry.metadata.get('recorded', False))


def check_path(name: str, path: str, recorded: bool = False) -> None:
    """Raises OptionError for the name of a file or folder that no file system takes.

    Args:
        name: of the argument, as it is shown.
        path: text.
        recorded: whether it will stand in a JSON file, which holds Unicode only.
    """
    if '\0' in path:
        raise OptionError(f'{name} must be a path without NUL characters, got {brief(path)}')
    try:
        path.encode('utf-8') if recorded else os.fsencode(path)
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        other = f' in a locale with {encoding}; set PYTHONUTF8=1 or LC_ALL=C.UTF-8' if encoding != 'utf-8' else ''
        raise OptionError(f'{name} must be a path in UTF-8, got {brief(path)}{other}') from None
    try:
        os.lstat(path)
    except UnicodeEncodeError:
        return                                   # recorded in another locale; here no file has this name
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OptionError(f'{name} must be a path that the file system takes, got one that is too long: '
                              f'{brief(path)}') from None


def whole_numbers(name: str, text: str, counts: Iterable[int]) -> tuple[int, ...]:
    """The numbers of an argument such as '0,-1'.

    Args:
        name: of the argument.
        text: its value.
        counts: how many numbers there may be.

    Raises:
        OptionError: these are not so many numbers, or two of them are equal.
    """
    counts = list(counts)
    try:
        numbers = tuple(int(part) for part in text.split(','))
    except ValueError:
        numbers = ()
    if len(numbers) not in counts or len(set(numbers)) < len(numbers):
        expected = 'a number or two' if counts == [1, 2] else 'two numbers'
        raise OptionError(f'{argument(name)} must be {expected} like 0,-1, got {text!r}')
    return numbers
