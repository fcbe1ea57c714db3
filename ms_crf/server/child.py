"""A child process of the server: how it is started, how values are exchanged with it, and how it ends."""

import asyncio
import contextlib
import pickle
from typing import Any

from ms_crf.base import processes
from ms_crf.server.frames import LENGTH, frame


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
