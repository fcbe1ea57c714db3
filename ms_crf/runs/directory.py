"""Making a run directory: a new one, or one that replaces an earlier run as soon as it has an epoch to show.

Until then the earlier run stays as it was, and the new one is written to a hidden folder beside it: for NAME that is
`.NAME.new`. While the two are exchanged, the earlier one is called `.NAME.old`; if a crash comes just then, the next
start gives it its name back.
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
_FAR = 1 << 30                   # the byte that Windows locks; otherwise no one could read the number of the process
_KNOWN = {*records.NAMES, *records.LEFT, records.ENCODER, LOCK}
_RENAMES_OPEN = os.name != 'nt'                  # whether a folder can be renamed while a file in it is open


class PathExists(CorpusError):
    """There is something at the path of a new run that it can't replace.

    Attributes:
        path: of the new run.
        fault: what was expected, and what is there.
        is_run: whether it is, as far as can be seen, a run that could be resumed or overwritten.
    """

    def __init__(self, path: PathLike, fault: str, is_run: bool = False) -> None:
        advice = ', resume the run that is there, or overwrite it' if is_run else ''
        super().__init__(path, None, f'{fault}; choose another folder{advice}')
        self.path, self.fault, self.is_run = path, fault, is_run


def new_beside(path: PathLike, ending: str = 'new') -> Path:
    """The hidden folder of a training that is going to replace a run; with 'old' that of a run that is replaced."""
    path = _resolved(path)
    return path.with_name(f'.{path.name}.{ending}')


def _resolved(path: PathLike) -> Path:
    """The folder's own name: what a link, or a path that ends in dots, leads to."""
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() or path.name in ('', '..') else path


def check_new(path: PathLike) -> None:
    """Raises CorpusError unless a folder of this name can be made."""
    path = Path(path)
    if path.exists() or path.is_symlink():
        kind = 'one that is' if path.is_dir() else 'a file' if path.exists() else 'a link to nothing'
        raise PathExists(path, f'expected a folder that is not there yet, got {kind}', path.is_dir())
    check_parent(path, nearest_folder(path.absolute().parent))


def nearest_folder(path: PathLike) -> Path:
    """Returns the path itself, or the next one above it that exists."""
    absolute = Path(path).absolute()
    return next(parent for parent in (absolute, *absolute.parents) if os.path.lexists(parent))


def check_parent(path: Path, parent: Path, action: str = 'made') -> None:
    """Raises CorpusError unless files can be created in the parent folder; `action` is a word of the message."""
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise CorpusError(path, None, f'can not be {action}: {parent} is not a folder that you may write to')


def check_run(path: PathLike) -> None:
    """Raises CorpusError unless the folder holds a run and nothing else."""
    path = Path(path)
    names = {file.name.removeprefix('.') for file in path.iterdir()} if path.is_dir() else set()
    if records.CONFIG not in names or names - _KNOWN:
        raise PathExists(path, 'expected a run of this program to overwrite, got something else')


class RunDirectory:
    """The directory of a run that is written to, locked until `release`; `new` and `resumed` make one.

    Attributes:
        path: where the run belongs.
        folder: where it is now, until `publish` another one than `path` if it replaces an earlier run.
        earlier: the run that it is going to replace; None if there is none, or not any more.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = self.folder = Path(path)
        self.earlier: Path | None = None
        self._locks: dict[Path, Lock] = {}
        self._real = _resolved(path)             # a link stays one, and leads to the new run
        if not self._real.name:
            raise PathExists(path, 'expected a folder that is not there yet, got the root of the file system')
        _put_back(self._real)

    @classmethod
    def new(cls, path: PathLike, overwrite: bool = False) -> 'RunDirectory':
        """For a new run; nothing is made before `create`.

        Args:
            path: of the run.
            overwrite: whether an earlier run may be there, to be replaced.

        Raises:
            CorpusError: the run can't be made there, or another training writes to it.
        """
        made = cls(path)
        if overwrite and made.path.exists():
            check_run(made.path)
            check_parent(made.path, made._real.parent)
            if os.path.ismount(made._real):
                raise PathExists(path, 'a file system is mounted there, which cannot be replaced by another folder')
            made._replace()
        else:
            check_new(made.path)
        return made

    @classmethod
    def resumed(cls, path: PathLike) -> 'RunDirectory':
        """For a run that is there; also for one that has not replaced an earlier run yet, by its hidden name."""
        made = cls(path)
        save = SavedRun.open(path).config['options'].get('save')       # before a lock is made: it may be no run
        made._lock(made.folder)
        if isinstance(save, str) and Path(save).name and made._real.name == f'.{Path(save).name}.new':
            made.path = made._real.with_name(Path(save).name)
            made._real = _resolved(made.path)
            if made.path.exists():
                check_run(made.path)
                made._replace()
        return made

    def _replace(self) -> None:
        self._lock(self.path)
        self.earlier = self.path

    def _lock(self, folder: Path) -> None:
        self._locks[folder] = Lock(folder)

    def create(self, config: object, vocabulary: object, fill: Callable[[Path], object] | None = None) -> Path:
        """Makes the folder, whole or not at all, with both records in it.

        Args:
            config, vocabulary: what config.json and vocab.json are to hold.
            fill: is called with the folder, before it has its name, and puts more into it; may raise OSError.

        Returns:
            The folder.
        """
        draft = new_beside(self._real)
        with faults_named(self.path, ''):
            if draft.exists():                   # of a training that was stopped before its first epoch was saved
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
        """Moves the run to its path, unless it is there already; an earlier run there is deleted. Returns the path."""
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
        """Ends the locks."""
        for lock in self._locks.values():
            lock.release()

    def has_state(self) -> bool:
        """Whether there is a training to go on with."""
        return (self.folder / records.STATE).exists()


class ReadOnlyRun(RunDirectory):
    """The directory of a run to which another process writes: it is only read, and not locked.

    Args:
        path: where the run belongs, which for a new one need not be there.
        resumed: whether the run is there already.
    """

    def __init__(self, path: PathLike, resumed: bool) -> None:
        self.path = self.folder = Path(path)
        self.earlier, self._locks, self._resumed = None, {}, resumed

    def has_state(self) -> bool:
        """Whether there is a training to go on with."""
        return self._resumed and super().has_state()


def _put_back(path: Path) -> None:
    """Ends an exchange of two runs that a crash cut off: the earlier one gets its name back, or is deleted."""
    old = new_beside(path, 'old')
    if old.is_dir():
        lock = Lock(old)                         # which another process holds while it exchanges them
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            with faults_named(path, ''):
                os.rename(old, path)
        lock.release()


class Lock:
    """The lock of a run directory: one training at a time writes to it; who only reads it does not ask for the lock.

    It is held until `release`, or the end of the process in whatever way. It is the system's lock of a file in the
    folder that is never replaced; on a file system without locks there is none.

    Args:
        folder: the run directory.
        name: of the file.
        holder: what holds the lock otherwise, for the message.

    Raises:
        CorpusError: another training holds it, or no file can be written there.
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
                    raise CorpusError(folder, None, f'{holder} is running there already (process {process or "?"}); '
                                                    'wait for its end or stop it') from None
            if not _is_still(path, self._descriptor):            # another training has replaced the run
                self.release()
        with contextlib.suppress(OSError):                       # it is for the message only
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
