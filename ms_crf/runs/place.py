"""Where a run directory is made: a new one, or one that takes the place of another when it has an epoch to show.

Until then the earlier run stays what it was, and the new one is in a hidden folder beside it, NAME as `.NAME.new`.
While the two change places the earlier one is `.NAME.old`: if a crash comes just then, the next start puts it back.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ms_crf.errors import CorpusError
from ms_crf.files import PathLike, faults_named, keep, temporary
from ms_crf.runs import records
from ms_crf.runs.lock import NAME as LOCK
from ms_crf.runs.lock import Lock

_KNOWN = {*records.NAMES, records.CHECKSUMS, records.ENCODER, LOCK, 'weights.tmp', 'state.tmp'}
_RENAMES_OPEN = os.name != 'nt'                  # whether a folder may get another name while a file in it is open


def new_beside(path: PathLike) -> Path:
    """The folder of the training that is to take the place of a run."""
    return _beside(_resolved(path), 'new')


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f'.{path.name}.{ending}')


def _resolved(path: PathLike) -> Path:
    """The folder's own name: what a link, or a path that ends in dots, means."""
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() or path.name in ('', '..') else path


def check_new(path: PathLike) -> None:
    """Raises CorpusError unless a folder of this name can be made."""
    path = Path(path)
    if path.exists() or path.is_symlink():
        if not path.is_dir():
            kind = 'a file' if path.exists() else 'a link to nothing'
            raise CorpusError(path, None, f'expected a folder that is not there yet, got {kind}; choose another --save')
        raise CorpusError(path, None, 'expected a folder that is not there yet, got one that is; '
                                      'choose another --save, go on with --resume, or add --overwrite')
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    _check_parent(path, parent)


def _check_parent(path: Path, parent: Path) -> None:
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise CorpusError(path, None, f'can not be made: {parent} is not a folder that you may write to')


def check_run(path: PathLike) -> None:
    """Raises CorpusError unless the folder is a run and nothing else."""
    path = Path(path)
    names = {file.name.removeprefix('.') for file in path.iterdir()} if path.is_dir() else set()
    if records.CONFIG not in names or names - _KNOWN:
        raise CorpusError(path, None, 'expected a run of this program to overwrite, got something else; '
                                      'choose another --save')


class Place:
    """The place of a run that begins or goes on, locked until `release`.

    Args:
        path: of the run directory.
        overwrite: whether a run may be there already.

    Attributes:
        folder: where the run is now.
        former: the run whose place it has not taken yet, or None.

    Raises:
        CorpusError: the run can't be there, or another training is.
    """

    def __init__(self, path: PathLike, overwrite: bool = False) -> None:
        self.path = self.folder = Path(path)
        self.former: Path | None = None
        self._locks: dict[Path, Lock] = {}
        self._real = _resolved(path)             # a link goes on to name the run
        _put_back(self._real)
        if overwrite and self.path.exists():
            check_run(self.path)
            _check_parent(self.path, self._real.parent)
            if os.path.ismount(self._real):
                raise CorpusError(path, None, 'a file system is mounted there, which no other folder can take the '
                                              'place of; choose another --save')
            self._lock(self.path)
            self.former = self.path
        else:
            check_new(self.path)

    @classmethod
    def resumed(cls, path: PathLike) -> 'Place':
        """The place of a run that is there; also of one that has not taken its place yet, by its hidden name."""
        made = cls.__new__(cls)
        made.path = made.folder = path = Path(path)
        made.former, made._locks, made._real = None, {}, _resolved(path)
        _put_back(made._real)
        save = records.read_config(path)['options'].get('save')       # before a lock is made: it may be no run
        made._lock(path)
        if isinstance(save, str) and Path(save).name and made._real.name == _beside(Path(save), 'new').name:
            made.path = made._real.with_name(Path(save).name)
            made._real = _resolved(made.path)
            if made.path.exists():
                check_run(made.path)
                made._lock(made.path)
                made.former = made.path
        return made

    def _lock(self, folder: Path) -> None:
        self._locks[folder] = Lock(folder)

    def create(self, config: Any, vocabulary: Any, fill: Callable[[Path], object] | None = None) -> Path:
        """Makes the folder with both records in it, at once; returns it.

        Args:
            config, vocabulary: the records.
            fill: is called with the folder, before it has its name, and puts more into it; may raise OSError.
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
                raise CorpusError(self.path, None, f'can not be written: {reason}') from None
            self.folder = draft
            if self.former is None:
                self.take()
            keep(draft)
        return self.folder

    def take(self) -> Path:
        """Gives the run its name, if it has not got it yet; what was there is deleted. Returns the folder."""
        if self.folder == self.path:
            return self.path
        old = _beside(self._real, 'old')
        if not _RENAMES_OPEN:
            self.release()
        with faults_named(self.path, '' if self.former is None else f'the new run is in {self.folder}'):
            if self.former is not None:
                os.rename(self._real, old)
            try:
                os.rename(self.folder, self._real)
            except OSError:
                if self.former is not None:
                    os.rename(old, self._real)
                raise
        shutil.rmtree(old, ignore_errors=True)
        if not _RENAMES_OPEN:
            self._lock(self.path)
        elif self.former is not None:
            self._locks.pop(self.former).release()
        self.folder, self.former = self.path, None
        return self.path

    def release(self) -> None:
        for lock in self._locks.values():
            lock.release()


def _put_back(path: Path) -> None:
    """Ends a change of places that a crash cut off: the run that was there gets its name back, or goes."""
    old = _beside(path, 'old')
    if old.is_dir():
        lock = Lock(old)                         # whoever changes places just now holds it
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            with faults_named(path, ''):
                os.rename(old, path)
        lock.release()
