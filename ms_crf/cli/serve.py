"""The command `ms-crf serve`: tags text over HTTP."""

from ms_crf.api import serve
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal
from ms_crf.server.serve import ServeArguments


def _main(parsed: Namespace, named: Named) -> None:
    """Tags text over HTTP: POST /v1/tag, and a demo page. SIGHUP or POST /v1/reload loads the run again. SIGTERM or
    Ctrl-C stops the server after the running requests are answered.
    """
    serve(**named, watcher=Terminal('serve'))


parser, main = command('serve', ServeArguments, _main)
