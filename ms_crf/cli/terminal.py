"""What commands show while a function works: lines and progress bars."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ms_crf.cli import console

from tqdm import tqdm


class Terminal:
    """A watcher that shows lines and progress on standard error.

    Args:
        program: the name that its lines begin with.
        bars: whether progress is shown.
    """

    def __init__(self, program: str, bars: bool = True) -> None:
        self.program, self.bars = program, bars
        self.bar: Any = None                     # of tqdm, while a task runs

    def say(self, text: str) -> None:
        """Shows a line."""
        if self.bar is not None:
            self.bar.clear()                     # the line takes its place
        console.say(f'{self.program}: {text}')

    warn = say

    @contextmanager
    def progress(self, task: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
        """Shows how far a task is that takes more than two seconds, by a function that takes the units just done."""
        with tqdm(total=total, unit=unit, desc=task or None, leave=False, delay=2, disable=None if self.bars else True,
                  file=sys.stderr, dynamic_ncols=True) as self.bar:
            yield self.bar.update
        self.bar = None


class Person(Terminal):
    """A `Terminal` whose lines, but for warnings, are for people: they are left out where nobody sees them at once."""

    def say(self, text: str) -> None:
        """Shows a line as it is, on a terminal only."""
        if sys.stderr.isatty():
            console.say(text)
