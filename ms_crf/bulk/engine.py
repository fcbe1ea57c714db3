"""Workers on Ray: an instance on this machine or a cluster that is there, shards handed out one by one, retries."""

import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ms_crf.base import environment, files, processes
from ms_crf.base.errors import OptionError, argument, brief, not_installed
from ms_crf.base.files import remove
from ms_crf.bulk.shards import Shard, draft_of
from ms_crf.bulk.worker import Began, Done, Order, Worker

ATTEMPTS = 5                   # that a shard, or the start of a worker, gets if workers die of it
PATIENCE = 10.0                # seconds that workers get to end
PATIENCE_OF_RAY = 2.0          # seconds that the other processes of Ray get to end
_STORE = 80 << 20              # bytes of shared memory; only names and counts are passed on
_LONGEST = 45                  # characters of a folder for sockets, whose names must not exceed 107
#: what Ray reads when it is imported: it reports nothing to its makers, and prints nothing of its own
_QUIET = {'RAY_USAGE_STATS_ENABLED': '0', 'RAY_DEDUP_LOGS_SKIP_REGEX': '.', 'RAY_SCHEDULER_EVENTS': '0',
          'RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO': '0'}
#: keeps an instance of its own to the loopback; the name is of the time when Ray had clusters on Linux only
_LOOPBACK = {'RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER': '0', 'RAY_AUTH_MODE': 'token'}
_TOKEN = secrets.token_hex(32)  # of instances of this process; Ray reads it once only
_DEVICES: dict[str, dict[str, Any]] = {'GPU': {'num_gpus': 1}, 'Ascend': {'resources': {'NPU': 1}}}


class Stop:
    """A handler of signals that takes note of them. An exception from within Ray's calls can crash the process."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, *_: object) -> None:
        self.asked = True

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has come."""
        if self.asked:
            raise KeyboardInterrupt


class _Task(NamedTuple):
    """What a worker is doing: loading the model if there is no shard."""

    worker: Any
    shard: Shard | None = None
    draft: str = ''


def _engine(alone: bool) -> Any:
    """The library, which has found its settings; `alone` for an instance of this machine."""
    if importlib.util.find_spec('ray') is None:
        raise not_installed('tag-many', 'Ray', 'bulk')
    os.environ.update(_QUIET)
    if alone:                    # others on this machine, who can reach the loopback, do not know the token
        os.environ.update(processes.environment(**_LOOPBACK, RAY_AUTH_TOKEN=_TOKEN))
    import ray
    return ray


@contextlib.contextmanager
def running(stop: Stop, address: str | None, workers: int, device: str) -> Iterator[Any]:
    """Ray, connected to a cluster, or to an instance on this machine that ends with the block.

    Args:
        stop: the handler of signals within the block.
        address: of the cluster, HOST:PORT or 'auto' for the one on this machine; None for an instance of its own.
        workers: how many the instance must have a place for.
        device: what workers compute on.

    Raises:
        OptionError: Ray is not installed, or there is no such cluster.
    """
    before = dict(os.environ)
    ray = _engine(address is None)
    # Ray would add the current folder to the import path of its workers, except for a client's job.
    job = ray.job_config.JobConfig(_client_job=True, _py_driver_sys_path=[processes.PACKAGES])
    options: dict[str, Any] = {'log_to_driver': False, 'logging_level': 'CRITICAL', 'job_config': job}
    variables = environment.for_others()
    folder, started = None, set()
    if address is None:
        folder = _new_folder()
        options |= {'address': 'local', 'num_cpus': workers, 'include_dashboard': False, '_temp_dir': folder,
                    'object_store_memory': _STORE}
    else:
        options |= {'address': address, 'runtime_env': {'env_vars': variables}}
    try:
        with processes.handling_signals(stop):
            try:
                with environment.quiet():
                    ray.init(**options)
            except SystemExit:                   # Ray's own answer to SIGTERM
                raise KeyboardInterrupt from None
            except Exception as error:           # Ray raises many kinds, and bare ones of this class
                reason = _first_line(error)
                if address is None:
                    raise OptionError(f'Ray does not start: {reason}') from None
                raise OptionError(f'{argument("address")} {address} cannot be used: {reason}; if the cluster asks for '
                                  'a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as on its '
                                  'machines') from None
            with processes.handling_signals(stop):   # Ray has set handlers of its own
                if folder is not None:
                    started |= processes.descendants()
                stop.check()
                _check_device(ray, device)
                try:
                    yield ray
                except ray.exceptions.RayError as error:
                    raise OptionError(f'Ray does not answer any more: {_first_line(error)}; the same command goes '
                                      'on') from None
    finally:
        with processes.handling_signals(stop), environment.quiet():
            if folder is not None:
                started |= processes.descendants()
            ray.shutdown()
            processes.end(started, PATIENCE_OF_RAY)
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            os.environ.clear()
            os.environ.update(before)


def _new_folder() -> str:
    """Makes a folder for Ray, with a name that later commands can clear away."""
    folder = os.path.join(tempfile.gettempdir(), files.draft_prefix())
    if len(folder) > _LONGEST:
        folder = os.path.join('/tmp', files.draft_prefix())
    files.clear_drafts(os.path.dirname(folder))
    os.mkdir(folder, 0o700)
    return folder


def check_address(address: str) -> None:
    """Raises OptionError unless somebody listens there; Ray itself would try for a minute."""
    if address == 'auto':
        return
    host, colon, port = address.rpartition(':')
    if not colon or '://' in address or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise OptionError(f'{argument("address")} must be HOST:PORT or auto, got {brief(address)}')
    try:
        socket.create_connection((host.strip('[]'), int(port)), 10).close()
    except (OSError, UnicodeError) as error:     # the second for a name that no machine can have
        reason = getattr(error, 'strerror', None) or 'there is no such machine'
        raise OptionError(f'{argument("address")} {address} does not answer: {reason}; start a cluster with: ray start '
                          '--head') from None


