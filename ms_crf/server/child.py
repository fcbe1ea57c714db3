"""Child processes of the server, and the values that both sides send each other through pipes."""

import asyncio
import contextlib
import os
import pickle
import signal
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ms_crf.base import processes
from ms_crf.server.limits import Refused

import psutil

LENGTH = struct.Struct('<Q')           # in front of each value that a child process sends
Say = Callable[[str], object]


def lost(work: str, retry: int) -> Refused:
    """The error of a request that a process had when it ended.

    Args:
        work: what the process does.
        retry: seconds after which the request may be tried again.
    """
    return Refused(503, f'the process that {work} has ended; another one is started, try again', retry)


def settle(future: 'asyncio.Future[Any]', result: object) -> None:
    """Gives a future its result, or raises the result there if it is an exception; a future that is done stays."""
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


class Line(NamedTuple):
    """A line for the user, which a child process may send before its first answer."""

    text: str


class Child:
    """A child process, which answers values in their order; `Child.start` starts one.

    Args:
        process: the process, with pipes to its standard input and output.
        work: the arguments of `lost`.
        say: is called with each line for the user.

    Attributes:
        answers: the number of values that the process has answered.
        ended: is set once the process has ended.
    """

    def __init__(self, process: asyncio.subprocess.Process, work: tuple[str, int], say: Say) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._work, self._say = work, say
        self._asked: deque[asyncio.Future[Any]] = deque()
        self.answers, self.ended = 0, asyncio.Event()
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, module: str, work: tuple[str, int], say: Say = lambda _: None) -> 'Child':
        """Starts the function `main` of a module in a process of its own."""
        # Not with -m: the classes of the module would belong to __main__, and the server could not unpickle them.
        program = processes.command(f'from {module} import main; main()')
        return cls(await processes.start_with_pipes(program), work, say)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        """Whether the process has values to answer."""
        return bool(self._asked)

    def ask(self, value: object) -> 'asyncio.Future[Any]':
        """Sends a value, without waiting until the process reads it.

        Returns:
            A future of the answer, which raises Refused if the process ends before it answers.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            settle(future, lost(*self._work))
        else:
            self._asked.append(future)
            self._input.write(pickle.dumps(value, 5))
        return future

    async def _read(self) -> None:
        with contextlib.suppress(Exception):                     # the process has ended, or its pipe brings nonsense
            while True:
                size, = LENGTH.unpack(await self._output.readexactly(LENGTH.size))
                answer = pickle.loads(await self._output.readexactly(size))
                if isinstance(answer, Line):
                    self._say(answer.text)
                    continue
                self.answers += 1
                settle(self._asked.popleft(), answer)
        self.ended.set()
        while self._asked:
            settle(self._asked.popleft(), lost(*self._work))

    def seconds_of_cpu(self) -> float:
        """The CPU time that the process has used, with the CPU time of its child processes that have ended."""
        with contextlib.suppress(psutil.Error):
            return sum(psutil.Process(self.pid).cpu_times()[:4])
        return 0.0

    def kill(self) -> None:
        """Ends the process at once, also while it is stopped."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self, seconds: float = 5) -> int:
        """Lets an idle process end, kills it after some seconds, or at once if it is busy; returns its exit status."""
        seconds = 0 if self.busy else seconds
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            return await asyncio.wait_for(self._process.wait(), seconds)
        except asyncio.TimeoutError:
            self.kill()
            return await self._process.wait()


def answer_all(begin: Callable[[Any, Say], tuple[object, Callable[[Any], object] | None]]) -> None:
    """The main function of a child process: answers the values that the server sends, until its input ends.

    Standard input and output carry the values. Whatever a library prints goes to standard error. The process ignores
    the signals of a terminal, which are meant for the server.

    Args:
        begin: is called with the first value and a function that shows the user a line; returns the answer, and the
            function that answers all later values, or None if the process is to end.
    """
    for number in processes.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)

    def send(value: object) -> None:
        data = pickle.dumps(value, 5)
        output.write(LENGTH.pack(len(data)) + data)
        output.flush()

    # The server has ended, perhaps while it wrote.
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        value, answer = begin(pickle.load(sys.stdin.buffer), lambda text: send(Line(text)))
        send(value)
        while answer is not None:
            send(answer(pickle.load(sys.stdin.buffer)))
    os._exit(0)                                  # without the seconds that MindSpore takes to end
