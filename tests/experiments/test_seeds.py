"""`train.py --seeds`: a run for each seed, resuming stopped runs, and the table of all runs."""

import json
import os
import statistics
import subprocess
import sys

from ms_crf.cli import train
from ms_crf.runs.run import SavedRun

import pytest

from support.paths import ROOT
from support.trainings import SMALL, files

#: The training with seed 2 sends SIGINT to its parent process while it saves its first epoch. It continues when it
#: receives the stop signal of the parent.
HOOK = """
import os, signal, sys
def opened(event, arguments):
    if event == 'open' and str(arguments[0]).endswith('seed-2/.metrics.jsonl') and not told:
        told.append(True)
        come, comes = os.pipe()
        os.set_blocking(comes, False)
        before = signal.set_wakeup_fd(comes)                     # whichever thread the signal reaches
        os.kill(os.getppid(), signal.SIGINT)
        os.read(come, 1)
        signal.set_wakeup_fd(before)
told = []
sys.addaudithook(opened)
"""


def start(corpora, folder, *arguments, **environment):
    return subprocess.run([sys.executable, 'train.py', *files(corpora), *SMALL, '--save', str(folder), *arguments],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def again(corpora, folder, *arguments):
    """Runs the command in this process; it starts a process for each training."""
    return train.main([*files(corpora), *SMALL, '--save', str(folder), *arguments])


@pytest.mark.slow
def test_seeds_stopped_and_started_again(corpora, undisturbed, tmp_path, capfd):
    """A stopped command resumes, keeps finished runs, and writes the mean and standard deviation of all seeds.

    The weights of seed 1 are exactly the same as the weights of a single training. The table is compared with the
    scores in the runs.
    """
    folder = tmp_path / 'runs'
    (tmp_path / 'hook').mkdir()
    (tmp_path / 'hook' / 'sitecustomize.py').write_text(HOOK)
    result = start(corpora, folder, '--seeds', '2', PYTHONPATH=str(tmp_path / 'hook'))
    assert result.returncode == 130, result.stderr
    assert result.stderr.splitlines() == ['seed 1', 'seed 2', 'train.py: stopped; run the same command again to resume']
    assert f'\nstopped and saved; resume with: python train.py --resume {folder}/seed-2\n' in result.stdout
    weights = (folder / 'seed-1' / 'weights.ckpt').read_bytes()
    assert weights == (undisturbed[0] / 'weights.ckpt').read_bytes()
    assert not (folder / 'seeds.md').exists() and not (folder / 'seed-2' / 'scores.json').exists()

    times = (folder / 'seed-1' / 'scores.json').stat().st_mtime_ns
    assert again(corpora, folder, '--seeds', '2') == 0
    shown = capfd.readouterr()
    assert shown.err.splitlines() == ['train.py: 1 of 2 runs are finished already', 'seed 2']
    assert shown.out.count('resuming after epoch 1, ') == 1
    assert (folder / 'seed-1' / 'scores.json').stat().st_mtime_ns == times
    rows = [line.strip('| ').split(' | ') for line in (folder / 'seeds.md').read_text().splitlines()]
    assert '\n'.join((folder / 'seeds.md').read_text().splitlines()) in shown.out
    scores = [json.loads((folder / f'seed-{seed}' / 'scores.json').read_text()) for seed in (1, 2)]
    assert [row[0] for row in rows[2:]] == ['1', '2', 'mean ± deviation']
    for column, (part, rate) in enumerate([(part, rate) for part in ('dev', 'test') for rate in
                                           ('precision', 'recall', 'f1', 'accuracy')], 2):
        values = [100 * one[part][rate] for one in scores]
        assert [rows[2][column], rows[3][column]] == [f'{value:.2f}' for value in values]
        assert rows[4][column] == f'{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}'
    kept = json.loads((folder / 'seeds.json').read_text())
    assert [kept[seed]['test']['f1'] for seed in '12'] == [one['test']['f1'] for one in scores]
    assert [SavedRun.open(folder / f'seed-{seed}').config['options']['seed'] for seed in (1, 2)] == [1, 2]

    # All runs are finished: nothing is trained, and the table is the same. Different options are refused.
    assert again(corpora, folder, '--seeds', '2') == 0
    shown = capfd.readouterr()
    assert shown.err == 'train.py: 2 of 2 runs are finished already\n'
    assert shown.out.lstrip('\n').startswith((folder / 'seeds.md').read_text())
    assert again(corpora, folder, '--seeds', '2', '--clip', '1') == 2
    assert capfd.readouterr() == ('',
        f'train.py: {folder}/seed-1: expected a run with clip 1.0, got one with 5.0; choose another --save or delete '
        'it\n')


@pytest.mark.slow
def test_seeds_a_training_that_fails_ends_those_beside_it(corpora, tmp_path, capfd):
    """If one training fails, all running trainings are stopped and no further training starts.

    The vector file is damaged. One or both of the two running trainings report this before they compile a graph.
    """
    (tmp_path / 'vectors.txt').write_text('of 1 2\nto 1\n')
    status = train.main([*files(corpora), '--embeddings', str(tmp_path / 'vectors.txt'), '--save',
                         str(tmp_path / 'runs'), '--seeds', '3', '--seed', '5', '--jobs', '2'])
    shown = capfd.readouterr()
    lines = shown.err.splitlines()
    assert status == 2 and lines[-1] == (
        'train.py: a training ended with status 2, see above; finished runs are kept; run the same command '
        'again to continue')
    fault = f'train.py: {tmp_path}/vectors.txt:2: expected 2 numbers'
    failed = [seed for seed in (5, 6) if any(line.startswith(f'seed {seed}: {fault}') for line in lines)]
    assert failed and 'seed 7' not in lines
    for seed in failed:
        assert any(line.startswith(f'seed {seed}: train ') for line in shown.out.splitlines())
    assert not (tmp_path / 'runs').exists()


@pytest.mark.parametrize('arguments,message', [
    ('--jobs 2', '--jobs has no effect without --seeds; omit it'),
    ('--seeds 0', '--seeds must be at least 1, got 0'), ('--seeds 2 --jobs 0', '--jobs must be at least 1, got 0'),
    ('--seeds 2 --seed 2147483647', '--seed must be at most 2147483647, got 2147483648'),
    ('--seeds 2 --overwrite', '--overwrite cannot be combined with --seeds: finished runs in --save are kept; choose'),
    ('--seeds 2 --workers 2', '--workers cannot be combined with --seeds: workers share one run; use --jobs to'),
    ('--seeds 2 --resume {run}', '--resume cannot be combined with --seeds: --seeds resumes stopped runs in --save'),
    ('--seeds 2 --model hmm', '--seeds has no effect with --model hmm, which is estimated at once, without randomness'),
    ('--seeds 2 --save {run}', '{run}: expected a folder for runs, got a run; choose another --save'),
    ('--seeds 2 --save {other}', '{other}/seed-2/config.json: no such file; expected a run made by training'),
    ('--seeds 2 --save {file}', '{file}/seeds.md: cannot be written: ')])
def test_seeds_what_can_not_be(corpora, run, tmp_path, arguments, message, capsys):
    (tmp_path / 'other' / 'seed-2').mkdir(parents=True)
    (tmp_path / 'file').write_text('')
    names = {'run': run, 'other': tmp_path / 'other', 'file': tmp_path / 'file'}
    usual = [] if '--resume' in arguments else files(corpora)
    usual += [] if '--save' in arguments or '--resume' in arguments else ['--save', str(tmp_path / 'runs')]
    assert train.main([*usual, *arguments.format(**names).split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == '' and shown.err.startswith(f'train.py: {message.format(**names)}'), shown.err
    assert len(shown.err.splitlines()) == 1
