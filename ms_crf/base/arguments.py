"""Arguments of functions that commands call: types, bounds, choices, and which arguments have no effect together.

Each function has a dataclass of its arguments, a subclass of `Arguments`. The function uses the dataclass to check its
values, and the command uses it to create its options. So each bound, default and help text is written only once.
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

FILE, DIR = 'FILE', 'DIR'      # metavars of arguments that are paths
UNLESS_0 = 'unless 0'
T = TypeVar('T', bound='Arguments')


def option(default: Any, group: str, text: str, metavar: str | tuple[str, ...] | None = None,
           choices: Sequence[str] | None = None, least: float | None = None, most: float | None = None,
           needs: Mapping[Any, Any] | None = None, **others: Any) -> Any:
    """Returns a field of `Arguments`.

    Args:
        default: the default value; None if the default depends on other arguments.
        group: heading under which the help lists the option; '' for none.
        text: the help text; names of arguments within the text are marked by `argument`.
        metavar: placeholder of the value in the help; FILE and DIR mark paths, which are checked.
        choices: the allowed values, if there is a fixed list.
        least, most: bounds of a number, inclusive.
        needs: conditions without which the argument has no effect. Keys are names of other arguments, or tuples of
            names of which at least one must meet the condition. Values are: a tuple of allowed values; True or False if
            that argument must be set or unset; UNLESS_0 if it must not be 0 wherever it has an effect.
        others: metadata for the command only:
            names: names of the option, if they differ from the argument's name.
            short: a second name of the option, such as '-n'.
            positional: whether the argument is positional instead of an option.
            required: whether the option is required.
            several: True if the option takes a list, or the number of its values.
            negatable: whether the option can be negated (default: every bool whose default is not False).
            may_be_empty: whether a path may be '' (default: only if '' is the default value).
    """
    return checked(default, choices=choices, least=least, most=most, group=group, text=text, metavar=metavar,
                   needs=needs or {}, **others)


class Arguments:
    """Base class of dataclasses that hold the arguments of a function; their fields are created by `option`.

    A whole number becomes a float if the argument is a float, because JSON and Python callers write 0 for 0.0.
    """

    def __post_init__(self) -> None:
        for entry in fields(self):  # type: ignore[arg-type] # subclasses are dataclasses
            value = getattr(self, entry.name)
            if entry.type is float and type(value) is int and abs(value) <= 2 ** 53:    # exact; a larger one stays
                setattr(self, entry.name, float(value))

    @classmethod
    def from_call(cls: type[T], values: Mapping[str, Any]) -> T:
        """Returns the checked arguments of a function call.

        Args:
            values: `locals()` at the beginning of the function; other local variables are ignored.

        Raises:
            OptionError: a value is invalid, or has no effect in this combination of arguments.
        """
        names = [entry.name for entry in fields(cls)]  # type: ignore[arg-type] # subclasses are dataclasses
        arguments = cls(**{name: _plain(values[name]) for name in names if name in values})
        arguments.check()
        arguments.check_effects([entry.name for entry in fields(arguments)  # type: ignore[arg-type]
                                 if getattr(arguments, entry.name) != entry.default])
        return arguments

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        for entry in fields(self):  # type: ignore[arg-type]
            check_value(entry, getattr(self, entry.name))

    def check_effects(self, names: Container[str]) -> None:
        """Raises OptionError if an argument in `names` has no effect in this combination of arguments."""
        for entry in fields(self):  # type: ignore[arg-type]
            why = self.idle(entry.name) if entry.name in names else None
            if why:
                raise OptionError(f'{argument(entry.name)} has no effect {why}; omit it')

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect, such as 'with JSON lines'; these reasons add to `needs`."""
        return {}

    def idle(self, name: str) -> str | None:
        """Returns why an argument has no effect, such as 'with optimizer adam, only with sgd'; None if it has one."""
        if reason := self.reasons().get(name):
            return reason
        for others, expected in self._needs(name).items():
            reasons = [self._unmet(other, expected) for other in (others if isinstance(others, tuple) else (others,))]
            if all(reasons):                                     # of several arguments, one is enough
                return reasons[0]
        return None

    def _needs(self, name: str) -> Mapping[Any, Any]:
        return next(entry.metadata['needs'] for entry in fields(self) if entry.name == name)  # type: ignore[arg-type]

    def _unmet(self, name: str, expected: Any) -> str | None:
        """Returns why an argument does not meet a condition of `needs`, or None if it does."""
        value, shown = getattr(self, name), argument(name)
        idle = self.idle(name)                                   # then the value of the argument does not count
        if expected is False:
            return f'with {shown}' if value and not idle else None
        if expected == UNLESS_0:
            return f'with {shown} 0' if value == 0 and not idle else None
        if idle:
            return idle
        if value is None:                                        # the default depends on the text
            return None
        if expected is True:
            zero = value == 0 and not isinstance(value, bool)
            return None if value else f'with {shown} 0' if zero else f'without {shown}'
        only = f', only with {" or ".join(expected)}' if expected else ''
        return None if value in expected else f'with {shown} {value}{only}'


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return os.fspath(value) if isinstance(value, PurePath) else value


def check_value(entry: Field, value: object) -> None:
    """Raises OptionError if a value is invalid for a field of `Arguments`."""
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
    """Raises OptionError if a path is not a valid name of a file or folder.

    Args:
        name: name of the argument for the message.
        path: the path as text.
        recorded: whether the path will be written to a JSON file, which must be valid Unicode.
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
        return                                   # recorded in another locale; no file has this name in this one
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OptionError(f'{name} must be a shorter path, got one that is too long for the file system: '
                              f'{brief(path)}') from None


def whole_numbers(name: str, text: str, counts: Iterable[int]) -> tuple[int, ...]:
    """Returns the numbers of an argument such as '0,-1'.

    Args:
        name: name of the argument.
        text: value of the argument.
        counts: the allowed counts of numbers.

    Raises:
        OptionError: the text has another count of numbers, or the same number twice.
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
