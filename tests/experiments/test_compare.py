"""`python -m ms_crf.compare`: its figures agree with the scores in the runs; invalid options and signals."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

from ms_crf.cli import compare
from ms_crf.experiments.folds import documents_of, folds_of
from ms_crf.formats.registry import read_corpus
from ms_crf.text.splitting import splitter_named

import pytest

from support.paths import ROOT
from support.trainings import SMALL, files


def rows(sentences):
    """The tokens and tags of each sentence."""
    return [(sentence.tokens, sentence.tags) for sentence in sentences]


@pytest.mark.slow
def test_compare_a_comparison(corpora, tmp_path, capfd):
    record, kept = tmp_path / 'all.json', tmp_path / 'runs'
    config = tmp_path / 'options.json'
    config.write_text('{"epochs": 7, "add": 0.25, "columns": "0,1"}')
    assert compare.main([*files(corpora), '--models', 'hmm,crf', '--seeds', '1', *SMALL, '--config', str(config),
                         '--epochs', '1', '--json', str(record), '--keep', str(kept)]) == 0
    shown = capfd.readouterr()
    lines = shown.out.splitlines()
    assert [line.split(' | ')[0] for line in lines[2:]] == ['| hmm', '| crf'] and lines[3].split(' | ')[1] == '1'
    assert 'crf, seed 1 of 1' in shown.err
    figures = json.loads(record.read_text())
    assert len(figures['hmm']) == 1 and [run['seed'] for run in figures['crf']] == [1]
    # Each model gets only its own options.
    options = {name: json.loads((kept / f'{name}-1' / 'config.json').read_text())['options'] for name in figures}
    assert (options['hmm']['add'], options['hmm']['hidden'], options['hmm']['epochs']) == (0.25, 200, None)
    assert (options['crf']['add'], options['crf']['hidden'], options['crf']['epochs']) == (0.1, 6, 1)
    assert options['hmm']['columns'] == options['crf']['columns'] == '0,1'
    for name, runs in figures.items():
        for run in runs:
            scores = json.loads((kept / f'{name}-{run["seed"]}' / 'scores.json').read_text())['test']
            for key in ('precision', 'recall', 'f1', 'accuracy'):
                assert run[key] == pytest.approx(scores[key])
            assert 0 <= run['ill_formed'] <= 1 and run['train_seconds'] > 0 and run['sentences_per_second'] > 0
    assert all(run['ill_formed'] == 0 for run in figures['crf'])


def in_folds(corpora, *arguments):
    return compare.main(['--train', str(corpora / 'train.tsv'), '--models', 'hmm', *map(str, arguments)])


@pytest.mark.slow
def test_compare_a_cross_validation(corpora, tmp_path, capfd):
    """A cross-validation of 21 sentences in four folds, two at a time: each sentence is tested once.

    The table has the mean and standard deviation of the scores in the runs.
    """
    record, kept = tmp_path / 'all.json', tmp_path / 'runs'
    assert in_folds(corpora, '--folds', 4, '--jobs', 2, '--json', record, '--keep', kept, '--columns', '0,1') == 0
    shown = capfd.readouterr()
    assert '4 folds of 5 to 6 sentences\n' in shown.err and 'hmm, fold 4 of 4: on test:\n' in shown.err
    figures = json.loads(record.read_text())['hmm']
    assert [run['fold'] for run in figures] == [1, 2, 3, 4]
    parts = [{part: [tuple(sentence.tokens) for sentence in read_corpus(kept / f'fold-{number}' / f'{part}.jsonl')]
              for part in ('train', 'dev', 'test')} for number in range(1, 5)]
    everything = sorted(tuple(sentence.tokens) for sentence in read_corpus(corpora / 'train.tsv'))
    assert sorted(tokens for fold in parts for tokens in fold['test']) == everything
    assert all(sorted(fold['train'] + fold['dev'] + fold['test']) == everything for fold in parts)
    assert [fold['dev'] for fold in parts] == [parts[number % 4]['test'] for number in range(1, 5)]
    scores = [json.loads((kept / f'hmm-fold-{number}' / 'scores.json').read_text())['test']['f1'] for number in
              range(1, 5)]
    assert [run['f1'] for run in figures] == pytest.approx(scores)
    row = shown.out.splitlines()[2].split(' | ')
    assert row[:2] == ['| hmm', '4']
    assert row[4] == f'{100 * statistics.mean(scores):.2f} ± {100 * statistics.stdev(scores):.2f}'


@pytest.mark.slow
def test_compare_a_cross_validation_with_a_dev_file_and_another_seed(corpora, tmp_path):
    kept = tmp_path / 'runs'
    assert in_folds(corpora, '--folds', 2, '--dev', corpora / 'dev.tsv', '--seed', 7, '--keep', kept) == 0
    dev = rows(read_corpus(corpora / 'dev.tsv'))
    assert [rows(read_corpus(kept / f'fold-{number}' / 'dev.jsonl')) for number in (1, 2)] == [dev, dev]
    documents = documents_of(corpora / 'train.tsv', (0, -1), splitter_named('blanks'))
    assert rows(read_corpus(kept / 'fold-1' / 'test.jsonl')) == rows(folds_of('x', documents, 2, 7)[0])


@pytest.mark.parametrize('arguments,message', [
    ('--folds 2', '--folds must be at least 3 without --dev, got 2'),
    ('--folds 22', '{train}: expected at least 22 sentences for 22 folds, got 21'),
    ('--folds 3 --seed -1', '--seed must be at least 0, got -1'),
    ('--folds 3 --train {absent}', '{absent}: no such file'),
    ('--folds 3 --train {odd}', "{odd}:2: expected columns 0 and -1 to hold token and tag"),
    ('--folds 3 --hidden 10', '--hidden has no effect on hmm'),
    ('--folds 3 --keep {kept}', '{kept}/fold-2: expected a free path, but it exists; choose another')])
def test_compare_what_can_not_be_cut(corpora, tmp_path, arguments, message, capsys):
    (tmp_path / 'kept' / 'fold-2').mkdir(parents=True)
    (tmp_path / 'odd').write_text('a\tO\nb\n')
    names = {'train': corpora / 'train.tsv', 'absent': tmp_path / 'absent', 'odd': tmp_path / 'odd',
             'kept': tmp_path / 'kept'}
    named = [] if '--train' in arguments else ['--train', str(names['train'])]
    assert compare.main([*named, '--models', 'hmm', *arguments.format(**names).split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == '' and shown.err.splitlines()[-1].startswith(f'ms_crf.compare: {message.format(**names)}')


@pytest.mark.parametrize('arguments,message', [
    ('--models hmm,svm', "--models must be some of hmm, softmax, crf, got 'svm'"),
    ('--models=', "--models must be some of hmm, softmax, crf, got ''"),
    ('--models softmx', "--models must be some of hmm, softmax, crf, got 'softmx'; did you mean softmax?"),
    ('--models crf,hmm,crf', '--models must name each model once, got crf 2 times'),
    ('--seeds 0', '--seeds must be at least 1, got 0'), ('--seeds 99999', '--seeds must be at most 1000, got 99999'),
    ('--models hmm --seeds 2', '--seeds has no effect on hmm, which is estimated once, on the CPU; omit it'),
    ('--models hmm --device GPU', '--device has no effect on hmm'),
    ('--save x', '--save is set by the comparison; omit it'), ('--seed=3', '--seed is set by the'),
    ('--resume x', '--resume is set by the comparison'),
    ('--config {config}', "{config}: 'head' is set by the comparison"),
    ('--hiden 4', 'unrecognized arguments: --hiden 4; did you mean --hidden?'),
    ('--modles crf', 'unrecognized arguments: --modles crf; did you mean --models?'),
    ('--models hmm --hiden 4', 'unrecognized arguments: --hiden 4; did you mean --hidden?'),
    ('--hidden 5', '--hidden must be even'), ('--hidden 4000000000', '--hidden must be at most 65536, got 4000000000'),
    ('--models hmm --hidden 10', '--hidden has no effect on hmm, with --model hmm, only with bilstm; omit it'),
    ('--models hmm,softmax --crf-rate 2', '--crf-rate has no effect on hmm and softmax, with --head softmax, only'),
    ('--models softmax,crf --add 1', '--add has no effect on softmax and crf, with --model bilstm, only with hmm'),
    ('--momentum 0.9', '--momentum has no effect on hmm and softmax and crf, with --optimizer adam, only with sgd'),
    ('--json absent/x', 'absent/x: cannot be written'), ('--json .', '.: expected the name of a file to write, got a'),
    ('--keep {config}', '{config}: cannot be written: {config} is not a folder that you may write to'),
    ('--keep {config}/x', '{config}/x: cannot be written: {config} is not a folder that you may write to'),
    ('--jobs 0', '--jobs must be at least 1, got 0'),
    ('--folds 4', '--test has no effect with --folds, because each fold is the test file of one training'),
    ('--folds 1', '--folds must be at least 2, got 1'),
    ('--folds 4 --seeds 2', '--seeds has no effect with --folds, each of which is trained with the seed of --seed'),
    ('--keep {kept}', '{kept}/crf-2: expected a free path, but it exists; choose another --keep or delete it')])
def test_compare_what_can_not_be_compared(corpora, tmp_path, arguments, message, capsys):
    """Invalid options give a one-line error before any training starts, and create no files."""
    (tmp_path / 'kept' / 'crf-2').mkdir(parents=True)
    (tmp_path / 'config').write_text('{"head": "crf"}')
    names = {'config': tmp_path / 'config', 'kept': tmp_path / 'kept'}
    before = sorted(tmp_path.rglob('*'))
    assert compare.main([*files(corpora), *arguments.format(**names).split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == '' and shown.err.startswith(f'ms_crf.compare: {message.format(**names)}')
    assert len(shown.err.splitlines()) == 1 and sorted(tmp_path.rglob('*')) == before


def test_compare_files_are_needed(corpora, capsys):
    assert compare.main(['--train', str(corpora / 'train.tsv')]) == 2
    error = capsys.readouterr().err
    assert error == 'ms_crf.compare: the following arguments are required: --dev, --test; see --help\n'


def test_compare_a_file_that_is_not_there(corpora, capfd):
    assert compare.main([*files(corpora, dev='absent.tsv'), '--models', 'hmm']) == 2
    shown = capfd.readouterr()
    assert 'absent.tsv: no such file' in shown.err and 'Traceback' not in shown.err and shown.out == ''


def table_of_the_first_model(output, record):
    """Whether the table and the JSON file contain only the hidden Markov model, with the same F1.

    This model had finished when the comparison ended early.
    """
    lines = output.splitlines()
    figures = json.loads(record.read_text())
    assert [line.split(' | ')[0] for line in lines] == ['| model', f'{"|---" * 9}|', '| hmm']
    return list(figures) == ['hmm'] and lines[-1].split(' | ')[4] == f'{100 * figures["hmm"][0]["f1"]:.2f}'


@pytest.mark.slow
def test_compare_a_run_that_fails_leaves_what_was_done_before(corpora, tmp_path, capfd, monkeypatch):
    """If a training fails, the results of finished runs are printed and saved.

    The vector file is damaged; the hidden Markov model does not read the file, so its run succeeds.
    """
    (tmp_path / 'vectors.txt').write_text('of 1 2\nto 1\n')
    record, rest = tmp_path / 'all.json', tmp_path / 'temporary'
    rest.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(rest))
    assert compare.main([*files(corpora), '--embeddings', str(tmp_path / 'vectors.txt'), '--json', str(record)]) == 2
    shown = capfd.readouterr()
    assert table_of_the_first_model(shown.out, record)
    lines = shown.err.splitlines()
    assert f'train.py: {tmp_path}/vectors.txt:2: expected 2 numbers' in lines[-2]
    assert 'softmax, seed 1 of 3' in lines
    assert lines[-1] == ('ms_crf.compare: a training ended with status 2, see above; the table contains the '
                         'finished runs')
    assert not list(rest.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize('number,until,keep', [
    ('SIGHUP', 'train ', False), ('SIGINT', 'epoch   1', True)])
def test_compare_a_signal_ends_the_training_and_leaves_what_was_done_before(corpora, tmp_path, number, until, keep):
    """After a signal the comparison stops its training and prints the results of finished runs.

    Only the comparison receives the signal, before the training compiles its graph or after the first epoch. Standard
    error closes only when the training has ended, too.
    """
    record, rest, kept = tmp_path / 'all.json', tmp_path / 'temporary', tmp_path / 'kept'
    rest.mkdir()
    command = [sys.executable, '-m', 'ms_crf.compare', *files(corpora), '--models', 'hmm,crf', *SMALL, '--epochs',
               '100000', '--patience', '0', '--json', str(record), *(['--keep', str(kept)] if keep else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, 'TMPDIR': str(rest)}) as process:
        lines = iter(process.stderr)
        assert any(line == 'crf, seed 1 of 3\n' for line in lines) and any(line.startswith(until) for line in lines)
        process.send_signal(getattr(signal, number))
        last = list(lines)[-1]
        assert (process.wait(100), last) == (130, 'ms_crf.compare: stopped\n')
        assert table_of_the_first_model(process.stdout.read(), record) and not list(rest.iterdir())
    assert not keep or (kept / 'crf-1' / 'state.ckpt').exists()


@pytest.mark.slow
def test_compare_a_signal_while_a_run_is_measured(corpora, tmp_path):
    """A signal while the second model is measured, after its training, leaves the results of the first model.

    The comparison sends itself the signal when it opens the weights of the second model.
    """
    hook = ('import os, signal, sys\n'
            'def opened(event, arguments):\n'
            '    weights = event == "open" and str(arguments[0]).endswith("weights.ckpt")\n'
            '    if weights and "ms_crf.compare" in sys.orig_argv:\n'
            '        os.kill(os.getpid(), signal.SIGTERM)\n'
            'sys.addaudithook(opened)\n')
    (tmp_path / 'sitecustomize.py').write_text(hook)
    record, rest = tmp_path / 'all.json', tmp_path / 'temporary'
    rest.mkdir()
    result = subprocess.run([sys.executable, '-m', 'ms_crf.compare', *files(corpora), '--models', 'hmm,crf', *SMALL,
                             '--epochs', '1', '--json', str(record)], cwd=ROOT, capture_output=True, text=True,
                            timeout=200, env={**os.environ, 'TMPDIR': str(rest), 'PYTHONPATH': str(tmp_path)})
    assert result.returncode == 130 and result.stderr.splitlines()[-1] == 'ms_crf.compare: stopped'
    assert table_of_the_first_model(result.stdout, record) and not list(rest.iterdir())
