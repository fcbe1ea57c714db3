"""Child processes of the server. Server and child exchange pickled values through pipes."""

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
from ms_crf.server.limits import RequestError

import psutil

LENGTH = struct.Struct('<Q')           # the number of bytes, sent before each value of a child process
Say = Callable[[str], object]


def ended_error(name: str, retry: int) -> RequestError:
    """Returns the error of requests whose process ended before it answered.

    Args:
        name: name of the process, for the message.
        retry: seconds after which the client may try again.
    """
    return RequestError(503, f'the {name} process has ended; a new process starts, try again', retry)


def settle(future: 'asyncio.Future[Any]', result: object) -> None:
    """Sets the result of a future, or its exception if `result` is an exception; a future that is done stays."""
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


class UserMessage(NamedTuple):
    """A line for the user. A child process may send such lines before its first answer."""

    text: str


class ChildProcess:
    """A child process that answers values in the order in which they were sent. Use `ChildProcess.start`.

    Args:
        process: the process, with pipes to its standard input and output.
        name: the arguments of `ended_error`.
        say: is called with each line for the user.

    Attributes:
        answers: number of answers so far.
        ended: event that is set when the process has ended.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: tuple[str, int], say: Say) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._name, self._say = name, say
        self._pending: deque[asyncio.Future[Any]] = deque()
        self.answers, self.ended = 0, asyncio.Event()
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, module: str, name: tuple[str, int], say: Say = lambda _: None) -> 'ChildProcess':
        """Runs the function `main` of a module in a new process."""
        # With -m the classes of the module would belong to __main__, and the server could not unpickle them.
        program = processes.command(f'from {module} import main; main()')
        return cls(await processes.start_with_pipes(program), name, say)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        """Whether the process has values that it has not answered."""
        return bool(self._pending)

    def ask(self, value: object) -> 'asyncio.Future[Any]':
        """Sends a value and returns a future of the answer, without waiting.

        The future raises RequestError if the process ends before it answers.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            settle(future, ended_error(*self._name))
        else:
            self._pending.append(future)
            self._input.write(pickle.dumps(value, 5))
        return future

    async def _read(self) -> None:
        with contextlib.suppress(Exception):                     # the process has ended, or its output is invalid
            while True:
                size, = LENGTH.unpack(await self._output.readexactly(LENGTH.size))
                answer = pickle.loads(await self._output.readexactly(size))
                if isinstance(answer, UserMessage):
                    self._say(answer.text)
                    continue
                self.answers += 1
                settle(self._pending.popleft(), answer)
        self.ended.set()
        while self._pending:
            settle(self._pending.popleft(), ended_error(*self._name))

    def seconds_of_cpu(self) -> float:
        """Returns the CPU time of the process and of its child processes that have ended; 0 if it is unknown."""
        with contextlib.suppress(psutil.Error):
            return sum(psutil.Process(self.pid).cpu_times()[:4])
        return 0.0

    def kill(self) -> None:
        """Kills the process, even if it is suspended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self, seconds: float = 5) -> int:
        """Ends the process and returns its exit status.

        An idle process has `seconds` to exit before it is killed. A busy process is killed at once.
        """
        seconds = 0 if self.busy else seconds
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            return await asyncio.wait_for(self._process.wait(), seconds)
        except asyncio.TimeoutError:
            self.kill()
            return await self._process.wait()


def answer_all(begin: Callable[[Any, Say], tuple[object, Callable[[Any], object] | None]]) -> None:
    """Answers the values that the server sends, until the input ends. Child processes call this as main function.

    Standard input and output carry the values. Output of libraries goes to standard error. The process ignores signals
    of the terminal, because the server handles them.

    Args:
        begin: takes the first value and a function that shows a line to the user. Returns the first answer, and the
            function that answers all later values. The function is None if the process should end.
    """
    for number in processes.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)

    def send(value: object) -> None:
        data = pickle.dumps(value, 5)
        output.write(LENGTH.pack(len(data)) + data)
        output.flush()

    # These errors mean that the server has ended.
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        value, answer = begin(pickle.load(sys.stdin.buffer), lambda text: send(UserMessage(text)))
        send(value)
        while answer is not None:
            send(answer(pickle.load(sys.stdin.buffer)))
    os._exit(0)                                  # skips the shutdown of MindSpore, which takes seconds
