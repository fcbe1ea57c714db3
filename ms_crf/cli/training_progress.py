"""What the command `train` shows while it trains: lines on standard output, and a progress bar on a terminal."""

import sys
from typing import TextIO

from ms_crf.cli import console
from ms_crf.cli.terminal import Terminal
from ms_crf.training.watchers import TrainingLines


class _Screen(Terminal):
    """Shows lines on a stream, and warnings and bars on standard error."""

    def __init__(self, output: TextIO) -> None:
        super().__init__(console.program('train'))
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
        if self.asked_to_stop:
            console.leave()
        self.asked_to_stop = True
