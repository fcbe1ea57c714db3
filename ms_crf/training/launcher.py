"""Starts a training in several processes on this machine by MindSpore's `msrun`, shows what the first of them says,
and ends all of them when one has died.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ms_crf.base import processes, signals
from ms_crf.base.drafts import new_folder
from ms_crf.base.errors import OptionError
from ms_crf.base.files import temporary
from ms_crf.cli import console

FOLDER = 'MS_CRF_WORKERS'              # names the folder in which each process says that it is there, and how it ended
RANK = 'RANK_ID'                       # the number of a process, from msrun
MOST = 1024
_SECONDS = 0.1                         # between two looks at what they say
_SECONDS_LEFT = 10.0                   # that processes which were killed may take to be gone
_SCHEDULER = 'scheduler'               # at which the workers meet
_OF_FRAMEWORK = re.compile(r'\[(?:TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL)\] ')
_SCRIPT = """
import os, sys
from ms_crf.base import processes
processes.end_with(os.getppid())
from ms_crf.cli.console import enter
sys.exit(enter("train", {program!r}))
"""


def check_count(count: int) -> None:
    """Raises OptionError unless so many processes can be started here."""
    if not 1 <= count <= MOST:
        raise OptionError(f'--workers must be from 1 to {MOST:,}, got {count}')


def started_by_msrun() -> bool:
    """Whether msrun has started this process, as a worker or as the scheduler at which they meet."""
    return os.environ.get('MS_ROLE') in ('MS_WORKER', 'MS_SCHED')


@contextlib.contextmanager
def said_to_launcher() -> Iterator[list[int]]:
    """Within the block this process, if `run` has started it, can be seen to be there; behind it how it has ended.

    Yields:
        a list for its exit status.
    """
    folder, status = os.environ.get(FOLDER), [console.FAULT]
    if folder is None or not started_by_msrun():
        yield status
        return
    mark = Path(folder, _SCHEDULER if os.environ['MS_ROLE'] == 'MS_SCHED' else os.environ[RANK])
    mark.with_suffix('.process').write_text(str(os.getpid()))
    yield status
    sys.stdout.flush()
    mark.with_suffix('.status').write_text(str(status[0]))


class _Worker:
    """What is known of one process from what it writes."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank, self.log, self._mark = rank, folder / f'worker_{rank}.log', folder / str(rank)
        self._read, self._rest = 0, b''

    @property
    def process(self) -> int | None:
        """Its number in the system, once it is there."""
        with contextlib.suppress(OSError, ValueError):
            return int(self._mark.with_suffix('.process').read_text())
        return None

    @property
    def status(self) -> int | None:
        """How it has ended, if it could say so."""
        with contextlib.suppress(OSError, ValueError):
            return int(self._mark.with_suffix('.status').read_text())
        return None

    def has_died(self) -> bool:
        """Whether it is gone and has not said how it ended."""
        process = self.process
        if process is None:
            return False
        try:
            state = Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()[0]
        except OSError:
            state = 'X'
        return state in 'XZ' and self.status is None

    def new_lines(self) -> list[str]:
        """What it has said since the last call, without what the framework logs."""
        with contextlib.suppress(OSError), open(self.log, 'rb') as file:
            file.seek(self._read)
            data = file.read()
            self._read += len(data)
            *lines, self._rest = (self._rest + data).split(b'\n')
            texts = [line.decode('utf-8', 'replace') for line in lines]
            return [text for text in texts if not _OF_FRAMEWORK.match(text)]
        return []


