"""The command line of `train`: parses arguments, trains, prints scores."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ms_crf.api import train
from ms_crf.base.errors import CorpusError
from ms_crf.cli import console
from ms_crf.cli.parser import Help, Named, Namespace, Parser, add_arguments, main_of, parse
from ms_crf.cli.terminal import Heading, Watcher, trainings
from ms_crf.experiments.train import FIGURES, TABLE
from ms_crf.formats.dataset import UnlikelyTags
from ms_crf.formats.registry import without_columns
from ms_crf.runs.arguments import TrainArguments
from ms_crf.runs.directory import PathTaken
from ms_crf.runs.options import Options
from ms_crf.training.train import TrainingResult, named_options, new_options
from ms_crf.training.watchers import Stopped, WorkersDied


def parser() -> Parser:
    """The command line, one group of options for each group of `Options`."""
    made = Parser(prog=console.program('train'), formatter_class=Help, add_help=False,
                  description=_main.__doc__)
    general = made.add_argument_group('General')
    general.add_argument('--help', '-h', action='help', help='show this and stop')
    add_arguments(general, TrainArguments)
    add_arguments(made, Options)
    return made


def options_of(arguments: Sequence[str]) -> Options:
    """The `Options` of a command line that begins a new run."""
    parsed, named = parse(parser, arguments)
    return new_options(named_options(parsed.config, named))


def _main(parsed: Namespace, named: Named) -> int:
    """Trains a sequence tagger on tagged sentences and scores its best epoch. Without arguments it trains on the sample
    corpus of the package.
    """
    if parsed.seeds is not None:
        return _train_seeds(named)
    watcher = Watcher()
    again = f'{console.call("train")}{"" if parsed.plugin is None else f" --plugin {parsed.plugin}"} --resume '
    try:
        done = train(**named, watcher=watcher)
    except Stopped as stop:
        if stop.folder is not None:
            earlier = f'; {stop.earlier} is the earlier run still' if stop.earlier is not None else ''
            watcher.say(f'stopped and saved{earlier}; go on with: {again}{stop.folder}')
        return console.INTERRUPTED
    except WorkersDied as error:
        watcher.warn(f'{error.fault}; all are ended, what was saved stays; go on with: {again}{error.folder} '
                     f'--workers {parsed.workers}')
        return console.FAULT
    except PathTaken as error:
        others = ', go on with --resume, or add --overwrite' if error.is_run else ''
        raise CorpusError(error.path, None, f'{error.fault}; choose another --save{others}') from None
    except UnlikelyTags as error:
        raise with_options(error) from None
    if done.scores:                              # of several processes the first has them
        _report(watcher, done)
    return 0


def _train_seeds(named: Mapping[str, Any]) -> int:
    try:
        found = train(**named, watcher=Heading('train'), children=trainings(sys.stdout))
    except KeyboardInterrupt:
        console.say(f'{console.program("train")}: stopped; the same command goes on')
        return console.INTERRUPTED
    for line in ('', *found.table().splitlines(), ''):
        console.show(line)
    console.show(f'kept in {found.folder / TABLE} and {found.folder / FIGURES}')
    return 0


def _report(watcher: Watcher, done: TrainingResult) -> None:
    part = 'test' if 'test' in done.scores else 'dev'
    watcher.say('')
    watcher.say(f'best epoch {done.scores["best_epoch"]}, on {part}:' if done.scores['epochs'] else f'on {part}:')
    for line in done.scores[part]['table']:
        watcher.say(line)
    compiling = f', {watcher.compiling:.1f} of them compiling' if watcher.compiling else ''
    watcher.say('')
    watcher.say(f'saved in {done.folder}; {done.seconds:.0f} s{compiling}')


def with_options(error: UnlikelyTags) -> CorpusError:
    """The error of a command line, which names the options that help."""
    columns = '' if without_columns(str(error.path)) else 'name the columns of token and tag with --columns, or '
    return CorpusError(error.path, None, f'{error.fault}; {columns}add --allow-any-tags if these are tags')


main = main_of('train', parser, _main)
