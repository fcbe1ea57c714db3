"""The library of the operators: the one that came with the package, or one that is compiled here on first use.

What is compiled is kept in a folder of the user's own, $XDG_CACHE_HOME/ms_crf or ~/.cache/ms_crf. Nothing is loaded
from anywhere else, nor from a folder or file that others may write to or replace. A library is loaded only if the
checksum next to it matches; otherwise it is compiled again.
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
FOLDER = Path(__file__).parent                                   # of libraries that came with the package
PACKAGE = FOLDER.parent
FLAGS = ('-std=c++17', '-O3', '-fPIC', '-shared', '-pthread', '-fno-math-errno', '-fno-trapping-math', '-w')
ZIGLANG = processes.module_command('ziglang', 'c++')
NO_COMPILER = 'no C++ compiler that works was found'
SECONDS = 900                                                    # that a compiler may take; ziglang takes a minute
_MOST_LINKS = 40                                                 # on the way to the cache, as Linux has it
# Levels of x86-64, as -march takes them, and what a processor of each has: with each higher one the operators take
# about half of the time.
_LEVEL_3 = {'avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'abm', 'movbe'}
_LEVEL_4 = _LEVEL_3 | {'avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl'}
LEVELS: dict[str, set[str]] = {'x86-64-v4': _LEVEL_4, 'x86-64-v3': _LEVEL_3, 'x86-64': set()}


class Library(NamedTuple):
    """Where the operators are, or why they are not used."""

    path: str | None
    reason: str                                                  # where it is from, or why there is none


class _Refusal(Exception):
    """Why there is no library: no compiler works, or others could write or replace what would be loaded."""


def level(cpuinfo: str = '/proc/cpuinfo') -> str | None:
    """The instructions to compile for, as -march takes them; None for those that every processor of its kind has."""
    if platform.machine() != 'x86_64':
        return None
    with contextlib.suppress(OSError):
        for line in Path(cpuinfo).read_text().splitlines():
            if line.startswith('flags'):
                there = set(line.split())
                return next(name for name, needed in LEVELS.items() if there >= needed)
    return 'x86-64'


def name_of(march: str | None) -> str:
    """The library's file name: it changes with the source, the flags and the processor's kind."""
    digest = hashlib.sha256(repr(FLAGS).encode())
    for source in sources('h') + sources('cpp'):
        digest.update(source.name.encode() + b'\0' + source.read_bytes())
    return f'operators-{march or platform.machine()}-{digest.hexdigest()[:16]}.so'


def sources(ending: str) -> list[Path]:
    """The C++ of the package, which lies in folders called native."""
    return sorted([*PACKAGE.glob(f'native/*.{ending}'), *PACKAGE.glob(f'*/native/*.{ending}')])


def compilers() -> Iterator[list[str]]:
    """Commands that compile C++ here, the preferred first: $CXX, the system's, that of the package ziglang."""
    for name in (os.environ.get('CXX'), 'c++', 'g++', 'clang++'):
        command = name.split() if name else []
        if command and shutil.which(command[0]):
            yield command
    if importlib.util.find_spec('ziglang'):
        yield ZIGLANG


