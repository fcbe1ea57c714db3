"""The life cycle of a server: start, reload of the model, killed and hanging processes, signals, shutdown."""

import http.client
import json
import os
import shutil
import signal
import socket
import threading

from ms_crf import Tagger
from ms_crf.cli import train

import pytest

from support.servers import SECONDS, Server, Watched, serving, start
from support.trainings import files

TOKENS = ['to', 'Xan', 'Yan']
QUICK = ('--splitter', 'blanks')       # starts faster than a splitter that needs a library


@pytest.fixture(scope='module')
def runs(corpora, tmp_path_factory):
    """Two runs that give the same sentence different confidences, and a list of the two confidences."""
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
    """A copy of the first run, which a test may replace."""
    shutil.copytree(runs[0], tmp_path / 'run')
    return tmp_path / 'run'


def replace(run, other):
    shutil.rmtree(run)
    shutil.copytree(other, run)


def confidence(answer):
    return answer['sentences'][0]['confidence']


def arrived(server):
    """The number of tokens in all requests that the server has read."""
    metrics = server.metrics()
    return metrics['ms_crf_tokens_total'] + metrics['ms_crf_queue_tokens']


@pytest.mark.slow
def test_life_a_model_is_swapped_while_requests_run_and_none_is_lost(runs, run):
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
        server.wait_for('run: the model was reloaded')
        later = server.tag({'tokens': TOKENS})
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
        assert (later[0], confidence(later[1])) == (200, said[1])
        for answers in found:                    # answers of the first model, then of the second, nothing else
            place = answers.index((200, said[1])) if (200, said[1]) in answers else len(answers)
            assert set(answers[:place]) == {(200, said[0])} and set(answers[place:]) <= {(200, said[1])}
        former.wait()


@pytest.mark.slow
def test_life_a_damaged_run_is_refused_and_the_model_that_was_there_goes_on(runs, run):
    with serving('--run', run, *QUICK) as server:
        (run / 'vocab.json').write_text('{')
        server.process.send_signal(signal.SIGHUP)
        line = server.wait_for('stays active')
        assert line.startswith(f'ms-crf serve: {run}/vocab.json: ') and line.endswith('; the old model stays active')
        status, answer = server.tag({'tokens': TOKENS})
        assert (status, confidence(answer)) == (200, runs[2][0])
        replace(run, runs[1])
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('the model was reloaded')
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][1]


@pytest.mark.slow
def test_life_a_run_that_is_damaged_from_the_start_is_named(run):
    (run / 'config.json').write_text('[]')
    process = start('--run', run, '--port', '0', *QUICK)
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (2, '')
    assert errors.startswith(f'ms-crf serve: {run}/config.json: ') and len(errors.splitlines()) == 1


@pytest.mark.slow
def test_life_a_port_that_is_taken(run):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        process = start('--run', run, '--port', port, *QUICK)
        assert process.communicate(timeout=SECONDS) == (
            '', f'ms-crf serve: --host 127.0.0.1 --port {port}: cannot listen on this address: Address already in '
                'use\n')
        assert process.returncode == 2


@pytest.mark.slow
def test_life_the_process_that_tags_is_started_again(runs, run):
    with serving('--run', run, *QUICK) as server:
        [number] = server.children()
        os.kill(number, signal.SIGKILL)
        server.wait_for('the model process has ended with status -9; a new process starts')
        server.wait_for('is served at')
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][0]
        assert server.metrics()['ms_crf_loads_total{result="ended"}'] == 1


@pytest.mark.slow
def test_life_requests_beyond_the_queue_are_told_to_come_again(runs, run):
    with serving('--run', run, *QUICK, '--max-tokens', '100', '--queue', '100') as server:
        [number] = server.children()
        os.kill(number, signal.SIGSTOP)          # the model process answers nothing until SIGCONT
        clients = [server.connect() for _ in range(3)]
        for count, client in enumerate(clients, 1):  # the first is tagged, the second waits, the third is refused
            client.request('POST', '/v1/tag', json.dumps({'sentences': [TOKENS * 30]}),
                           {'Content-Type': 'application/json'})
            while count < 3 and arrived(server) < 90 * count:
                pass
        refused = clients.pop()
        answer = refused.getresponse()
        assert (answer.status, answer.headers['Retry-After']) == (503, '1')
        assert 'the queue is full' in json.loads(answer.read())['error']
        refused.close()
        os.kill(number, signal.SIGCONT)
        for client in clients:
            answer = client.getresponse()
            assert answer.status == 200 and len(json.loads(answer.read())['sentences'][0]['tokens']) == 90
            client.close()


