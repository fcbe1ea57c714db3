"""Signals that end a process, and what they do for a while."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def kept() -> Iterator[None]:
    """Restores the handlers of signals after a block in which an event loop sets its own."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        with suppress(ValueError):               # not in the main thread, where nothing has changed
            for number, handler in before.items():
                if handler is not None:          # a handler that Python has not set
                    signal.signal(number, handler)


def interrupt(*_: object) -> NoReturn:
    """The handler of signals where an exception is safe: while waiting for a line, or for another process."""
    raise KeyboardInterrupt
