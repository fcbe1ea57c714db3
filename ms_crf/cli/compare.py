"""The command that compares models on the same files: python -m ms_crf.compare --help"""

import argparse
import sys

from ms_crf.api import compare
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, Parser, add_arguments, command_parser, main_of
from ms_crf.cli.terminal import PlainTerminal, trainings
from ms_crf.cli.train import with_options
from ms_crf.experiments.compare import Comparison
from ms_crf.formats.dataset import UnlikelyTags
from ms_crf.runs.arguments import CompareArguments
from ms_crf.runs.options import Options


def parser() -> Parser:
    """Returns the parser of the command line."""
    result = command_parser('compare', CompareArguments, _main.__doc__)
    add_arguments(result, Options, ('train', 'dev', 'test', 'columns', 'scheme'))
    for name in ('--resume', '--overwrite'):                     # `compare` rejects them with a reason
        result.add_argument(name, nargs='?', const=True, help=argparse.SUPPRESS)
    return result


def _main(parsed: Namespace, named: Named) -> None:
    """Trains several models on the same files and prints a table of their test scores. Options of `train`
    are also accepted, and apply to the models in which they have an effect.
    """
    try:
        _show(compare(**named, watcher=PlainTerminal('compare'), children=trainings(sys.stderr)))
    except UnlikelyTags as error:
        raise with_options(error) from None
    except BaseException as error:
        _show(getattr(error, 'comparison', Comparison()))        # the results so far
        raise


def _show(comparison: Comparison) -> None:
    for line in comparison.table().splitlines() if comparison.figures else ():
        console.show(line)


main = main_of('compare', parser, _main)
