"""Starts a training in several processes on this machine by MindSpore's `msrun`, passes on what the first of them
reports, and ends all of them when one has died.

Each process writes files that are named after its rank: its process id, its events (a line of JSON each), and in the
end its outcome, which is what the function returned or raised.
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

FOLDER = 'MS_CRF_WORKERS'              # names the folder of the files of all processes
RANK = 'RANK_ID'                       # the number of a process, from msrun
_SECONDS = 0.1                         # between two looks at the files
_SECONDS_LEFT = 10.0                   # that processes which were killed may take to be gone
_ARGUMENTS, _SCHEDULER = 'arguments.json', 'scheduler'           # at which the workers meet
_OF_USERS = (OptionError, CorpusError, KeyboardInterrupt, MemoryError, ImportError, OSError, UnicodeError)
_SCRIPT = """
import os
from ms_crf.base import processes
processes.end_with(os.getppid())
from ms_crf.training.launcher import work
from ms_crf.training.train import train_run
work(train_run)
"""


def started_by_msrun() -> bool:
    """Whether msrun has started this process, as a worker or as the scheduler at which they meet."""
    return os.environ.get('MS_ROLE') in ('MS_WORKER', 'MS_SCHED')


class _Recorder(TrainingLines):
    """Writes all events to a file, for `_Worker.replay`."""

    def __init__(self, path: Path) -> None:
        super().__init__(SILENT)
        self.file = open(path, 'w', encoding='utf-8')  # noqa: SIM115  until the end of the process
        for name in ('say', 'warn', 'compiled', 'epoch_begins', 'step', 'epoch_ends'):
            setattr(self, name, partial(self._write, name))

    def _write(self, name: str, *values: Any) -> None:
        self.file.write(json.dumps([name, *values]) + '\n')
        self.file.flush()


def work(train: Callable[..., Any]) -> None:
    """Calls `train_run` with the arguments in the folder, and writes down its outcome: what each process does."""
    mark = Path(os.environ[FOLDER], _SCHEDULER if os.environ['MS_ROLE'] == 'MS_SCHED' else os.environ[RANK])
    mark.with_suffix('.process').write_text(str(os.getpid()))
    given, options = json.loads(mark.with_name(_ARGUMENTS).read_text())
    outcome: Any
    with processes.handling_signals(_leave):               # until the training can be stopped, and so saved
        try:
            outcome = train(TrainArguments(**given), options, _Recorder(mark.with_suffix('.events')))
        except _OF_USERS as error:
            outcome = error
        except BaseException:                    # a fault of the program: its trace says more
            outcome = RuntimeError(f'a worker has failed:\n{traceback.format_exc()}')
    draft = mark.with_suffix('.draft')
    draft.write_bytes(pickle.dumps(outcome))
    draft.rename(mark.with_suffix('.outcome'))


def _leave(*_: object) -> NoReturn:
    files.remove_temporaries()
    os._exit(1)


class _Worker:
    """One of the processes, by the files that it writes."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank, self._mark = rank, folder / str(rank)
        self._read = 0
        self._process: psutil.Process | None = None

    def process(self) -> psutil.Process | None:
        """The process, once it has begun."""
        if self._process is None:
            with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
                self.pid = int(self._mark.with_suffix('.process').read_text())
                self._process = psutil.Process(self.pid)
        return self._process

    def outcome(self) -> Any:
        """What it returned, or the error that it raised; None as long as it has done neither."""
        with contextlib.suppress(FileNotFoundError):
            return pickle.loads(self._mark.with_suffix('.outcome').read_bytes())
        return None

    def has_died(self) -> bool:
        """Whether it is gone without an outcome."""
        process = self.process()
        if process is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
        return self.outcome() is None

    def replay(self, watcher: TrainingWatcher) -> None:
        """Passes on its events since the last call."""
        with contextlib.suppress(FileNotFoundError), open(self._mark.with_suffix('.events'), 'rb') as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b'\n'):     # it is still being written
                    break
                self._read += len(line)
                name, *values = json.loads(line)
                getattr(watcher, name)(*values)


def run(given: TrainArguments, options: Mapping[str, Any], folder: str, watcher: TrainingWatcher) -> Any:
    """Trains in `given.workers` processes; returns what `train_run` returns in the first of them.

    Args:
        given, options: arguments of `train_run` in each of them, apart from the number of workers.
        folder: the run directory, for messages.
        watcher: receives the events of the first process; if it is to stop, the training is saved after the step.

    Raises:
        WorkersDied: one of them died.
        KeyboardInterrupt: they were stopped; a `Stopped` if the training was saved.
        Exception: what a process raised.
    """
    with files.temporary(new_folder()) as scratch:
        script = Path(scratch, 'worker.py')
        script.write_text(_SCRIPT)
        script.with_name(_ARGUMENTS).write_text(json.dumps([asdict(replace(given, workers=1)), dict(options)]))
        count = given.workers
        with socket.socket() as asked:
            asked.bind(('127.0.0.1', 0))
            port = asked.getsockname()[1]        # a free one
        # No worker has the number `count`, so msrun starts no processes that copy the logs to standard output.
        # msrun runs the script with `python`, which searches the folder of the script and not the current one.
        command = processes.module_command(
            'mindspore.parallel.cluster.run', f'--worker_num={count}', f'--local_worker_num={count}', '--join=True',
            f'--tail_worker_log={count}', f'--log_dir={scratch}', f'--master_port={port}', str(script),
            attached=True)
        workers = [_Worker(Path(scratch), rank) for rank in range(count)]
        # If this process is killed, msrun and the workers end as well, each with its parent.
        # In a session of its own: Ctrl-C is for the training, and msrun would kill it.
        with processes.start(command, env=processes.environment(**{FOLDER: scratch}), stdout=DEVNULL,
                             stderr=DEVNULL) as msrun:
            try:
                with processes.handling_signals(watcher.ask_to_stop):
                    return _outcome(msrun, workers, folder, watcher)
            finally:                             # msrun and all that it has started
                left = [process for worker in workers if (process := worker.process())]
                with contextlib.suppress(psutil.NoSuchProcess):
                    left += psutil.Process(msrun.pid).children(recursive=True)
                msrun.kill()
                processes.end(left, _SECONDS_LEFT, at_once=True)


def _outcome(msrun: Popen, workers: Sequence[_Worker], folder: str, watcher: TrainingWatcher) -> Any:
    """Passes on what the first worker reports until all have ended; returns or raises its outcome."""
    told = False
    while True:
        ended = msrun.poll() is not None
        dead = next((worker for worker in workers if worker.has_died()), None)
        outcomes = [worker.outcome() for worker in workers]
        workers[0].replay(watcher)               # only now: its events are there before its outcome
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in errors:
            if not isinstance(error, Stopped):   # the others may wait for this one for ever
                raise error
        if None not in outcomes:
            if errors:
                raise errors[0]
            return outcomes[0]
        if dead is not None or ended:
            if told:                             # before it could be saved
                raise KeyboardInterrupt
            raise WorkersDied(f'worker {dead.rank} of {len(workers)} (process {dead.pid}) has died' if dead else
                              'msrun has ended before the workers were there', folder)
        if watcher.stopping() and not told:
            leader = workers[0].process()
            if leader is None:
                raise KeyboardInterrupt
            with contextlib.suppress(psutil.NoSuchProcess):
                leader.send_signal(signal.SIGTERM)
            told = True
        time.sleep(_SECONDS)
