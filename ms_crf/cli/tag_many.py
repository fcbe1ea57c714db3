"""The command `ms-crf tag-many`: tags many files with several processes or machines."""

from ms_crf.api import tag_many
from ms_crf.bulk.tag_many import TagManyArguments
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal

VERB = 'tag-many'


def _main(parsed: Namespace, named: Named) -> int:
    """Tags many files, shards, with several processes of this machine or a cluster: a file in is a file out, whole
    or not at all, and files that are there already stay.
    """
    try:
        result = tag_many(**named, watcher=Terminal(VERB))
    except KeyboardInterrupt:                    # a line about it has been shown
        return console.INTERRUPTED
    console.show(
        f'{result.shards:,} shards with {result.lines:,} lines and {result.entities:,} entities tagged; '
        f'{result.skipped:,} shards skipped that were there, {len(result.faults):,} left out for faults, '
        f'{result.retries:,} retried; {result.seconds:.1f} s, {len(result.workers):,} workers')
    return console.FAULT if result.faults else 0


parser, main = command(VERB, TagManyArguments, _main)
