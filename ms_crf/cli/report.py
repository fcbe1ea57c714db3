"""The command `ms-crf report`: writes a page about runs."""

from collections.abc import Sequence

from ms_crf.api import report
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, command_parser, parse
from ms_crf.cli.terminal import Person
from ms_crf.runs.arguments import ReportArguments


def parser() -> Parser:
    return command_parser('report', ReportArguments,
                          'Writes a page about a run that needs nothing else to be read: scores, learning curves, '
                          'confusions, transitions, how far confidences can be believed, and the errors. Several runs '
                          'are set side by side, with tests of their differences.')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('report', _report, arguments)


def _report(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    figures = report(**named, watcher=Person(console.program('report')))
    console.show(f'the report of {" and ".join(each.path for each in figures)} is in {parsed.output}')
    return 0
