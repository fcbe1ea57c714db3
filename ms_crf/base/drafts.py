"""Names of drafts, which say whose they are, and the removal of drafts whose process was killed.

A draft is a hidden file or folder that becomes, or leads to, what a command writes. A command that ends in any way but
SIGKILL, a crash or a power failure removes its drafts itself. What is left then goes when a command next writes to the
same folder. A draft stays if its process is still running, or if it is of another machine.
"""

import contextlib
import functools
import os
import platform
import re
import shutil
import tempfile
import zlib

PathLike = str | os.PathLike[str]

_NAME = re.compile(r'\.ms_crf-(\d+)-(\d+)-([0-9a-f]{8})\.')
_SECONDS = 2                   # by which the start of a process may seem to change when the clock is set
_cleared: set[tuple[int, str]] = set()


def prefix() -> str:
    """What the names of all drafts of this process begin with: its number, its start, and a checksum of the machine."""
    return f'.ms_crf-{os.getpid()}-{_start_of(os.getpid())}-{_machine()}.'


def draft_of(path: PathLike) -> str:
    """A hidden name next to a file or folder, of this process alone, as long as the file system takes names."""
    folder, name = os.path.split(os.path.abspath(path))
    clear(folder)
    return os.path.join(folder, os.fsdecode(os.fsencode(prefix() + name)[:200]))


def new_folder() -> str:
    """Makes a folder for temporary files, with a name that later commands can clear away."""
    parent = tempfile.gettempdir()
    clear(parent)
    return tempfile.mkdtemp(prefix=prefix(), dir=parent)


def clear(folder: str) -> None:
    """Removes the drafts in a folder whose processes have ended; once for each folder and process."""
    if (os.getpid(), folder) in _cleared:
        return
    _cleared.add((os.getpid(), folder))
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _NAME.match(entry.name)]
    for name in names:
        with contextlib.suppress(Exception):     # of psutil: a process that says nothing of itself
            if _is_left(name):
                remove(os.path.join(folder, name))


def remove(path: PathLike) -> None:
    """Removes a file or folder, if it is there and may be removed."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def _is_left(name: str) -> bool:
    """Whether this is the name of a draft whose process was of this machine, and has ended."""
    match = _NAME.match(name)
    if match is None or match[3] != _machine():
        return False
    start = _start_of(int(match[1]))
    return start is None or abs(start - int(match[2])) > _SECONDS


def _start_of(number: int) -> int | None:
    """When a process began, in seconds; None if none of this number is running."""
    import psutil  # here, because most commands import this module before they need it
    try:
        process = psutil.Process(number)
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time())
    except (psutil.NoSuchProcess, OverflowError):
        return None


@functools.cache
def _machine() -> str:
    """A checksum of this machine's name and, in a container, of its own count of processes."""
    namespace = ''
    with contextlib.suppress(OSError):
        namespace = os.readlink('/proc/self/ns/pid')
    return f'{zlib.crc32(f"{platform.node()} {namespace}".encode()):08x}'
