"""Command lines and environments of Python child processes, which never import from the current folder.

`python -c` and `python -m` search the current folder first, so that a file called `json.py` there would be executed.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

#: The folder that holds this package: a checkout, or where it is installed.
PACKAGES = str(Path(__file__).resolve().parents[2])
# An empty string in the import path means the current folder. Python before 3.11 knows no other way to leave it out.
_FIRST = 'import sys\nsys.path[:] = [folder for folder in sys.path if folder]\n'
_ATTACHED = 'from ms_crf.base import processes\nprocesses.end_with({})\n'
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
    folder from processes that the child process starts.

    Args:
        variables: to add or replace.
    """
    folders = [PACKAGES, *os.environ.get('PYTHONPATH', '').split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(filter(None, folders)))
    return {**os.environ, 'PYTHONPATH': path, 'PYTHONSAFEPATH': '1', **variables}


def end_with(parent: int) -> None:
    """Kills this process as soon as its parent process ends, however that ends. Only Linux can do this.

    Args:
        parent: process id of the parent, which may have ended already.
    """
    if sys.platform == 'linux':
        end_signal = 1                                           # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(end_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
