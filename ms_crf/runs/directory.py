"""Creating, replacing and locking run directories.

A new run may replace an earlier run. The earlier run stays until the new run has saved its first epoch; until then the
new run is written to the hidden folder `.NAME.new`. During the exchange the earlier run is called
`.NAME.old`; after a crash in this moment the next start restores its name.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike, faults_named, keep, temporary
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun

try:
    import fcntl
except ImportError:              # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = 'lock'
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_FAR = 1 << 30                   # offset of the byte that Windows locks; the process id before it stays readable
_KNOWN = {*records.NAMES, *records.LEFT, records.ENCODER, LOCK}
_RENAMES_OPEN = os.name != 'nt'                  # whether a folder with an open file can be renamed


class PathExists(CorpusError):
    """The path of a new run already exists, and must not be replaced.

    Attributes:
        path: path of the new run.
        fault: the message without advice: what was expected and what was found.
        is_run: whether the path seems to be a run, which could be resumed or overwritten.
    """

    def __init__(self, path: PathLike, fault: str, is_run: bool = False) -> None:
        advice = ', resume the existing run, or overwrite it' if is_run else ''
        super().__init__(path, None, f'{fault}; choose another folder{advice}')
        self.path, self.fault, self.is_run = path, fault, is_run


def new_beside(path: PathLike, ending: str = 'new') -> Path:
    """Returns the hidden folder for a run that will replace another; with 'old' the folder of the replaced run."""
    path = _resolved(path)
    return path.with_name(f'.{path.name}.{ending}')


def _resolved(path: PathLike) -> Path:
    """Resolves a path that is a symbolic link or ends in dots; other paths are returned unchanged."""
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() or path.name in ('', '..') else path


def check_new(path: PathLike) -> None:
    """Raises CorpusError if a folder of this name cannot be created."""
    path = Path(path)
    if path.exists() or path.is_symlink():
        kind = 'an existing one' if path.is_dir() else 'a file' if path.exists() else 'a broken link'
        raise PathExists(path, f'expected a new folder, got {kind}', path.is_dir())
    check_parent(path, nearest_folder(path.absolute().parent))


def nearest_folder(path: PathLike) -> Path:
    """Returns the path if it exists, otherwise the nearest parent folder that exists."""
    absolute = Path(path).absolute()
    return next(parent for parent in (absolute, *absolute.parents) if os.path.lexists(parent))


def check_parent(path: Path, parent: Path, action: str = 'created') -> None:
    """Raises CorpusError if files cannot be created in the parent folder; `action` is a word for the message."""
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise CorpusError(path, None, f'cannot be {action}: {parent} is not a folder that you may write to')


def check_run(path: PathLike) -> None:
    """Raises CorpusError if the folder is not a run, or contains other files."""
    path = Path(path)
    names = {file.name.removeprefix('.') for file in path.iterdir()} if path.is_dir() else set()
    if records.CONFIG not in names or names - _KNOWN:
        raise PathExists(path, 'expected a run to overwrite, got something else')


class RunDirectory:
    """The directory of a run during training, locked until `release`; created by `new` and `resumed`.

    Attributes:
        path: final path of the run.
        folder: current folder of the run; differs from `path` until `publish` if the run replaces an earlier run.
        earlier: the run that will be replaced by `publish`; None if there is none.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = self.folder = Path(path)
        self.earlier: Path | None = None
        self._locks: dict[Path, Lock] = {}
        self._real = _resolved(path)             # a symbolic link is kept, and leads to the new run
        if not self._real.name:
            raise PathExists(path, 'expected a new folder, got the root of the file system')
        _finish_exchange(self._real)

    @classmethod
    def new(cls, path: PathLike, overwrite: bool = False) -> 'RunDirectory':
        """Prepares the directory of a new run; nothing is written before `create`.

        Args:
            path: path of the run.
            overwrite: whether an existing run may be replaced.

        Raises:
            CorpusError: the run cannot be created there, or another training writes to it.
        """
        directory = cls(path)
        if overwrite and directory.path.exists():
            check_run(directory.path)
            check_parent(directory.path, directory._real.parent)
            if os.path.ismount(directory._real):
                raise PathExists(path, 'a mounted file system cannot be replaced by another folder')
            directory._replace()
        else:
            check_new(directory.path)
        return directory

    @classmethod
    def resumed(cls, path: PathLike) -> 'RunDirectory':
        """Locks the directory of an existing run; `path` may be a folder `.NAME.new` that has not replaced NAME yet."""
        directory = cls(path)
        save = SavedRun.open(path).config['options'].get('save')       # first, so that only runs get a lock file
        directory._lock(directory.folder)
        if isinstance(save, str) and Path(save).name and directory._real.name == f'.{Path(save).name}.new':
            directory.path = directory._real.with_name(Path(save).name)
            directory._real = _resolved(directory.path)
            if directory.path.exists():
                check_run(directory.path)
                directory._replace()
        return directory

    def _replace(self) -> None:
        self._lock(self.path)
        self.earlier = self.path

    def _lock(self, folder: Path) -> None:
        self._locks[folder] = Lock(folder)

    def create(self, config: object, vocabulary: object, fill: Callable[[Path], object] | None = None) -> Path:
        """Creates the folder with config.json and vocab.json, completely or not at all; returns the folder.

        Args:
            config, vocabulary: contents of config.json and vocab.json.
            fill: function that adds more files to the folder before it gets its final name; may raise OSError.
        """
        draft = new_beside(self._real)
        with faults_named(self.path, ''):
            if draft.exists():                   # a training was stopped before it saved an epoch
                self._lock(draft)
                shutil.rmtree(draft)
                self._locks.pop(draft).release()
            draft.mkdir(parents=True)
        self._lock(draft)
        with temporary(draft):
            try:
                records.create(draft, config, vocabulary)
                if fill is not None:
                    fill(draft)
            except (OSError, CorpusError) as error:
                reason = getattr(error, 'strerror', None) or str(error)
                raise CorpusError(self.path, None, f'cannot be written: {reason}') from None
            self.folder = draft
            if self.earlier is None:
                self.publish()
            keep(draft)
        return self.folder

    def publish(self) -> Path:
        """Moves the run to its final path, replacing an earlier run; returns the path. Does nothing if done before."""
        if self.folder == self.path:
            return self.path
        old = new_beside(self._real, 'old')
        if not _RENAMES_OPEN:
            self.release()
        with faults_named(self.path, '' if self.earlier is None else f'the new run is in {self.folder}'):
            if self.earlier is not None:
                os.rename(self._real, old)
            try:
                os.rename(self.folder, self._real)
            except OSError:
                if self.earlier is not None:
                    os.rename(old, self._real)
                raise
        shutil.rmtree(old, ignore_errors=True)
        if not _RENAMES_OPEN:
            self._lock(self.path)
        elif self.earlier is not None:
            self._locks.pop(self.earlier).release()
        self.folder, self.earlier = self.path, None
        return self.path

    def release(self) -> None:
        """Releases all locks."""
        for lock in self._locks.values():
            lock.release()

    def has_state(self) -> bool:
        """Whether the folder has the state of a training that can be resumed."""
        return (self.folder / records.STATE).exists()


