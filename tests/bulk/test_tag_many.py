"""`ms-crf tag-many` with Ray on this machine and on a cluster of two nodes.

Every id must be in the output exactly once, with the tags of `Tagger`, even if workers are killed.
"""

import contextlib
import glob
import importlib.util
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ms_crf import Tagger
from ms_crf.cli import tag_many, train

import pytest

from support.paths import ROOT
from support.runs import make_run
from support.trainings import files

psutil = pytest.importorskip('psutil')
if importlib.util.find_spec('ray') is None:                      # not imported here: the import changes sys.path
    pytest.skip('Ray is not installed', allow_module_level=True)
pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='Ray has clusters on Linux')
TEXTS = ['to Xan Yan of in', 'on Xel Yel by', 'Xor Yor', 'at in of Xan Yor', 'by the way , Zoe']
SECONDS = 100                  # time limit of a command


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('counted') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return str(folder)


def environment(**others):
    return {**os.environ, 'PYTHONPATH': str(ROOT), 'RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER': '1', **others}


@pytest.fixture(scope='module')
def cluster():
    """A cluster of two nodes on this machine, started with `ray start`: its address and environment variables."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{free.getsockname()[1]}'
    folder = tempfile.mkdtemp(prefix='nodes-', dir='/tmp')       # paths of sockets must be short
    known = environment(RAY_AUTH_MODE='token', RAY_AUTH_TOKEN=secrets.token_hex(16))
    nodes = []
    try:
        for place in (['--head', f'--port={address.split(":")[1]}', f'--temp-dir={folder}',
                       '--include-dashboard=false'], [f'--address={address}']):
            node = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), 'ray'), 'start', '--block', *place,
                                     '--num-cpus=1', '--object-store-memory=80000000', '--disable-usage-stats'],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=known, cwd='/')
            nodes.append(node)
            said = ''
            for line in node.stdout:
                said += line
                if 'runtime started' in line:
                    break
            else:
                pytest.fail(said)
        yield address, known
    finally:
        for node in reversed(nodes):
            processes = psutil.Process(node.pid).children(recursive=True) if node.poll() is None else []
            node.terminate()
            node.communicate(timeout=SECONDS)
            for process in psutil.wait_procs(processes, 5)[1]:
                process.kill()
        subprocess.run(['rm', '-rf', folder], check=True, timeout=SECONDS)


def write_shards(folder, count, lines):
    """Writes shards of JSON lines, whose ids are numbers from 0; returns the folder."""
    folder.mkdir()
    for shard in range(count):
        rows = [{'id': shard * lines + line, 'text': TEXTS[(shard + line) % len(TEXTS)]} for line in range(lines)]
        (folder / f'{shard}.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return folder


def check(run, source, output):
    """Each output shard has the ids of its input in the same order, with the tags of `Tagger`."""
    expected = {text: sentence.tags for text, sentence in
                zip(TEXTS, Tagger.load(run).tag([text.split() for text in TEXTS]))}
    assert sorted(os.listdir(output)) == sorted(['.tag-many.json', *os.listdir(source)])
    for name in os.listdir(source):
        given, found = ([json.loads(line) for line in (folder / name).read_text().splitlines()]
                        for folder in (source, output))
        assert [(row['id'], row['text'], row['tags']) for row in found] == [
            (row['id'], row['text'], expected[row['text']]) for row in given], name


def command(*arguments):
    return [sys.executable, '-m', 'ms_crf', 'tag-many', *map(str, arguments)]


def call(*arguments, known=None, cwd=None):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=SECONDS,
                          env=known or environment(), cwd=cwd)


@pytest.mark.slow
def test_tag_many_a_cluster_of_two_nodes_tags_each_shard_once(run, cluster, tmp_path):
    address, known = cluster
    source = write_shards(tmp_path / 'in', 6, 1000)
    arguments = ['--run', run, '--input', source, '--output', tmp_path / 'out', '--workers', 2, '--address', address,
                 '--json', tmp_path / 'summary.json']
    result = call(*arguments, known=known)
    assert (result.returncode, result.stderr) == (0, '')
    summary = json.loads((tmp_path / 'summary.json').read_text())
    assert [summary[name] for name in ('shards', 'lines', 'skipped', 'faults', 'retries')] == [6, 6000, 0, [], 0]
    # The first worker may have tagged all shards before the second worker has started.
    assert sum(worker['lines'] for worker in summary['workers']) == 6000 and len(summary['workers']) in (1, 2)
    assert result.stdout.startswith(f'6 shards with 6,000 lines and {summary["entities"]:,} entities tagged; 0 shards ')
    check(run, source, tmp_path / 'out')

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / 'out').glob('*.jsonl')}
    (tmp_path / 'out' / '3.jsonl').unlink()
    result = call(*arguments, known=known)
    assert (result.returncode, result.stderr) == (0, '')
    summary = json.loads((tmp_path / 'summary.json').read_text())
    assert [summary[name] for name in ('shards', 'lines', 'skipped', 'faults', 'retries')] == [1, 1000, 5, [], 0]
    check(run, source, tmp_path / 'out')
    changed = [path.name for path, written in before.items() if path.stat().st_mtime_ns != written]
    assert changed == ['3.jsonl']


@pytest.mark.slow
def test_tag_many_a_shard_with_a_fault_is_one_line_and_the_others_are_there(run, cluster, tmp_path):
    address, known = cluster
    source = write_shards(tmp_path / 'in', 4, 10)
    (source / '2.jsonl').write_text('{"id": 1, "text": "to"}\n{"id": 2, "text"\n')
    result = call('--run', run, '--input', 'in/*.jsonl', '--output', 'out', '--workers', 3, '--address', address,
                  known=known, cwd=tmp_path)
    assert result.returncode == 2
    room, fault = result.stderr.splitlines()
    assert re.fullmatch('ms-crf tag-many: the cluster has free CPUs for [012] of 3 workers; more workers start when '
                        'CPUs become free', room)
    assert fault.startswith('ms-crf tag-many: in/2.jsonl:2: expected a JSON object: ')
    assert '3 shards with 30 lines' in result.stdout
    (source / '2.jsonl').unlink()
    check(run, source, tmp_path / 'out')


def worker_of(process, other_than):
    """A worker process of the command that is tagging a shard; None if only the excluded workers are tagging."""
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if child.name().startswith('ray::Worker.tag') and child not in other_than:
                return child
        except psutil.NoSuchProcess:
            continue
    return None


def started(*arguments, known=None):
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=known or environment(), start_new_session=True)


def in_the_middle(process, output, find=bool):
    """Waits until the command writes shards and `find(drafts)` returns a true value; returns this value."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        drafts = glob.glob(f'{output}/.*.draft')
        if drafts and (found := find(drafts)):
            return found
        with contextlib.suppress(subprocess.TimeoutExpired):     # a short wait leaves the CPU to the command
            process.wait(0.01)
    ended = process.poll() is not None
    pytest.fail(f'no worker tags: {process.communicate(timeout=SECONDS) if ended else "it takes too long"}')


