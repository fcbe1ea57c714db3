"""The command `ms-crf suggest`: selects unlabelled sentences to annotate next (active learning)."""

import sys

from ms_crf.api import suggest
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import InteractiveTerminal
from ms_crf.formats.document import counted
from ms_crf.tagging.arguments import LINES, SuggestArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Selects the unlabelled sentences about which a model is most uncertain, for annotation (active learning). Writes
    them with the predicted tags, to be corrected; the sentence with the lowest confidence comes first.
    """
    if parsed.input is None and sys.stdin is not None and sys.stdin.isatty():
        raise OptionError('--input must name a file, or text must come through a pipe; see --help')
    console.use_utf8()
    watcher = InteractiveTerminal('suggest')
    chosen = suggest(**{'input': LINES, 'output': sys.stdout, **named}, watcher=watcher)
    for remark in chosen.remarks:
        watcher.warn(remark)
    fewer = '' if len(chosen) == parsed.count else ' (no more are left)'
    watcher.warn(f'{counted(len(chosen), "sentence")} of {chosen.read:,}{fewer}; {parsed.by} from '
                 f'{chosen[0].score:.4f} to {chosen[-1].score:.4f}; left out: {chosen.known:,} known, '
                 f'{chosen.repeated:,} repeated, {chosen.near:,} near-duplicates among the rest')


parser, main = command('suggest', SuggestArguments, _main)
