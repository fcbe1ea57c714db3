"""Files written whole or not at all, drafts that don't outlive their command, and JSON that others may have made."""

import contextlib
import gzip
import io
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO, NoReturn

from ms_crf.base.drafts import PathLike as PathLike
from ms_crf.base.drafts import draft_of, remove
from ms_crf.base.errors import CorpusError, brief

LARGEST_JSON = 1 << 30     # bytes
DEEPEST_JSON = 20          # levels; records have three or four
_TOO_DEEP = 'it is nested too deeply'

#: files and folders that are removed at the end of a block or when the command is interrupted, each with its process
_temporaries: dict[str, int] = {}


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
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        mode = os.fstat(descriptor).st_mode
        with contextlib.suppress(FileNotFoundError):
            before = os.stat(target)
            mode = before.st_mode
            with contextlib.suppress(OSError):                   # only a privileged user may give files away
                os.fchown(descriptor, before.st_uid, before.st_gid)
    finally:
        os.close(descriptor)
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


def json_text(record: Any) -> str:
    """A record as the text of a JSON file that people may read."""
    return json.dumps(record, ensure_ascii=False, indent=1) + '\n'


def write_json(path: PathLike, record: Any, draft: PathLike | None = None) -> None:
    """Writes a record as a JSON file, whole or not at all; see `text_writer`."""
    write_text(path, json_text(record), draft)


def read_whole(path: PathLike, missing: str) -> bytes:
    """The bytes of a file that is to be JSON; raises CorpusError, with what to say if there is none."""
    try:
        if os.stat(path).st_size > LARGEST_JSON:
            raise CorpusError(path, None, f'expected at most {LARGEST_JSON:,} bytes of JSON, got more')
        with open(path, 'rb') as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(path, None, missing) from None
    except OSError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None


def read_json(path: PathLike, maker: str, missing: str = 'no such file') -> Any:
    """What JSON says in a file; arguments and errors are those of `read_whole` and `parse_json`."""
    return parse_json(path, read_whole(path, missing), maker)


def parse_json(path: PathLike, data: bytes, maker: str) -> Any:
    """What JSON says.

    Args:
        path: of the file, for messages.
        data: its bytes, or a part of them.
        maker: the program that writes such files, for messages.

    Raises:
        CorpusError: it is none that `json_of` takes.
    """
    try:
        return json_of(data)
    except JSONFault as error:
        line = f' of line {error.line}' if (error.line or 1) > 1 else ''
        raise CorpusError(path, None, f'expected JSON as {maker} writes it: {error}{line}') from None


class JSONFault(ValueError):
    """Why a text is no JSON, or none that is read here; `line` says where, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def json_of(text: str | bytes, deepest: int | None = DEEPEST_JSON) -> Any:
    """What JSON says.

    Args:
        text: or its bytes in UTF-8.
        deepest: how many levels it may have; None for as many as Python can read.

    Raises:
        JSONFault: it is none; a name of an object is given twice, of which one value would be lost; it has other
            numbers than finite ones of less than some thousand digits; or it has too many levels.
    """
    try:
        text = text if isinstance(text, str) else text.decode('utf-8')
        record = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise JSONFault(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise JSONFault(f'{error.msg} at column {error.colno}', error.lineno) from None
    except UnicodeDecodeError as error:
        raise JSONFault(f'expected UTF-8, got byte {error.object[error.start]:#04x}') from None
    except JSONFault:
        raise
    except ValueError as error:                  # Python's, with advice to programmers behind a semicolon
        raise JSONFault(str(error).partition(';')[0]) from None
    level = [record]
    for _ in range(0 if deepest is None else deepest + 1):
        level = [part for item in level if isinstance(item, (dict, list))
                 for part in (item.values() if isinstance(item, dict) else item)]
    if level and deepest is not None:
        raise JSONFault(_TOO_DEEP)
    return record


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        (twice, _), = Counter(name for name, _ in pairs).most_common(1)
        raise JSONFault(f'{brief(twice)} is given twice, expected it once')
    return record


def _no_number(word: str) -> NoReturn:
    raise JSONFault(f'{word} is no finite number')


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JSONFault(f'{text[:20]} is too large for a number')
    return value


def sample(part: str) -> str:
    """The path of a file of the sample corpus: 'train', 'dev' or 'test'.

    An installed package has the files in a folder of its own, a checkout in its folder data.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, 'sample')
    folder = installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), 'data')
    return os.path.join(folder, f'{part}.tsv')
