"""Starts the workers of a training on this machine with MindSpore's `msrun`.

The events of the first worker are forwarded to the watcher. If a worker dies, all workers are ended. Each worker writes
files that are named after its rank: the process id, the events (one line of JSON each), and at the end the outcome, the
value that the training returned or the exception that it raised.
"""

import contextlib
import json
import os
import pickle
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any, NoReturn

from ms_crf.base import files, processes
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import new_folder
from ms_crf.base.watchers import SILENT
from ms_crf.runs.arguments import TrainArguments
from ms_crf.training.watchers import Stopped, TrainingLines, TrainingWatcher, WorkersDied

import psutil

FOLDER = 'MS_CRF_WORKERS'              # environment variable: the folder of the files of all processes
RANK = 'RANK_ID'                       # environment variable of msrun: the rank of a process
_SECONDS = 0.1                         # interval of reading the files
_SECONDS_LEFT = 10.0                   # time for killed processes to end
_ARGUMENTS, _SCHEDULER = 'arguments.json', 'scheduler'           # file names; the scheduler connects the workers
_USER_ERRORS = (OptionError, CorpusError, KeyboardInterrupt, MemoryError, ImportError, OSError, UnicodeError)
_SCRIPT = """
import os
from ms_crf.base import processes
processes.end_with(os.getppid())
from ms_crf.training.launcher import work
from ms_crf.training.train import train_run
work(train_run)
"""


def started_by_msrun() -> bool:
    """Returns whether msrun has started this process, as a worker or as the scheduler."""
    return os.environ.get('MS_ROLE') in ('MS_WORKER', 'MS_SCHED')


class _Recorder(TrainingLines):
    """Writes all events to a file, for `_WorkerProcess.replay`."""

    def __init__(self, path: Path) -> None:
        super().__init__(SILENT)
        self.file = open(path, 'w', encoding='utf-8')  # noqa: SIM115  closed at the end of the process
        for name in ('say', 'warn', 'compiled', 'epoch_begins', 'step', 'epoch_ends'):
            setattr(self, name, partial(self._write, name))

    def _write(self, name: str, *values: Any) -> None:
        self.file.write(json.dumps([name, *values]) + '\n')
        self.file.flush()


def work(train: Callable[..., Any]) -> None:
    """The main function of each process: calls `train_run` with the arguments in the folder, and writes the outcome."""
    own = Path(os.environ[FOLDER], _SCHEDULER if os.environ['MS_ROLE'] == 'MS_SCHED' else os.environ[RANK])
    own.with_suffix('.process').write_text(str(os.getpid()))
    arguments, options = json.loads(own.with_name(_ARGUMENTS).read_text())
    outcome: Any
    with processes.handling_signals(_exit_now):            # until the training installs its own handler
        try:
            outcome = train(TrainArguments(**arguments), options, _Recorder(own.with_suffix('.events')))
        except _USER_ERRORS as error:
            outcome = error
        except BaseException:                    # a bug: the traceback is needed
            outcome = RuntimeError(f'a worker has failed:\n{traceback.format_exc()}')
    draft = own.with_suffix('.draft')
    draft.write_bytes(pickle.dumps(outcome))
    draft.rename(own.with_suffix('.outcome'))


def _exit_now(*_: object) -> NoReturn:
    files.remove_temporaries()
    os._exit(1)


