"""Valid, hostile and interrupted requests for `benchmarks/serve.py --mixed N`, with checks of answers and memory."""

import asyncio
import json
import os
import random
import re
import sys
import time
from collections import Counter

from ms_crf import Tagger
from ms_crf.formats.registry import read_corpus

import numpy as np
from contestants import processor

CLIENTS = 24                           # number of simultaneous clients
CLOSE = 2e-6                           # tolerance of confidences: float32 rounding, then rounding to six digits
SENTENCES = 300                        # number of input sentences; their answers are computed in advance
HOSTILE = [
    (b'', {400}), (b'{', {400}), (b'[]', {422}), (b'\xff\xfe', {400}), (b'{"text": 1}', {422}), (b'[' * 9999, {400}),
    (b'{"sentences": [["a", ""]]}', {422}), (b'{"tokens": ["a"], "nbest": 1000000}', {422}),
    (b'{"text": NaN}', {400}), (b'{"sentences": ' + b'[["a"],' * 5000, {400}), (b' ' * 2_000_000, {413}),
    (json.dumps({'sentences': [['a']] * 2001}).encode(), {413}), (json.dumps({'tokens': ['a'] * 1001}).encode(), {413})]
GARBAGE = [b'\x16\x03\x01\x02\x00', b'GET\r\n\r\n', b'POST /v1/tag HTTP/9.9\r\n\r\n', b'GET / HTTP/1.1\r\nA: ' +
           b'a' * 50_000, b'POST /v1/tag HTTP/1.1\r\nContent-Length: -1\r\n\r\n', b'\0' * 1000]


def tagged_record(one):
    """The expected content of an answer for a sentence: tokens, tags, spans, alternatives, and all numbers in order."""
    numbers = [] if one.confidence is None else [*one.confidences, one.confidence, *(s.confidence for s in one.spans),
                                                 *(other.confidence for other in one.alternatives)]
    return one.tokens, one.tags, [span[:3] for span in one.spans], [other.tags for other in one.alternatives], numbers


def answered_record(record):
    entities, others = record['entities'], record.get('alternatives', [])
    numbers = [] if 'confidence' not in record else [
        *record['confidences'], record['confidence'], *(entity['confidence'] for entity in entities),
        *(other['confidence'] for other in others)]
    spans = [(entity['type'], entity['first'], entity['last']) for entity in entities]
    return record['tokens'], record['tags'], spans, [other['tags'] for other in others], numbers


def same(expected, found):
    return expected[:-1] == found[:-1] and len(expected[-1]) == len(found[-1]) and np.allclose(
        expected[-1], found[-1], rtol=0, atol=CLOSE)


class Known:
    """Sentences and the results of a `Tagger` for all types of requests."""

    def __init__(self, run, path):
        tagger = Tagger.load(run)
        self.sentences = [sentence.tokens for sentence in read_corpus(path)][:SENTENCES]
        self.ways = [{}, {'confidence': False}] + [{'nbest': 3}] * tagger.gives_nbest
        # Small batches, whose confidences are rounded like the confidences of a single sentence.
        parts = [self.sentences[first:first + 50] for first in range(0, len(self.sentences), 50)]
        self.expected = [[tagged_record(one) for part in parts for one in
                          tagger.tag(part, way.get('confidence'), way.get('nbest', 0))] for way in self.ways]
        self.texts = [' '.join(tokens) for tokens in self.sentences]
        self.of_text = [[tagged_record(one) for one in tagger.tag_text(text)] for text in self.texts]

    def request(self, rng):
        """The body of a random request, and the expected content of its answer."""
        kind = rng.random()
        if kind < .2:
            chosen = rng.choices(range(len(self.texts)), k=rng.choice((1, 2, 5)))
            body = {'text': self.texts[chosen[0]]} if len(chosen) == 1 else {
                'texts': [self.texts[index] for index in chosen]}
            return body, [record for index in chosen for record in self.of_text[index]]
        way = rng.randrange(len(self.ways))
        chosen = rng.choices(range(len(self.sentences)), k=rng.choice((1, 1, 1, 4, 30) if kind < .98 else (500,)))
        return ({'sentences': [self.sentences[index] for index in chosen], **self.ways[way]},
                [self.expected[way][index] for index in chosen])


