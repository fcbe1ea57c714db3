"""Trainings in processes of their own, one after the other or side by side, that end in order when they are stopped."""

import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TextIO

from ms_crf.base import processes, signals
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.runs.options import dashed

MOST_JOBS = 1000
_SECONDS = 0.05                # between two looks at whether one has ended
_SECONDS_LEFT = 5.0            # for the rest of what one has said
#: a training in a process of its own, whose messages begin with the name by which this process was called
_PROGRAM = 'from ms_crf.cli.console import enter\nsys.exit(enter("train", {name!r}))\n'


def check_jobs(jobs: int) -> None:
    """Raises OptionError unless so many trainings can run side by side."""
    if not 1 <= jobs <= MOST_JOBS:
        raise OptionError(f'--jobs must be from 1 to {MOST_JOBS:,}, got {jobs}')


def arguments_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """Options by name as arguments of a command line."""
    for name, value in settings.items():
        if isinstance(value, bool):
            yield f'--{"" if value else "no-"}{dashed(name)}'
        else:
            yield f'--{dashed(name)}={value}'


class Training:
    """A training in a process of its own.

    The process has a session of its own, so that Ctrl-C reaches it only through this one, once.

    Args:
        name: is said when it begins.
        arguments: for the command line of `train`.
        gently: whether it is to save its state when it is stopped, and not to end at once.

    Attributes:
        seconds: that it took, once it has ended.
    """

    def __init__(self, name: str, arguments: Sequence[str], gently: bool = True) -> None:
        self.name, self.arguments, self.gently, self.seconds = name, arguments, gently, 0.0
        self._told = 0
        self._readers: list[threading.Thread] = []
        self._process: subprocess.Popen | None = None

    def start(self, output: TextIO, named: bool) -> None:
        """Starts the process.

        Args:
            output: where what it says on standard output goes.
            named: whether others run beside it: each line then begins with its name.
        """
        console.say(self.name)
        self._began = time.perf_counter()
        program = _PROGRAM.format(name=console.name_of('train'))
        self._process = subprocess.Popen(processes.command(program, *self.arguments, attached=True),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if named else output,
                                         stderr=subprocess.PIPE if named else None, start_new_session=True,
                                         env=processes.environment())
        for stream, where in ((self._process.stdout, output), (self._process.stderr, sys.stderr)):
            if stream is not None:
                self._readers.append(threading.Thread(target=self._pass_on, args=(stream, where), daemon=True))
                self._readers[-1].start()

    def _pass_on(self, stream: IO[bytes], where: TextIO) -> None:
        for line in stream:
            try:
                console.show(f'{self.name}: {line.decode("utf-8", "replace").rstrip()}', where)
            except (OSError, ValueError):        # nobody reads; the training is worth more than what it says
                continue

    def tell(self, times: int) -> None:
        """Stops it, if it has not been told so often yet: the first time as gently as it may be."""
        if self._process is not None and self._told < times:
            self._told = times
            self._process.send_signal(signal.SIGTERM if self.gently and times == 1 else signal.SIGKILL)

    def status(self) -> int | None:
        """Its exit status, or None as long as it runs."""
        status = self._process.poll() if self._process is not None else None
        if status is not None:
            self.seconds = time.perf_counter() - self._began
            for reader in self._readers:
                reader.join(_SECONDS_LEFT)       # what it said; something that it left behind may hold the pipe
        return status


class _Together:
    """Runs trainings, at most so many at a time."""

    def __init__(self, trainings: Sequence[Training], jobs: int, output: TextIO) -> None:
        self.waiting, self.jobs, self.output = list(trainings), jobs, output
        self.running: list[Training] = []
        self.asked = 0
        self.named = jobs > 1 and len(trainings) > 1
        self.fault: int | None = None            # the status of the first one that has failed

    def stop(self, *_: object) -> None:
        """The handler of signals."""
        self.asked += 1
        for training in self.running:
            training.tell(self.asked)

    def run(self) -> None:
        while self.running or (self.waiting and not self.asked and self.fault is None):
            while self.waiting and len(self.running) < self.jobs and not self.asked and self.fault is None:
                training = self.waiting.pop(0)
                self.running.append(training)
                training.start(self.output, self.named)
            for training in list(self.running):
                if self.asked:                   # perhaps before there was a process to be told
                    training.tell(self.asked)
                status = training.status()
                if status is not None:
                    self.running.remove(training)
                    self._take(status)
            time.sleep(_SECONDS)

    def _take(self, status: int) -> None:
        if status == console.INTERRUPTED:
            self.asked = max(self.asked, 1)
        elif status and not self.asked and self.fault is None:
            self.fault = status
        if self.fault is not None or self.asked:
            for training in self.running:        # what the others have done is kept
                training.tell(max(self.asked, 1))


def run_all(trainings: Sequence[Training], jobs: int, output: TextIO, kept: str) -> None:
    """Runs trainings to their ends; when one fails, those beside it are stopped, and no other is started.

    Args:
        trainings: in the order in which they begin.
        jobs: how many run at a time.
        output: where what they say on standard output goes.
        kept: the end of the message if one of them fails: what becomes of the others.

    Raises:
        OptionError: a training failed.
        KeyboardInterrupt: they were stopped.
    """
    together = _Together(trainings, jobs, output)
    with signals.handling(together.stop):
        together.run()
    if together.fault is not None:
        status = together.fault
        ended = f'by signal {-status}' if status < 0 else f'with status {status}'
        raise OptionError(f'a training ended {ended}, see above; {kept}')
    if together.asked:
        raise KeyboardInterrupt


def mean_and_deviation(values: Sequence[float]) -> str:
    """The mean of shares in percent and, of several, their standard deviation."""
    spread = f' ± {100 * statistics.stdev(values):.2f}' if len(values) > 1 else ''
    return f'{100 * statistics.mean(values):.2f}{spread}'
