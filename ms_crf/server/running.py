"""Running the server: the socket, loading and reloading models, signals, and shutdown."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ms_crf.base import processes
from ms_crf.base.errors import OptionError, argument, brief, one_line
from ms_crf.server.application import Service, application
from ms_crf.server.child import ended_error, settle
from ms_crf.server.limits import RequestError
from ms_crf.server.metrics import ENDED, LOADED, REFUSED
from ms_crf.server.model import ModelLoadError, ServedModel
from ms_crf.server.process import PROCESS, HangDetector, Settings
from ms_crf.server.protocol import Protocol, watch

import uvicorn

LAST_ANSWERS = 2                       # seconds for sending errors to requests that are cancelled at shutdown
LONGEST_PAUSE = 60                     # most seconds between attempts to load a model after its process has ended
_RELOAD: int | None = getattr(signal, 'SIGHUP', None)        # Windows has no SIGHUP
_INTERVAL = .5                         # seconds between checks of the model process


def listening_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens on an address; raises OptionError if the address is invalid or in use."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise OptionError(f'{argument("host")} must be a name or an address of this machine, got {brief(host)}: '
                          f'{getattr(error, "strerror", None) or error}') from None
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:                                         # from now on clients can connect, and wait for the first model
        return socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        raise OptionError(f'{argument("host")} {host} {argument("port")} {port}: cannot listen on this address: '
                          f'{os.strerror(error.errno or 0)}') from None


def url_of(listening: socket.socket) -> str:
    """Returns the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f'http://[{host}]:{port}/' if ':' in host else f'http://{host}:{port}/'


