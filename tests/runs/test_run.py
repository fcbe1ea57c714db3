"""Tests `SavedRun` and `open_model`.

A command reads each record of a run once, and an opened run knows its model type.
"""

import os
import subprocess
import sys
from collections import Counter

from ms_crf.base.errors import CorpusError, NoRun
from ms_crf.models.opening import open_model
from ms_crf.runs import checksums
from ms_crf.runs.run import SavedRun
from ms_crf.tagging import tagger as tagging

import pytest

from support.paths import ROOT
from support.runs import make_run

RECORDS = ('config.json', 'vocab.json', 'checksums.json')
#: a module that Python loads at startup; it logs each record that a process opens, with the process id
NOTES = """
import os, sys
notes = os.open(os.environ['NOTES'], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def note(event, arguments):
    if event == 'open' and os.path.dirname(str(arguments[0])) == os.environ['RUN']:
        os.write(notes, f'{os.getpid()} {os.path.basename(str(arguments[0]))}\\n'.encode())
sys.addaudithook(note)
"""


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp('opened') / 'run')


@pytest.fixture
def noted(run, tmp_path):
    """Returns an environment in which processes log the records they open, and a function that counts the records.

    The function returns one counter per process.
    """
    (tmp_path / 'site').mkdir()
    (tmp_path / 'site' / 'sitecustomize.py').write_text(NOTES)
    environment = {**os.environ, 'NOTES': str(tmp_path / 'notes'), 'RUN': str(run),
                   'PYTHONPATH': os.pathsep.join([str(tmp_path / 'site'), os.environ.get('PYTHONPATH', '')])}

    def counts():
        lines = [line.split() for line in (tmp_path / 'notes').read_text().splitlines()]
        return [Counter(name for process, name in lines if process == own and name in RECORDS)
                for own in dict.fromkeys(process for process, _ in lines)]
    return environment, counts


@pytest.mark.slow
@pytest.mark.parametrize('command', [
    ['infer', '--text', 'to Xan', '--format', 'json'],
    ['evaluate', '--input', 'tagged.tsv'],
    ['export', '--output', 'model.mindir'],
])
def test_run_a_command_reads_each_record_once(run, noted, tmp_path, command):
    environment, counts = noted
    (tmp_path / 'tagged.tsv').write_text('to\tO\nXan\tB-X\n\n')
    command = [sys.executable, '-m', 'ms_crf', *command, '--run', str(run), '--device', 'CPU']
    environment['PYTHONPATH'] += os.pathsep + str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert counts() == [dict.fromkeys(RECORDS, 1)]


@pytest.mark.slow
def test_run_a_server_reads_each_record_once_in_the_process_that_tags(run, noted):
    servers = pytest.importorskip('support.servers')
    environment, counts = noted
    server = servers.Server('--run', run, '--splitter', 'blanks', '--device', 'CPU', env=environment)
    try:
        status, _ = server.tag({'sentences': [['to', 'Xan']]})
    finally:
        server.process.terminate()
        server.process.communicate(timeout=60)
    assert status == 200 and counts() == [dict.fromkeys(RECORDS, 1)]


def test_run_an_opened_run_states_what_its_records_hold(hmm):
    opened = SavedRun.open(hmm)
    assert (opened.kind_name, opened.uses_mindspore, opened.scheme) == ('hmm', False, opened.config['scheme'])
    assert opened.options.model == 'hmm' and opened.options_with(add=0.5).add == 0.5
    assert opened.metrics[0]['epoch'] == 0 and opened.scores['epochs'] == 0
    listed = checksums.read(hmm)
    assert opened.digest == checksums.digest({name: listed[name][-1] for name in
                                              ('config.json', 'vocab.json', 'tables.npz')})
    assert opened.version == f'{hmm.name}@{opened.digest[:12]}'


def test_run_a_run_without_checksums_has_the_digest_of_its_contents(hmm):
    with_record = SavedRun.open(hmm).digest
    (hmm / 'checksums.json').unlink()
    assert SavedRun.open(hmm).digest == with_record


def test_run_the_newest_run_of_a_folder(hmm, tmp_path):
    assert SavedRun.newest(hmm.parent).path == hmm
    (tmp_path / 'empty').mkdir()
    with pytest.raises(NoRun):
        SavedRun.newest(tmp_path / 'empty')


def test_run_a_run_of_the_tagging_layer_gives_its_tagger(hmm):
    tagger = tagging.Run.open(hmm).tagger()
    assert tagger.tag([['of']])[0].tags == ['O'] and tagger.scheme == SavedRun.open(hmm).scheme


def test_run_an_opened_model_is_returned_by_the_door_as_it_is(hmm):
    opened = open_model(hmm)
    assert open_model(opened) is opened
    with pytest.raises(CorpusError, match='no such file'):
        open_model(hmm.parent / 'none')


def test_run_a_file_that_is_replaced_after_the_run_was_opened_is_read(hmm):
    from ms_crf.runs.records import saving
    opened = SavedRun.open(hmm)
    for epoch in range(3):
        with saving(hmm) as new:
            new.text('metrics.jsonl', f'{{"epoch": {epoch}}}\n')
    assert opened.metrics == [{'epoch': 2}]
