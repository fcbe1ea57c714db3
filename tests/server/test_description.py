"""The API beside its own description, OpenAPI, by schemathesis: requests that it allows, and some that it does not."""

import json
import warnings

from ms_crf import train

import pytest

from conftest import files
from servers import serving

schemathesis = pytest.importorskip('schemathesis', reason='schemathesis is missing: pip install schemathesis')
from hypothesis import HealthCheck, given, settings  # noqa: E402
from schemathesis.generation import GenerationMode  # noqa: E402

EXAMPLES = 40


@pytest.fixture(scope='module')
def server(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('described') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    with serving('--run', folder, '--splitter', 'blanks') as made:
        yield made


@pytest.fixture(scope='module')
def schema(server):
    return schemathesis.openapi.from_url(f'{server.address}openapi.json')


def operations(schema):
    return [operation.ok() for operation in schema.get_all_operations()]


def test_every_path_is_described(schema):
    assert {(operation.method, operation.path) for operation in operations(schema)} == {
        ('post', '/v1/tag'), ('get', '/v1/model'), ('get', '/healthz'), ('get', '/readyz'), ('get', '/metrics'),
        ('get', '/openapi.json'), ('get', '/')}


@pytest.mark.parametrize('mode', [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=['allowed', 'not allowed'])
def test_answers_are_as_described(schema, server, mode):
    """Status, type and form of each answer; no request fails, and the server refuses what it does not describe."""
    for operation in operations(schema):
        statuses = set()

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                  suppress_health_check=list(HealthCheck))
        def check(case, statuses=statuses):
            answer = case.call_and_validate()
            statuses.add(answer.status_code)

        if operation.method == 'get' and mode == GenerationMode.NEGATIVE:
            continue                             # which takes nothing that could be wrong
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')      # of schemathesis about itself
            check()
        assert statuses <= {200, 422} if mode == GenerationMode.POSITIVE else 200 not in statuses, operation.path
    assert json.loads(server.ask('GET', '/readyz')[2]) == {'status': 'ready'}
