"""Signals that end a process, and what they do for a while."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ('SIGINT', 'SIGTERM', 'SIGHUP') if hasattr(signal, name)]


@contextmanager
def handling(handler: Callable[..., object]) -> Iterator[None]:
    """Within the block, Ctrl-C, SIGTERM and SIGHUP call `handler`; signals that were ignored stay ignored.

    In a thread other than the main thread, where Python cannot set handlers, signals stay as they are.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    changed = []
    try:
        for number, former in before.items():
            if former != signal.SIG_IGN:
                try:
                    signal.signal(number, handler)
                except ValueError:
                    break
                changed.append(number)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def interrupt(*_: object) -> NoReturn:
    """The handler of signals where an exception is safe: while waiting for a line, or for another process."""
    raise KeyboardInterrupt
