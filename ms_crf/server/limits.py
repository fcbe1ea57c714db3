"""The bounds of requests, of the queue and of time, and the error of a request that is refused."""

from dataclasses import dataclass
from typing import Any

from ms_crf.base.arguments import Arguments, option
from ms_crf.base.errors import OptionError, argument
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
        super().__init__(message)
        self.status, self.message, self.retry, self.close = status, message, retry, close
