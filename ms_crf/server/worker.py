"""The process that tags, which the server starts and talks to in frames.

It is a process of its own, so that answers are read and written while graphs run, another model is loaded while this
one serves, and all memory of a model goes with it. It ends when the server does, however that ends.
"""

import contextlib
import gc
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ms_crf.base.watchers import Lines
from ms_crf.server.frames import connect
from ms_crf.text.splitting import BLANK, CHARACTERS, WORDS

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
    from ms_crf.models.opening import device_for, open_model, run_plugin
    from ms_crf.native import library
    from ms_crf.tagging.tagger import Tagger
    if settings.plugin is not None:
        run_plugin(settings.plugin)
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
    from ms_crf.base.errors import OptionError
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
    from ms_crf.base.errors import CorpusError, OptionError, one_line
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
