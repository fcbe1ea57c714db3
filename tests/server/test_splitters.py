"""Separate processes split raw text: if they hang or die, the server still answers, and short text does not wait."""

import json
import os
import signal
import threading

from ms_crf.cli import train
from ms_crf.server.limits import Limits, RequestError
from ms_crf.server.reading import TagRequest, prepare_request
from ms_crf.server.schema import TEXT, TEXTS
from ms_crf.server.splitters import SHORT, WAITING
from ms_crf.text.splitting import splitter_named

import pytest

from support.servers import SECONDS, Server, Watched, rest_of, serving
from support.trainings import files

LONG = 'to Xan\n' + ' ' * 150_000 + 'in'       # so long that the body arrives in several parts
PLAIN = ('--splitter', 'blanks')


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('split') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


def sent(server, text):
    """A connection on which a request with raw text has been sent."""
    body = json.dumps({'text': text}).encode()
    connection = server.socket()
    connection.sendall(b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                       b'Connection: close\r\nContent-Length: %d\r\n\r\n%b' % (len(body), body))
    return connection


def splitter_of(server, text):
    """The id of the new process that the server started to split this text."""
    before = server.children()
    assert server.tag({'text': text})[0] == 200
    [number] = set(server.children()) - set(before)
    return number


def answered(connection):
    """The status code and the JSON of an answer."""
    with connection:
        head, _, body = rest_of(connection).partition(b'\r\n\r\n')
    return int(head.split()[1]), json.loads(body)


@pytest.mark.slow
def test_splitters_while_long_text_is_split_others_are_answered_and_its_limit_holds(run):
    """A splitter process stopped by a signal stands in for a library call that never returns."""
    with serving('--run', run, *PLAIN, '--timeout', '4') as server:
        number = splitter_of(server, LONG)
        stopped = Watched(number)
        os.kill(number, signal.SIGSTOP)
        connection = sent(server, LONG)
        for _ in range(3):
            assert server.ask('GET', '/healthz')[0] == server.ask('GET', '/readyz')[0] == 200
            assert server.tag({'text': 'to Xan'})[0] == server.tag({'tokens': ['Xan']})[0] == 200
        status, answer = answered(connection)
        assert status == 503 and 'the request was not answered within 4 seconds' in answer['error']
        stopped.wait()
        assert server.tag({'text': LONG})[0] == 200              # a new process splits this text


@pytest.mark.slow
@pytest.mark.parametrize('text', ['to Xan', LONG], ids=['short', 'long'])
def test_splitters_the_process_of_a_client_that_has_left_is_killed(run, text):
    with serving('--run', run, *PLAIN) as server:
        number = splitter_of(server, text)
        stopped = Watched(number)
        os.kill(number, signal.SIGSTOP)
        sent(server, text).close()
        stopped.wait()
        assert server.tag({'text': text})[0] == 200


@pytest.mark.slow
def test_splitters_text_of_a_client_that_has_left_is_not_split(run):
    """A waiting text leaves the queue as soon as its client disconnects, which makes room for another text."""
    with serving('--run', run, *PLAIN) as server:
        number = splitter_of(server, LONG)
        os.kill(number, signal.SIGSTOP)
        first, others = sent(server, LONG), [sent(server, LONG) for _ in range(WAITING + 1)]
        refused = json.loads(server.ask('POST', '/v1/tag', json.dumps({'text': LONG}),
                                        Content_Type='application/json')[2])
        assert 'too many long texts wait' in refused['error']
        for connection in others:
            connection.close()
        left = 'ms_crf_requests_total{path="/v1/tag",status="499"}'
        server.until(lambda metrics: metrics.get(left, 0) >= WAITING)
        last = sent(server, LONG)
        os.kill(number, signal.SIGCONT)
        assert answered(first)[0] == answered(last)[0] == 200


@pytest.mark.slow
def test_splitters_a_process_that_was_killed_is_replaced(run):
    with serving('--run', run, *PLAIN) as server:
        number = splitter_of(server, LONG)
        gone = Watched(number)
        os.kill(number, signal.SIGKILL)
        gone.wait()
        statuses = [server.tag({'text': LONG})[0] for _ in range(2)]
        assert statuses in ([200, 200], [503, 200])              # 503 if the server had not noticed the death yet
        number = splitter_of(server, 'to Xan')
        os.kill(number, signal.SIGSTOP)
        connection = sent(server, 'to Xan')
        server.until(lambda metrics: metrics['ms_crf_connections'] > 1)
        os.kill(number, signal.SIGKILL)
        status, answer = answered(connection)
        # The status is 200 if the process was gone before the server sent it the text.
        assert status == 200 or 'the splitter process has ended' in answer['error']
        assert server.tag({'text': 'to Xan'})[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL])
def test_splitters_the_processes_end_with_the_server(run, number):
    """The splitter processes end with the server, even while a library spends a long time on a text."""
    pytest.importorskip('spacy')
    server = Server('--run', run, '--splitter', 'spacy-en', '--drain', '1', '--timeout', '3')
    try:
        connections = [sent(server, text) for text in ('(' * 199_000, 'to Xan')]
        assert answered(connections[1])[0] == 200                # so the first text has arrived, too
        processes = [Watched(child) for child in server.children()]
        assert len(processes) >= 2
        if number == signal.SIGTERM:
            assert server.stop() == (0, '')
        else:
            server.kill()
        for process in processes:
            process.wait()
        connections[0].close()
    finally:
        server.kill()


@pytest.mark.slow
def test_splitters_many_clients_get_their_own_answers(run):
    """Each of many concurrent clients gets the tokens of its own text, even if other clients disconnect early.

    The expected tokens come from `prepare_request` in this process.
    """
    texts = [f'to Xan{number}\nin Yel' + ' ' * (0 if number % 3 else SHORT) for number in range(30)]
    with serving('--run', run, *PLAIN) as server:
        expected, answers = [], {}
        for text in texts:
            request = TagRequest(TEXT, text, None, 0, None)
            items = prepare_request(request, lambda: splitter_named('blanks'), Limits()).items
            expected.append([item.tokens for item in items])

        def ask(number):
            sent(server, texts[-number]).close()
            answers[number] = answered(sent(server, texts[number]))

        threads = [threading.Thread(target=ask, args=[number]) for number in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        for number, tokens in enumerate(expected):
            status, answer = answers[number]
            assert status == 200 and [record['tokens'] for record in answer['sentences']] == tokens


@pytest.mark.slow
def test_splitters_limits_hold_for_raw_text(run):
    with serving('--run', run, '--splitter', 'blanks', '--max-sentences', '3') as server:
        for record in ({'text': 'a\n' * 4}, {'texts': ['a'] * 4}, {'text': 'a\n' * SHORT}):
            status, answer = server.tag(record)
            assert status == 413 and answer['error'].startswith('expected at most 3 sentences, got ')
        assert len(server.tag({'texts': ['a', '', 'b\nc']})[1]['texts']) == 3


def test_splitters_a_request_without_raw_text_needs_no_splitter():
    limits = Limits(max_tokens=1)
    request = TagRequest('tokens', ['a'], None, 0, None)
    assert [item.tokens for item in prepare_request(request, None, limits).items] == [['a']]
    with pytest.raises(RequestError):
        prepare_request(TagRequest('tokens', ['a', 'b'], None, 0, None), None, limits)
    assert prepare_request(TagRequest(TEXTS, [], None, 0, None), lambda: splitter_named('blanks'), limits).sizes == []
