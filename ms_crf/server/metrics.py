"""What the server counts, in the text format that Prometheus reads."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator

SECONDS = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TYPE = 'text/plain; version=0.0.4; charset=utf-8'


class Histogram:
    """How many values are not above each of some bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts = bounds, [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.sum += value
        place = 0
        while place < len(self.bounds) and value > self.bounds[place]:
            place += 1
        self.counts[place] += 1

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self.bounds, '+Inf'), self.counts):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f'{name}_sum {self.sum:.9g}'
        yield f'{name}_count {total}'


class Metrics:
    """The counters of a server."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()      # by path and status
        self.loads: Counter[str] = Counter()                     # by result
        self.sentences = self.tokens = 0
        self.seconds, self.batches = Histogram(SECONDS), Histogram(SENTENCES)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answer; `path` is that of a route, or '' where there is none."""
        self.requests[path, status] += 1
        if path == '/v1/tag':
            self.seconds.add(seconds)

    def batch(self, sentences: int, tokens: int) -> None:
        """Counts what the tagger is given."""
        self.batches.add(sentences)
        self.sentences += sentences
        self.tokens += tokens

    def text(self, ready: bool, queue: int, connections: int, processes: Iterable[tuple[str, int]]) -> str:
        """All counters.

        Args:
            ready: whether a model is there.
            queue: tokens that wait.
            connections: that are open.
            processes: (name, process id).
        """
        return '\n'.join(self._lines(ready, queue, connections, processes)) + '\n'

    def _lines(self, ready: bool, queue: int, connections: int, processes: Iterable[tuple[str, int]]) -> Iterator[str]:
        yield from _head('ms_crf_requests_total', 'counter', 'Answers by path and status')
        for (path, status), count in sorted(self.requests.items()):
            yield f'ms_crf_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head('ms_crf_request_seconds', 'histogram', 'From the head of a request to tag to its answer')
        yield from self.seconds.lines('ms_crf_request_seconds')
        yield from _head('ms_crf_batch_sentences', 'histogram', 'Sentences that are tagged together')
        yield from self.batches.lines('ms_crf_batch_sentences')
        yield from _head('ms_crf_sentences_total', 'counter', 'Sentences given to the tagger')
        yield f'ms_crf_sentences_total {self.sentences}'
        yield from _head('ms_crf_tokens_total', 'counter', 'Tokens given to the tagger')
        yield f'ms_crf_tokens_total {self.tokens}'
        yield from _head('ms_crf_loads_total', 'counter', 'Models: loaded, refused, or ended')
        for result in ('loaded', 'refused', 'ended'):
            yield f'ms_crf_loads_total{{result="{result}"}} {self.loads[result]}'
        yield from _head('ms_crf_ready', 'gauge', 'Whether requests are answered')
        yield f'ms_crf_ready {int(ready)}'
        yield from _head('ms_crf_queue_tokens', 'gauge', 'Tokens that wait for the tagger')
        yield f'ms_crf_queue_tokens {queue}'
        yield from _head('ms_crf_connections', 'gauge', 'Open connections')
        yield f'ms_crf_connections {connections}'
        yield from _head('ms_crf_resident_bytes', 'gauge', 'Memory of each process')
        for name, number in processes:
            if (size := resident(number)) is not None:
                yield f'ms_crf_resident_bytes{{process="{name}"}} {size}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f'# HELP {name} {text}'
    yield f'# TYPE {name} {kind}'


def resident(number: int) -> int | None:
    """The bytes of memory that a process has; None where the system does not say."""
    try:
        with open(f'/proc/{number}/statm') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    except (OSError, ValueError, IndexError, AttributeError):
        return None
