"""Tags over HTTP until it is interrupted."""

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from ms_crf.base.errors import CorpusError, OptionError, argument, not_installed
from ms_crf.base.fields import read_whole
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.runs.records import newest
from ms_crf.server.arguments import TOKEN, ServeArguments
from ms_crf.server.limits import Limits
from ms_crf.server.worker import Settings
from ms_crf.text.splitting import splitter_named


def serve(*, run: PathLike | None = None, mindir: PathLike | None = None, splitter: str | None = None,
          host: str = '127.0.0.1', port: int = 8000, token_file: PathLike | None = None, no_token: bool = False,
          allow_origin: Sequence[str] = (), max_body: int = Limits.max_body,
          max_sentences: int = Limits.max_sentences, max_tokens: int = Limits.max_tokens,
          max_length: int = Limits.max_length, max_nbest: int = Limits.max_nbest, queue: int = Limits.queue,
          connections: int = Limits.connections, timeout: float = Limits.timeout, slow: float = Limits.slow,
          stall: float = Limits.stall, drain: float = Limits.drain, plugin: PathLike | None = None,
          device: str = 'auto', watcher: Watcher = SILENT) -> None:
    """Tags over HTTP until Ctrl-C or SIGTERM, then answers the requests that it has and returns.

    SIGHUP loads the run again. In a thread other than the main thread signals have no effect.

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
        watcher: is told the address of the server once it is ready, and what goes wrong.

    Raises:
        OptionError: an argument can't be, the model can't be loaded, or a library is missing.
        CorpusError: a file has a fault.

    Example:
        >>> from ms_crf.api import serve
        >>> serve(run='runs/sample', port=8000)  # doctest: +SKIP
    """
    _serve(ServeArguments.given({**locals(), 'allow_origin': list(allow_origin)}), watcher)


def _serve(given: ServeArguments, watcher: Watcher) -> None:
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
    service = Service(os.path.basename(path) or path, given.limits, watcher.say, token,
                      token is not None or given.no_token, given.allow_origin)
    plugin = given.plugin and os.path.abspath(given.plugin)
    running.run(service, Settings(path, given.device, plugin, given.splitter, 3 if given.max_nbest else 0), listening)


def _token(path: str | None) -> bytes | None:
    """The token that requests must bring, from a file or the environment; not from options, which others may see."""
    if path is None:
        variable = os.environ.get(TOKEN)
        where, data = TOKEN, None if variable is None else os.fsencode(variable)
    else:
        where, data = path, read_whole(Path(path), 'no such file')
    if data is None:
        return None
    token = data.strip()
    if not token or not all(0x21 <= byte < 0x7f for byte in token):
        raise CorpusError(where, None, 'expected a token of one line of visible ASCII, got '
                                       f'{"nothing" if not token else "something else"}')
    return token
