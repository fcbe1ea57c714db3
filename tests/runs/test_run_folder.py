"""Tests the files of a run directory when they are damaged or edited, or when a process is killed while it saves.

Other tests use one run directory from two processes.
"""

import errno
import json
import os
import random
import shutil
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError
from ms_crf.cli import export, infer, train
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs import checksums, directory, records
from ms_crf.runs.directory import Lock, RunDirectory
from ms_crf.runs.records import saving
from ms_crf.runs.run import SavedRun

import pytest

from support.paths import ROOT
from support.trainings import files


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != 'lock'}


# Damage

@pytest.mark.parametrize('name,read', [
    ('weights.ckpt', lambda run: records.read_tensors(run / 'weights.ckpt')),
    ('state.ckpt', lambda run: records.read_tensors(run / 'state.ckpt')),
    ('vocab.json', lambda run: SavedRun.open(run).vocabulary(Vocabulary)),
    ('metrics.jsonl', lambda run: SavedRun.open(run).metrics),
    ('checksums.json', SavedRun.open),
])
def test_run_folder_a_bit_that_flips_is_noticed(undisturbed, tmp_path, name, read):
    shutil.copytree(undisturbed[0], tmp_path / 'run')
    whole, rng = (tmp_path / 'run' / name).read_bytes(), random.Random(name)
    read(tmp_path / 'run')
    for bit in rng.sample(range(8 * len(whole)), 100):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / 'run' / name).write_bytes(damaged)
        if name == 'checksums.json' and json_of(damaged) == json_of(whole):
            continue                             # only white space changed, so the JSON has the same value
        with pytest.raises(CorpusError, match='damaged|expected JSON'):
            read(tmp_path / 'run')


def json_of(data):
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_run_folder_every_command_refuses_damaged_weights(undisturbed, tmp_path, capsys):
    shutil.copytree(undisturbed[0], tmp_path / 'run')
    damaged = bytearray((tmp_path / 'run' / 'weights.ckpt').read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / 'run' / 'weights.ckpt').write_bytes(damaged)
    run, graph = str(tmp_path / 'run'), str(tmp_path / 'a.mindir')
    for command, arguments in ((infer, ['--run', run, '--text', 'of']), (train, ['--resume', run]),
                               (export, ['--run', run, '--output', graph])):
        assert command.main([*arguments, '--device', 'CPU']) == 2
        assert f'{run}/weights.ckpt: expected the file that training wrote, got an edited' in capsys.readouterr().err


def test_run_folder_tables_and_configurations_that_were_edited_are_noticed(hmm):
    config, whole = json.loads((hmm / 'config.json').read_text()), contents(hmm)
    for change in ({'scheme': 'BIOES'}, {'found_scheme': 'IOB1'}, {'options': {**config['options'], 'add': 0.5}}):
        (hmm / 'config.json').write_text(json.dumps({**config, **change}))
        with pytest.raises(CorpusError, match='config.json: expected the file that training wrote, got an edited'):
            Tagger.load(hmm)
    (hmm / 'config.json').write_bytes(whole['config.json'])
    record = json.loads((hmm / 'vocab.json').read_text())
    (hmm / 'vocab.json').write_text(json.dumps({**record, 'tags': record['tags'][::-1]}))
    with pytest.raises(CorpusError, match='vocab.json: expected the file that training wrote'):
        Tagger.load(hmm)
    (hmm / 'vocab.json').write_bytes(whole['vocab.json'])
    (hmm / 'tables.npz').write_bytes(whole['tables.npz'][:-40] + bytes(40))
    with pytest.raises(CorpusError, match='tables.npz: expected the file that training wrote'):
        Tagger.load(hmm)


def test_run_folder_files_may_be_named_anew_in_a_configuration(hmm):
    config = json.loads((hmm / 'config.json').read_text())
    config['options'].update(train='/elsewhere/train.tsv', save='other')
    (hmm / 'config.json').write_text(json.dumps(config))
    assert Tagger.load(hmm).tag([['of']])[0].tags == ['O']


def test_run_folder_a_file_that_its_checksums_do_not_know_is_refused(hmm):
    listed = checksums.read(hmm)
    del listed['tables.npz']
    checksums.write(hmm, listed)
    with pytest.raises(CorpusError, match='tables.npz: expected the file that training wrote'):
        Tagger.load(hmm)


def test_run_folder_a_run_without_checksums_is_read_and_gets_them_when_it_is_written_to(hmm):
    (hmm / 'checksums.json').unlink()
    Tagger.load(hmm)
    records.write_json(hmm / 'scores.json', {})
    assert set(checksums.read(hmm)) == {'config.json', 'vocab.json', 'tables.npz', 'metrics.jsonl', 'scores.json'}
    Tagger.load(hmm)


