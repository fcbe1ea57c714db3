"""Runs over a pretrained encoder, from `train.py --encoder` to tags and graphs; and folders that can't be used."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

from ms_crf import Tagger, allowed_transitions, infer, train
from ms_crf.errors import CorpusError, OptionError
from ms_crf.models import mindir
from ms_crf.models.encoder.model import read_encoder
from ms_crf.models.encoder.pretrained import EncoderFiles
from ms_crf.models.encoder.windows import Subwords
from ms_crf.runs import records
from ms_crf.training import begin

import numpy as np
import pytest

from conftest import ROOT, files, options_of
from encoders import CONFIG, PIECES, make_folder, peer_of, tensors
from oracle import Row

SENTENCES = [['to', 'Xan', 'in', 'Yel'], [], ['unknown'], ['\u200d', 'Xel', 'Yor'], ['of', '\u200d']]


def arguments(corpora, encoder, folder, *others):
    return [*files(corpora), '--encoder', str(encoder), '--encoder-lstm', '6', '--batch-size', '4', '--epochs', '2',
            '--learning-rate', '0.05', '--average', '0.9', '--device', 'CPU', '--save', str(folder), *others]


@pytest.fixture(scope='module')
def encoder(tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp('encoders') / 'small')
    (folder / 'tokenizer_config.json').write_text('{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}')
    return folder


@pytest.fixture(scope='module')
def frozen(corpora, encoder, tmp_path_factory):
    """A run with a frozen encoder, in a process of its own, and what it printed; `kept` beside it holds vectors."""
    pytest.importorskip('tokenizers')
    folder = tmp_path_factory.mktemp('frozen') / 'run'
    command = arguments(corpora, encoder, folder, '--encoder-cache', str(folder.parent / 'kept'))
    result = subprocess.run([sys.executable, 'train.py', *command], cwd=ROOT, capture_output=True, text=True,
                            timeout=200)
    assert (result.returncode, result.stderr) == (0, '')
    return folder, result.stdout


def test_what_a_run_prints_and_leaves(frozen, encoder):
    folder, output = frozen
    lines = output.splitlines()
    assert any(line.endswith(' subwords a word; 2 layers, 12 wide, frozen') for line in lines)
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


def emissions_by_pytorch(folder, encoder, sentence):
    """(words, tags): transformers, PyTorch's LSTM, means in plain Python, and the projection."""
    torch = pytest.importorskip('torch')
    weights = {name: torch.tensor(array) for name, array in
               records.read_tensors(folder / 'weights.ckpt').items()}
    (vectors, words), = peer_of(encoder)([sentence])
    lstm = torch.nn.LSTM(12, 3, bidirectional=True)
    for ending, cell in (('', 'forward_lstm'), ('_reverse', 'backward_lstm')):
        for name in ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh'):
            ours, = (array for key, array in weights.items() if f'layers.0.{cell}.{name}' in key)
            getattr(lstm, f'{name}_l0{ending}').data = ours
    hidden = lstm(torch.tensor(vectors)[:, None])[0][:, 0].detach() if words else torch.zeros(0, 6)
    pooled = torch.zeros(len(sentence), 6)
    for word in set(words):
        pieces = [hidden[place] for place, found in enumerate(words) if found == word]
        pooled[word] = sum(pieces) / len(pieces)
    return (pooled @ weights['projection.weight'].T + weights['projection.bias']).numpy().astype(float)


def test_tags_are_those_of_pytorch_and_enumeration(frozen, encoder, tmp_path):
    """A word without pieces among them; from the run, and from a graph with confidences."""
    folder, _ = frozen
    weights = records.read_tensors(folder / 'weights.ckpt')
    scores = {name: weights[f'head.{key}'].astype(float) for name, key in (
        ('transitions', 'transitions'), ('start', 'start_transitions'), ('end', 'end_transitions'))}
    names = records.read_json(folder / 'vocab.json')['tags']
    allowed = allowed_transitions('BIO', names)
    tagger = Tagger.load(folder)
    mindir.export(folder, tmp_path / 'a.mindir', 'confidences')
    graph = Tagger.load(tmp_path / 'a.mindir').tag(SENTENCES)
    for sentence, tagged, other in zip(SENTENCES, tagger.tag(SENTENCES), graph):
        assert tagged.tokens == other.tokens == sentence and tagged.tags == other.tags
        if not sentence:
            continue
        emissions = emissions_by_pytorch(folder, encoder, sentence)
        row = Row(emissions, scores, (allowed.transitions, allowed.start, allowed.end))
        assert tagged.tags == [names[tag] for tag in row.best()]
        best = np.exp(row.scores.max() - row.log_normalizer())
        assert tagged.confidence == pytest.approx(best, rel=1e-4)
        assert other.confidence == pytest.approx(best, rel=1e-4)


