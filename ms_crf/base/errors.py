"""Errors caused by invalid input; each message is one line of bounded length, whatever the input contains."""

import re
from collections.abc import Callable, Iterable
from typing import Any

LONGEST = 400              # characters of a message; the middle of a longer message is cut out


def visible(text: str) -> str:
    """Returns text that a terminal can show on one line, with escapes for unprintable characters.

    Unprintable are control characters, line ends, bidirectional controls, and lone surrogates.
    """
    if text.isprintable():
        return text
    return ''.join(character if character.isprintable() else character.encode('unicode_escape').decode('ascii')
                   for character in text)


def one_line(text: str, longest: int = LONGEST) -> str:
    """Returns a message as one `visible` line; the middle of a line longer than `longest` is cut out."""
    text = visible(text)
    if len(text) > longest:
        text = f'{text[:longest // 2]} … {text[-longest // 2:]}'
    return text


def brief(value: object) -> str:
    """Returns the text of a value for a message: one line of bounded length."""
    if isinstance(value, int) and value.bit_length() > 100:
        return f'a number of {int(value.bit_length() * 0.30103) + 1} digits'
    try:
        shown = repr(value)
    except ValueError:                           # the value contains a number of thousands of digits
        return f'a {type(value).__name__} that cannot be shown'
    return one_line(shown if len(shown) <= 80 else f'{shown[:60]}... ({len(shown):,} characters)')


def meant(word: str, known: Iterable[str], otherwise: str = '') -> str:
    """Returns the end of a message about an unknown word, such as '; did you mean epochs?'.

    Args:
        word: the unknown word: misspelt, abbreviated, or the initials of a hyphenated word.
        known: the known words.
        otherwise: the result if no known word is similar.
    """
    import difflib  # not above: only needed for misspelt words
    by_form, form = {_plain(name): name for name in known}, _plain(word)
    similar = ([other for other in by_form if len(form) > 1 and form == _initials(other)]
               or difflib.get_close_matches(form, by_form, 1, 0.65)
               or [other for other in by_form if len(form) > 1 and other.startswith(form)])
    return f'; did you mean {" or ".join(by_form[other] for other in similar[:3])}?' if similar else otherwise


def _plain(name: str) -> str:
    return name.lower().replace('_', '-').lstrip('-')


def _initials(form: str) -> str:
    return ''.join(part[:1] for part in form.split('-'))


class _UserError(ValueError):
    """Base class of errors that can be pickled, whatever arguments their `__init__` takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueError.__new__, (type(self), *self.args), vars(self)


_ARGUMENT = re.compile('\ue000([a-z_]+)\ue001')        # private-use characters, which `visible` escapes in data


def argument(name: str) -> str:
    """Returns a marked name of an argument for a message; commands replace it by the name of the option."""
    return f'\ue000{name}\ue001'


def with_names(text: str, shown: Callable[[str], str]) -> str:
    """Returns `visible` text in which names marked by `argument` are replaced by `shown(name)`."""
    parts = _ARGUMENT.split(text)                                # text and names of arguments alternate
    return ''.join(shown(part) if index % 2 else visible(part) for index, part in enumerate(parts))


class CorpusError(_UserError):
    """An error in a file; its message names the file, the line, what was expected and what was found.

    Args:
        path: path of the file.
        line: line number of the error; None for the whole file.
        message: the message, in which `argument` marks the names of arguments.

    Attributes:
        path: path of the file.
    """

    def __init__(self, path: object, line: int | None, message: str) -> None:
        self.path = path
        self._location, self._message = one_line(f'{path}:{line}: ' if line else f'{path}: '), message
        super().__init__(self.with_options(str))

    def with_options(self, shown: Callable[[str], str]) -> str:
        """Returns the message in which each name of an argument is replaced by `shown(name)`."""
        return self._location + one_line(with_names(self._message, shown))


class NoRun(CorpusError):
    """The folder of runs contains no run."""


class OptionError(_UserError):
    """An option or argument with an invalid value.

    Args:
        message: the message, in which `argument` marks the names of arguments.

    Attributes:
        message: the message with its marks, which further errors can include.
        longest: number of characters shown; the middle of a longer message is cut out.
    """

    longest = LONGEST

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(self.with_options(lambda name: name))

    def with_options(self, shown: Callable[[str], str]) -> str:
        """Returns the message in which each name of an argument is replaced by `shown(name)`."""
        return one_line(with_names(self.message, shown), self.longest)


def not_installed(what: str, library: str, extra: str, otherwise: str = '') -> OptionError:
    """Returns the error for a missing optional library; its message shows two ways to install the library.

    Args:
        what: subject of the message, such as 'the splitter pysbd'.
        library: name of the library.
        extra: extra of this package, and suffix of the requirements file, that installs the library.
        otherwise: end of the message: an alternative to the installation.
    """
    return OptionError(f"{what} needs {library}, which is not installed: pip install 'ms_crf[{extra}]', or pip install "
                       f'-r requirements-{extra}.txt{otherwise}')
