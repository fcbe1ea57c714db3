"""How a training ends before it is done: stopped, with a loss that is no number, or because a worker died."""

from pathlib import Path

from ms_crf.base.errors import OptionError


class Stopped(KeyboardInterrupt):
    """The training was stopped after a step, and its state is saved.

    Attributes:
        folder: the run directory to resume; None if another worker wrote it.
        earlier: the run that the training was going to replace and has not replaced yet, or None.
    """

    def __init__(self, folder: Path | None = None, earlier: Path | None = None) -> None:
        self.folder, self.earlier = folder, earlier

    def __str__(self) -> str:
        return f'stopped and saved in {self.folder}'


class NotFinite(OptionError):
    """The loss or its gradients are not finite. The files of the last epoch stay as they are."""

    longest = 100_000          # characters: the message names a line of the file for each sentence of the batch


class WorkersDied(Exception):
    """The training ended because one of its workers did.

    Attributes:
        fault: which worker died, or that none began.
        folder: the run directory; the training can be resumed if there is one.
    """

    def __init__(self, fault: str, folder: str) -> None:
        super().__init__(f'{fault}; all are ended, what was saved in {folder} stays; resume it to go on')
        self.fault, self.folder = fault, folder