def test_run_folder_a_reader_whose_file_is_replaced_meanwhile(hmm, monkeypatch):
    """Checks that a file may be replaced after its checksum was read and before the file is read.

    This happens when a training saves while another process reads the run.
    """
    real = checksums.file_digest

    def replaced(path, name=None):
        monkeypatch.setattr(checksums, 'file_digest', real)
        for number in range(3):
            with saving(hmm) as new:
                new.text('metrics.jsonl', f'{{"epoch": {number}}}\n')
        return real(path, name)
    monkeypatch.setattr(checksums, 'file_digest', replaced)
    checksums.Verified(hmm).check('metrics.jsonl')


# Crashes

CRASHES = '''
import json, os, shutil, sys
from pathlib import Path
from ms_crf.models.hmm.model_type import read_hmm
from ms_crf.runs import records
from ms_crf.runs.directory import RunDirectory
from ms_crf.runs.records import saving, settle
from ms_crf.runs.run import SavedRun
run, top = Path(sys.argv[1]), Path(sys.argv[2])

def killed_at(step, work):
    """Whether a process that does the work comes to a step: to replace, sync, rename or delete a file."""
    child = os.fork()
    if not child:
        left = [step]
        def counted(real):
            def call(*arguments, **options):
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)
                return real(*arguments, **options)
            return call
        for name in ('replace', 'fsync', 'rename', 'unlink', 'rmdir', 'mkdir'):
            setattr(os, name, counted(getattr(os, name)))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

def at_every_step(work, look):
    step, killed = 0, True
    while killed:
        shutil.rmtree(top, ignore_errors=True)
        shutil.copytree(run, top / 'run')
        killed = killed_at(step, work)
        look(killed)
        step += 1
    print(step)
'''

SAVING = CRASHES + '''
NEW = {'metrics.jsonl': '{"epoch": 7}\\n', 'scores.json': '{}', 'vocab.json': (run / 'vocab.json').read_text() + ' '}
before = {name: (run / name).read_text() for name in NEW}

def save():
    with saving(top / 'run') as new:
        for name, text in NEW.items():
            new.text(name, text)

def look(killed):
    folder = top / 'run'
    assert read_hmm(SavedRun.open(folder)).states and SavedRun.open(folder).config
    assert SavedRun.open(folder).metrics[0]['epoch'] in (0, 7)
    for name in NEW:
        assert (folder / name).read_text() in (before[name], NEW[name])
    settle(folder)
    after = {name: (folder / name).read_text() for name in NEW}
    assert after in (before, NEW) and (killed or after == NEW)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in run.iterdir())
    save()
    assert SavedRun.open(folder).metrics[0]['epoch'] == 7 and read_hmm(SavedRun.open(folder)).states

at_every_step(save, look)
'''

TAKING = CRASHES + '''
config, vocabulary = (json.loads((run / name).read_text()) for name in ('config.json', 'vocab.json'))
config['options']['add'] = 0.5

def overwrite():
    made = RunDirectory.new(top / 'run', overwrite=True)
    folder = made.create(config, vocabulary)
    assert folder != made.path
    with saving(folder) as new:
        with new.file('tables.npz') as draft:
            draft.write_bytes((top / 'run' / 'tables.npz').read_bytes())
    made.publish()

def look(killed):
    try:
        RunDirectory.new(top / 'run').release()
    except ValueError as error:
        assert 'expected a new folder' in str(error)       # a run is there, by whichever name before
    assert read_hmm(SavedRun.open(top / 'run')).states
    assert killed or SavedRun.open(top / 'run').config['options']['add'] == 0.5
    overwrite()
    assert SavedRun.open(top / 'run').config['options']['add'] == 0.5
    assert sorted(path.name for path in top.iterdir()) == ['run'], sorted(path.name for path in top.iterdir())

at_every_step(overwrite, look)
'''


@pytest.mark.slow
@pytest.mark.parametrize('program,steps', [
    (SAVING, 10), pytest.param(TAKING, 20, marks=pytest.mark.slow)])
def test_run_folder_killed_at_any_step_a_run_is_whole(hmm, tmp_path, program, steps):
    """Checks that a run is complete after a process was killed at any step.

    The process saves files, or replaces one run by another.
    """
    result = subprocess.run([sys.executable, '-c', program, str(hmm), str(tmp_path / 'top')], cwd=ROOT,
                            capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stderr) == (0, '')
    assert int(result.stdout) > steps


# Locks, and runs that replace other runs

