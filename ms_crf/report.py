"""The command line that writes a report of runs: python -m ms_crf.report --help"""

import sys

from ms_crf import console

if __name__ == '__main__':       # before anything that takes long to import: from here on Ctrl-C is one line
    sys.exit(console.enter('report'))

import os
from collections.abc import Sequence

from ms_crf.arguments import Parser, add_common, parse
from ms_crf.errors import OptionError, brief
from ms_crf.evaluate import add_input, check_input
from ms_crf.files import check_writable, write_text
from ms_crf.models.base import device_for
from ms_crf.options import check_path
from ms_crf.reports.figures import check_alike, figures_of, input_of
from ms_crf.reports.libraries import NAMES, library
from ms_crf.runs.records import check_output, newest
from ms_crf.text.readers import is_json

ERRORS, MOST_ERRORS, MOST_RUNS = 50, 10_000, 12


def parser() -> Parser:
    made = Parser(prog=console.program('report'),
                  description='Writes a page about a run that needs nothing else to be read: scores, learning curves, '
                              'confusions, transitions, how far confidences can be believed, and the errors. Several '
                              'runs are set side by side, with tests of their differences.')
    made.add_argument('runs', metavar='RUN', nargs='*', help='run directories (default: the newest in runs/)')
    made.add_argument('--input', metavar='FILE',
                      help='tagged sentences (default: the test file that the first run names, or else its dev file)')
    made.add_argument('--output', metavar='FILE', default='report.html', help='page to write (default: %(default)s)')
    made.add_argument('--errors', metavar='N', type=int, default=ERRORS,
                      help='sentences with errors to show, the worst first (default: %(default)s)')
    add_input(made)
    add_common(made)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('report', _report, arguments)


def _report(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    columns = check_input(parsed, named)
    if not 0 <= parsed.errors <= MOST_ERRORS:
        raise OptionError(f'--errors must be from 0 to {MOST_ERRORS:,}, got {brief(parsed.errors)}')
    if 'errors' in named and len(parsed.runs) > 1:
        raise OptionError('--errors means nothing with several runs; leave it away')
    check_output(parsed.output)
    for name in NAMES:
        library(name)
    runs = _runs(parsed.runs)
    given = input_of(runs[0], parsed.input, columns if 'columns' in named else None, parsed.unknown_tag)
    if 'columns' in named and is_json(given.path):
        raise OptionError(f'--columns means nothing with JSON lines, which {given.path} has; leave it away')
    check_writable(parsed.output, given.path)
    device_for(parsed.device, console.program('report'), *runs)

    def say(text: str) -> None:
        if sys.stderr.isatty():
            console.say(text)

    figures = []
    for run in runs:
        figures.append(figures_of(run, given, parsed.resamples, parsed.seed, parsed.errors, say))
        check_alike(figures)
    from ms_crf.reports.page import page
    write_text(parsed.output, page(figures, given))
    console.show(f'the report of {" and ".join(runs)} is in {parsed.output}')
    return 0


def _runs(names: Sequence[str]) -> list[str]:
    """The run directories, each of them once."""
    for name in names:
        if not name:
            raise OptionError('RUN must be a name, got nothing')
        check_path('RUN', name)
    runs = list(names) or [str(newest('runs'))]
    if len(runs) > MOST_RUNS:
        raise OptionError(f'RUN must be at most {MOST_RUNS} directories, got {len(runs)}')
    real = [os.path.realpath(run) for run in runs]
    twice = next((run for place, run in enumerate(runs) if real[place] in real[:place]), None)
    if twice is not None:
        raise OptionError(f'RUN names {twice} twice, expected it once')
    return runs
