"""Runs with a pretrained encoder, from `train.py --encoder` to tags and exported graphs."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

from ms_crf import Tagger, allowed_transitions
from ms_crf.base.errors import CorpusError
from ms_crf.cli import export, infer, train
from ms_crf.models import mindir
from ms_crf.models.encoder.model_type import read_encoder
from ms_crf.models.encoder.pretrained import EncoderFiles
from ms_crf.models.encoder.windows import Subwords
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course

import numpy as np
import pytest

from support.encoders import CONFIG, arguments, by_numpy, make_folder, tensors
from support.networks import LSTM_WEIGHTS, bilstm
from support.oracle import Row
from support.paths import ROOT
from support.trainings import options_of, printed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('steps_compiled_once')]

SENTENCES = [['to', 'Xan', 'in', 'Yel'], [], ['unknown'], ['\u200d', 'Xel', 'Yor'], ['of', '\u200d']]
#: `SENTENCES`, and one sentence that needs several windows of the encoder
LONG = [*SENTENCES, [*['to', 'in', 'at', 'on', 'by', 'of', 'the'] * 3, 'Xan', 'unknown']]


@pytest.fixture(scope='module')
def frozen(corpora, encoder, tmp_path_factory):
    """A run with a frozen encoder, and the output of the training; the folder `kept` next to the run caches vectors."""
    pytest.importorskip('tokenizers')
    folder = tmp_path_factory.mktemp('frozen') / 'run'
    status, output, errors = printed(train.main, *arguments(corpora, encoder, folder, '--encoder-cache',
                                                            folder.parent / 'kept'))
    assert (status, errors) == (0, '')
    return folder, output


def test_encoder_runs_what_a_run_prints_and_leaves(frozen, encoder):
    folder, output = frozen
    lines = output.splitlines()
    assert any(line.startswith('encoder of 2 layers of width 12, frozen; ') for line in lines)
    assert any(line.startswith('encoded train: 21 windows in ') for line in lines)
    assert sum(line.startswith('epoch ') for line in lines) == 2
    assert {file.name for file in folder.iterdir()} == {'encoder', 'config.json', 'vocab.json', 'weights.ckpt',
                                                        'state.ckpt', 'metrics.jsonl', 'scores.json',
                                                        'checksums.json', 'lock'}
    for copied, given in zip(sorted((folder / 'encoder').iterdir()), sorted(encoder.iterdir())):
        assert copied.name == given.name and copied.read_bytes() == given.read_bytes()
    weights = records.read_tensors(folder / 'weights.ckpt')
    assert 'projection.weight' in weights and not any('encoder' in name for name in weights)
    record = json.loads((folder / 'config.json').read_text())
    assert record['model'] == 'encoder' and record['encoder']['folder'] == 'encoder'


def emissions_by_numpy(folder, sentence):
    """The emissions of a sentence, (words, tags): BERT and LSTM in NumPy, means in plain Python, and the projection."""
    weights = records.read_tensors(folder / 'weights.ckpt')
    directions = [[next(array for key, array in weights.items() if f'layers.0.{cell}.{name}' in key)
                   for name in LSTM_WEIGHTS] for cell in ('forward_lstm', 'backward_lstm')]
    (vectors, words), = by_numpy(CONFIG, tensors())([sentence])
    hidden, pooled = bilstm(vectors, *directions), np.zeros((len(sentence), 6))
    for word in set(words):
        pieces = [hidden[place] for place, found in enumerate(words) if found == word]
        pooled[word] = sum(pieces) / len(pieces)
    return pooled @ weights['projection.weight'].T + weights['projection.bias']


@pytest.fixture(scope='module')
def tags_of_long(frozen):
    """The tags of the run for `LONG`, whose last sentence is longer than a window of the encoder."""
    encoded = Subwords(LONG[-1:], EncoderFiles(frozen[0] / 'encoder').tokenizer,
                          CONFIG['max_position_embeddings'])
    assert len(encoded.windows) > 1
    tagged = Tagger.load(frozen[0]).tag(LONG, False)
    assert [sentence.tokens for sentence in tagged] == LONG
    tags = [sentence.tags for sentence in tagged]
    assert len({tag for sentence in tags for tag in sentence}) > 1
    return tags


def test_encoder_runs_tags_are_those_of_numpy_and_enumeration(frozen, tags_of_long, tmp_path):
    """Tags and confidences agree with NumPy emissions and enumeration of all paths.

    Checked for the run and for an exported graph with confidences; some words have no subwords.
    """
    folder, _ = frozen
    weights = records.read_tensors(folder / 'weights.ckpt')
    scores = {name: weights[f'head.{key}'].astype(float) for name, key in (
        ('transitions', 'transitions'), ('start', 'start_transitions'), ('end', 'end_transitions'))}
    names = SavedRun.open(folder).vocabulary_record['tags']
    allowed = allowed_transitions('BIO', names)
    tagger = Tagger.load(folder)
    mindir.export(folder, tmp_path / 'a.mindir', 'confidences')
    graph = Tagger.load(tmp_path / 'a.mindir').tag(LONG)
    assert [tagged.tags for tagged in graph] == tags_of_long
    for sentence, tagged, other in zip(SENTENCES, tagger.tag(SENTENCES), graph):
        assert tagged.tokens == other.tokens == sentence and tagged.tags == other.tags
        if not sentence:
            continue
        emissions = emissions_by_numpy(folder, sentence)
        row = Row(emissions, scores, (allowed.transitions, allowed.start, allowed.end))
        assert tagged.tags == [names[tag] for tag in row.best()]
        best = np.exp(row.scores.max() - row.log_normalizer())
        assert tagged.confidence == pytest.approx(best, rel=1e-4)
        assert other.confidence == pytest.approx(best, rel=1e-4)


def test_encoder_runs_give_their_tags_in_graphs_of_one_shape_and_of_emissions(frozen, tags_of_long, tmp_path, capsys):
    graph = tmp_path / 'a.mindir'
    assert export.main(['--run', str(frozen[0]), '--output', str(graph), '--device', 'CPU', '--emissions', '--static',
                        '5', '30']) == 0
    assert (tmp_path / 'a.json').exists()
    tagger = Tagger.load(graph)
    assert [tagged.tags for tagged in tagger.tag(LONG)] == tags_of_long
    capsys.readouterr()
    assert infer.main(['--mindir', str(graph), '--text', 'to ' * 31, '--device', 'CPU']) == 2
    assert 'sentences of up to 30 tokens or subwords, got 31' in capsys.readouterr().err


def test_encoder_runs_infer_scores_as_training_did(frozen, corpora, capsys):
    folder, _ = frozen
    assert infer.main(['--run', str(folder), '--input', str(corpora / 'test.tsv'), '--score',
                               '--device', 'CPU']) == 0
    assert capsys.readouterr().out.splitlines() == SavedRun.open(folder).scores['test']['table']


def test_encoder_runs_vectors_that_are_kept_serve_another_run(frozen, corpora, encoder, tmp_path, capsys):
    folder, _ = frozen
    kept = {file: file.stat().st_mtime_ns for file in (folder.parent / 'kept').iterdir()}
    assert len(kept) == 3 and all(file.suffix == '.npy' for file in kept)
    options = options_of(arguments(corpora, encoder, tmp_path / 'run', '--encoder-cache',
                                                 str(folder.parent / 'kept'), '--encoder-link'))
    watcher = train.TrainingTerminal()
    one = course.start(options, watcher).learner
    options = replace(options, encoder_cache='', save=str(tmp_path / 'plain'))
    plain = course.start(options, watcher).learner
    for part in ('train', 'dev'):
        assert isinstance(one.encoded[part].vectors, np.memmap)
        assert one.encoded[part].vectors.tobytes() == plain.encoded[part].vectors.tobytes()
    assert {file: file.stat().st_mtime_ns for file in (folder.parent / 'kept').iterdir()} == kept
    # The run stores the path of the encoder, and detects changed files there.
    assert not (tmp_path / 'run' / 'encoder').exists()
    opened = SavedRun.open(tmp_path / 'run')
    assert opened.config['encoder']['folder'] == str(encoder)
    copy = tmp_path / 'copy'
    shutil.copytree(encoder, copy)
    opened.config['encoder']['folder'] = str(copy)
    assert read_encoder(opened).path == copy
    other = bytearray((copy / 'model.safetensors').read_bytes())
    other[-1] ^= 1
    (copy / 'model.safetensors').write_bytes(other)
    with pytest.raises(CorpusError, match='copy: expected the encoder that .* was trained with, got another or a dam'):
        read_encoder(opened)
    shutil.rmtree(copy)
    with pytest.raises(CorpusError, match='copy: no such folder; it is the encoder in .*/config.json; restore'):
        read_encoder(opened)
    shutil.copytree(folder.parent / 'kept', tmp_path / 'kept')
    for file in (tmp_path / 'kept').iterdir():
        file.write_bytes(file.read_bytes()[:-8])
    capsys.readouterr()
    assert train.main(arguments(corpora, encoder, tmp_path / 'again', '--encoder-cache',
                                        str(tmp_path / 'kept'))) == 2
    message = capsys.readouterr().err
    assert 'expected vectors stored by training' in message and message.endswith('; delete the file\n')


def test_encoder_runs_a_signal_while_text_is_encoded_leaves_nothing(corpora, encoder, tmp_path):
    """A signal while text is encoded leaves no files in the cache or the run.

    The signal arrives after the first file of vectors was created and before its graph is compiled.
    """
    command = arguments(corpora, encoder, tmp_path / 'run', '--encoder-cache', str(tmp_path / 'kept'))
    with subprocess.Popen([sys.executable, '-u', 'train.py', *command], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        assert any(', frozen; ' in line for line in process.stdout)           # the last line before encoding
        while process.poll() is None and not list((tmp_path / 'kept').glob('.*')):
            pass
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=100)
    assert (process.returncode, output, errors) == (130, '', 'train.py: stopped\n')
    assert [path.name for path in tmp_path.rglob('*')] == ['kept']


class CopyAt(train.TrainingTerminal):
    """Copies the folder of the run after the first epoch."""

    def __init__(self, folder, copy):
        super().__init__()
        self.folder, self.copy = folder, copy

    def epoch_ends(self, record):
        super().epoch_ends(record)
        if record['epoch'] == 1:
            shutil.copytree(self.folder, self.copy)


def test_encoder_runs_a_tuned_encoder_learns_and_resumes_to_the_bit(corpora, encoder, tmp_path):
    options = options_of(arguments(corpora, encoder, tmp_path / 'run', '--encoder-lr', '0.001'))
    course.start(options, train.TrainingTerminal())             # stop before the first step
    run = course.resume(tmp_path / 'run', options, CopyAt(tmp_path / 'run', tmp_path / 'copy'))
    before = EncoderFiles(encoder).weights()
    for name, array in before.items():
        found, = (parameter for parameter in run.network.get_parameters() if parameter.name == f'encoder.{name}')
        assert (found.asnumpy() == array).all()
    run.run()
    course.resume(tmp_path / 'copy', options, train.TrainingTerminal()).run()
    for name in (records.STATE, records.WEIGHTS):
        found, expected = (records.read_tensors(tmp_path / place / name) for place in ('copy', 'run'))
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            assert found[key].tobytes() == array.tobytes(), key
    after = records.read_tensors(tmp_path / 'run' / records.WEIGHTS)
    unused = {'positions', 'kinds'}                              # the training does not use all of their rows
    for name, array in before.items():
        moved = np.abs(after[f'encoder.{name}'] - array)
        assert 0 < moved.max() < 0.02 and (name in unused | {'pieces'} or moved.mean() > 0), name
    tagger = Tagger.load(tmp_path / 'run')
    assert [len(tagged.tags) for tagged in tagger.tag(SENTENCES)] == [len(sentence) for sentence in SENTENCES]


def test_encoder_runs_resuming_with_other_text_or_another_kind_of_training(frozen, corpora, tmp_path, capsys):
    folder, _ = frozen
    shutil.copytree(folder, tmp_path / 'run')
    shutil.copy(corpora / 'train.tsv', tmp_path / 'train.tsv')
    record = SavedRun.open(tmp_path / 'run').config
    record['options'].update(train=str(tmp_path / 'train.tsv'), encoder_cache='')
    records.write_json(tmp_path / 'run' / 'config.json', record)
    (tmp_path / 'train.tsv').write_text((corpora / 'train.tsv').read_text().replace('Xan', 'Yel'))
    for others, message in (([], f'{tmp_path}/train.tsv: the sentences have changed since {tmp_path}/run was started'),
                            (['--encoder-lr', '1'], '--encoder-lr cannot change between 0 and a positive value')):
        assert train.main(['--resume', str(tmp_path / 'run'), '--device', 'CPU', *others]) == 2
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1


def test_encoder_runs_weights_of_16_bits(tmp_path):
    arrays = {name: array.astype(np.float16) for name, array in tensors(prefix='bert.').items()}
    weights = EncoderFiles(make_folder(tmp_path / 'bert', arrays=arrays)).weights()
    assert weights['pieces'].dtype == np.float32
    assert (weights['layers.1.outer.weight'] == arrays['bert.encoder.layer.1.output.dense.weight']).all()


def test_encoder_runs_half_a_surrogate_pair_is_tagged(frozen, corpora):
    encoded = Subwords([['to', '\ud800'], ['in']], EncoderFiles(frozen[0] / 'encoder').tokenizer, 20)
    assert encoded.lengths.tolist() == [2, 1] and encoded.words.tolist() == [0, 1, 0]


def test_encoder_runs_a_network_that_is_too_large_for_a_graph(frozen, tmp_path, monkeypatch):
    monkeypatch.setattr(mindir, 'LARGEST', 1000)
    with pytest.raises(CorpusError, match='expected at most 1,000 bytes of weights, the limit of Mind'):
        mindir.export(frozen[0], tmp_path / 'a.mindir')
    assert not list(tmp_path.iterdir())
