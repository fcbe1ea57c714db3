"""Training with several workers: the same weights as with one process, stopping, crashes and errors."""

import json
import os
import re
import signal

from ms_crf import CRF
from ms_crf.base.errors import OptionError
from ms_crf.cli import train
from ms_crf.formats.dataset import load
from ms_crf.runs import records
from ms_crf.training.workers import ALONE, Workers, check_mean, share_of_batch

import numpy as np
import pytest

from support.encoders import arguments as encoder_arguments
from support.paths import ROOT
from support.trainings import SMALL, close_to, files, options_of, plugins_forgotten, printed, train_py

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures('steps_compiled_once')


def said(training):
    """Waits for a training, checks that it succeeds, and returns its output."""
    output, errors = training.communicate(timeout=200)
    assert (training.returncode, errors) == (0, '')
    return output


def epochs_in(text):
    """The lines of the epochs, without their times."""
    return [line.split(' s  ')[0].rpartition('  ')[0] for line in text.splitlines() if line.startswith('epoch')]


@slow
def test_workers_three_workers_learn_what_one_learns(corpora, undisturbed, tmp_path):
    """Three workers learn the same weights as one process, up to rounding.

    They share batches of 4 sentences. The last batch of an epoch has one sentence, so two workers have none.
    """
    folder, alone = undisturbed
    output = said(train_py(*files(corpora), *SMALL, '--workers', 3, '--save', tmp_path / 'run'))
    assert epochs_in(output) == epochs_in(alone.stdout) and 'WARNING' not in output
    steps = int(records.read_tensors(folder / records.STATE)['position'][2])
    close_to(folder, tmp_path / 'run', steps)
    scores = [json.loads((path / records.SCORES).read_text()) for path in (folder, tmp_path / 'run')]
    assert scores[0]['test']['f1'] == pytest.approx(scores[1]['test']['f1'])
    assert not list(tmp_path.parent.glob('*.log')) and not (ROOT / 'worker_0.log').exists()


OWN = ['--plugin', 'examples/own_model.py', '--model', 'mine', '--word-dim', '6', '--hidden', '8', '--epochs', '2',
       '--learning-rate', '0.05', '--device', 'CPU']


@slow
@pytest.mark.parametrize('model,count,steps', [('tuned encoder', 2, 12), ('own kind', 3, 22)])
def test_workers_learn_other_kinds_as_one_learns_them(corpora, encoder, tmp_path, model, count, steps):
    """Workers learn other model types like one process.

    The model types are a fine-tuned encoder in batches of 4 with two workers, and a custom model type in batches of 2
    with three workers, so that the third worker has no sentence.
    """
    alone, together = tmp_path / 'alone', tmp_path / 'together'

    def options(folder):
        if model == 'own kind':
            return [*files(corpora), '--plugin', ROOT / OWN[1], *OWN[2:], '--batch-size', 2, '--save', folder]
        return encoder_arguments(corpora, encoder, folder, '--encoder-lr', '1e-4')

    training = train_py(*options(together), '--workers', count)
    with plugins_forgotten():
        status, output, errors = printed(train.main, *options(alone))
    assert (status, errors) == (0, '') and len(epochs_in(output)) == 2
    assert epochs_in(said(training)) == epochs_in(output)
    scores = [json.loads((folder / records.SCORES).read_text()) for folder in (alone, together)]
    assert scores[0] == scores[1]
    close_to(alone, together, steps)


@slow
def test_workers_that_made_something_else_of_the_files_are_refused(corpora, tmp_path):
    """Workers with different vocabularies are refused.

    In practice this happens if words are numbered in the order of a set, which differs between processes.
    """
    (tmp_path / 'mine.py').write_text('import os, sys\nsys.path.insert(0, "examples")\nimport own_model\n'
                                      'own_model.Mine.known = classmethod(lambda *_: {"a": os.getpid()})\n')
    training = train_py(*files(corpora), '--plugin', tmp_path / 'mine.py', *OWN[2:], '--workers', 2, '--save',
                        tmp_path / 'run')
    output, errors = training.communicate(timeout=100)
    assert training.returncode == 2 and 'epoch   1' not in output and not (tmp_path / 'run').exists()
    assert errors == ('train.py: the workers have read different files, or built different '
                      'vocabularies from the same files; a vocabulary must not depend on the order of a set\n')


@slow
def test_workers_how_a_kind_of_ones_own_goes_on_is_said_with_its_plugin(corpora, tmp_path):
    training = train_py(*files(corpora), *OWN, '--epochs', 5000, '--patience', 0, '--save', tmp_path / 'run')
    for line in training.stdout:
        if line.startswith('epoch   1'):
            break
    training.send_signal(signal.SIGINT)
    output, errors = training.communicate(timeout=60)
    assert (training.returncode, errors) == (130, '')
    again = f'python train.py --plugin examples/own_model.py --resume {tmp_path}/run'
    assert output.splitlines()[-1] == f'stopped and saved; resume with: {again}'


@pytest.mark.parametrize('reduction', ['sum', 'token_mean'])
def test_workers_a_loss_that_is_no_mean_of_sentences_is_refused(reduction):
    """Several workers need the mean loss of the sentences, because each worker weighs its loss by its sentences."""
    with pytest.raises(OptionError, match=re.escape(
            "several workers need a head with reduction='mean', the mean loss of the sentences, got "
            f"reduction={reduction!r}")):
        check_mean(CRF(3, reduction=reduction))
    check_mean(CRF(3, reduction='mean'))


