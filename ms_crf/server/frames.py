"""Frames: values that the server and its child processes send each other through pipes."""

import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

LENGTH = struct.Struct('<Q')           # in front of each frame


def frame(value: object) -> bytes:
    """A value as bytes for a pipe. Only processes of this program read it."""
    data = pickle.dumps(value, 5)
    return LENGTH.pack(len(data)) + data


def connect() -> tuple[Iterator[Any], Callable[[object], None]]:
    """For the main function of a child process: the values that the server sends, and a function that answers.

    Standard input and output carry the frames. Whatever a library prints goes to standard error from here on. The
    child process ignores the signals of a terminal, which are meant for the server; it ends when its input ends.
    """
    for name in ('SIGINT', 'SIGTERM', 'SIGHUP'):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    output = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)

    def answer(value: object) -> None:
        output.write(frame(value))
        output.flush()

    return _frames(), answer


def _frames() -> Iterator[Any]:
    """Yields the values on standard input, up to its end."""
    stream = sys.stdin.buffer
    while True:
        head = stream.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return
        data = stream.read(LENGTH.unpack(head)[0])
        try:
            yield pickle.loads(data)
        except (EOFError, pickle.UnpicklingError):               # the server was killed while it wrote
            return
