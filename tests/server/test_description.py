"""schemathesis checks the API against its own OpenAPI description, with valid and with invalid requests."""

import json
import warnings

from ms_crf.cli import train

import pytest

from support.servers import serving
from support.trainings import files

schemathesis = pytest.importorskip('schemathesis', reason='schemathesis is missing: pip install schemathesis')
from hypothesis import HealthCheck, given, settings  # noqa: E402
from schemathesis.generation import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import negative_data_rejection  # noqa: E402

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


@pytest.mark.slow
def test_description_every_path_is_described(schema):
    """Every path except `/openapi.json`, which schemathesis skips, must be in the OpenAPI description."""
    assert {(operation.method, operation.path) for operation in operations(schema)} == {
        ('post', '/v1/tag'), ('get', '/v1/model'), ('get', '/healthz'), ('get', '/readyz'), ('get', '/metrics'),
        ('get', '/')}


def statuses_of(operation, mode):
    """The status codes of many generated requests; schemathesis checks each answer against the description."""
    found = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))
    def check(case):
        # The excluded check does not know that the server refuses a list that is too long with status 413.
        found.add(case.call_and_validate(excluded_checks=[negative_data_rejection]).status_code)

    with warnings.catch_warnings():
        warnings.simplefilter('ignore')          # schemathesis warns about its own internals
        check()
    return found


@pytest.mark.slow
def test_description_what_is_allowed_is_answered_as_described(schema):
    for operation in operations(schema):
        assert statuses_of(operation, GenerationMode.POSITIVE) == {200}, operation.path


@pytest.mark.slow
def test_description_what_is_not_allowed_is_refused_as_described(schema, server):
    [operation] = [operation for operation in operations(schema) if operation.method == 'post']
    assert 200 not in statuses_of(operation, GenerationMode.NEGATIVE)
    assert json.loads(server.ask('GET', '/readyz')[2]) == {'status': 'ready'}
