"""The server's answers equal the results of `Tagger`, and invalid requests, clients and options are refused.

The model is a hidden Markov model, because it trains and loads in a moment.
"""

import json
import re
from contextlib import ExitStack

from ms_crf import Tagger
from ms_crf.cli import train

import pytest

from support.servers import Server, rest_of, serving, start
from support.trainings import files

SENTENCES = [['to', 'Xan', 'Yan', 'of'], [], ['Xel'], ['by', 'in', 'Xor', 'Yel', '<b>', '\U0001f600', 'a b']]
TEXT = 'to Xan Yan of.\r\n\r\nby <Xor> Yel \U0001f600 of Xan Yor.'
JSON = b'Content-Type: application/json\r\n'
TAG = b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\n' + JSON


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('served') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


@pytest.fixture(scope='module')
def server(run):
    made = Server('--run', run, '--slow', '3', '--max-body', '20000', '--max-sentences', '50', '--max-tokens', '400',
                  '--max-length', '100', '--queue', '400')
    yield made
    assert made.stop() == (0, '')


@pytest.fixture(scope='module')
def tagger(run):
    return Tagger.load(run)


def check(record, tokens, tagged):
    """Checks a record of an answer against the tagger's result; offsets must point into the record's own text."""
    assert (record['tokens'], record['tags']) == (tokens, tagged.tags)
    assert record['confidences'] == [round(value, 6) for value in tagged.confidences]
    assert record['confidence'] == round(tagged.confidence, 6)
    spans = [(entity['type'], entity['first'], entity['last'], entity['confidence']) for entity in record['entities']]
    assert spans == [(*span[:3], round(span.confidence, 6)) for span in tagged.spans]
    for entity in record['entities']:
        begin = entity['start'] - record.get('start', 0)
        assert record['text'][begin:begin + len(entity['text'])] == entity['text']


def test_answers_sentences_are_tagged_as_by_a_tagger(server, tagger):
    status, answer = server.tag({'sentences': SENTENCES})
    assert status == 200 and list(answer) == ['sentences']
    for record, tokens, tagged in zip(answer['sentences'], SENTENCES, tagger.tag(SENTENCES), strict=True):
        check(record, tokens, tagged)
        assert record['text'] == ' '.join(tokens)
    assert server.tag({'tokens': SENTENCES[0]}) == (200, {'sentences': answer['sentences'][:1]})
    assert server.tag({'tokens': []}) == (200, {'sentences': answer['sentences'][1:2]})
    assert server.tag({'sentences': []}) == (200, {'sentences': []})


def test_answers_raw_text_is_cut_and_tagged_as_by_a_tagger(server, tagger):
    pytest.importorskip('spacy')
    found = tagger.tag_text(TEXT)
    status, answer = server.tag({'text': TEXT})
    assert status == 200 and len(found) > 1
    for record, one in zip(answer['sentences'], found, strict=True):
        check(record, one.sentence.tokens, one.sentence)
        assert (record['start'], record['end']) == (one.start, one.end)
        assert record['offsets'] == [list(pair) for pair in one.offsets]
        assert record['text'] == TEXT[one.start:one.end]
    assert server.tag({'texts': [TEXT, '', ' \n', TEXT]}) == (
        200, {'texts': [answer, {'sentences': []}, {'sentences': []}, answer]})


def test_answers_a_request_may_name_a_splitter_and_do_without_confidences(server, tagger):
    status, answer = server.tag({'text': 'to Xan.', 'splitter': 'blanks', 'confidence': False})
    [tagged] = tagger.tag([['to', 'Xan.']], False)
    assert status == 200 and answer['sentences'][0]['tags'] == tagged.tags
    assert not {'confidences', 'confidence', 'alternatives'} & set(answer['sentences'][0])


def test_answers_halves_of_surrogate_pairs_come_back_as_they_were(server):
    status, answer = server.tag('{"tokens": ["\\ud800", "Xan"]}')
    assert status == 200 and answer['sentences'][0]['tokens'] == ['\ud800', 'Xan']


@pytest.mark.slow
def test_answers_limits_of_sentences_and_tokens_are_exact(server):
    word, longest = ['to'], ['to'] * 100
    for sentences in ([word] * 50, [longest] * 4):
        status, answer = server.tag({'sentences': sentences})
        assert status == 200 and [sentence['tokens'] for sentence in answer['sentences']] == sentences
    for sentences, expected in (([word] * 51, 'at most 50 sentences, got 51'),
                                ([*[longest] * 4, word], 'at most 400 tokens, got 401'),
                                ([[*longest, 'to']], 'sentences of at most 100 tokens, got 101')):
        status, answer = server.tag({'sentences': sentences})
        assert status == 413 and expected in answer['error']