def _check_device(ray: Any, device: str) -> None:
    name = {'GPU': 'GPU', 'Ascend': 'NPU'}.get(device)
    if name is not None and not ray.cluster_resources().get(name):
        raise OptionError(f'{argument("device")} {device} needs a cluster in which Ray sees one, got one without')


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _reason(error: BaseException) -> str:
    """The line of a long message that names an exception, if there is one; otherwise the first."""
    named = [line.strip() for line in str(error).splitlines() if re.match(r'\s*[\w.]+Error: ', line)]
    return named[-1] if named else _first_line(error)


class Pool:
    """Workers, and the shards that are handed out to them: one at a time to each, the largest first.

    Args:
        ray: what `running` gave.
        stop: that of `running`.
        order: what the workers are to do.
        count: how many workers, at most.
        say: is called with what the user should know.

    Attributes:
        retries: how often a shard was given to another worker, because its worker died.
    """

    def __init__(self, ray: Any, stop: Stop, order: Order, count: int, say: Callable[[str], object]) -> None:
        self.ray, self.stop, self.order, self.say = ray, stop, order, say
        self.retries = 0
        self._tasks: dict[Any, _Task] = {}       # by what Ray calls their results
        self._deaths = 0                         # of workers that were loading, one after the other
        self._attempts: dict[str, int] = {}      # by target
        self._count = count
        self._kind = ray.remote(Worker).options(num_cpus=1, max_restarts=0, **_DEVICES.get(order.device, {}))

    def tag(self, shards: Iterable[Shard]) -> Iterator[Done | None]:
        """Tags shards; yields the result of each as it is done or given up, and None now and then while none is.

        Raises:
            OptionError: the workers can't do it.
            KeyboardInterrupt: a signal has come.
        """
        waiting = deque(sorted(shards, key=lambda shard: -shard.size))
        count = min(self._count, len(waiting))
        room = int(self.ray.available_resources().get('CPU', 0))
        if room < count:
            self.say(f'the cluster has room for {room} of {count} workers now; others start as it gets free')
        try:
            for _ in range(count):
                self._start()
            while waiting or any(task.shard for task in self._tasks.values()):
                ready, _ = self.ray.wait(list(self._tasks), num_returns=1, timeout=0.5)
                self.stop.check()
                for reference in ready:
                    yield from self._settled(self._tasks.pop(reference), reference, waiting)
                if not ready:
                    if not any(task.shard for task in self._tasks.values()) and not any(
                            node['Alive'] for node in self.ray.nodes()):
                        raise OptionError('Ray has ended on all machines; start it again, and the same command goes '
                                          'on')
                    yield None
        finally:
            self._stop()

    def _start(self) -> None:
        worker = self._kind.remote(self.order)
        self._tasks[worker.begin.remote()] = _Task(worker)

    def _settled(self, task: _Task, reference: Any, waiting: deque[Shard]) -> Iterator[Done]:
        """What comes of a task that has ended."""
        try:
            said = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:        # what the worker does not expect
            reason = f'{type(error.cause).__name__}: {_first_line(error.cause)}'
            if task.shard is None:
                raise OptionError(f'a worker could not load the model: {reason}') from None
            remove(task.draft)
            said = Done(f'{task.shard.shown}: {reason}')
        except self.ray.exceptions.RayError as error:            # the worker or its machine is gone
            yield from self._died(task, waiting, error)
            return
        if isinstance(said, Began):
            self._deaths = 0
            self._check(said)
        else:
            yield said
        if waiting:
            self._give(task.worker, waiting.popleft())
        else:
            self.ray.kill(task.worker)

    def _give(self, worker: Any, shard: Shard) -> None:
        draft = draft_of(shard, uuid.uuid4().hex[:12])
        self._tasks[worker.tag.remote(shard, draft)] = _Task(worker, shard, draft)

    def _check(self, began: Began) -> None:
        if began.fault is not None:
            raise OptionError(began.fault)
        if began.version != environment.VERSION:
            raise OptionError(f'workers must have ms_crf {environment.VERSION}, as this command has, got '
                              f'{began.version}; install the same on all machines')
        if began.model != self.order.model:
            raise OptionError(f'workers must find the same model in {self.order.run}, got another; give it a place '
                              'that all machines share')

    def _died(self, task: _Task, waiting: deque[Shard], error: Exception) -> Iterator[Done]:
        """Puts the shard of a worker that died back, and starts another worker."""
        with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
            self.ray.kill(task.worker)           # if it is only out of reach
        if task.shard is None:
            self._deaths += 1
            if self._deaths >= ATTEMPTS:
                raise OptionError(f'workers die while they load the model, {ATTEMPTS} times now: {_reason(error)}')
        else:
            remove(task.draft)
            tried = self._attempts[task.shard.target] = self._attempts.get(task.shard.target, 0) + 1
            if tried >= ATTEMPTS:
                yield Done(f'{task.shard.shown}: its worker died {tried} times, as it does where memory runs out; use '
                           'fewer workers, or cut it up')
            else:
                self.retries += 1
                waiting.appendleft(task.shard)
        loading = sum(other.shard is None for other in self._tasks.values())
        if len(waiting) > loading:
            self._start()

    def _stop(self) -> None:
        """Ends all workers, and removes what they have not finished."""
        for task in self._tasks.values():
            with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
                self.ray.kill(task.worker)
        if self._tasks:
            with contextlib.suppress(self.ray.exceptions.RayError):          # one that writes might make its draft anew
                self.ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=PATIENCE)
        for task in self._tasks.values():
            remove(task.draft)
        self._tasks.clear()
