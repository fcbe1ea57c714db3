"""The library of the C++ operators: the library of the installed package, or a library compiled at first use.

A compiled library is stored in a private folder of the user, $XDG_CACHE_HOME/ms_crf or ~/.cache/ms_crf. No library is
loaded from another folder, or from a folder or file that other users can write to or replace. A library must match the
checksum next to it; otherwise the library is compiled again.
"""

import contextlib
import ctypes
import errno
import hashlib
import importlib.util
import itertools
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ms_crf.base import files, processes
from ms_crf.base.watchers import SILENT, Watcher

SWITCH = 'MS_CRF_NATIVE'
FOLDER = Path(__file__).parent                                   # folder of libraries in the installed package
PACKAGE = FOLDER.parent
FLAGS = ('-std=c++17', '-O3', '-fPIC', '-shared', '-pthread', '-fno-math-errno', '-fno-trapping-math', '-w')
ZIGLANG = processes.module_command('ziglang', 'c++')
NO_COMPILER = 'found no working C++ compiler'
SECONDS = 900                                                    # time limit of a compiler; ziglang takes a minute
_MOST_LINKS = 40                                                 # symbolic links on the way to the cache, as in Linux
# Levels of x86-64 for -march, and the features that a processor of each level has. Each higher level halves the time of
# the operators, approximately.
_LEVEL_3 = {'avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'abm', 'movbe'}
_LEVEL_4 = _LEVEL_3 | {'avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl'}
LEVELS: dict[str, set[str]] = {'x86-64-v4': _LEVEL_4, 'x86-64-v3': _LEVEL_3, 'x86-64': set()}


class Library(NamedTuple):
    """Path of the library, or the reason why the C++ operators are not used."""

    path: str | None
    reason: str                                                  # origin of the library, or why it is not used


class _Unavailable(Exception):
    """Reason why there is no library: no compiler works, or other users could write to or replace the file."""


def level(cpuinfo: str = '/proc/cpuinfo') -> str | None:
    """The instruction set for -march; None if only the basic instructions of the processor family can be used."""
    if platform.machine() != 'x86_64':
        return None
    with contextlib.suppress(OSError):
        for line in Path(cpuinfo).read_text().splitlines():
            if line.startswith('flags'):
                features = set(line.split())
                return next(name for name, needed in LEVELS.items() if features >= needed)
    return 'x86-64'


def name_of(march: str | None) -> str:
    """File name of the library, which depends on the sources, the compiler flags and the instruction set."""
    digest = hashlib.sha256(repr(FLAGS).encode())
    for source in sources('h') + sources('cpp'):
        digest.update(source.name.encode() + b'\0' + source.read_bytes())
    return f'operators-{march or platform.machine()}-{digest.hexdigest()[:16]}.so'


def sources(ending: str) -> list[Path]:
    """C++ files of the package with this ending, from all folders named native."""
    return sorted([*PACKAGE.glob(f'native/*.{ending}'), *PACKAGE.glob(f'*/native/*.{ending}')])


def compilers() -> Iterator[list[str]]:
    """C++ compiler commands in order of preference: $CXX, compilers of the system, the package ziglang."""
    for name in (os.environ.get('CXX'), 'c++', 'g++', 'clang++'):
        command = name.split() if name else []
        if command and shutil.which(command[0]):
            yield command
    if importlib.util.find_spec('ziglang'):
        yield ZIGLANG


def compile_to(path: str | os.PathLike[str], march: str | None) -> str | None:
    """Compiles the operators to a file; returns the name of the compiler, or None if no compiler succeeded.

    An old compiler may not know the instruction set `march`. Then it compiles for all processors of the family.
    """
    path = os.path.abspath(path)
    for command, kind in itertools.product(compilers(), dict.fromkeys((march, None))):
        target = [f'-march={kind}'] if kind else []
        if command == ZIGLANG and kind:
            target = ['-target', 'x86_64-linux-gnu', f'-mcpu={kind.replace("-", "_")}']
        with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = processes.run([*command, *FLAGS, *target, '-o', path, *map(str, sources('cpp'))], cwd=scratch,
                                  capture_output=True, timeout=SECONDS)
            if done.returncode == 0 and works(path):
                return 'ziglang' if command == ZIGLANG else os.path.basename(command[0])
    return None


def works(path: str | os.PathLike[str]) -> bool:
    """Whether a library can be loaded and computes a correct result, tested in a separate process."""
    tried = processes.run(processes.command(_TRIAL, os.fspath(path)), capture_output=True)
    return tried.returncode == 0


# One sentence of one token and two tags, with scores of 0: the log partition function is log(2).
_TRIAL = """
import ctypes, math, sys
integers, floats = ctypes.c_int64, ctypes.c_float
values = [(floats * 2)(), (ctypes.c_int32 * 1)(1), (floats * 4)(), (floats * 2)(), (floats * 2)(),
          (ctypes.c_bool * 1)(), (ctypes.c_int32 * 1)(), (floats * 7)()]
shapes = [(1, 1, 2), (1,), (2, 2), (2,), (2,), (1,), (1,), (7,)]
arrays = [(integers * len(shape))(*shape) for shape in shapes]
types = [b'float32', b'int32', b'float32', b'float32', b'float32', b'bool', b'int32', b'float32']
count = len(values)
status = ctypes.CDLL(sys.argv[1]).ChainNormalizer(
    count, (ctypes.c_void_p * count)(*map(ctypes.addressof, values)), (ctypes.c_int * count)(*map(len, shapes)),
    (ctypes.POINTER(integers) * count)(*[ctypes.cast(array, ctypes.POINTER(integers)) for array in arrays]),
    (ctypes.c_char_p * count)(*types), None, None)
sys.exit(status or abs(values[-1][0] - math.log(2)) > 1e-6)
"""


def cache() -> Path:
    """Returns the cache folder of the user, created if missing; raises _Unavailable if the folder is not private."""
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    folder = Path(base, 'ms_crf')
    if not folder.is_absolute():
        raise _Unavailable(f'{folder} is not an absolute path')
    try:
        _check_parents(folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        _check_own(folder, stat.S_ISDIR)
    except OSError as error:
        raise _Unavailable(f'cannot create {folder}: {error.strerror}') from None
    return folder


def _check_parents(folder: Path) -> None:
    """Raises _Unavailable if another user could replace a folder above the cache; creates missing folders.

    Symbolic links are followed one by one, because the owner of a link decides where it leads.
    """
    waiting, path, links = list(reversed(folder.parent.parts)), Path(), 0
    while waiting:
        name = waiting.pop()
        path = path.parent if name == '..' else path / name      # without links, so that .. is the parent folder
        if not os.path.lexists(path):
            path.mkdir(mode=0o700)
        status = path.lstat()
        if status.st_uid not in (0, os.getuid()):
            raise _Unavailable(f'other users could replace {folder}, because {path} belongs to another user')
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            waiting += reversed(path.readlink().parts)
            path = path.parent
        elif status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            raise _Unavailable(f'other users could replace {folder}, because they can write to {path}; '
                               f'run: chmod go-w {path}')


def _check_own(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raises _Unavailable unless a path has the expected kind, belongs to the user, and is not writable by others."""
    status = path.lstat()
    if not is_kind(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise _Unavailable(f'{path} must belong to you, and other users must not have write access')


def checksum(path: str | os.PathLike[str], name: str) -> str:
    """Returns the line that `sha256sum` prints for a file, with the name that the file will have."""
    return f'{hashlib.sha256(Path(path).read_bytes()).hexdigest()}  {name}\n'


def checksum_file(path: Path) -> Path:
    """Returns the path of the checksum file next to a library."""
    return path.with_name(f'{path.name}.sha256')


def _is_intact(path: Path) -> bool:
    """Returns whether a library exists and matches its checksum; other libraries are never loaded."""
    try:
        return checksum_file(path).read_bytes() == checksum(path, path.name).encode()
    except OSError:
        return False


def _store(path: Path, march: str | None) -> None:
    """Compiles the library into the cache and writes its checksum; raises _Unavailable if no compiler works.

    A crash at any moment leaves a library without its checksum, which is compiled again at the next use.
    """
    with files.temporary(files.draft_of(path)) as draft:
        if compile_to(draft, march) is None:
            raise _Unavailable(f'{NO_COMPILER}; install g++, or run: pip install ziglang')
        os.chmod(draft, 0o700)
        line = checksum(draft, path.name)
        _replace(draft, path)
    with files.temporary(files.draft_of(checksum_file(path))) as draft:
        Path(draft).write_text(line)
        _replace(draft, checksum_file(path))


def _replace(draft: str, path: Path) -> None:
    """Renames a draft to its final name, such that the file survives a crash of the machine."""
    files.sync(draft)
    os.replace(draft, path)
    files.sync(path.parent)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder against compilation by other processes, if the file system supports locks."""
    import fcntl  # not available on Windows
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _cached(name: str, march: str | None, compiles: bool) -> Library | None:
    """Returns the library in the cache, compiled if necessary; None if it is missing and `compiles` is False."""
    folder = cache()
    path = folder / name
    if os.path.lexists(path):
        _check_own(path, stat.S_ISREG)
    if not _is_intact(path):
        if not compiles:
            return None
        try:
            with _locked(folder):
                if not _is_intact(path):                         # another process may have compiled it by now
                    _store(path, march)
        except OSError as error:
            raise _Unavailable(f'cannot write to {folder}: {error.strerror}') from None
        if not _is_intact(path):
            raise _Unavailable(f'{path} does not match its checksum, because another process wrote it; start again')
    return Library(str(path), f'compiled here, in {folder}')


def _search(compiles: bool) -> Library | None:
    """Returns the library or the reason why it is not used; None if it is not compiled yet and `compiles` is False."""
    switch = os.environ.get(SWITCH, '1')
    if switch not in ('0', '1'):
        return Library(None, f'{SWITCH} must be 0 or 1, got {switch}')
    if switch == '0':
        return Library(None, f'{SWITCH} is 0')
    if sys.platform != 'linux':
        return Library(None, 'MindSpore supports custom operators only on Linux')
    march = level()
    name = name_of(march)
    if _is_intact(FOLDER / name):
        return Library(str(FOLDER / name), 'installed with the package')
    try:
        return _cached(name, march, compiles)
    except _Unavailable as error:
        return Library(None, str(error))


_known: Library | None = None                                    # result of the only search in a process


def _lookup(compiles: bool) -> Library | None:
    """Returns the result of `_search`, which runs only once in a process."""
    global _known
    if _known is None:
        _known = _search(compiles)
    return _known


def find() -> Library:
    """Returns the library. If necessary it is compiled, which takes some seconds, once."""
    library = _lookup(compiles=True)
    assert library is not None
    return library


def counts() -> tuple[int, int]:
    """Numbers of rows computed in this process by scaled products, and of rows also computed in the log domain."""
    by_products, by_logarithms = ctypes.c_int64(), ctypes.c_int64()
    path = find().path
    if path is not None:
        ctypes.CDLL(path).ChainCounts(ctypes.byref(by_products), ctypes.byref(by_logarithms))
    return by_products.value, by_logarithms.value


def is_ready() -> bool:
    """Whether `find` returns without compiling."""
    return _lookup(compiles=False) is not None


def describe() -> str:
    """A phrase that states which operators are used on CPU, and why; compiles nothing."""
    library = _lookup(compiles=False)
    if library is None and next(compilers(), None):
        return 'operators in C++, compiled on first use'
    if library is None or library.path is None:
        return f'plain operators of MindSpore: {library.reason if library else NO_COMPILER}'
    return f'operators in C++: {library.reason}'


def prepare(device: str, watcher: Watcher = SILENT) -> None:
    """Compiles the C++ operators if this process will need them and they are not compiled yet.

    Args:
        device: device of the process; only CPU needs the operators.
        watcher: receives warnings: that operators are compiled, or why they are not used.
    """
    if device != 'CPU':
        return
    if not is_ready():
        watcher.warn('compiling C++ operators for this processor, once')
    library = find()
    if library.path is None and library.reason != f'{SWITCH} is 0':
        watcher.warn(f'using plain MindSpore operators, which are slower than C++ operators: {library.reason}')
