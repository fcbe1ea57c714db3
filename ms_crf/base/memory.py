"""How much memory this process can get, so that what can't fit is refused before it is allocated."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUP, _CGROUPS = '/proc/self/cgroup', '/sys/fs/cgroup'
_V1, _V2 = 'memory.limit_in_bytes', 'memory.max'


def check_memory(size: int, what: str, advice: str = '', error: type[ValueError] = ValueError) -> None:
    """Refuses what needs more memory than this process can get.

    Args:
        size: the number of bytes that it needs at the very least, however large.
        what: the subject of the message, such as 'a table of vectors'.
        advice: what the message advises.
        error: the type of what is raised.

    Raises:
        ValueError: '<what> needs at least 72 GB of memory, and 23 GB are there'.
    """
    there = memory_there()
    if there is not None and size > there:
        raise error(f'{what} needs at least {gigabytes(size)} of memory, and {gigabytes(there)} are there'
                    + (f'; {advice}' if advice else ''))


def memory_there() -> int | None:
    """Returns the number of bytes that this process could get if it were alone, or None if the system does not say.

    It is the memory of the machine with its swap space, or the least of the limits that the process runs under, of
    control groups and `ulimit -v`.
    """
    machine = swap = 0
    with contextlib.suppress(OSError, psutil.Error), warnings.catch_warnings():
        warnings.simplefilter('ignore')          # about rates of swapping, which some containers do not show
        machine = psutil.virtual_memory().total
        swap = psutil.swap_memory().total
    limits = [machine + swap, *(limit + swap for limit in _control_groups())]
    with contextlib.suppress(ImportError):
        import resource  # which Windows does not have
        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [soft] * (soft != resource.RLIM_INFINITY)
    return min((limit for limit in limits if limit > 0), default=None)


def gigabytes(size: int) -> str:
    """A number of bytes, however large, as '0.31 GB', '4.7 GB' or '1,200 GB'."""
    tenths = size // 10 ** 8
    return f'{tenths // 10:,} GB' if tenths >= 100 else f'{tenths / 10:.1f} GB' if tenths else f'{size / 1e9:.2g} GB'


def _control_groups() -> Iterator[int]:
    """The limits of this process's control group and of the groups that it is in."""
    try:
        lines = Path(_CGROUP).read_text().splitlines()
    except OSError:
        return
    for line in lines:
        hierarchy, controllers, group_path = line.split(':', 2)
        if hierarchy == '0':                                     # version 2
            top, name = Path(_CGROUPS), _V2
        elif 'memory' in controllers.split(','):
            top, name = Path(_CGROUPS, 'memory'), _V1
        else:
            continue
        folder = top / group_path.lstrip('/')
        for group in (folder, *folder.parents):
            with contextlib.suppress(OSError):                   # in a container only its own group can be seen
                limit = (group / name).read_text().strip()
                if limit.isdecimal():                            # 'max' for none
                    yield int(limit)
            if group == top:
                break