def test_infer_scores_as_training_did(frozen, corpora, capsys):
    """The test corpus has a sentence of twelve words; twice it is longer than the encoder takes at once."""
    folder, _ = frozen
    assert infer.main(['--run', str(folder), '--input', str(corpora / 'test.tsv'), '--score',
                               '--device', 'CPU']) == 0
    assert capsys.readouterr().out.splitlines() == records.read_json(folder / 'scores.json')['test']['table']
    words = max((block.split() for block in (corpora / 'test.tsv').read_text().split('\n\n')), key=len)[::2] * 2
    encoded = Subwords([words], EncoderFiles(folder / 'encoder').tokenizer, CONFIG['max_position_embeddings'])
    assert len(encoded.windows) > 1
    assert infer.main(['--run', str(folder), '--text', ' '.join(words), '--format', 'conll',
                               '--device', 'CPU']) == 0
    assert [line.split('\t')[0] for line in capsys.readouterr().out.strip().splitlines()] == words


def test_vectors_that_are_kept_serve_another_run(frozen, corpora, encoder, tmp_path, capsys):
    folder, _ = frozen
    kept = {file: file.stat().st_mtime_ns for file in (folder.parent / 'kept').iterdir()}
    assert len(kept) == 3 and all(file.suffix == '.npy' for file in kept)
    options = options_of(arguments(corpora, encoder, tmp_path / 'run', '--encoder-cache',
                                                 str(folder.parent / 'kept'), '--encoder-link'))
    watcher = train.Watcher()
    one = begin.start(options, watcher).learner
    options = replace(options, encoder_cache='', save=str(tmp_path / 'plain'))
    plain = begin.start(options, watcher).learner
    for part in ('train', 'dev'):
        assert isinstance(one.encoded[part].vectors, np.memmap)
        assert one.encoded[part].vectors.tobytes() == plain.encoded[part].vectors.tobytes()
    assert {file: file.stat().st_mtime_ns for file in (folder.parent / 'kept').iterdir()} == kept
    # The run names the folder, and notices that it is another.
    assert not (tmp_path / 'run' / 'encoder').exists()
    record = records.read_config(tmp_path / 'run')
    assert record['encoder']['folder'] == str(encoder)
    copy = tmp_path / 'copy'
    shutil.copytree(encoder, copy)
    record['encoder']['folder'] = str(copy)
    assert read_encoder(tmp_path / 'run', record).path == copy
    other = bytearray((copy / 'model.safetensors').read_bytes())
    other[-1] ^= 1
    (copy / 'model.safetensors').write_bytes(other)
    with pytest.raises(CorpusError, match='copy: expected the encoder that .* was trained with, got another or a dam'):
        read_encoder(tmp_path / 'run', record)
    shutil.rmtree(copy)
    with pytest.raises(CorpusError, match='copy: no such folder; .*/config.json names it as the encoder of the run'):
        read_encoder(tmp_path / 'run', record)
    shutil.copytree(folder.parent / 'kept', tmp_path / 'kept')
    for file in (tmp_path / 'kept').iterdir():
        file.write_bytes(file.read_bytes()[:-8])
    capsys.readouterr()
    assert train.main(arguments(corpora, encoder, tmp_path / 'again', '--encoder-cache',
                                        str(tmp_path / 'kept'))) == 2
    message = capsys.readouterr().err
    assert 'expected vectors as train.py keeps them' in message and message.endswith('; delete the file\n')


