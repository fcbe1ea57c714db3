"""The command line of the server: ms-crf serve --help"""


import ipaddress
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, OptionError, brief, not_installed
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, add_common, add_model, check_model, parse
from ms_crf.models.base import MOST_NBEST
from ms_crf.runs.records import newest
from ms_crf.server.limits import Limits
from ms_crf.server.worker import Settings
from ms_crf.text.splitting import CHOICES, check_name, splitter_named

TOKEN = 'MS_CRF_TOKEN'                 # the variable of the environment
_MOST = {'max_body': 1 << 30, 'max_sentences': 10 ** 6, 'max_tokens': 10 ** 7, 'max_length': 100_000,
         'max_nbest': MOST_NBEST, 'queue': 10 ** 9, 'connections': 10 ** 6, 'timeout': 3600, 'slow': 3600,
         'stall': 3600, 'drain': 3600}


def parser() -> Parser:
    made = Parser(prog=console.program('serve'),
                  description='Tags over HTTP: POST /v1/tag, and a page to paste text into. SIGHUP or POST '
                              '/v1/reload loads the run again, SIGTERM or Ctrl-C ends the server once it has '
                              'answered what it was asked.')
    add_model(made)
    made.add_argument('--splitter', metavar='NAME',
                      help=f'what cuts raw text: {CHOICES} (default: as the model was trained)')
    made.add_argument('--host', default='127.0.0.1', help='address to listen on; 0.0.0.0 or :: for those of all '
                                                          'networks, with a token (default: %(default)s)')
    made.add_argument('--port', metavar='N', type=int, default=8000, help='0 for one that is free (default: 8000)')
    made.add_argument('--token-file', metavar='FILE',
                      help=f'file with the token that requests must bring (default: that of {TOKEN} in the '
                           'environment, or none)')
    made.add_argument('--no-token', action='store_true',
                      help='answer everybody who reaches the server, and requests for any host, without a token')
    made.add_argument('--allow-origin', metavar='URL', action='append', default=[],
                      help='scripts of pages from there may ask, too, such as https://example.org; may be repeated')
    group = made.add_argument_group('Limits')
    limits = Limits()
    for name, unit, text in (
            ('--max-body', 'BYTES', 'of a request'), ('--max-sentences', 'N', 'of a request'),
            ('--max-tokens', 'N', 'of a request'), ('--max-length', 'N', 'tokens of a sentence'),
            ('--max-nbest', 'N', 'likeliest taggings of a sentence'),
            ('--queue', 'N', 'tokens that wait, of all requests; further ones are told to come again'),
            ('--connections', 'N', 'that are open at a time'),
            ('--timeout', 'SECONDS', 'that a request to tag may take in the server until its answer'),
            ('--slow', 'SECONDS', 'that a client may take to send a request, or to read an answer'),
            ('--stall', 'SECONDS', 'that the process that tags may use no CPU time, with sentences to tag, until it is '
                                   'killed and started again; 20 times as long if it computes'),
            ('--drain', 'SECONDS', 'that requests may take to be answered when the server ends')):
        default: int | float = getattr(limits, name[2:].replace('-', '_'))
        group.add_argument(name, metavar=unit, type=type(default), default=default,
                           help=f'{text} (default: {default:,})')
    add_common(made)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('serve', _serve, arguments)


def _serve(arguments: Sequence[str]) -> int:
    parsed, _ = parse(parser, arguments)
    check_model(parsed)
    if not 0 <= parsed.port <= 65535:
        raise OptionError(f'--port must be from 0 to 65535, got {brief(parsed.port)}')
    if parsed.splitter is not None:
        check_name(parsed.splitter, '--splitter')
        splitter_named(parsed.splitter)          # says at once if its library is not there
    limits = _limits(vars(parsed))
    for origin in parsed.allow_origin:
        _check_origin(origin)
    token = _token(parsed.token_file)
    if parsed.no_token and token is not None:
        where = '--token-file' if parsed.token_file else TOKEN
        raise OptionError(f'--no-token and {where} contradict each other, expected one of them')
    program = console.program('serve')
    try:
        from ms_crf.server import running
        from ms_crf.server.application import Service
    except ImportError as error:
        raise not_installed('the server', str(error.name), 'serve') from None
    from ms_crf.server.process import Failed
    path = os.path.abspath(parsed.mindir or parsed.run or newest('runs'))
    listening = running.bound(parsed.host, parsed.port)
    if parsed.no_token:
        console.say(f'{program}: warning: whoever reaches {running.url_of(listening)} is answered, without a token')
    elif token is None and not ipaddress.ip_address(listening.getsockname()[0]).is_loopback:
        listening.close()
        raise OptionError(f'--host {parsed.host} can be reached from other machines: expected a token, by --token-file '
                          f'FILE or {TOKEN}, got none; --no-token answers everybody')
    service = Service(os.path.basename(path) or path, limits, lambda line: console.say(f'{program}: {line}'), token,
                      token is not None or parsed.no_token, parsed.allow_origin)
    settings = Settings(path, parsed.device, program, parsed.plugin, parsed.splitter, 3 if limits.max_nbest else 0)
    try:
        running.run(service, settings, listening)
    except Failed as error:
        raise OptionError(str(error)) from None
    return 0


def _limits(values: dict[str, float]) -> Limits:
    for entry in fields(Limits):
        value, least, most = values[entry.name], 0 if entry.name == 'max_nbest' else 1, _MOST[entry.name]
        if not least <= value <= most:
            raise OptionError(f'--{entry.name.replace("_", "-")} must be from {least} to {most:,}, got {brief(value)}')
    limits = Limits(**{entry.name: values[entry.name] for entry in fields(Limits)})  # type: ignore[arg-type]
    if limits.queue < limits.max_tokens:
        raise OptionError(f'--queue must be at least --max-tokens, {limits.max_tokens:,}, got {limits.queue:,}')
    return limits


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:                           # brackets that hold no address, a port that is none
        parts = urlsplit('')
    if origin != '*' and (parts.scheme not in ('http', 'https') or origin != f'{parts.scheme}://{parts.netloc}'
                          or not parts.netloc or not origin.isascii()):
        raise OptionError(f'--allow-origin must be * or an origin such as https://example.org, without a path, got '
                          f'{brief(origin)}')


def _token(path: str | None) -> bytes | None:
    """The token that requests must bring, from a file or the environment; not from options, which others may see."""
    if path is None:
        given = os.environ.get(TOKEN)
        where, data = TOKEN, None if given is None else os.fsencode(given)
    else:
        where, data = path, files.read_whole(Path(path), 'no such file')
    if data is None:
        return None
    token = data.strip()
    if not token or not all(0x21 <= byte < 0x7f for byte in token):
        raise CorpusError(where, None, 'expected a token of one line of visible ASCII, got '
                                       f'{"nothing" if not token else "something else"}')
    return token
