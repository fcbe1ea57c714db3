"""Watchers of the commands, which show messages and progress bars on the terminal."""

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
        verb: a command such as 'train'; its program name is the prefix of each line.
        bars: whether progress bars are shown, if standard error is a terminal.
    """

    def __init__(self, verb: str, bars: bool = True) -> None:
        self.program, self.bars = console.program(verb), bars
        self.bar: Any = None                     # progress bar of tqdm during a task

    def say(self, text: str) -> None:
        """Shows a line."""
        if self.bar is not None:
            self.bar.clear()                     # the line is printed in place of the bar
        console.say(f'{self.program}: {text}')

    warn = say

    @contextmanager
    def progress(self, task: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
        """Shows a progress bar if the task takes more than two seconds; yields a function to report finished units."""
        with tqdm(total=total, unit=unit, desc=task or None, leave=False, delay=2, disable=None if self.bars else True,
                  file=sys.stderr, dynamic_ncols=True) as self.bar:
            yield self.bar.update
        self.bar = None


class InteractiveTerminal(Terminal):
    """A `Terminal` that shows lines only if standard error is a terminal; warnings are always shown."""

    def say(self, text: str) -> None:
        """Shows a line without the name of the command, on a terminal only."""
        if sys.stderr.isatty():
            console.say(text)


class _Screen(Terminal):
    """Shows lines on a stream, and warnings and bars on standard error."""

    def __init__(self, output: TextIO) -> None:
        super().__init__('train')
        self.output = output

    def say(self, text: str) -> None:
        """Shows a line; if the output fails, the training continues without output."""
        if self.bar is not None:
            self.bar.clear()
        try:
            console.show(text, self.output)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.warn(f'standard output cannot be written: {error.strerror}; training continues')
            console.silence(self.output)


class TrainingTerminal(TrainingLines):
    """Shows the lines and progress bars of a training.

    Args:
        output: stream for the lines (default: standard output).
    """

    def __init__(self, output: TextIO | None = None) -> None:
        self.output = output or sys.stdout
        self.screen = _Screen(self.output)
        super().__init__(self.screen)

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Begins the progress bar of an epoch, at `done` sentences; its rate ignores sentences done before a resume."""
        super().epoch_begins(epoch, epochs, sentences, 0)
        self.screen.bar.initial = self.screen.bar.n = done

    def step(self, sentences: int, loss: float) -> None:
        """Advances the progress bar of the epoch and shows the loss next to the bar."""
        self.screen.bar.set_postfix(loss=f'{loss:.3f}', refresh=False)
        super().step(sentences, loss)

    def ask_to_stop(self, *_: object) -> None:
        """Signal handler that stops the training after the current step; a second signal ends the process at once."""
        if self.stop_requested:
            console.leave()
        self.stop_requested = True


def trainings(output: TextIO) -> Children:
    """Returns the settings for trainings in child processes, whose messages begin with 'train.py' or 'ms-crf train'.

    Args:
        output: stream for the standard output of the trainings.
    """
    program = _PROGRAM.format(name=console.name_of('train'))
    return Children(lambda *arguments: processes.command(program, *arguments, attached=True), output, sys.stderr)


class PlainTerminal(Terminal):
    """A `Terminal` whose lines do not begin with the name of the command."""

    def say(self, text: str) -> None:
        """Shows a line."""
        console.say(text)
