"""The server while it runs: its socket, the models that come and go, signals, its end."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ms_crf.base import processes
from ms_crf.base.errors import OptionError, argument, brief, one_line
from ms_crf.server.application import Service, application
from ms_crf.server.limits import Refused
from ms_crf.server.metrics import ENDED, LOADED, REFUSED
from ms_crf.server.model import Model
from ms_crf.server.process import Failed, Patience, lost
from ms_crf.server.protocol import Protocol, watch
from ms_crf.server.worker import Settings

import uvicorn

LAST_ANSWERS = 2                       # seconds for the answers to requests that are cancelled at the end
LONGEST_PAUSE = 60                     # seconds between two attempts to load a model whose process has ended
_LOOK = .5                             # seconds between two looks at the process that tags


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises OptionError if it can't."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM,
                                                         flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise OptionError(f'{argument("host")} must be a name or an address of this machine, got {brief(host)}: '
                          f'{getattr(error, "strerror", None) or error}') from None
    made = socket.socket(family, kind)
    try:
        if os.name == 'posix':
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(1024)                        # from here on clients wait, and are not refused
    except OSError as error:
        made.close()
        raise OptionError(f'{argument("host")} {host} {argument("port")} {port}: can not be listened on: '
                          f'{error.strerror}') from None
    return made


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f'http://[{host}]:{port}/' if ':' in host else f'http://{host}:{port}/'


class _Server(uvicorn.Server):
    """uvicorn's, without its handlers of signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Running:
    """A server from its start to its end.

    Args:
        service: what is served.
        settings: of the process that tags.
        listening: the socket.
    """

    def __init__(self, service: Service, settings: Settings, listening: socket.socket) -> None:
        self.service, self.settings, self.listening = service, settings, listening
        self.loop: asyncio.AbstractEventLoop | None = None       # that it runs in
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
        self.server = _Server(config)
        service.connections = self.server.server_state.connections
        service.reload = self.reload

    async def run(self) -> None:
        """Serves until a signal comes; raises Failed if the first model can't be loaded."""
        loop = self.loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            self._listen(loop)
        tasks = [loop.create_task(self._models()), loop.create_task(self._watch_process()),
                 loop.create_task(watch(self.service.connections, self.service.limits))]
        try:
            await self.server.serve([self.listening])
            if requests := list(self.server.server_state.tasks):         # cancelled after --drain; each is answered
                await asyncio.wait(requests, timeout=LAST_ANSWERS)
        finally:
            left = [*tasks, *self._tasks]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            if self.service.model is not None:
                await self.service.model.process.close()
            await self.service.splitters.close()
        if self.fault is not None:
            raise self.fault

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sets the handlers of signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.stop)
        if hasattr(signal, 'SIGHUP'):            # also under nohup, where the command ignores and blocks this signal
            loop.add_signal_handler(signal.SIGHUP, self._wish.set)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def stop(self) -> None:
        """Takes no more connections, and ends when those that are there have their answers; at once if said twice."""
        self.server.force_exit = self.server.should_exit
        self.server.should_exit = True
        self._loaded(len(self._waiting), _ending())

    async def reload(self) -> None:
        """Loads the model again; raises Refused if that fails."""
        if self.server.should_exit:
            raise _ending()
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(loaded)
        self._wish.set()
        await loaded

    def _loaded(self, count: int, error: Exception | None = None) -> None:
        """Ends the wait of the first requests to load the model again; it has failed if there is an error."""
        ended, self._waiting = self._waiting[:count], self._waiting[count:]
        for future in ended:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    async def _models(self) -> None:
        """Loads the model, and again when that is wished for or its process has ended."""
        pause, first = 1, True
        while True:
            count = len(self._waiting)           # later requests may be about a later run
            try:
                await self._load()
                pause = 1
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
            first = False
            if self.service.model is None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wish.wait(), pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                await self._wish.wait()
            self._wish.clear()

    async def _load(self) -> None:
        """Puts a new model into the place of the one that serves, which tags what waits for it and ends."""
        service, old = self.service, self.service.model
        try:
            new = await Model.load(self.settings, service.limits, service.metrics, service.say)
        except Failed:
            raise
        except (OSError, ValueError) as error:   # of the system, which starts no more processes, or of what one says
            raise Failed(one_line(f'{service.name} can not be loaded: {error}')) from None
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

    async def _watch_process(self) -> None:
        """Kills the process that tags when it hangs."""
        process, patience, before = None, Patience(0), asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(_LOOK)
            elapsed = asyncio.get_running_loop().time() - before
            before += elapsed
            if self.service.model is None:
                continue
            if process is not self.service.model.process:
                process, patience = self.service.model.process, Patience(self.service.limits.stall)
            if fault := patience.fault(process, elapsed):
                self.service.say(f'the process that tags {fault}; it is killed')
                process.kill()
                process = None

    def _keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Does something beside; a task that nobody holds may be forgotten in its midst."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_after(self, model: Model) -> None:
        """Waits for the end of a process; if its model is still in use, has it loaded again."""
        await model.process.ended.wait()
        if self.service.model is model and not self.server.should_exit:
            self.service.model = None
            status = await model.process.close()
            model.queue.fail(lost())
            self.service.metrics.load(ENDED)
            self.service.say(f'the process that tags has ended with status {status}; another one is started')
            self._wish.set()


def _ending() -> Refused:
    return Refused(503, 'the server is ending and loads no model', None, True)


def run(service: Service, settings: Settings, listening: socket.socket) -> None:
    """Serves until a signal comes; raises Failed if the model can't be loaded."""
    running = Running(service, settings, listening)
    _allow_files(2 * service.limits.connections + 100)
    try:
        asyncio.get_running_loop()
    except RuntimeError:                         # there is none
        with processes.kept_signals():
            _run(running)
        return

    def stop(*_: object) -> None:
        if running.loop is not None:
            running.loop.call_soon_threadsafe(running.stop)

    # In a notebook, which has an event loop of its own in this thread.
    with ThreadPoolExecutor(1) as threads, processes.handling_signals(stop):
        threads.submit(_run, running).result()


def _run(running: Running) -> None:
    """Runs a server in an event loop of its own."""
    loop = (uvicorn.Config(lambda: None, log_config=None).get_loop_factory() or asyncio.new_event_loop)()
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(running.run())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _allow_files(count: int) -> None:
    """Lets this process have so many files and connections open, if the system does."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # which Windows does not have
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
