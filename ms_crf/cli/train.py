"""The command `ms-crf train`: trains a tagger and prints its scores."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ms_crf.api import train
from ms_crf.base.errors import CorpusError
from ms_crf.cli import console
from ms_crf.cli.parser import Help, Named, Namespace, Parser, add_arguments, main_of, parse
from ms_crf.cli.terminal import PlainTerminal, TrainingTerminal, trainings
from ms_crf.experiments.train import FIGURES, TABLE
from ms_crf.formats.dataset import UnlikelyTags
from ms_crf.formats.registry import without_columns
from ms_crf.runs.arguments import TrainArguments
from ms_crf.runs.directory import PathExists
from ms_crf.runs.options import Options
from ms_crf.training.train import TrainingResult, named_options, new_options
from ms_crf.training.watchers import Stopped, WorkersDied


def parser() -> Parser:
    """Returns the parser of the command line, with a group of options for each group of `Options`."""
    result = Parser(prog=console.program('train'), formatter_class=Help, add_help=False,
                    description=_main.__doc__)
    general = result.add_argument_group('General')
    general.add_argument('--help', '-h', action='help', help='show this help and exit')
    add_arguments(general, TrainArguments)
    add_arguments(result, Options)
    return result


def options_of(arguments: Sequence[str]) -> Options:
    """Returns the `Options` of a command line that starts a new run."""
    parsed, named = parse(parser, arguments)
    return new_options(named_options(parsed.config, named))


def _main(parsed: Namespace, named: Named) -> int:
    """Trains a sequence tagger on tagged sentences and prints the scores of its best epoch. Without arguments it trains
    on the sample corpus of the package.
    """
    if parsed.seeds is not None:
        return _train_seeds(named)
    watcher = TrainingTerminal()
    again = f'{console.call("train")}{"" if parsed.plugin is None else f" --plugin {parsed.plugin}"} --resume '
    try:
        done = train(**named, watcher=watcher)
    except Stopped as stop:
        if stop.folder is not None:
            earlier = f'; {stop.earlier} still holds the earlier run' if stop.earlier is not None else ''
            watcher.say(f'stopped and saved{earlier}; resume with: {again}{stop.folder}')
        return console.INTERRUPTED
    except WorkersDied as error:
        watcher.warn(f'{error.fault}; all workers were stopped, saved epochs are kept; resume with: '
                     f'{again}{error.folder} --workers {parsed.workers}')
        return console.FAULT
    except PathExists as error:
        advice = ', resume the run with --resume, or add --overwrite' if error.is_run else ''
        raise CorpusError(error.path, None, f'{error.fault}; choose another --save{advice}') from None
    except UnlikelyTags as error:
        raise with_options(error) from None
    if done.scores:                              # only the first of several processes has scores
        _report(watcher, done)
    return 0


def _train_seeds(named: Mapping[str, Any]) -> int:
    try:
        result = train(**named, watcher=PlainTerminal('train'), children=trainings(sys.stdout))
    except KeyboardInterrupt:
        console.say(f'{console.program("train")}: stopped; run the same command again to resume')
        return console.INTERRUPTED
    for line in ('', *result.table().splitlines(), ''):
        console.show(line)
    console.show(f'saved in {result.folder / TABLE} and {result.folder / FIGURES}')
    return 0


def _report(watcher: TrainingTerminal, done: TrainingResult) -> None:
    part = 'test' if 'test' in done.scores else 'dev'
    watcher.say('')
    watcher.say(f'best epoch {done.scores["best_epoch"]}, on {part}:' if done.scores['epochs'] else f'on {part}:')
    for line in done.scores[part]['table']:
        watcher.say(line)
    compiling = f', {watcher.compiling:.1f} of them compiling' if watcher.compiling else ''
    watcher.say('')
    watcher.say(f'saved in {done.folder}; {done.seconds:.0f} s{compiling}')


def with_options(error: UnlikelyTags) -> CorpusError:
    """Returns the error of a command line, whose message names the options that help."""
    columns = '' if without_columns(str(error.path)) else 'name the columns of token and tag with --columns, or '
    return CorpusError(error.path, None, f'{error.fault}; {columns}add --allow-any-tags if these are tags')


main = main_of('train', parser, _main)