@slow
@pytest.mark.parametrize('end', ['asked', 'killed'])
def test_workers_what_ends_too_early_goes_on_with_another_number(corpora, tmp_path, end):
    """A training with two workers that stops early is resumed by one process, and learns the same weights.

    Workers that receive Ctrl-C save their state. If a worker is killed, the state of the last epoch is kept.
    """
    run, arguments = tmp_path / 'run', [*files(corpora), *SMALL, '--schedule', 'constant', '--patience', '0']
    training = train_py(*arguments, '--epochs', 5000, '--workers', 2, '--save', run)
    for line in training.stdout:
        if line.startswith('epoch   1'):
            break
    if end == 'asked':
        training.send_signal(signal.SIGINT)
    else:
        os.kill(worker(training.pid, 1), signal.SIGKILL)
    output, errors = training.communicate(timeout=60)
    again = f'python train.py --resume {run}'
    if end == 'asked':
        assert (training.returncode, errors) == (130, '')
        assert output.splitlines()[-1] == f'stopped and saved; resume with: {again}'
    else:
        assert training.returncode == 2 and errors.endswith(
            f' has died; all workers were stopped, saved epochs are kept; resume with: {again} --workers 2\n')
        assert errors.startswith('train.py: worker 1 of 2 (process ') and errors.count('\n') == 1
    epochs, step, steps, _ = records.read_tensors(run / records.STATE)['position'].tolist()
    assert 0 < epochs < 5000
    assert train.main(['--resume', str(run), '--epochs', str(epochs + 1)]) == 0
    assert train.main([*arguments, '--epochs', str(epochs + 1), '--save', str(tmp_path / 'alone')]) == 0
    close_to(tmp_path / 'alone', run, (steps - step) // epochs * (epochs + 1))


def worker(launcher, rank):
    """The process id of the worker with this rank, among the children of the launcher."""
    waiting = [launcher]
    while waiting:
        process = waiting.pop()
        with open(f'/proc/{process}/task/{process}/children') as file:
            waiting += map(int, file.read().split())
        with open(f'/proc/{process}/environ', 'rb') as said, open(f'/proc/{process}/cmdline') as called:
            started = {b'RANK_ID=%d' % rank, b'MS_ROLE=MS_WORKER'} <= set(said.read().split(b'\0'))
            if started and 'worker.py' in called.read():
                return process
    raise AssertionError(f'no worker {rank}')


@slow
def test_workers_a_fault_of_the_input_is_one_line(corpora, tmp_path):
    (tmp_path / 'odd.tsv').write_text('a\tO\nb\n')
    training = train_py(*files(corpora, dev=tmp_path / 'odd.tsv'), *SMALL, '--workers', 2, '--save', tmp_path / 'run')
    output, errors = training.communicate(timeout=100)
    assert training.returncode == 2 and output == '' and not (tmp_path / 'run').exists()
    assert errors.startswith(f'train.py: {tmp_path}/odd.tsv:2: expected columns 0 and -1') and errors.count('\n') == 1


@pytest.mark.parametrize('arguments,message', [
    (['--workers', '0'], '--workers must be at least 1, got 0'),
    (['--workers', '2', '--model', 'hmm'],
     '--workers has no effect with --model hmm, which is estimated at once, by one process; omit it')])
def test_workers_faults_of_the_option(corpora, tmp_path, arguments, message, capfd):
    assert train.main([*files(corpora), *arguments, '--save', str(tmp_path / 'run')]) == 2
    assert capfd.readouterr() == ('', f'train.py: {message}\n') and not (tmp_path / 'run').exists()


@pytest.mark.parametrize('count', [2, 3, 40])
def test_workers_shares_of_a_batch_make_up_the_batch(corpora, tmp_path, count):
    """The workers' shares of a batch make up the batch: each sentence is in one share.

    All shares have the same words, so that the gradients of the word table can be added.
    """
    from ms_crf.models.base import kind_of
    options = options_of([*files(corpora), *SMALL, '--save', str(tmp_path / 'run')])
    corpus = load({part: getattr(options, part) for part in ('train', 'dev')})

    class Silent:
        def say(self, text):
            pass

    learner = kind_of(options).learner(options, corpus, Silent())
    batch = learner.plan(np.random.default_rng(0))[0]
    shape, indices, *_ = batch
    words, form_words, long, short, places, lengths, tags = share_of_batch(learner, batch, ALONE)
    parts = [share_of_batch(learner, batch, Workers(rank, count)) for rank in range(count)]
    for rank, part in enumerate(parts):
        for array, own in zip((words, form_words, long, short), part):
            assert (array == own).all()
        rows = list(range(shape.rows))[rank::count] or [0]                   # row 0 with weight 0
        for array, own in zip((places.T, lengths, tags.T), (part[4].T, part[5], part[6].T)):
            assert array[rows].tolist() == own.tolist() and part[4].flags.c_contiguous
        assert Workers(rank, count).rows_of_array(places).tolist() == part[4].tolist()
    shares = [Workers(rank, count).share(len(indices)) for rank in range(count)]
    assert sum(shares) == pytest.approx(1)
    assert [round(share * len(indices)) for share in shares] == [
        (part[5] > 0).sum() if rank < shape.rows else 0 for rank, part in enumerate(parts)]