def compile_to(path: str | os.PathLike[str], march: str | None) -> str | None:
    """Compiles the operators; returns the name of the compiler that did it, None if none could.

    An old compiler may not know the level of the processor: then it compiles for all processors of the kind.
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
    """Whether a library can be loaded and does a sum, tried in a process of its own."""
    tried = processes.run(processes.command(_TRIAL, os.fspath(path)), capture_output=True)
    return tried.returncode == 0


# One sentence of one token and two tags, whose scores are all 0: a normaliser of log(2).
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
    """Returns the cache folder of the user, which is created if it is missing.

    Raises:
        _Refusal: it cannot be created, or another user could write to it or replace it.
    """
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    folder = Path(base, 'ms_crf')
    if not folder.is_absolute():
        raise _Refusal(f'{folder} is not an absolute path')
    try:
        _check_parents(folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        _check_own(folder, stat.S_ISDIR)
    except OSError as error:
        raise _Refusal(f'{folder} cannot be made: {error.strerror}') from None
    return folder


def _check_parents(folder: Path) -> None:
    """Raises _Refusal if another user could replace one of the folders above the cache; missing ones are created.

    Symbolic links are followed one by one, because whoever owns a link decides where it leads.
    """
    waiting, path, links = list(reversed(folder.parent.parts)), Path(), 0
    while waiting:
        name = waiting.pop()
        path = path.parent if name == '..' else path / name      # free of links, so that .. is the folder above
        if not os.path.lexists(path):
            path.mkdir(mode=0o700)
        status = path.lstat()
        if status.st_uid not in (0, os.getuid()):
            raise _Refusal(f'{folder} can be replaced by others, because {path} belongs to another user')
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            waiting += reversed(path.readlink().parts)
            path = path.parent
        elif status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            raise _Refusal(f'{folder} can be replaced by others, who may write to {path}; run: chmod go-w {path}')


def _check_own(path: Path, is_kind: Callable[[int], bool]) -> None:
    status = path.lstat()
    if not is_kind(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise _Refusal(f'{path} is not yours alone: others may write to it')


def checksum(path: str | os.PathLike[str], name: str) -> str:
    """Returns the line that `sha256sum` prints for a file, under a name that the file may yet get."""
    return f'{hashlib.sha256(Path(path).read_bytes()).hexdigest()}  {name}\n'


def checksum_file(path: Path) -> Path:
    """Returns the file next to a library that holds its checksum."""
    return path.with_name(f'{path.name}.sha256')


def _is_intact(path: Path) -> bool:
    """Returns whether a library is there and has its checksum; nothing else is loaded."""
    try:
        return checksum_file(path).read_bytes() == checksum(path, path.name).encode()
    except OSError:
        return False


def _store(path: Path, march: str | None) -> None:
    """Compiles the library into the cache, with its checksum.

    A crash at any moment leaves a library without its checksum, which is compiled again. No compiler is a _Refusal.
    """
    with files.temporary(files.draft_of(path)) as draft:
        if compile_to(draft, march) is None:
            raise _Refusal(f'{NO_COMPILER}; install g++, or pip install ziglang')
        os.chmod(draft, 0o700)
        line = checksum(draft, path.name)
        _replace(draft, path)
    with files.temporary(files.draft_of(checksum_file(path))) as draft:
        Path(draft).write_text(line)
        _replace(draft, checksum_file(path))


def _replace(draft: str, path: Path) -> None:
    """Gives a draft its name, so that both survive a crash of the machine."""
    files.sync(draft)
    os.replace(draft, path)
    files.sync(path.parent)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Within the block no other process compiles into this folder, if the file system has locks."""
    import fcntl  # which Windows does not have
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _cached(name: str, march: str | None, compiles: bool) -> Library | None:
    """Returns the library in the cache; None if it would have to be compiled first and must not be."""
    folder = cache()
    path = folder / name
    if os.path.lexists(path):
        _check_own(path, stat.S_ISREG)
    if not _is_intact(path):
        if not compiles:
            return None
        try:
            with _locked(folder):
                if not _is_intact(path):                         # another process may have compiled it meanwhile
                    _store(path, march)
        except OSError as error:
            raise _Refusal(f'{folder} cannot be written to: {error.strerror}') from None
        if not _is_intact(path):
            raise _Refusal(f'{path} does not have its checksum, because another process wrote it; start again')
    return Library(str(path), f'compiled here, in {folder}')


def _search(compiles: bool) -> Library | None:
    """Returns the library, or why there is none; None if it would have to be compiled first and must not be."""
    switch = os.environ.get(SWITCH, '1')
    if switch not in ('0', '1'):
        return Library(None, f'{SWITCH} must be 0 or 1, got {switch}')
    if switch == '0':
        return Library(None, f'{SWITCH} is 0')
    if sys.platform != 'linux':
        return Library(None, 'MindSpore takes operators of others on Linux only')
    march = level()
    name = name_of(march)
    if _is_intact(FOLDER / name):
        return Library(str(FOLDER / name), 'it came with the package')
    try:
        return _cached(name, march, compiles)
    except _Refusal as refusal:
        return Library(None, str(refusal))


_known: Library | None = None                                    # checked once in a process


def _look(compiles: bool) -> Library | None:
    global _known
    if _known is None:
        _known = _search(compiles)
    return _known


def find() -> Library:
    """The library, compiled now if need be, which takes some seconds, once."""
    library = _look(compiles=True)
    assert library is not None
    return library


def counts() -> tuple[int, int]:
    """How many rows of batches the library has computed in this process by products, and in the log domain as well."""
    by_products, by_logarithms = ctypes.c_int64(), ctypes.c_int64()
    path = find().path
    if path is not None:
        ctypes.CDLL(path).ChainCounts(ctypes.byref(by_products), ctypes.byref(by_logarithms))
    return by_products.value, by_logarithms.value


def is_ready() -> bool:
    """Whether `find` answers at once."""
    return _look(compiles=False) is not None


def describe() -> str:
    """What computes chain and layers on CPU and why, in a phrase; nothing is compiled for it."""
    found = _look(compiles=False)
    if found is None and next(compilers(), None):
        return 'operators in C++, compiled on first use'
    if found is None or found.path is None:
        return f'plain operators of MindSpore: {found.reason if found else NO_COMPILER}'
    return f'operators in C++: {found.reason}'


def prepare(device: str, watcher: Watcher = SILENT) -> None:
    """Compiles the operators if the CPU will need them and they are not there.

    Args:
        device: where the process computes.
        watcher: is told that they are compiled, or why they are not used.
    """
    if device != 'CPU':
        return
    if not is_ready():
        watcher.warn('compiling operators for this processor, once')
    there = find()
    if there.path is None and there.reason != f'{SWITCH} is 0':
        watcher.warn(f'chain and layers are graphs of plain operators, which are slower: {there.reason}')
