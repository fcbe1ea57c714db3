"""`train`: a run from files and options, by one process or by several that train together."""

import functools
import inspect
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from ms_crf.base import processes
from ms_crf.base.arguments import Arguments
from ms_crf.base.environment import choose_device
from ms_crf.base.errors import OptionError, argument, meant
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import Watcher
from ms_crf.models.base import kind_of
from ms_crf.models.inheritance import with_base
from ms_crf.models.opening import run_plugin
from ms_crf.native import library
from ms_crf.runs.arguments import TrainArguments
from ms_crf.runs.options import Options
from ms_crf.tagging.tagger import Run
from ms_crf.training import course, launcher
from ms_crf.training.watchers import Stopped, TrainingLines, TrainingWatcher
from ms_crf.training.workers import ALONE, Workers, is_scheduler, meet

F = TypeVar('F', bound=Callable[..., Any])
#: options that a resumed training takes
ON_RESUME = ('epochs', 'patience', 'learning_rate', 'encoder_lr', 'train', 'dev', 'test')


def takes_options(*excluded: str) -> Callable[[F], F]:
    """Returns a decorator of functions with the parameter `**options`, which stands for the fields of `Options`.

    Help and editors show all options by name. The function receives paths as text; an unknown name is a TypeError.

    Args:
        excluded: options that the function refuses itself.
    """
    def decorate(function: F) -> F:
        own = inspect.signature(function)
        named = {name: parameter for name, parameter in own.parameters.items() if name != 'options'}
        for entry in fields(Options):
            kind: Any = entry.type
            named.setdefault(entry.name, inspect.Parameter(
                entry.name, inspect.Parameter.KEYWORD_ONLY, default=entry.default,
                annotation=kind | None if entry.default is None else kind))

        @functools.wraps(function)
        def call(**arguments: Any) -> Any:
            for name in arguments:
                if name not in named and name not in excluded:
                    raise TypeError(f'{function.__name__}() got an unexpected keyword argument {name!r}'
                                    f'{meant(name, named)}')
            return function(**{name: os.fspath(value) if isinstance(value, os.PathLike) else value
                               for name, value in arguments.items()})

        call.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[parameter for name, parameter in named.items() if name not in excluded])
        return cast(F, call)
    return decorate


