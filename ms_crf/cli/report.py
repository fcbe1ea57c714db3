"""The command `ms-crf report`: writes a page about runs."""

from ms_crf.api import report
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import InteractiveTerminal
from ms_crf.runs.arguments import ReportArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Writes a page about a run that needs nothing else to be read: scores, learning curves, confusions,
    transitions, how far confidences can be believed, and the errors. Several runs are set side by side, with tests
    of their differences.
    """
    figures = report(**named, watcher=InteractiveTerminal('report'))
    console.show(f'the report of {" and ".join(each.path for each in figures)} is in {parsed.output}')


parser, main = command('report', ReportArguments, _main)
