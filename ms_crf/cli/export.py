"""The command `ms-crf export`: writes the model of a run as a MindIR graph."""

from collections.abc import Sequence

from ms_crf.api import export
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, call, command_parser
from ms_crf.cli.terminal import Terminal
from ms_crf.runs.arguments import ExportArguments


def parser() -> Parser:
    return command_parser('export', ExportArguments,
                          'Writes the model of a run as a MindIR graph, and next to it, in JSON, what a program needs '
                          'to run it: inputs and outputs in their order, vocabularies and tags. The graph takes '
                          'batches of any size and length: ids in, best paths and their scores out.')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('export', _export, arguments)


def _export(arguments: Sequence[str]) -> int:
    written = call(export, parser, arguments, watcher=Terminal(console.program('export')))
    console.show(f'{written.run} is in {written.graph} and {written.record}')
    return 0
