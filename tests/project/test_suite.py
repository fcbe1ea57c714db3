"""The test suite itself: imports between test files, number of processes, hanging tests, ignored signals."""

import ast
import importlib.util
import os
import re
import runpy
import signal
import subprocess
import sys

import pytest

from support.paths import ROOT

pytestmark = pytest.mark.skipif(not hasattr(signal, 'setitimer'), reason='this system has no interval timer')
distributed = pytest.mark.skipif(importlib.util.find_spec('xdist') is None, reason='pytest-xdist is not installed')
#: A small test file, which the tests below run in a separate suite.
TESTS = """
import ctypes, os, signal, subprocess, sys, threading
import pytest

def test_{name}(request{fixture}):
    {statement}

def test_suite_of_the_other_kind():
    print('the other test has run')
"""


def pytest_of(tmp_path, statement, *options, name='something', fixture='', ignored=(), seconds=5):
    """Runs a statement as a test of a separate suite, in a process that ignores the signals `ignored`."""
    (tmp_path / 'conftest.py').write_text("pytest_plugins = ['support.suite']\n")
    (tmp_path / 'test_own.py').write_text(TESTS.format(statement=statement, name=name, fixture=fixture))
    (tmp_path / 'pytest.ini').write_text(f'[pytest]\naddopts = -p no:cacheprovider -rA\ntest_seconds = {seconds}\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith('PYTEST')}
    environment['PYTHONPATH'] = os.pathsep.join([str(ROOT), str(ROOT / 'tests')])

    def ignore():
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    return subprocess.run([sys.executable, '-m', 'pytest', *options], cwd=tmp_path, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, preexec_fn=ignore)


def test_suite_files_of_tests_import_no_other_file_of_tests():
    """No file in tests/ imports a test file or conftest; shared code belongs in tests/support."""
    folder = ROOT / 'tests'
    files = sorted(folder.rglob('*.py'))
    closed = {file.stem for file in files if file.name.startswith('test_')} | {'conftest'}
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text(encoding='utf-8'))))
        modules = {node.module or '' for node in nodes if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        used = sorted(name for name in modules if name.rpartition('.')[2] in closed)
        assert not used, f'{file.relative_to(folder)} imports {", ".join(used)}'


def test_suite_every_deliberate_fault_still_has_its_text_and_its_tests():
    """Each fault in `benchmarks/faults.py` matches its source text once and names existing tests."""
    faults = runpy.run_path(str(ROOT / 'benchmarks' / 'faults.py'))
    assert len(faults['FAULTS']) >= 37 and faults['checked']() == []


PROCESSES_OF_TESTS = 'print("processes:", getattr(request.config, "workerinput", {"workercount": 0})["workercount"])'


@pytest.mark.slow
@pytest.mark.parametrize('options,count', [
    pytest.param([], 2, marks=distributed), pytest.param(['-n', '1'], 1, marks=distributed),
    pytest.param(['-n', '0'], 0, marks=distributed), pytest.param(['-p', 'no:xdist'], 0),
    pytest.param(['--pdb'], 0)])
def test_suite_how_many_processes_run_the_tests(tmp_path, options, count):
    """Tests run in two processes if pytest-xdist is installed, unless the command line selects another number."""
    result = pytest_of(tmp_path, PROCESSES_OF_TESTS, *options, seconds=100)
    assert f'processes: {count}\n' in result.stdout and '2 passed' in result.stdout, result.stdout
    assert result.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize('options', [pytest.param(['-n', '1'], marks=distributed), ['-p', 'no:xdist']])
@pytest.mark.parametrize('fixture,phase', [('', 'the test'), (', hangs', 'its set-up')])
def test_suite_a_test_that_hangs_fails_with_its_name(tmp_path, options, fixture, phase):
    """A hanging test or fixture fails with the name of the test, and the next test still runs."""
    wait = 'with subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE) as process: process.stdout.read()'
    statement = f'{"pass" if fixture else wait}\n\n@pytest.fixture\ndef hangs():\n    {wait}'
    result = pytest_of(tmp_path, statement, *options, name='of_patience', fixture=fixture, seconds=1)
    assert f'test_own.py::test_of_patience: {phase} takes more than 1 s' in result.stdout, result.stdout
    assert result.returncode == 1 and '1 passed' in result.stdout


#: Waits forever for a lock that this thread already holds. It keeps the GIL, so no signal handler can run.
STUCK = 'lock, of = bytes(64), ctypes.PyDLL(None); of.pthread_mutex_lock(lock); of.pthread_mutex_lock(lock)'


@pytest.mark.slow
@distributed
def test_suite_a_test_that_hangs_in_compiled_code_is_named_by_xdist(tmp_path):
    result = pytest_of(tmp_path, STUCK, '-n', '1', name='of_patience', seconds=0.1)
    assert re.search("worker 'gw0' crashed while running 'test_own.py::test_of_patience'", result.stdout), result.stdout
    assert result.returncode != 0


@pytest.mark.slow
def test_suite_a_test_that_hangs_in_compiled_code_is_named_by_its_traces(tmp_path):
    result = pytest_of(tmp_path, STUCK, '-p', 'no:xdist', name='of_patience', seconds=0.1)
    assert 'test_own.py", line 6 in test_of_patience\n' in result.stdout, result.stdout
    assert result.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize('options', [pytest.param(['-n', '1'], marks=distributed), ['-p', 'no:xdist']])
def test_suite_processes_of_tests_hear_signals_that_the_tests_ignore(tmp_path, options):
    """A signal that the test process ignores, as under nohup or in a background job, still ends child processes.

    The tests themselves continue when the signal arrives.
    """
    statement = ('for name in ("INT", "TERM", "HUP"): number = getattr(signal, f"SIG{name}"); '
                 'os.kill(os.getpid(), number); '
                 'assert subprocess.run(["sh", "-c", f"kill -{name} $$"]).returncode == -number')
    result = pytest_of(tmp_path, statement, *options, seconds=100,
                       ignored=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    assert '2 passed' in result.stdout, result.stdout
