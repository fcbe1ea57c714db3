"""Watchers, which receive messages and the progress of long tasks from a running function."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Watcher(Protocol):
    """Receives messages and progress from a function. Commands show them; a program may pass its own watcher."""

    def say(self, text: str) -> None:
        """Receives a line of information."""

    def warn(self, text: str) -> None:
        """Receives a warning line; commands show it on standard error."""

    def progress(self, task: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], object]]:
        """Returns a context manager for a task of `total` units, which yields a function to report finished units."""


class Silent:
    """A watcher that shows nothing."""

    def say(self, text: str) -> None:
        """Ignores the line."""

    warn = say

    def progress(self, task: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], object]]:
        """Ignores the progress."""
        return contextlib.nullcontext(lambda count: None)


SILENT = Silent()


class Lines(Silent):
    """A watcher that passes its lines to a function.

    Args:
        write: function that takes a line without line end.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.say = self.warn = write  # type: ignore[method-assign,assignment]
