"""How commands start trainings in processes of their own, and what they show meanwhile."""

import sys
from typing import TextIO

from ms_crf.base import processes
from ms_crf.cli import console
from ms_crf.cli.terminal import Terminal
from ms_crf.experiments.runner import Children

_PROGRAM = 'from ms_crf.cli.console import enter\nsys.exit(enter("train", {name!r}))\n'


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
