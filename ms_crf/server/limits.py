"""What a request may ask for, how long a client may take, and how what can't be is answered."""

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds of requests, of the queue and of time; the fields are options of the command of the same names."""

    max_body: int = MEGABYTE           # bytes
    max_sentences: int = 2000          # of a request
    max_tokens: int = 50_000           # of a request
    max_length: int = 1000             # tokens of a sentence
    max_nbest: int = 10
    queue: int = 200_000               # tokens that wait to be tagged, of all requests
    connections: int = 1000
    timeout: float = 30.0              # seconds from the end of a request to tag until its answer
    slow: float = 10.0                 # seconds that the head of a request may take, its body, and reading an answer
    stall: float = 30.0                # seconds without CPU time after which a process with sentences to tag is killed
    drain: float = 10.0                # seconds for requests in flight when the server is to end


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
