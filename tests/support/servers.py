"""A server process on a free port, and requests to it over real connections."""

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

from support.paths import ROOT

pytest.importorskip('uvicorn', reason="the server's libraries are missing: pip install -r requirements-serve.txt")

SECONDS = 60                           # timeout of tests
COMMAND = [sys.executable, '-m', 'ms_crf', 'serve']


def start(*options, **others):
    """Starts `ms-crf serve` with pipes for its output. The argument `before` is a command prefix."""
    environment = {**os.environ, **others.pop('env', {})}
    command = [*others.pop('before', ()), *COMMAND, *map(str, options)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment, **others)


class Server:
    """A running server, which is ready for requests.

    Attributes:
        said: lines read from standard error so far.
    """

    def __init__(self, *options, **others):
        self.process, self.said = start('--port', '0', *options, **others), []
        self.address = self.wait_for('is served at').split()[-1]
        self.host, self.port = re.fullmatch(r'http://(?:\[(?=.*\]))?([\d.:]+?)\]?:(\d+)/', self.address).groups()

    def wait_for(self, words):
        """Waits for a line on standard error that contains `words`, and returns the line."""
        while True:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said.append(line.rstrip('\n'))
            if words in line:
                return line.rstrip('\n')

    def connect(self):
        return http.client.HTTPConnection(self.host, int(self.port), timeout=SECONDS)

    def ask(self, method, path, body=None, connection=None, **headers):
        """Sends a request; returns status, headers and body of the answer."""
        own = connection or self.connect()
        own.request(method, path, body, {name.replace('_', '-'): value for name, value in headers.items()})
        answer = own.getresponse()
        data = answer.read()
        if connection is None:
            own.close()
        return answer.status, answer.headers, data

    def tag(self, record, connection=None, **headers):
        """Sends a tagging request; returns status and JSON of the answer."""
        body = record if isinstance(record, (str, bytes)) else json.dumps(record)
        status, _, data = self.ask('POST', '/v1/tag', body, connection, Content_Type='application/json', **headers)
        return status, json.loads(data)

    def socket(self):
        """A raw connection, for bytes that may be invalid HTTP."""
        return socket.create_connection((self.host, int(self.port)), SECONDS)

    def send(self, data):
        """Sends bytes that may be invalid HTTP; returns all bytes of the answer, until the connection is closed."""
        with self.socket() as connection:
            connection.sendall(data)
            return rest_of(connection)

    def metrics(self):
        """A dict of the server's metrics; the keys are names with labels."""
        text = self.ask('GET', '/metrics')[2].decode()
        return {name: float(value) for name, value in re.findall(r'^([^#\s]\S*) (\S+)$', text, re.M)}

    def until(self, condition):
        """Requests the metrics until `condition(metrics)` is true."""
        end = time.monotonic() + SECONDS
        while not condition(metrics := self.metrics()):
            assert time.monotonic() < end, metrics

    def children(self):
        """Process ids of the server's child processes."""
        return [child.pid for child in psutil.Process(self.process.pid).children()]

    def stop(self, number=signal.SIGTERM):
        """Ends the server with a signal; returns its exit status and the rest of standard error."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=SECONDS)
        assert output == ''
        return self.process.returncode, errors

    def kill(self):
        """Ends the server with SIGKILL, if it still runs."""
        self.process.kill()
        self.process.wait(SECONDS)
        self.process.stdout.close()
        self.process.stderr.close()


def said_by(tagger, request):
    """Expected answer to a request, from a tagger in this process.

    For each sentence: tokens, tags, tags of the alternatives, and a list of all confidences.
    """
    said = []
    for tagged in tagger.tag(request['sentences'], request.get('confidence'), request.get('nbest', 0)):
        numbers = [] if tagged.confidence is None else [
            *tagged.confidences, tagged.confidence, *(span.confidence for span in tagged.spans)]
        said.append([tagged.tokens, tagged.tags, [other.tags for other in tagged.alternatives],
                     [*numbers, *(other.confidence for other in tagged.alternatives)]])
    return said


def check_answer(answer, said):
    """Checks a server's answer against the result of `said_by`. Confidences in answers have six digits."""
    for record, (tokens, tags, alternatives, confidences) in zip(answer['sentences'], said, strict=True):
        others = record.get('alternatives', [])
        numbers = [] if 'confidence' not in record else [
            *record['confidences'], record['confidence'], *(entity['confidence'] for entity in record['entities'])]
        assert (record['tokens'], record['tags'], [other['tags'] for other in others]) == (tokens, tags, alternatives)
        assert [*numbers, *(other['confidence'] for other in others)] == pytest.approx(confidences, abs=2e-6)


class Watched:
    """A process that is not a child of this one; `wait` waits for its end."""

    def __init__(self, number):
        self.descriptor = os.pidfd_open(number)

    def wait(self):
        assert select.select([self.descriptor], [], [], SECONDS)[0]
        os.close(self.descriptor)


def rest_of(connection):
    """All bytes that a connection receives until it is closed."""
    return b''.join(iter(lambda: connection.recv(1 << 16), b''))


@contextmanager
def serving(*options, **others):
    """A server for a `with` block. At the end the server must exit with status 0 and without errors."""
    server = Server(*options, **others)
    try:
        yield server
        assert server.stop() == (0, '')
    finally:
        server.kill()
