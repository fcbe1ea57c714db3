"""Files written whole or not at all, and drafts that don't outlive their command.

A draft is a hidden file or folder that becomes, or leads to, what a command writes. Its name says whose it is. A
command that ends in any way but SIGKILL, a crash or a power failure removes its drafts itself. What is left then goes
when a command next writes to the same folder. A draft stays if its process is still running, or if it is of another
machine.
"""

import contextlib
import functools
import gzip
import io
import json
import os
import platform
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO

from ms_crf.base.errors import CorpusError

PathLike = str | os.PathLike[str]

#: files and folders that are removed at the end of a block or when the command is interrupted, each with its process
_temporaries: dict[str, int] = {}
_NAME = re.compile(r'\.ms_crf-(\d+)-(\d+)-([0-9a-f]{8})\.')
_SECONDS = 2                   # by which the start of a process may seem to change when the clock is set
_cleared: set[tuple[int, str]] = set()


@contextlib.contextmanager
def temporary(path: PathLike) -> Iterator[str]:
    """Removes a file or folder, if it is still there, when the block ends or the command is interrupted in it."""
    path = os.path.abspath(path)
    _temporaries[path] = os.getpid()
    try:
        yield path
    finally:
        if path in _temporaries:
            remove(path)
        _temporaries.pop(path, None)


def keep(path: PathLike) -> None:
    """From now on the file or folder of a `temporary` stays."""
    _temporaries.pop(os.path.abspath(path), None)


def remove_temporaries() -> None:
    """What an interrupted command does before it leaves; a forked child leaves its parent's files alone."""
    for path, process in list(_temporaries.items()):
        if process == os.getpid():
            remove(path)


def is_written_through(path: PathLike) -> bool:
    """Whether writing to this name fills no file of its own: a FIFO, a device, or what /dev/fd and /proc name."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or folder.split(os.sep)[1] in ('dev', 'proc')


@contextlib.contextmanager
def faults_named(path: object, kept: str = 'what was there before stays') -> Iterator[None]:
    """Turns the operating system's refusal to write into a `CorpusError` about `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(path, None, f'can not be written: {reason}' + (f'; {kept}' if kept else '')) from None


def check_writable(path: PathLike, *read: PathLike) -> None:
    """Raises CorpusError unless a file of this name could be written, other than those that are read; it is neither
    made nor changed."""
    path = os.fspath(path)
    with faults_named(path, ''):
        if is_written_through(path):
            return
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        if os.path.isdir(target):
            raise CorpusError(path, None, 'expected the name of a file to write, got a folder')
        if not os.path.isdir(folder):
            raise CorpusError(path, None, f'can not be written: there is no folder {folder}')
        if not os.access(folder, os.W_OK | os.X_OK):
            raise CorpusError(path, None, f'can not be written: {folder} is not a folder that you may write to')
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise CorpusError(path, None, 'can not be written: the file there may not be changed')
    if target in map(os.path.realpath, read):
        raise CorpusError(path, None, 'expected another file to write than the one that is read, which would be lost; '
                                      'choose another name')


@contextlib.contextmanager
def whole(path: PathLike, draft: PathLike | None = None) -> Iterator[str]:
    """A name to write to, whose contents `path` gets when the block ends without an error.

    Until then, and after a crash at any moment, `path` is what it was. A symbolic link stays one, a file that is there
    keeps its mode and owner. What is no file (a FIFO, a device, a pipe under /dev/fd) is not replaced: it is written
    to directly. `draft` is that name, for a file that no two processes write at once; a crash leaves it there.

    Raises:
        CorpusError: the file can't be written. An OSError within the block is the caller's: see `faults_named`.
    """
    path = os.fspath(path)
    if is_written_through(path):
        yield path
        return
    check_writable(path)
    target = os.path.realpath(path)
    with temporary(draft or draft_of(target)) as draft:
        with faults_named(path):
            remove(draft)
            mode = _create(draft, target)
        yield draft
        with faults_named(path):
            os.chmod(draft, mode)
            sync(draft)
            os.replace(draft, target)
            sync(os.path.dirname(target))


