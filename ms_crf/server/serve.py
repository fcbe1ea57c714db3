"""The function `serve`, which runs the HTTP server until it is stopped, and its arguments."""

import ipaddress
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ms_crf.base.arguments import FILE, option
from ms_crf.base.errors import CorpusError, OptionError, argument, brief, not_installed
from ms_crf.base.fields import read_whole
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.runs.arguments import ModelArguments
from ms_crf.runs.records import newest
from ms_crf.server.limits import Limits
from ms_crf.server.process import Settings
from ms_crf.text.splitting import CHOICES, check_name, splitter_named

TOKEN = 'MS_CRF_TOKEN'                 # environment variable with the token


@dataclass
class ServeArguments(Limits, ModelArguments):
    """Arguments of `serve`."""

    splitter: str = option(None, '', f'splitter for raw text: {CHOICES} (default: the splitter of the model)', 'NAME')
    host: str = option('127.0.0.1', '', 'address to listen on; 0.0.0.0 or :: for all networks, which needs a token')
    port: int = option(8000, '', 'port to listen on; 0 for a free port', 'N', least=0, most=65535)
    token_file: str = option(None, '', 'file with the token that requests must send (default: the environment variable '
                             f'{TOKEN}, or no token)', FILE)
    no_token: bool = option(False, '', 'answer all requests without a token, for any host')
    allow_origin: list = option(None, '', 'origin whose scripts may call the server (CORS), such as '
                                'https://example.org; may be repeated', 'URL', several=True)

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        if self.splitter is not None:
            check_name(self.splitter, argument('splitter'))
        for origin in self.allow_origin or ():
            _check_origin(origin)


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:                           # an invalid address in brackets, or an invalid port
        parts = urlsplit('')
    if origin != '*' and (parts.scheme not in ('http', 'https') or origin != f'{parts.scheme}://{parts.netloc}'
                          or not parts.netloc or not origin.isascii()):
        raise OptionError(f'{argument("allow_origin")} must be * or an origin such as https://example.org, without a '
                          f'path, got {brief(origin)}')


def serve(*, run: PathLike | None = None, mindir: PathLike | None = None, splitter: str | None = None,
          host: str = '127.0.0.1', port: int = 8000, token_file: PathLike | None = None, no_token: bool = False,
          allow_origin: Sequence[str] = (), max_body: int = Limits.max_body,
          max_sentences: int = Limits.max_sentences, max_tokens: int = Limits.max_tokens,
          max_length: int = Limits.max_length, max_nbest: int = Limits.max_nbest, queue: int = Limits.queue,
          connections: int = Limits.connections, timeout: float = Limits.timeout, slow: float = Limits.slow,
          stall: float = Limits.stall, drain: float = Limits.drain, plugin: PathLike | None = None,
          device: str = 'auto', stop: threading.Event | None = None, watcher: Watcher = SILENT) -> None:
    """Runs the HTTP server until Ctrl-C, SIGTERM or `stop`. Open requests are answered before the function returns.

    SIGHUP loads the run again. Only the main thread receives signals. In another thread, use `stop`.

    Args:
        run: run directory; by default the newest in runs/.
        mindir: exported graph, instead of a run.
        splitter: splitter for raw text; by default the splitter of the model.
        host: address to listen on.
        port: port to listen on; 0 for a free port.
        token_file: file with the token that requests must send; by default the environment variable MS_CRF_TOKEN, or
            no token.
        no_token: whether to answer all requests without a token, for any host.
        allow_origin: origins whose scripts may call the server (CORS).
        max_body: maximum size of the body of a request, in bytes.
        max_sentences, max_tokens: maximum numbers of sentences and tokens in a request.
        max_length: maximum number of tokens in a sentence.
        max_nbest: maximum number of n-best taggings of a sentence.
        queue: maximum number of waiting tokens, over all requests.
        connections: maximum number of open connections.
        timeout: time limit for answering a request to tag, in seconds.
        slow: time limit for a client to send a request, or to read an answer, in seconds.
        stall: seconds without CPU time after which a model process with sentences to tag is restarted.
        drain: time limit for answering open requests when the server stops, in seconds.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        stop: event that stops the server when another thread sets it.
        watcher: receives the address when the server is ready, and lines about errors.

    Raises:
        OptionError: an argument is invalid, the model cannot be loaded, or a library is missing.
        CorpusError: a file is invalid.

    Example:
        >>> from ms_crf.api import serve
        >>> serve(run='runs/sample', port=8000)  # doctest: +SKIP
    """
    _serve(ServeArguments.from_call({**locals(), 'allow_origin': list(allow_origin)}), stop or threading.Event(),
           watcher)


def _serve(arguments: ServeArguments, stop: threading.Event, watcher: Watcher) -> None:
    if arguments.splitter is not None:
        splitter_named(arguments.splitter)       # raises an error now if the library is missing
    token = _token(arguments.token_file)
    if arguments.no_token and token is not None:
        where = argument('token_file') if arguments.token_file else TOKEN
        raise OptionError(f'{argument("no_token")} and {where} exclude each other; omit {argument("no_token")}, or '
                          f'omit {where}')
    try:
        from ms_crf.server import running
        from ms_crf.server.application import Service
    except ImportError as error:
        raise not_installed('the server', str(error.name), 'serve') from None
    path = os.path.abspath(arguments.mindir or arguments.run or newest('runs'))
    listening = running.listening_socket(arguments.host, arguments.port)
    if arguments.no_token:
        watcher.warn(f'warning: {running.url_of(listening)} answers all requests without a token')
    elif token is None and not ipaddress.ip_address(listening.getsockname()[0]).is_loopback:
        listening.close()
        raise OptionError(f'{argument("host")} {arguments.host} can be reached from other machines and needs a token, '
                          f'got none; set {argument("token_file")} FILE or {TOKEN}, or use {argument("no_token")} to '
                          'answer all requests')
    service = Service(os.path.basename(path) or path, arguments, watcher.say, token,
                      token is not None or arguments.no_token, arguments.allow_origin)
    plugin = arguments.plugin and os.path.abspath(arguments.plugin)
    settings = Settings(path, arguments.device, plugin, arguments.splitter, 3 if arguments.max_nbest else 0)
    running.run(service, settings, listening, stop)


def _token(path: str | None) -> bytes | None:
    """Returns the token from a file or from the environment, or None. Options would be visible to other users."""
    if path is not None:
        where, data = path, read_whole(Path(path), 'no such file')
    elif TOKEN in os.environ:
        where, data = TOKEN, os.fsencode(os.environ[TOKEN])
    else:
        return None
    token = data.strip()
    if not token or not all(0x21 <= byte < 0x7f for byte in token):
        raise CorpusError(where, None, 'expected a token of visible ASCII characters in one line, got '
                                       f'{"nothing" if not token else "other characters"}')
    return token
