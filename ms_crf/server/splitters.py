"""Splitting raw text in two processes: one process for short texts, one process for long texts.

The library of a splitter may hold Python's global lock for seconds. In separate processes it cannot block the server.
If no request waits for a text any more, its process has `GRACE` seconds to finish and is then killed. The next text
starts a new process.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable
from typing import Any

from ms_crf.base.errors import OptionError
from ms_crf.server.child import ChildProcess, Say, answer_all, ended_error, settle
from ms_crf.server.limits import Limits, RequestError
from ms_crf.server.reading import PreparedRequest, TagRequest, prepare_request, splitting_work
from ms_crf.server.schema import TEXT
from ms_crf.text.splitting import LIBRARY, splitter_named

SHORT = 5000                           # most characters of a request for the process of short texts
TOGETHER = 20_000                      # most characters of short texts that are sent together
WAITING = 32                           # most long texts that may wait
GRACE = 1.0                            # seconds to finish a text without a waiting request; loading takes as long
LOADING = 300.0                        # time limit for loading the library in a process, in seconds
PREPARING = 60.0                       # most seconds that the start of a server waits for loading
MARGIN = 5                             # seconds that are added to the time limit of a request
PROCESS = 'splitter', 1           # arguments of `ended_error`

#: a request with raw text, and the name of its splitter
Task = tuple[TagRequest, str]
#: the sentences of a request, or the error
Answer = PreparedRequest | RequestError


def main() -> None:
    """Runs a splitter process, which receives limits and the name of a splitter first, and then lists of tasks."""
    answer_all(_begin)


def _begin(setup: tuple[Limits, str], _: Say) -> tuple[None, Callable[[Any], list[Answer]]]:
    limits, library = setup
    with contextlib.suppress(OptionError):       # each request gets this error as its answer
        splitter_named(library)

    def answer(tasks: list[Task]) -> list[Answer]:
        _allow(limits.timeout + MARGIN)
        answers = [_answer(*task, limits) for task in tasks]
        _allow(0)
        return answers

    return None, answer


def _answer(request: TagRequest, name: str, limits: Limits) -> Answer:
    """Returns the sentences of a request with raw text, or the error."""
    try:
        return prepare_request(request, lambda: splitter_named(name), limits)
    except RequestError as error:
        return error
    except OptionError as error:                 # the library of the splitter is not installed
        return RequestError(422, str(error))
    except Exception as error:                   # from a library
        return RequestError(500, f'cannot split the text: {type(error).__name__}')


def _allow(seconds: float) -> None:
    """Sets a timer of the system that ends this process after `seconds`; 0 removes the timer.

    The timer matters only if the server was killed. Otherwise the server kills the process earlier.
    """
    if hasattr(signal, 'setitimer'):
        signal.setitimer(signal.ITIMER_REAL, seconds)


class Splitters:
    """The two splitter processes, for short and for long texts.

    Args:
        limits: limits of requests.
    """

    def __init__(self, limits: Limits) -> None:
        self._short, self._long = SplitterProcess(limits, TOGETHER), SplitterProcess(limits, 0)

    async def split(self, request: TagRequest, splitter: str, library: str) -> PreparedRequest:
        """Returns the sentences of a request with raw text; raises RequestError if it is invalid or too many wait.

        Args:
            request: the request.
            splitter: name of the splitter for the request.
            library: name of the splitter of the model, which the process loads before the first text.
        """
        short = splitting_work(request) <= SHORT
        if not short and len(self._long.texts) >= WAITING:
            raise RequestError(503, 'too many long texts wait; try again', 1)
        return await (self._short if short else self._long).split((request, splitter), library)

    async def prepare(self, library: str) -> None:
        """Starts the process of short texts if its splitter needs a library, and waits until the library is loaded."""
        if library.startswith(LIBRARY):
            with contextlib.suppress(RequestError, asyncio.TimeoutError):
                await asyncio.wait_for(self.split(TagRequest(TEXT, '', None, 0, None), library, library), PREPARING)

    def processes(self) -> list[tuple[str, int]]:
        """Returns names and process ids of the running processes."""
        return [(name, process.child.pid)
                for name, process in (('splitter', self._short), ('long_splitter', self._long))
                if process.child is not None]

    async def close(self) -> None:
        """Ends both processes, even if they are busy."""
        await asyncio.gather(self._short.close(), self._long.close())


class _Text:
    """A request that waits to be split; `done` is the future of its sentences."""

    def __init__(self, task: Task, library: str) -> None:
        self.task, self.library, self.work = task, library, splitting_work(task[0])
        self.done: asyncio.Future[PreparedRequest] = asyncio.get_running_loop().create_future()


class SplitterProcess:
    """A process that splits texts in the order of arrival. It starts with the first text.

    Args:
        limits: limits of requests.
        together: most characters of texts that are sent together; a longer text is sent alone.

    Attributes:
        texts: the texts that wait for the process.
        child: the process; None if it is not running.
    """

    def __init__(self, limits: Limits, together: int) -> None:
        self._limits, self._together = limits, together
        self.texts: deque[_Text] = deque()
        self._arrival = asyncio.Event()
        self._runner: asyncio.Future[None] | None = None
        self.child: ChildProcess | None = None
        self._library = ''                       # name of the splitter that the process has loaded

    async def split(self, task: Task, library: str) -> PreparedRequest:
        """Returns the sentences of a request; may be cancelled."""
        text = _Text(task, library)
        self.texts.append(text)
        self._arrival.set()
        if self._runner is None:
            self._runner = asyncio.ensure_future(self._run())
        try:
            return await text.done
        finally:
            with contextlib.suppress(ValueError):                # the text was already sent
                self.texts.remove(text)

    async def _run(self) -> None:
        """Sends batches of texts to the process and delivers the answers, until it is cancelled."""
        while True:
            batch = await self._batch()
            try:
                answers = await self._answers(batch)
            except Exception:                    # the process cannot start, has ended, or hangs
                answers = [ended_error(*PROCESS) for _ in batch]
                await self._end()
            for text, answer in zip(batch, answers, strict=True):
                settle(text.done, answer)

    async def _batch(self) -> list[_Text]:
        """Waits for a text and removes it from the queue, together with the following texts that fit into the batch."""
        while not self.texts:
            self._arrival.clear()
            await self._arrival.wait()
        batch, size = [self.texts.popleft()], 0
        while self.texts:
            size += batch[-1].work
            if size + self.texts[0].work > self._together or self.texts[0].library != batch[0].library:
                break
            batch.append(self.texts.popleft())
        return batch

    async def _answers(self, batch: list[_Text]) -> list[Answer]:
        """Returns the answers to a batch; raises an error if the process ends or no request waits any more."""
        child = await self._ready(batch[0].library)
        answers = child.ask([text.task for text in batch])
        leaving = asyncio.ensure_future(asyncio.wait([text.done for text in batch]))
        try:
            await asyncio.wait([answers, leaving], return_when=asyncio.FIRST_COMPLETED)
            return await asyncio.wait_for(answers, GRACE)
        finally:
            answers.cancel()
            leaving.cancel()

    async def _ready(self, library: str) -> ChildProcess:
        """Returns the process with its library loaded; raises an error if the process ends or hangs while loading."""
        if self.child is None or self.child.ended.is_set() or self._library != library:
            await self._end()
            self.child, self._library = await ChildProcess.start('ms_crf.server.splitters', PROCESS), library
            await asyncio.wait_for(self.child.ask((self._limits, library)), LOADING)
        return self.child

    async def _end(self) -> None:
        child, self.child = self.child, None
        if child is not None:
            await child.close(0)

    async def close(self) -> None:
        """Ends the process, even if it is busy."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self._end()
