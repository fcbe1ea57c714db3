"""`ms-crf evaluate`: scores equal those of `infer.py --score`, F1 intervals are valid, invalid input is refused."""

import json
import re
import subprocess
import sys

from ms_crf.cli import evaluate, infer, train
from ms_crf.reports.evaluation import Evaluation

import pytest

from support.paths import ROOT
from support.trainings import files


@pytest.fixture
def run(capsys):
    """Runs the command in this process; returns exit code, output and errors."""
    def call(*arguments):
        capsys.readouterr()
        return evaluate.main([str(argument) for argument in arguments]), *capsys.readouterr()
    return call


def of_infer(capsys, *arguments):
    """(precision, recall, F1) by type and overall, and accuracy, in percent, as `infer.py --score` prints them."""
    assert infer.main([*map(str, arguments), '--score']) == 0
    text = capsys.readouterr().out
    rates = r'precision: +([\d.]+)%; recall: +([\d.]+)%; FB1: +([\d.]+)'
    found = {name: tuple(map(float, values)) for name, *values in re.findall(rf'^ *(\S+): {rates}', text, re.M)}
    accuracy, *overall = re.search(rf'^accuracy: +([\d.]+)%; {rates}', text, re.M).groups()
    return {**found, '': tuple(map(float, overall))}, float(accuracy)


def check_json(record, capsys, *arguments):
    scores, accuracy = of_infer(capsys, *arguments)
    rows = {'': record['exact'], **record['exact']['by_type']}
    assert rows.keys() == scores.keys()
    for name, row in rows.items():
        assert tuple(round(100 * row[key], 2) for key in ('precision', 'recall', 'f1')) == pytest.approx(
            scores[name], abs=0.011)
        low, high = row['f1_interval'] or (0, 1)
        assert 0 <= low <= row['f1'] <= high <= 1
    assert 100 * record['by_token']['accuracy'] == pytest.approx(accuracy, abs=0.006)


def test_evaluate_scores_of_a_hidden_markov_model(hmm, corpora, tmp_path, run, capsys):
    output = tmp_path / 'figures.json'
    status, text, errors = run('--run', hmm, '--input', corpora / 'test.tsv', '--json', output)
    assert (status, errors) == (0, '')
    record = json.loads(output.read_text())
    check_json(record, capsys, '--run', hmm, '--input', corpora / 'test.tsv')
    assert (record['sentences'], record['scheme'], record['exact']['support']) == (6, 'BIO', 6)
    shown = re.search(r'^PER +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) - +([\d.]+) +(\d+) +(\d+)$', text, re.M).groups()
    per = record['exact']['by_type']['PER']
    assert [float(value) for value in shown] == pytest.approx([
        100 * per['precision'], 100 * per['recall'], 100 * per['f1'], 100 * per['f1_interval'][0],
        100 * per['f1_interval'][1], per['support'], per['predicted']], abs=0.006)


def test_evaluate_the_seed_and_the_number_of_draws_count(hmm, corpora, tmp_path, run):
    texts = []
    for more in ([], [], ['--seed', '2'], ['--resamples', '150']):
        status, text, _ = run('--run', hmm, '--input', corpora / 'dev.tsv', *more, '--json', tmp_path / 'x.json')
        assert status == 0
        texts.append((tmp_path / 'x.json').read_text())
    assert texts[0] == texts[1] and json.loads(texts[3])['bootstrap']['resamples'] == 150
    assert json.loads(texts[2])['exact']['f1'] == json.loads(texts[0])['exact']['f1']


@pytest.mark.slow
def test_evaluate_scores_of_a_network_and_of_its_graph(undisturbed, corpora, tmp_path, run, capsys):
    graph = tmp_path / 'graph.mindir'
    subprocess.run([sys.executable, '-m', 'ms_crf.export', '--run', str(undisturbed[0]), '--output', str(graph)],
                   cwd=ROOT, check=True, capture_output=True, timeout=120)
    records = []
    for model in (['--run', undisturbed[0]], ['--mindir', graph]):
        status, _, errors = run(*model, '--input', corpora / 'test.tsv', '--json', tmp_path / 'x.json')
        assert (status, errors) == (0, '')
        records.append(json.loads((tmp_path / 'x.json').read_text()))
        assert records[-1].pop('model') == str(model[1])
    assert records[0] == records[1]
    check_json(records[0], capsys, '--run', undisturbed[0], '--input', corpora / 'test.tsv')


def test_evaluate_scores_of_plain_tags(tmp_path, run, capsys):
    text = 'a\tDET\nman\tNOUN\nruns\tVERB\n\nthe\tDET\nruns\tNOUN\n\n'
    (tmp_path / 'train.tsv').write_text(text)
    (tmp_path / 'test.tsv').write_text(text.replace('runs\tNOUN', 'runs\tADV'))
    corpus = tmp_path / 'train.tsv'
    assert train.main(['--model', 'hmm', *files(tmp_path, dev=corpus), '--save', str(tmp_path / 'run')]) == 0
    status, text, errors = run('--run', tmp_path / 'run', '--input', tmp_path / 'test.tsv', '--json', tmp_path / 'x')
    assert (status, errors) == (0, '') and ' 5 tags; ' in text and 'ADV' in text
    check_json(json.loads((tmp_path / 'x').read_text()), capsys, '--run', tmp_path / 'run', '--input',
               tmp_path / 'test.tsv')


