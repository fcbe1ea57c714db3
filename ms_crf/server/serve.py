"""The function `serve`, which tags over HTTP until it is interrupted, and its arguments."""

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

TOKEN = 'MS_CRF_TOKEN'                 # the variable of the environment


@dataclass
class ServeArguments(Limits, ModelArguments):
    """What `serve` takes."""

    splitter: str = option(None, '', f'what cuts raw text: {CHOICES} (default: as the model was trained)', 'NAME')
    host: str = option('127.0.0.1', '', 'address to listen on; 0.0.0.0 or :: for the addresses of all networks, with a '
                       'token')
    port: int = option(8000, '', '0 for a free port', 'N', least=0, most=65535)
    token_file: str = option(None, '', f'file with the token that requests must bring (default: the token in {TOKEN} '
                             'in the environment, or none)', FILE)
    no_token: bool = option(False, '', 'answer everybody who reaches the server, and requests for any host, without a '
                            'token')
    allow_origin: list = option(None, '', 'scripts of pages from there may ask, too, such as https://example.org; may '
                                'be repeated', 'URL', several=True)

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        if self.splitter is not None:
            check_name(self.splitter, argument('splitter'))
        for origin in self.allow_origin or ():
            _check_origin(origin)


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:                           # brackets that hold no address, a port that is none
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
    """Tags over HTTP until Ctrl-C, SIGTERM or `stop`, then answers the requests that it has and returns.

    SIGHUP loads the run again. In a thread other than the main thread signals have no effect; `stop` ends the server.

    Args:
        run: run directory; by default the newest in runs/.
        mindir: exported graph, instead of a run.
        splitter: what cuts raw text; by default as the model was trained.
        host: address to listen on.
        port: of the address; 0 for a free port.
        token_file: file with the token that requests must bring; by default the token in the environment variable
            MS_CRF_TOKEN, or none.
        no_token: whether to answer everybody who reaches the server, without a token.
        allow_origin: origins of pages whose scripts may ask (CORS).
        max_body: largest body of a request, in bytes.
        max_sentences, max_tokens: most sentences and tokens of a request.
        max_length: most tokens of a sentence.
        max_nbest: most of the likeliest taggings of a sentence.
        queue: most tokens that wait, of all requests.
        connections: most open connections.
        timeout: seconds until the answer to a request to tag.
        slow: seconds that a client may take to send a request, or to read an answer.
        stall: seconds without CPU time after which a process that has sentences to tag is killed and started again.
        drain: seconds for open requests when the server ends.
        plugin: Python file that registers kinds of model.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        stop: ends the server when another thread sets it.
        watcher: is told the address of the server once it is ready, and what goes wrong.

    Raises:
        OptionError: an argument can't be, the model can't be loaded, or a library is missing.
        CorpusError: a file has a fault.

    Example:
        >>> from ms_crf.api import serve
        >>> serve(run='runs/sample', port=8000)  # doctest: +SKIP
    """
    _serve(ServeArguments.from_call({**locals(), 'allow_origin': list(allow_origin)}), stop or threading.Event(),
           watcher)


def _serve(given: ServeArguments, stop: threading.Event, watcher: Watcher) -> None:
    if given.splitter is not None:
        splitter_named(given.splitter)           # raises at once if its library is missing
    token = _token(given.token_file)
    if given.no_token and token is not None:
        where = argument('token_file') if given.token_file else TOKEN
        raise OptionError(f'{argument("no_token")} and {where} contradict each other, expected one of them')
    try:
        from ms_crf.server import running
        from ms_crf.server.application import Service
    except ImportError as error:
        raise not_installed('the server', str(error.name), 'serve') from None
    path = os.path.abspath(given.mindir or given.run or newest('runs'))
    listening = running.bound(given.host, given.port)
    if given.no_token:
        watcher.warn(f'warning: whoever reaches {running.url_of(listening)} is answered, without a token')
    elif token is None and not ipaddress.ip_address(listening.getsockname()[0]).is_loopback:
        listening.close()
        raise OptionError(f'{argument("host")} {given.host} can be reached from other machines: expected a token, by '
                          f'{argument("token_file")} FILE or {TOKEN}, got none; {argument("no_token")} answers '
                          'everybody')
    service = Service(os.path.basename(path) or path, given, watcher.say, token,
                      token is not None or given.no_token, given.allow_origin)
    plugin = given.plugin and os.path.abspath(given.plugin)
    settings = Settings(path, given.device, plugin, given.splitter, 3 if given.max_nbest else 0)
    running.run(service, settings, listening, stop)


def _token(path: str | None) -> bytes | None:
    """The token that requests must bring, from a file or the environment; not from options, which others may see."""
    if path is not None:
        where, data = path, read_whole(Path(path), 'no such file')
    elif TOKEN in os.environ:
        where, data = TOKEN, os.fsencode(os.environ[TOKEN])
    else:
        return None
    token = data.strip()
    if not token or not all(0x21 <= byte < 0x7f for byte in token):
        raise CorpusError(where, None, 'expected a token of one line of visible ASCII, got '
                                       f'{"nothing" if not token else "something else"}')
    return token
