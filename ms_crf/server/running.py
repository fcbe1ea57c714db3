"""The server while it runs: its socket, the models that come and go, signals, its end."""

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
from ms_crf.server.child import lost, settle
from ms_crf.server.limits import Refused
from ms_crf.server.metrics import ENDED, LOADED, REFUSED
from ms_crf.server.model import Failed, Model
from ms_crf.server.process import WORK, Patience, Settings
from ms_crf.server.protocol import Protocol, watch

import uvicorn

LAST_ANSWERS = 2                       # seconds for the answers to requests that are cancelled at the end
LONGEST_PAUSE = 60                     # seconds between two attempts to load a model whose process has ended
_RELOAD: int | None = getattr(signal, 'SIGHUP', None)        # which Windows does not have
_LOOK = .5                             # seconds between two looks at the process that tags


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises OptionError if it can't."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise OptionError(f'{argument("host")} must be a name or an address of this machine, got {brief(host)}: '
                          f'{getattr(error, "strerror", None) or error}') from None
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:                                         # from here on clients wait, and are not refused
        return socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        raise OptionError(f'{argument("host")} {host} {argument("port")} {port}: can not be listened on: '
                          f'{os.strerror(error.errno or 0)}') from None


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f'http://[{host}]:{port}/' if ':' in host else f'http://{host}:{port}/'


class Running:
    """A server from its start to its end.

    Args:
        service: what is served.
        settings: of the process that tags.
        listening: the socket.
        stopping: ends the server when it is set.
    """

    def __init__(self, service: Service, settings: Settings, listening: socket.socket,
                 stopping: threading.Event) -> None:
        self.service, self.settings, self.listening, self.stopping = service, settings, listening, stopping
        self.fault: Failed | None = None         # why the first model can't be loaded
        self._tasks: set[asyncio.Future[Any]] = set()
        self._wish = asyncio.Event()             # for the run to be loaded again
        self._waiting: list[asyncio.Future[None]] = []           # requests to load the model again
        for name in ('uvicorn', 'asyncio'):      # what they log is said here, or of no interest
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
        """Serves until a signal comes or `stopping` is set; raises Failed if the first model can't be loaded."""
        for work in (self._models(), self._wait_for_stop(), watch(self.service.connections, self.service.limits)):
            self._keep(work)
        try:
            await self.server.serve([self.listening])
            if requests := list(self.server.server_state.tasks):         # cancelled after --drain; each is answered
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
        """Handles a signal, in another thread than the thread of the loop."""
        with contextlib.suppress(RuntimeError):                  # the loop is closed
            self.loop.call_soon_threadsafe(self._wish.set if number == _RELOAD else self.stop)

    def stop(self) -> None:
        """Takes no more connections, and ends when those that are there have their answers; at once if said twice."""
        self.server.force_exit = self.server.should_exit
        self.server.should_exit = True
        self._loaded(len(self._waiting), _ending())

    async def reload(self) -> None:
        """Loads the model again; raises Refused if that fails."""
        if self.server.should_exit:
            raise _ending()
        loaded: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(loaded)
        self._wish.set()
        await loaded

    def _loaded(self, count: int, error: Exception | None = None) -> None:
        """Ends the wait of the first requests to load the model again; it has failed if there is an error."""
        for future in self._waiting[:count]:
            settle(future, error)
        del self._waiting[:count]

    async def _models(self) -> None:
        """Loads the model, and again when that is wished for or its process has ended."""
        pause, first = .5, True
        while True:
            count = len(self._waiting)           # later requests may be about a later run
            try:
                await self._load()
                pause = .5
                self._loaded(count)
            except Failed as error:
                self.service.metrics.load(REFUSED)
                if first:
                    self.fault = error
                    self.stop()
                    return
                kept = '; the model that was there goes on' if self.service.model else ''
                self.service.say(f'{error}{kept}')
                self._loaded(count, Refused(500, f'{error}{kept}'))
                pause = min(2 * pause, LONGEST_PAUSE)
            first = False
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wish.wait(), None if self.service.model else pause)
            self._wish.clear()

    async def _load(self) -> None:
        """Puts a new model into the place of the one that serves, which tags what waits for it and ends."""
        service, old = self.service, self.service.model
        try:
            new = await Model.load(self.settings, service.limits, service.metrics, service.say)
        except OSError as error:                 # of the system, which starts no more processes
            raise Failed(one_line(f'{service.name} cannot be loaded: {error}')) from None
        try:
            await service.splitters.prepare(new.about.splitter)
        except asyncio.CancelledError:           # the server is to end
            await new.process.close()
            raise
        if old is None:
            # What is there now stays: a collection of garbage that went through it would hold all requests up.
            gc.collect()
            gc.freeze()
            service.say(f'{service.name} is served at {url_of(self.listening)}')
        else:
            service.say(f'{service.name} is loaded again')
        service.model = new
        service.metrics.load(LOADED)
        service.processes.update(server=os.getpid(), tagger=new.process.pid)
        self._keep(self._look_after(new))
        if old is not None:
            self._keep(old.close())

    async def _wait_for_stop(self) -> None:
        while not self.stopping.is_set():
            await asyncio.sleep(_LOOK)
        self.stop()

    def _keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Does something beside; a task that nobody holds may be forgotten in its midst."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_after(self, model: Model) -> None:
        """Waits for the end of a process, which is killed when it hangs; if its model serves, has it loaded again."""
        process, patience = model.process, Patience(self.service.limits.stall)
        before = self.loop.time()
        while not process.ended.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.ended.wait(), _LOOK)
            elapsed, before = self.loop.time() - before, self.loop.time()
            if fault := patience.fault(process, elapsed):
                self.service.say(f'the process that tags {fault}; it is killed')
                process.kill()
                await process.ended.wait()
        if self.service.model is model and not self.server.should_exit:
            self.service.model = None
            status = await process.close()
            model.queue.fail(lost(*WORK))
            self.service.metrics.load(ENDED)
            self.service.say(f'the process that tags has ended with status {status}; another one is started')
            self._wish.set()


def _ending() -> Refused:
    return Refused(503, 'the server is ending and loads no model', None, True)


def run(service: Service, settings: Settings, listening: socket.socket, stop: threading.Event) -> None:
    """Serves until a signal comes or `stop` is set; raises Failed if the model can't be loaded."""
    running = Running(service, settings, listening, stop)
    _allow_files(2 * service.limits.connections + 100)
    # In a thread of its own, as a notebook has an event loop in this thread.
    with (contextlib.closing(running.loop), ThreadPoolExecutor(1) as threads, processes.kept_signals(),
          processes.handling_signals(running.interrupt)):
        if _RELOAD is not None and threading.current_thread() is threading.main_thread():
            signal.signal(_RELOAD, running.interrupt)            # also under nohup, where this signal is ignored
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {_RELOAD})
        threads.submit(running.loop.run_until_complete, running.run()).result()


def _allow_files(count: int) -> None:
    """Lets this process have so many files and connections open, if the system does."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # which Windows does not have
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
