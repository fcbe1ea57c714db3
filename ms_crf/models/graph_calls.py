"""One thread at a time in MindSpore's graphs, and none in a process that can't run any.

MindSpore's compiled functions and `GraphCell`s are not safe for threads: two threads in one of them fail or crash, two
threads in two of them wait for each other for ever. A process that is forked from one that has run a graph lacks
MindSpore's threads and waits for them for ever as well.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

_lock = threading.RLock()
_process: int | None = None    # that has run the first graph


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
