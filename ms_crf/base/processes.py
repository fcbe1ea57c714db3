"""Starting and ending child processes, and handling the signals that end a process.

Python in a child process never imports from the current folder: `python -c` and `python -m` search the current folder
first, so a file called `json.py` there would be executed. The standard input of a child process is empty unless it is
started with pipes.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:                # imported in functions: most commands start no process
    import asyncio
    import subprocess

    import psutil

#: The folder that holds this package: a checkout, or where it is installed.
PACKAGES = str(Path(__file__).resolve().parents[2])
# An empty string in the import path means the current folder. Before Python 3.11 it can only be removed like this.
_FIRST = 'import sys\nsys.path[:] = [folder for folder in sys.path if folder]\n'
_ATTACHED = 'from ms_crf.base import processes\nprocesses.end_with({})\n'
#: environment variables that this process has set for itself, and that child processes do not get
PRIVATE: set[str] = set()
SIGNALS = [getattr(signal, name) for name in ('SIGINT', 'SIGTERM', 'SIGHUP') if hasattr(signal, name)]
INTERRUPTED = 130              # exit status of a command stopped by a signal
_MODULE = 'import runpy\nrunpy.run_module({!r}, run_name="__main__", alter_sys=True)\n'


def command(program: str, *arguments: str, attached: bool = False) -> list[str]:
    """Returns the command line that runs a Python program in a child process; pass `environment()` with it.

    Args:
        program: source text.
        arguments: for the program, which reads them from `sys.argv[1:]`.
        attached: whether the child process is killed when this process ends, as `end_with` does.
    """
    return [sys.executable, '-c', _FIRST + attached * _ATTACHED.format(os.getpid()) + program, *arguments]


def module_command(module: str, *arguments: str, attached: bool = False) -> list[str]:
    """Returns the command line that runs a module in a child process as `python -m` does.

    Args:
        module: dotted name of a module or package.
        arguments: for the module.
        attached: as for `command`.
    """
    return command(_MODULE.format(module), *arguments, attached=attached)


def environment(**variables: str) -> dict[str, str]:
    """Returns the environment for a Python child process: the environment of this process with some changes.

    The child process finds this package, and all folders that the user has named in PYTHONPATH. An empty entry of
    PYTHONPATH means the current folder and is left out. From Python 3.11 on, PYTHONSAFEPATH also keeps the current
    folder from processes that the child process starts. Variables in `PRIVATE` are left out.

    Args:
        variables: to add or replace.
    """
    folders = [PACKAGES, *os.environ.get('PYTHONPATH', '').split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(filter(None, folders)))
    inherited = {name: value for name, value in os.environ.items() if name not in PRIVATE}
    return {**inherited, 'PYTHONPATH': path, 'PYTHONSAFEPATH': '1', **variables}


def run(command_line: Sequence[str], **options: Any) -> 'subprocess.CompletedProcess':
    """Runs a child process to its end and returns the result.

    Args:
        command_line: program and arguments.
        options: of `subprocess.run`; `env` replaces the environment.
    """
    import subprocess
    return subprocess.run(command_line, **{'stdin': subprocess.DEVNULL, 'env': environment(), **options})


def start(command_line: Sequence[str], **options: Any) -> 'subprocess.Popen':
    """Starts a child process in a new session, which does not receive the terminal's signals, and returns it.

    Args:
        command_line: program and arguments.
        options: of `subprocess.Popen`; `env` replaces the environment.
    """
    import subprocess
    return subprocess.Popen(command_line, **{'stdin': subprocess.DEVNULL, 'env': environment(),
                                             'start_new_session': True, **options})


async def start_with_pipes(command_line: Sequence[str]) -> 'asyncio.subprocess.Process':
    """Starts a child process in the event loop, with pipes to its standard input and output, and returns it."""
    import asyncio
    return await asyncio.create_subprocess_exec(*command_line, stdin=asyncio.subprocess.PIPE,
                                                stdout=asyncio.subprocess.PIPE, env=environment())


def descendants() -> 'set[psutil.Process]':
    """Returns the child processes of this process, and the processes that they have started."""
    import psutil
    return set(psutil.Process().children(recursive=True))


def end(running: 'Iterable[psutil.Process]', patience: float, at_once: bool = False) -> None:
    """Waits `patience` seconds for processes to end, then kills the rest; with `at_once` kills them immediately."""
    import psutil
    _, left = psutil.wait_procs(running, timeout=0 if at_once else patience)
    for process in left:
        try:
            process.kill()
        except psutil.Error:                     # it has ended
            continue
    psutil.wait_procs(left, timeout=patience)


def end_with(parent: int) -> None:
    """Kills this process as soon as its parent process ends in any way. This works on Linux only.

    Args:
        parent: process id of the parent; if the parent has ended already, this process is killed at once.
    """
    if sys.platform == 'linux':
        end_signal = 1                                           # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(end_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def handling_signals(handler: Callable[..., object]) -> Iterator[None]:
    """Within the block, Ctrl-C, SIGTERM and SIGHUP call `handler`; signals that were ignored stay ignored.

    In a thread other than the main thread, where Python cannot set handlers, signals stay as they are.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    changed = []
    try:
        for number, former in before.items():
            if former != signal.SIG_IGN:
                try:
                    signal.signal(number, handler)
                except ValueError:
                    break
                changed.append(number)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


@contextmanager
def deferred_signals() -> Iterator[Callable[[], None]]:
    """Delays signals within the block, where an exception is not safe, to the next safe point.

    Yields:
        a function to call at safe points; it raises KeyboardInterrupt if a signal was received. A second signal raises
        KeyboardInterrupt at once, and a third signal is handled as before the block.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)
        if len(received) > 1:
            signal.signal(number, before[number])
            check()

    def check() -> None:
        if received:
            raise KeyboardInterrupt

    with handling_signals(receive):
        yield check


@contextmanager
def kept_signals() -> Iterator[None]:
    """Restores the handlers of signals after a block in which an event loop sets its own."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        with suppress(ValueError):               # other threads cannot set handlers, and changed none
            for number, handler in before.items():
                if handler is not None:          # None is a handler that was not set by Python
                    signal.signal(number, handler)


def interrupt(*_: object) -> NoReturn:
    """A signal handler for code in which an exception is safe: waiting for a line or for another process."""
    raise KeyboardInterrupt
