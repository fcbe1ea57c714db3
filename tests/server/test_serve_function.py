"""`ms_crf.api.serve` called from a script, from another thread, and inside an event loop as in a notebook."""

import http.client
import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading

from ms_crf import Tagger
from ms_crf.api import serve
from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import Lines
from ms_crf.cli import train

import pytest

from support.paths import ROOT
from support.trainings import files

pytest.importorskip('uvicorn', reason="the server's libraries are missing: pip install -r requirements-serve.txt")

SECONDS = 60
SCRIPT = """
import asyncio, signal, sys
from ms_crf.api import serve
from ms_crf.base.watchers import Lines

def show(line):
    print(line, flush=True)

async def cell(**arguments):
    serve(**arguments)

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
arguments = dict(run=sys.argv[1], port=0, splitter='blanks', watcher=Lines(show))
{call}
assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
print('goes on')
"""


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('served') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize('call,number', [
    ('serve(**arguments)', signal.SIGTERM), ('serve(**arguments)', signal.SIGINT),
    ('asyncio.run(cell(**arguments))', signal.SIGINT)], ids=['SIGTERM', 'Ctrl-C', 'notebook'])
def test_serve_function_tags_until_it_is_interrupted_and_the_program_goes_on(run, call, number):
    with subprocess.Popen([sys.executable, '-c', SCRIPT.format(call=call), str(run)], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            line = process.stdout.readline()
            port = re.fullmatch(r'run is served at http://127\.0\.0\.1:(\d+)/\n', line)[1]
            connection = http.client.HTTPConnection('127.0.0.1', int(port), timeout=SECONDS)
            connection.request('POST', '/v1/tag', '{"tokens": ["to", "Xan"]}', {'Content-Type': 'application/json'})
            answer = json.loads(connection.getresponse().read())
            connection.close()
            assert answer['sentences'][0]['tags'] == Tagger.load(run).tag([['to', 'Xan']])[0].tags
            process.send_signal(number)
            assert process.communicate(timeout=SECONDS) == ('goes on\n', '') and process.returncode == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_serve_function_in_another_thread_ends_when_stop_is_set(run):
    stop, lines = threading.Event(), queue.Queue()
    arguments = {'run': run, 'port': 0, 'splitter': 'blanks', 'stop': stop, 'watcher': Lines(lines.put)}
    thread = threading.Thread(target=serve, kwargs=arguments, daemon=True)
    thread.start()
    try:
        port = int(re.fullmatch(r'run is served at http://127\.0\.0\.1:(\d+)/', lines.get(timeout=SECONDS))[1])
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
        connection.request('GET', '/healthz')
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        stop.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(('127.0.0.1', port), SECONDS)
    assert lines.empty()


@pytest.mark.parametrize('arguments,message', [
    ({'port': 70000}, 'port must be at most 65535, got 70000'),
    ({'max_tokens': 300_000}, 'queue must be at least max_tokens, 300,000, got 200,000'),
    ({'allow_origin': ['https://a/b']}, 'allow_origin must be * or an origin such as https://example.org, without a '
                                        "path, got 'https://a/b'"),
    ({'host': '203.0.113.9', 'port': 0}, 'host 203.0.113.9 port 0: cannot listen on this address: ')])
def test_serve_function_names_its_arguments_in_messages(run, arguments, message):
    with pytest.raises(OptionError) as error:
        serve(run=run, **arguments)
    assert str(error.value).startswith(message)


def test_serve_function_raises_what_the_process_that_tags_reports(run, tmp_path):
    with pytest.raises(OptionError, match='^plugin must be a Python file, got '):
        serve(run=run, port=0, plugin=tmp_path / 'none.py')
