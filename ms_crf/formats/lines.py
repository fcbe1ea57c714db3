"""Reads lines of UTF-8 from files, gzip files, pipes and standard input; finds the files of folders and patterns."""

import contextlib
import glob
import gzip
import os
import re
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike

_HALF_OF_PAIR = re.compile('[\ud800-\udfff]')
_BYTES = 1 << 16           # bytes to read at once
CHUNK = 2048               # sentences in a chunk, at most; a chunk is sorted by length
CHUNK_TOKENS = 65536       # tokens in a chunk, at most; a longer sentence is a chunk alone
T = TypeVar('T')


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """(line number, text without line end) of a UTF-8 file, with or without byte order mark, also gzipped (.gz)."""
    for line_number, line in enumerate(byte_lines(path), 1):
        yield line_number, decode(path, line_number, line)


def byte_lines(path: PathLike, raw: bool = False) -> Iterator[bytes]:
    """The lines of a file, also gzipped (.gz), with line ends; `cut` defines line ends."""
    try:
        file = (gzip.open if str(path).endswith('.gz') else open)(path, 'rb')
    except ValueError:                           # the name has a NUL or an unpaired surrogate
        raise CorpusError(ascii(str(path)), None, 'expected the name of a file') from None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        with file:
            for line in file:
                yield from cut(line, raw)
    except (EOFError, zlib.error, OSError) as error:
        raise unreadable(path, error) from None


def check_readable(path: PathLike) -> None:
    """Raises CorpusError unless the path is a file, a pipe or a device that can be read; pipes are not opened."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISREG(mode):
            open(path, 'rb').close()
    except OSError as error:
        raise unreadable(path, error) from None


def cut(line: bytes, raw: bool = False) -> list[bytes]:
    """Splits a line, which ends with a line feed or with the file, at single carriage returns, which end lines too.

    Other line ends of Unicode are a part of the line. In raw text only line feeds end lines.
    """
    if raw or b'\r' not in line:
        return [line]
    text = line.rstrip(b'\r\n') if line.endswith(b'\n') else line[:-1] if line.endswith(b'\r') else line
    return [part + b'\n' for part in text.split(b'\r')] if b'\r' in text else [line]


def unreadable(path: PathLike, error: EOFError | zlib.error | OSError) -> CorpusError:
    """The CorpusError for an error that occurred when a file was opened or read."""
    if isinstance(error, FileNotFoundError):
        return CorpusError(path, None, 'no such file')
    if isinstance(error, NotADirectoryError):
        return CorpusError(path, None, f'no such file: {os.path.dirname(path)} is not a folder')
    if isinstance(error, IsADirectoryError):
        return CorpusError(path, None, 'expected a file, got a folder')
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return CorpusError(path, None, 'expected a gzip file, got a damaged one; decompress or fetch it again')
    return CorpusError(path, None, f'cannot be read: {getattr(error, "strerror", error)}')


def decode(path: object, line_number: int, line: bytes, errors: str = 'strict', raw: bool = False) -> str:
    """The text of a line without its end; raises CorpusError if it is not UTF-8 and `errors` is 'strict'.

    With `raw` the line end is kept, and also a byte order mark.
    """
    try:
        text = line.decode('utf-8-sig' if line_number == 1 and not raw else 'utf-8', errors)
    except UnicodeDecodeError as error:
        raise CorpusError(path, line_number, f'expected UTF-8, got byte 0x{line[error.start]:02x} '
                                             f'at column {error.start + 1}') from None
    return text if raw else text.rstrip('\r\n')


def half_of_pair(texts: Iterable[str]) -> str | None:
    """The first text with an unpaired surrogate, which UTF-8 cannot hold; None if there is no such text."""
    return next((text for text in texts if not text.isascii() and _HALF_OF_PAIR.search(text)), None)


# Lines as they arrive

def open_lines(name: str, raw: bool = False) -> Iterator[bytes | None]:
    """Byte lines of a file, a pipe or a device, or of standard input if the name is '-'; `cut` defines line ends.

    None is yielded before a line that has not arrived yet.
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


