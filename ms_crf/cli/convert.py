"""The command `ms-crf convert`: writes annotated text in another format."""

from collections.abc import Sequence

from ms_crf.api import convert
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, command_parser, parse
from ms_crf.formats.convert import ConvertArguments


def parser() -> Parser:
    return command_parser('convert', ConvertArguments,
                          'Writes annotated text in another format. What the other format has no place for, and spans '
                          'that do not fit its tokens, are counted and shown on standard error.')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('convert', _convert, arguments)


def _convert(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    for name in ('source', 'target'):
        if not getattr(parsed, name):
            raise OptionError(f'{console.POSITIONAL[name]} must be a name, got nothing; see --help')
    for line in convert(**named).lines:
        console.say(line)
    return 0