@pytest.mark.slow
def test_tag_many_a_worker_killed_twice_loses_and_doubles_nothing(run, tmp_path):
    source = write_shards(tmp_path / 'in', 3, 12_000)
    process = started('--run', run, '--input', source, '--output', tmp_path / 'out', '--workers', 2, '--json',
                      tmp_path / 'summary.json')
    killed = []
    for _ in range(2):
        worker = in_the_middle(process, tmp_path / 'out', lambda _: worker_of(process, killed))
        worker.kill()
        psutil.wait_procs([worker])
        killed.append(worker)
    shown, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, '') and len(shown.splitlines()) == 1
    summary = json.loads((tmp_path / 'summary.json').read_text())
    assert [summary[name] for name in ('shards', 'lines', 'skipped', 'faults', 'retries')] == [3, 36_000, 0, [], 2]
    check(run, source, tmp_path / 'out')


def stopped(process, output, stop):
    """Stops the command while it tags; returns the number of finished shards, besides which no file may be left."""
    in_the_middle(process, output)
    stop()
    shown, errors = process.communicate(timeout=SECONDS)
    there = len(glob.glob(f'{output}/*.jsonl'))
    assert (process.returncode, shown) == (130, '') and there < 3
    assert errors == f'ms-crf tag-many: stopped; {there} of 3 shards are done; run the same command again to continue\n'
    assert len(os.listdir(output)) == there + 1                  # the shards and the folder's record file
    return there


@pytest.mark.slow
def test_tag_many_ctrl_c_leaves_whole_shards_and_no_process(run, tmp_path):
    source = write_shards(tmp_path / 'in', 3, 6_000)
    process = started('--run', run, '--input', source, '--output', tmp_path / 'out', '--workers', 1)
    children = set()

    def ctrl_c():
        children.update(psutil.Process(process.pid).children(recursive=True))
        os.killpg(process.pid, signal.SIGINT)    # a terminal also sends Ctrl-C to the whole process group

    stopped(process, tmp_path / 'out', ctrl_c)
    assert children and not psutil.wait_procs(children, 5)[1]


@pytest.mark.slow
def test_tag_many_a_command_that_was_stopped_goes_on_where_it_was(run, cluster, tmp_path):
    address, known = cluster
    source = write_shards(tmp_path / 'in', 3, 6_000)
    arguments = ['--run', run, '--input', source, '--output', tmp_path / 'out', '--workers', 1, '--address', address]
    process = started(*arguments, known=known)
    there = stopped(process, tmp_path / 'out', lambda: process.send_signal(signal.SIGTERM))
    result = call(*arguments, known=known)
    assert (result.returncode, result.stderr) == (0, '')
    assert f'; {there} shards skipped that existed already' in result.stdout
    check(run, source, tmp_path / 'out')


@pytest.mark.slow
def test_tag_many_a_network_tags_as_it_does_in_one_process(cluster, tmp_path):
    address, known = cluster
    run = str(make_run(tmp_path / 'run'))
    source = write_shards(tmp_path / 'in', 2, 10)
    result = call('--run', run, '--input', source, '--output', tmp_path / 'out', '--workers', 1, '--address', address,
                  '--device', 'CPU', known=known)
    assert (result.returncode, result.stderr) == (0, '')
    check(run, source, tmp_path / 'out')


