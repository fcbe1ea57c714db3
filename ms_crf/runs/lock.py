"""The lock of a run directory: one training at a time writes to it, until its process ends, in whatever way it does.

It is the system's lock of a file in the folder that is never replaced. Who only reads a run does not ask for it.
"""

import contextlib
import errno
import os
from pathlib import Path

from ms_crf.errors import CorpusError
from ms_crf.files import PathLike, faults_named

try:
    import fcntl
except ImportError:              # Windows
    fcntl = None  # type: ignore[assignment]

NAME = 'lock'
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_FAR = 1 << 30                   # the byte that Windows locks; who reads the number of the process can't read that


class Lock:
    """Held from now on, until `release` or the end of the process.

    On a file system that has no locks it is none.

    Args:
        folder: the run directory.

    Raises:
        CorpusError: another training holds it, or no file can be written there.
    """

    def __init__(self, folder: PathLike) -> None:
        path = Path(folder) / NAME
        self._descriptor: int | None = None
        while self._descriptor is None:
            with faults_named(folder, ''):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                _lock(self._descriptor)
            except OSError as error:
                if error.errno in _HELD:
                    holder = os.read(self._descriptor, 20).decode('ascii', 'replace').strip()
                    self.release()
                    raise CorpusError(folder, None, f'a training is running there already (process {holder or "?"}); '
                                                    'wait for its end or stop it') from None
            if not _is_still(path, self._descriptor):            # another training has taken the place of the run
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
