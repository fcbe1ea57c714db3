"""The model process, and the check whether it hangs.

The model runs in a separate process. So the server reads and writes requests while graphs run, a new model can load
while the old model answers, and the system frees all memory of a model when its process ends. The process ends when its
pipe to the server closes, even if the server was killed.
"""

import contextlib
import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ms_crf.base.errors import CorpusError, OptionError, one_line
from ms_crf.base.watchers import Lines
from ms_crf.models.base import SentenceError
from ms_crf.server.batching import Task
from ms_crf.server.child import ChildProcess, Say, answer_all
from ms_crf.server.limits import RequestError
from ms_crf.text.splitting import BLANK, CHARACTERS, WORDS

if TYPE_CHECKING:                # only the model process imports it: the import is slow and the server does not need it
    from ms_crf.tagging.tagger import Tagger

LENGTHS = (8, 24, 32, 40, 60, 90, 120)     # sentence lengths whose graphs are compiled before the first request
PROCESS = 'model', 5                   # arguments of `ended_error`
LONGEST = 20                           # factor of --stall for a batch in a process that uses CPU time


class Settings(NamedTuple):
    """The first value that the model process receives."""

    path: str                          # path of the run or of the exported graph
    device: str
    plugin: str | None                 # Python file that registers model types
    splitter: str | None               # None: the splitter of the model
    nbest: int                         # size of the n-best lists to prepare graphs for


class ModelInfo(NamedTuple):
    """Type, tags and features of a model. The model process sends this when it is ready."""

    kind: str
    scheme: str
    tags: list[str]
    of_characters: bool
    splitter: str
    gives_confidences: bool
    gives_nbest: bool

    @property
    def splitters(self) -> list[str]:
        """Splitters that a request may name: the splitter of the model, and all splitters that need no library."""
        return list(dict.fromkeys((self.splitter, BLANK, CHARACTERS, WORDS)))


def main() -> None:
    """Runs the model process, which receives its settings first, and then a task and sentences for each batch."""
    answer_all(_begin)


def _begin(settings: Settings, say: Say) -> tuple[ModelInfo | str, Callable[[Any], list[Any]] | None]:
    """Loads the model; returns its information, or an error message, and the function that tags batches."""
    try:
        tagger, info = _load(settings, say)
    except (OptionError, CorpusError) as error:
        return getattr(error, 'message', str(error)), None
    except OSError as error:
        return f'{error.filename}: {error.strerror or error}' if error.filename else str(error), None
    except Exception as error:                   # from a library or a plugin
        return one_line(f'{settings.path}: cannot load the model: {type(error).__name__}: {error}'), None
    # All objects so far stay in memory. Without freeze, each garbage collection would check them in 0.05 seconds.
    gc.collect()
    gc.freeze()
    return info, lambda batch: _tagged(tagger, *batch)


def _load(settings: Settings, say: Say) -> tuple['Tagger', ModelInfo]:
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
    info = ModelInfo(model.kind_name, tagger.scheme, list(tagger.tags), tagger.of_characters,
                  settings.splitter or tagger.splitter, tagger.gives_confidences, tagger.gives_nbest)
    _warm_up(tagger, settings.nbest if info.gives_nbest else 0)
    return tagger, info


def _warm_up(tagger: 'Tagger', nbest: int) -> None:
    """Compiles the graphs that most requests need."""
    if not tagger.decoder.runs_graphs:
        return
    words = ['a', 'incomprehensible'] + [f'{number}' for number in range(2500)]
    for length in LENGTHS:
        sentences = [words[:length]]
        with contextlib.suppress(SentenceError):                 # an exported graph may have a shorter maximum length
            tagger.tag(sentences, False)
            if tagger.gives_confidences:
                tagger.tag(sentences)
            if nbest and length <= 40:
                tagger.tag(sentences, nbest=nbest)
    for length, many in ((8, words[:600]), *((length, words) for length in LENGTHS if length <= 40)):
        with contextlib.suppress(SentenceError):                 # batches with many words use different graphs
            tagger.tag([many[first:first + length] for first in range(0, len(many), length)])


def _tagged(tagger: 'Tagger', task: Task, sentences: Sequence[list[str]]) -> list[Any]:
    """Returns the prediction of each sentence without its tokens, or a RequestError for an invalid sentence."""
    try:
        return [sentence.prediction for sentence in tagger.tag(sentences, *task)]
    except Exception as error:                   # from a library or a custom model
        if len(sentences) > 1:                   # tags each sentence alone, so that only the invalid sentence fails
            return [prediction for sentence in sentences for prediction in _tagged(tagger, task, [sentence])]
        if isinstance(error, (SentenceError, OptionError)):
            return [RequestError(422, error.reason if isinstance(error, SentenceError) else str(error))]
        return [RequestError(500, f'cannot tag the sentence: {type(error).__name__}')]


class HangDetector:
    """Decides whether a model process hangs.

    A process hangs if it has sentences to tag and uses no CPU time for `seconds`, for example because it is suspended
    or in a deadlock. A process that uses CPU time may take `LONGEST` times as long for a batch, because it may be
    compiling a graph on a slow machine.

    Args:
        seconds: time limit without CPU time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: tuple[int, float] = (0, 0.0)
        self._idle = self._busy = 0.0

    def fault(self, process: ChildProcess, elapsed: float) -> str | None:
        """Returns the reason if the process hangs, otherwise None. Must be called regularly.

        Args:
            process: the model process.
            elapsed: seconds since the last call. At most one second counts, because a longer pause means that the
                server itself was suspended.
        """
        state = process.answers, process.seconds_of_cpu()
        if not process.busy or state[0] != self._last[0]:
            self._idle = self._busy = 0.0
        else:
            self._busy += min(elapsed, 1)
            self._idle = self._idle + min(elapsed, 1) if state == self._last else 0.0
        self._last = state
        if self._idle >= self._seconds:
            return f'used no CPU time for {self._seconds:g} seconds although it had sentences to tag'
        if self._busy >= LONGEST * self._seconds:
            return f'needed more than {LONGEST * self._seconds:g} seconds for a batch'
        return None
