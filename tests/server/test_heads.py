"""The size limit of a request's head is exact to the byte.

It must not depend on how the bytes are split into packets, or on earlier requests of the same connection.
"""

import asyncio
import random
import re
import socket

from ms_crf.cli import train
from ms_crf.server.limits import Limits

import pytest

from support.servers import rest_of, serving
from support.trainings import files

# isort: split
# `support.servers` skips this file if the server's libraries are missing, so it must be imported first.
from ms_crf.server.protocol import HEAD, Protocol

import uvicorn
from uvicorn.server import ServerState

BODY = b'{"tokens": ["Xan"]}'
START = b'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
WHOLE = START + b'Content-Length: %d\r\n\r\n' % len(BODY) + BODY
CHUNKED = START + b'Transfer-Encoding: chunked\r\n\r\n4\r\n{"to\r\nF\r\nkens": ["Xan"]}\r\n0\r\nA: a\r\n\r\n'
BEHIND = {'nothing': (b'', 0), 'a body': (WHOLE, 1), 'two bodies': (WHOLE * 2, 2), 'chunks': (CHUNKED, 1),
          'no body': (b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n', 1), 'line ends': (WHOLE + b'\r\n', 1)}


def head(size, *, padded=False, path=False):
    """A request for /healthz whose head has `size` bytes.

    A long header value fills the head, or the spaces around the value (`padded`), or the request line (`path`).
    """
    start, end = b'GET /healthz?', b' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nA:'
    rest = size - len(start) - len(end) - 5
    target, value = (b'a' * rest, b'') if path else (b'', (b' ' if padded else b'a') * rest)
    return start + target + end + value + b'a\r\n\r\n'


def test_heads_have_the_size_that_the_tests_want():
    assert {len(head(HEAD, padded=padded, path=path)) for padded in (False, True) for path in (False, True)} == {HEAD}


class Transport(asyncio.Transport):
    """A fake transport that records all bytes that a protocol writes."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = b'', False

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def write_eof(self):
        pass

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def app(scope, receive, send):
    while (await receive()).get('more_body'):
        pass
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-length', b'0')]})
    await send({'type': 'http.response.body'})


def statuses(pieces):
    """The status codes of the answers when the bytes of requests arrive in these pieces."""
    async def test():
        config = uvicorn.Config(app, http=Protocol.of_limits(Limits()), lifespan='off', log_config=None)
        config.load()
        protocol = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})
        transport = Transport()
        protocol.connection_made(transport)
        for piece in pieces:
            protocol.data_received(piece)
        for _ in range(50):
            await asyncio.sleep(0)
        if protocol.timeout_keep_alive_task is not None:
            protocol.timeout_keep_alive_task.cancel()
        return [int(status) for status in re.findall(rb'HTTP/1.1 (\d+) ', transport.written)]
    return asyncio.run(test())


def cuts(data, seed):
    """Ways to split the data: one packet, single bytes, random sizes, and cuts near the limit and near line ends."""
    rng = random.Random(seed)
    yield [data]
    yield [data[index:index + 1] for index in range(len(data))]
    for most in (10, 1000, 40_000):
        ends = [0]
        while ends[-1] < len(data):
            ends.append(ends[-1] + rng.randint(1, most))
        yield [data[begin:end] for begin, end in zip(ends, ends[1:])]
    for end in (1, 2, 3, 4, HEAD - 1, HEAD, HEAD + 1):
        yield [data[:len(data) - end], data[len(data) - end:]]
        yield [data[:end], data[end:]]


@pytest.mark.slow
@pytest.mark.parametrize('behind', BEHIND)
@pytest.mark.parametrize('kind', [{}, {'padded': True}, {'path': True}], ids=['value', 'blanks', 'path'])
def test_heads_the_limit_is_exact_in_any_packets(behind, kind):
    before, count = BEHIND[behind]
    lines = 2 if behind == 'line ends' else 0    # a line end before a head counts as part of the head
    for extra, status in ((0, 200), (1, 431), (2, 431), (10_000, 431)):
        for pieces in cuts(before + head(HEAD - lines + extra, **kind), extra):
            answers = statuses(pieces)
            assert answers == [200] * count + [status], [len(piece) for piece in pieces][:50]


def test_heads_a_head_that_never_ends_is_refused_at_the_limit():
    assert statuses([b'GET / HTTP/1.1\r\nA: ' + b'a' * (HEAD - 20)]) == []
    assert statuses([b'GET / HTTP/1.1\r\nA: ' + b'a' * HEAD]) == [431]
    assert statuses([b'\r\n'] * HEAD) == [431]


@pytest.mark.parametrize('fault,status', [
    (b'GARBAGE\r\n\r\n', 400), (b'GET localhost:80 HTTP/1.1\r\n\r\n', 400), (b'GET http:///x HTTP/1.1\r\n\r\n', 400),
    (START + b'Transfer-Encoding: chunked\r\n\r\nx', 400)], ids=['no HTTP', 'no target', 'no host', 'no chunk'])
def test_heads_requests_before_one_that_is_refused_are_answered(fault, status):
    for count in (0, 1, 3):
        assert statuses([WHOLE * count + fault + b'more']) == [200] * count + [status]
        assert statuses([*[WHOLE] * count, fault, b'more']) == [200] * count + [status]


def test_heads_empty_lines_in_bodies_harm_nobody():
    for text in (b'\n\r\n' * 20_000, b'\r\n' * 20_000, b'\r\n\r\n0\r\n\r\n' + b'a' * HEAD):
        whole = START + b'Content-Length: %d\r\n\r\n' % len(text) + text
        chunked = START + b'Transfer-Encoding: chunked\r\n\r\n%x\r\n' % len(text) + text + b'\r\n0\r\n\r\n'
        data = whole + chunked + WHOLE
        for pieces in ([data], [data[index:index + 7] for index in range(0, len(data), 7)]):
            assert statuses(pieces) == [200] * 3


@pytest.fixture(scope='module')
def server(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('heads') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    with serving('--run', folder, '--splitter', 'blanks') as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize('behind', ['nothing', 'a body', 'chunks'])
@pytest.mark.parametrize('size', [len(WHOLE) + HEAD + 1, 1, 4096])
def test_heads_a_server_holds_the_limit(server, behind, size):
    for extra, status in ((0, b'200'), (1, b'431')):
        data = BEHIND[behind][0] + head(HEAD + extra)
        with server.socket() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for begin in range(0, len(data), size):
                connection.sendall(data[begin:begin + size])
            assert re.findall(rb'HTTP/1.1 (\d+) ', rest_of(connection)) == [b'200'] * BEHIND[behind][1] + [status]
