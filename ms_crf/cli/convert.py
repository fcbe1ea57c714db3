"""The command `ms-crf convert`: converts annotated text to another format."""

from ms_crf.api import convert
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.formats.convert import ConvertArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Converts annotated text to another format. Annotations that the target format cannot represent, and
    spans whose boundaries do not match its tokens, are counted and reported on standard error.
    """
    for name in ('source', 'target'):
        if not getattr(parsed, name):
            raise OptionError(f'{console.POSITIONAL[name]} must be a name, got nothing; see --help')
    for line in convert(**named).lines:
        console.say(line)


parser, main = command('convert', ConvertArguments, _main)
