"""`python -m ms_crf.compare`: its figures beside what the runs themselves say."""

import json
import subprocess
import sys

from ms_crf import compare

import pytest

from conftest import ROOT, SMALL, files


def test_a_comparison(corpora, tmp_path):
    record, kept = tmp_path / 'all.json', tmp_path / 'runs'
    small = SMALL[:-2]                                           # without --device
    result = subprocess.run([sys.executable, '-m', 'ms_crf.compare', *files(corpora), '--models', 'hmm,crf', '--seeds',
                             '1', *small, '--epochs', '1', '--json', str(record), '--keep', str(kept)], cwd=ROOT,
                            capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split(' | ')[0] for line in lines[2:]] == ['| hmm', '| crf'] and lines[3].split(' | ')[1] == '1'
    assert 'crf, seed 1 of 1' in result.stderr
    figures = json.loads(record.read_text())
    assert len(figures['hmm']) == 1 and [run['seed'] for run in figures['crf']] == [1]
    for name, runs in figures.items():
        for run in runs:
            scores = json.loads((kept / f'{name}-{run["seed"]}' / 'scores.json').read_text())['test']
            for key in ('precision', 'recall', 'f1', 'accuracy'):
                assert run[key] == pytest.approx(scores[key])
            assert 0 <= run['ill_formed'] <= 1 and run['train_seconds'] > 0 and run['sentences_per_second'] > 0
    assert all(run['ill_formed'] == 0 for run in figures['crf'])


def test_spans_that_the_scheme_does_not_allow():
    assert compare.ill_formed([['O', 'I-X', 'B-X', 'I-X'], ['B-Y', 'I-X']], 'BIO') == 0.5
    assert compare.ill_formed([['B-X', 'E-X', 'S-X', 'O']], 'BIOES') == 0 and compare.ill_formed([['O']], 'BIO') == 0
    assert compare.ill_formed([['NOUN']], 'plain') == 0


def test_a_table_of_means_and_spreads():
    run = {'precision': 0.5, 'recall': 0.25, 'f1': 1 / 3, 'accuracy': 0.9, 'ill_formed': 0.0, 'train_seconds': 2.0,
           'sentences_per_second': 1234.5}
    lines = compare.table({'hmm': [run], 'crf': [run, {**run, 'precision': 0.6}]})
    assert lines[2] == '| hmm | 1 | 50.00 | 25.00 | 33.33 | 90.00 | 0.00 | 2.0 | 1,234 |'
    assert lines[3].startswith('| crf | 2 | 55.00 ± 7.07 | 25.00 ± 0.00 |')


@pytest.mark.parametrize('arguments,message', [
    (['--models', 'hmm,svm'], "--models must be some of hmm, softmax, crf, got 'svm'"),
    (['--seeds', '0'], '--seeds must be at least 1, got 0'),
    (['--save', 'x'], '--save is chosen by the comparison itself'), (['--hiden', '4'], 'unrecognized arguments'),
    (['--hidden', '5'], '--hidden must be even'), (['--json', 'absent/x'], 'absent/x: can not be written')])
def test_what_can_not_be_compared(corpora, arguments, message, capsys):
    assert compare.main([*files(corpora), *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == '' and shown.err.startswith(f'ms_crf.compare: {message}') and len(shown.err.splitlines()) == 1


def test_a_file_that_is_not_there(corpora, tmp_path):
    result = subprocess.run([sys.executable, '-m', 'ms_crf.compare', *files(corpora, dev='absent.tsv'), '--models',
                             'hmm'], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert result.returncode == 2 and 'absent.tsv: no such file' in result.stderr and 'Traceback' not in result.stderr
