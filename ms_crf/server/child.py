"""Child processes of the server, and the frames of values that both sides send each other through pipes."""

import asyncio
import contextlib
import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ms_crf.base import processes

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


class Child:
    """A child process; `Child.start` starts one.

    Args:
        process: the process, with pipes to its standard input and output.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str) -> 'Child':
        """Starts the function `main` of a module in a process of its own."""
        # Not with -m: the classes of the module would belong to __main__, and the server could not unpickle them.
        return cls(await processes.start_with_pipes(processes.command(f'from {module} import main; main()')))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    def send(self, value: object) -> None:
        """Sends a value, without waiting until the process reads it."""
        assert self._process.stdin is not None
        self._process.stdin.write(frame(value))

    async def receive(self) -> Any:
        """The next value that the process sends; None once it has ended."""
        assert self._process.stdout is not None
        try:
            size = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))[0]
            return pickle.loads(await self._process.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return None

    def kill(self) -> None:
        """Ends the process at once, also while it is stopped."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self, seconds: float = 5) -> int:
        """Lets an idle process end, and kills it after some seconds; returns its exit status."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            return await asyncio.wait_for(self._process.wait(), seconds)
        except asyncio.TimeoutError:
            self.kill()
            return await self._process.wait()
