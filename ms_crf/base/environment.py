"""What MindSpore needs of a process: its environment, set before it is imported; its device; turns in graphs.

MindSpore takes seconds to import, so public names are loaded when a program first asks for them: see `loader`.

Compiled functions and `GraphCell`s are not safe for threads: two threads in one of them fail or crash, two threads in
two of them wait for each other for ever. A process that is forked from one that has run a graph lacks MindSpore's
threads and waits for them for ever as well.
"""

import contextlib
import glob
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ms_crf.base import processes
from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import SILENT, Watcher

VERSION = '0.3.0'

DEVICES = ('auto', 'CPU', 'GPU', 'Ascend')
SECONDS = 180                # that a device may take for its first sum; a GPU may have to compile its kernels

# What the wheels of MindSpore 2.10 look for, as far as can be seen without such a device.
_NEEDS = {
    'GPU': 'MindSpore 2.10 looks for CUDA 11.6 to 11.8 (through nvcc) and cuDNN 8 beside the driver',
    'Ascend': 'MindSpore 2.10 looks for CANN 8.2 to 9.1 beside the driver'}
_TRIAL = 'import sys, mindspore as ms; ms.set_device(sys.argv[1]); ms.Tensor([1.0]).sum().asnumpy()'

_DEVICE_FILES = {'Ascend': '/dev/davinci[0-9]*', 'GPU': '/dev/nvidia[0-9]*'}
_BLOCKING = 'MS_DEV_HOST_BLOCKING_RUN'
_given_blocking = _BLOCKING in os.environ
_lock = threading.RLock()
_process: int | None = None    # that has run the first graph


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """For each name its module, of the names of each module, separated by spaces."""
    return {name: module for module, listed in names.items() for name in listed.split()}


def loader(module: str, names: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a module, which also gets a `__dir__`.

    Args:
        module: its name.
        names: its `globals()`, where a name stays once it is loaded.
        homes: for each public name the module that defines it, without the package's name.
    """
    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f'module {module!r} has no attribute {name!r}')
        names[name] = getattr(importlib.import_module(f'ms_crf.{homes[name]}'), name)
        return names[name]
    names['__dir__'] = lambda: sorted(homes)
    return load


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
    if device == 'CPU' or device is None and not any(map(present, _DEVICE_FILES)):
        # Without it the waiting Python thread spins and takes a core from the kernels'
        # threads. On a device it would serialise host and device.
        os.environ[_BLOCKING] = '1'
        processes.PRIVATE.add(_BLOCKING)         # child processes prepare themselves
    else:
        os.environ.pop(_BLOCKING, None)


def for_others() -> dict[str, str]:
    """Returns the environment variables to pass to processes on other machines that use MindSpore.

    What `prepare` has set for the device of this machine is not among them. It is also removed from this process, which
    computes nothing itself then.
    """
    for name in processes.PRIVATE:
        os.environ.pop(name, None)
    return {name: value for name, value in os.environ.items() if name.startswith(('MS_', 'GLOG_'))}


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


def choose_device(name: str, watcher: Watcher = SILENT) -> str:
    """Makes MindSpore compute on a device.

    Args:
        name: 'CPU', 'GPU', 'Ascend', or 'auto' for the first that works here of Ascend, GPU and CPU.
        watcher: is told that a device is there and 'auto' can't use it.

    Returns:
        The device's name.

    Raises:
        OptionError: the device does not work here.
    """
    if name != 'auto':
        return _use(name)
    for device in ('Ascend', 'GPU'):
        if present(device):
            reason = _unusable(device)
            if reason is None:
                return _use(device)
            watcher.warn(f'{device} found, but {reason}; {_NEEDS[device]}; computing on the CPU')
    return _use('CPU')


def _use(name: str) -> str:
    if not present(name):
        raise _refusal(name, f'this machine shows no {name} device')
    prepare(name)
    import mindspore as ms  # here, because it reads its environment when it starts
    if not _supported(name):
        raise _refusal(name, 'this MindSpore does not find what it needs for it')
    try:
        with quiet():
            if ms.get_context('device_target') != name:  # MindSpore refuses it once it has computed
                ms.set_device(name)
            ms.Tensor([1.0]).sum().asnumpy()
    except Exception as error:                   # what is raised differs from device to device
        raise _refusal(name, _first_line(str(error)) or type(error).__name__) from None
    return name


def _refusal(name: str, reason: str) -> OptionError:
    needs = f'; {_NEEDS[name]}; this program has not been tried there' if name in _NEEDS else ''
    return OptionError(f'the device {name} does not work here: {reason}{needs}; '
                       + ('use the CPU, or install these' if needs else 'see what MindSpore needs'))


def _supported(name: str) -> bool:
    """Whether MindSpore has loaded its part for a device, which it tries when it is imported."""
    from mindspore import hal
    with quiet():
        return hal.is_available(name)


def _unusable(device: str) -> str | None:
    """Why a device that is there can't be used, or None.

    It is tried in a process of its own, for one in which a device has failed may not compute any more.
    """
    import subprocess
    import tempfile
    prepare(device)
    if not _supported(device):
        return 'this MindSpore does not find what it needs for it'
    try:
        with tempfile.TemporaryDirectory() as folder, processes.handling_signals(processes.interrupt):
            tried = processes.run(processes.command(_TRIAL, device), cwd=folder, capture_output=True, text=True,
                                  errors='replace', timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f'it has computed nothing within {SECONDS} s'
    if tried.returncode == 0:
        return None
    raised = [line.partition(': ') for line in tried.stderr.splitlines()]
    reason = next((rest for kind, _, rest in raised if kind.endswith('Error') and ' ' not in kind), '')
    return _first_line(reason) or f'a sum on it ended with status {tried.returncode}'


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), '')
    return line if len(line) <= 160 else f'{line[:160]}...'
