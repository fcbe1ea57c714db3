"""Fuzzing of a real server for benchmarks/fuzz.py: requests generated from its OpenAPI document, and damaged bytes."""

import json
import os
import re
import socket
import subprocess
import sys
import warnings

import schemathesis
from fuzz_material import ROOT, SECONDS, Failure, check
from fuzz_text import hostile
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from mixed_requests import GARBAGE, HOSTILE, head
from mutations import bytes_of, record_of
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

EXAMPLES, CONNECTIONS = 8, 6           # number of requests in one case
WAIT = 20                              # time limit for an answer, in seconds
PATHS = ['/', '/v1/tag', '/v1/model', '/healthz', '/readyz', '/metrics', '/openapi.json', '/v1/%74ag', '//', '/\xff',
         '*']
HEADERS = ['Accept: text/html', 'Connection: close', 'Connection: upgrade\r\nUpgrade: websocket', ': a', 'a',
           'Expect: 100-continue', 'Content-Encoding: gzip', 'Transfer-Encoding: chunked', 'Content-Length: 5',
           'Content-Length: -1', 'Content-Type: application/json; charset=utf-16', 'Authorization: Bearer \xff',
           'A: ' + 'b' * 3000, 'Origin: null', 'Host: a\r\nHost: b', 'Range: bytes=0-1', 'Cookie: a=\0']
BODIES = [{'text': 'Ada saw Rome.'}, {'texts': ['Ada', '']}, {'tokens': ['Ada', 'saw']}, {'sentences': [['Ada'], []]},
          {'text': 'Ada', 'nbest': 2, 'confidence': True, 'splitter': 'blanks'}]


class Requests:
    """Cases of requests.

    Args:
        material: provides the run for the server.
    """

    refusals = ()

    def __init__(self, material):
        self.material, self.process = material, None
        self.cases = [self.ask_as_described, self.send_bytes, self.send_bytes, self.send_values]

    def start(self):
        """Starts the server if it is not running."""
        if self.process is not None and self.process.poll() is None:
            return
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'ms_crf', 'serve', '--run', self.material.runs['hmm'], '--splitter', 'blanks',
             '--port', '0', '--slow', '2'], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        lines = iter(lambda: self.process.stderr.readline().decode(), '')
        line = next((line for line in lines if 'is served at' in line), None)
        os.set_blocking(self.process.stderr.fileno(), False)
        check(line, 'the server did not start')
        self.address = line.split()[-1]
        self.host, port = re.fullmatch(r'http://([\d.]+):(\d+)/', self.address).groups()
        self.port, self.schema = int(port), None

    def close(self):
        """Ends the server."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(SECONDS)

    def _check_alive(self):
        lines = (self.process.stderr.read() or b'').decode('utf-8', 'replace')
        check(not re.search(r'Traceback|(Error|Exception)\b', lines), f'a fault of the server: {lines}')
        check(self.process.poll() is None, f'the server has ended with status {self.process.poll()}')
        [answer] = self._answers([b'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'])
        check(b' 200 ' in answer[:20], f'the server is not ready: {answer[:300]}')

    def _answers(self, requests):
        """The bytes of the answers; each request is sent over a separate connection, all at the same time."""
        connections = []
        for data in requests:
            connection = socket.create_connection((self.host, self.port), WAIT)
            connections.append(connection)
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass                             # the server has already closed the connection
        answers = []
        for connection, data in zip(connections, requests):
            parts = []
            try:
                while part := connection.recv(1 << 16):
                    parts.append(part)
            except ConnectionError:
                pass
            except TimeoutError:
                raise Failure(f'no end of the answer to {data[:300]!r}: {b"".join(parts)[:300]!r}') from None
            finally:
                connection.close()
            answers.append(b''.join(parts))
        return answers

    def _check(self, requests):
        for data, answer in zip(requests, self._answers(requests)):
            shown = f'{data[:300]!r}: {answer[:300]!r}'
            check(not answer or re.match(rb'HTTP/1\.1 \d\d\d ', answer), f'no answer of HTTP to {shown}')
            fault = b'Traceback' in answer or re.search(rb'^HTTP/1\.1 5(?!03)', answer, re.M)
            check(not fault, f'a fault at {shown}')
        self._check_alive()

    def send_bytes(self, rng):
        """Requests with damaged bytes; some connections send several requests."""
        self.start()
        self._check([self._damaged(rng) for _ in range(CONNECTIONS)])

    @staticmethod
    def _damaged(rng):
        if rng.random() < 0.1:
            return rng.choice(GARBAGE)
        requests = []
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            body = json.dumps(rng.choice(BODIES)).encode()
            method, path = rng.choice(['GET', 'POST', 'POST', 'HEAD', 'PUT', 'OPTIONS', 'X']), rng.choice(PATHS)
            lines = [f'{method} {path} HTTP/{rng.choice(["1.1", "1.1", "1.1", "1.0", "2.0"])}', 'Host: localhost',
                     'Content-Type: application/json', f'Content-Length: {len(body)}']
            lines[2:2] = rng.choices(HEADERS, k=rng.choice([0, 0, 1, 3]))
            requests.append('\r\n'.join([*lines, '', '']).encode('latin-1') + body)
        data = b''.join(requests)
        return bytes_of(rng, data) if rng.random() < 0.7 else data

    def send_values(self, rng):
        """Tagging requests with random JSON values, hostile text and known invalid bodies."""
        self.start()
        requests = []
        for _ in range(CONNECTIONS):
            body, _ = rng.choice(HOSTILE)
            if rng.random() < 0.5:
                body = record_of(rng, rng.choice(BODIES))
            elif rng.random() < 0.7:
                splitter = rng.choice(['blanks', 'characters', 'spacy-en'])
                body = json.dumps({'text': hostile(rng), 'splitter': splitter}).encode()
            requests.append(head(body) + body)
        self._check(requests)

    def ask_as_described(self, rng):
        """schemathesis sends valid and invalid requests and checks the answers against the OpenAPI document."""
        self.start()
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            if self.schema is None:
                self.schema = schemathesis.openapi.from_url(f'{self.address}openapi.json')
            operations = [operation.ok() for operation in self.schema.get_all_operations()]
            tagging = [operation for operation in operations if operation.method == 'post']
            operation = rng.choice(tagging * 6 + operations)
            modes = [GenerationMode.POSITIVE] + [GenerationMode.NEGATIVE] * (operation in tagging)
            strategy = operation.as_strategy(generation_mode=rng.choice(modes))

            @seeded(rng.getrandbits(32))
            @given(case=strategy)
            @settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
                      suppress_health_check=list(HealthCheck))
            def ask(case):
                # The excluded check does not know that status 413 refuses a list that is too long.
                case.call_and_validate(excluded_checks=[negative_data_rejection])
            ask()
        self._check_alive()
