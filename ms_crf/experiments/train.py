"""The function `train`: trains one run, or several runs with different seeds."""

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
#: arguments of `train` that cannot be combined with several seeds, with the reason
_EXCLUDED = {
    'resume': '{seeds} resumes stopped runs in {save} automatically',
    'overwrite': 'finished runs in {save} are kept; choose another {save} or delete it',
    'workers': 'workers share one run; use {jobs} to train several runs at the same time'}


@dataclass
class SeedRuns:
    """The runs of a training with several seeds.

    Attributes:
        folder: folder with the run directories, the table (seeds.md) and the figures (seeds.json).
        runs: the run directory of each seed.
        scores: the content of scores.json of each seed: `best_epoch`, and the rates on `dev` and, if given, `test`.
    """

    folder: Path
    runs: dict[int, Path]
    scores: dict[int, dict[str, Any]]

    @property
    def best(self) -> Run:
        """The run with the best dev score (F1, or accuracy for plain tags); with equal scores the first."""
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


def _train_seeds(arguments: TrainArguments, named: Mapping[str, Value], watcher: Watcher,
                 children: Children | None) -> SeedRuns:
    """Trains with several seeds, each in a child process. Finished runs are skipped, and stopped runs are resumed.

    Args:
        arguments: the arguments of `train` other than options.
        named: the options that the user names, with their values.
        watcher: receives the label of each run.
        children: how to start the child processes, and where to write their output.
    """
    options = new_options(named)
    folder, kind = Path(options.save), kind_of(options)
    if not kind.in_steps:
        raise OptionError(f'{argument("seeds")} has no effect with {argument("model")} {kind.name}, which is estimated '
                          'at once, without randomness; omit it')
    if os.path.lexists(folder / records.CONFIG):
        raise OptionError(f'{folder}: expected a folder for runs, got a run; choose another {argument("save")}')
    runs = [_planned(replace(options, seed=seed, save=str(folder / f'seed-{seed}')), named)
            for seed in range(options.seed, options.seed + arguments.seeds)]
    waiting = [run for run in runs if _scores(run.folder) is None]
    if len(waiting) < len(runs):
        watcher.warn(f'{len(runs) - len(waiting)} of {len(runs)} runs are finished already')
    if waiting:
        files.check_writable(nearest_folder(folder) / TABLE)
        device = prepare(arguments.device, watcher)
        for run in waiting:
            run.arguments.update(device=device, plugin=arguments.plugin)
        kept = 'finished runs are kept; run the same command again to continue'
        run_all(waiting, arguments.jobs or 1, kept, children, watcher)
    result = SeedRuns(folder, {run.seed: run.folder for run in runs}, {run.seed: _scores(run.folder) or {}
                                                                       for run in runs})
    files.write_json(folder / FIGURES, result.to_json())
    files.write_text(folder / TABLE, f'{result.table()}\n')
    return result


def _planned(options: Options, named: Mapping[str, Value]) -> PlannedRun:
    """Returns the run of one seed, to start or to resume; raises OptionError if an existing run has other options."""
    options.check()
    folder = Path(options.save)
    arguments: dict[str, Value] = {**named, 'seed': options.seed, 'save': options.save}
    if os.path.lexists(folder):
        before = Run.open(folder).options
        values, expected = before.to_json(), options.settled_as(before).to_json()
        for name in expected:
            if name != 'save' and values[name] != expected[name]:
                raise OptionError(f'{folder}: expected a run with {dashed(name)} {brief(expected[name])}, got one with '
                                  f'{brief(values[name])}; choose another {argument("save")} or delete it')
        arguments = {'resume': options.save, **{part: getattr(options, part) or None for part in PARTS}}
    return PlannedRun(f'seed {options.seed}', folder, arguments, seed=options.seed)


def _scores(folder: Path) -> dict[str, Any] | None:
    """Returns the content of scores.json, or None if the training is not finished."""
    if not os.path.lexists(folder):
        return None
    run = Run.open(folder)
    scores, epochs = run.scores, len(run.metrics)                # more epochs if the run was resumed and stopped again
    return scores if scores and scores['epochs'] == epochs else None


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
    """Trains a tagger on tagged sentences and scores its best epoch. With `seeds` it trains one tagger for each seed.

    Args:
        seeds: number of seeds, counted up from `seed`. Each run is trained in a child process, in a folder below
            `save`: seed-1, seed-2 and so on. The same call again skips finished runs and resumes stopped runs.
        jobs: with `seeds`, number of trainings at the same time.
        watcher: receives lines and progress; a `ms_crf.training.watchers.TrainingWatcher` also receives the events of
            the training. With `seeds` it receives the label of each run, and the output unless `children` names
            streams.
        children: with `seeds`, how to start the child processes, and where to write their output.
        resume: run directory of a training to resume. Only the options `epochs`, `patience`, `learning_rate`,
            `encoder_lr` can change, and `train`, `dev` and `test` if the files have moved.
        overwrite: whether to replace the run that `save` names.
        config: JSON file of options; arguments win.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        workers: number of processes on this machine that train together.
        options: files, model and training, see `ms_crf.runs.options.Options`. By default the sample corpus is used.

    Returns:
        The run and its scores. With `seeds`, all runs, their scores, and a method `table()`.

    Raises:
        OptionError: an argument is invalid or has no effect, or with `seeds` a training failed.
        CorpusError: a file is invalid, or the run cannot be written.
        NotFinite: the loss is infinite or nan.
        KeyboardInterrupt: Ctrl-C, SIGTERM or `watcher.ask_to_stop()`. During the epochs the current step is finished
            and saved first, and the exception is a `Stopped`. A second Ctrl-C stops immediately.

    Example:
        >>> from ms_crf.api import train
        >>> result = train(train='data/train.tsv', dev='data/dev.tsv', save='runs/one', epochs=2)  # doctest: +SKIP
        >>> result.scores['dev']['f1'] > 0.8                                                       # doctest: +SKIP
        True
        >>> result.run.tagger().tag([['Ada', 'flew', 'to', 'Rome']])[0].spans                      # doctest: +SKIP
        [('PER', 0, 0), ('LOC', 3, 3)]
        >>> runs = train(train='train.tsv', dev='dev.tsv', save='runs/mine', seeds=3)  # doctest: +SKIP
        >>> print(runs.table())                                                        # doctest: +SKIP
        >>> runs.best.path                                                             # doctest: +SKIP
        PosixPath('runs/mine/seed-2')
    """
    arguments = TrainArguments.from_call(locals())
    if seeds is None:
        return train_run(arguments, options, watcher)
    for name, why in _EXCLUDED.items():
        if getattr(arguments, name) != getattr(TrainArguments, name):
            reason = why.format(**{other: argument(other) for other in ('seeds', 'save', 'jobs')})
            raise OptionError(f'{argument(name)} cannot be combined with {argument("seeds")}: {reason}')
    if started_by_msrun():
        raise OptionError(f'{argument("seeds")} cannot be used with msrun, which starts one training')
    if arguments.plugin:
        run_plugin(arguments.plugin)
    return _train_seeds(arguments, named_options(arguments.config, options), watcher, children)
