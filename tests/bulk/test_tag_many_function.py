"""`ms_crf.api.tag_many` called from a Python script."""

import importlib.util
import json
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.api import tag_many
from ms_crf.base.errors import OptionError
from ms_crf.cli import train

import pytest

from support.paths import ROOT
from support.trainings import files

if importlib.util.find_spec('ray') is None:                      # not imported here: the import changes sys.path
    pytest.skip('Ray is not installed', allow_module_level=True)
#: Two calls in one process, because Ray keeps its settings after the first call.
SCRIPT = """
import json, os, sys
from ms_crf.api import tag_many

class Watcher:
    def __init__(self):
        self.said, self.done = [], 0
    def say(self, text):
        self.said.append(text)
    warn = say
    def progress(self, task, total, unit):
        import contextlib
        self.total = total, unit
        return contextlib.nullcontext(self.add)
    def add(self, count):
        self.done += count

before, found = dict(os.environ), []
for output in sys.argv[3:]:
    watcher = Watcher()
    result = tag_many(sys.argv[2], output, run=sys.argv[1], workers=1, watcher=watcher)
    found.append([result.to_json(), watcher.said, watcher.total, watcher.done])
assert before == dict(os.environ)
print(json.dumps(found))
"""


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('counted') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='Ray has clusters on Linux')
def test_tag_many_function_returns_counts_and_reports_progress_and_faults(run, tmp_path):
    source = tmp_path / 'in'
    source.mkdir()
    (source / 'a.jsonl').write_text('{"id": 1, "tokens": ["to", "Xan"]}\n{"id": 2, "tokens": ["of"]}\n')
    (source / 'b.jsonl').write_text('{"id": 3\n')
    done = subprocess.run([sys.executable, '-c', SCRIPT, run, source, tmp_path / 'one', tmp_path / 'two'], cwd=ROOT,
                          capture_output=True, text=True, timeout=200)
    assert done.stderr == ''
    tagged = Tagger.load(run).tag([['to', 'Xan'], ['of']])
    for folder, (result, said, total, units) in zip(('one', 'two'), json.loads(done.stdout), strict=True):
        assert result.pop('seconds') > 0
        [worker] = result.pop('workers')
        assert worker['lines'] == 2 and worker['peak_bytes'] > 1e6
        assert result.pop('faults') == said and said[0].startswith(f'{source}/b.jsonl:1: expected a JSON object: ')
        assert result == {'run': str(run), 'output': str(tmp_path / folder), 'shards': 1, 'lines': 2, 'skipped': 0,
                          'entities': sum(len(one.spans) for one in tagged), 'retries': 0}
        assert (total, units) == ([2, 'shards'], 2)
        rows = [json.loads(line) for line in (tmp_path / folder / 'a.jsonl').read_text().splitlines()]
        assert [row['tags'] for row in rows] == [one.tags for one in tagged]


@pytest.mark.parametrize('arguments,message', [
    ({'workers': 0}, 'workers must be at least 1, got 0'),
    ({'splitter': 'blanks'}, 'splitter has no effect without raw; omit it'),
    ({'address': 'localhost'}, "address must be HOST:PORT or auto, got 'localhost'")])
def test_tag_many_function_names_its_arguments_in_messages(run, tmp_path, arguments, message):
    (tmp_path / 'a.jsonl').write_text('{"tokens": ["to"]}\n')
    with pytest.raises(OptionError) as error:
        tag_many(tmp_path / 'a.jsonl', tmp_path / 'out', run=run, **arguments)
    assert str(error.value) == message
