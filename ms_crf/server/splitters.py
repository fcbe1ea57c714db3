"""Raw text on its way to the processes that split it: one for short texts, one for long ones.

A splitter's library may hold Python's lock for seconds, in which no other thread of its process runs. Neither process
shares that lock with the server, so the server answers whatever they do. A text that nobody waits for is not split: its
process is killed, unless it finishes within `GRACE`, and the next text starts another one.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable
from typing import Any

from ms_crf.base.errors import OptionError
from ms_crf.server.child import Child, Say, answer_all, lost, settle
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.reading import Asked, Wanted, wanted, work
from ms_crf.server.schema import TEXT
from ms_crf.text.splitting import LIBRARY, splitter_named

SHORT = 5000                           # characters of a request for the process of short texts
TOGETHER = 20_000                      # characters of short texts that are sent together
WAITING = 32                           # long texts that may wait
GRACE = 1.0                            # seconds for what nobody waits for; to load a library takes as long
LOADING = 300.0                        # seconds in which a process has to load its library
PREPARING = 60.0                       # seconds that the start of a server waits for that
MARGIN = 5                             # seconds after the limit of a request
WORK = 'splits text', 1

#: a request with raw text, and the name of its splitter
Task = tuple[Asked, str]
#: the sentences of a request, or what is wrong with it
Answer = Wanted | Refused


def main() -> None:
    """A process receives the limits of requests and the name of a splitter to load, then lists of tasks."""
    answer_all(_begin)


def _begin(setup: tuple[Limits, str], _: Say) -> tuple[None, Callable[[Any], list[Answer]]]:
    limits, library = setup
    with contextlib.suppress(OptionError):       # the answer to each request will mention it
        splitter_named(library)

    def answer(tasks: list[Task]) -> list[Answer]:
        _allow(limits.timeout + MARGIN)
        answers = [_answer(*task, limits) for task in tasks]
        _allow(0)
        return answers

    return None, answer


def _answer(question: Asked, name: str, limits: Limits) -> Answer:
    """The sentences of a request with raw text, or what is wrong with it."""
    try:
        return wanted(question, lambda: splitter_named(name), limits)
    except Refused as error:
        return error
    except OptionError as error:                 # the library of the splitter is not installed
        return Refused(422, str(error))
    except Exception as error:                   # of a library
        return Refused(500, f'the text cannot be split: {type(error).__name__}')


def _allow(seconds: float) -> None:
    """Has the system end this process after so many seconds, whatever it does then; 0 for no limit.

    The server kills the process sooner, unless the server itself was killed.
    """
    if hasattr(signal, 'setitimer'):
        signal.setitimer(signal.ITIMER_REAL, seconds)


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
        short = work(question) <= SHORT
        if not short and len(self._long.texts) >= WAITING:
            raise Refused(503, 'expected room for another long text, got none: too many wait; try again', 1)
        return await (self._short if short else self._long).split((question, splitter), library)

    async def prepare(self, library: str) -> None:
        """Starts the process of short texts if its library takes long to load, and waits for it."""
        if library.startswith(LIBRARY):
            with contextlib.suppress(Refused, asyncio.TimeoutError):
                await asyncio.wait_for(self.split(Asked(TEXT, '', None, 0, None), library, library), PREPARING)

    def processes(self) -> list[tuple[str, int]]:
        """The names and process ids of the processes that run."""
        return [(name, lane.child.pid) for name, lane in (('splitter', self._short), ('long_splitter', self._long))
                if lane.child is not None]

    async def close(self) -> None:
        """Ends both processes, whatever they do."""
        await asyncio.gather(self._short.close(), self._long.close())


class _Text:
    """A request that waits for its sentences."""

    def __init__(self, task: Task, library: str) -> None:
        self.task, self.library, self.work = task, library, work(task[0])
        self.done: asyncio.Future[Wanted] = asyncio.get_running_loop().create_future()


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
            try:
                answers = await self._answers(batch)
            except Exception:                    # the system starts no more processes, or the process ends or hangs
                answers = [lost(*WORK) for _ in batch]
                await self._end()
            for text, answer in zip(batch, answers, strict=True):
                settle(text.done, answer)

    async def _batch(self) -> list[_Text]:
        """The next text, and those behind it that are sent with it."""
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
        """The answers to texts; raises an error if the process has ended, or if nobody waits for it any more."""
        child = await self._ready(batch[0].library)
        answers = child.ask([text.task for text in batch])
        leaving = asyncio.ensure_future(asyncio.wait([text.done for text in batch]))
        try:
            await asyncio.wait([answers, leaving], return_when=asyncio.FIRST_COMPLETED)
            return await asyncio.wait_for(answers, GRACE)
        finally:
            answers.cancel()
            leaving.cancel()

    async def _ready(self, library: str) -> Child:
        """The process, once it has loaded a library; raises an error if it ends, or hangs, before."""
        if self.child is None or self.child.ended.is_set() or self._library != library:
            await self._end()
            self.child, self._library = await Child.start('ms_crf.server.splitters', WORK), library
            await asyncio.wait_for(self.child.ask((self._limits, library)), LOADING)
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
