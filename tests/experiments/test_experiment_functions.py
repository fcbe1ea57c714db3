"""`compare` and `train` with seeds of `ms_crf.api` in a program: arguments, results, and no output."""

import inspect
import json
import threading

from ms_crf.api import compare, train
from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import Lines
from ms_crf.cli.compare import parser
from ms_crf.experiments import compare as comparing
from ms_crf.experiments import train as seeding
from ms_crf.runs.records import saving

import pytest

from support.runs import make_run

RATES = {'precision': 0.5, 'recall': 0.25, 'f1': 1 / 3, 'accuracy': 0.875}
FIGURES = {**RATES, 'ill_formed': 0.0, 'sentences_per_second': 100.0}


def parts(corpora):
    return {part: corpora / f'{part}.tsv' for part in ('train', 'dev', 'test')}


def test_experiment_functions_each_option_of_compare_is_an_argument_with_its_default():
    arguments = inspect.signature(compare).parameters
    options = {action.dest: action.default for action in parser()._actions if action.dest != 'help'}
    refused = {'model', 'head', 'save', 'resume', 'overwrite'}
    assert set(options) - set(arguments) == refused and set(arguments) - set(options) == {'watcher', 'children'}
    for name in set(options) - refused - {'train', 'dev', 'test'}:
        assert arguments[name].default == options[name], name


@pytest.mark.slow
def test_experiment_functions_a_comparison_in_a_thread_is_returned_and_nothing_is_printed(corpora, tmp_path, capfd):
    found, lines = [], []

    def call():
        found.append(compare(**parts(corpora), models=['hmm'], keep=tmp_path / 'kept', watcher=Lines(lines.append)))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert capfd.readouterr() == ('', '')
    assert lines[0] == 'hmm' and any(line.startswith('hmm: saved in ') for line in lines)
    scores = json.loads((tmp_path / 'kept' / 'hmm-1' / 'scores.json').read_text())['test']
    [figures] = found[0].figures['hmm']
    assert {rate: figures[rate] for rate in RATES} == {rate: pytest.approx(scores[rate]) for rate in RATES}


@pytest.mark.parametrize('error', [KeyboardInterrupt, OptionError('a training ended')])
def test_compare_function_that_ends_early_keeps_what_was_measured(corpora, tmp_path, monkeypatch, error):
    """If the second pair of trainings does not finish, the figures of the first pair are in the file and the error."""
    begun, record = [], tmp_path / 'all.json'

    def run_all(runs, *_):
        begun.extend(run.label for run in runs)
        if len(begun) > 2:
            raise error

    monkeypatch.setattr(comparing, 'run_all', run_all)
    monkeypatch.setattr(comparing, 'measure', lambda folder, check: dict(FIGURES))
    with pytest.raises(type(error) if isinstance(error, Exception) else error) as raised:
        compare(**parts(corpora), models=('hmm', 'crf'), seeds=2, jobs=2, json=record, device='CPU')
    assert begun == ['hmm', 'crf, seed 1 of 2', 'crf, seed 2 of 2']
    assert json.loads(record.read_text()) == raised.value.comparison.figures == {
        'hmm': [{'seed': 1, **FIGURES, 'train_seconds': 0.0}], 'crf': [{'seed': 1, **FIGURES, 'train_seconds': 0.0}]}


@pytest.mark.parametrize('arguments,error,message', [
    ({'hiden': 4}, TypeError, r"compare\(\) got an unexpected keyword argument 'hiden'; did you mean hidden\?"),
    ({'dev': None}, OptionError, 'the following arguments are required: dev; see help'),
    ({'models': 'hmm,svm'}, OptionError, "models must be some of hmm, softmax, crf, got 'svm'"),
    ({'resume': 'x'}, OptionError, 'resume is set by the comparison; omit it'),
    ({'folds': 4}, OptionError, 'test has no effect with folds, because each fold is the test file of one'),
    ({'folds': 4, 'seeds': 2}, OptionError, 'seeds has no effect with folds, each of which is trained with the seed'),
    ({'jobs': 1001}, OptionError, 'jobs must be at most 1000, got 1001')])
def test_experiment_functions_compare_names_arguments_in_its_errors(corpora, arguments, error, message):
    with pytest.raises(error, match=f'^{message}'):
        compare(**{**parts(corpora), **arguments})


SMALL = {'word_dim': 6, 'hidden': 6, 'char_dim': 3, 'char_width': 4, 'epochs': 1}


def test_experiment_functions_runs_of_several_seeds_are_begun_resumed_or_kept(corpora, tmp_path, monkeypatch):
    """Stopped runs of several seeds are resumed, finished runs are kept, and missing runs are started.

    A run with random weights replaces each training. The training with seed 6 is stopped the first time.
    """
    begun = []

    def run_all(runs, jobs, kept, children, watcher):
        for run in runs:
            begun.append(dict(run.arguments))
            make_run(run.folder, **{**{part: str(path) for part, path in parts(corpora).items()}, **SMALL,
                                    'seed': run.seed})
            if len(begun) == 2:
                raise KeyboardInterrupt
            with saving(run.folder) as new:
                new.json('scores.json', {'best_epoch': 0, 'epochs': 0, 'dev': {**RATES, 'f1': run.seed}, 'test': RATES})

    monkeypatch.setattr(seeding, 'run_all', run_all)
    arguments = {**parts(corpora), **SMALL, 'save': tmp_path / 'runs', 'device': 'CPU', 'seed': 5}
    with pytest.raises(KeyboardInterrupt):
        train(**arguments, seeds=2)
    assert [one['seed'] for one in begun] == [5, 6] and begun[0]['save'] == str(tmp_path / 'runs' / 'seed-5')
    lines = []
    found = train(**arguments, seeds=3, watcher=Lines(lines.append))
    assert lines == ['1 of 3 runs are finished already']
    assert begun[2] == {'resume': str(tmp_path / 'runs' / 'seed-6'), 'device': 'CPU', 'plugin': None,
                        **{part: str(path) for part, path in parts(corpora).items()}}
    assert begun[3]['save'] == str(tmp_path / 'runs' / 'seed-7') and begun[3]['seed'] == 7
    assert found.best.path == tmp_path / 'runs' / 'seed-7' and list(found.scores) == [5, 6, 7]
    assert (tmp_path / 'runs' / 'seeds.md').read_text() == f'{found.table()}\n'
    with pytest.raises(OptionError, match='seed-5: expected a run with hidden 8, got one with 6; choose another save'):
        train(**{**arguments, 'hidden': 8}, seeds=3)
