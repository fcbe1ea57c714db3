"""The command `ms-crf serve`: tags over HTTP."""

from ms_crf.api import serve
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal
from ms_crf.server.serve import ServeArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Tags over HTTP: POST /v1/tag, and a page to paste text into. SIGHUP or POST /v1/reload loads the run again,
    SIGTERM or Ctrl-C ends the server once it has answered what it was asked.
    """
    serve(**named, watcher=Terminal('serve'))


parser, main = command('serve', ServeArguments, _main)
