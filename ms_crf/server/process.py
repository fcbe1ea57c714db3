"""The process that tags, and how the server decides that this process hangs.

It is a process of its own, so that answers are read and written while graphs run, another model is loaded while this
one serves, and all memory of a model goes with it. It ends when the server does, however that ends.
"""

import contextlib
import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ms_crf.base.errors import CorpusError, OptionError, one_line
from ms_crf.base.watchers import Lines
from ms_crf.models.base import SentenceError
from ms_crf.server.batching import Task
from ms_crf.server.child import Child, Say, answer_all
from ms_crf.server.limits import Refused
from ms_crf.text.splitting import BLANK, CHARACTERS, WORDS

if TYPE_CHECKING:                # imported in the process itself: it takes long, and the server needs it not
    from ms_crf.tagging.tagger import Tagger

LENGTHS = (8, 24, 32, 40, 60, 90, 120)     # of sentences that graphs are compiled for before the first request
WORK = 'tags', 5
LONGEST = 20                           # times --stall: for a batch of a process that computes


class Settings(NamedTuple):
    """The first value that the process receives."""

    path: str                          # of the run, or of an exported graph
    device: str
    plugin: str | None                 # a Python file that registers kinds of model
    splitter: str | None               # in place of the model's
    nbest: int                         # likeliest taggings that the page asks for


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


def main() -> None:
    """A process receives its settings, then tasks with lists of sentences."""
    answer_all(_begin)


def _begin(settings: Settings, say: Say) -> tuple[About | str, Callable[[Any], list[Any]] | None]:
    """Loads the model; what is wrong with it takes the place of `About`."""
    try:
        tagger, about = _load(settings, say)
    except (OptionError, CorpusError) as error:
        return getattr(error, 'message', str(error)), None
    except OSError as error:
        return f'{error.filename}: {error.strerror or error}' if error.filename else str(error), None
    except Exception as error:                   # of a library or a plugin
        return one_line(f'{settings.path}: cannot be loaded: {type(error).__name__}: {error}'), None
    # What is there now stays: a collection of garbage that went through all of it would take a twentieth of a second.
    gc.collect()
    gc.freeze()
    return about, lambda batch: _tagged(tagger, *batch)


def _load(settings: Settings, say: Say) -> tuple['Tagger', About]:
    from ms_crf.models.opening import device_for, open_model, run_plugin
    from ms_crf.native import library
    from ms_crf.tagging.tagger import Tagger
    if settings.plugin is not None:
        run_plugin(settings.plugin)
    watcher = Lines(say)
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


def _tagged(tagger: 'Tagger', task: Task, sentences: Sequence[list[str]]) -> list[Any]:
    """For each sentence what the tagger says of it, without the tokens, or what is wrong with it."""
    try:
        return [one.prediction for one in tagger.tag(sentences, *task)]
    except Exception as error:                   # of a library, or of a model of one's own
        if len(sentences) > 1:                   # only what is wrong with one is said of it
            return [said for sentence in sentences for said in _tagged(tagger, task, [sentence])]
        if isinstance(error, (SentenceError, OptionError)):
            return [Refused(422, error.reason if isinstance(error, SentenceError) else str(error))]
        return [Refused(500, f'the sentence can not be tagged: {type(error).__name__}')]


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

    def fault(self, process: Child, elapsed: float) -> str | None:
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
