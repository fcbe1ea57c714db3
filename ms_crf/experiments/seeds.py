"""The same training with several seeds: `train --seeds 5` makes a run of each, and a table of all."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ms_crf.base import files
from ms_crf.base.environment import choose_device
from ms_crf.base.errors import CorpusError, OptionError, brief
from ms_crf.base.watchers import Lines
from ms_crf.cli import console
from ms_crf.experiments.side_by_side import Training, arguments_of, check_jobs, mean_and_deviation, run_all
from ms_crf.models.registry import kind_of
from ms_crf.native import library
from ms_crf.runs import records
from ms_crf.runs.options import Options, dashed
from ms_crf.runs.run import Run
from ms_crf.runs.sources import PARTS
from ms_crf.training.launcher import started_by_msrun

MOST = 1000
TABLE, FIGURES = 'seeds.md', 'seeds.json'
_RATES = {'precision': 'P', 'recall': 'R', 'f1': 'F1', 'accuracy': 'accuracy'}


def add_seeds(group: argparse._ActionsContainer) -> None:
    """Adds --seeds and --jobs to the command line of a training."""
    group.add_argument('--seeds', metavar='N', type=int,
                       help='train with N seeds, from --seed on, each in a folder below --save, seed-1 and so on, and '
                            'make a table of all; what is there is kept, so that the same command goes on')
    group.add_argument('--jobs', metavar='N', type=int,
                       help='of --seeds: how many trainings run side by side (default: 1)')


def check(parsed: argparse.Namespace) -> None:
    """Raises OptionError if --seeds and --jobs can't be beside the other arguments of a command line."""
    if parsed.seeds is None:
        if parsed.jobs is not None:
            raise OptionError('--jobs means nothing without --seeds; leave it away')
        return
    if not 1 <= parsed.seeds <= MOST:
        raise OptionError(f'--seeds must be from 1 to {MOST:,}, got {brief(parsed.seeds)}')
    check_jobs(1 if parsed.jobs is None else parsed.jobs)
    for name, unnamed, why in (
            ('resume', None, 'the command with --seeds goes on by itself with the runs below --save'),
            ('overwrite', False, 'what is below --save is kept; choose another --save or delete it'),
            ('workers', 1, 'they share the work of one run; --jobs trains several side by side')):
        if getattr(parsed, name) != unnamed:
            raise OptionError(f'--{name} can not stand beside --seeds: {why}')
    if started_by_msrun():
        raise OptionError('--seeds can not be used under msrun, which starts one training')


class _Run:
    """One of the runs.

    Args:
        options: of its training.
    """

    def __init__(self, options: Options) -> None:
        self.options, self.folder = options, Path(options.save)
        self.begun = os.path.lexists(self.folder)
        if self.begun:
            self._check()

    def _check(self) -> None:
        """Raises CorpusError unless what is there is a run of the same options."""
        found = Run.open(self.folder).options
        before, wanted = found.to_json(), self.options.settled_as(found).to_json()
        for name in wanted:
            if name != 'save' and before[name] != wanted[name]:
                raise CorpusError(self.folder, None, f'expected a run with {dashed(name)} {brief(wanted[name])}, got '
                                                     f'one with {brief(before[name])}; choose another --save or delete '
                                                     'it')

    def scores(self) -> dict[str, Any] | None:
        """What scores.json holds, or None as long as the training is not at its end."""
        if not os.path.lexists(self.folder):
            return None
        run = Run.open(self.folder)
        scores, done = run.scores, len(run.metrics)              # more, if it was resumed later and stopped
        return scores if scores and scores['epochs'] == done else None


