"""The command `ms-crf export`: writes the model of a run as a MindIR graph."""

from ms_crf.api import export
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal
from ms_crf.runs.arguments import ExportArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Writes the model of a run as a MindIR graph, and next to it, in JSON, what a program needs to run it: inputs
    and outputs in their order, vocabularies and tags. The graph takes batches of any size and length: ids in, best
    paths and their scores out.
    """
    written = export(**named, watcher=Terminal('export'))
    console.show(f'{written.run} is in {written.graph} and {written.record}')


parser, main = command('export', ExportArguments, _main)