def test_answers_a_piece_of_a_page_on_demand(server):
    status, headers, data = server.ask('POST', '/v1/tag', '{"tokens": ["<b>", "Xan"]}', Accept='text/html',
                                       Content_Type='application/json')
    assert (status, headers['Content-Type']) == (200, 'text/html; charset=utf-8')
    assert b'&lt;b&gt;' in data and b'<b>' not in data and b'<mark class="m ' in data


REFUSED = [
    ('{', 400, 'expected JSON: Expecting property name enclosed in double quotes at column 2 on line 1'),
    (b'{"text": "\xff"}', 400, 'expected JSON: expected UTF-8, got byte 0xff'),
    ('', 400, 'expected JSON: Expecting value at column 1 on line 1'),
    ('[' * 10000, 400, None), ('{"text": ' + '9' * 10000 + '}', 400, None), ('{"text": NaN}', 400, None),
    ('{"text": "a", "text": "b"}', 400, None),
    ('[]', 422, 'expected a JSON object, got list'),
    ('{}', 422, 'expected exactly one key of "text", "texts", "tokens" and "sentences", got none'),
    ('{"text": "a", "tokens": []}', 422, None),
    ('{"txt": "a"}', 422, "unknown key 'txt', expected text, texts, tokens, sentences, nbest, confidence, splitter; "
                          'did you mean text?'),
    ('{"text": 3}', 422, 'expected "text" to be a string, got 3'),
    ('{"texts": "a"}', 422, None), ('{"texts": [null]}', 422, None), ('{"tokens": [""]}', 422, None),
    ('{"tokens": [["a"]]}', 422, None), ('{"sentences": ["a"]}', 422, None), ('{"sentences": [[1]]}', 422, None),
    ('{"sentences": {"a": 1}}', 422, None), ('{"tokens": ["a"], "splitter": "blanks"}', 422, None),
    ('{"text": "a", "splitter": "spacy-xx"}', 422, None), ('{"text": "a", "splitter": "\\u0000"}', 422, None),
    ('{"tokens": ["a"], "nbest": -1}', 422, None), ('{"tokens": ["a"], "nbest": true}', 422, None),
    ('{"tokens": ["a"], "nbest": 11}', 422, 'expected "nbest" to be a whole number from 0 to 10, got 11'),
    ('{"tokens": ["a"], "nbest": 1}', 422, 'expected "nbest" to be 0 for a model without n-best decoding, got 1'),
    ('{"tokens": ["a"], "confidence": 1}', 422, None),
    (json.dumps({'sentences': [['a']] * 51}), 413, 'expected at most 50 sentences, got 51; send fewer at a time'),
    (json.dumps({'tokens': ['a'] * 101}), 413, 'expected sentences of at most 100 tokens, got 101 in sentence 0'),
    (json.dumps({'sentences': [['a'] * 99] * 5}), 413, 'expected at most 400 tokens, got 495; send fewer at a time'),
    (' ' * 20001, 413, 'expected a body of at most 20,000 bytes, got more; send less at a time')]


@pytest.mark.parametrize('body,status,message', REFUSED, ids=range(len(REFUSED)))
def test_answers_what_can_not_be_is_refused_in_one_line(server, body, status, message):
    found, answer = server.tag(body)
    assert found == status and list(answer) == ['error']
    assert answer['error'] == message if message else re.match('expected |"splitter" has no effect', answer['error'])
    assert answer['error'].isprintable() and len(answer['error']) < 500 and 'Traceback' not in answer['error']


@pytest.mark.parametrize('method,path,headers,status', [
    ('GET', '/v1/tag', {}, 405), ('POST', '/', {}, 405), ('DELETE', '/v1/model', {}, 405), ('GET', '/v1', {}, 404),
    ('GET', '/v1/tag/', {}, 404), ('GET', '/../../etc/passwd', {}, 404), ('GET', '/%00', {}, 404),
    ('POST', '/v1/tag', {'Content_Type': 'text/plain'}, 415), ('POST', '/v1/tag', {}, 415),
    ('POST', '/v1/tag', {'Content_Type': 'application/json', 'Content_Encoding': 'gzip'}, 415)])
def test_answers_other_paths_methods_and_types(server, method, path, headers, status):
    found, answered, data = server.ask(method, path, '{}' if method == 'POST' else None, **headers)
    assert found == status and list(json.loads(data)) == ['error']
    assert status != 405 or answered['Allow']