def run(parsed: argparse.Namespace, options: Options, named: Mapping[str, Any]) -> int:
    """Trains with all seeds; returns the exit status.

    Args:
        parsed: all arguments of the command line.
        options: of the first seed, with the folder of all of them as `save`.
        named: the options that were named, and their values.
    """
    folder, kind = Path(options.save), kind_of(options)
    if not kind.in_steps:
        raise OptionError(f'--seeds means nothing with --model {kind.name}, which is learned at once, without chance; '
                          'leave it away')
    if os.path.lexists(folder / records.CONFIG):
        raise CorpusError(folder, None, 'expected a folder for runs, got a run; choose another --save')
    runs = []
    for seed in range(options.seed, options.seed + parsed.seeds):
        own = Options(**{**options.to_json(), 'seed': seed, 'save': str(folder / f'seed-{seed}')})
        own.check()
        runs.append(_Run(own))
    waiting = [one for one in runs if one.scores() is None]
    if len(waiting) < len(runs):
        console.say(f'{console.program("train")}: {len(runs) - len(waiting)} of {len(runs)} runs are there already')
    if waiting:
        files.check_writable(_existing(folder) / TABLE)
        watcher = Lines(lambda text: console.say(f'{console.program("train")}: {text}'))
        parsed.device = choose_device(parsed.device, watcher)
        library.prepare(parsed.device, watcher)
        try:
            run_all([_training(one, parsed, named) for one in waiting], parsed.jobs or 1, sys.stdout,
                    'what was done is kept, and the same command goes on')
        except KeyboardInterrupt:
            console.say(f'{console.program("train")}: stopped; the same command goes on')
            return console.INTERRUPTED
    _report(folder, runs)
    return 0


def _existing(folder: Path) -> Path:
    """The folder itself, or the next one above it that is there."""
    absolute = folder.absolute()
    return next(parent for parent in (absolute, *absolute.parents) if os.path.lexists(parent))


def _training(one: _Run, parsed: argparse.Namespace, named: Mapping[str, Any]) -> Training:
    others = [f'--device={parsed.device}', *([] if parsed.plugin is None else [f'--plugin={parsed.plugin}'])]
    name = f'seed {one.options.seed}'
    if one.begun:
        files = [f'--{part}={path}' for part in PARTS if (path := getattr(one.options, part))]
        return Training(name, [f'--resume={one.folder}', *files, *others])
    return Training(name, [*arguments_of({**named, 'seed': one.options.seed, 'save': str(one.folder)}), *others])


def _report(folder: Path, runs: Sequence[_Run]) -> None:
    """Prints the table and keeps it, and all figures, in the folder."""
    scores = {one.options.seed: one.scores() or {} for one in runs}
    lines = list(table(scores))
    figures = {str(seed): {part: {rate: record[part][rate] for rate in _RATES} for part in ('dev', 'test')
                           if part in record} | {'best_epoch': record['best_epoch']}
               for seed, record in scores.items()}
    files.write_json(folder / FIGURES, figures)
    files.write_text(folder / TABLE, ''.join(f'{line}\n' for line in lines))
    for line in ('', *lines, ''):
        console.show(line)
    console.show(f'kept in {folder / TABLE} and {folder / FIGURES}')


def table(scores: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    """A table in Markdown: a row for each seed, and one of means ± standard deviations.

    Args:
        scores: by seed, what scores.json holds.
    """
    parts = [part for part in ('dev', 'test') if all(part in record for record in scores.values())]
    cells = [(part, rate) for part in parts for rate in _RATES]
    yield f'| seed | best epoch | {" | ".join(f"{part} {_RATES[rate]}" for part, rate in cells)} |'
    yield '|---' * (2 + len(cells)) + '|'
    for seed, record in scores.items():
        rates = [f'{100 * record[part][rate]:.2f}' for part, rate in cells]
        yield f'| {seed} | {record["best_epoch"]} | {" | ".join(rates)} |'
    if len(scores) > 1:
        columns = [[record[part][rate] for record in scores.values()] for part, rate in cells]
        yield f'| mean ± deviation | – | {" | ".join(map(mean_and_deviation, columns))} |'