def run(count: int, arguments: Sequence[str], resumed: str) -> int:
    """Trains in so many processes; returns the exit status.

    Args:
        count: of the processes.
        arguments: of the command line of each of them.
        resumed: the command by which a training that has ended too early goes on.
    """
    program = console.program('train')
    with temporary(new_folder()) as folder:
        script = Path(folder, 'worker.py')
        script.write_text(_SCRIPT.format(program=program))
        # No worker has the number `count`, so msrun starts no processes that copy the logs to standard output.
        # msrun runs the script with `python`, which searches the folder of the script and not the current one.
        command = processes.module_command(
            'mindspore.parallel.cluster.run', f'--worker_num={count}', f'--local_worker_num={count}', '--join=True',
            f'--tail_worker_log={count}', f'--log_dir={folder}', f'--master_port={_free_port()}', str(script),
            *arguments, attached=True)
        workers = [_Worker(Path(folder), rank) for rank in range(count)]
        # If this process is killed, msrun and the workers end as well, each with its parent.
        # In a session of its own: Ctrl-C is for the training, and msrun would kill it.
        with subprocess.Popen(command, env=processes.environment(**{FOLDER: folder}), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as msrun:
            try:
                with signals.handling(lambda *_: _stop(workers[0], msrun)):
                    return _watch(msrun, workers, program, resumed)
            finally:
                _end(msrun, folder)


def _end(msrun: subprocess.Popen, folder: str) -> None:
    """Ends msrun and all that it has started, and waits until they are gone."""
    with contextlib.suppress(OSError):
        os.killpg(msrun.pid, signal.SIGKILL)
    left = [int(mark.read_text() or 0) for mark in Path(folder).glob('*.process')]
    last = time.monotonic() + _SECONDS_LEFT
    while left and time.monotonic() < last:
        left = [process for process in left if _is_ours(process, folder)]
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_SECONDS / 10)


def _is_ours(process: int, folder: str) -> bool:
    """Whether a process is still there, and was started with this folder: its number may be another one's by now."""
    try:
        return os.fsencode(f'{FOLDER}={folder}') in Path(f'/proc/{process}/environ').read_bytes().split(b'\0')
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(('127.0.0.1', 0))
        return int(asked.getsockname()[1])


_asked: list[int] = []


def _stop(leader: _Worker, msrun: subprocess.Popen) -> None:
    """Asks the first worker to stop all of them after this step; asked again, ends them at once."""
    _asked.append(1)
    process = leader.process
    if len(_asked) > 1 or process is None:
        with contextlib.suppress(OSError):
            os.killpg(msrun.pid, signal.SIGKILL)
        console.leave()
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGTERM)


def _watch(msrun: subprocess.Popen, workers: Sequence[_Worker], program: str, resumed: str) -> int:
    """Shows what the first worker says until all have ended; returns the exit status."""
    shown: set[str] = set()
    while True:
        ended = msrun.poll() is not None
        dead = next((worker for worker in workers if worker.has_died()), None)
        statuses = [worker.status for worker in workers]
        shown.update(_show(workers[0], program))           # only now: what it said stands there before its status does
        if None not in statuses:
            wrong = [worker for worker, status in zip(workers, statuses) if status != workers[0].status]
            for line in wrong[0].new_lines()[-1:] if wrong else ():
                console.say(line)
            return max(status or 0 for status in statuses)
        fault = next((worker for worker, status in zip(workers, statuses) if status == console.FAULT), None)
        if dead is not None or fault is not None or ended:
            if fault is None:
                what = f'worker {dead.rank} of {len(workers)} (process {dead.process}) has died' if dead else (
                    'msrun has ended before the workers were there')
                console.say(f'{program}: {what}; all are ended, what was saved stays; go on with: {resumed}')
            elif fault.rank:                     # what the first one said has been shown: often the same
                for line in fault.new_lines()[-1:]:
                    if line not in shown:
                        console.say(line)
            return console.FAULT
        time.sleep(_SECONDS)


def _show(leader: _Worker, program: str) -> list[str]:
    """Shows what the first worker has said since, and returns it."""
    lines = leader.new_lines()
    for line in lines:
        if line.startswith(f'{program}: '):
            console.say(line)
        else:
            console.show(line)
    return lines