def test_answers_all_answers_keep_browsers_from_doing_more_with_them(server):
    for path in ('/', '/v1/model', '/healthz', '/readyz', '/metrics', '/openapi.json', '/none'):
        _, headers, _ = server.ask('GET', path)
        assert "default-src 'none'" in headers['Content-Security-Policy'] and headers['X-Content-Type-Options']
        assert "frame-ancestors 'none'" in headers['Content-Security-Policy']
        assert 'Access-Control-Allow-Origin' not in headers and 'Server' not in headers


def test_answers_what_is_said_of_model_and_server(server, run, tagger):
    model = json.loads(server.ask('GET', '/v1/model')[2])
    assert (model['name'], model['kind'], model['tags']) == ('run', 'hmm', list(tagger.tags))
    assert model['limits']['max_sentences'] == 50 and not model['nbest'] and model['confidence']
    assert [server.ask('GET', path)[0] for path in ('/healthz', '/readyz')] == [200, 200]
    before = server.metrics()
    server.tag({'sentences': [['to', 'Xan'], ['of']]})
    after = server.metrics()

    def more(name):
        return after[name] - before[name]
    assert [more(f'ms_crf_{name}') for name in ('sentences_total', 'tokens_total', 'batch_sentences_count',
                                                'request_seconds_count')] == [2, 3, 1, 1]
    assert more('ms_crf_requests_total{path="/v1/tag",status="200"}') == 1 and after['ms_crf_ready'] == 1
    assert after['ms_crf_resident_bytes{process="tagger"}'] > 1e6


# Clients that are slow, disconnect early or do not speak HTTP

