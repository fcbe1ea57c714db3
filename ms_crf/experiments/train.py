"""`train`: one run, or a run for each of several seeds."""

from typing import Any, overload

from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.experiments.runner import CHILDREN, Children
from ms_crf.experiments.seeds import SeedRuns, check_seeds, train_seeds
from ms_crf.models.opening import run_plugin
from ms_crf.runs.arguments import TrainArguments
from ms_crf.training.settings import named_options, new_options, takes_options
from ms_crf.training.train import Trained
from ms_crf.training.train import train as train_once


@overload
def train(*, seeds: None = None, **options: Any) -> Trained: ...


@overload
def train(*, seeds: int, jobs: int | None = None, watcher: Watcher = SILENT, children: Children = CHILDREN,
          **options: Any) -> SeedRuns: ...


@takes_options()
def train(*, seeds: int | None = None, jobs: int | None = None, resume: PathLike | None = None,
          overwrite: bool = False, config: PathLike | None = None, plugin: PathLike | None = None, device: str = 'auto',
          workers: int = 1, watcher: Watcher = SILENT, children: Children = CHILDREN,
          **options: Any) -> Trained | SeedRuns:
    """Trains a tagger on tagged sentences, and scores its best epoch; with `seeds` a tagger for each of several seeds.

    Args:
        seeds: number of seeds, counted up from `seed`. Each run is trained in a process of its own, in a folder below
            `save`: seed-1, seed-2 and so on. Finished runs are kept, and the same call resumes stopped ones.
        jobs: number of trainings at the same time, with `seeds`.
        watcher: receives lines and progress; see `ms_crf.training.watchers.TrainingWatcher` for the events of a run.
            With `seeds` it receives the runs that begin, and their output unless `children` names streams.
        children: with `seeds`, how processes are started, and where their output goes.
        resume: run directory of a training to resume; of the options it takes only `epochs`, `patience`,
            `learning_rate`, `encoder_lr`, and `train`, `dev` and `test` if these files have moved.
        overwrite: whether to replace the run that `save` names.
        config: JSON file of options; arguments win.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        workers: number of processes on this machine that train together.
        options: files, model and training, see `ms_crf.runs.options.Options`. By default the sample corpus is used.

    Returns:
        The run and its scores; with `seeds` all runs, their scores, and a `table()` of them.

    Raises:
        OptionError: an argument can't be or has no effect, or a training failed.
        CorpusError: a file has a fault, or the run can't be written.
        KeyboardInterrupt: the training was stopped, and its state is saved.

    Example:
        >>> from ms_crf.api import train
        >>> found = train(train='train.tsv', dev='dev.tsv', save='runs/mine', seeds=3)  # doctest: +SKIP
        >>> print(found.table())                                                        # doctest: +SKIP
        >>> found.best.path                                                             # doctest: +SKIP
        PosixPath('runs/mine/seed-2')
    """
    given = TrainArguments.given(locals())
    if seeds is None:
        return train_once(resume=resume, overwrite=overwrite, config=config, plugin=plugin, device=device,
                          workers=workers, watcher=watcher, **options)
    check_seeds(given)
    if given.plugin:
        run_plugin(given.plugin)
    named = named_options(given.config, options)
    return train_seeds(new_options(named), named, seeds, jobs or 1, given.plugin, given.device, watcher, children)
