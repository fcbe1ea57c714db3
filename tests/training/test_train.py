"""`train.py` from files to a run directory: stopped, killed and resumed trainings, and invalid input."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError
from ms_crf.cli import infer, train
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course, trainer
from ms_crf.training.watchers import Stopped

import numpy as np
import pytest

from support.paths import ROOT
from support.runs import write_tensors
from support.trainings import SMALL, StopAt, assert_same_bits, files, options_of

pytestmark = pytest.mark.usefixtures('steps_compiled_once')

def test_train_what_a_run_prints_and_leaves(undisturbed):
    folder, result = undisturbed
    assert result.returncode == 0, result.stderr
    assert 'WARN' not in result.stdout + result.stderr and 'Traceback' not in result.stderr
    assert result.stderr == ''                                   # the progress bar appears only on terminals
    lines = result.stdout.splitlines()
    assert lines[0].split() == ['train', '21', 'sentences', str(sum(map(bool, (folder.parent / 'train.tsv').read_text(
        ).splitlines()))), 'tokens']
    assert 'scheme: BIO; 3 tags' in lines
    assert sum(line.startswith('compiled the training graph for 4 sentences of up to 5 ') for line in lines) == 1
    assert sum(line.startswith('epoch ') for line in lines) == 3
    assert re.fullmatch(r'saved in .*; \d+ s, \d+\.\d of them compiling', lines[-1])
    metrics = [json.loads(line) for line in (folder / records.METRICS).read_text().splitlines()]
    scores = json.loads((folder / records.SCORES).read_text())
    best = max(metrics, key=lambda record: record['f1'])         # the first of the best epochs
    assert scores['best_epoch'] == best['epoch'] and scores['dev']['f1'] == best['f1']
    assert scores['test']['f1'] > 0.9
    assert scores['test']['table'][1] in lines
    assert {file.name for file in folder.iterdir()} == {
        records.CONFIG, records.VOCABULARY, records.WEIGHTS, records.STATE, records.METRICS,
        records.SCORES, records.CHECKSUMS, 'lock'}
    config = json.loads((folder / records.CONFIG).read_text())
    assert config['options']['average'] == 0.9 and config['options']['dropout_between'] == 0.4
    assert json.loads((folder / records.VOCABULARY).read_text())['tags'] == ['O', 'B-PER', 'I-PER']


@pytest.mark.slow
@pytest.mark.parametrize('earlier', [False, True])
def test_train_without_a_scheme_scores_as_tagging_does_and_goes_on_in_its_own(corpora, tmp_path, capsys, earlier):
    """A CRF learns BIO files as BIOES, and is scored and tags in BIO: `infer.py` prints the same scores.

    A run of an earlier version, when BIO was the default, stays in BIO when it is resumed.
    """
    folder = tmp_path / 'run'
    small = [text for text in SMALL if text not in ('--scheme', 'BIO')]
    arguments = [*files(corpora), *small, *(['--scheme', 'BIO'] if earlier else []), '--save', str(folder)]
    with pytest.raises(Stopped):
        course.start(options_of(arguments), StopAt(8)).run()
    if earlier:
        config = SavedRun.open(folder).config
        config['options']['scheme'] = 'auto'
        del config['written_scheme']
        records.write_json(folder / records.CONFIG, config)
    assert train.main(['--resume', str(folder), '--device', 'CPU']) == 0
    assert SavedRun.open(folder).config['scheme'] == ('BIO' if earlier else 'BIOES')
    if earlier:
        assert json.loads((folder / records.VOCABULARY).read_text())['tags'] == ['O', 'B-PER', 'I-PER']
        return
    table = json.loads((folder / records.SCORES).read_text())['test']['table']
    capsys.readouterr()
    assert infer.main(['--run', str(folder), '--input', str(corpora / 'test.tsv'), '--score', '--device', 'CPU']) == 0
    assert capsys.readouterr().out.splitlines()[-len(table):] == table
    assert infer.main(['--run', str(folder), '--input', str(corpora / 'test.tsv'), '--format', 'conll']) == 0
    tags = {line.split('\t')[1] for line in capsys.readouterr().out.splitlines() if line}
    assert {'O', 'B-PER'} <= tags <= {'O', 'B-PER', 'I-PER'}


@pytest.mark.slow
def test_train_stopped_and_resumed_is_the_same_to_the_bit(corpora, undisturbed, tmp_path):
    """A training stopped twice and resumed has exactly the same weights as an uninterrupted training.

    It is stopped within the first epoch, before anything was saved, and again within the third epoch.
    """
    options = options_of([*files(corpora), *SMALL, '--save', str(tmp_path / 'run')])
    run = course.start(options, StopAt(4))
    with pytest.raises(Stopped):
        run.run()
    assert (run.epoch, run.step_in_epoch) == (0, 4)
    for stop in (9, -1):
        run = course.resume(tmp_path / 'run', options, StopAt(stop))
        if stop > 0:
            with pytest.raises(Stopped):
                run.run()
        else:
            run.run()
    assert_same_bits(tmp_path / 'run', undisturbed[0])


#: The training kills its own process while it saves the second epoch.
KILLED = """
import os, signal, sys
def opened(event, arguments):
    if event == 'open' and str(arguments[0]).endswith('.metrics.jsonl'):
        if os.path.exists(os.path.join(os.path.dirname(arguments[0]), 'state.ckpt')):
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(opened)
"""


@pytest.mark.slow
def test_train_killed_and_resumed_is_the_same_to_the_bit(corpora, undisturbed, tmp_path, capsys):
    folder = tmp_path / 'run'
    (tmp_path / 'sitecustomize.py').write_text(KILLED)
    command = [sys.executable, 'train.py', *files(corpora), *SMALL, '--save', str(folder)]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=200,
                            env={**os.environ, 'PYTHONPATH': str(tmp_path)})
    assert result.returncode == -signal.SIGKILL
    assert records.read_tensors(folder / records.STATE)['position'][0] == 1
    assert train.main(['--resume', str(folder)]) == 0
    assert capsys.readouterr().err == ''
    assert_same_bits(folder, undisturbed[0])


@pytest.mark.slow
def test_train_a_disk_that_is_full(corpora, undisturbed, tmp_path, capsys):
    """If the disk is full, the error is one line and no partial files are left.

    A limit of the file size, one byte less than the state needs, stands for a full disk.
    """
    resource = pytest.importorskip('resource')
    folder, before = tmp_path / 'run', resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = (undisturbed[0] / records.STATE).stat().st_size - 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        assert train.main([*files(corpora), *SMALL, '--save', str(folder)]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capsys.readouterr().err == (
        f'train.py: {folder}/state.ckpt: cannot be written: File too large; the previous files are unchanged\n')
    assert sorted(file.name for file in folder.iterdir()) == ['checksums.json', 'config.json', 'lock', 'vocab.json']


def test_train_metrics_that_are_damaged(undisturbed, tmp_path, capsys):
    folder = tmp_path / 'run'
    shutil.copytree(undisturbed[0], folder)
    (folder / records.METRICS).write_text('{"epoch": 1\n')
    (folder / records.CHECKSUMS).unlink()
    assert train.main(['--resume', str(folder)]) == 2
    assert capsys.readouterr().err.startswith(f'train.py: {folder}/metrics.jsonl: expected JSON as training writes it:')


@pytest.mark.slow
def test_train_a_signal_saves_and_says_how_to_go_on(corpora, tmp_path, capsys):
    """A training whose terminal is closed saves its state and prints how to resume.

    While it runs, no second training can use its folder, but a tagger can load the run. `test_workers` tests Ctrl-C.
    """
    folder = tmp_path / 'run'
    command = [sys.executable, '-u', 'train.py', *files(corpora), *SMALL, '--save', str(folder), '--epochs', '100000',
               '--patience', '0']
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith('epoch   2'):
            break
    for arguments in (['--resume', str(folder)], [*files(corpora), *SMALL, '--save', str(folder), '--overwrite']):
        assert train.main([*arguments, '--device', 'CPU']) == 2
        assert capsys.readouterr().err == (f'train.py: {folder}: a training is already running there (process '
                                           f'{process.pid}); wait for its end or stop it\n')
    Tagger.load(folder)
    process.send_signal(signal.SIGHUP)
    rest, errors = process.communicate(timeout=100)
    assert process.returncode == 130 and errors == ''
    assert rest.splitlines()[-1] == f'stopped and saved; resume with: python train.py --resume {folder}'
    epoch = records.read_tensors(folder / records.STATE)['position'][0]
    assert epoch >= 2
    options = SavedRun.open(folder).options
    assert course.resume(folder, options, StopAt(1)).epoch == epoch


@pytest.mark.slow
def test_train_options_of_a_resumption_are_kept(undisturbed, tmp_path, capsys, monkeypatch):
    folder = tmp_path / 'run'
    shutil.copytree(undisturbed[0], folder)
    monkeypatch.setattr(train, 'TrainingTerminal', lambda: StopAt(7))
    assert train.main(['--resume', str(folder), '--epochs', '5', '--patience', '0', '--device', 'CPU']) == 130
    assert records.read_tensors(folder / records.STATE)['position'][:2].tolist() == [4, 1]
    monkeypatch.undo()
    assert train.main(['--resume', str(folder), '--device', 'CPU']) == 0
    assert json.loads((folder / records.SCORES).read_text())['epochs'] == 5
    config, before = (json.loads((place / records.CONFIG).read_text()) for place in (folder, undisturbed[0]))
    before['options'].update(epochs=5, patience=0)
    assert config == before


@pytest.mark.slow
def test_train_the_run_that_is_overwritten_stays_until_an_epoch_is_saved(corpora, undisturbed, tmp_path, monkeypatch):
    """With `--overwrite` the old run stays until the new training has saved an epoch.

    A new training that is stopped earlier is kept in another folder. It replaces the old run when it is resumed.
    """
    folder = tmp_path / 'run'
    shutil.copytree(undisturbed[0], folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != 'lock'}
    watcher = StopAt(2)
    monkeypatch.setattr(train, 'TrainingTerminal', lambda: watcher)
    arguments = [*files(corpora), *SMALL, '--seed', '2', '--save', str(folder), '--overwrite']
    assert train.main(arguments) == 130
    assert watcher.output.getvalue().splitlines()[-1] == (
        f'stopped and saved; {folder} still holds the earlier run; resume with: python train.py --resume '
        f'{tmp_path}/.run.new')
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != 'lock'} == before
    other = tmp_path / 'other'
    shutil.copytree(tmp_path / '.run.new', other)                # a copy, which is resumed as a run of its own
    watcher = train.TrainingTerminal(io.StringIO())
    options = SavedRun.open(folder).options
    course.resume(folder, options, watcher).directory.release()
    assert f'{tmp_path}/.run.new holds a training that was stopped' in watcher.output.getvalue()
    assert train.main(['--resume', str(tmp_path / '.run.new'), '--device', 'CPU']) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ['other', 'run']
    assert train.main(['--resume', str(other), '--device', 'CPU']) == 0
    assert_same_bits(folder, other)
    assert json.loads((folder / records.CONFIG).read_text())['options']['seed'] == 2


@pytest.mark.slow
def test_train_a_loss_that_is_no_number(corpora, tmp_path, capsys, monkeypatch):
    folder = tmp_path / 'run'
    real = trainer.make_step

    def make(*arguments):
        step, count = real(*arguments), [0]

        def poisoned(*tensors):
            loss, norm = step(*tensors)
            count[0] += 1
            return (loss * np.nan if count[0] == 8 else loss), norm
        return poisoned
    monkeypatch.setattr(trainer, 'make_step', make)
    assert train.main([*files(corpora), *SMALL, '--save', str(folder)]) == 2
    message = capsys.readouterr().err
    assert message.startswith('train.py: step 2 of epoch 2: loss nan, norm of gradients ')
    assert 'train.tsv lines ' in message and f'{folder} holds epoch 1; try --resume' in message
    assert len(message.splitlines()) == 1
    assert records.read_tensors(folder / records.STATE)['position'][0] == 1


@pytest.mark.parametrize('arguments,message', [
    (['--train', 'nowhere.tsv'], 'nowhere.tsv: no such file'),
    (['--train', '{empty}'], 'empty.tsv: expected tagged sentences, got none'),
    (['--train', '{short}'], "short.tsv:2: expected columns 0 and -1 to hold token and tag, separated by tabs or "
                             "spaces, got 'b'"),
    (['--train', '{latin}'], 'latin.tsv:1: expected UTF-8, got byte 0xe9 at column 1'),
    (['--train', '{noscheme}'], "noscheme.tsv:2: expected 'O' or one of B, I, E, M, S with a type like 'B-PER', got "
                                "'NOUN'"),
    (['--embeddings', '{narrow}'], "narrow.txt:2: expected 2 numbers after 'to' as in the first line, got 1"),
    (['--embeddings', '{nan}'], "nan.txt:1: expected finite numbers, got nan as number 1 of 'of'"),
    (['--save', '{empty}'], 'empty.tsv: expected a new folder, got a file; choose another --save'),
    (['--save', '{folder}'], 'bad: expected a new folder, got an existing one; choose another --save, '),
    (['--save', '{empty}/x/y'], 'empty.tsv is not a folder that you may write to'),
    (['--save', '{folder}', '--overwrite'], 'expected a run to overwrite, got something else'),
    (['--columns', '1'], "--columns must be two numbers like 0,-1, got '1'"),
    (['--hidden', '7'], '--hidden must be even, half for each direction, got 7'),
    (['--dropout-embedding', '1'], '--dropout-embedding must be at most 0.95, got 1.0'),
    (['--learning-rate', 'nan'], '--learning-rate must be at least 1e-12, got nan'),
    (['--precision', 'mixed'], '--precision mixed needs a GPU or Ascend, got CPU; omit it'),
    (['--nonsense'], 'unrecognized arguments: --nonsense; see --help'),
    (['--config', '{empty}'], 'empty.tsv:1: expected a JSON object of options: '),
    (['--config', '{options}'], "options.json: unknown option 'hiden'; did you mean hidden?"),
    (['--resume', '{empty}'], 'config.json: no such file; expected a run made by training'),
    (['--resume', '{folder}'], 'config.json: no such file; expected a run made by training'),
    (['--resume', '{folder}', '--hidden', '8'], '--resume can only be combined with --device, --epochs, --patience, '),
])
def test_train_bad_input_is_one_line_and_leaves_nothing(corpora, tmp_path, capsys, arguments, message):
    bad = tmp_path / 'bad'
    bad.mkdir()
    for name, content in {
            'empty.tsv': b'', 'short.tsv': b'a\tO\nb\n', 'latin.tsv': b'\xe9\tO\n',
            'noscheme.tsv': b'a\tB-PER\nb\tNOUN\n',
            'narrow.txt': b'of 1 2\nto 1\n', 'nan.txt': b'of nan 2\n',
            'options.json': b'{"hiden": 8}'}.items():
        (bad / name).write_bytes(content)
    places = {name.split('.')[0]: str(bad / name) for name in os.listdir(bad)}
    arguments = [argument.format(**places, folder=bad) for argument in arguments]
    if '--resume' not in arguments:
        small = SMALL[2:] if '--embeddings' in arguments else SMALL      # omits --word-dim
        arguments = [*files(corpora), *small, '--save', str(tmp_path / 'run'), *arguments]
    before = sorted(tmp_path.rglob('*'))
    assert train.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith('train.py: ') and message in error and len(error.splitlines()) == 1, error
    assert sorted(tmp_path.rglob('*')) == before


def test_train_a_run_whose_files_have_changed(undisturbed, corpora, tmp_path, capsys):
    """The error names a damaged state, a missing tensor or a changed vocabulary."""
    folder = tmp_path / 'run'
    folder.mkdir()
    for file in undisturbed[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    checksums = folder / records.CHECKSUMS
    checksums.unlink()                                           # earlier versions wrote no checksums
    state = folder / records.STATE
    state.chmod(0o644)
    whole = state.read_bytes()
    state.write_bytes(whole[:len(whole) // 2])
    assert train.main(['--resume', str(folder)]) == 2
    assert f'{state}: expected tensors as training writes them' in capsys.readouterr().err
    arrays = records.read_tensors(undisturbed[0] / records.STATE)
    del arrays['first.projection.weight']
    write_tensors(state, arrays)
    assert train.main(['--resume', str(folder)]) == 2
    assert f'{state}: expected a tensor first.projection.weight, got none' in capsys.readouterr().err
    checksums.unlink()
    vocabulary = folder / records.VOCABULARY
    vocabulary.write_text(vocabulary.read_text().replace('"Xan"', '"Xon"'))
    assert train.main(['--resume', str(folder)]) == 2
    assert 'the training files or word vectors have changed since the run was started' in capsys.readouterr().err


def test_train_a_run_without_its_state_is_not_begun_anew(undisturbed, tmp_path, capsys):
    folder = tmp_path / 'run'
    shutil.copytree(undisturbed[0], folder)
    (folder / records.STATE).unlink()
    before = (folder / records.WEIGHTS).read_bytes()
    assert train.main(['--resume', str(folder), '--device', 'CPU']) == 2
    assert capsys.readouterr().err == (
        f'train.py: {folder}/state.ckpt: no such file; a training with finished epochs cannot resume without it; '
        'tagging with weights.ckpt still works; restore the file, or start a new training in another folder\n')
    assert (folder / records.WEIGHTS).read_bytes() == before


def test_train_a_run_without_the_weights_of_its_best_epoch_does_not_go_on(undisturbed, tmp_path, capsys):
    folder = tmp_path / 'run'
    shutil.copytree(undisturbed[0], folder)
    (folder / records.WEIGHTS).unlink()
    assert train.main(['--resume', str(folder), '--device', 'CPU']) == 2
    assert f'{folder}/weights.ckpt: no such file' in capsys.readouterr().err


def test_train_text_and_vectors_have_to_be_those_that_a_run_began_with(corpora, tmp_path):
    """A training cannot be resumed with changed text or vectors, even if the vocabulary stays the same.

    Runs of earlier versions have no checksums; their files must be named again.
    """
    for part in ('train', 'dev', 'test'):
        shutil.copy(corpora / f'{part}.tsv', tmp_path / f'{part}.tsv')
    vectors = tmp_path / 'vectors.txt'
    vectors.write_text('of 0.1 0.2\nto 0.3 0.4\nXan 0.5 0.6\nelsewhere 0.7 0.8\n')
    folder = tmp_path / 'run'
    options = options_of([*files(tmp_path), *SMALL[2:], '--embeddings', str(vectors), '--save',
                                        str(folder)])
    course.start(options, StopAt(1)).directory.release()

    def check(name, old, new, message):
        path = tmp_path / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(CorpusError, match=message):
            course.resume(folder, options, StopAt(1))
        path.write_text(text)
    first = (tmp_path / 'train.tsv').read_text().split('\n\n')[0] + '\n\n'
    check('train.tsv', first, first + first, 'train.tsv: the sentences have changed since .*run was started; restore')
    check('train.tsv', 'of\tO', 'of\tB-PER', 'train.tsv: the sentences have changed')
    check('dev.tsv', 'of\tO', 'of\tB-PER', 'dev.tsv: the sentences have changed')
    check('vectors.txt', '0.6', '0.7', 'vectors.txt: the vectors have changed')
    vectors.write_text(vectors.read_text().replace('0.8', '0.9'))           # the vector of an unused word
    course.resume(folder, options, StopAt(1)).directory.release()
    config = SavedRun.open(folder).config
    for name in ('text_sha256', 'dev_sha256', 'vectors_sha256', 'corpus_sha256'):
        del config[name]
    records.write_json(folder / records.CONFIG, config)
    (tmp_path / 'train.tsv').write_text((tmp_path / 'train.tsv').read_text().replace('of\tO', 'of\tB-PER', 1))
    with pytest.raises(CorpusError, match='has no checksum in config.json, and could be any file; restore the '
                                          'file, or name it with train'):
        course.resume(folder, options, StopAt(1))
    parts = {part: str(tmp_path / f'{part}.tsv') for part in ('train', 'dev', 'test')}
    course.resume(folder, options, StopAt(1), named=parts).directory.release()
    course.resume(folder, options, StopAt(1)).directory.release()            # now the run has checksums


@pytest.mark.slow
def test_train_a_run_from_somebody_else_names_files_of_this_machine(undisturbed, corpora, tmp_path, capsys):
    """A run of another person names files of this machine: their contents are not printed.

    Files that have moved can be named with options, and the run keeps their new paths.
    """
    folder, secret = tmp_path / 'run', tmp_path / 'secret'
    shutil.copytree(undisturbed[0], folder)
    secret.write_text('Host SECRET\n  User SECRET\nSECRET')
    before = SavedRun.open(folder).config
    for part in ('train', 'dev', 'test', 'embeddings'):
        config = {**before, 'options': {**before['options'], part: str(secret)}}
        records.write_json(folder / records.CONFIG, config)
        assert train.main(['--resume', str(folder), '--device', 'CPU']) == 2
        printed = ''.join(capsys.readouterr())
        assert 'SECRET' not in printed and f' have changed since {folder} was started; restore' in printed, printed
    records.write_json(folder / records.CONFIG, before)
    shutil.copy(corpora / 'dev.tsv', tmp_path / 'moved.tsv')
    for _ in range(2):
        moved = ['--dev', str(tmp_path / 'moved.tsv')] if _ == 0 else []
        assert train.main(['--resume', str(folder), '--device', 'CPU', *moved]) == 0
    assert SavedRun.open(folder).config['options']['dev'] == str(tmp_path / 'moved.tsv')
    assert train.main(['--resume', str(folder), '--device', 'CPU', '--dev', str(corpora / 'test.tsv')]) == 2
    assert 'test.tsv: the sentences have changed' in capsys.readouterr().err