class CopyAt(train.Watcher):
    """Copies the run when an epoch has ended."""

    def __init__(self, folder, copy):
        super().__init__()
        self.folder, self.copy = folder, copy

    def epoch_ends(self, record):
        super().epoch_ends(record)
        if record['epoch'] == 1:
            shutil.copytree(self.folder, self.copy)


def test_a_tuned_encoder_learns_and_resumes_to_the_bit(corpora, encoder, tmp_path):
    options = options_of(arguments(corpora, encoder, tmp_path / 'run', '--encoder-lr', '0.001'))
    begin.start(options, train.Watcher())             # and then nothing for once
    run = begin.resume(tmp_path / 'run', options, CopyAt(tmp_path / 'run', tmp_path / 'copy'))
    before = EncoderFiles(encoder).weights()
    for name, array in before.items():
        found, = (parameter for parameter in run.network.get_parameters() if parameter.name == f'encoder.{name}')
        assert (found.asnumpy() == array).all()
    run.run()
    begin.resume(tmp_path / 'copy', options, train.Watcher()).run()
    for name in (records.STATE, records.WEIGHTS):
        found, expected = (records.read_tensors(tmp_path / place / name) for place in ('copy', 'run'))
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            assert found[key].tobytes() == array.tobytes(), key
    after = records.read_tensors(tmp_path / 'run' / records.WEIGHTS)
    unused = {'positions', 'kinds'}                              # some rows of these are
    for name, array in before.items():
        moved = np.abs(after[f'encoder.{name}'] - array)
        assert 0 < moved.max() < 0.02 and (name in unused | {'pieces'} or moved.mean() > 0), name
    tagger = Tagger.load(tmp_path / 'run')
    assert [len(tagged.tags) for tagged in tagger.tag(SENTENCES)] == [len(sentence) for sentence in SENTENCES]


def without(name):
    return {key: array for key, array in tensors().items() if key != name}


def changed(name, array):
    return {**tensors(), name: array}


QUERY = 'encoder.layer.1.attention.self.query.weight'


@pytest.mark.parametrize('config,arrays,message', [
    ({}, without(QUERY), f'model.safetensors: expected a tensor {QUERY}, got none'),
    ({}, without('embeddings.word_embeddings.weight'),
     'model.safetensors: expected a tensor embeddings.word_embeddings.weight, got none'),
    ({}, changed(QUERY, np.zeros((12, 11), np.float32)),
     f'model.safetensors: expected {QUERY} of shape (12, 12), as config.json says, got (12, 11)'),
    ({}, changed(QUERY, np.zeros((12, 12), np.int8)), f'{QUERY} of type F32 or F16, got I8; save the model in 32 bits'),
    ({}, changed(QUERY, np.full((12, 12), np.nan, np.float32)), f'expected {QUERY} to be finite numbers'),
    ({'model_type': 'gpt2'}, None,
     "config.json: expected \"model_type\" to be one of bert, roberta, xlm-roberta, camembert, got 'gpt2'"),
    ({'model_type': None}, None, 'expected "model_type" to be one of'),
    ({'hidden_act': 'swish'}, None, 'expected "hidden_act" to be one of gelu, gelu_new, gelu_pytorch_tanh, relu, got'),
    ({'position_embedding_type': 'relative_key'}, None, "\"position_embedding_type\" to be 'absolute', got 'relative"),
    ({'num_attention_heads': 5}, None, 'expected "num_attention_heads" to be a divisor of "hidden_size", 12, got 5'),
    ({'hidden_size': '12'}, None, "expected \"hidden_size\" to be a whole number, got '12'"),
    ({'hidden_size': 0}, None, 'expected "hidden_size" to be at least 1, got 0'),
    ({'layer_norm_eps': 'x'}, None, 'expected "layer_norm_eps" to be a number, got'),
    ({'layer_norm_eps': 1.0}, None, 'expected "layer_norm_eps" to be a number between 0 and 1, got 1.0'),
    ({'vocab_size': 50}, None, f'expected "vocab_size" to be at least {len(PIECES)}, one more than the last id'),
    ({'hidden_act': ['gelu']}, None, "\"hidden_act\" to be one of gelu, gelu_new, gelu_pytorch_tanh, relu, got ["),
    ({'vocab_size': 10 ** 12}, None, 'expected embeddings.word_embeddings.weight of shape (1000000000000, 12), as'),
    ({'num_hidden_layers': 10 ** 12}, None, 'expected a tensor encoder.layer.2.attention.self.query.weight, got none'),
    ({'is_decoder': True}, None, 'expected "is_decoder" to be False, got True'),
    ({'embedding_size': 6}, None, 'expected "embedding_size" to be the same as "hidden_size", 12, got 6'),
])
def test_an_encoder_that_does_not_fit(corpora, tmp_path, capsys, config, arrays, message):
    folder = make_folder(tmp_path / 'bert', {**CONFIG, **config}, arrays or tensors())
    check_fault(corpora, tmp_path, capsys, folder, message)
    check_fault(corpora, tmp_path, capsys, folder, message, '--encoder-lr', '0.001')


