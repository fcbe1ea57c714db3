"""`train`: a run from files and options, by one process or by several that train together."""

import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ms_crf.base import processes
from ms_crf.base.environment import choose_device
from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.models import plugins
from ms_crf.models.base import Kind
from ms_crf.models.registry import kind_of
from ms_crf.native import library
from ms_crf.runs.arguments import TrainArguments
from ms_crf.runs.options import Options
from ms_crf.tagging.tagger import Run
from ms_crf.training import course, launcher
from ms_crf.training.errors import Stopped
from ms_crf.training.settings import named_options, new_options, resumed_options, takes_options
from ms_crf.training.watchers import TrainingLines, TrainingWatcher
from ms_crf.training.workers import ALONE, Workers, is_scheduler


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


@takes_options()
def train(*, resume: PathLike | None = None, overwrite: bool = False, config: PathLike | None = None,
          plugin: PathLike | None = None, device: str = 'auto', workers: int = 1, watcher: Watcher = SILENT,
          **options: Any) -> Trained:
    """Trains a tagger on tagged sentences, and scores its best epoch.

    Args:
        resume: run directory of a training to go on with; of the options it takes only `epochs`, `patience`,
            `learning_rate`, `encoder_lr`, and `train`, `dev` and `test` if these files have moved.
        overwrite: whether to replace the run that `save` names.
        config: JSON file of options; arguments win.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        workers: number of processes on this machine that train together.
        watcher: receives lines and progress; a `TrainingWatcher` also receives each step and the scores of each epoch.
        options: files, model and training, see `ms_crf.runs.options.Options`. By default the sample corpus is used.

    Returns:
        The run, and its scores.

    Raises:
        OptionError: an argument can't be, or has no effect beside the others.
        CorpusError: a file has a fault, or the run can't be written.
        NotFinite: the loss is no number any more.
        KeyboardInterrupt: Ctrl-C, SIGTERM or `watcher.ask_to_stop()`; during the epochs it is a `Stopped`, which is
            raised after the step, when the training is saved. A second Ctrl-C does not wait.

    Example:
        >>> from ms_crf.api import train
        >>> done = train(train='data/train.tsv', dev='data/dev.tsv', save='runs/mine', epochs=2)  # doctest: +SKIP
        >>> done.scores['dev']['f1'] > 0.8                                                        # doctest: +SKIP
        True
        >>> done.run.tagger().tag([['Ada', 'flew', 'to', 'Rome']])[0].spans                           # doctest: +SKIP
        [('PER', 0, 0), ('LOC', 3, 3)]
    """
    given = TrainArguments.given(locals())
    if given.plugin:
        plugins.load(given.plugin)
    events = watcher if isinstance(watcher, TrainingWatcher) else TrainingLines(watcher)
    events.asked_to_stop = False                 # of an earlier training with the same watcher
    with closing(events):
        return _train(given, options, events)


def _train(given: TrainArguments, options: Mapping[str, Any], watcher: TrainingWatcher) -> Trained:
    if is_scheduler():
        return _schedule(given.resume or options.get('save', Options.save))
    named = named_options(given.config, options)
    chosen = resumed_options(given, named) if given.resume else new_options(named)
    kind = kind_of(chosen)
    if given.workers > 1:
        return _train_together(given, options, chosen, watcher)
    if kind.uses_mindspore:
        device = choose_device(given.device, watcher)
        if chosen.precision == 'mixed' and device == 'CPU':
            raise OptionError(f'{argument("precision")} mixed needs a GPU or Ascend, got CPU; leave it away')
        library.prepare(device, watcher)
    elif given.device not in ('auto', 'CPU'):
        raise OptionError(f'{argument("model")} {kind.name} computes on the CPU, got {argument("device")} '
                          f'{given.device}; leave it away')
    workers = _meet(kind)
    if not workers.leads:
        watcher = TrainingWatcher()
    began = time.perf_counter()
    if given.resume:
        run = course.resume(given.resume, chosen, watcher, workers, named)
        watcher.say(f'going on after epoch {run.epoch}, step {run.step_in_epoch} of the next')
    else:
        run = course.start(chosen, watcher, given.overwrite, workers)
    try:
        with processes.handling_signals(watcher.ask_to_stop) if run.stoppable else nullcontext():
            scores = run.run()
    except Stopped:
        raise (Stopped(run.folder, run.directory.earlier) if workers.leads else Stopped()) from None
    return Trained(run.folder, scores, time.perf_counter() - began)


def _train_together(given: TrainArguments, options: Mapping[str, Any], chosen: Options,
                    watcher: TrainingWatcher) -> Trained:
    """Trains in several processes, each of which calls `train` with the same arguments but for their number."""
    kind = kind_of(chosen)
    if not kind.in_steps:
        raise OptionError(f'{argument("workers")}: a model of kind {kind.name} is learned at once, by one process; '
                          'leave it away')
    if launcher.started_by_msrun():
        raise OptionError(f'{argument("workers")} means nothing under msrun, which says how many there are; leave it '
                          'away')
    arguments = {name: getattr(given, name) for name in ('resume', 'overwrite', 'config', 'plugin', 'device')}
    return launcher.run(given.workers, {**arguments, **options}, given.resume or chosen.save, watcher)


def _schedule(folder: str) -> Trained:
    """Lets the workers of msrun meet, and waits for their end, deaf to Ctrl-C, which they hear themselves."""
    from ms_crf.training.collectives import meet
    with processes.handling_signals(lambda *_: None):
        meet()
    return Trained(Path(folder), {}, 0.0)


def _meet(kind: type[Kind]) -> Workers:
    """Returns this process among the workers that msrun has started, if it has."""
    if not launcher.started_by_msrun():
        return ALONE
    if not kind.in_steps:
        raise OptionError(f'{argument("model")} {kind.name} is learned at once, by one process; call it without msrun')
    from ms_crf.training.collectives import meet
    return meet()
