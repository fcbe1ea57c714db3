"""Workers on Ray: a new local instance or an existing cluster, the distribution of shards, and retries."""

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
from ms_crf.bulk.worker import LoadResult, ShardResult, Worker, WorkerSettings

ATTEMPTS = 5                   # most attempts for a shard, or for starting a worker, if workers die
END_TIMEOUT = 10.0             # seconds for workers to end
RAY_END_TIMEOUT = 2.0          # seconds for the other processes of Ray to end
_STORE = 80 << 20              # bytes of shared memory; only names and counts need it
_LONGEST = 45                  # most characters of the folder for sockets; names of sockets have at most 107 characters
#: environment variables for Ray: no usage statistics, no log output
_QUIET = {'RAY_USAGE_STATS_ENABLED': '0', 'RAY_DEDUP_LOGS_SKIP_REGEX': '.', 'RAY_SCHEDULER_EVENTS': '0',
          'RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO': '0'}
#: restricts a local instance to the loopback, on Linux, too, despite the name of the first variable
_LOOPBACK = {'RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER': '0', 'RAY_AUTH_MODE': 'token'}
_TOKEN = secrets.token_hex(32)  # one token for all instances of this process, because Ray reads it only once
_DEVICES: dict[str, dict[str, Any]] = {'GPU': {'num_gpus': 1}, 'Ascend': {'resources': {'NPU': 1}}}


class Stop:
    """A signal handler that only records the signal. An exception inside calls of Ray could crash the process."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, *_: object) -> None:
        self.requested = True

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has arrived."""
        if self.requested:
            raise KeyboardInterrupt


class _Task(NamedTuple):
    """The task of a worker: tagging a shard, or loading the model if `shard` is None."""

    worker: Any
    shard: Shard | None = None
    draft: str = ''


def _import_ray(alone: bool) -> Any:
    """Imports Ray with our environment variables; `alone` says whether a local instance will be started."""
    if importlib.util.find_spec('ray') is None:
        raise not_installed('tag-many', 'Ray', 'bulk')
    os.environ.update(_QUIET)
    if alone:                    # other users of this machine can reach the loopback, but do not know the token
        os.environ.update(processes.environment(**_LOOPBACK, RAY_AUTH_TOKEN=_TOKEN))
    import ray
    return ray


@contextlib.contextmanager
def ray_session(stop: Stop, address: str | None, workers: int, device: str) -> Iterator[Any]:
    """A context with Ray, connected to a cluster or to a new local instance, which ends with the block.

    Args:
        stop: signal handler within the block.
        address: address of the cluster, HOST:PORT, or 'auto' for the cluster of this machine; None for a new local
            instance.
        workers: number of workers that a local instance must have room for.
        device: device of the workers.

    Raises:
        OptionError: Ray is not installed, or the cluster cannot be used.
    """
    before = dict(os.environ)
    ray = _import_ray(address is None)
    # As a client job, Ray does not add the current folder to the import path of its workers.
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
            except SystemExit:                   # Ray raises this on SIGTERM
                raise KeyboardInterrupt from None
            except Exception as error:           # Ray raises many error classes, also Exception itself
                reason = _first_line(error)
                if address is None:
                    raise OptionError(f'cannot start Ray: {reason}') from None
                raise OptionError(f'{argument("address")} {address}: cannot use this cluster: {reason}; if the cluster '
                                  'needs a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as on '
                                  'its machines') from None
            with processes.handling_signals(stop):   # replaces the handlers that Ray has set
                if folder is not None:
                    started |= processes.descendants()
                stop.check()
                _check_device(ray, device)
                try:
                    yield ray
                except ray.exceptions.RayError as error:
                    raise OptionError(f'Ray does not answer any more: {_first_line(error)}; run the same command again '
                                      'to continue') from None
    finally:
        with processes.handling_signals(stop), environment.quiet():
            if folder is not None:
                started |= processes.descendants()
            ray.shutdown()
            processes.end(started, RAY_END_TIMEOUT)
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            os.environ.clear()
            os.environ.update(before)


def _new_folder() -> str:
    """Creates a folder for Ray, with a name that later commands recognise and remove if it was left over."""
    folder = os.path.join(tempfile.gettempdir(), files.draft_prefix())
    if len(folder) > _LONGEST:
        folder = os.path.join('/tmp', files.draft_prefix())
    files.clear_drafts(os.path.dirname(folder))
    os.mkdir(folder, 0o700)
    return folder


def check_address(address: str) -> None:
    """Raises OptionError if no server listens on an address. Ray itself would try for a minute."""
    if address == 'auto':
        return
    host, colon, port = address.rpartition(':')
    if not colon or '://' in address or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise OptionError(f'{argument("address")} must be HOST:PORT or auto, got {brief(address)}')
    try:
        socket.create_connection((host.strip('[]'), int(port)), 10).close()
    except (OSError, UnicodeError) as error:     # UnicodeError: the name is not a valid host name
        reason = getattr(error, 'strerror', None) or 'unknown host'
        raise OptionError(f'{argument("address")} {address} does not answer: {reason}; start a cluster with: ray start '
                          '--head') from None


def _check_device(ray: Any, device: str) -> None:
    name = {'GPU': 'GPU', 'Ascend': 'NPU'}.get(device)
    if name is not None and not ray.cluster_resources().get(name):
        raise OptionError(f'{argument("device")} {device} needs a cluster with such a device, but Ray reports none')