def test_weights_of_16_bits(tmp_path):
    arrays = {name: array.astype(np.float16) for name, array in tensors(prefix='bert.').items()}
    weights = EncoderFiles(make_folder(tmp_path / 'bert', arrays=arrays)).weights()
    assert weights['pieces'].dtype == np.float32
    assert (weights['layers.1.outer.weight'] == arrays['bert.encoder.layer.1.output.dense.weight']).all()


def check_fault(corpora, tmp_path, capsys, folder, message, *others):
    before = sorted(tmp_path.rglob('*'))
    assert train.main(arguments(corpora, folder, tmp_path / 'run', *others)) == 2
    error = capsys.readouterr().err
    assert error.startswith('train.py: ') and message in error and len(error.splitlines()) == 1, error
    assert sorted(tmp_path.rglob('*')) == before


WITHOUT_SPECIALS = json.dumps({
    'version': '1.0', 'added_tokens': [], 'pre_tokenizer': {'type': 'Whitespace'},
    'model': {'type': 'WordLevel', 'vocab': {'a': 0, '[UNK]': 1}, 'unk_token': '[UNK]'}}).encode()
WITHOUT_UNKNOWN = WITHOUT_SPECIALS.replace(b', "[UNK]": 1', b'')


@pytest.mark.parametrize('name,content,message', [
    ('config.json', None, 'bert/config.json: no such file; expected that of a pretrained encoder'),
    ('config.json', b'{', 'bert/config.json: expected JSON as the Hugging Face hub writes it: '),
    ('config.json', b'[]', 'expected a JSON object, got list'),
    ('model.safetensors', None, 'bert/model.safetensors: no such file; expected the weights in one file'),
    ('model.safetensors', b'garbage' * 9, 'bert/model.safetensors: expected tensors in the format safetensors: '),
    ('model.safetensors', 'half', 'bert/model.safetensors: expected tensors in the format safetensors: '),
    ('vocab.txt', None, 'bert/tokenizer.json: no such file; expected it, or vocab.txt'),
    ('vocab.txt', b'[UNK]\n[CLS]\n', 'bert/vocab.txt: expected a line [SEP], got none'),
    ('vocab.txt', b'\xff', 'bert/vocab.txt: expected a subword a line, in UTF-8: '),
    ('tokenizer.json', b'{"model": 1}', 'bert/tokenizer.json: expected a tokenizer as the library tokenizers reads it'),
    ('tokenizer.json', b'x', 'bert/tokenizer.json: expected JSON as the Hugging Face hub writes it: '),
    ('tokenizer.json', b'[' * 100000, 'writes it: it is nested too deeply'),
    ('tokenizer.json', WITHOUT_SPECIALS, 'bert/tokenizer.json: expected a tokenizer that puts special tokens such as '),
    ('tokenizer.json', WITHOUT_UNKNOWN, 'bert/tokenizer.json: expected [UNK], which stands for unknown subwords, '),
    ('tokenizer_config.json', b'{"do_lower_case": "no"}', 'expected "do_lower_case" to be true or false, got \'no\''),
])
def test_an_encoder_with_damaged_files(corpora, tmp_path, capsys, name, content, message):
    folder = make_folder(tmp_path / 'bert')
    if content is None:
        (folder / name).unlink()
    else:
        whole = (folder / name).read_bytes() if content == 'half' else b''
        (folder / name).write_bytes(whole[:len(whole) // 2] or content)
    check_fault(corpora, tmp_path, capsys, folder, message)


def test_a_name_that_is_no_folder(corpora, tmp_path, capsys):
    check_fault(corpora, tmp_path, capsys, corpora / 'dev.tsv', 'dev.tsv: expected a folder with config.json, model.')
    check_fault(corpora, tmp_path, capsys, 'bert-base-cased', 'bert-base-cased: no such folder; download config.json, '
                'model.safetensors and tokenizer.json (or vocab.txt) of a BERT or RoBERTa model from the Hugging Face '
                'hub into a folder, and name that folder')


@pytest.mark.parametrize('others,message', [
    (['--encoder', 'x', '--word-dim', '50'], '--word-dim means nothing with --encoder; leave it away'),
    (['--encoder', 'x', '--char', 'none'], '--char means nothing with --encoder'),
    (['--encoder-lstm', '50'], '--encoder-lstm means nothing without --encoder'),
    (['--encoder', 'x', '--encoder-lstm', '0', '--layers', '2'], '--layers means nothing with --encoder-lstm 0'),
    (['--encoder', 'x', '--encoder-lstm', '7'], '--encoder-lstm must be even'),
    (['--encoder', 'x/encoder', '--save', 'x'], '--encoder must not lie within --save, got x/encoder; copy or name it'),
    (['--encoder', 'x', '--save', 'y', '--encoder-cache', 'y'], '--encoder-cache must not lie within --save, got y'),
    (['--encoder', 'x', '--encoder-lr', '1', '--encoder-cache', 'y'], '--encoder-cache is for a frozen encoder'),
    (['--model', 'hmm', '--encoder', 'x'], '--encoder means nothing with --model hmm'),
])
def test_options_that_mean_nothing(others, message):
    with pytest.raises(OptionError, match=message):
        options_of(others)


def test_a_cache_that_is_no_folder(corpora, encoder, tmp_path, capsys):
    check_fault(corpora, tmp_path, capsys, encoder, 'dev.tsv: expected a folder to keep vectors in: ',
                '--encoder-cache', str(corpora / 'dev.tsv'))


def test_resuming_with_other_text_or_another_kind_of_training(frozen, corpora, tmp_path, capsys):
    folder, _ = frozen
    shutil.copytree(folder, tmp_path / 'run')
    shutil.copy(corpora / 'train.tsv', tmp_path / 'train.tsv')
    record = records.read_config(tmp_path / 'run')
    record['options'].update(train=str(tmp_path / 'train.tsv'), encoder_cache='')
    records.write_json(tmp_path / 'run' / 'config.json', record)
    (tmp_path / 'train.tsv').write_text((corpora / 'train.tsv').read_text().replace('Xan', 'Yel'))
    for others, message in (([], f'{tmp_path}/train.tsv: these are not the sentences that {tmp_path}/run began with'),
                            (['--encoder-lr', '1'], '--encoder-lr can not be 0 before --resume and more after it')):
        assert train.main(['--resume', str(tmp_path / 'run'), '--device', 'CPU', *others]) == 2
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1


def test_half_a_surrogate_pair_is_tagged(frozen, corpora):
    encoded = Subwords([['to', '\ud800'], ['in']], EncoderFiles(frozen[0] / 'encoder').tokenizer, 20)
    assert encoded.lengths.tolist() == [2, 1] and encoded.words.tolist() == [0, 1, 0]


def test_a_network_that_is_too_large_for_a_graph(frozen, tmp_path, monkeypatch):
    monkeypatch.setattr(mindir, 'LARGEST', 1000)
    with pytest.raises(CorpusError, match='expected a network of at most 1,000 bytes of weights, which Mind'):
        mindir.export(frozen[0], tmp_path / 'a.mindir')
    assert not list(tmp_path.iterdir())


def test_libraries_that_are_not_there(corpora, encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'tokenizers', None)
    check_fault(corpora, tmp_path, capsys, encoder, 'tokenizers: this library, which encoders need, is not installed; '
                'do: pip install -r requirements-encoder.txt')
