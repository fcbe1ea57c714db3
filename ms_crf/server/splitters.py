"""Raw text on its way to the processes that split it: one for short texts, one for long ones.

A splitter's library may hold Python's lock for seconds, in which no other thread of its process runs. Neither process
shares that lock with the server, so the server answers whatever they do. A text that nobody waits for is not split: its
process is killed, unless it finishes within `GRACE`, and the next text starts another one.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ms_crf.base.errors import OptionError
from ms_crf.server.child import Child, connect
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.reading import Asked, Wanted, wanted, work
from ms_crf.server.schema import TEXT
from ms_crf.text.splitting import LIBRARY, Splitter, splitter_named

MARGIN = 5                             # seconds after the limit of a request


class Setup(NamedTuple):
    """The first frame that the process receives."""

    limits: Limits
    splitter: str                      # is loaded before the first text


class Task(NamedTuple):
    """A request with raw text."""

    question: Asked
    splitter: str


#: the sentences of a request, or status and message of what is wrong with it
Answer = Wanted | tuple[int, str]


def answered(task: Task, limits: Limits) -> Answer:
    """The sentences of a request with raw text, or what is wrong with it."""
    def splitter() -> Splitter:
        try:
            return splitter_named(task.splitter)
        except OptionError as error:             # its library is not installed
            raise Refused(422, str(error)) from None

    try:
        return wanted(task.question, splitter, limits)
    except Refused as error:
        return error.status, error.message
    except Exception as error:                   # of a library
        return 500, f'the text cannot be split: {type(error).__name__}'


def _allow(seconds: float) -> None:
    """Has the system end this process after so many seconds, whatever it does then; 0 for no limit.

    The server kills the process sooner, unless the server itself was killed.
    """
    if hasattr(signal, 'setitimer'):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def main() -> None:
    """Answers the frames of standard input, each a list of tasks, on standard output."""
    frames, answer = connect()
    setup: Setup | None = next(frames, None)
    if setup is None:
        return
    with contextlib.suppress(OptionError):       # the answer to each request will mention it
        splitter_named(setup.splitter)
    with contextlib.suppress(BrokenPipeError):   # the server has ended
        answer(True)
        for tasks in frames:
            _allow(setup.limits.timeout + MARGIN)
            answers = [answered(task, setup.limits) for task in tasks]
            _allow(0)
            answer(answers)


SHORT = 5000                           # characters of a request for the process of short texts
TOGETHER = 20_000                      # characters of short texts that are sent together
WAITING = 32                           # long texts that may wait
GRACE = 1.0                            # seconds for what nobody waits for; to load a library takes as long
LOADING = 300.0                        # seconds in which a process has to load its library
PREPARING = 60.0                       # seconds that the start of a server waits for that


class Splitters:
    """Both processes.

    Args:
        limits: of requests.
    """

    def __init__(self, limits: Limits) -> None:
        self._short, self._long = Lane(limits, TOGETHER), Lane(limits, 0)

    async def split(self, question: Asked, splitter: str, library: str) -> Wanted:
        """The sentences of a request with raw text; raises Refused if it is not allowed, or if too many wait.

        Args:
            question: the request.
            splitter: the name of its splitter.
            library: the name of the model's splitter, which is loaded before the first text.
        """
        if work(question) <= SHORT:
            return await self._short.split(Task(question, splitter), library)
        if len(self._long.texts) >= WAITING:
            raise Refused(503, 'expected room for another long text, got none: too many wait; try again', 1)
        return await self._long.split(Task(question, splitter), library)

    async def prepare(self, library: str) -> None:
        """Starts the process of short texts if its library takes long to load, and waits for it."""
        if library.startswith(LIBRARY):
            empty = Task(Asked(TEXT, '', None, 0, None), library)
            with contextlib.suppress(Refused, asyncio.TimeoutError):
                await asyncio.wait_for(self._short.split(empty, library), PREPARING)

    def processes(self) -> Iterator[tuple[str, int]]:
        """The names and process ids of the processes that run."""
        for name, lane in (('splitter', self._short), ('long_splitter', self._long)):
            if lane.child is not None:
                yield name, lane.child.pid

    async def close(self) -> None:
        """Ends both processes, whatever they do."""
        await asyncio.gather(self._short.close(), self._long.close())


class _Text:
    """A request that waits for its sentences."""

    def __init__(self, task: Task, library: str) -> None:
        self.task, self.library, self.work = task, library, work(task.question)
        self.done: asyncio.Future[Wanted] = asyncio.get_running_loop().create_future()

    def answer(self, answer: Answer) -> None:
        if self.done.done():
            return
        if isinstance(answer, Wanted):
            self.done.set_result(answer)
        else:
            self.done.set_exception(Refused(*answer))

    def fail(self) -> None:
        if not self.done.done():
            self.done.set_exception(Refused(
                503, 'the process that splits text has ended; another one is started, try again', 1))


class Lane:
    """Texts that one process splits in their order.

    Args:
        limits: of requests.
        together: characters of texts that are sent together; a longer text is sent alone.

    Attributes:
        texts: those that wait for the process.
        child: the process; None while there is none.
    """

    def __init__(self, limits: Limits, together: int) -> None:
        self._limits, self._together = limits, together
        self.texts: deque[_Text] = deque()
        self._arrival = asyncio.Event()
        self._runner: asyncio.Future[None] | None = None
        self.child: Child | None = None
        self._library = ''                       # that the process has loaded

    async def split(self, task: Task, library: str) -> Wanted:
        """The sentences of a request; it may be cancelled."""
        text = _Text(task, library)
        self.texts.append(text)
        self._arrival.set()
        if self._runner is None:
            self._runner = asyncio.ensure_future(self._run())
        try:
            return await text.done
        finally:
            with contextlib.suppress(ValueError):                # it has been sent
                self.texts.remove(text)

    async def _run(self) -> None:
        """Has one batch of texts split after the other."""
        while True:
            batch = await self._batch()
            answers = None
            with contextlib.suppress(Exception): # the system starts no more processes, or a pipe brings nonsense
                answers = await self._answers(batch)
            if answers is None:
                await self._end()
                for text in batch:
                    text.fail()
            else:
                for text, answer in zip(batch, answers, strict=True):
                    text.answer(answer)

    async def _batch(self) -> list[_Text]:
        """The next text, and those behind it that are sent with it."""
        batch, size = list[_Text](), 0
        while not batch:
            while self.texts:
                text = self.texts[0]
                if batch and (size + text.work > self._together or text.library != batch[0].library):
                    break
                batch.append(self.texts.popleft())
                size += text.work
            if not batch:
                self._arrival.clear()
                await self._arrival.wait()
        return batch

    async def _answers(self, batch: list[_Text]) -> list[Answer] | None:
        """The answers to texts; None if the process has ended, or if nobody waits for them any more."""
        child = await self._ready(batch[0].library)
        if child is None:
            return None
        child.send([text.task for text in batch])
        answers = asyncio.ensure_future(child.receive())
        leaving = asyncio.ensure_future(asyncio.wait([text.done for text in batch]))
        try:
            await asyncio.wait([answers, leaving], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([answers], timeout=GRACE)
            return answers.result() if answers.done() else None
        finally:
            answers.cancel()
            leaving.cancel()

    async def _ready(self, library: str) -> Child | None:
        """The process, once it has loaded a library; None if it ends, or hangs, before."""
        if self.child is not None and (self.child.ended or self._library != library):
            await self._end()
        if self.child is None:
            self.child, self._library = await Child.start('ms_crf.server.splitters'), library
            self.child.send(Setup(self._limits, library))
            try:
                return self.child if await asyncio.wait_for(self.child.receive(), LOADING) else None
            except asyncio.TimeoutError:
                return None
        return self.child

    async def _end(self) -> None:
        child, self.child = self.child, None
        if child is not None:
            await child.close(0)

    async def close(self) -> None:
        """Ends the process, whatever it does."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self._end()