def test_run_folder_one_training_at_a_time(hmm, corpora, capsys):
    """Checks that a second training in the same run directory is rejected, and that reading still works.

    The lock ends with the process that holds it.
    """
    arguments = ['--model', 'hmm', *files(corpora), '--save', str(hmm), '--overwrite']
    before = contents(hmm)
    program = (f'import sys; from ms_crf.runs.directory import Lock; lock = Lock({str(hmm)!r}); print("held")\n'
               'sys.stdin.read()')
    holder = subprocess.Popen([sys.executable, '-uc', program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    assert holder.stdout.readline() == 'held\n'
    assert train.main(arguments) == 2
    assert capsys.readouterr().err == (f'train.py: {hmm}: a training is already running there (process {holder.pid}); '
                                       'wait for its end or stop it\n')
    assert infer.main(['--run', str(hmm), '--text', 'of']) == 0
    holder.kill()
    holder.communicate(timeout=60)
    assert contents(hmm) == before
    assert train.main(arguments) == 0


def test_run_folder_a_lock_is_free_after_a_training_that_failed(hmm, corpora, tmp_path, capsys):
    (tmp_path / 'bad.tsv').write_text('a\n')
    for _ in range(2):
        assert train.main(['--model', 'hmm', *files(corpora, train=tmp_path / 'bad.tsv'), '--save', str(hmm),
                                   '--overwrite']) == 2
        assert 'bad.tsv:1: ' in capsys.readouterr().err
    Tagger.load(hmm)


def test_run_folder_file_systems_that_have_no_locks_or_can_not_be_written(hmm, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, 'No locks available')
    monkeypatch.setattr(directory.fcntl, 'flock', refuse)
    first, second = Lock(hmm), Lock(hmm)
    first.release(), second.release()
    monkeypatch.setattr(os, 'open', lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, 'Read-only file system')))
    with pytest.raises(CorpusError, match='run: cannot be written: Read-only file system'):
        Lock(hmm)


@pytest.mark.parametrize('renames_open', [True, False])
def test_run_folder_a_run_replaces_another_by_its_first_epoch(hmm, monkeypatch, renames_open):
    monkeypatch.setattr(directory, '_RENAMES_OPEN', renames_open)
    before, config, vocabulary = contents(hmm), *(json.loads((hmm / name).read_text()) for name in (
        'config.json', 'vocab.json'))
    new = RunDirectory.new(hmm, overwrite=True)
    with pytest.raises(CorpusError, match='a training is already running there'):
        RunDirectory.new(hmm, overwrite=True)
    folder = new.create(config, vocabulary)
    assert folder == hmm.with_name('.run.new') and contents(hmm) == before
    tables = (hmm / 'tables.npz').read_bytes()
    assert new.publish() == hmm and not (hmm / 'tables.npz').exists()
    with pytest.raises(CorpusError, match='a training is already running there'):
        RunDirectory.new(hmm, overwrite=True)
    with saving(hmm) as more, more.file('tables.npz') as draft:
        draft.write_bytes(tables)
    Tagger.load(hmm)
    new.release()
    assert [path.name for path in hmm.parent.iterdir()] == ['run']
    RunDirectory.new(hmm, overwrite=True).release()


def test_run_folder_a_run_stays_where_it_was_if_the_new_one_can_not_replace_it(hmm, monkeypatch):
    before, config, vocabulary = contents(hmm), *(json.loads((hmm / name).read_text()) for name in (
        'config.json', 'vocab.json'))
    new = RunDirectory.new(hmm, overwrite=True)
    folder = new.create(config, vocabulary)
    real = os.rename

    def refuse(source, target):
        if source == folder:
            raise OSError(errno.EIO, 'Input/output error')
        real(source, target)
    monkeypatch.setattr(os, 'rename', refuse)
    with pytest.raises(CorpusError, match=r'Input/output error; the new run is in .*\.run\.new'):
        new.publish()
    assert contents(hmm) == before and new.folder == folder


def test_run_folder_a_link_to_a_run_stays_one(hmm, corpora, tmp_path):
    link = tmp_path / 'newest'
    link.symlink_to(hmm)
    arguments = ['--model', 'hmm', *files(corpora), '--save', str(link), '--overwrite', '--add', '3']
    assert train.main(arguments) == 0
    assert link.is_symlink() and SavedRun.open(hmm).config['options']['add'] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ['newest', 'run']


def test_run_folder_the_newest_run_is_none_that_has_no_place_yet(hmm, tmp_path):
    shutil.copytree(hmm, tmp_path / '.other.new')
    assert records.newest(tmp_path) == hmm


def test_run_folder_a_run_can_not_name_a_program_to_import(hmm, tmp_path, monkeypatch):
    """Checks that a name in config.json never imports code.

    Only the --plugin option of the user runs code. The model type in config.json must be a registered name.
    """
    (tmp_path / 'evil.py').write_text(f'open({str(tmp_path / "ran")!r}, "w")\n')
    monkeypatch.syspath_prepend(tmp_path)
    config = SavedRun.open(hmm).config
    for name in ('evil', 'evil:Kind', str(tmp_path / 'evil.py'), '../evil'):
        records.write_json(hmm / 'config.json', {**config, 'model': name, 'plugin': str(tmp_path / 'evil.py')})
        with pytest.raises(CorpusError, match='expected "model" to be bilstm or encoder or hmm'):
            Tagger.load(hmm)
    assert not (tmp_path / 'ran').exists()