class ReadOnlyRun(RunDirectory):
    """The directory of a run to which another process writes; this process only reads it, without a lock.

    Args:
        path: path of the run; the folder of a new run need not exist yet.
        resumed: whether the training of an existing run is resumed.
    """

    def __init__(self, path: PathLike, resumed: bool) -> None:
        self.path = self.folder = Path(path)
        self.earlier, self._locks, self._resumed = None, {}, resumed

    def has_state(self) -> bool:
        """Whether the folder has the state of a training that can be resumed."""
        return self._resumed and super().has_state()


def _finish_exchange(path: Path) -> None:
    """Finishes an exchange of runs that a crash interrupted: the earlier run is renamed back, or deleted."""
    old = new_beside(path, 'old')
    if old.is_dir():
        lock = Lock(old)                         # a process that is exchanging the runs holds this lock
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            with faults_named(path, ''):
                os.rename(old, path)
        lock.release()


class Lock:
    """The lock of a run directory, which lets only one training write at a time; readers do not need the lock.

    The lock is held until `release` or the end of the process. It is the operating system's lock of a file that is
    never replaced; file systems without locks are not protected.

    Args:
        folder: the run directory.
        name: name of the lock file.
        holder: description of another holder of the lock, for the message.

    Raises:
        CorpusError: another training holds the lock, or the lock file cannot be written.
    """

    def __init__(self, folder: PathLike, name: str = LOCK, holder: str = 'a training') -> None:
        path = Path(folder) / name
        self._descriptor: int | None = None
        while self._descriptor is None:
            with faults_named(folder, ''):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                _lock(self._descriptor)
            except OSError as error:
                if error.errno in _HELD:
                    process = os.read(self._descriptor, 20).decode('ascii', 'replace').strip()
                    self.release()
                    raise CorpusError(folder, None, f'{holder} is already running there (process {process or "?"}); '
                                                    'wait for its end or stop it') from None
            if not _is_still(path, self._descriptor):            # another training has replaced the folder
                self.release()
        with contextlib.suppress(OSError):                       # the process id is only used in messages
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f'{os.getpid()}\n'.encode())

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def __del__(self) -> None:
        self.release()


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt
    os.lseek(descriptor, _FAR, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def _is_still(path: PathLike, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
