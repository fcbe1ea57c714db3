"""The command that compares models on the same files: python -m ms_crf.compare --help"""

import argparse
import sys
from collections.abc import Sequence

from ms_crf.api import compare
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, add_arguments, call, command_parser
from ms_crf.cli.terminal import Heading, trainings
from ms_crf.cli.train import with_options
from ms_crf.experiments.compare import Comparison
from ms_crf.formats.tag_columns import UnlikelyTags
from ms_crf.runs.arguments_of_experiments import CompareArguments
from ms_crf.runs.options import Options


def parser() -> Parser:
    made = command_parser('compare', CompareArguments,
                          'Trains several models on the same files and prints a table of what they are worth on test. '
                          'All other options are those of training, for the models that have them.')
    add_arguments(made, Options, ('train', 'dev', 'test', 'columns', 'scheme'))
    for name in ('--resume', '--overwrite'):                     # refused with a reason, like --save
        made.add_argument(name, nargs='?', const=True, help=argparse.SUPPRESS)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('compare', _compare, arguments)


def _compare(arguments: Sequence[str]) -> int:
    try:
        _show(call(compare, parser, arguments, watcher=Heading(console.program('compare')),
                   children=trainings(sys.stderr)))
    except UnlikelyTags as error:
        raise with_options(error) from None
    except BaseException as error:
        _show(getattr(error, 'comparison', Comparison()))        # what was measured before
        raise
    return 0


def _show(comparison: Comparison) -> None:
    for line in comparison.table().splitlines() if comparison.figures else ():
        console.show(line)
