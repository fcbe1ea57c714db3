"""The process that splits raw text, which the server starts and talks to in frames.

It is a process of its own because a splitter's library may hold Python's lock for seconds, in which no other thread
of the same process runs. The server kills it when nobody waits for its result any more.
"""

import contextlib
import signal
from typing import NamedTuple

from ms_crf.base.errors import OptionError
from ms_crf.server.frames import connect
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.reading import Asked, Wanted, wanted
from ms_crf.text.splitting import Splitter, splitter_named

MARGIN = 5                             # seconds after the limit of a request


class Setup(NamedTuple):
    """The first frame that the process receives."""

    limits: Limits
    splitter: str                      # is loaded before the first text


class Task(NamedTuple):
    """A request with raw text."""

    question: Asked
    splitter: str


#: the sentences of a request, or status and message of what is wrong with it
Answer = Wanted | tuple[int, str]


def answered(task: Task, limits: Limits) -> Answer:
    """The sentences of a request with raw text, or what is wrong with it."""
    def splitter() -> Splitter:
        try:
            return splitter_named(task.splitter)
        except OptionError as error:             # its library is not installed
            raise Refused(422, str(error)) from None

    try:
        return wanted(task.question, splitter, limits)
    except Refused as error:
        return error.status, error.message
    except Exception as error:                   # of a library
        return 500, f'the text cannot be split: {type(error).__name__}'


def _allow(seconds: float) -> None:
    """Has the system end this process after so many seconds, whatever it does then; 0 for no limit.

    The server kills the process sooner, unless the server itself was killed.
    """
    if hasattr(signal, 'setitimer'):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def main() -> None:
    """Answers the frames of standard input, each a list of tasks, on standard output."""
    frames, answer = connect()
    setup: Setup | None = next(frames, None)
    if setup is None:
        return
    with contextlib.suppress(OptionError):       # the answer to each request will mention it
        splitter_named(setup.splitter)
    with contextlib.suppress(BrokenPipeError):   # the server has ended
        answer(True)
        for tasks in frames:
            _allow(setup.limits.timeout + MARGIN)
            answers = [answered(task, setup.limits) for task in tasks]
            _allow(0)
            answer(answers)
