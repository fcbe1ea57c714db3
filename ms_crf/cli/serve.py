"""The command `ms-crf serve`: tags over HTTP."""

from collections.abc import Sequence

from ms_crf.api import serve
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, call, command_parser
from ms_crf.cli.terminal import Terminal
from ms_crf.server.serve import ServeArguments


def parser() -> Parser:
    return command_parser('serve', ServeArguments,
                          'Tags over HTTP: POST /v1/tag, and a page to paste text into. SIGHUP or POST /v1/reload '
                          'loads the run again, SIGTERM or Ctrl-C ends the server once it has answered what it was '
                          'asked.')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('serve', _serve, arguments)


def _serve(arguments: Sequence[str]) -> int:
    call(serve, parser, arguments, watcher=Terminal(console.program('serve')))
    return 0
