"""Limits of requests, the check of the Host header, and the error class of refused requests.

A server without a token is for programs and browsers on this machine. The check of the Host header stops DNS rebinding:
a web page that is already loaded can point its own domain to 127.0.0.1. The browser then treats this server as part of
the page, and the scripts of the page can read answers. But such requests still name the domain of the page as host.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ms_crf.base.arguments import Arguments, option
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.models.base import MOST_NBEST

MEGABYTE = 1 << 20


def _limit(default: int | float, unit: str, most: int, text: str, least: int = 1) -> Any:
    return option(default, 'Limits', text, unit, least=least, most=most)


@dataclass
class Limits(Arguments):
    """Limits of requests, of the queue, and of waiting times."""

    max_body: int = _limit(MEGABYTE, 'BYTES', 1 << 30, 'maximum size of the body of a request')
    max_sentences: int = _limit(2000, 'N', 10 ** 6, 'maximum number of sentences in a request')
    max_tokens: int = _limit(50_000, 'N', 10 ** 7, 'maximum number of tokens in a request')
    max_length: int = _limit(1000, 'N', 100_000, 'maximum number of tokens in a sentence')
    max_nbest: int = _limit(10, 'N', MOST_NBEST, 'maximum number of n-best taggings of a sentence', least=0)
    queue: int = _limit(200_000, 'N', 10 ** 9, 'maximum number of waiting tokens, over all requests; more requests get '
                        'status 503')
    connections: int = _limit(1000, 'N', 10 ** 6, 'maximum number of open connections')
    timeout: float = _limit(30.0, 'SECONDS', 3600, 'time limit for answering a request to tag; later it gets status '
                            '503')
    slow: float = _limit(10.0, 'SECONDS', 3600, 'time limit for a client to send a request, or to read an answer')
    stall: float = _limit(30.0, 'SECONDS', 3600, 'time after which a model process that has sentences to tag but uses '
                          'no CPU time is restarted; 20 times as long if it uses CPU time')
    drain: float = _limit(10.0, 'SECONDS', 3600, 'time limit for answering open requests when the server stops')

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        if self.queue < self.max_tokens:
            raise OptionError(f'{argument("queue")} must be at least {argument("max_tokens")}, {self.max_tokens:,}, '
                              f'got {self.queue:,}')


class RequestError(Exception):
    """The error of a request that the server refuses.

    Args:
        status: HTTP status of the answer.
        message: one line with the reason.
        retry: seconds after which the client may try again (Retry-After); None if trying again cannot help.
        close: whether to close the connection after the answer.
    """

    def __init__(self, status: int, message: str, retry: int | None = None, close: bool = False) -> None:
        super().__init__(status, message, retry, close)          # pickle needs all arguments
        self.status, self.message, self.retry, self.close = status, message, retry, close


TARGET = 'ms_crf.target'               # key in the ASGI scope: the unchanged target from the request line

_AUTHORITY = re.compile(rb'(?:(localhost|[\d.]+?)\.?|\[([0-9a-f.]*:[0-9a-f:.]*)\])(?::\d{0,5})?')
_ABSOLUTE = re.compile(rb'[a-z][a-z0-9+.-]*://([^/?#]*).*', re.DOTALL)


def is_loopback(authority: bytes) -> bool:
    """Whether a host is `localhost`, an address in 127.0.0.0/8, or `[::1]`, with or without a port."""
    match = _AUTHORITY.fullmatch(authority.lower())
    try:
        return match is not None and (
            match[1] == b'localhost' or ipaddress.ip_address((match[1] or match[2]).decode()).is_loopback)
    except ValueError:
        return False


def check_host(scope: Mapping[str, Any]) -> None:
    """Raises RequestError unless the request has exactly one Host header and this header names the loopback.

    If the target of the request is an absolute URL, its host must be the loopback, too.
    """
    hosts = [value for name, value in scope['headers'] if name == b'host']
    absolute = _ABSOLUTE.fullmatch(scope[TARGET].lower())
    wrong = [brief(host.decode('latin-1')) for host in (hosts if absolute is None else [*hosts, absolute[1]])
             if not is_loopback(host)]
    if len(hosts) != 1:
        wrong = [f'{len(hosts) or "no"} Host headers']
    if wrong:
        raise RequestError(421, f'expected one Host header with localhost, 127.0.0.1 or [::1], got {wrong[0]}; start '
                                'the server with a token to answer requests for other hosts', None, True)