def named_options(config: PathLike | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of all `Options` that a file of options or a mapping names; the mapping wins.

    Args:
        config: JSON file of options, or None.
        given: arguments by name; names of other arguments are ignored.
    """
    named = Options.read(read_option_file(config), config) if config is not None else {}
    return {**named, **{name: value for name, value in given.items() if name in Options.__dataclass_fields__}}


def read_option_file(path: PathLike) -> Any:
    """The parsed JSON of a file; raises OptionError if it can't be read."""
    try:
        with open(path, encoding='utf-8-sig') as file:
            return json_of(file.read())
    except OSError as error:
        raise OptionError(f'{path}: cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise OptionError(f'{path}: expected UTF-8, got byte {error.object[error.start]:#04x}') from None
    except JSONFault as error:
        where = path if error.line is None else f'{path}:{error.line}'
        raise OptionError(f'{where}: expected a JSON object of options: {error}') from None


def new_options(named: Mapping[str, Any]) -> Options:
    """Returns the `Options` of a new run.

    Args:
        named: the options that were named, and their values.

    Raises:
        OptionError: one of them can't be, or has no effect beside the others.
        CorpusError: the run to begin with is missing or damaged.
    """
    record = {**Options().to_json(), **named}
    if 'train' in named:                                         # the sample's dev and test don't belong to it
        if 'dev' not in named:
            raise OptionError(f'{argument("train")} needs a {argument("dev")} beside it, tagged sentences to choose '
                              'the best epoch by, got none')
        record['test'] = named.get('test', '')
    options = Options(**record)
    if options.init:
        Arguments.check(options)                                 # the base is read by these values
        options = with_base(record, named)
    options.check()
    options.check_effects(named)
    return options


def resumed_options(given: TrainArguments, named: Mapping[str, Any]) -> Options:
    """Returns the `Options` of a resumed run: those in its config.json, with others in place of some.

    Args:
        given: all other arguments; `resume` is the run directory.
        named: the options that were named, and their values.
    """
    if given.config is not None or given.overwrite or set(named) - set(ON_RESUME):
        allowed = ', '.join(map(argument, ('device', *ON_RESUME)))
        raise OptionError(f'{argument("resume")} takes {allowed} and nothing else: the run has its own options')
    run = Run.open(given.resume)
    before, options = run.options, run.options_with(**named)
    if (options.encoder_lr > 0) != (before.encoder_lr > 0):
        raise OptionError(f'{argument("encoder_lr")} cannot be 0 before {argument("resume")} and more after it, or '
                          f'the other way round; the run has {before.encoder_lr:g}')
    options.check_effects(named)
    return options


@dataclass
class Trained:
    """The result of a training.

    Attributes:
        folder: the run directory.
        scores: what scores.json holds: `best_epoch`, `epochs`, and for 'dev' and 'test' the rates and a table. Under
            msrun only the first worker has scores.
        seconds: how long reading, training and scoring took.
    """

    folder: Path
    scores: dict[str, Any]
    seconds: float

    @cached_property
    def run(self) -> Run:
        """The run, opened; `run.tagger()` gives the tagger of the best epoch."""
        return Run.open(self.folder)


def train_run(given: TrainArguments, options: Mapping[str, Any], watcher: Watcher) -> Trained:
    """Trains one run, as `ms_crf.api.train` does without `seeds`; its documentation describes arguments and errors.

    Args:
        given: the arguments other than options, checked.
        options: the named options, and their values.
        watcher: receives lines and progress; a `TrainingWatcher` also receives the events of the training.
    """
    if given.plugin:
        run_plugin(given.plugin)
    events = watcher if isinstance(watcher, TrainingWatcher) else TrainingLines(watcher)
    events.asked_to_stop = False                 # of an earlier training with the same watcher
    with closing(events):
        return _train(given, options, events)


def _train(given: TrainArguments, options: Mapping[str, Any], watcher: TrainingWatcher) -> Trained:
    if is_scheduler():
        # Here the workers meet. It ends with the workers, and ignores Ctrl-C, which the workers receive themselves.
        with processes.handling_signals(lambda *_: None):
            meet()
        return Trained(Path(given.resume or options.get('save', Options.save)), {}, 0.0)
    named = named_options(given.config, options)
    chosen = resumed_options(given, named) if given.resume else new_options(named)
    kind = kind_of(chosen)
    if given.workers > 1:
        if not kind.in_steps:
            raise OptionError(f'{argument("workers")}: a model of kind {kind.name} is learned at once, by one process; '
                              'leave it away')
        if launcher.started_by_msrun():
            raise OptionError(f'{argument("workers")} means nothing under msrun, which says how many there are; leave '
                              'it away')
        return launcher.run(given, options, given.resume or chosen.save, watcher)
    if kind.uses_mindspore:
        device = choose_device(given.device, watcher)
        if chosen.precision == 'mixed' and device == 'CPU':
            raise OptionError(f'{argument("precision")} mixed needs a GPU or Ascend, got CPU; leave it away')
        library.prepare(device, watcher)
    elif given.device not in ('auto', 'CPU'):
        raise OptionError(f'{argument("model")} {kind.name} computes on the CPU, got {argument("device")} '
                          f'{given.device}; leave it away')
    workers = ALONE
    if launcher.started_by_msrun():
        if not kind.in_steps:
            raise OptionError(f'{argument("model")} {kind.name} is learned at once, by one process; call it without '
                              'msrun')
        workers = meet()
    return _run(given, named, chosen, watcher if workers.leads else TrainingWatcher(), workers)


def _run(given: TrainArguments, named: Mapping[str, Any], options: Options, watcher: TrainingWatcher,
         workers: Workers) -> Trained:
    """Trains in this process, alone or as one of several workers."""
    began = time.perf_counter()
    if given.resume:
        run = course.resume(given.resume, options, watcher, workers, named)
        watcher.say(f'going on after epoch {run.epoch}, step {run.step_in_epoch} of the next')
    else:
        run = course.start(options, watcher, given.overwrite, workers)
    try:
        with processes.handling_signals(watcher.ask_to_stop) if run.stoppable else nullcontext():
            scores = run.run()
    except Stopped:
        raise (Stopped(run.folder, run.directory.earlier) if workers.leads else Stopped()) from None
    return Trained(run.folder, scores, time.perf_counter() - began)