KILLS = """
import os, signal, sys
if os.path.basename(sys.argv[0]) == 'default_worker.py':
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_tag_many_workers_that_die_while_they_load_are_not_started_for_ever(run, cluster, tmp_path):
    address, known = cluster
    (tmp_path / 'plugin.py').write_text(KILLS)
    source = write_shards(tmp_path / 'in', 1, 1)
    result = call('--run', run, '--input', source, '--output', tmp_path / 'out', '--workers', 1, '--address', address,
                  '--plugin', tmp_path / 'plugin.py', known=known)
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr.startswith('ms-crf tag-many: 5 workers died while they loaded the model: ')
    assert result.stderr.count('\n') == 1 and os.listdir(tmp_path / 'out') == ['.tag-many.json']


KILLS_LATER = """
import glob, os, signal, sys, threading

def watch():
    while not glob.glob(os.path.join(os.path.dirname(__file__), 'out', '.*.draft')):
        pass
    os.kill(os.getpid(), signal.SIGKILL)

if os.path.basename(sys.argv[0]) == 'default_worker.py':
    threading.Thread(target=watch, daemon=True).start()
"""


@pytest.mark.slow
def test_tag_many_a_shard_that_kills_its_workers_is_given_up(run, cluster, tmp_path):
    address, known = cluster
    (tmp_path / 'plugin.py').write_text(KILLS_LATER)
    write_shards(tmp_path / 'in', 1, 20_000)
    result = call('--run', run, '--input', 'in', '--output', 'out', '--workers', 1, '--address', address, '--plugin',
                  'plugin.py', known=known, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (
        2, 'ms-crf tag-many: in/0.jsonl: its worker died 5 times, perhaps from lack of memory; use fewer workers, or '
           'split the file\n')
    assert ' 1 skipped because of errors, 4 retried; ' in result.stdout
    assert os.listdir(tmp_path / 'out') == ['.tag-many.json']


# Options and folders that are refused before a worker starts

@pytest.fixture
def main(run, tmp_path, capfd):
    """Runs the command in this process on one shard with one line; returns exit code, output and errors."""
    write_shards(tmp_path / 'in', 1, 1)

    def call_main(*arguments, output='out'):
        capfd.readouterr()
        status = tag_many.main(['--run', run, '--input', str(tmp_path / 'in'), '--output', str(tmp_path / output),
                                *map(str, arguments)])
        return status, *capfd.readouterr()
    return call_main


@pytest.mark.parametrize('arguments,message', [
    (['--workers', '0'], '--workers must be at least 1, got 0'),
    (['--splitter', 'blanks'], '--splitter has no effect without --raw; omit it'),
    (['--engine', 'spark'], "argument --engine: invalid choice: 'spark' (choose from ray); see --help"),
    (['--input', 's3://bucket/a'], "--input must be file names that are valid on all machines, got 's3://bucket/a'"),
    (['--address', 'localhost'], "--address must be HOST:PORT or auto, got 'localhost'"),
    (['--address', 'ray://a:1'], "--address must be HOST:PORT or auto, got 'ray://a:1'"),
    (['--plugin', 'none.py'], "--plugin must be a Python file, got 'none.py', which is not a file")])
def test_tag_many_options_that_can_not_be(main, arguments, message):
    assert main(*arguments) == (2, '', f'ms-crf tag-many: {message}\n')


def test_tag_many_a_cluster_that_is_not_there(main):
    with socket.socket() as unheard:
        unheard.bind(('127.0.0.1', 0))           # bound, but not listening
        address = f'127.0.0.1:{unheard.getsockname()[1]}'
        assert main('--address', address) == (2, '', f'ms-crf tag-many: --address {address} does not answer: '
                                                     'Connection refused; start a cluster with: ray start --head\n')


def test_tag_many_without_ray_the_extra_is_named(main, monkeypatch):
    monkeypatch.setitem(sys.modules, 'ray', None)
    assert main() == (2, '', "ms-crf tag-many: tag-many needs Ray, which is not installed: pip install 'ms_crf[bulk]', "
                             'or pip install -r requirements-bulk.txt\n')


@pytest.mark.slow
def test_tag_many_a_folder_that_was_begun_otherwise_is_refused(main, tmp_path):
    (tmp_path / 'out').mkdir()
    done = tmp_path / 'out' / '0.jsonl'
    done.write_text('')
    status, shown, errors = main()
    assert (status, errors) == (0, '') and ' 1 shards skipped that existed already, ' in shown
    assert main('--confidence') == (2, '', f'ms-crf tag-many: --output {tmp_path}/out was started with confidence '
                                           'False, not True; use another folder\n')
    record = json.loads((tmp_path / 'out' / '.tag-many.json').read_text())
    (tmp_path / 'out' / '.tag-many.json').write_text(json.dumps({**record, 'model': 'other'}))
    assert main() == (2, '', f'ms-crf tag-many: --output {tmp_path}/out was started with another model; use another '
                             'folder\n')
    assert done.read_text() == ''
