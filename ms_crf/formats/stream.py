"""Reads lines to tag from files, pipes and devices as they arrive, and collects sentences into chunks."""

import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ms_crf.base.errors import CorpusError
from ms_crf.formats.lines import byte_lines, cut, decode, unreadable

_BYTES = 1 << 16          # that are read at once
CHUNK = 2048               # at most so many sentences are sorted by length together,
CHUNK_TOKENS = 65536       # and at most so many tokens, or a single sentence
T = TypeVar('T')


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
            data = os.read(descriptor, _BYTES)
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


def chunks(items: Iterable[T | None], size: Callable[[Any], int] = len) -> Iterator[list[T]]:
    """Yields lists of items to be sorted by length: at most CHUNK items and CHUNK_TOKENS tokens, or a single item.

    Args:
        items: one after the other. A None among them, which stands for a pause in the input, ends a list. So does a
            CorpusError that is raised between them; it is raised again after that list.
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
