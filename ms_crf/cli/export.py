"""The command `ms-crf export`: exports the model of a run as a MindIR graph."""

from ms_crf.api import export
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal
from ms_crf.runs.arguments import ExportArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Exports the model of a run as a MindIR graph, and writes a JSON record next to the graph, which describes
    inputs, outputs, vocabularies and tags. The graph takes batches of any size and length: its inputs are ids, its
    outputs are the best paths and their scores.
    """
    written = export(**named, watcher=Terminal('export'))
    console.show(f'{written.run} is in {written.graph} and {written.record}')


parser, main = command('export', ExportArguments, _main)
