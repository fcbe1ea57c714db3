"""The errors of users, whose messages are one line whatever a file or an option holds."""

import re
from collections.abc import Callable, Iterable

LONGEST = 400              # characters of a message; of a longer one the middle is left out


def visible(text: str) -> str:
    """Text that a terminal can show on one line; every character that is not printable becomes an escape.

    Not printable are control characters and line ends, bidirectional controls, and lone surrogates.
    """
    if text.isprintable():
        return text
    return ''.join(character if character.isprintable() else character.encode('unicode_escape').decode('ascii')
                   for character in text)


def one_line(text: str) -> str:
    """A message as one `visible` line of bounded length."""
    text = visible(text)
    if len(text) > LONGEST:
        text = f'{text[:LONGEST // 2]} … {text[-LONGEST // 2:]}'
    return text


def brief(value: object) -> str:
    """A value as it is shown in a message: in one line of bounded length."""
    if isinstance(value, int) and value.bit_length() > 100:
        return f'a number of {int(value.bit_length() * 0.30103) + 1} digits'
    try:
        shown = repr(value)
    except ValueError:                           # a number of thousands of digits somewhere in it
        return f'a {type(value).__name__} that can not be shown'
    return one_line(shown if len(shown) <= 80 else f'{shown[:60]}... ({len(shown):,} characters)')


def meant(word: str, known: Iterable[str], otherwise: str = '') -> str:
    """The end of a message about a misspelt word.

    Args:
        word: as it was written: misspelt, abbreviated, or the initials of a word with hyphens.
        known: the words that it could have been.
        otherwise: the end if none of these is similar.
    """
    import difflib  # only where something is misspelt
    by_form, form = {_plain(name): name for name in known}, _plain(word)
    near = ([other for other in by_form if len(form) > 1 and form == _initials(other)]
            or difflib.get_close_matches(form, by_form, 1, 0.65)
            or [other for other in by_form if len(form) > 1 and other.startswith(form)])
    return f'; did you mean {" or ".join(by_form[other] for other in near[:3])}?' if near else otherwise


def _plain(name: str) -> str:
    return name.lower().replace('_', '-').lstrip('-')


def _initials(form: str) -> str:
    return ''.join(part[:1] for part in form.split('-'))


class CorpusError(ValueError):
    """A fault in a file: where it is, what was expected and what is there, in one line.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: object, line: int | None, message: str) -> None:
        self.path = path
        super().__init__(one_line(f'{path}:{line}: ' if line else f'{path}: ') + one_line(message))


class NoRun(CorpusError):
    """There is no run yet in the folder of runs."""


_ARGUMENT = re.compile('\ue000([a-z_]+)\ue001')        # characters that no text shows: `visible` escapes them in data


def argument(name: str) -> str:
    """The name of an argument in the message of an `OptionError`; commands show the option that is called so."""
    return f'\ue000{name}\ue001'


def with_names(text: str, shown: Callable[[str], str]) -> str:
    """Replaces the arguments that `argument` marks in a text, by a function of their names."""
    return _ARGUMENT.sub(lambda match: shown(match[1]), text)


class OptionError(ValueError):
    """An option or argument with a value that it can't have, in one line.

    Args:
        message: the line, in which `argument` marks the names of arguments.

    Attributes:
        message: the same, for another error's message.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(self.with_options(lambda name: name))

    def with_options(self, shown: Callable[[str], str]) -> str:
        """The message with the names of arguments as a function shows them."""
        parts = _ARGUMENT.split(self.message)                    # text and names of arguments take turns
        return one_line(''.join(shown(part) if place % 2 else visible(part) for place, part in enumerate(parts)))


def not_installed(what: str, library: str, extra: str, otherwise: str = '') -> OptionError:
    """The error of a library that is optional and missing, with the two ways to install it.

    Args:
        what: needs it.
        library: its name.
        extra: of this package, which brings it; there is a requirements file of that name.
        otherwise: what else can be done.
    """
    return OptionError(f"{what} needs {library}, which is not installed: pip install 'ms_crf[{extra}]', or pip install "
                       f'-r requirements-{extra}.txt{otherwise}')
