"""The server's end of the process that tags: starting it, batches there and back, its end."""

import asyncio
import contextlib
import pickle
from collections import deque
from typing import Any

from ms_crf import processes
from ms_crf.server.limits import Refused
from ms_crf.server.worker import LENGTH, About, Settings, frame

# Not as a module: its classes would belong to __main__, and could not be read here.
_PROGRAM = 'from ms_crf.server.worker import main; main()'


class Failed(Exception):
    """A model that can't be served, in one line."""


class Process:
    """A process that tags; `Process.start` makes one.

    Attributes:
        about: what it says of its model.
        ended: is set once it is gone.
    """

    def __init__(self, process: asyncio.subprocess.Process, about: About) -> None:
        self._process, self.about = process, about
        self._asked: deque[asyncio.Future[list[Any]]] = deque()
        self.ended = asyncio.Event()
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, settings: Settings) -> 'Process':
        """Starts it and waits until it has loaded the model; raises Failed if it can't."""
        process = await asyncio.create_subprocess_exec(
            *processes.command(_PROGRAM), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=processes.environment())
        try:
            assert process.stdin is not None
            process.stdin.write(frame(settings))
            said = await _next(process)
        except asyncio.CancelledError:           # the server is to end
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if isinstance(said, About):
            return cls(process, said)
        status = await process.wait()
        raise Failed(said or f'{settings.path}: the process that loads it ended with status {status}')

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, task: Any, sentences: list[list[str]]) -> 'asyncio.Future[list[Any]]':
        """A future of what it says of each sentence; Refused is set there if the process ends before."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            future.set_exception(lost())
            return future
        self._asked.append(future)
        assert self._process.stdin is not None
        self._process.stdin.write(frame((task, sentences)))
        return future

    async def _read(self) -> None:
        while (said := await _next(self._process)) is not None:
            future = self._asked.popleft()
            if not future.done():
                future.set_result(said)
        self.ended.set()
        while self._asked:
            future = self._asked.popleft()
            if not future.done():
                future.set_exception(lost())

    async def close(self) -> int:
        """Lets it end, at once if it is idle; returns its status."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            return await asyncio.wait_for(self._process.wait(), 5)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            return await self._process.wait()


def lost() -> Refused:
    """What is said to those whose sentences it had."""
    return Refused(503, 'the process that tags has ended; another one is started, try again', 5)


async def _next(process: asyncio.subprocess.Process) -> Any:
    """The next value that a process says; None at its end."""
    assert process.stdout is not None
    try:
        size = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))[0]
        return pickle.loads(await process.stdout.readexactly(size))
    except (asyncio.IncompleteReadError, OSError):
        return None
