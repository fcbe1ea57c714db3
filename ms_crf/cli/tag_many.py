"""The command `ms-crf tag-many`: tags many files with several processes or machines."""

from ms_crf.api import tag_many
from ms_crf.bulk.tag_many import TagManyArguments
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal

VERB = 'tag-many'


def _main(parsed: Namespace, named: Named) -> int:
    """Tags many files (shards) in parallel, with several processes on this machine or a cluster. Each input file gives
    one output file, which is written completely or not at all; existing output files are skipped.
    """
    try:
        result = tag_many(**named, watcher=Terminal(VERB))
    except KeyboardInterrupt:                    # a message has been printed already
        return console.INTERRUPTED
    console.show(
        f'{result.shards:,} shards with {result.lines:,} lines and {result.entities:,} entities tagged; '
        f'{result.skipped:,} shards skipped that existed already, {len(result.faults):,} skipped because of errors, '
        f'{result.retries:,} retried; {result.seconds:.1f} s, {len(result.workers):,} workers')
    return console.FAULT if result.faults else 0


parser, main = command(VERB, TagManyArguments, _main)
