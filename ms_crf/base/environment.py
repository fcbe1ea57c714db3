"""Environment variables for MindSpore, device selection, the lock around graph execution, and lazy imports.

MindSpore takes seconds to import, so modules with public names import them at their first use: see `loader`.

MindSpore's compiled functions and `GraphCell`s are not thread-safe. Two threads that call the same graph fail or crash;
two threads that call different graphs deadlock. A process that was forked after its parent had run a graph lacks
MindSpore's threads and hangs.
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
SECONDS = 180                # time limit of a device's first computation; a GPU may have to compile its kernels

# Requirements of MindSpore 2.10's wheels, as far as they can be checked without such a device.
_NEEDS = {
    'GPU': 'MindSpore 2.10 looks for CUDA 11.6 to 11.8 (through nvcc) and cuDNN 8 in addition to the driver',
    'Ascend': 'MindSpore 2.10 looks for CANN 8.2 to 9.1 in addition to the driver'}
_TRIAL = 'import sys, mindspore as ms; ms.set_device(sys.argv[1]); ms.Tensor([1.0]).sum().asnumpy()'

_DEVICE_FILES = {'Ascend': '/dev/davinci[0-9]*', 'GPU': '/dev/nvidia[0-9]*'}
_BLOCKING = 'MS_DEV_HOST_BLOCKING_RUN'
_user_set_blocking = _BLOCKING in os.environ
_lock = threading.RLock()
_process: int | None = None    # id of the process that has run a graph


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Returns the module of each name.

    Args:
        names: by module, its names, separated by spaces.
    """
    return {name: module for module, listed in names.items() for name in listed.split()}


def loader(module: str, names: dict[str, Any], modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a `__getattr__` that imports public names of a module at their first use; also sets its `__dir__`.

    Args:
        module: name of the module.
        names: `globals()` of the module, to which loaded names are added.
        modules: by public name, the module that defines it, without the package's name.
    """
    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f'module {module!r} has no attribute {name!r}')
        names[name] = getattr(importlib.import_module(f'ms_crf.{modules[name]}'), name)
        return names[name]
    names['__dir__'] = lambda: sorted(modules)
    return load


def present(device: str) -> bool:
    """Whether this machine has such a device, as far as its device files show."""
    return device == 'CPU' or bool(glob.glob(_DEVICE_FILES[device]))


def prepare(device: str | None = None) -> None:
    """Sets the environment variables that MindSpore reads at its import; variables set by the user are kept.

    Args:
        device: 'CPU', 'GPU' or 'Ascend'; None means CPU unless this machine has an accelerator.
    """
    os.environ.setdefault('GLOG_v', '3')  # 3: errors only; below it each compilation prints warnings
    if _user_set_blocking:
        return
    if device == 'CPU' or device is None and not any(map(present, _DEVICE_FILES)):
        # Without this variable the waiting Python thread spins and takes a core from the threads of the kernels.
        # On an accelerator the variable would serialise host and device.
        os.environ[_BLOCKING] = '1'
        processes.PRIVATE.add(_BLOCKING)         # child processes call `prepare` themselves
    else:
        os.environ.pop(_BLOCKING, None)


def for_others() -> dict[str, str]:
    """Returns the environment variables to pass to processes on other machines that use MindSpore.

    Variables that `prepare` has set for the device of this machine are not included. They are also removed from the
    environment of this process, which does not compute in that case.
    """
    for name in processes.PRIVATE:
        os.environ.pop(name, None)
    return {name: value for name, value in os.environ.items() if name.startswith(('MS_', 'GLOG_'))}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses MindSpore's log of the errors that it raises: C++ on standard error, Python through its logger."""
    before = logging.root.manager.disable
    sys.stderr.flush()
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def check_process() -> None:
    """Raises RuntimeError in a process that was forked after its parent had run a graph."""
    if _process not in (None, os.getpid()):
        raise RuntimeError('this process was forked after its parent had computed with MindSpore, and would hang; '
                           "start processes by spawn: multiprocessing.get_context('spawn')")


@contextlib.contextmanager
def graph_load() -> Iterator[None]:
    """Holds the lock within the block, so that only this thread creates and loads graphs.

    Raises RuntimeError in a process that was forked after its parent had run a graph.

    Do not `yield` within the block: other threads would wait until the generator continues.
    """
    check_process()                              # before the lock: a thread of the parent may have held it at the fork
    with _lock:
        yield


@contextlib.contextmanager
def graph_call() -> Iterator[None]:
    """Holds the lock within the block, so that only this thread creates, loads, compiles and runs graphs.

    Raises RuntimeError in a process that was forked after its parent had run a graph.
    """
    global _process
    with graph_load():
        _process = os.getpid()
        yield


def choose_device(name: str, watcher: Watcher = SILENT) -> str:
    """Selects MindSpore's device and returns its name.

    Args:
        name: 'CPU', 'GPU', 'Ascend', or 'auto' for the first usable device of Ascend, GPU and CPU.
        watcher: receives a warning if 'auto' cannot use a device that this machine has.

    Raises:
        OptionError: the device is missing or does not work.
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
        raise _refusal(name, f'this machine has no {name} device')
    prepare(name)
    import mindspore as ms  # not above: its import reads the environment
    if not _supported(name):
        raise _refusal(name, 'this MindSpore does not find the libraries that it needs')
    try:
        with quiet():
            if ms.get_context('device_target') != name:  # MindSpore rejects this call after its first computation
                ms.set_device(name)
            ms.Tensor([1.0]).sum().asnumpy()
    except Exception as error:                   # each device raises other types
        raise _refusal(name, _first_line(str(error)) or type(error).__name__) from None
    return name


def _refusal(name: str, reason: str) -> OptionError:
    needs = f'; {_NEEDS[name]}; ms_crf is not tested there' if name in _NEEDS else ''
    return OptionError(f'the device {name} does not work here: {reason}{needs}; '
                       + ('use the CPU, or install these libraries' if needs else
                          'see the requirements of MindSpore'))


def _supported(name: str) -> bool:
    """Whether MindSpore has loaded its library for a device; it tries this at its import."""
    from mindspore import hal
    with quiet():
        return hal.is_available(name)


def _unusable(device: str) -> str | None:
    """Returns why a device of this machine cannot be used, or None if it works.

    The device is tested in a child process, because a process in which a device has failed may be unable to compute.
    """
    import subprocess
    import tempfile
    prepare(device)
    if not _supported(device):
        return 'this MindSpore does not find the libraries that it needs'
    try:
        with tempfile.TemporaryDirectory() as folder, processes.handling_signals(processes.interrupt):
            tried = processes.run(processes.command(_TRIAL, device), cwd=folder, capture_output=True, text=True,
                                  errors='replace', timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f'its first computation took more than {SECONDS} s'
    if tried.returncode == 0:
        return None
    raised = [line.partition(': ') for line in tried.stderr.splitlines()]
    reason = next((rest for kind, _, rest in raised if kind.endswith('Error') and ' ' not in kind), '')
    return _first_line(reason) or f'a sum on it ended with status {tried.returncode}'


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), '')
    return line if len(line) <= 160 else f'{line[:160]}...'
