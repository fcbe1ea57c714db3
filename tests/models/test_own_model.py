"""The custom model type of examples/own_model.py with the commands train, infer and export."""

import json
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.cli import export, infer, train
from ms_crf.models.base import Kind, register

import pytest

from support.paths import ROOT
from support.trainings import files, plugins_forgotten, printed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('steps_compiled_once')]

PLUGIN = ['--plugin', 'examples/own_model.py']
SMALL = ['--model', 'mine', '--word-dim', '6', '--hidden', '8', '--batch-size', '4', '--learning-rate', '0.05',
         '--schedule', 'constant', '--device', 'CPU']


def call(command, *arguments, status=0):
    """Runs a command and returns its output, or its error messages if a status other than 0 is expected."""
    with plugins_forgotten():
        found, output, errors = printed(command.main, *arguments)
    assert found == status, errors
    return output if status == 0 else errors


@pytest.fixture(scope='module', autouse=True)
def folder_of_the_project():
    """Runs the tests in the folder of the project, because they name examples/ with a relative path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp('own') / 'run'
    call(train, *PLUGIN, *SMALL, *files(corpora), '--epochs', '4', '--save', folder)
    return folder


def test_own_model_trained_tagged_and_exported(run, corpora, tmp_path):
    assert json.loads((run / 'scores.json').read_text())['test']['f1'] > 0.9
    tagged = call(infer, *PLUGIN, '--run', run, '--input', corpora / 'test.tsv', '--format', 'json', '--nbest', 2)
    first = json.loads(tagged.splitlines()[0])
    assert len(first['alternatives']) == 2 and 0 < first['confidence'] <= 1
    graph = tmp_path / 'graph.mindir'
    call(export, *PLUGIN, '--run', run, '--output', graph, '--confidence')
    both = [call(infer, *PLUGIN, *model, '--input', corpora / 'test.tsv', '--format', 'conll')
            for model in (('--run', run), ('--mindir', graph))]
    assert both[0] == both[1]
    error = call(infer, '--run', run, '--text', 'a', status=2)
    assert f'{run}/config.json: expected "model" to be bilstm or encoder or hmm, got \'mine\'; for a custom' in error
    assert 'name the program that registers it with --plugin' in error and len(error.splitlines()) == 1


def test_own_model_stopped_and_resumed_it_is_the_same_to_the_bit(run, corpora, tmp_path):
    call(train, *PLUGIN, *SMALL, *files(corpora), '--epochs', '2', '--save', tmp_path / 'run')
    call(train, *PLUGIN, '--resume', tmp_path / 'run', '--epochs', '4', '--device', 'CPU')
    assert (tmp_path / 'run' / 'weights.ckpt').read_bytes() == (run / 'weights.ckpt').read_bytes()


def test_own_model_a_program_registers_it_by_itself(run):
    program = ('import sys; sys.path.insert(0, "examples"); import own_model; from ms_crf import Tagger; '
               f'print(Tagger.load({str(run)!r}).tag([["of", "Xan", "Yor"]])[0].tags)')
    result = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stderr) == (0, '') and result.stdout == "['O', 'B-PER', 'I-PER']\n"
    with pytest.raises(ValueError, match='"model" to be bilstm or encoder or hmm, got \'mine\''):
        Tagger.load(run)


@pytest.mark.parametrize('arguments,message', [
    ([*SMALL[:2], '--plugin', 'nowhere.py'], "--plugin must be a Python file, got 'nowhere.py', which is not a file"),
    ([*PLUGIN, *SMALL[:2], '--char', 'lstm'], '--char has no effect with --model mine; omit it'),
    (SMALL[:2], "argument --model: invalid choice: 'mine' (choose from bilstm, hmm); a custom model type needs "
     '--plugin'),
    ([*SMALL[:2], '--plugin', '{broken}'], '--plugin: {broken}:2: ZeroDivisionError: division by zero'),
    ([*SMALL[:2], '--plugin', '{unread}'], "--plugin: {unread}:1: SyntaxError: '(' was never closed")])
def test_own_model_what_can_not_be(tmp_path, arguments, message):
    names = {}
    for name, text in (('broken', 'x = 1\nx / 0\n'), ('unread', 'x = (\n')):
        (tmp_path / f'{name}.py').write_text(text)
        names[name] = str(tmp_path / f'{name}.py')
    error = call(train, *(argument.format(**names) for argument in arguments), '--save', tmp_path / 'run', status=2)
    assert error.startswith(f'train.py: {message.format(**names)}') and len(error.splitlines()) == 1


def test_own_model_names_and_options_that_can_not_be_registered():
    with pytest.raises(ValueError, match="Again.name must be a new name, got 'hmm', which is already registered"):
        register(type('Again', (Kind,), {'name': 'hmm'}))
    with pytest.raises(ValueError, match="options of the model type other must be options of training, got 'wings'"):
        register(type('Other', (Kind,), {'name': 'other', 'options': ('wings',)}))
