"""The text of /metrics: dashboards depend on the names and labels of the metrics."""

import os
import re

import pytest

pytest.importorskip('prometheus_client', reason="the server's libraries are missing: pip install -r "
                                                'requirements-serve.txt')
from ms_crf.server.metrics import Metrics  # noqa: E402

GONE = 2 ** 22 + 1                     # above the largest process id of Linux


def buckets(name, bounds, counts):
    return {f'{name}_bucket{{le="{bound}"}}': count for bound, count in zip([*bounds.split(), '+Inf'], counts)}


def test_metrics_have_the_names_and_labels_of_dashboards():
    metrics = Metrics()
    metrics.request('/v1/tag', 200, 0.3)
    metrics.request('/v1/tag', 422, 1.0)
    metrics.request('', 404, 7)
    metrics.batch(1, 5)
    metrics.batch(3, 17)
    metrics.load('loaded')
    text = metrics.text(True, 5, 2, [('server', os.getpid()), ('tagger', GONE)]).decode()
    values = {name: float(value) for name, value in re.findall(r'^([^#\s]\S*) (\S+)$', text, re.M)}
    assert 1e6 < values.pop('ms_crf_resident_bytes{process="server"}') < 1e10
    assert values == {
        'ms_crf_requests_total{path="/v1/tag",status="200"}': 1, 'ms_crf_requests_total{path="",status="404"}': 1,
        'ms_crf_requests_total{path="/v1/tag",status="422"}': 1,
        **buckets('ms_crf_request_seconds', '0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10',
                  [0] * 8 + [1] + [2] * 5),
        'ms_crf_request_seconds_sum': 1.3, 'ms_crf_request_seconds_count': 2,
        **buckets('ms_crf_batch_sentences', '1 2 4 8 16 32 64 128 256', [1, 1] + [2] * 8),
        'ms_crf_batch_sentences_sum': 4, 'ms_crf_batch_sentences_count': 2,
        'ms_crf_sentences_total': 4, 'ms_crf_tokens_total': 22, 'ms_crf_loads_total{result="loaded"}': 1,
        'ms_crf_loads_total{result="refused"}': 0, 'ms_crf_loads_total{result="ended"}': 0, 'ms_crf_ready': 1,
        'ms_crf_queue_tokens': 5, 'ms_crf_connections': 2}
    kinds = dict(re.findall(r'^# TYPE (\S+) (\S+)$', text, re.M))
    assert kinds == {
        'ms_crf_requests_total': 'counter', 'ms_crf_request_seconds': 'histogram',
        'ms_crf_batch_sentences': 'histogram', 'ms_crf_sentences_total': 'counter', 'ms_crf_tokens_total': 'counter',
        'ms_crf_loads_total': 'counter', 'ms_crf_ready': 'gauge', 'ms_crf_queue_tokens': 'gauge',
        'ms_crf_connections': 'gauge', 'ms_crf_resident_bytes': 'gauge'}


def test_metrics_forget_processes_that_have_ended():
    metrics = Metrics()
    assert 'process="splitter"' in metrics.text(False, 0, 0, [('splitter', os.getpid())]).decode()
    assert 'process=' not in metrics.text(False, 0, 0, []).decode()