def test_evaluate_tokens_of_spans_count_by_their_type():
    gold = [['B-X', 'I-X', 'O', 'B-Y'], ['O', 'B-Y']]
    predicted = [['B-X', 'O', 'B-X', 'B-Y'], ['O', 'B-X']]
    found = Evaluation([['a'] * 4, ['a'] * 2], gold, predicted, 'BIO', [])
    # X is predicted at tokens 0 and 2 of the first sentence and at 1 of the second; it is gold at 0 and 1 of the first.
    # Y is gold at token 3 of the first sentence and at 1 of the second.
    assert found.token_counts.tolist() == [[[1, 2, 2], [1, 1, 1]], [[0, 1, 0], [0, 0, 1]]]
    assert found.counts.tolist() == [[[0, 2, 1], [1, 1, 1]], [[0, 1, 0], [0, 0, 1]]]
    assert found.score.accuracy == pytest.approx(3 / 6)


@pytest.mark.parametrize('arguments,message', [
    (['--run', 'absent'], 'absent/config.json: no such file; expected a run made by training'),
    (['--run', 'x', '--mindir', 'y.mindir'], '--run and --mindir name two models, expected one of them'),
    (['--resamples', '5'], '--resamples must be at least 100, got 5'),
    (['--columns', '1'], "--columns must be two numbers like 0,-1, got '1'"),
    (['--seed', '-1'], '--seed must be at least 0, got -1'),
    (['--json', 'absent/x.json'], 'absent/x.json: ')])
def test_evaluate_arguments_that_can_not_be(arguments, message, corpora, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text, errors = run('--input', corpora / 'dev.tsv', *arguments)
    assert (status, text) == (2, '') and errors.startswith(f'ms-crf evaluate: {message}'), errors
    assert len(errors.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_evaluate_files_that_can_not_be(hmm, corpora, run, tmp_path):
    status, text, errors = run('--run', hmm, '--input', tmp_path / 'absent.tsv')
    assert (status, text) == (2, '') and errors.startswith(f'ms-crf evaluate: {tmp_path}/absent.tsv: ')
    plain = tmp_path / 'plain.tsv'
    plain.write_text('a\tNOUN\n')
    status, text, errors = run('--run', hmm, '--input', plain)
    assert (status, text) == (2, '') and errors.startswith(f"ms-crf evaluate: {plain}:1: expected 'O' or tags of spans")
    status, text, errors = run('--run', hmm)
    assert status == 2 and 'the following arguments are required: --input' in errors
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('{"tokens": ["a"], "tags": ["O"]}\n')
    status, text, errors = run('--run', hmm, '--input', rows, '--columns', '0,1')
    assert status == 2 and '--columns has no effect with JSON lines' in errors


def test_evaluate_the_accuracy_of_conlleval_where_tags_are_converted(tmp_path, run, capsys):
    """The run learns from IOB1 and writes BIO, so tags are converted before they are compared.

    The oracle counts the equal tags in the two columns that `infer --format conll` writes.
    """
    train_text = 'to\tO\nXan\tI-PER\nYan\tI-PER\n\nXan\tI-PER\nof\tO\nXan\tI-PER\nXan\tB-PER\n\n' * 5
    for part in ('train', 'dev', 'test'):
        (tmp_path / f'{part}.tsv').write_text(train_text)
    (tmp_path / 'test.tsv').write_text(train_text + 'Xan\t?\nof\tO\nXan\tI-PER\n\n')
    folder, test = tmp_path / 'run', tmp_path / 'test.tsv'
    assert train.main([*files(tmp_path), '--model', 'hmm', '--save', str(folder)]) == 0
    printed = capsys.readouterr().out
    assert infer.main(['--run', str(folder), '--input', str(test), '--format', 'conll']) == 0
    rows = [line.split('\t') for line in capsys.readouterr().out.splitlines() if line]
    pairs = [(row[1], row[2]) for row in rows if row[1] != '?']
    expected = sum(gold == predicted for gold, predicted in pairs) / len(pairs)
    assert 0 < expected < 0.7
    line = f'accuracy as conlleval computes it, of unconverted tags: {100 * expected:.2f}%'
    assert line in printed.splitlines()
    scores = json.loads((folder / 'scores.json').read_text())['test']
    assert scores['raw_accuracy'] == pytest.approx(expected) and line in scores['table']
    assert infer.main(['--run', str(folder), '--input', str(test), '--score']) == 0
    assert line in capsys.readouterr().out.splitlines()
    status, text, errors = run('--run', folder, '--input', test, '--json', tmp_path / 'figures.json')
    assert (status, errors) == (0, '')
    assert f'{100 * expected:6.2f} %  as conlleval computes it, of unconverted tags' in text
    record = json.loads((tmp_path / 'figures.json').read_text())
    assert record['by_token']['raw_accuracy'] == pytest.approx(expected)
    assert record['by_token']['accuracy'] > expected
