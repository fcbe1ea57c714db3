"""Without a token the server answers only requests whose Host is a loopback address (protection from DNS rebinding)."""

import json
import re

from ms_crf.cli import train
from ms_crf.server.limits import is_loopback

import pytest

from support.servers import serving, start
from support.trainings import files

LOOPBACK = ['localhost', 'LocalHost:80', 'localhost.', 'localhost.:8000', 'localhost:', '127.0.0.1', '127.0.0.1:8000',
            '127.255.3.4', '127.0.0.1.', '[::1]', '[::1]:8000', '[0:0:0:0:0:0:0:1]']
OTHERS = ['example.org', 'example.org:8000', 'localhost.example.org', '127.0.0.1.example.org', 'example.org.localhost',
          'localhost..', 'a@localhost', 'localhost@a', 'localhost:80:80', 'localhost:a', '127.1', '0177.0.0.1',
          '2130706433', '0x7f000001', '127.0.0.256', '0.0.0.0', '10.0.0.1', '::1', '[::2]', '[::1', '[127.0.0.1]',
          '[::]', '[::ffff:10.0.0.1]', '[::1%lo]', '', 'localhost, example.org', 'localhost/', 'xlocalhost',
          'локалхост', '127.0.0.\u0661']
PATHS = ['/', '/v1/model', '/healthz', '/readyz', '/metrics', '/openapi.json', '/none']


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('hosts') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


@pytest.fixture(scope='module')
def server(run):
    with serving('--run', run, '--splitter', 'blanks', '--allow-origin', 'https://example.org') as made:
        yield made


def status_of(server, target, *hosts, version=b'1.1', method=b'GET', more=b''):
    """Status code and body of the answer to a request with this target and these Host headers."""
    lines = [b'%b %b HTTP/%b' % (method, target.encode(), version), *(b'Host: ' + host.encode() for host in hosts)]
    head, _, body = server.send(b'\r\n'.join([*lines, b'Connection: close', more + b'\r\n'])).partition(b'\r\n\r\n')
    return int(head.split()[1]), body


@pytest.mark.parametrize('host', LOOPBACK)
def test_hosts_requests_for_the_loopback_are_answered(server, host):
    assert is_loopback(host.encode())
    assert status_of(server, '/v1/model', host)[0] == 200
    if not host.endswith(':'):                   # the parser rejects an empty port in a target
        assert status_of(server, f'http://{host}/v1/model', 'localhost')[0] == 200


@pytest.mark.parametrize('host', OTHERS)
def test_hosts_requests_for_other_hosts_are_refused(server, host):
    assert not is_loopback(host.encode())
    status, body = status_of(server, '/v1/model', host)
    assert status == 421 and 'expected one Host header with localhost' in json.loads(body)['error']
    assert json.loads(body)['error'].isprintable()


@pytest.mark.parametrize('path', PATHS)
def test_hosts_other_hosts_are_refused_on_every_path(server, path):
    assert status_of(server, path, 'example.org')[0] == 421
    assert status_of(server, path, 'example.org', method=b'POST')[0] == 421


def test_hosts_a_target_with_a_host_counts_as_well_as_the_header(server):
    for target in ('http://example.org/v1/model', 'HTTP://EXAMPLE.ORG:8000/v1/model', 'http://example.org/?http://localhost/',
                   'http://localhost@example.org/v1/model', 'https://127.0.0.1.example.org/'):
        assert status_of(server, target, 'localhost')[0] == 421, target
        assert status_of(server, target, 'example.org')[0] == 421, target
    assert status_of(server, 'http://localhost/v1/model', 'example.org')[0] == 421
    assert status_of(server, '//example.org/v1/model', 'localhost')[0] == 404
    for target in ('example.org:80', 'example.org/v1/model', 'http:///v1/model', 'http://example.org?localhost'):
        assert status_of(server, target, 'localhost')[0] == 400, target


def test_hosts_there_has_to_be_one_host(server):
    assert status_of(server, '/healthz')[0] == 421
    assert status_of(server, '/healthz', version=b'1.0')[0] == 421
    assert status_of(server, '/healthz', 'localhost', version=b'1.0')[0] == 200
    for hosts in (('localhost', 'localhost'), ('localhost', 'example.org'), ('example.org', 'localhost')):
        assert status_of(server, '/healthz', *hosts)[0] == 421


def test_hosts_an_allowed_origin_is_no_allowed_host(server):
    """`--allow-origin` permits the origin to call the loopback address; it does not permit its name as Host."""
    origin = b'Origin: https://example.org\r\n'
    asked = server.ask('OPTIONS', '/v1/tag', Origin='https://example.org', Access_Control_Request_Method='POST')
    assert (asked[0], asked[1]['Access-Control-Allow-Origin']) == (200, 'https://example.org')
    preflight = origin + b'Access-Control-Request-Method: POST\r\n'
    assert status_of(server, '/v1/tag', 'example.org', method=b'OPTIONS', more=preflight)[0] == 421
    status, _ = status_of(server, '/healthz', 'example.org', more=origin)
    assert status == 421


@pytest.mark.slow
def test_hosts_the_refusal_is_described_and_counted(server):
    described = json.loads(server.ask('GET', '/openapi.json')[2])['paths']
    assert all('421' in operation['responses'] for methods in described.values() for operation in methods.values())
    before = server.metrics().get('ms_crf_requests_total{path="/readyz",status="421"}', 0)
    status_of(server, '/readyz', 'example.org')
    assert server.metrics()['ms_crf_requests_total{path="/readyz",status="421"}'] == before + 1


@pytest.mark.slow
@pytest.mark.parametrize('options,environment', [(['--no-token'], {}), ([], {'MS_CRF_TOKEN': 'secret'})])
def test_hosts_with_a_token_or_by_request_all_hosts_are_answered(run, options, environment):
    """The Host check is off with a token, which a foreign page does not know, and with `--no-token`.

    Behind a proxy, the Host header names the proxy, so such servers need the check to be off.
    """
    with serving('--run', run, '--splitter', 'blanks', *options, env=environment) as server:
        warned = [line for line in server.said if re.search('warning: .* answers all requests without a token', line)]
        assert len(warned) == len(options)
        for host in ('example.org', 'localhost'):
            assert status_of(server, '/healthz', host)[0] == 200
            assert status_of(server, '/v1/model', host)[0] == (200 if options else 401)
        assert status_of(server, '/healthz')[0] == 200
        assert '421' not in json.dumps(json.loads(server.ask('GET', '/openapi.json')[2])['paths'])


@pytest.mark.slow
@pytest.mark.parametrize('options,environment,name', [
    (['--token-file', 'FILE'], {}, '--token-file'), ([], {'MS_CRF_TOKEN': 'secret'}, 'MS_CRF_TOKEN')])
def test_hosts_a_token_and_none_contradict_each_other(run, tmp_path, options, environment, name):
    (tmp_path / 'token').write_text('secret')
    options = [tmp_path / 'token' if option == 'FILE' else option for option in options]
    process = start('--run', run, '--port', '0', '--no-token', *options, env=environment)
    assert process.communicate(timeout=60) == (
        '', f'ms-crf serve: --no-token and {name} exclude each other; omit --no-token, or omit {name}\n')
    assert process.returncode == 2
