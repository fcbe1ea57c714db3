"""Trains one run: reads and checks the options, chooses the device, and trains in this process or with workers."""

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
from ms_crf.training.workers import ALONE, Workers, is_scheduler, join

F = TypeVar('F', bound=Callable[..., Any])
#: options that can change when a training is resumed
ON_RESUME = ('epochs', 'patience', 'learning_rate', 'encoder_lr', 'train', 'dev', 'test')


def takes_options(*excluded: str) -> Callable[[F], F]:
    """Returns a decorator for functions whose parameter `**options` accepts the fields of `Options`.

    The signature of the decorated function shows all options by name, for help and editors. Paths are converted to
    text, and an unknown name raises a TypeError.

    Args:
        excluded: options that the signature does not show, because the function rejects them with its own message.
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


def named_options(config: PathLike | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that a file or a mapping names, with their values; the mapping wins.

    Args:
        config: JSON file of options, or None.
        arguments: arguments by name; names that are not `Options` are ignored.
    """
    named = Options.read(read_option_file(config), config) if config is not None else {}
    return {**named, **{name: value for name, value in arguments.items() if name in Options.__dataclass_fields__}}


def read_option_file(path: PathLike) -> Any:
    """Returns the parsed JSON of a file of options; raises OptionError if the file cannot be read."""
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
        named: the options that the user names, with their values.

    Raises:
        OptionError: an option is invalid, or has no effect with the other options.
        CorpusError: the run of `init` is missing or damaged.
    """
    record = {**Options().to_json(), **named}
    if 'train' in named:                                         # without the dev and test files of the sample
        if 'dev' not in named:
            raise OptionError(f'{argument("train")} needs {argument("dev")}, a file of tagged sentences to choose the '
                              'best epoch, got none')
        record['test'] = named.get('test', '')
    options = Options(**record)
    if options.init:
        Arguments.check(options)                                 # reading the base run uses these values
        options = with_base(record, named)
    options.check()
    options.check_effects(named)
    return options


def resumed_options(arguments: TrainArguments, named: Mapping[str, Any]) -> Options:
    """Returns the `Options` of a resumed run: the options in its config.json, with changed values.

    Args:
        arguments: the arguments other than options; `resume` is the run directory.
        named: the options that the user names, with their values.
    """
    if arguments.config is not None or arguments.overwrite or set(named) - set(ON_RESUME):
        allowed = ', '.join(map(argument, ('device', *ON_RESUME)))
        raise OptionError(f'{argument("resume")} can only be combined with {allowed}; all other options come from the '
                          'run')
    run = Run.open(arguments.resume)
    before, options = run.options, run.options_with(**named)
    if (options.encoder_lr > 0) != (before.encoder_lr > 0):
        raise OptionError(f'{argument("encoder_lr")} cannot change between 0 and a positive value with '
                          f'{argument("resume")}; the run has {before.encoder_lr:g}')
    options.check_effects(named)
    return options


@dataclass
class TrainingResult:
    """The result of a training.

    Attributes:
        folder: the run directory.
        scores: the content of scores.json: `best_epoch`, `epochs`, and the rates and a table for 'dev' and 'test'. With
            msrun only the first worker has scores.
        seconds: duration of reading, training and scoring.
    """

    folder: Path
    scores: dict[str, Any]
    seconds: float

    @cached_property
    def run(self) -> Run:
        """The opened run; `run.tagger()` returns the tagger of the best epoch."""
        return Run.open(self.folder)


def train_run(arguments: TrainArguments, options: Mapping[str, Any], watcher: Watcher) -> TrainingResult:
    """Trains one run. The documentation of `ms_crf.api.train` describes the arguments and the errors.

    Args:
        arguments: the checked arguments other than options.
        options: the options that the user names, with their values.
        watcher: receives lines and progress; a `TrainingWatcher` also receives the events of the training.
    """
    if arguments.plugin:
        run_plugin(arguments.plugin)
    events = watcher if isinstance(watcher, TrainingWatcher) else TrainingLines(watcher)
    events.stop_requested = False                # the watcher may come from an earlier training
    with closing(events):
        return _train(arguments, options, events)


def _train(arguments: TrainArguments, options: Mapping[str, Any], watcher: TrainingWatcher) -> TrainingResult:
    if is_scheduler():
        # The scheduler connects the workers and ends with them. It ignores Ctrl-C, which the workers handle.
        with processes.handling_signals(lambda *_: None):
            join()
        return TrainingResult(Path(arguments.resume or options.get('save', Options.save)), {}, 0.0)
    named = named_options(arguments.config, options)
    chosen = resumed_options(arguments, named) if arguments.resume else new_options(named)
    kind = kind_of(chosen)
    if arguments.workers > 1:
        if not kind.in_steps:
            raise OptionError(f'{argument("workers")} has no effect with {argument("model")} {kind.name}, which is '
                              'estimated at once, by one process; omit it')
        if launcher.started_by_msrun():
            raise OptionError(f'{argument("workers")} has no effect with msrun, which sets the number of workers; omit '
                              'it')
        return launcher.run(arguments, options, arguments.resume or chosen.save, watcher)
    if kind.uses_mindspore:
        device = choose_device(arguments.device, watcher)
        if chosen.precision == 'mixed' and device == 'CPU':
            raise OptionError(f'{argument("precision")} mixed needs a GPU or Ascend, got CPU; omit it')
        library.prepare(device, watcher)
    elif arguments.device not in ('auto', 'CPU'):
        raise OptionError(f'{argument("model")} {kind.name} computes on the CPU, got {argument("device")} '
                          f'{arguments.device}; omit it')
    workers = ALONE
    if launcher.started_by_msrun():
        if not kind.in_steps:
            raise OptionError(f'{argument("model")} {kind.name} is estimated at once, by one process; run it without '
                              'msrun')
        workers = join()
    return _run(arguments, named, chosen, watcher if workers.leads else TrainingWatcher(), workers)


def _run(arguments: TrainArguments, named: Mapping[str, Any], options: Options, watcher: TrainingWatcher,
         workers: Workers) -> TrainingResult:
    """Trains in this process, which may be one of several workers."""
    started = time.perf_counter()
    if arguments.resume:
        run = course.resume(arguments.resume, options, watcher, workers, named)
        watcher.say(f'resuming after epoch {run.epoch}, step {run.step_in_epoch} of the next epoch')
    else:
        run = course.start(options, watcher, arguments.overwrite, workers)
    try:
        with processes.handling_signals(watcher.ask_to_stop) if run.stoppable else nullcontext():
            scores = run.run()
    except Stopped:
        raise (Stopped(run.folder, run.directory.earlier) if workers.leads else Stopped()) from None
    return TrainingResult(run.folder, scores, time.perf_counter() - started)