class Server:
    """The server, from its start to its shutdown.

    Args:
        service: state of the application.
        settings: settings of the model process.
        listening: the socket.
        stopping: event that stops the server.
    """

    def __init__(self, service: Service, settings: Settings, listening: socket.socket,
                 stopping: threading.Event) -> None:
        self.service, self.settings, self.listening, self.stopping = service, settings, listening, stopping
        self.fault: ModelLoadError | None = None                 # the error of the first model
        self._tasks: set[asyncio.Future[Any]] = set()
        self._reload_event = asyncio.Event()     # set when the model should be loaded (again)
        self._waiting: list[asyncio.Future[None]] = []           # futures of requests to reload
        for name in ('uvicorn', 'asyncio'):      # this class reports everything of interest
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [logging.NullHandler()], False
        config = uvicorn.Config(application(service), http=Protocol.of_limits(service.limits), ws='none',
                                lifespan='off', log_config=None, access_log=False, server_header=False,
                                proxy_headers=False, timeout_keep_alive=max(1, int(service.limits.slow)),
                                timeout_graceful_shutdown=max(1, int(service.limits.drain)))
        self.server = uvicorn.Server(config)
        self.loop = (config.get_loop_factory() or asyncio.new_event_loop)()
        service.connections = self.server.server_state.connections
        service.reload = self.reload

    async def run(self) -> None:
        """Answers requests until a signal arrives or `stopping` is set.

        Raises ModelLoadError if the first model cannot be loaded.
        """
        for work in (self._models(), self._wait_for_stop(), watch(self.service.connections, self.service.limits)):
            self._keep(work)
        try:
            await self.server.serve([self.listening])
            if requests := list(self.server.server_state.tasks):         # cancelled after --drain; each gets an error
                await asyncio.wait(requests, timeout=LAST_ANSWERS)
        finally:
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            if self.service.model is not None:
                await self.service.model.process.close()
            await self.service.splitters.close()
        if self.fault is not None:
            raise self.fault

    def interrupt(self, number: int, _: object) -> None:
        """Handles a signal. The event loop runs in another thread."""
        with contextlib.suppress(RuntimeError):                  # the loop is closed
            self.loop.call_soon_threadsafe(self._reload_event.set if number == _RELOAD else self.stop)

    def stop(self) -> None:
        """Stops accepting connections and shuts down when open requests are answered; the second call stops at once."""
        self.server.force_exit = self.server.should_exit
        self.server.should_exit = True
        self._loaded(len(self._waiting), _ending())

    async def reload(self) -> None:
        """Loads the model again and waits until it is active; raises RequestError if loading fails."""
        if self.server.should_exit:
            raise _ending()
        loaded: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(loaded)
        self._reload_event.set()
        await loaded

    def _loaded(self, count: int, error: Exception | None = None) -> None:
        """Answers the first `count` requests to reload, with `error` if loading failed."""
        for future in self._waiting[:count]:
            settle(future, error)
        del self._waiting[:count]

    async def _models(self) -> None:
        """Loads the model, and loads it again after each reload request and after its process has ended."""
        pause, first = .5, True
        while True:
            count = len(self._waiting)           # requests that arrive while the model loads may mean a newer run
            try:
                await self._load()
                pause = .5
                self._loaded(count)
            except ModelLoadError as error:
                self.service.metrics.load(REFUSED)
                if first:
                    self.fault = error
                    self.stop()
                    return
                kept = '; the old model stays active' if self.service.model else ''
                self.service.say(f'{error}{kept}')
                self._loaded(count, RequestError(500, f'{error}{kept}'))
                pause = min(2 * pause, LONGEST_PAUSE)
            first = False
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._reload_event.wait(), None if self.service.model else pause)
            self._reload_event.clear()

    async def _load(self) -> None:
        """Loads a model and makes it active. The old model finishes its requests and ends."""
        service, old = self.service, self.service.model
        try:
            new = await ServedModel.load(self.settings, service.limits, service.metrics, service.say)
        except OSError as error:                 # the system cannot start a process
            raise ModelLoadError(one_line(f'{service.name}: cannot load the model: {error}')) from None
        try:
            await service.splitters.prepare(new.info.splitter)
        except asyncio.CancelledError:           # the server stops
            await new.process.close()
            raise
        if old is None:
            # All objects so far stay in memory. Without freeze, garbage collections would delay requests.
            gc.collect()
            gc.freeze()
            service.say(f'{service.name} is served at {url_of(self.listening)}')
        else:
            service.say(f'{service.name}: the model was reloaded')
        service.model = new
        service.metrics.load(LOADED)
        service.processes.update(server=os.getpid(), tagger=new.process.pid)
        self._keep(self._supervise(new))
        if old is not None:
            self._keep(old.close())

    async def _wait_for_stop(self) -> None:
        while not self.stopping.is_set():
            await asyncio.sleep(_INTERVAL)
        self.stop()

    def _keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs a coroutine in the background. asyncio may drop tasks without references, so the task is stored."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _supervise(self, model: ServedModel) -> None:
        """Waits until a model process ends, and kills it if it hangs. If the model is active, it is loaded again."""
        process, detector = model.process, HangDetector(self.service.limits.stall)
        before = self.loop.time()
        while not process.ended.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.ended.wait(), _INTERVAL)
            elapsed, before = self.loop.time() - before, self.loop.time()
            if fault := detector.fault(process, elapsed):
                self.service.say(f'the model process {fault}; it is killed')
                process.kill()
                await process.ended.wait()
        if self.service.model is model and not self.server.should_exit:
            self.service.model = None
            status = await process.close()
            model.queue.fail(ended_error(*PROCESS))
            self.service.metrics.load(ENDED)
            self.service.say(f'the model process has ended with status {status}; a new process starts')
            self._reload_event.set()


def _ending() -> RequestError:
    return RequestError(503, 'the server is shutting down and cannot load a model', None, True)


def run(service: Service, settings: Settings, listening: socket.socket, stop: threading.Event) -> None:
    """Runs the server until a signal arrives or `stop` is set; raises ModelLoadError if the model cannot be loaded."""
    server = Server(service, settings, listening, stop)
    _allow_files(2 * service.limits.connections + 100)
    # The event loop runs in another thread, because a notebook already has an event loop in this thread.
    with (contextlib.closing(server.loop), ThreadPoolExecutor(1) as threads, processes.kept_signals(),
          processes.handling_signals(server.interrupt)):
        if _RELOAD is not None and threading.current_thread() is threading.main_thread():
            signal.signal(_RELOAD, server.interrupt)            # nohup ignores this signal by default
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {_RELOAD})
        threads.submit(server.loop.run_until_complete, server.run()).result()


def _allow_files(count: int) -> None:
    """Raises the limit of open files and connections of this process to `count`, if the system allows it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not available on Windows
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
