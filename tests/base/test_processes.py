"""Child processes of commands that run in a folder whose Python files have the names of modules.

None of these files may be imported: the current folder must not be on the import path of a child process.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from ms_crf.base import processes
from ms_crf.native import library

import psutil
import pytest

from support.paths import ROOT
from support.trainings import SMALL, files

PACKAGES = ('google', 'jinja2', 'mindspore', 'ms_crf', 'numpy', 'psutil', 'pyarrow', 'ray', 'safetensors', 'scipy',
            'starlette', 'tokenizers', 'tqdm', 'uvicorn', 'ziglang')
#: A hostile module. It records its name and the command line of its process, without importing anything.
HOSTILE = """
with open('/proc/self/cmdline', 'rb') as file:
    line = file.read()
with open({mark!r}, 'ab') as file:
    file.write({name!r} + b': ' + line + b'\\n')
raise RuntimeError('a file of the current folder was executed')
"""


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """The command line of `ms-crf` as pip installs it: a script that does not search the current folder."""
    script = tmp_path_factory.mktemp('bin') / 'ms-crf'
    script.write_text('import sys\nfrom ms_crf.cli.main import main\nsys.exit(main())\n')
    return [sys.executable, str(script)]


@pytest.fixture
def hostile(tmp_path):
    """A function that runs a command line in a folder of hostile files and checks that no hostile file is executed."""
    if not Path('/proc/self/cmdline').exists():
        pytest.skip('the hostile files read /proc')
    folder, mark = tmp_path / 'hostile', tmp_path / 'executed'
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *PACKAGES} - {'__main__', 'builtins'}:
        (folder / f'{name}.py').write_text(HOSTILE.format(mark=str(mark), name=name.encode()))

    def run(*command, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith('PYTHON')}
        environment |= {'PYTHONPATH': str(ROOT), **variables}
        result = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True,
                                timeout=200, stdin=subprocess.DEVNULL)
        assert not mark.exists(), mark.read_bytes().replace(b'\0', b' ').decode()
        return result
    return run


def test_processes_the_hostile_files_are_executed_by_a_plain_child_process(hostile):
    """A plain child process does execute the hostile files, so the tests below can fail."""
    with pytest.raises(AssertionError, match='json: '):
        hostile(sys.executable, '-c', 'import json')
    with pytest.raises(AssertionError, match='json: '):
        hostile(sys.executable, '-m', 'json')


SHOW = 'import json, os; print(json.dumps([sys.path, sys.argv, os.environ.get("PYTHONPATH")]))'


@pytest.mark.parametrize('safe', [True, False], ids=['PYTHONSAFEPATH', 'Python 3.10'])
def test_processes_the_import_path_of_a_child_process(hostile, tmp_path, safe, monkeypatch):
    """The import path is the same with PYTHONSAFEPATH (Python 3.11 and later) and without it (Python 3.10)."""
    own = str(tmp_path / 'own')
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join(['', own, '', processes.PACKAGES]))
    variables = processes.environment(PYTHONSAFEPATH='1' if safe else '')
    result = hostile(*processes.command(SHOW, 'one', '-two'), **variables)
    path, arguments, inherited = json.loads(result.stdout)
    assert path[:2] == [processes.PACKAGES, own] and inherited == os.pathsep.join(path[:2])
    assert arguments == ['-c', 'one', '-two']
    assert '' not in path and str(tmp_path / 'hostile') not in path

    (tmp_path / 'own').mkdir()
    (tmp_path / 'own' / 'shown.py').write_text('import sys; assert __name__ == "__main__"\n' + SHOW)
    result = hostile(*processes.module_command('shown', 'one'), **variables)
    path, arguments, _ = json.loads(result.stdout)
    assert arguments == [str(tmp_path / 'own' / 'shown.py'), 'one'] and path[:2] == [processes.PACKAGES, own]


def test_processes_no_module_starts_python_in_another_way():
    """Only `processes` starts Python: no other module uses `sys.executable` or `multiprocessing`."""
    for path in (ROOT / 'ms_crf').rglob('*.py'):
        if path.name != 'processes.py':
            assert not re.search(r'sys\.executable|import multiprocessing', path.read_text(encoding='utf-8')), path


@pytest.mark.slow
@pytest.mark.skipif(library.find().path is None, reason=library.find().reason)
@pytest.mark.parametrize('package', [False, True], ids=['compiler', 'ziglang'])
def test_processes_the_operators_are_compiled(hostile, tmp_path, package):
    """No hostile file runs when the operators are compiled, with a system compiler or with the package ziglang.

    A fake ziglang module that calls the system compiler stands in for the package.
    """
    variables = {'XDG_CACHE_HOME': str(tmp_path / 'cache')}
    if package:
        (tmp_path / 'modules').mkdir()
        (tmp_path / 'modules' / 'ziglang.py').write_text(
            f'import os, sys\nos.environ["PATH"] = {os.environ["PATH"]!r}\n'
            f'command = {next(library.compilers())!r}\nos.execvp(command[0], [*command, *sys.argv[2:]])\n')
        variables |= {'PATH': str(tmp_path / 'modules'),
                      'PYTHONPATH': os.pathsep.join([str(ROOT), str(tmp_path / 'modules')])}
    program = tmp_path / 'program.py'
    program.write_text('from ms_crf.native import library\nprint(library.find().reason)\n')
    result = hostile(sys.executable, program, **variables)
    assert (result.stdout, result.stderr) == (f'compiled here, in {tmp_path}/cache/ms_crf\n', '')


@pytest.mark.slow
def test_processes_a_device_is_tried(hostile, tmp_path):
    program = tmp_path / 'program.py'
    program.write_text('import sys\nfrom ms_crf.base import environment\nfrom ms_crf.base.watchers import Lines\n'
                       'environment._DEVICE_FILES = {"Ascend": "/dev/davinci[0-9]*", "GPU": "/dev/null"}\n'
                       'environment._supported = lambda name: True\n'
                       'shown = Lines(lambda line: print(line, file=sys.stderr))\n'
                       'print(environment.choose_device("auto", shown))\n')
    result = hostile(sys.executable, program)
    assert result.stdout == 'CPU\n' and 'Unsupported device target GPU' in result.stderr


@pytest.mark.slow
def test_processes_the_server(hostile, installed, run, tmp_path):
    """The server executes no hostile file until it is ready; then the test stops it."""
    pytest.importorskip('uvicorn', reason="the server's libraries are missing: pip install -r requirements-serve.txt")
    program = tmp_path / 'program.py'
    program.write_text('import os, signal, subprocess, sys\n'
                       'with subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, text=True) as server:\n'
                       '    said = server.stderr.readline()\n'
                       '    server.send_signal(signal.SIGTERM)\n'
                       'print(said)\n')
    result = hostile(sys.executable, program, *installed, 'serve', '--run', run, '--port', '0')
    assert 'is served at http://' in result.stdout


@pytest.mark.slow
def test_processes_trainings_of_several_seeds(hostile, installed, corpora, tmp_path):
    result = hostile(*installed, 'train', *files(corpora), *SMALL, '--epochs', '1', '--seeds', '2', '--save',
                     tmp_path / 'runs')
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_processes_trainings_of_a_comparison(hostile, installed, corpora, tmp_path):
    result = hostile(*installed, 'compare', *files(corpora), '--models', 'hmm')
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_processes_workers_of_a_training(hostile, installed, corpora, tmp_path):
    result = hostile(*installed, 'train', *files(corpora), *SMALL, '--epochs', '1', '--workers', '2', '--save',
                     tmp_path / 'run')
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_processes_workers_of_ray(hostile, installed, run, tmp_path):
    pytest.importorskip('psutil')
    if library.importlib.util.find_spec('ray') is None:          # not imported here: the import changes sys.path
        pytest.skip('Ray is not installed')
    (tmp_path / 'in').mkdir()
    (tmp_path / 'in' / 'one.jsonl').write_text('{"id": 1, "text": "to Xan Yan of in"}\n')
    result = hostile(*installed, 'tag-many', '--run', run, '--input', tmp_path / 'in', '--output', tmp_path / 'out',
                     '--workers', '1')
    assert (result.returncode, result.stderr) == (0, '')
    assert json.loads((tmp_path / 'out' / 'one.jsonl').read_text())['id'] == 1


@pytest.mark.slow
@pytest.mark.parametrize('several', [['--seeds', '2', '--jobs', '2'], ['--workers', '2']], ids=['seeds', 'workers'])
def test_processes_child_processes_end_when_the_command_is_killed(corpora, tmp_path, several):
    """No child process survives a killed command, so the same command can be run again at once."""
    with subprocess.Popen([sys.executable, 'train.py', *files(corpora), *SMALL, '--epochs', '5000', '--patience', '0',
                           *several, '--save', str(tmp_path / 'run')], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as training:
        assert any('epoch   1' in line for line in training.stdout)
        children = psutil.Process(training.pid).children(recursive=True)
        assert len(children) >= 2
        training.kill()
        _, alive = psutil.wait_procs(children, timeout=60)
        for process in alive:
            process.kill()
    assert alive == []


OWN = """
import os
from ms_crf.base import environment, processes
environment.prepare("CPU")
print(os.environ["MS_DEV_HOST_BLOCKING_RUN"], processes.environment().get("MS_DEV_HOST_BLOCKING_RUN"))
"""


@pytest.mark.parametrize('given,shown', [({}, '1 None'), ({'MS_DEV_HOST_BLOCKING_RUN': '0'}, '0 0')])
def test_processes_environment_of_a_child_has_what_the_user_has_set_and_not_what_its_parent_has(given, shown):
    clean = {name: value for name, value in os.environ.items() if name != 'MS_DEV_HOST_BLOCKING_RUN'}
    done = subprocess.run([sys.executable, '-c', OWN], cwd=ROOT, env={**clean, **given}, capture_output=True, text=True)
    assert done.stdout == f'{shown}\n'


def test_processes_run_gives_a_child_no_standard_input():
    done = processes.run(processes.command('import sys; print(repr(sys.stdin.read()))'), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "''\n")


@pytest.mark.skipif(os.name != 'posix', reason='sessions are of POSIX')
def test_processes_start_gives_a_child_a_session_and_end_kills_it_with_its_children():
    program = ('import subprocess, sys, time\n'
               'subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])\n'
               'print("started", flush=True)\ntime.sleep(600)')
    with processes.start(processes.command(program), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == 'started\n'
        assert os.getsid(child.pid) == child.pid != os.getsid(0)
        own = {process for process in processes.descendants()
               if process.pid == child.pid or child.pid in {parent.pid for parent in process.parents()}}
        assert len(own) == 2
        processes.end(own, 0.1)
        assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in own)


#: functions of the standard library that start a process, by module
STARTS = {
    'subprocess': {'Popen', 'run', 'call', 'check_call', 'check_output', 'getoutput', 'getstatusoutput'},
    'asyncio': {'create_subprocess_exec', 'create_subprocess_shell'}, 'pty': {'fork', 'spawn'},
    'multiprocessing': {'Process', 'Pool', 'get_context'}, 'concurrent.futures': {'ProcessPoolExecutor'},
    'os': {'system', 'popen', 'fork', 'forkpty', 'posix_spawn', 'posix_spawnp', 'startfile',
           *(f'{call}{kind}' for call in ('exec', 'spawn') for kind in 'l le lp lpe v ve vp vpe'.split())}}


def starts(source):
    """The calls in Python source code that start a process with the standard library."""
    tree = ast.parse(source)
    names = {f'{module}.{name}' for module, functions in STARTS.items() for name in functions}
    names |= {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
              for alias in node.names if alias.name in STARTS.get(node.module, ())}
    return [call for node in ast.walk(tree) if isinstance(node, ast.Call) and (call := ast.unparse(node.func)) in names]


def test_processes_only_one_module_starts_child_processes():
    assert starts('subprocess.Popen([])\nprocesses.run([])\nrun()\nos.fork()') == ['subprocess.Popen', 'os.fork']
    assert starts('from subprocess import Popen, run\nPopen([])\nrun([])') == ['Popen', 'run']
    package = Path(processes.PACKAGES, 'ms_crf')
    found = {path.relative_to(package).as_posix(): starts(path.read_text(encoding='utf-8'))
             for path in sorted(package.rglob('*.py'))}
    assert len(found) > 100
    assert {name for name, calls in found.items() if calls} == {'base/processes.py'}
