"""Atomic file writing: a file is written completely or not at all, and drafts do not outlive their command.

A draft is a hidden temporary file or folder, from which the output of a command is made. The draft's name contains its
process and machine. A command removes its own drafts, unless it is ended by SIGKILL, a crash or a power failure. Drafts
that remain are removed the next time a command writes to the same folder. A draft is kept while its process is running,
or if it belongs to another machine.
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

#: files and folders to remove at the end of a block or when the command is interrupted, with their process ids
_temporaries: dict[str, int] = {}
_NAME = re.compile(r'\.ms_crf-(\d+)-(\d+)-([0-9a-f]{8})\.')
_SECONDS = 2                   # tolerance for the start time of a process, which changes when the clock is set
_cleared: set[tuple[int, str]] = set()


@contextlib.contextmanager
def temporary(path: PathLike) -> Iterator[str]:
    """Removes a file or folder, if it exists, when the block ends or the command is interrupted within it."""
    path = os.path.abspath(path)
    _temporaries[path] = os.getpid()
    try:
        yield path
    finally:
        if path in _temporaries:
            remove(path)
        _temporaries.pop(path, None)


def keep(path: PathLike) -> None:
    """Makes a file or folder permanent that `temporary` would remove."""
    _temporaries.pop(os.path.abspath(path), None)


def remove_temporaries() -> None:
    """Removes the temporary files of this process; for interrupted commands. Files of its parent process are kept."""
    for path, process in list(_temporaries.items()):
        if process == os.getpid():
            remove(path)


def is_written_through(path: PathLike) -> bool:
    """Whether the path is not a regular file but a FIFO, a device, or a stream in /dev/fd or /proc."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or folder.split(os.sep)[1] in ('dev', 'proc')


@contextlib.contextmanager
def faults_named(path: object, kept: str = 'the previous file is unchanged') -> Iterator[None]:
    """Turns an OSError within the block into a `CorpusError` that says that `path` cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(path, None, f'cannot be written: {reason}' + (f'; {kept}' if kept else '')) from None


def check_writable(path: PathLike, *read: PathLike) -> None:
    """Raises CorpusError if a file cannot be written, or is in `read`; the file is not created or changed."""
    path = os.fspath(path)
    with faults_named(path, ''):
        if is_written_through(path):
            return
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        if os.path.isdir(target):
            raise CorpusError(path, None, 'expected the name of a file to write, got a folder')
        if not os.path.isdir(folder):
            raise CorpusError(path, None, f'cannot be written: there is no folder {folder}')
        if not os.access(folder, os.W_OK | os.X_OK):
            raise CorpusError(path, None, f'cannot be written: {folder} is not a folder that you may write to')
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise CorpusError(path, None, 'cannot be written: the existing file is read-only for you')
    if target in map(os.path.realpath, read):
        raise CorpusError(path, None, 'cannot be written: it is also the input, which would be lost; choose another '
                                      'name')


@contextlib.contextmanager
def whole(path: PathLike, draft: PathLike | None = None) -> Iterator[str]:
    """Yields the path of a draft, which replaces the file `path` when the block ends without an error.

    Until then, and after a crash at any moment, `path` is unchanged. Symbolic links are followed and kept; a replaced
    file keeps its mode and owner. A FIFO, a device or a pipe under /dev/fd is not replaced but written to directly.

    Args:
        path: path of the file.
        draft: path of the draft, if no two processes write it at the same time; a crash does not remove this draft.

    Raises:
        CorpusError: the file cannot be written. An OSError within the block is not converted: see `faults_named`.
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
    """Creates an empty draft; returns the mode for the file, which is the mode of the file that it replaces."""
    with open(draft, 'xb') as file:
        mode = os.fstat(file.fileno()).st_mode
        with contextlib.suppress(FileNotFoundError):
            before = os.stat(target)
            mode = before.st_mode
            with contextlib.suppress(OSError):                   # only a privileged user may change the owner
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
    return stat.S_IMODE(mode)


def sync(path: PathLike) -> None:
    """Waits until a file, or the list of names of a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not os.path.isdir(path):              # some file systems cannot do this for folders
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def text_writer(path: PathLike, draft: PathLike | None = None) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes text to a file, completely or not at all; .gz files are compressed.

    Args:
        path: path of the file.
        draft: path of the draft, see `whole`.
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
    """Opens a binary file for writing; for paths such as /dev/stdout or /dev/fd/5 it duplicates the open stream.

    Opening such a path would truncate the file that the stream is redirected to, or write at another offset.
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
    """Writes a text file, completely or not at all; see `text_writer`."""
    with text_writer(path, draft) as write:
        write(text)


def json_text(record: object) -> str:
    """Returns a record as indented JSON text."""
    return json.dumps(record, ensure_ascii=False, indent=1) + '\n'


def write_json(path: PathLike, record: object, draft: PathLike | None = None) -> None:
    """Writes a record as a JSON file, completely or not at all; see `text_writer`."""
    write_text(path, json_text(record), draft)


def sample(part: str) -> str:
    """Returns the path of a file of the sample corpus: 'train', 'dev' or 'test'.

    The files are in the folder `sample` of an installed package, or in the folder `data` of a checkout.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, 'sample')
    folder = installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), 'data')
    return os.path.join(folder, f'{part}.tsv')


def draft_prefix() -> str:
    """Returns the prefix of all drafts of this process: process id, start time, and a checksum of the machine."""
    return f'.ms_crf-{os.getpid()}-{_start_of(os.getpid())}-{_machine()}.'


def draft_of(path: PathLike) -> str:
    """Returns the path of a draft of this process, next to a file or folder; long names are shortened."""
    folder, name = os.path.split(os.path.abspath(path))
    clear_drafts(folder)
    return os.path.join(folder, os.fsdecode(os.fsencode(draft_prefix() + name)[:200]))


def new_folder() -> str:
    """Creates a temporary folder that `clear_drafts` removes if this process is killed; returns its path."""
    parent = tempfile.gettempdir()
    clear_drafts(parent)
    return tempfile.mkdtemp(prefix=draft_prefix(), dir=parent)


def clear_drafts(folder: str) -> None:
    """Removes drafts of ended processes from a folder; only at the first call for each folder."""
    if (os.getpid(), folder) in _cleared:
        return
    _cleared.add((os.getpid(), folder))
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _NAME.match(entry.name)]
    for name in names:
        with contextlib.suppress(Exception):     # psutil raises errors for protected processes
            if _is_left(name):
                remove(os.path.join(folder, name))


def remove(path: PathLike) -> None:
    """Removes a file or folder, if it exists and may be removed."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def _is_left(name: str) -> bool:
    """Whether this is the name of a draft from this machine whose process has ended."""
    match = _NAME.match(name)
    if match is None or match[3] != _machine():
        return False
    start = _start_of(int(match[1]))
    return start is None or abs(start - int(match[2])) > _SECONDS


def _start_of(number: int) -> int | None:
    """Returns the start time of a process in seconds, or None if no process of this id is running."""
    import psutil  # not above: most commands do not need it
    try:
        process = psutil.Process(number)
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time())
    except (psutil.NoSuchProcess, OverflowError):
        return None


@functools.cache
def _machine() -> str:
    """Returns a checksum of the machine's name and of its process id namespace, which differs in containers."""
    namespace = ''
    with contextlib.suppress(OSError):
        namespace = os.readlink('/proc/self/ns/pid')
    return f'{zlib.crc32(f"{platform.node()} {namespace}".encode()):08x}'