HOSTILE = {
    'nothing': (b'', b''), 'no HTTP': (b'\x16\x03\x01\x02\x00\x01\x00\xff' * 50, b'400'),
    'half a head': (b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Ty', b'408'),
    'half a body': (TAG + b'Content-Length: 100\r\n\r\n{"text"', b'408'),
    'half a chunk': (TAG + b'Transfer-Encoding: chunked\r\n\r\n9\r\n{"te', b'408'),
    'two lengths': (b'POST /v1/tag HTTP/1.1\r\n' + JSON + b'Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ',
                    b'400'),
    'both lengths': (b'POST /v1/tag HTTP/1.1\r\n' + JSON + b'Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n{}',
                     b'400'),
    'a negative length': (b'POST /v1/tag HTTP/1.1\r\n' + JSON + b'Content-Length: -1\r\n\r\n', b'400'),
    'a long header': (b'GET / HTTP/1.1\r\nA: ' + b'a' * (1 << 20), b'431'),
    'many headers': (b'GET / HTTP/1.1\r\n' + b'A: a\r\n' * 100_000, b'431'),
    'a long path': (b'GET /' + b'a' * (1 << 20), b'431'),
    'a length beyond all bounds': (TAG + b'Content-Length: 99999999999\r\n\r\n{"text": "', b'413'),
    'chunks without end': (TAG + b'Transfer-Encoding: chunked\r\n\r\n' + (b'1000\r\n' + b' ' * 4096 + b'\r\n') * 8,
                           b'413'),
    'headers behind the body without end': (TAG + b'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n'
                                            + b'A: a\r\n' * 1_500_000, b'413'),
}


@pytest.fixture(scope='module')
def told(server):
    """The bytes that each hostile client receives until the server disconnects it.

    All clients are connected at the same time. Each sends its data once and then only reads.
    """
    with ExitStack() as stack:
        clients = {}
        for name, (data, _) in HOSTILE.items():
            clients[name] = stack.enter_context(server.socket())
            clients[name].sendall(data)
        return {name: rest_of(client) for name, client in clients.items()}


@pytest.mark.parametrize('name', HOSTILE)
def test_answers_a_hostile_client_is_told_so_and_cut_off(server, told, name):
    answer, (_, status) = told[name], HOSTILE[name]
    assert answer.split(b' ', 2)[1:2] == ([status] if status else [b'408'])
    assert b'Traceback' not in answer and answer.count(b'HTTP/1.1 ') == 1
    assert server.tag({'tokens': ['Xan']})[0] == 200


@pytest.mark.slow
def test_answers_a_client_that_reads_no_answer_is_cut_off(run):
    """Unread answers fill the socket buffers; the server must reset the connection and answer other clients."""
    body = json.dumps({'sentences': [['a' * 1000]] * 900}).encode()
    request = TAG + b'Content-Length: %d\r\n\r\n' % len(body) + body
    with serving('--run', run, '--splitter', 'blanks', '--slow', '1') as server:
        with server.socket() as connection, pytest.raises(ConnectionError):
            while True:
                connection.sendall(request)
        assert server.tag({'tokens': ['Xan']})[0] == 200


def test_answers_clients_that_leave_before_their_answer_harm_nobody(server):
    request = TAG + b'Content-Length: 19\r\n\r\n{"tokens": ["Xan"]}'
    for end in range(1, len(request), 7):
        with server.socket() as connection:
            connection.sendall(request[:end])
    assert server.tag({'tokens': ['Xan']})[0] == 200


def test_answers_requests_in_one_packet_are_answered_in_their_order(server):
    one = TAG + b'Content-Length: 18\r\n\r\n{"tokens": ["%d%d"]}'
    data = b''.join(one % (number, number) for number in range(9))
    answer = server.send(data + b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    assert re.findall(rb'"tokens": \["(\d)\d"\]', answer) == [b'%d' % number for number in range(9)]
    assert b'running' in answer


# Tokens and CORS

@pytest.mark.slow
@pytest.mark.parametrize('where', ['file', 'environment'])
def test_answers_a_token_is_asked_for(run, tmp_path, where):
    (tmp_path / 'token').write_text('s3cret\n')
    options = ('--token-file', tmp_path / 'token') if where == 'file' else ()
    environment = {} if where == 'file' else {'MS_CRF_TOKEN': 's3cret'}
    with serving('--run', run, '--splitter', 'blanks', *options, env=environment) as server:
        for given in (None, 'Bearer', 'Bearer s3cre', 'Bearer s3cret1', 'Basic s3cret', 'Bearer \xff', 's3cret'):
            headers = {} if given is None else {'Authorization': given}
            status, answer = server.tag({'tokens': ['Xan']}, **headers)
            assert status == 401 and 's3cret' not in answer['error'], given
        assert server.tag({'tokens': ['Xan']}, Authorization='Bearer s3cret')[0] == 200
        assert server.ask('GET', '/v1/model')[1]['WWW-Authenticate'] == 'Bearer'
        asked = {path: server.ask('GET', path)[0] for path in ('/v1/model', '/metrics', '/', '/healthz', '/readyz',
                                                               '/openapi.json')}
        assert asked == {'/v1/model': 401, '/metrics': 401, '/': 200, '/healthz': 200, '/readyz': 200,
                         '/openapi.json': 200}


@pytest.mark.slow
def test_answers_scripts_of_an_origin_may_ask_if_it_is_named(run):
    with serving('--run', run, '--splitter', 'blanks', '--allow-origin', 'https://example.org') as server:
        for origin, allowed in (('https://example.org', 'https://example.org'), ('https://example.com', None)):
            preflight = server.ask('OPTIONS', '/v1/tag', Origin=origin, Access_Control_Request_Method='POST',
                                   Access_Control_Request_Headers='content-type')
            assert (preflight[0] == 200) == bool(allowed)
            for _, headers, _ in (preflight, server.ask('GET', '/healthz', Origin=origin)):
                assert headers['Access-Control-Allow-Origin'] == allowed


# The command line

@pytest.mark.slow
@pytest.mark.parametrize('options,message', [
    (['--port', '70000'], '--port must be at most 65535, got 70000'),
    (['--host', 'no.such.host.invalid'], '--host must be a name or an address of this machine, got '),
    (['--host', '203.0.113.9'], '--host 203.0.113.9 --port 0: cannot listen on this address: '),
    (['--allow-origin', 'example.org/a'], '--allow-origin must be * or an origin such as https://example.org, '),
    (['--max-sentences', '0'], '--max-sentences must be at least 1, got 0'),
    (['--slow', 'nan'], '--slow must be at least 1, got nan'),
    (['--queue', '5'], '--queue must be at least --max-tokens, 50,000, got 5'),
    (['--mindir', 'x.mindir'], '--run and --mindir name two models, expected one of them'),
    (['--token-file', 'none/token'], 'none/token: no such file'),
    (['--token-file', '/dev/null'], '/dev/null: expected a token of visible ASCII characters in one line, got ')])
def test_answers_options_that_can_not_be(run, options, message):
    process = start('--run', run, *([] if '--port' in options else ['--port', '0']), *options)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, '')
    assert errors.startswith(f'ms-crf serve: {message}') and len(errors.splitlines()) == 1


@pytest.mark.slow
def test_answers_without_its_libraries_the_command_says_what_to_install(run, tmp_path):
    (tmp_path / 'uvicorn.py').write_text("raise ModuleNotFoundError('none', name='uvicorn')")
    process = start('--run', run, '--port', '0', env={'PYTHONPATH': str(tmp_path)})
    assert process.communicate(timeout=60) == (
        '', "ms-crf serve: the server needs uvicorn, which is not installed: pip install 'ms_crf[serve]', or pip "
            'install -r requirements-serve.txt\n')
    assert process.returncode == 2