def _arriving(descriptor: int, name: str, raw: bool) -> Iterator[bytes | None]:
    """Lines from a descriptor, with line ends. None is yielded before a line that has not arrived yet.

    Args:
        descriptor: descriptor of a file, a pipe or a device.
        name: name of the input, for messages.
        raw: whether only line feeds end lines, see `cut`.
    """
    rest: list[bytes] = []
    while True:
        with contextlib.suppress(OSError):       # select does not support pipes on Windows
            if not select.select([descriptor], [], [], 0)[0]:
                yield None
        try:
            data = os.read(descriptor, _BYTES)
        except OSError as error:
            raise unreadable(name, error) from None
        if not data:
            break
        first, *others = data.split(b'\n')
        rest.append(first)
        for other in others:
            yield from cut(b''.join(rest) + b'\n', raw)
            rest = [other]
    if any(rest):
        yield from cut(b''.join(rest), raw)


def numbered(lines: Iterable[bytes | None], name: str, strict: bool, report: Callable[[str], object],
             raw: bool = False) -> Iterator[tuple[int, str] | None]:
    """Decodes byte lines and yields (line number, text).

    Args:
        lines: byte lines; None, a pause in the input, is yielded unchanged.
        name: name of the input, for messages.
        strict: whether a line that is not UTF-8 is an error; otherwise it is decoded with replacement characters.
        report: receives a message about each line with replacement characters.
        raw: whether line ends and a byte order mark stay in the text.
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


# Many files

class FilePair(NamedTuple):
    """A file to read, and the file to write, or None."""

    source: str
    target: str | None


def chunks(items: Iterable[T | None], size: Callable[[Any], int] = len) -> Iterator[list[T]]:
    """Groups items into lists for sorting by length: at most CHUNK items and CHUNK_TOKENS tokens, or a single item.

    Args:
        items: the items. None, a pause in the input, ends a list. A CorpusError of the iterator ends a list, too; it is
            raised again after the list.
        size: a function that returns the number of tokens of an item.
    """
    chunk: list[T] = []
    tokens = 0
    try:
        for item in items:
            more = 0 if item is None else size(item)
            if chunk and (item is None or len(chunk) == CHUNK or tokens + more > CHUNK_TOKENS):
                yield chunk
                chunk, tokens = [], 0
            if item is not None:
                chunk.append(item)
                tokens += more
    except CorpusError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def are_many(name: str) -> bool:
    """Whether a name stands for several files: for a folder, or for a pattern that is not itself a file."""
    return os.path.isdir(name) or (glob.has_magic(name) and not os.path.lexists(name))


def files_of(name: str) -> tuple[str, list[str]]:
    """A base folder and the sorted files that a folder or pattern contains.

    Raises:
        CorpusError: there is no such file.
    """
    is_folder, base = os.path.isdir(name), name
    while not is_folder and glob.has_magic(base):
        base = os.path.dirname(base)
    files = sorted(_below(name) if is_folder else filter(os.path.isfile, glob.glob(name, recursive=True)))
    if not files:
        what = 'in this folder' if is_folder else 'for this pattern'
        raise CorpusError(name, None, f'expected files to tag {what}, got none')
    return base or os.curdir, files


def pair_files(names: Mapping[str, str], output: PathLike) -> list[FilePair]:
    """Pairs of input file and output file.

    Args:
        names: for each input file the path of its output file within the output folder.
        output: the output folder; it need not exist.

    Raises:
        OptionError: two outputs have the same path, or an output is also an input.
    """
    if os.path.lexists(output) and not os.path.isdir(output):
        raise OptionError(f'the output must be a folder if the input is several files, got the file {output}')
    sources = {os.path.realpath(path) for path in names}
    sources_of: dict[str, str] = {}
    for path, within in names.items():
        target = os.path.join(output, within)
        if os.path.realpath(target) in sources:
            raise OptionError(f'the output must be in another folder than the input, got {output}, where {path} would '
                              'be overwritten')
        if target in sources_of:
            raise OptionError(f'{sources_of[target]} and {path} would both be written to {target}; tag them separately')
        sources_of[target] = path
    return [FilePair(path, target) for target, path in sources_of.items()]


def _below(folder: str) -> Iterator[str]:
    """Paths of the files in a folder and its subfolders, without hidden files and folders."""
    def fault(error: OSError) -> None:
        raise CorpusError(error.filename or folder, None, f'cannot be read: {error.strerror}') from None

    for parent, folders, names in os.walk(folder, onerror=fault):
        folders[:] = [name for name in folders if not name.startswith('.')]
        for name in names:
            path = os.path.join(parent, name)
            if not name.startswith('.') and os.path.isfile(path):
                yield path
