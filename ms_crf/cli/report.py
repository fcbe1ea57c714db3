"""The command `ms-crf report`: writes an HTML report about runs."""

from ms_crf.api import report
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import InteractiveTerminal
from ms_crf.runs.arguments import ReportArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Writes a standalone HTML report about a run: scores, learning curves, confusion matrix, transitions,
    calibration and a list of errors. For several runs the report compares them, with significance tests.
    """
    figures = report(**named, watcher=InteractiveTerminal('report'))
    console.show(f'the report of {" and ".join(each.path for each in figures)} is in {parsed.output}')


parser, main = command('report', ReportArguments, _main)