def head(body, length=None):
    return (f'POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: '
            f'{len(body) if length is None else length}\r\n\r\n').encode()


class Client:
    """Sends requests over successive connections."""

    def __init__(self, server, known, seed):
        self.server, self.known, self.rng, self.counts = server, known, random.Random(seed), Counter()
        self.reader = self.writer = None

    async def connect(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.server.host, self.server.port)

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None

    async def answer(self):
        start = await self.reader.readuntil(b'\r\n\r\n')
        length = re.search(rb'(?i)content-length: (\d+)', start)
        body = await self.reader.readexactly(int(length.group(1)))
        if b'connection: close' in start.lower():
            self.close()
        return int(start.split()[1]), body

    async def ask(self):
        """Sends one random request and checks the answer; raises AssertionError if the answer is wrong."""
        await self.connect()
        kind = self.rng.random()
        if kind < .7:
            body, expected = self.known.request(self.rng)
            data = json.dumps(body, ensure_ascii=False).encode()
            self.writer.write(head(data) + data)
            status, answer = await self.answer()
            if status == 503:
                self.counts['told to come again'] += 1
                return
            assert status == 200, (status, answer[:300])
            record = json.loads(answer)
            parts = record.get('texts', [record])
            found = [answered_record(one) for part in parts for one in part['sentences']]
            assert len(found) == len(expected) and all(map(same, expected, found)), (body, answer[:300])
            self.counts['right answers'] += 1
            self.counts['sentences in them'] += len(found)
        elif kind < .85:
            data, statuses = self.rng.choice(HOSTILE)
            self.writer.write(head(data) + data)
            status, answer = await self.answer()
            assert status in statuses and b'Traceback' not in answer, (data[:100], status, answer[:300])
            self.counts['hostile, refused'] += 1
        elif kind < .9:
            self.writer.write(self.rng.choice(GARBAGE))
            with_answer = await self.reader.read(1 << 16)
            assert b'Traceback' not in with_answer and b' 200 ' not in with_answer
            self.close()
            self.counts['no HTTP, refused'] += 1
        else:
            body, _ = self.known.request(self.rng)
            data = json.dumps(body).encode()
            whole = head(data) + data
            self.writer.write(whole[:self.rng.randint(1, len(whole))])
            await asyncio.sleep(self.rng.choice((0, 0, .001)))
            self.close()
            self.counts['cut off'] += 1


async def send(server, known, total, seed):
    """Sends all requests; returns the counts, and the memory of each process after each hundredth of the requests."""
    left, sizes, counts = total, [], Counter()

    async def work(number):
        nonlocal left
        client = Client(server, known, f'{seed} {number}')
        while left > 0:
            left -= 1
            if left % max(1, total // 100) == 0:
                sizes.append(await asyncio.to_thread(server.resident))
            try:
                await asyncio.wait_for(client.ask(), 60)
            except (ConnectionError, asyncio.IncompleteReadError):     # the server had closed this connection
                client.close()
                client.counts['connections lost'] += 1
        client.close()
        counts.update(client.counts)

    await asyncio.gather(*map(work, range(CLIENTS)))
    return counts, sizes


def mixed(make_server, arguments):
    known = Known(arguments.run, arguments.input)
    server = make_server(arguments.run)
    began = time.perf_counter()
    try:
        counts, sizes = asyncio.run(send(server, known, arguments.mixed, arguments.seed))
    except AssertionError as error:
        server.stop()
        sys.exit(f'a wrong answer: {str(error)[:1000]}')
    seconds = time.perf_counter() - began
    print(f'{processor()}, {os.cpu_count()} cores; {arguments.mixed:,} requests in {seconds:,.0f} s, no wrong answer')
    for name, count in sorted(counts.items()):
        print(f'  {name}: {count:,}')
    tenth = max(1, len(sizes) // 10)
    for name in sizes[-1]:
        first, last = (np.mean([size.get(name, 0) for size in part]) / 1e6 for part in (sizes[:tenth], sizes[-tenth:]))
        print(f'memory of the {name}: {first:.0f} MB in the first tenth, {last:.0f} MB in the last')
    status = server.stop()
    print(f'it ended with status {status}')
    sys.exit(status)
