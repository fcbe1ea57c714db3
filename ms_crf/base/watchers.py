"""What a function tells its caller while it works: lines, and the progress of long tasks."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Watcher(Protocol):
    """Is told how a function gets on. Commands show it; a program may pass an object of its own."""

    def say(self, text: str) -> None:
        """Takes a line for the user."""

    def warn(self, text: str) -> None:
        """Takes a line about something unexpected; commands show it on standard error."""

    def progress(self, task: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], object]]:
        """Returns a context for a task of `total` units; within it, a function takes the number of units just done."""


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
    """A watcher that gives its lines to a function.

    Args:
        write: takes a line, without its end.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.say = self.warn = write  # type: ignore[method-assign,assignment]
