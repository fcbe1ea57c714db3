"""Checks of the available memory, so that an impossible allocation is rejected before it starts."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUP, _CGROUPS = '/proc/self/cgroup', '/sys/fs/cgroup'
_V1, _V2 = 'memory.limit_in_bytes', 'memory.max'


def check_memory(size: int, what: str, advice: str = '', error: type[ValueError] = ValueError) -> None:
    """Raises an error if something needs more memory than this process can get.

    Args:
        size: minimum number of bytes needed.
        what: subject of the message, such as 'a table of vectors'.
        advice: end of the message, such as 'use smaller layers'.
        error: type of the error.

    Raises:
        ValueError: '<what> needs at least 72 GB of memory, and 23 GB are available'.
    """
    available = available_memory()
    if available is not None and size > available:
        raise error(f'{what} needs at least {gigabytes(size)} of memory, and {gigabytes(available)} are available'
                    + (f'; {advice}' if advice else ''))


def available_memory() -> int | None:
    """Returns the number of bytes that this process could get if it ran alone, or None if that is unknown.

    The result is the smallest of these limits: memory plus swap space of the machine, control groups, `ulimit -v`.
    """
    machine = swap = 0
    with contextlib.suppress(OSError, psutil.Error), warnings.catch_warnings():
        warnings.simplefilter('ignore')          # about swap statistics, which some containers do not have
        machine = psutil.virtual_memory().total
        swap = psutil.swap_memory().total
    limits = [machine + swap, *(limit + swap for limit in _control_groups())]
    with contextlib.suppress(ImportError):
        import resource  # missing on Windows
        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [soft] * (soft != resource.RLIM_INFINITY)
    return min((limit for limit in limits if limit > 0), default=None)


def gigabytes(size: int) -> str:
    """Returns a number of bytes as text, such as '0.31 GB', '4.7 GB' or '1,200 GB'."""
    tenths = size // 10 ** 8
    return f'{tenths // 10:,} GB' if tenths >= 100 else f'{tenths / 10:.1f} GB' if tenths else f'{size / 1e9:.2g} GB'


def _control_groups() -> Iterator[int]:
    """Yields the memory limits of this process's control group and of the groups above it."""
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
            with contextlib.suppress(OSError):                   # a container sees only its own group
                limit = (group / name).read_text().strip()
                if limit.isdecimal():                            # 'max' means no limit
                    yield int(limit)
            if group == top:
                break