@pytest.mark.slow
def test_life_connections_beyond_their_number_are_told_to_come_again(run):
    with serving('--run', run, *QUICK, '--connections', '2') as server, server.socket(), server.socket():
        assert server.ask('GET', '/healthz')[0] == 200           # so both connections have been accepted
        status, headers, _ = server.ask('POST', '/v1/tag', '{"tokens": []}', Content_Type='application/json')
        assert (status, headers['Retry-After'], headers['Connection']) == (503, '1', 'close')


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_life_what_was_asked_before_the_end_is_answered(runs, run, number):
    """Requests that arrived before the signal are answered, later connections are refused, and the exit code is 0."""
    server = Server('--run', run, *QUICK)
    try:
        body = json.dumps({'sentences': [TOKENS * 30] * 500})
        clients = [server.connect() for _ in range(4)]
        for client in clients:
            client.request('POST', '/v1/tag', body, {'Content-Type': 'application/json'})
        while arrived(server) < 4 * 500 * 90:    # until all requests have been read
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


@pytest.mark.slow
def test_life_half_a_request_does_not_keep_the_server_from_its_end(run):
    server = Server('--run', run, *QUICK, '--drain', '1')
    try:
        with server.socket() as silent, server.socket() as half:
            half.sendall(b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                         b'Content-Length: 9\r\n\r\n{')
            assert server.ask('GET', '/healthz')[0] == 200
            assert server.stop() == (0, '')
            assert silent.recv(1) == b''
    finally:
        server.kill()


@pytest.mark.slow
def test_life_killed_it_leaves_no_process_behind_and_others_go_on(run):
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


@pytest.mark.slow
def test_life_open_to_others_it_asks_for_a_token_or_for_the_word_that_none_is_meant(run, tmp_path):
    (tmp_path / 'token').write_text('secret')
    process = start('--run', run, *QUICK, '--host', '0.0.0.0', '--port', '0')
    assert process.communicate(timeout=SECONDS) == (
        '', 'ms-crf serve: --host 0.0.0.0 can be reached from other machines and needs a token, got none; set '
            '--token-file FILE or MS_CRF_TOKEN, or use --no-token to answer all requests\n')
    assert process.returncode == 2
    for options, warns in ((['--no-token'], True), (['--token-file', tmp_path / 'token'], False)):
        with serving('--run', run, *QUICK, '--host', '0.0.0.0', *options) as server:
            warned = [line for line in server.said if 'warning: http://0.0.0.0:' in line]
            assert len(warned) == warns and len(server.said) == 1 + warns
            assert server.ask('GET', '/healthz', Host='example.org')[0] == 200


# Reloading the run

@pytest.mark.slow
def test_life_behind_nohup_a_signal_loads_the_run_again(runs, run):
    with serving('--run', run, *QUICK, before=['nohup']) as server:
        replace(run, runs[1])
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('the model was reloaded')
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][1]


@pytest.mark.slow
def test_life_whoever_has_the_token_loads_the_run_again(runs, run):
    """`POST /v1/reload` answers after the new model is active, or reports the error if the run is damaged."""
    key = {'Authorization': 'Bearer secret'}
    with serving('--run', run, *QUICK, env={'MS_CRF_TOKEN': 'secret'}) as server:
        assert server.ask('POST', '/v1/reload')[0] == 401
        assert server.ask('GET', '/v1/reload', **key)[0] == 405
        before = server.ask('GET', '/v1/model', **key)[1]['MS-CRF-Model']
        replace(run, runs[1])
        status, headers, body = server.ask('POST', '/v1/reload', **key)
        assert (status, json.loads(body)) == (200, {'status': 'loaded'}) and headers['MS-CRF-Model'] != before
        assert confidence(server.tag({'tokens': TOKENS}, **key)[1]) == runs[2][1]
        (run / 'vocab.json').write_text('{')
        status, _, body = server.ask('POST', '/v1/reload', **key)
        assert status == 500 and f'{run}/vocab.json: ' in json.loads(body)['error']
        assert confidence(server.tag({'tokens': TOKENS}, **key)[1]) == runs[2][1]
        described = json.loads(server.ask('GET', '/openapi.json')[2])['paths']
        assert {'200', '401', '500', '503'} == set(described['/v1/reload']['post']['responses'])
        server.wait_for('stays active')
        assert server.process.poll() is None


