"""Trainings in processes of their own, one after another or side by side, that end in order when they are stopped."""

import functools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from ms_crf.base import processes
from ms_crf.base.errors import OptionError, visible
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import Watcher
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


CHILDREN = Children()


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


def nearest_folder(path: PathLike) -> Path:
    """Returns the path itself, or the next one above it that exists."""
    absolute = Path(os.path.abspath(path))
    return next(parent for parent in (absolute, *absolute.parents) if os.path.lexists(parent))


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
        piped = [shared or stream is None for stream in (children.output, children.errors)]
        self._began = time.perf_counter()
        self._popen = subprocess.Popen(children.command(*options_of(run.arguments)), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE if piped[0] else children.output,
                                       stderr=subprocess.PIPE if piped[1] else children.errors,
                                       start_new_session=True, env=processes.environment())
        self._readers = [threading.Thread(target=self._pass_on, args=streams, daemon=True) for streams in (
            (self._popen.stdout, children.output), (self._popen.stderr, children.errors)) if streams[0] is not None]
        for reader in self._readers:
            reader.start()

    def _pass_on(self, stream: IO[bytes], target: TextIO | None) -> None:
        with stream:
            for line in stream:
                text = f'{self.run.label}: {visible(line.decode("utf-8", "replace").rstrip())}'
                if stream is self._popen.stderr:
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
            self._popen.send_signal(signal.SIGTERM if self.run.gently and times == 1 else signal.SIGKILL)

    def kill(self) -> None:
        """Ends the process at once."""
        self._popen.kill()
        self._popen.wait()

    def status(self) -> int | None:
        """Returns the exit status; None as long as the process runs."""
        status = self._popen.poll()
        if status is not None:
            self.run.seconds = time.perf_counter() - self._began
            for reader in self._readers:
                reader.join(_SECONDS_LEFT)       # a process that it left behind may hold the pipe
        return status


class _Runner:
    """Runs trainings, at most `jobs` at a time."""

    def __init__(self, jobs: int, children: Children, watcher: Watcher) -> None:
        self.jobs, self.children, self.watcher = jobs, children, watcher
        self.running: list[_Process] = []
        self.stops = 0
        self.fault: str | None = None            # of the first training that has failed

    def stop(self, *_: object) -> None:
        """The handler of signals."""
        self.stops += 1
        for process in self.running:
            process.stop(self.stops)

    def run(self, runs: Sequence[PlannedRun]) -> None:
        waiting, shared = list(runs), self.jobs > 1 and len(runs) > 1
        try:
            while self.running or (waiting and not self._ending):
                while waiting and len(self.running) < self.jobs and not self._ending:
                    self.running.append(_Process(waiting.pop(0), self.children, self.watcher, shared))
                for process in list(self.running):
                    status = process.status()
                    if status is not None:
                        self.running.remove(process)
                        self._end(process, status)
                    elif self._ending:           # perhaps since before the process began
                        process.stop(max(self.stops, 1))
                time.sleep(_SECONDS)
        finally:
            for process in self.running:         # after an exception only
                process.kill()

    @property
    def _ending(self) -> bool:
        return self.stops > 0 or self.fault is not None

    def _end(self, process: _Process, status: int) -> None:
        if status == processes.INTERRUPTED:
            self.stops = max(self.stops, 1)
        elif status and not self._ending:
            ended = f'by signal {-status}' if status < 0 else f'with status {status}'
            self.fault = f'{ended}, see above' if self.children.errors is not None else f'{ended}: {process.fault}'


def run_all(runs: Sequence[PlannedRun], jobs: int, kept: str, children: Children, watcher: Watcher) -> None:
    """Runs trainings to their ends; if one of them fails, the others are stopped and no further one is started.

    Args:
        runs: in the order in which they begin.
        jobs: how many run at a time.
        kept: what becomes of the other trainings if one of them fails, the end of the message.
        children: how the processes are started, and where their output goes.
        watcher: receives the label of each run that begins.

    Raises:
        OptionError: a training failed.
        KeyboardInterrupt: the trainings were stopped by a signal.
    """
    runner = _Runner(jobs, children, watcher)
    with processes.handling_signals(runner.stop):
        runner.run(runs)
    if runner.fault is not None:
        raise OptionError(f'a training ended {runner.fault}; {kept}')
    if runner.stops:
        raise KeyboardInterrupt
