"""From the start of a server to its end: models that are swapped, processes that are killed, signals."""

import http.client
import json
import os
import select
import shutil
import signal
import socket
import threading

from ms_crf import Tagger, train

import pytest

from conftest import files
from servers import SECONDS, Server, serving, start

TOKENS = ['to', 'Xan', 'Yan']
QUICK = ('--splitter', 'blanks')       # without the library of another splitter it starts sooner


@pytest.fixture(scope='module')
def runs(corpora, tmp_path_factory):
    """Two runs that are of different minds about the same sentence, and what each says of it."""
    folder = tmp_path_factory.mktemp('runs')
    said = []
    for name, add in (('one', '0.1'), ('two', '5')):
        assert train.main([*files(corpora), '--model', 'hmm', '--add', add, '--save', str(folder / name)]) == 0
        [tagged] = Tagger.load(folder / name).tag([TOKENS])
        said.append(round(tagged.confidence, 6))
    assert said[0] != said[1]
    return folder / 'one', folder / 'two', said


@pytest.fixture
def run(runs, tmp_path):
    """A copy of the first run, to be replaced."""
    shutil.copytree(runs[0], tmp_path / 'run')
    return tmp_path / 'run'


def replace(run, other):
    shutil.rmtree(run)
    shutil.copytree(other, run)


def confidence(answer):
    return answer['sentences'][0]['confidence']


class Watched:
    """A process that is not our own; `wait` waits for its end."""

    def __init__(self, number):
        self.descriptor = os.pidfd_open(number)

    def wait(self):
        assert select.select([self.descriptor], [], [], SECONDS)[0]
        os.close(self.descriptor)


def arrived(server):
    """How many tokens of requests the server has read."""
    metrics = server.metrics()
    return metrics['ms_crf_tokens_total'] + metrics['ms_crf_queue_tokens']


def test_a_model_is_swapped_while_requests_run_and_none_is_lost(runs, run):
    one, two, said = runs
    with serving('--run', run, *QUICK) as server:
        former = Watched(*server.children())
        found, stop = [[] for _ in range(4)], threading.Event()

        def ask(answers):
            connection = server.connect()
            while not stop.is_set() or len(answers) < 50:
                status, answer = server.tag({'tokens': TOKENS}, connection)
                answers.append((status, confidence(answer)))
            connection.close()

        threads = [threading.Thread(target=ask, args=[answers], daemon=True) for answers in found]
        for thread in threads:
            thread.start()
        replace(run, two)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('run is loaded again')
        later = server.tag({'tokens': TOKENS})
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
        assert (later[0], confidence(later[1])) == (200, said[1])
        for answers in found:                    # first the one, then the other, and nothing else
            place = answers.index((200, said[1])) if (200, said[1]) in answers else len(answers)
            assert set(answers[:place]) == {(200, said[0])} and set(answers[place:]) <= {(200, said[1])}
        former.wait()


def test_a_damaged_run_is_refused_and_the_model_that_was_there_goes_on(runs, run):
    with serving('--run', run, *QUICK) as server:
        (run / 'vocab.json').write_text('{')
        server.process.send_signal(signal.SIGHUP)
        line = server.wait_for('goes on')
        assert line.startswith(f'ms-crf serve: {run}/vocab.json: ') and line.endswith(
            '; the model that was there goes on')
        status, answer = server.tag({'tokens': TOKENS})
        assert (status, confidence(answer)) == (200, runs[2][0])
        replace(run, runs[1])
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('is loaded again')
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][1]


def test_a_run_that_is_damaged_from_the_start_is_named(run):
    (run / 'config.json').write_text('[]')
    process = start('--run', run, '--port', '0', *QUICK)
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (2, '')
    assert errors.startswith(f'ms-crf serve: {run}/config.json: ') and len(errors.splitlines()) == 1


def test_a_port_that_is_taken(run):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        process = start('--run', run, '--port', port, *QUICK)
        assert process.communicate(timeout=SECONDS) == (
            '', f'ms-crf serve: --host 127.0.0.1 --port {port}: can not be listened on: Address already in use\n')
        assert process.returncode == 2


