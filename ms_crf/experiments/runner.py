"""Trainings in processes of their own, one after another or side by side, that end in order when they are stopped.

Tables of the results are here, too.
"""

import functools
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import IO, TextIO

from ms_crf.base import processes
from ms_crf.base.environment import choose_device
from ms_crf.base.errors import OptionError, visible
from ms_crf.base.watchers import Watcher
from ms_crf.native import library
from ms_crf.runs.options import dashed

Value = str | int | float | bool | None
_SECONDS = 0.05                # between two looks at whether a process has ended
_SECONDS_LEFT = 5.0            # for the rest of what a process has written


@dataclass(frozen=True)
class Children:
    """How trainings are started in processes of their own, and where their output goes.

    Attributes:
        command: makes the command line of such a process from the arguments of `train`.
        output, errors: the streams for standard output and standard error of the processes; None for the watcher, which
            receives them line by line.
    """

    command: Callable[..., list[str]] = functools.partial(processes.module_command, 'ms_crf', 'train', attached=True)
    output: TextIO | None = None
    errors: TextIO | None = None


@dataclass
class PlannedRun:
    """A run of an experiment.

    Attributes:
        label: what the watcher receives when the training begins, such as 'crf, seed 1 of 3'.
        folder: the run directory.
        arguments: of `train`, by name.
        model: its name in a comparison.
        seed: of the training.
        fold: of a cross-validation, from 1.
        gently: whether the training saves its state when it is stopped.
        seconds: how long the training took, once it has ended.
    """

    label: str
    folder: Path
    arguments: dict[str, Value]
    model: str = ''
    seed: int = 1
    fold: int | None = None
    gently: bool = True
    seconds: float = 0.0


def options_of(arguments: Mapping[str, Value]) -> Iterator[str]:
    """Yields arguments of `train` as options of its command line; arguments that are None are omitted."""
    for name, value in arguments.items():
        if isinstance(value, bool):
            yield f'--{"" if value else "no-"}{dashed(name)}'
        elif value is not None:
            yield f'--{dashed(name)}={value}'


def prepare(device: str, watcher: Watcher) -> str:
    """Chooses the device of trainings, compiles the operators for the CPU, and returns the name of the device."""
    device = choose_device(device, watcher)
    library.prepare(device, watcher)
    return device


class _Process:
    """The process of a training.

    The process has a session of its own, so that Ctrl-C reaches it only through this process, once.

    Args:
        run: of the training.
        children: how it is started.
        watcher: receives the label of the run.
        shared: whether other trainings run at the same time: each line then begins with the label.
    """

    def __init__(self, run: PlannedRun, children: Children, watcher: Watcher, shared: bool) -> None:
        watcher.say(run.label)
        self.run, self.watcher, self.fault, self._stops = run, watcher, run.label, 0
        targets = children.output, children.errors
        output, errors = (PIPE if shared or target is None else target for target in targets)
        self._began = time.perf_counter()
        self.popen = processes.start(children.command(*options_of(run.arguments)), stdout=output, stderr=errors)
        self._readers = [threading.Thread(target=self._pass_on, args=(stream, target), daemon=True)
                         for stream, target in zip((self.popen.stdout, self.popen.stderr), targets) if stream]
        for reader in self._readers:
            reader.start()

    def _pass_on(self, stream: IO[bytes], target: TextIO | None) -> None:
        with stream:
            for line in stream:
                text = f'{self.run.label}: {visible(line.decode("utf-8", "replace").rstrip())}'
                if stream is self.popen.stderr:
                    self.fault = text
                with suppress(Exception):        # nobody reads it; the training is worth more than its output
                    if target is None:
                        self.watcher.say(text)
                    else:
                        target.write(f'{text}\n')
                        target.flush()

    def stop(self, times: int) -> None:
        """Stops the process unless it has been stopped as often: the first time as gently as possible."""
        if self._stops < times:
            self._stops = times
            self.popen.send_signal(signal.SIGTERM if self.run.gently and times == 1 else signal.SIGKILL)

    def status(self) -> int | None:
        """Returns the exit status; None as long as the process runs."""
        status = self.popen.poll()
        if status is not None:
            self.run.seconds = time.perf_counter() - self._began
            for reader in self._readers:
                reader.join(_SECONDS_LEFT)       # a process that it left behind may hold the pipe
        return status


def run_all(runs: Sequence[PlannedRun], jobs: int, kept: str, children: Children | None, watcher: Watcher) -> None:
    """Runs trainings to their ends; if one of them fails, the others are stopped and no further one is started.

    Args:
        runs: in the order in which they begin.
        jobs: how many run at a time.
        kept: what becomes of the other trainings if one of them fails, the end of the message.
        children: how the processes are started, and where their output goes; None for the default.
        watcher: receives the label of each run that begins.

    Raises:
        OptionError: a training failed.
        KeyboardInterrupt: the trainings were stopped by a signal.
    """
    children = children or Children()
    waiting, shared = list(runs), jobs > 1 and len(runs) > 1
    running: list[_Process] = []
    stops, fault = 0, ''                         # signals that have come; of the first training that has failed

    def stop(*_: object) -> None:
        nonlocal stops
        stops += 1
        for process in running:
            process.stop(stops)

    with processes.handling_signals(stop):
        try:
            while running or (waiting and not stops and not fault):
                while waiting and len(running) < jobs and not stops and not fault:
                    running.append(_Process(waiting.pop(0), children, watcher, shared))
                for process in list(running):
                    status = process.status()
                    if status is not None:
                        running.remove(process)
                    elif stops or fault:         # perhaps since before the process began
                        process.stop(max(stops, 1))
                    if status == processes.INTERRUPTED:
                        stops = max(stops, 1)
                    elif status and not stops and not fault:
                        ended = f'by signal {-status}' if status < 0 else f'with status {status}'
                        fault = f'{ended}, see above' if children.errors is not None else f'{ended}: {process.fault}'
                time.sleep(_SECONDS)
        finally:
            for process in running:              # after an exception only
                process.popen.kill()
                process.popen.wait()
    if fault:
        raise OptionError(f'a training ended {fault}; {kept}')
    if stops:
        raise KeyboardInterrupt


#: rates and their heads
RATES = {'precision': 'P', 'recall': 'R', 'f1': 'F1', 'accuracy': 'accuracy'}


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown, without a line end after its last row."""
    first, *others = (f'| {" | ".join(row)} |' for row in (heads, *rows))
    return '\n'.join([first, '|---' * len(heads) + '|', *others])


def mean_and_deviation(shares: Sequence[float]) -> str:
    """Returns the mean of shares in percent and, if there are several, their standard deviation: '55.00 ± 7.07'."""
    deviation = f' ± {100 * statistics.stdev(shares):.2f}' if len(shares) > 1 else ''
    return f'{100 * statistics.mean(shares):.2f}{deviation}'
