"""Prometheus metrics of the server."""

import contextlib
from collections.abc import Iterable, Iterator

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

SECONDS = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TYPE = 'text/plain; version=0.0.4; charset=utf-8'
LOADED, REFUSED, ENDED = RESULTS = ('loaded', 'refused', 'ended')


class _Registry(CollectorRegistry):
    """A registry without creation times. Integer bounds of buckets have no decimals, like in Go clients."""

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics."""
        for metric in super().collect():
            metric.samples = [
                sample._replace(labels={name: value.removesuffix('.0') if name == 'le' else value
                                        for name, value in sample.labels.items()})
                for sample in metric.samples if not sample.name.endswith('_created')]
            yield metric


class Metrics:
    """The metrics of a server."""

    def __init__(self) -> None:
        self._registry = registry = _Registry(auto_describe=False)
        self._requests = Counter('ms_crf_requests', 'Answers by path and status', ('path', 'status'), registry=registry)
        self._seconds = Histogram('ms_crf_request_seconds', 'Time from the head of a request to tag to its answer',
                                  buckets=SECONDS, registry=registry)
        self._batches = Histogram('ms_crf_batch_sentences', 'Sentences in each batch', buckets=SENTENCES,
                                  registry=registry)
        self._sentences = Counter('ms_crf_sentences', 'Sentences sent to the tagger', registry=registry)
        self._tokens = Counter('ms_crf_tokens', 'Tokens sent to the tagger', registry=registry)
        self._loads = Counter('ms_crf_loads', 'Model processes that loaded a model, could not load it, or ended',
                              ('result',), registry=registry)
        for result in RESULTS:
            self._loads.labels(result)           # creates the counter, so that it is shown from the start
        self._ready = Gauge('ms_crf_ready', 'Whether a model is loaded', registry=registry)
        self._queue = Gauge('ms_crf_queue_tokens', 'Tokens that wait for the tagger', registry=registry)
        self._connections = Gauge('ms_crf_connections', 'Open connections', registry=registry)
        self._memory = Gauge('ms_crf_resident_bytes', 'Memory of each process', ('process',), registry=registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answer; `path` is the path of the route, or '' for unknown paths."""
        self._requests.labels(path, status).inc()
        if path == '/v1/tag':
            self._seconds.observe(seconds)

    def batch(self, sentences: int, tokens: int) -> None:
        """Counts the sentences and tokens of a batch."""
        self._batches.observe(sentences)
        self._sentences.inc(sentences)
        self._tokens.inc(tokens)

    def load(self, result: str) -> None:
        """Counts a model that was loaded, could not be loaded, or has ended, according to `result` (see `RESULTS`)."""
        self._loads.labels(result).inc()

    def text(self, ready: bool, queue: int, connections: int, processes: Iterable[tuple[str, int]]) -> bytes:
        """Returns all metrics in the text format of Prometheus.

        Args:
            ready: whether a model is loaded.
            queue: number of waiting tokens.
            connections: number of open connections.
            processes: name and process id of each process.
        """
        self._ready.set(ready)
        self._queue.set(queue)
        self._connections.set(connections)
        self._memory.clear()
        for name, number in processes:
            with contextlib.suppress(psutil.Error):              # the process has ended
                size = psutil.Process(number).memory_info().rss
                self._memory.labels(name).set(size)
        return generate_latest(self._registry)