def test_the_process_that_tags_is_started_again(runs, run):
    with serving('--run', run, *QUICK) as server:
        [number] = server.children()
        os.kill(number, signal.SIGKILL)
        server.wait_for('the process that tags has ended with status -9; another one is started')
        server.wait_for('is served at')
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][0]
        assert server.metrics()['ms_crf_loads_total{result="ended"}'] == 1


def test_requests_beyond_the_queue_are_told_to_come_again(runs, run):
    with serving('--run', run, *QUICK, '--max-tokens', '100', '--queue', '100') as server:
        [number] = server.children()
        os.kill(number, signal.SIGSTOP)          # so that it takes its time
        clients = [server.connect() for _ in range(3)]
        for count, client in enumerate(clients, 1):              # one with the tagger, one that waits, one too many
            client.request('POST', '/v1/tag', json.dumps({'sentences': [TOKENS * 30]}),
                           {'Content-Type': 'application/json'})
            while count < 3 and arrived(server) < 90 * count:
                pass
        refused = clients.pop()
        answer = refused.getresponse()
        assert (answer.status, answer.headers['Retry-After']) == (503, '1')
        assert 'expected room in the queue' in json.loads(answer.read())['error']
        refused.close()
        os.kill(number, signal.SIGCONT)
        for client in clients:
            answer = client.getresponse()
            assert answer.status == 200 and len(json.loads(answer.read())['sentences'][0]['tokens']) == 90
            client.close()


def test_connections_beyond_their_number_are_told_to_come_again(run):
    with serving('--run', run, *QUICK, '--connections', '2') as server, server.socket(), server.socket():
        assert server.ask('GET', '/healthz')[0] == 200           # so they have been accepted
        status, headers, _ = server.ask('POST', '/v1/tag', '{"tokens": []}', Content_Type='application/json')
        assert (status, headers['Retry-After'], headers['Connection']) == (503, '1', 'close')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_what_was_asked_before_the_end_is_answered(runs, run, number):
    """Clients whose requests have arrived get their answers, others find nobody; the status is 0."""
    server = Server('--run', run, *QUICK)
    try:
        body = json.dumps({'sentences': [TOKENS * 30] * 500})
        clients = [server.connect() for _ in range(4)]
        for client in clients:
            client.request('POST', '/v1/tag', body, {'Content-Type': 'application/json'})
        while arrived(server) < 4 * 500 * 90:    # they have been read
            pass
        server.process.send_signal(number)
        for client in clients:
            answer = client.getresponse()
            record = json.loads(answer.read())
            assert answer.status == 200 and len(record['sentences']) == 500
            client.close()
        assert server.process.wait(SECONDS) == 0
        with pytest.raises(ConnectionRefusedError):
            server.ask('GET', '/healthz')
        assert server.process.stderr.read() == ''
    finally:
        server.kill()


def test_half_a_request_does_not_keep_the_server_from_its_end(run):
    server = Server('--run', run, *QUICK, '--drain', '1')
    try:
        with server.socket() as silent, server.socket() as half:
            half.sendall(b'POST /v1/tag HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
                         b'Content-Length: 9\r\n\r\n{')
            assert server.ask('GET', '/healthz')[0] == 200
            assert server.stop() == (0, '')
            assert silent.recv(1) == b''
    finally:
        server.kill()


def test_killed_it_leaves_no_process_behind_and_others_go_on(run):
    with serving('--run', run, *QUICK) as other:
        server = Server('--run', run, *QUICK)
        tagger, connection = Watched(*server.children()), server.connect()
        connection.request('POST', '/v1/tag', '{"tokens"', {'Content-Type': 'application/json',
                                                             'Content-Length': '99'})
        server.kill()
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            connection.getresponse()
        connection.close()
        tagger.wait()
        assert other.tag({'tokens': TOKENS})[0] == 200


def test_open_to_others_without_a_token_it_warns(run, tmp_path):
    (tmp_path / 'token').write_text('secret')
    for options, warns in (((), True), (('--token-file', tmp_path / 'token'), False)):
        with serving('--run', run, *QUICK, '--host', '0.0.0.0', *options) as server:
            warned = [line for line in server.said if 'warning: whoever reaches http://0.0.0.0:' in line]
            assert len(warned) == warns and len(server.said) == 1 + warns