@pytest.mark.slow
def test_life_without_a_token_nobody_loads_the_run_again(run):
    with serving('--run', run, *QUICK) as server:
        status, _, body = server.ask('POST', '/v1/reload')
        assert status == 403 and 'needs a server with a token' in json.loads(body)['error']
        assert '/v1/reload' not in json.loads(server.ask('GET', '/openapi.json')[2])['paths']


# A model process that hangs

@pytest.mark.slow
def test_life_a_process_that_hangs_is_replaced(runs, run):
    with serving('--run', run, *QUICK, '--stall', '1') as server:
        [number] = server.children()
        stopped = Watched(number)
        os.kill(number, signal.SIGSTOP)
        status, answer = server.tag({'tokens': TOKENS})
        assert status == 503 and 'the model process has ended' in answer['error']
        stopped.wait()
        server.wait_for('the model process used no CPU time for 1 seconds although it had sentences to tag; it is '
                        'killed')
        server.wait_for('is served at')
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][0]


@pytest.mark.slow
def test_life_a_request_waits_no_longer_than_its_limit(runs, run):
    """A request that waits longer than `--timeout` gets status 503 and leaves the queue, so it is not tagged later."""
    with serving('--run', run, *QUICK, '--timeout', '1') as server:
        [number] = server.children()
        os.kill(number, signal.SIGSTOP)
        before = server.metrics()['ms_crf_sentences_total']
        with server.socket() as other:           # this request reaches the model process; the next request waits
            other.sendall(b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                          b'Content-Length: 17\r\n\r\n{"tokens": ["a"]}')
            server.until(lambda metrics: metrics['ms_crf_sentences_total'] == before + 1)
            status, headers, body = server.ask('POST', '/v1/tag', json.dumps({'tokens': TOKENS}),
                                               Content_Type='application/json')
        assert (status, headers['Retry-After']) == (503, '5')
        assert 'the request was not answered within 1 seconds' in json.loads(body)['error']
        server.until(lambda metrics: metrics['ms_crf_queue_tokens'] == 0)
        os.kill(number, signal.SIGCONT)
        assert confidence(server.tag({'tokens': TOKENS})[1]) == runs[2][0]
        assert server.metrics()['ms_crf_sentences_total'] == before + 2


@pytest.mark.slow
def test_life_sentences_of_a_client_that_has_left_are_not_tagged(run):
    with serving('--run', run, *QUICK) as server:
        [number] = server.children()
        os.kill(number, signal.SIGSTOP)
        request = (b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                   b'Content-Length: 17\r\n\r\n{"tokens": ["a"]}')
        with server.socket() as first:
            first.sendall(request)
            server.until(lambda metrics: metrics['ms_crf_sentences_total'] == 1)
            with server.socket() as second:
                second.sendall(request)
                server.until(lambda metrics: metrics['ms_crf_queue_tokens'] == 1)
            server.until(lambda metrics: metrics['ms_crf_queue_tokens'] == 0)
            os.kill(number, signal.SIGCONT)
            assert first.recv(1 << 16).startswith(b'HTTP/1.1 200 ')
        server.until(lambda metrics: metrics.get('ms_crf_requests_total{path="/v1/tag",status="499"}') == 1)
        assert server.metrics()['ms_crf_sentences_total'] == 1


@pytest.mark.slow
def test_life_a_stopped_process_does_not_keep_the_server_from_its_end(run):
    server = Server('--run', run, *QUICK, '--drain', '1')
    try:
        [number] = server.children()
        os.kill(number, signal.SIGSTOP)
        client = server.connect()
        client.request('POST', '/v1/tag', '{"tokens": ["a"]}', {'Content-Type': 'application/json'})
        server.until(lambda metrics: metrics['ms_crf_sentences_total'] == 1)
        assert server.stop() == (0, '')
        answer = client.getresponse()
        assert answer.status == 503 and 'the server stopped before' in json.loads(answer.read())['error']
        client.close()
    finally:
        server.kill()
