"""Runs trainings in child processes, one after another or several at the same time; prints tables of their results.

A stop request is forwarded to the trainings, so that they save their state.
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
_SECONDS = 0.05                # interval of checking whether a process has ended
_SECONDS_LEFT = 5.0            # time to read the remaining output of a process


@dataclass(frozen=True)
class Children:
    """How to start child processes for trainings, and where to write their output.

    Attributes:
        command: function that returns the command line of a child process for command-line arguments of `train`.
        output, errors: streams for standard output and standard error of the child processes; None sends the lines to
            the watcher.
    """

    command: Callable[..., list[str]] = functools.partial(processes.module_command, 'ms_crf', 'train', attached=True)
    output: TextIO | None = None
    errors: TextIO | None = None


@dataclass
class PlannedRun:
    """A run of an experiment.

    Attributes:
        label: the line that the watcher receives when the training begins, such as 'crf, seed 1 of 3'.
        folder: the run directory.
        arguments: arguments of `train` by name.
        model: name of the model in a comparison.
        seed: seed of the training.
        fold: number of the fold in a cross-validation, from 1.
        gently: whether a stop request lets the training save its state.
        seconds: duration of the training, after it has ended.
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
    """Chooses the device of the trainings, compiles C++ operators for the CPU, and returns the name of the device."""
    device = choose_device(device, watcher)
    library.prepare(device, watcher)
    return device


class _TrainingProcess:
    """The child process of a training.

    The child process runs in a separate session, so that it receives Ctrl-C only from this process.

    Args:
        run: the run to train.
        children: how to start the process.
        watcher: receives the label of the run.
        shared: whether other trainings run at the same time; each line of output then begins with the label.
    """

    def __init__(self, run: PlannedRun, children: Children, watcher: Watcher, shared: bool) -> None:
        watcher.say(run.label)
        self.run, self.watcher, self.fault, self._stops = run, watcher, run.label, 0
        targets = children.output, children.errors
        output, errors = (PIPE if shared or target is None else target for target in targets)
        self._started = time.perf_counter()
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
                with suppress(Exception):        # if the output is closed, the training continues
                    if target is None:
                        self.watcher.say(text)
                    else:
                        target.write(f'{text}\n')
                        target.flush()

    def stop(self, times: int) -> None:
        """Stops the process at stop request number `times`: the first lets it save its state, the second kills it."""
        if self._stops < times:
            self._stops = times
            self.popen.send_signal(signal.SIGTERM if self.run.gently and times == 1 else signal.SIGKILL)

    def status(self) -> int | None:
        """Returns the exit status, or None while the process runs."""
        status = self.popen.poll()
        if status is not None:
            self.run.seconds = time.perf_counter() - self._started
            for reader in self._readers:
                reader.join(_SECONDS_LEFT)       # with a limit: a child of the process may still hold the pipe
        return status


def run_all(runs: Sequence[PlannedRun], jobs: int, kept: str, children: Children | None, watcher: Watcher) -> None:
    """Runs trainings. If a training fails, running trainings are stopped and no further training starts.

    Args:
        runs: the runs in the order in which they start.
        jobs: number of trainings at the same time.
        kept: end of the error message of a failed training: what remains of the finished runs.
        children: how to start the processes, and where to write their output; None for the default.
        watcher: receives the label of each run that starts.

    Raises:
        OptionError: a training failed.
        KeyboardInterrupt: the trainings were stopped by a signal.
    """
    children = children or Children()
    waiting, shared = list(runs), jobs > 1 and len(runs) > 1
    running: list[_TrainingProcess] = []
    stops, fault = 0, ''                         # number of stop signals; error of the first failed training

    def stop(*_: object) -> None:
        nonlocal stops
        stops += 1
        for process in running:
            process.stop(stops)

    with processes.handling_signals(stop):
        try:
            while running or (waiting and not stops and not fault):
                while waiting and len(running) < jobs and not stops and not fault:
                    running.append(_TrainingProcess(waiting.pop(0), children, watcher, shared))
                for process in list(running):
                    status = process.status()
                    if status is not None:
                        running.remove(process)
                    elif stops or fault:         # the signal may be older than the process
                        process.stop(max(stops, 1))
                    if status == processes.INTERRUPTED:
                        stops = max(stops, 1)
                    elif status and not stops and not fault:
                        ended = f'by signal {-status}' if status < 0 else f'with status {status}'
                        fault = f'{ended}, see above' if children.errors is not None else f'{ended}: {process.fault}'
                time.sleep(_SECONDS)
        finally:
            for process in running:              # only after an exception
                process.popen.kill()
                process.popen.wait()
    if fault:
        raise OptionError(f'a training ended {fault}; {kept}')
    if stops:
        raise KeyboardInterrupt


#: rates and their column headers
RATES = {'precision': 'P', 'recall': 'R', 'f1': 'F1', 'accuracy': 'accuracy'}


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown, without a newline after the last row."""
    first, *others = (f'| {" | ".join(row)} |' for row in (headers, *rows))
    return '\n'.join([first, '|---' * len(headers) + '|', *others])


def mean_and_deviation(shares: Sequence[float]) -> str:
    """Returns the mean of shares in percent, with the standard deviation of several shares: '55.00 ± 7.07'."""
    deviation = f' ± {100 * statistics.stdev(shares):.2f}' if len(shares) > 1 else ''
    return f'{100 * statistics.mean(shares):.2f}{deviation}'
