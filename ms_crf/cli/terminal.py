"""What commands show while a function works: lines and progress bars."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from ms_crf.base import processes
from ms_crf.cli import console
from ms_crf.experiments.runner import Children
from ms_crf.training.watchers import TrainingLines

from tqdm import tqdm

_PROGRAM = 'from ms_crf.cli.console import enter\nsys.exit(enter("train", {name!r}))\n'


class Terminal:
    """A watcher that shows lines and progress on standard error.

    Args:
        verb: the command, whose name its lines begin with.
        bars: whether progress is shown.
    """

    def __init__(self, verb: str, bars: bool = True) -> None:
        self.program, self.bars = console.program(verb), bars
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


class _Screen(Terminal):
    """Shows lines on a stream, and warnings and bars on standard error."""

    def __init__(self, output: TextIO) -> None:
        super().__init__('train')
        self.output = output

    def say(self, text: str) -> None:
        """Shows a line. If that fails, the training continues: it is worth more than its lines."""
        if self.bar is not None:
            self.bar.clear()
        try:
            console.show(text, self.output)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.warn(f'standard output can not be written: {error.strerror}; training goes on')
            console.silence(self.output)


class Watcher(TrainingLines):
    """Shows a training on the terminal.

    Args:
        output: stream of the lines (default: standard output).
    """

    def __init__(self, output: TextIO | None = None) -> None:
        self.output = output or sys.stdout
        self.screen = _Screen(self.output)
        super().__init__(self.screen)

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Begins the bar of the epoch, whose rate is of the sentences that are not done yet."""
        super().epoch_begins(epoch, epochs, sentences, 0)
        self.screen.bar.initial = self.screen.bar.n = done

    def step(self, sentences: int, loss: float) -> None:
        """Advances the bar of the epoch, and shows the loss there."""
        self.screen.bar.set_postfix(loss=f'{loss:.3f}', refresh=False)
        super().step(sentences, loss)

    def ask_to_stop(self, *_: object) -> None:
        """Stops the training after the step. A second signal ends the process at once."""
        if self.stop_requested:
            console.leave()
        self.stop_requested = True


def trainings(output: TextIO) -> Children:
    """Returns how to start trainings whose messages begin with the name of `train` in this command's way of calling.

    Args:
        output: for the standard output of the trainings.
    """
    program = _PROGRAM.format(name=console.name_of('train'))
    return Children(lambda *arguments: processes.command(program, *arguments, attached=True), output, sys.stderr)


class Heading(Terminal):
    """A watcher that shows the beginnings of trainings without the name of the program."""

    def say(self, text: str) -> None:
        """Shows a line."""
        console.say(text)
