"""The engine of `tag-many`, with a pool of workers in this process instead of Ray."""

import json
from contextlib import contextmanager

from ms_crf import Tagger
from ms_crf.bulk import engine
from ms_crf.cli import tag_many

import pytest

from support.local_ray import LocalRay

SENTENCES = [['to', 'Xan', 'Yan'], ['of', 'Xel'], ['in', 'on', 'Xor', 'Yor']]


@pytest.fixture
def tag(run, tmp_path, monkeypatch, capfd):
    """A function that tags four shards and returns exit code, standard error and summary.

    Its keyword arguments go to `LocalRay`; `dies` decides which calls of a worker kill the worker.
    """
    for name in range(4):
        rows = [{'id': f'{name}-{row}', 'tokens': tokens} for row, tokens in enumerate(SENTENCES[:1 + name % 3])]
        (tmp_path / f'{name}.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))

    def tag_all(*options, **given):
        local = LocalRay(**given)

        @contextmanager
        def running(*_):
            yield local

        monkeypatch.setattr(engine, 'ray_session', running)
        status = tag_many.main(['--run', str(run), '--input', str(tmp_path / '*.jsonl'), '--output',
                                str(tmp_path / 'out'), '--workers', '2', '--json', str(tmp_path / 'summary.json'),
                                *options])
        summary = tmp_path / 'summary.json'
        return status, capfd.readouterr().err, json.loads(summary.read_text()) if summary.exists() else None
    return tag_all


def check_shards(run, folder, names):
    """The folder holds exactly these shards and its record file, and the shards have the tags of `Tagger`."""
    tagger = Tagger.load(run)
    for name in names:
        rows = [json.loads(line) for line in (folder / f'{name}.jsonl').read_text().splitlines()]
        expected = tagger.tag(SENTENCES[:1 + name % 3])
        assert [row['id'] for row in rows] == [f'{name}-{index}' for index in range(len(expected))]
        assert [row['tags'] for row in rows] == [tagged.tags for tagged in expected]
    assert {path.name for path in folder.iterdir()} == {f'{name}.jsonl' for name in names} | {'.tag-many.json'}


def test_pool_tags_every_shard_once(tag, run, tmp_path):
    status, said, summary = tag()
    assert (status, said) == (0, '')
    assert [summary[name] for name in ('shards', 'lines', 'skipped', 'faults', 'retries')] == [4, 7, 0, [], 0]
    check_shards(run, tmp_path / 'out', range(4))
    (tmp_path / 'out' / '2.jsonl').unlink()
    status, said, summary = tag()
    assert [summary[name] for name in ('shards', 'lines', 'skipped')] == [1, 3, 3]
    check_shards(run, tmp_path / 'out', range(4))


def test_pool_gives_the_shard_of_a_dead_worker_to_another(tag, run, tmp_path):
    deaths = iter([False, True, False, True])
    status, said, summary = tag(dies=lambda name, *_: name == 'tag' and next(deaths, False))
    assert (status, said, summary['retries']) == (0, '', 2)
    check_shards(run, tmp_path / 'out', range(4))


def test_pool_gives_up_a_shard_that_kills_its_workers(tag, run, tmp_path):
    status, said, summary = tag(dies=lambda name, *given: name == 'tag' and given[0].name == '1.jsonl')
    assert status == 2 and len(said.splitlines()) == 1 and '1.jsonl: its worker died 5 times' in said
    assert (summary['shards'], summary['retries'], len(summary['faults'])) == (3, 4, 1)
    check_shards(run, tmp_path / 'out', [0, 2, 3])


def test_pool_starts_no_workers_for_ever_that_die_while_they_load(tag, run, tmp_path):
    status, said, summary = tag(dies=lambda name, *_: name == 'begin')
    assert (status, summary) == (2, None) and '5 workers died while they loaded the model' in said
    check_shards(run, tmp_path / 'out', [])


def test_pool_reports_a_fault_of_a_shard_and_tags_the_others(tag, run, tmp_path):
    (tmp_path / '3.jsonl').write_text('{"id": 1, "tokens": ["a"]}\n{"id": 2\n')
    status, said, summary = tag()
    assert status == 2 and '3.jsonl:2: expected a JSON object' in said and summary['shards'] == 3
    check_shards(run, tmp_path / 'out', [0, 1, 2])
