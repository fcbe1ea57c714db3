"""`train.py --model hmm`, from files to a run directory, and tagging with this run."""

import importlib
import json
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.cli import train
from ms_crf.models.hmm.model_type import read_hmm
from ms_crf.runs.run import SavedRun

import numpy as np
import pytest

from support.oracle import StatePaths
from support.trainings import files


def test_counting_counted_and_tagged_from_files(tmp_path, capsys, corpora):
    """infer.py prints the same scores as train.py, and does not import MindSpore."""
    folder = tmp_path / 'run'
    assert train.main(['--model', 'hmm', *files(corpora), '--save', str(folder)]) == 0
    shown = capsys.readouterr()
    table = json.loads((folder / 'scores.json').read_text())['test']['table']
    assert shown.out.count('\n'.join(table)) == 1 and shown.err == ''
    assert {file.name for file in folder.iterdir()} == {'config.json', 'vocab.json', 'tables.npz', 'metrics.jsonl',
                                                        'scores.json', 'checksums.json', 'lock'}
    program = ('import sys; from ms_crf.cli.infer import main; status = main(sys.argv[1:]); '
               'sys.exit(status or 9 * ("mindspore" in sys.modules))')
    result = subprocess.run([sys.executable, '-c', program, '--run', str(folder), '--input', str(corpora / 'test.tsv'),
                             '--score'], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.splitlines(), result.stderr) == (0, table, '')


def test_counting_confidences_of_a_tagger_are_posteriors(tmp_path, corpora):
    folder = tmp_path / 'run'
    assert train.main(['--model', 'hmm', *files(corpora), '--save', str(folder), '--add', '1']) == 0
    tagger, model = Tagger.load(folder), read_hmm(SavedRun.open(folder))
    sentences = [['of', 'Xan', 'Zoe'], [], ['to', 'at', 'Yel'], ['Xor']]
    for tokens, tagged in zip(sentences, tagger.tag(sentences)):
        assert tagged.tokens == tokens
        if not tokens:
            continue
        observed = model.log_emission.T[model.columns_of([tokens])]
        start, transition, end = map(np.exp, (model.log_start, model.log_transition, model.log_end))
        every = StatePaths(start, transition, np.exp(observed.T), end, np.arange(len(tokens)))
        best = every.paths[every.weights.argmax()]
        assert tagged.tags == [tagger.tags[state] for state in best]
        assert tagged.confidence == pytest.approx(every.weights.max() / every.total)
        assert tagged.confidences == pytest.approx([every.posterior(place, state) for place, state in enumerate(best)])
    with pytest.raises(OptionError, match='^nbest must be 0 for a model without n-best taggings'):
        tagger.tag(sentences, nbest=2)


@pytest.mark.parametrize('command', [
    ['infer', '--text', 'of Xan'], ['evaluate', '--input', '{corpora}/test.tsv'], ['serve', '--port', '0'],
    ['suggest', '--input', '{corpora}/test.tsv']])
def test_counting_a_device_that_is_not_used_is_refused(command, hmm, corpora, capsys):
    if command[0] == 'serve':
        pytest.importorskip('uvicorn', reason='uvicorn is missing: pip install -r requirements-serve.txt')
    arguments = [argument.format(corpora=corpora) for argument in command[1:]]
    capsys.readouterr()
    assert importlib.import_module(f'ms_crf.cli.{command[0]}').main([*arguments, '--run', str(hmm), '--device',
                                                                     'GPU']) == 2
    shown = capsys.readouterr()
    assert shown.out == '' and shown.err.splitlines()[-1].partition(': ')[2] == (
        f'--device GPU has no effect with {hmm} of type hmm, which computes on the CPU; omit it')


@pytest.mark.parametrize('arguments,message', [
    (['--model', 'hmm', '--hidden', '20'], '--hidden has no effect with --model hmm, only with bilstm; omit it'),
    (['--add', '1'], '--add has no effect with --model bilstm'),
    (['--model', 'hmm', '--device', 'GPU'], '--model hmm computes on the CPU, got --device GPU'),
    (['--model', 'hmm', '--add', '0'], '--add must be at least 1e-09, got 0.0')])
def test_counting_options_that_mean_nothing(arguments, message, tmp_path, capsys):
    assert train.main([*arguments, '--save', str(tmp_path / 'run')]) == 2
    assert capsys.readouterr().err.startswith(f'train.py: {message}')


@pytest.mark.parametrize('name,change,message', [
    ('tables.npz', None, 'tables.npz: no such file'), ('tables.npz', b'PK', 'expected tables written by training'),
    ('vocab.json', b'{}', 'expected the keys tags, words, shapes'),
    ('vocab.json', b'{"tags": ["O"], "words": [], "shapes": []}', 'expected start of shape (1,)'),
    ('vocab.json', b'{"tags": 1, "words": [], "shapes": []}', 'expected "tags" to be a list of strings')])
def test_counting_damaged_tables(tmp_path, corpora, name, change, message, capsys):
    folder = tmp_path / 'run'
    train.main(['--model', 'hmm', *files(corpora), '--save', str(folder)])
    (folder / 'checksums.json').unlink()                         # earlier versions wrote no checksums
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change)
    with pytest.raises(CorpusError) as raised:
        Tagger.load(folder)
    assert message in str(raised.value) and len(str(raised.value).splitlines()) == 1
    capsys.readouterr()
    assert train.main(['--resume', str(folder)]) == 2 and 'estimated at once' in capsys.readouterr().err


def test_counting_tables_hold_no_objects(tmp_path, corpora):
    """Tables with Python objects are refused, because NumPy would have to unpickle them."""
    folder = tmp_path / 'run'
    train.main(['--model', 'hmm', *files(corpora), '--save', str(folder)])
    (folder / 'checksums.json').unlink()
    with open(folder / 'tables.npz', 'wb') as file:
        np.savez(file, start=np.array([{}], object))
    with pytest.raises(CorpusError, match='Object arrays cannot be loaded'):
        Tagger.load(folder)
