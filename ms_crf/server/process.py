"""The process that tags, and the end of it that the server holds: its start, batches there and back, when it hangs.

It is a process of its own, so that answers are read and written while graphs run, another model is loaded while this
one serves, and all memory of a model goes with it. It ends when the server does, however that ends.
"""

import asyncio
import contextlib
import gc
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ms_crf.base.errors import CorpusError, OptionError, one_line
from ms_crf.base.watchers import Lines
from ms_crf.server.batching import Task
from ms_crf.server.child import Child, connect
from ms_crf.server.limits import Refused
from ms_crf.text.splitting import BLANK, CHARACTERS, WORDS

import psutil

if TYPE_CHECKING:                # imported in the process itself: it takes long, and the server needs it not
    from ms_crf.tagging.tagger import Tagger

LENGTHS = (8, 24, 32, 40, 60, 90, 120)     # of sentences that graphs are compiled for before the first request


class Settings(NamedTuple):
    """What the process is told at first."""

    path: str                          # of the run, or of an exported graph
    device: str
    plugin: str | None                 # a Python file that registers kinds of model
    splitter: str | None               # in place of the model's
    nbest: int                         # likeliest taggings that the page asks for


class Line(NamedTuple):
    """A line for the user, while the model is loaded."""

    text: str


class About(NamedTuple):
    """What the process says of its model when it is ready."""

    kind: str
    scheme: str
    tags: list[str]
    of_characters: bool
    splitter: str
    gives_confidences: bool
    gives_nbest: bool

    @property
    def splitters(self) -> list[str]:
        """The splitters that a request may name: those that need no library, and the model's."""
        return list(dict.fromkeys((self.splitter, BLANK, CHARACTERS, WORDS)))


def _load(settings: Settings, say: Callable[[object], None]) -> tuple['Tagger', About]:
    from ms_crf.models import plugins
    from ms_crf.models.opening import device_for, open_model
    from ms_crf.native import library
    from ms_crf.tagging.tagger import Tagger
    if settings.plugin is not None:
        plugins.load(settings.plugin)
    watcher = Lines(lambda text: say(Line(text)))
    model = open_model(settings.path)
    device = device_for(settings.device, model, watcher=watcher)
    if device is not None:
        library.prepare(device, watcher)
    tagger = Tagger.load(model)
    about = About(model.kind_name, tagger.scheme, list(tagger.tags), tagger.of_characters,
                  settings.splitter or tagger.splitter, tagger.gives_confidences, tagger.gives_nbest)
    _warm_up(tagger, settings.nbest if about.gives_nbest else 0)
    return tagger, about


def _warm_up(tagger: 'Tagger', nbest: int) -> None:
    """Compiles the graphs that most requests will need."""
    if not tagger.decoder.runs_graphs:
        return
    from ms_crf.models.base import SentenceError
    words = ['a', 'incomprehensible'] + [f'{number}' for number in range(2500)]
    for length in LENGTHS:
        sentences = [words[:length]]
        with contextlib.suppress(SentenceError):                 # a graph may take shorter ones only
            tagger.tag(sentences, False)
            if tagger.gives_confidences:
                tagger.tag(sentences)
            if nbest and length <= 40:
                tagger.tag(sentences, nbest=nbest)
    for length, many in ((8, words[:600]), *((length, words) for length in LENGTHS if length <= 40)):
        with contextlib.suppress(SentenceError):                 # many words are read by other graphs than a few
            tagger.tag([many[first:first + length] for first in range(0, len(many), length)])


def _tagged(tagger: 'Tagger', task: tuple[bool | None, int], sentences: Sequence[list[str]]) -> list[Any]:
    """For each sentence what the tagger says of it, without the tokens, or status and message of what is wrong."""
    from ms_crf.models.base import SentenceError
    try:
        return [one.prediction for one in tagger.tag(sentences, *task)]
    except Exception as error:                   # of a library, or of a model of one's own
        if len(sentences) > 1:                   # only what is wrong with one is said of it
            return [said for sentence in sentences for said in _tagged(tagger, task, [sentence])]
        if isinstance(error, (SentenceError, OptionError)):
            return [(422, error.reason if isinstance(error, SentenceError) else str(error))]
        return [(500, f'the sentence can not be tagged: {type(error).__name__}')]


def main() -> None:
    """Serves the frames of standard input on standard output."""
    frames, say = connect()
    settings = next(frames, None)
    if settings is None:
        return
    try:
        tagger, about = _load(settings, say)
    except OptionError as error:
        say(error.message)
        return
    except CorpusError as error:
        say(str(error))
        return
    except OSError as error:
        say(f'{error.filename}: {error.strerror or error}' if error.filename else str(error))
        return
    except Exception as error:                   # of a library or a plugin
        say(one_line(f'{settings.path}: can not be loaded: {type(error).__name__}: {error}'))
        return
    # What is there now stays: a collection of garbage that went through all of it would take a twentieth of a second.
    gc.collect()
    gc.freeze()
    try:
        say(about)
        for task, sentences in frames:
            say(_tagged(tagger, task, sentences))
    except BrokenPipeError:                      # the server is gone
        pass
    os._exit(0)                                  # without the seconds that MindSpore takes to end


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
        child = await Child.start('ms_crf.server.process')
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