def _first_line(error: BaseException) -> str:
    """Returns the first non-empty line of a message, or the name of the error class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _reason(error: BaseException) -> str:
    """Returns the last line of a long message that names an exception, or the first line if no line does."""
    named = [line.strip() for line in str(error).splitlines() if re.match(r'\s*[\w.]+Error: ', line)]
    return named[-1] if named else _first_line(error)


class WorkerPool:
    """Workers that tag shards. Each worker gets one shard at a time, the largest shards first.

    Args:
        ray: Ray, from `ray_session`.
        stop: signal handler, as for `ray_session`.
        settings: settings of the workers.
        count: most workers.
        say: is called with each line for the user.

    Attributes:
        retries: number of times that a shard went to another worker because its worker died.
    """

    def __init__(self, ray: Any, stop: Stop, settings: WorkerSettings, count: int,
                 say: Callable[[str], object]) -> None:
        self.ray, self.stop, self.settings, self.say = ray, stop, settings, say
        self.retries = 0
        self._tasks: dict[Any, _Task] = {}       # running tasks, by Ray's reference to the result
        self._deaths = 0                         # number of consecutive deaths of workers that were loading
        self._attempts: dict[str, int] = {}      # failed attempts of each shard, by its target
        self._count = count
        self._kind = ray.remote(Worker).options(num_cpus=1, max_restarts=0, **_DEVICES.get(settings.device, {}))

    def tag(self, shards: Iterable[Shard]) -> Iterator[ShardResult | None]:
        """Tags shards. Yields the result of each finished or failed shard, and regularly None while waiting.

        Raises:
            OptionError: the workers cannot tag the shards.
            KeyboardInterrupt: a signal has arrived.
        """
        waiting = deque(sorted(shards, key=lambda shard: -shard.size))
        count = min(self._count, len(waiting))
        room = int(self.ray.available_resources().get('CPU', 0))
        if room < count:
            self.say(f'the cluster has free CPUs for {room} of {count} workers; more workers start when CPUs become '
                     'free')
        try:
            for _ in range(count):
                self._start()
            while waiting or any(task.shard for task in self._tasks.values()):
                ready, _ = self.ray.wait(list(self._tasks), num_returns=1, timeout=0.5)
                self.stop.check()
                for reference in ready:
                    yield from self._finished(self._tasks.pop(reference), reference, waiting)
                if not ready:
                    if not any(task.shard for task in self._tasks.values()) and not any(
                            node['Alive'] for node in self.ray.nodes()):
                        raise OptionError('Ray has ended on all machines; start Ray, and run the same command again to '
                                          'continue')
                    yield None
        finally:
            self._stop()

    def _start(self) -> None:
        worker = self._kind.remote(self.settings)
        self._tasks[worker.begin.remote()] = _Task(worker)

    def _finished(self, task: _Task, reference: Any, waiting: deque[Shard]) -> Iterator[ShardResult]:
        """Handles a finished task: yields the result of its shard, and gives the worker its next shard."""
        try:
            result = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:        # an unexpected exception in the worker
            reason = f'{type(error.cause).__name__}: {_first_line(error.cause)}'
            if task.shard is None:
                raise OptionError(f'a worker cannot load the model: {reason}') from None
            remove(task.draft)
            result = ShardResult(f'{task.shard.shown}: {reason}')
        except self.ray.exceptions.RayError as error:            # the worker or its machine has died
            yield from self._died(task, waiting, error)
            return
        if isinstance(result, LoadResult):
            self._deaths = 0
            self._check(result)
        else:
            yield result
        if waiting:
            self._assign(task.worker, waiting.popleft())
        else:
            self.ray.kill(task.worker)

    def _assign(self, worker: Any, shard: Shard) -> None:
        draft = draft_of(shard, uuid.uuid4().hex[:12])
        self._tasks[worker.tag.remote(shard, draft)] = _Task(worker, shard, draft)

    def _check(self, loaded: LoadResult) -> None:
        if loaded.fault is not None:
            raise OptionError(loaded.fault)
        if loaded.version != environment.VERSION:
            raise OptionError(f'workers must have the same version as this command, ms_crf {environment.VERSION}, got '
                              f'{loaded.version}; install the same version on all machines')
        if loaded.model != self.settings.model:
            raise OptionError(f'workers must have the same model in {self.settings.run}, got a different model; put '
                              'the run in a folder that all machines share')

    def _died(self, task: _Task, waiting: deque[Shard], error: Exception) -> Iterator[ShardResult]:
        """Returns the shard of a dead worker to the queue and starts a new worker."""
        with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
            self.ray.kill(task.worker)           # in case the worker lives, but cannot be reached
        if task.shard is None:
            self._deaths += 1
            if self._deaths >= ATTEMPTS:
                raise OptionError(f'{ATTEMPTS} workers died while they loaded the model: {_reason(error)}')
        else:
            remove(task.draft)
            attempts = self._attempts[task.shard.target] = self._attempts.get(task.shard.target, 0) + 1
            if attempts >= ATTEMPTS:
                yield ShardResult(f'{task.shard.shown}: its worker died {attempts} times, perhaps from lack of memory; '
                                  'use fewer workers, or split the file')
            else:
                self.retries += 1
                waiting.appendleft(task.shard)
        loading = sum(other.shard is None for other in self._tasks.values())
        if len(waiting) > loading:
            self._start()

    def _stop(self) -> None:
        """Ends all workers and removes their unfinished files."""
        for task in self._tasks.values():
            with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
                self.ray.kill(task.worker)
        if self._tasks:
            with contextlib.suppress(self.ray.exceptions.RayError):          # a worker could still create its draft
                self.ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=END_TIMEOUT)
        for task in self._tasks.values():
            remove(task.draft)
        self._tasks.clear()
