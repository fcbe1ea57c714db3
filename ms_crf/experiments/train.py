"""`train`: one run, or a run for each of several seeds."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from ms_crf.base import files
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.experiments.runner import RATES, Children, PlannedRun, Value, markdown, mean_and_deviation, prepare, run_all
from ms_crf.models.base import kind_of
from ms_crf.models.opening import run_plugin
from ms_crf.runs import records
from ms_crf.runs.arguments import TrainArguments
from ms_crf.runs.checksums import PARTS
from ms_crf.runs.directory import nearest_folder
from ms_crf.runs.options import Options, dashed
from ms_crf.tagging.tagger import Run
from ms_crf.text.schemes import PLAIN
from ms_crf.training.launcher import started_by_msrun
from ms_crf.training.train import TrainingResult, named_options, new_options, takes_options, train_run

TABLE, FIGURES = 'seeds.md', 'seeds.json'
#: arguments of `train` that can not be used with several seeds, and why
_EXCLUDED = {
    'resume': 'the command with {seeds} goes on by itself with the runs below {save}',
    'overwrite': 'what is below {save} is kept; choose another {save} or delete it',
    'workers': 'they share the work of one run; {jobs} trains several side by side'}


@dataclass
class SeedRuns:
    """The runs of a training with several seeds.

    Attributes:
        folder: holds the run directories, the table as seeds.md, and the figures as seeds.json.
        runs: the run directories, by seed.
        scores: for each seed the contents of scores.json: `best_epoch`, and the rates on `dev` and perhaps `test`.
    """

    folder: Path
    runs: dict[int, Path]
    scores: dict[int, dict[str, Any]]

    @property
    def best(self) -> Run:
        """The run with the best score on dev: F1, or accuracy with plain tags; of equal ones the first."""
        rate = 'accuracy' if Run.open(next(iter(self.runs.values()))).scheme == PLAIN else 'f1'
        return Run.open(self.runs[max(self.runs, key=lambda seed: self.scores[seed]['dev'][rate])])

    def table(self) -> str:
        """Returns a table in Markdown: a row for each seed, and a row of means ± standard deviations."""
        cells = [(part, rate) for part in ('dev', 'test') if all(part in record for record in self.scores.values())
                 for rate in RATES]
        columns = [[record[part][rate] for record in self.scores.values()] for part, rate in cells]
        rows = [[str(seed), str(record['best_epoch']), *(mean_and_deviation([column[index]]) for column in columns)]
                for index, (seed, record) in enumerate(self.scores.items())]
        if len(rows) > 1:
            rows.append(['mean ± deviation', '–', *map(mean_and_deviation, columns)])
        return markdown(['seed', 'best epoch', *(f'{part} {RATES[rate]}' for part, rate in cells)], rows)

    def to_json(self) -> dict[str, Any]:
        """Returns the figures of each seed."""
        return {str(seed): {part: {rate: record[part][rate] for rate in RATES} for part in ('dev', 'test')
                            if part in record} | {'best_epoch': record['best_epoch']}
                for seed, record in self.scores.items()}


def _train_seeds(given: TrainArguments, named: Mapping[str, Value], watcher: Watcher,
                 children: Children | None) -> SeedRuns:
    """Trains with several seeds, each in a process of its own; finished runs are kept, and stopped ones resumed.

    Args:
        given: the arguments of `train` other than options.
        named: the options that were named, and their values.
        watcher: receives the runs that begin.
        children: how the processes are started, and where their output goes.
    """
    options = new_options(named)
    folder, kind = Path(options.save), kind_of(options)
    if not kind.in_steps:
        raise OptionError(f'{argument("seeds")} means nothing with {argument("model")} {kind.name}, which is learned '
                          'at once, without chance; leave it away')
    if os.path.lexists(folder / records.CONFIG):
        raise OptionError(f'{folder}: expected a folder for runs, got a run; choose another {argument("save")}')
    runs = [_planned(replace(options, seed=seed, save=str(folder / f'seed-{seed}')), named)
            for seed in range(options.seed, options.seed + given.seeds)]
    waiting = [run for run in runs if _scores(run.folder) is None]
    if len(waiting) < len(runs):
        watcher.warn(f'{len(runs) - len(waiting)} of {len(runs)} runs are there already')
    if waiting:
        files.check_writable(nearest_folder(folder) / TABLE)
        device = prepare(given.device, watcher)
        for run in waiting:
            run.arguments.update(device=device, plugin=given.plugin)
        run_all(waiting, given.jobs or 1, 'what was done is kept, and the same command goes on', children, watcher)
    result = SeedRuns(folder, {run.seed: run.folder for run in runs}, {run.seed: _scores(run.folder) or {}
                                                                       for run in runs})
    files.write_json(folder / FIGURES, result.to_json())
    files.write_text(folder / TABLE, f'{result.table()}\n')
    return result


def _planned(options: Options, named: Mapping[str, Value]) -> PlannedRun:
    """Returns the run of one seed, which may have begun; raises OptionError if it was begun with other options."""
    options.check()
    folder = Path(options.save)
    arguments: dict[str, Value] = {**named, 'seed': options.seed, 'save': options.save}
    if os.path.lexists(folder):
        before = Run.open(folder).options
        values, wanted = before.to_json(), options.settled_as(before).to_json()
        for name in wanted:
            if name != 'save' and values[name] != wanted[name]:
                raise OptionError(f'{folder}: expected a run with {dashed(name)} {brief(wanted[name])}, got one with '
                                  f'{brief(values[name])}; choose another {argument("save")} or delete it')
        arguments = {'resume': options.save, **{part: getattr(options, part) or None for part in PARTS}}
    return PlannedRun(f'seed {options.seed}', folder, arguments, seed=options.seed)


def _scores(folder: Path) -> dict[str, Any] | None:
    """Returns the contents of scores.json; None unless the training is at its end."""
    if not os.path.lexists(folder):
        return None
    run = Run.open(folder)
    scores, done = run.scores, len(run.metrics)                  # more, if it was resumed later and stopped
    return scores if scores and scores['epochs'] == done else None


@overload
def train(*, seeds: None = None, **options: Any) -> TrainingResult: ...


@overload
def train(*, seeds: int, jobs: int | None = None, watcher: Watcher = SILENT, children: Children | None = None,
          **options: Any) -> SeedRuns: ...


@takes_options()
def train(*, seeds: int | None = None, jobs: int | None = None, resume: PathLike | None = None,
          overwrite: bool = False, config: PathLike | None = None, plugin: PathLike | None = None, device: str = 'auto',
          workers: int = 1, watcher: Watcher = SILENT, children: Children | None = None,
          **options: Any) -> TrainingResult | SeedRuns:
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
        OptionError: an argument can't be or has no effect, or a training with one of several seeds failed.
        CorpusError: a file has a fault, or the run can't be written.
        NotFinite: the loss is no number any more.
        KeyboardInterrupt: Ctrl-C, SIGTERM or `watcher.ask_to_stop()`; during the epochs it is a `Stopped`, which is
            raised after the step, when the training is saved. A second Ctrl-C does not wait. With `seeds` the same
            call resumes.

    Example:
        >>> from ms_crf.api import train
        >>> done = train(train='data/train.tsv', dev='data/dev.tsv', save='runs/one', epochs=2)  # doctest: +SKIP
        >>> done.scores['dev']['f1'] > 0.8                                                       # doctest: +SKIP
        True
        >>> done.run.tagger().tag([['Ada', 'flew', 'to', 'Rome']])[0].spans                      # doctest: +SKIP
        [('PER', 0, 0), ('LOC', 3, 3)]
        >>> found = train(train='train.tsv', dev='dev.tsv', save='runs/mine', seeds=3)  # doctest: +SKIP
        >>> print(found.table())                                                        # doctest: +SKIP
        >>> found.best.path                                                             # doctest: +SKIP
        PosixPath('runs/mine/seed-2')
    """
    given = TrainArguments.given(locals())
    if seeds is None:
        return train_run(given, options, watcher)
    for name, why in _EXCLUDED.items():
        if getattr(given, name) != getattr(TrainArguments, name):
            reason = why.format(**{other: argument(other) for other in ('seeds', 'save', 'jobs')})
            raise OptionError(f'{argument(name)} can not stand beside {argument("seeds")}: {reason}')
    if started_by_msrun():
        raise OptionError(f'{argument("seeds")} can not be used under msrun, which starts one training')
    if given.plugin:
        run_plugin(given.plugin)
    return _train_seeds(given, named_options(given.config, options), watcher, children)
