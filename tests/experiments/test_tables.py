"""The tables of experiments: several seeds, and comparisons of models."""

import json

from ms_crf.experiments.compare import Comparison, invalid_share
from ms_crf.experiments.train import SeedRuns

import pytest

RATES = {'precision': 0.5, 'recall': 0.25, 'f1': 1 / 3, 'accuracy': 0.875}


def seed_runs(folder, scores, scheme='BIO'):
    runs = {seed: folder / f'seed-{seed}' for seed in scores}
    for run in runs.values():
        run.mkdir()
        (run / 'config.json').write_text(json.dumps({
            'format': 1, 'model': 'bilstm', 'word_dim': 4, 'options': {}, 'scheme': scheme, 'found_scheme': scheme}))
    return SeedRuns(folder, runs, scores)


def test_table_of_one_seed_without_a_test_corpus(tmp_path):
    found = seed_runs(tmp_path, {7: {'best_epoch': 3, 'epochs': 4, 'dev': RATES}})
    assert found.table().splitlines() == [
        '| seed | best epoch | dev P | dev R | dev F1 | dev accuracy |', '|---|---|---|---|---|---|',
        '| 7 | 3 | 50.00 | 25.00 | 33.33 | 87.50 |']
    assert found.to_json() == {'7': {'dev': RATES, 'best_epoch': 3}}


def test_table_of_several_seeds_has_means_and_deviations(tmp_path):
    """The table has means and standard deviations: 0.5 and 0.6 have the mean 0.55 and the deviation 0.1 / √2."""
    scores = {seed: {'best_epoch': seed, 'epochs': 9, 'dev': RATES, 'test': {**RATES, 'recall': recall}}
              for seed, recall in ((3, 0.5), (4, 0.6))}
    lines = seed_runs(tmp_path, scores).table().splitlines()
    assert [line.split(' | ')[0] for line in lines[2:]] == ['| 3', '| 4', '| mean ± deviation']
    assert lines[3].split(' | ')[7] == '60.00'
    assert lines[4].split(' | ')[1:3] == ['–', '50.00 ± 0.00'] and lines[4].split(' | ')[7] == '55.00 ± 7.07'


@pytest.mark.parametrize('scheme,best', [('BIOES', 2), ('plain', 3)])
def test_tables_best_seed_has_the_highest_score_on_dev(tmp_path, scheme, best):
    """The best seed has the highest F1 on dev, or accuracy for plain tags. Test scores do not count."""
    scores = {seed: {'best_epoch': 1, 'epochs': 1, 'dev': {**RATES, 'f1': f1, 'accuracy': accuracy},
                     'test': {**RATES, 'f1': 0.5 * (seed == 1), 'accuracy': 0.0}}
              for seed, f1, accuracy in ((1, 0.1, 0.2), (2, 0.3, 0.3), (3, 0.2, 0.4), (4, 0.3, 0.1))}
    assert seed_runs(tmp_path, scores, scheme).best.path == tmp_path / f'seed-{best}'


def test_table_of_a_comparison_has_means_deviations_and_medians():
    run = {**RATES, 'accuracy': 0.9, 'ill_formed': 0.0, 'train_seconds': 2.0, 'sentences_per_second': 1234.5}
    found = Comparison({'hmm': [run], 'crf': [run, {**run, 'precision': 0.6, 'train_seconds': 3.0}]})
    assert found.table().splitlines() == [
        '| model | runs | P | R | F1 | accuracy | invalid spans | training s | sentences/s |', f'{"|---" * 9}|',
        '| hmm | 1 | 50.00 | 25.00 | 33.33 | 90.00 | 0.00 | 2.0 | 1,234 |',
        '| crf | 2 | 55.00 ± 7.07 | 25.00 ± 0.00 | 33.33 ± 0.00 | 90.00 ± 0.00 | 0.00 ± 0.00 | 2.5 | 1,234 |']


def test_tables_spans_that_the_scheme_does_not_allow():
    assert invalid_share([['O', 'I-X', 'B-X', 'I-X'], ['B-Y', 'I-X']], 'BIO') == 0.5
    assert invalid_share([['B-X', 'E-X', 'S-X', 'O']], 'BIOES') == 0 and invalid_share([['O']], 'BIO') == 0
    assert invalid_share([['NOUN']], 'plain') == 0
