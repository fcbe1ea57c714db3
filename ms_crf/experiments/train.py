"""`train`: one run, or a run for each of several seeds."""

import inspect
from collections.abc import Callable, Container
from typing import Any, TypeVar, cast, overload

from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.experiments.runner import CHILDREN, Children, plain
from ms_crf.experiments.seeds import SeedRuns, check_seeds, train_seeds
from ms_crf.models import plugins
from ms_crf.runs.arguments import TrainArguments
from ms_crf.training.settings import named_options, new_options
from ms_crf.training.train import Trained
from ms_crf.training.train import train as train_once

F = TypeVar('F', bound=Callable[..., object])


def with_options(*excluded: str) -> Callable[[F], F]:
    """Returns a decorator that names the arguments of a training in a signature instead of the parameter `**options`.

    Help and editors then show them.

    Args:
        excluded: names of arguments that the function does not take.
    """
    def decorated(function: F) -> F:
        own = inspect.signature(function)
        named = [parameter for parameter in own.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
        names: Container[str] = {*own.parameters, *excluded}
        named += [parameter for name, parameter in inspect.signature(train_once).parameters.items()
                  if name not in names]
        cast(Any, function).__signature__ = own.replace(parameters=named)
        return function
    return decorated


@overload
def train(*, seeds: None = None, **options: Any) -> Trained: ...


@overload
def train(*, seeds: int, jobs: int | None = None, watcher: Watcher = SILENT, children: Children = CHILDREN,
          **options: Any) -> SeedRuns: ...


@with_options()
def train(*, seeds: int | None = None, jobs: int | None = None, watcher: Watcher = SILENT,
          children: Children = CHILDREN, **options: Any) -> Trained | SeedRuns:
    """Trains a tagger on tagged sentences, and scores its best epoch; with `seeds` a tagger for each of several seeds.

    Args:
        seeds: number of seeds, counted up from `seed`. Each run is trained in a process of its own, in a folder below
            `save`: seed-1, seed-2 and so on. Finished runs are kept, and the same call resumes stopped ones.
        jobs: number of trainings at the same time, with `seeds`.
        watcher: receives lines and progress; see `ms_crf.training.watchers.TrainingWatcher` for the events of a run.
            With `seeds` it receives the runs that begin, and their output unless `children` names streams.
        children: with `seeds`, how processes are started, and where their output goes.
        options: all other arguments of `ms_crf.training.train.train`: files, model, training.

    Returns:
        The run directory, its scores, and `tagger()`; with `seeds` all runs, their scores, and a `table()` of them.

    Raises:
        OptionError: an argument can't be or has no effect, or a training failed.
        CorpusError: a file has a fault, or the run can't be written.
        KeyboardInterrupt: the training was stopped, and its state is saved.

    Example:
        >>> from ms_crf.api import train
        >>> found = train(train='train.tsv', dev='dev.tsv', save='runs/mine', seeds=3)  # doctest: +SKIP
        >>> print(found.table())                                                        # doctest: +SKIP
        >>> found.best                                                                  # doctest: +SKIP
        PosixPath('runs/mine/seed-2')
    """
    given = TrainArguments.given({**options, 'seeds': seeds, 'jobs': jobs})
    if seeds is None:
        return train_once(**options, watcher=watcher)
    check_seeds(given)
    if given.plugin:
        plugins.load(given.plugin)
    inspect.signature(train_once).bind(**options)                # raises TypeError for unknown names
    named = named_options(given.config, plain(options))
    return train_seeds(new_options(named), named, seeds, jobs or 1, given.plugin, given.device, watcher, children)