def _create(draft: str, target: str) -> int:
    """Makes an empty draft; the mode that the file is to have: that of the file it takes the place of."""
    with open(draft, 'xb') as file:
        mode = os.fstat(file.fileno()).st_mode
        with contextlib.suppress(FileNotFoundError):
            before = os.stat(target)
            mode = before.st_mode
            with contextlib.suppress(OSError):                   # only a privileged user may give files away
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
    return stat.S_IMODE(mode)


def sync(path: PathLike) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not os.path.isdir(path):              # some file systems have no such thing for folders
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def text_writer(path: PathLike, draft: PathLike | None = None) -> Iterator[Callable[[str], None]]:
    """A function that writes text to a file, whole or not at all; compressed if its name ends in .gz.

    Args:
        path: of the file.
        draft: as of `whole`.
    """
    with whole(path, draft) as draft, contextlib.ExitStack() as stack:
        with faults_named(path):
            raw = _opened(draft)
        stack.callback(_close_quietly, raw)
        name = os.fspath(path)
        packed: Any = gzip.GzipFile(os.path.basename(name), 'wb', fileobj=raw) if name.endswith('.gz') else raw
        file = io.TextIOWrapper(packed, encoding='utf-8', errors='backslashreplace', newline='')
        stack.callback(_close_quietly, file)

        def write(text: str) -> None:
            with faults_named(path):
                file.write(text)

        yield write
        with faults_named(path):
            file.close()
            raw.close()


def _opened(path: PathLike) -> BinaryIO:
    """A binary file to write to; of what a name such as /dev/stdout or /dev/fd/5 means, the stream as it stands.

    To open that anew would empty the file that the stream was redirected to, or write at another place of it.
    """
    folder, name = os.path.split(os.path.abspath(path))
    streams = {'stdout': 1, 'stderr': 2} if folder == '/dev' else {}
    if os.path.realpath(folder) == os.path.realpath('/proc/self/fd') and name.isdigit():
        streams = {name: int(name)}
    return open(os.dup(streams[name]) if name in streams else path, 'wb')


def _close_quietly(file: IO[Any]) -> None:
    with contextlib.suppress(OSError):
        file.close()


def write_text(path: PathLike, text: str, draft: PathLike | None = None) -> None:
    """Writes a text file, whole or not at all; see `text_writer`."""
    with text_writer(path, draft) as write:
        write(text)


def json_text(record: object) -> str:
    """A record as the text of a JSON file that people may read."""
    return json.dumps(record, ensure_ascii=False, indent=1) + '\n'


def write_json(path: PathLike, record: object, draft: PathLike | None = None) -> None:
    """Writes a record as a JSON file, whole or not at all; see `text_writer`."""
    write_text(path, json_text(record), draft)


def sample(part: str) -> str:
    """The path of a file of the sample corpus: 'train', 'dev' or 'test'.

    An installed package has the files in a folder of its own, a checkout in its folder data.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, 'sample')
    folder = installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), 'data')
    return os.path.join(folder, f'{part}.tsv')


def draft_prefix() -> str:
    """What the names of all drafts of this process begin with: its number, its start, and a checksum of the machine."""
    return f'.ms_crf-{os.getpid()}-{_start_of(os.getpid())}-{_machine()}.'


def draft_of(path: PathLike) -> str:
    """A hidden name next to a file or folder, of this process alone, as long as the file system takes names."""
    folder, name = os.path.split(os.path.abspath(path))
    clear_drafts(folder)
    return os.path.join(folder, os.fsdecode(os.fsencode(draft_prefix() + name)[:200]))


def new_folder() -> str:
    """Makes a folder for temporary files, with a name that later commands can clear away."""
    parent = tempfile.gettempdir()
    clear_drafts(parent)
    return tempfile.mkdtemp(prefix=draft_prefix(), dir=parent)


def clear_drafts(folder: str) -> None:
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
