"""The bounds of requests, the hosts that they may name, and the error of a request that is refused.

A server without a token is for programs and browsers of this machine. A web page can point a domain of its own at
127.0.0.1 once it is loaded (DNS rebinding). The browser then takes the server for a part of that page, and lets its
scripts read the answers. But the requests still name the page's domain.
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
    """Bounds of requests, of the queue and of time."""

    max_body: int = _limit(MEGABYTE, 'BYTES', 1 << 30, 'of a request')
    max_sentences: int = _limit(2000, 'N', 10 ** 6, 'of a request')
    max_tokens: int = _limit(50_000, 'N', 10 ** 7, 'of a request')
    max_length: int = _limit(1000, 'N', 100_000, 'tokens of a sentence')
    max_nbest: int = _limit(10, 'N', MOST_NBEST, 'likeliest taggings of a sentence', least=0)
    queue: int = _limit(200_000, 'N', 10 ** 9, 'tokens that wait, of all requests; further requests are refused with '
                        'status 503')
    connections: int = _limit(1000, 'N', 10 ** 6, 'that are open at a time')
    timeout: float = _limit(30.0, 'SECONDS', 3600, 'that a request to tag may take in the server until its answer')
    slow: float = _limit(10.0, 'SECONDS', 3600, 'that a client may take to send a request, or to read an answer')
    stall: float = _limit(30.0, 'SECONDS', 3600, 'that the process that tags may use no CPU time, with sentences to '
                          'tag, until it is killed and started again; 20 times as long if it computes')
    drain: float = _limit(10.0, 'SECONDS', 3600, 'that requests may take to be answered when the server ends')

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        if self.queue < self.max_tokens:
            raise OptionError(f'{argument("queue")} must be at least {argument("max_tokens")}, {self.max_tokens:,}, '
                              f'got {self.queue:,}')


class Refused(Exception):
    """A request that is not answered with tags.

    Args:
        status: of the answer.
        message: one line: what was expected, and what came.
        retry: seconds after which it may be tried again; None if that is no use.
        close: whether the connection is closed.
    """

    def __init__(self, status: int, message: str, retry: int | None = None, close: bool = False) -> None:
        super().__init__(status, message, retry, close)          # with all of them it can be pickled
        self.status, self.message, self.retry, self.close = status, message, retry, close


TARGET = 'ms_crf.target'               # of a scope: the target as it stands in the first line of the request

_AUTHORITY = re.compile(rb'(?:(localhost|[\d.]+?)\.?|\[([0-9a-f.]*:[0-9a-f:.]*)\])(?::\d{0,5})?')
_ABSOLUTE = re.compile(rb'[a-z][a-z0-9+.-]*://([^/?#]*).*', re.DOTALL)


def is_loopback(authority: bytes) -> bool:
    """Whether a host, which a port may follow, is `localhost`, an address of 127.0.0.0/8, or `[::1]`."""
    match = _AUTHORITY.fullmatch(authority.lower())
    try:
        return match is not None and (
            match[1] == b'localhost' or ipaddress.ip_address((match[1] or match[2]).decode()).is_loopback)
    except ValueError:
        return False


def check_host(scope: Mapping[str, Any]) -> None:
    """Raises Refused unless a request has one Host header, and it and an absolute target name the loopback."""
    hosts = [value for name, value in scope['headers'] if name == b'host']
    absolute = _ABSOLUTE.fullmatch(scope[TARGET].lower())
    wrong = [brief(host.decode('latin-1')) for host in (hosts if absolute is None else [*hosts, absolute[1]])
             if not is_loopback(host)]
    if len(hosts) != 1:
        wrong = [f'{len(hosts) or "no"} Host headers']
    if wrong:
        raise Refused(421, f'expected one Host header with localhost, 127.0.0.1 or [::1], got {wrong[0]}; start the '
                           'server with a token to answer requests for other hosts', None, True)
