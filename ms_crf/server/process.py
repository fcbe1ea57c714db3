"""The server's end of the process that tags: starting it, batches there and back, its end, and when it hangs."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from ms_crf.base.errors import OptionError
from ms_crf.server.batching import Task
from ms_crf.server.child import Child
from ms_crf.server.limits import Refused
from ms_crf.server.worker import About, Line, Settings

import psutil

LONGEST = 20                           # times --stall: for a batch of a process that computes


class Failed(OptionError):
    """A model that can't be served, in one line."""


class Process:
    """A process that tags; `Process.start` makes one.

    Attributes:
        about: what it says of its model.
        ended: is set once it is gone.
        answers: the number of batches that it has tagged.
    """

    def __init__(self, child: Child, about: About) -> None:
        self._child, self.about = child, about
        self._asked: deque[asyncio.Future[list[Any]]] = deque()
        self.ended, self.answers = asyncio.Event(), 0
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, settings: Settings, say: Callable[[str], None]) -> 'Process':
        """Starts it and waits until it has loaded the model; raises Failed if it can't.

        Args:
            settings: what to load.
            say: is called with each line for the user.
        """
        child = await Child.start('ms_crf.server.worker')
        try:
            child.send(settings)
            while isinstance(said := await child.receive(), Line):
                say(said.text)
        except asyncio.CancelledError:           # the server is to end
            await child.close(0)
            raise
        if isinstance(said, About):
            return cls(child, said)
        status = await child.close()
        raise Failed(said or f'{settings.path}: the process that loads it ended with status {status}')

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def busy(self) -> bool:
        """Whether it has sentences to tag."""
        return bool(self._asked)

    def send(self, task: Task, sentences: list[list[str]]) -> 'asyncio.Future[list[Any]]':
        """A future of what it says of each sentence; Refused is set there if the process ends before."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            future.set_exception(lost())
            return future
        self._asked.append(future)
        self._child.send((task, sentences))
        return future

    async def _read(self) -> None:
        while (said := await self._child.receive()) is not None:
            self.answers += 1
            future = self._asked.popleft()
            if not future.done():
                future.set_result(said)
        self.ended.set()
        while self._asked:
            future = self._asked.popleft()
            if not future.done():
                future.set_exception(lost())

    def seconds_of_cpu(self) -> float:
        """The CPU time that it has used, with the CPU time of child processes that have ended."""
        with contextlib.suppress(psutil.Error):
            return sum(psutil.Process(self.pid).cpu_times()[:4])
        return 0.0

    def kill(self) -> None:
        self._child.kill()

    async def close(self) -> int:
        """Lets it end if it is idle, and kills it if nobody waits any more for what it does; returns its status."""
        return await self._child.close(0 if self.busy else 5)


class Patience:
    """Decides when a process that tags hangs.

    It hangs if it has sentences to tag and uses no CPU time at all for some seconds: it is stopped, or waits for what
    never comes. A process that computes may take `LONGEST` times as long for a batch: it may be compiling a graph, on a
    slow machine.

    Args:
        seconds: without CPU time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: tuple[int, float] = (0, 0.0)
        self._idle = self._all = 0.0

    def fault(self, process: Process, elapsed: float) -> str | None:
        """Why the process is taken to hang; None if it is not.

        Args:
            process: is looked at regularly.
            elapsed: seconds since the last look. A second at most counts: if it took longer, this process stood still.
        """
        seen = process.answers, process.seconds_of_cpu()
        if not process.busy or seen[0] != self._last[0]:
            self._idle = self._all = 0.0
        else:
            self._all += min(elapsed, 1)
            self._idle = self._idle + min(elapsed, 1) if seen == self._last else 0.0
        self._last = seen
        if self._idle >= self._seconds:
            return f'has used no CPU time for {self._seconds:g} seconds, with sentences to tag'
        if self._all >= LONGEST * self._seconds:
            return f'has taken {LONGEST * self._seconds:g} seconds for a batch'
        return None


def lost() -> Refused:
    """What is said to those whose sentences it had."""
    return Refused(503, 'the process that tags has ended; another one is started, try again', 5)
