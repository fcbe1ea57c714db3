"""Lines of files: UTF-8, also gzipped, and the errors of files that cannot be read."""

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike

_HALF_OF_PAIR = re.compile('[\ud800-\udfff]')


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """(line number, text without its end) of a UTF-8 file, with or without BOM, also gzipped (.gz)."""
    for line_number, line in enumerate(byte_lines(path), 1):
        yield line_number, decode(path, line_number, line)


def byte_lines(path: PathLike, raw: bool = False) -> Iterator[bytes]:
    """The lines of a file, also gzipped (.gz); unless it is raw text, lone carriage returns end a line, see `cut`."""
    try:
        file = (gzip.open if str(path).endswith('.gz') else open)(path, 'rb')
    except ValueError:                           # a NUL, or half of a surrogate pair
        raise CorpusError(ascii(str(path)), None, 'expected the name of a file') from None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        with file:
            for line in file:
                yield from [line] if raw else cut(line)
    except (EOFError, zlib.error, OSError) as error:
        raise unreadable(path, error) from None


def check_readable(path: PathLike) -> None:
    """Raises CorpusError unless there is a file, a pipe or a device of this name; pipes are not opened."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISREG(mode):
            open(path, 'rb').close()
    except OSError as error:
        raise unreadable(path, error) from None


def cut(line: bytes) -> list[bytes]:
    """Cuts a line, which ends in a line feed or with the file, at lone carriage returns, which end a line as well.

    Other characters that Unicode counts as line ends are a part of the line.
    """
    if b'\r' not in line:
        return [line]
    text = line.rstrip(b'\r\n') if line.endswith(b'\n') else line[:-1] if line.endswith(b'\r') else line
    return [part + b'\n' for part in text.split(b'\r')] if b'\r' in text else [line]


def unreadable(path: PathLike, error: EOFError | zlib.error | OSError) -> CorpusError:
    """The CorpusError for what is raised by opening or reading a file."""
    if isinstance(error, FileNotFoundError):
        return CorpusError(path, None, 'no such file')
    if isinstance(error, NotADirectoryError):
        return CorpusError(path, None, f'no such file: {os.path.dirname(path)} is not a folder')
    if isinstance(error, IsADirectoryError):
        return CorpusError(path, None, 'expected a file, got a folder')
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return CorpusError(path, None, 'expected a gzip file, got a damaged one; decompress or fetch it again')
    return CorpusError(path, None, f'can not be read: {getattr(error, "strerror", error)}')


def decode(path: object, line_number: int, line: bytes, errors: str = 'strict', raw: bool = False) -> str:
    """Text of a line without its end; raises CorpusError if it is not UTF-8 and `errors` is 'strict'.

    Of raw text the end stays, and a mark of byte order at its beginning.
    """
    try:
        if raw:
            return line.decode('utf-8', errors)
        return line.decode('utf-8-sig' if line_number == 1 else 'utf-8', errors).rstrip('\r\n')
    except UnicodeDecodeError as error:
        raise CorpusError(path, line_number, f'expected UTF-8, got byte 0x{line[error.start]:02x} '
                                             f'at column {error.start + 1}') from None


def half_of_pair(texts: Iterable[str]) -> str | None:
    """The first of some texts that UTF-8 can't hold, as half of a surrogate pair stands in it; None if all can be."""
    return next((text for text in texts if not text.isascii() and _HALF_OF_PAIR.search(text)), None)
