"""A pytest plugin: several processes with pytest-xdist, a time limit for each test, signals for child processes."""

import contextlib
import faulthandler
import os
import signal
import threading

from ms_crf.base import processes

import pytest

PROCESSES = 2
#: Groups of test files by file name. One process runs all files of a group, because they share graphs or a server.
TOGETHER = {'test_crf.py': 'chain', 'test_forbidden.py': 'chain', 'test_nan.py': 'chain',
            'test_server_page.py': 'network server', 'test_network_served.py': 'network server',
            **dict.fromkeys(('test_tagger.py', 'test_sharing.py', 'test_graph_files.py', 'test_graph_operators.py'),
                            'exported graphs')}
LAST = 5.0                     # a stuck process ends after twice the limit plus these seconds
AGAIN = 30.0                   # seconds until a test that hangs in its cleanup is stopped again


def pytest_addoption(parser):
    parser.addini('test_seconds', 'seconds after which a test, its set-up or its teardown fails', default='600')


@pytest.hookimpl(tryfirst=True)                                  # before pytest-xdist reads its options
def pytest_cmdline_main(config):
    """Runs tests in several processes, unless the command line says otherwise or starts a debugger."""
    option = config.option
    if not config.pluginmanager.hasplugin('xdist') or hasattr(config, 'workerinput') or option.usepdb or option.tx:
        return
    if option.numprocesses is None:
        option.numprocesses = PROCESSES
    if option.numprocesses and option.dist == 'no':
        option.dist, option.loadscopereorder = 'loadfile', False         # keep the order of conftest.py
    if option.maxworkerrestart is None:
        option.maxworkerrestart = '0'                            # a new process would repeat the crashed test


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Assigns whole files to a process, and all files of a group to the same process."""
    if config.option.dist != 'loadfile':
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return TOGETHER.get(file.rpartition('/')[2], file)

    return ByGroup(config, log)


def pytest_configure(config):
    config.pluginmanager.register(Watchdog(float(config.getini('test_seconds'))))


def children():
    """Process ids of the child processes of this thread; empty if the system has no /proc."""
    try:
        with open(f'/proc/self/task/{threading.get_native_id()}/children') as file:
            return {int(word) for word in file.read().split()}
    except OSError:
        return set()


class Watchdog:
    """Fails a test that hangs, with its name and the line it waits in, and ends the processes that the test started.

    A test that cannot be interrupted, because it hangs in compiled code, ends its process: pytest-xdist then names the
    test, and without pytest-xdist the traces of all threads do.

    Args:
        seconds: limit for a test, for its set-up and for its teardown.
    """

    def __init__(self, seconds):
        self.seconds = seconds
        self.errors = os.dup(2)                                  # pytest redirects 2 while a test runs

    @contextlib.contextmanager
    def limit(self, item, phase):
        before = children()

        def fail(*_):
            for process in children() - before:                  # so that no cleanup waits for them
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            pytest.fail(f'{item.nodeid}: {phase} takes more than {self.seconds:g} s')

        faulthandler.dump_traceback_later(2 * self.seconds + LAST, exit=True, file=self.errors)
        interruptible = hasattr(signal, 'setitimer') and threading.current_thread() is threading.main_thread()
        if interruptible:
            former = signal.signal(signal.SIGALRM, fail)
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)
        try:
            yield
        finally:
            if interruptible:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, former)
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        with self.limit(item, 'its set-up'):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        with self.limit(item, 'the test'):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        with self.limit(item, 'its teardown'):
            return (yield)

    def pytest_enter_pdb(self):
        """Turns off the limit in the debugger."""
        if hasattr(signal, 'setitimer'):
            signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope='session', autouse=True)
def signals_reach_processes():
    """Replaces ignored signals by handlers that do nothing, so that child processes react to the signals.

    Child processes inherit ignored signals, such as SIGINT in a background job and SIGHUP under nohup. They do not
    inherit handlers. With an empty handler the process of the tests survives the signal.
    """
    for number in processes.SIGNALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