class _WorkerProcess:
    """The parent's view of one worker process, through the files that the process writes.

    Args:
        folder: the folder of the files.
        rank: rank of the worker.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank, self._path = rank, folder / str(rank)
        self._offset = 0                         # in the file of events: the end of the forwarded lines
        self._process: psutil.Process | None = None

    def process(self) -> psutil.Process | None:
        """Returns the process, or None before it has started."""
        if self._process is None:
            with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
                self.pid = int(self._path.with_suffix('.process').read_text())
                self._process = psutil.Process(self.pid)
        return self._process

    def outcome(self) -> Any:
        """Returns the value that the training returned or the exception that it raised; None while it runs."""
        with contextlib.suppress(FileNotFoundError):
            return pickle.loads(self._path.with_suffix('.outcome').read_bytes())
        return None

    def has_died(self) -> bool:
        """Returns whether the process has ended without an outcome."""
        process = self.process()
        if process is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
        return self.outcome() is None

    def replay(self, watcher: TrainingWatcher) -> None:
        """Forwards the new events of the process to a watcher."""
        with contextlib.suppress(FileNotFoundError), open(self._path.with_suffix('.events'), 'rb') as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b'\n'):     # the process is still writing this line
                    break
                self._offset += len(line)
                name, *values = json.loads(line)
                getattr(watcher, name)(*values)


def run(arguments: TrainArguments, options: Mapping[str, Any], folder: str, watcher: TrainingWatcher) -> Any:
    """Trains in `arguments.workers` processes; returns the result of `train_run` in the first worker.

    Args:
        arguments, options: arguments of `train_run` in each worker.
        folder: the run directory, for messages.
        watcher: receives the events of the first worker; a stop request saves the training after the current step.

    Raises:
        WorkersDied: a worker died.
        KeyboardInterrupt: the training was stopped; a `Stopped` if it was saved.
        Exception: the exception that a worker raised.
    """
    with files.temporary(new_folder()) as scratch:
        script = Path(scratch, 'worker.py')
        script.write_text(_SCRIPT)
        script.with_name(_ARGUMENTS).write_text(json.dumps([asdict(replace(arguments, workers=1)), dict(options)]))
        count = arguments.workers
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            port = probe.getsockname()[1]        # a free port
        # msrun copies the log of worker `tail_worker_log` to standard output; no worker has the rank `count`.
        # msrun runs a script, because `python script` does not import modules from the current folder.
        command = processes.module_command(
            'mindspore.parallel.cluster.run', f'--worker_num={count}', f'--local_worker_num={count}', '--join=True',
            f'--tail_worker_log={count}', f'--log_dir={scratch}', f'--master_port={port}', str(script),
            attached=True)
        workers = [_WorkerProcess(Path(scratch), rank) for rank in range(count)]
        # msrun and the workers end when their parent ends, so also if this process is killed.
        # msrun runs in a separate session, because on Ctrl-C it would kill the training before it is saved.
        with processes.start(command, env=processes.environment(**{FOLDER: scratch}), stdout=DEVNULL,
                             stderr=DEVNULL) as msrun:
            try:
                with processes.handling_signals(watcher.ask_to_stop):
                    return _outcome(msrun, workers, folder, watcher)
            finally:                             # end msrun and all processes that it has started
                remaining = [process for worker in workers if (process := worker.process())]
                with contextlib.suppress(psutil.NoSuchProcess):
                    remaining += psutil.Process(msrun.pid).children(recursive=True)
                msrun.kill()
                processes.end(remaining, _SECONDS_LEFT, at_once=True)


def _outcome(msrun: Popen, workers: Sequence[_WorkerProcess], folder: str, watcher: TrainingWatcher) -> Any:
    """Forwards the events of the first worker until all workers have ended; returns or raises its outcome."""
    signalled = False
    while True:
        ended = msrun.poll() is not None
        dead = next((worker for worker in workers if worker.has_died()), None)
        outcomes = [worker.outcome() for worker in workers]
        workers[0].replay(watcher)               # after reading outcomes: events are written before the outcome
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in errors:
            if not isinstance(error, Stopped):   # other workers may wait forever for the worker with the error
                raise error
        if None not in outcomes:
            if errors:
                raise errors[0]
            return outcomes[0]
        if dead is not None or ended:
            if signalled:                        # the workers ended before the training was saved
                raise KeyboardInterrupt
            raise WorkersDied(f'worker {dead.rank} of {len(workers)} (process {dead.pid}) has died' if dead else
                              'msrun has ended before the workers started', folder)
        if watcher.stopping() and not signalled:
            leader = workers[0].process()
            if leader is None:
                raise KeyboardInterrupt
            with contextlib.suppress(psutil.NoSuchProcess):
                leader.send_signal(signal.SIGTERM)
            signalled = True
        time.sleep(_SECONDS)
