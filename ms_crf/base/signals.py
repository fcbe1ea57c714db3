"""Signals that end a process, and what they do for a while."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

SIGNALS = [getattr(signal, name) for name in ('SIGINT', 'SIGTERM', 'SIGHUP') if hasattr(signal, name)]
INTERRUPTED = 130              # exit status of a command that a signal has stopped


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
def deferred() -> Iterator[Callable[[], None]]:
    """Within the block, where an exception is not safe, a signal only takes effect at the next safe point.

    Yields:
        a function to call at safe points, which raises KeyboardInterrupt if a signal has come. A second signal raises
        KeyboardInterrupt at once, and a third one is handled as before the block.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)
        if len(received) > 1:
            signal.signal(number, before[number])
            check()

    def check() -> None:
        if received:
            raise KeyboardInterrupt

    with handling(receive):
        yield check


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
