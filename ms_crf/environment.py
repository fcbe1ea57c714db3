"""What MindSpore needs of a process: its environment, set only here and before it is imported, and turns in graphs.

Its compiled functions and `GraphCell`s are not safe for threads: two threads in one of them fail or crash, two threads
in two of them wait for each other for ever. A process that is forked from one that has run a graph lacks MindSpore's
threads and waits for them for ever as well.
"""

import contextlib
import glob
import logging
import os
import sys
import threading
from collections.abc import Iterator

VERSION = '0.2.0'

_DEVICE_FILES = {'Ascend': '/dev/davinci[0-9]*', 'GPU': '/dev/nvidia[0-9]*'}
_BLOCKING = 'MS_DEV_HOST_BLOCKING_RUN'
_given_blocking = _BLOCKING in os.environ
_lock = threading.RLock()
_process: int | None = None    # that has run the first graph


def present(device: str) -> bool:
    """Whether this machine shows such a device."""
    return device == 'CPU' or bool(glob.glob(_DEVICE_FILES[device]))


def prepare(device: str | None = None) -> None:
    """Sets what MindSpore reads when it starts; what the user has set stays.

    Args:
        device: 'CPU', 'GPU' or 'Ascend'; None means CPU unless this machine shows an accelerator.
    """
    os.environ.setdefault('GLOG_v', '3')  # 3: errors only; below it each compilation prints warnings
    if _given_blocking:
        return
    if device is None:
        on_cpu = not any(map(present, _DEVICE_FILES))
    else:
        on_cpu = device == 'CPU'
    if on_cpu:
        # Without it the waiting Python thread spins and takes a core from the kernels'
        # threads. On a device it would serialise host and device.
        os.environ[_BLOCKING] = '1'
    else:
        os.environ.pop(_BLOCKING, None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps MindSpore from logging what it raises: from C++ on standard error, from Python by its logger."""
    before = logging.root.manager.disable
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def check_process() -> None:
    """Raises RuntimeError in a process that was forked after its parent had run a graph."""
    if _process not in (None, os.getpid()):
        raise RuntimeError('this process was forked after its parent had computed with MindSpore, and would wait for '
                           "ever; start processes by spawn: multiprocessing.get_context('spawn')")


@contextlib.contextmanager
def graph_load() -> Iterator[None]:
    """Within the block the thread may make and load graphs, and no other thread does.

    Raises RuntimeError in a process that was forked after its parent had run a graph.

    Nothing must be handed out of the block by `yield`, which would keep the others waiting.
    """
    check_process()                              # before the lock, which a thread of the parent may have held
    with _lock:
        yield


@contextlib.contextmanager
def graph_call() -> Iterator[None]:
    """Within the block the thread may make, load, compile and run graphs, and no other thread does.

    Raises RuntimeError in a process that was forked after its parent had run a graph.
    """
    global _process
    with graph_load():
        _process = os.getpid()
        yield
