"""Invalid encoder folders and options: the error message has one line, and no files are left."""

import json
import sys

from ms_crf.base.errors import OptionError
from ms_crf.cli import console, train

import numpy as np
import pytest

from support.encoders import CONFIG, PIECES, arguments, make_folder, tensors
from support.trainings import options_of


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
     f'model.safetensors: expected {QUERY} of shape (12, 12), as in config.json, got (12, 11)'),
    ({}, changed(QUERY, np.zeros((12, 12), np.int8)), f'{QUERY} of type F32 or F16, got I8; save the model as float32'),
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
    ({'vocab_size': 50}, None, f'expected "vocab_size" to be at least {len(PIECES)}, one more than the largest id'),
    ({'hidden_act': ['gelu']}, None, "\"hidden_act\" to be one of gelu, gelu_new, gelu_pytorch_tanh, relu, got ["),
    ({'vocab_size': 10 ** 12}, None, 'expected embeddings.word_embeddings.weight of shape (1000000000000, 12), as'),
    ({'num_hidden_layers': 10 ** 12}, None, 'expected a tensor encoder.layer.2.attention.self.query.weight, got none'),
    ({'is_decoder': True}, None, 'expected "is_decoder" to be False, got True'),
    ({'embedding_size': 6}, None, 'expected "embedding_size" to be the same as "hidden_size", 12, got 6'),
])
def test_encoder_faults_an_encoder_that_does_not_fit(corpora, tmp_path, capsys, config, arrays, message):
    folder = make_folder(tmp_path / 'bert', {**CONFIG, **config}, arrays or tensors())
    check_fault(corpora, tmp_path, capsys, folder, message)
    check_fault(corpora, tmp_path, capsys, folder, message, '--encoder-lr', '0.001')


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
    ('config.json', None, 'bert/config.json: no such file; expected the configuration of a pretrained encoder'),
    ('config.json', b'{', 'bert/config.json: expected JSON as the Hugging Face hub writes it: '),
    ('config.json', b'[]', 'expected a JSON object, got list'),
    ('model.safetensors', None, 'bert/model.safetensors: no such file; expected the weights in one file'),
    ('model.safetensors', b'garbage' * 9, 'bert/model.safetensors: expected tensors in the format safetensors: '),
    ('model.safetensors', 'half', 'bert/model.safetensors: expected tensors in the format safetensors: '),
    ('vocab.txt', None, 'bert/tokenizer.json: no such file; expected tokenizer.json or vocab.txt'),
    ('vocab.txt', b'[UNK]\n[CLS]\n', 'bert/vocab.txt: expected a line [SEP], got none'),
    ('vocab.txt', b'\xff', 'bert/vocab.txt: expected one subword per line, in UTF-8: '),
    ('tokenizer.json', b'{"model": 1}', 'bert/tokenizer.json: expected a tokenizer in the JSON format of the library'),
    ('tokenizer.json', b'x', 'bert/tokenizer.json: expected JSON as the Hugging Face hub writes it: '),
    ('tokenizer.json', b'[' * 100000, 'writes it: it is nested too deeply'),
    ('tokenizer.json', WITHOUT_SPECIALS, 'bert/tokenizer.json: expected a tokenizer with a "post_processor" that '),
    ('tokenizer.json', WITHOUT_UNKNOWN, 'bert/tokenizer.json: expected the unknown subword [UNK] in the list '),
    ('tokenizer_config.json', b'{"do_lower_case": "no"}', 'expected "do_lower_case" to be true or false, got \'no\''),
])
def test_encoder_faults_an_encoder_with_damaged_files(corpora, tmp_path, capsys, name, content, message):
    folder = make_folder(tmp_path / 'bert')
    if content is None:
        (folder / name).unlink()
    else:
        whole = (folder / name).read_bytes() if content == 'half' else b''
        (folder / name).write_bytes(whole[:len(whole) // 2] or content)
    check_fault(corpora, tmp_path, capsys, folder, message)


def test_encoder_faults_a_name_that_is_no_folder(corpora, tmp_path, capsys):
    check_fault(corpora, tmp_path, capsys, corpora / 'dev.tsv', 'dev.tsv: expected a folder with config.json, model.')
    check_fault(corpora, tmp_path, capsys, 'bert-base-cased', 'bert-base-cased: no such folder; download config.json, '
                'model.safetensors and tokenizer.json (or vocab.txt) of a BERT or RoBERTa model from the Hugging Face '
                'hub into a folder, and name that folder')


@pytest.mark.parametrize('others,message', [
    (['--encoder', 'x', '--word-dim', '50'], '--word-dim has no effect with --encoder; omit it'),
    (['--encoder', 'x', '--char', 'none'], '--char has no effect with --encoder'),
    (['--encoder-lstm', '50'], '--encoder-lstm has no effect without --encoder'),
    (['--encoder', 'x', '--encoder-lstm', '0', '--layers', '2'], '--layers has no effect with --encoder-lstm 0'),
    (['--encoder', 'x', '--encoder-lstm', '7'], '--encoder-lstm must be even'),
    (['--encoder', 'x/encoder', '--save', 'x'], '--encoder must not be inside --save, got x/encoder; choose another'),
    (['--encoder', 'x', '--save', 'y', '--encoder-cache', 'y'], '--encoder-cache must not be inside --save, got y'),
    (['--encoder', 'x', '--encoder-lr', '1', '--encoder-cache', 'y'],
     '--encoder-cache needs a frozen encoder; omit it or --encoder-lr'),
    (['--model', 'hmm', '--encoder', 'x'], '--encoder has no effect with --model hmm'),
])
def test_encoder_faults_options_that_mean_nothing(others, message):
    with pytest.raises(OptionError) as raised:
        options_of(others)
    assert raised.value.with_options(console.option_name).startswith(message)


def test_encoder_faults_a_cache_that_is_no_folder(corpora, encoder, tmp_path, capsys):
    check_fault(corpora, tmp_path, capsys, encoder, 'dev.tsv: cannot create a folder for vectors: ',
                '--encoder-cache', str(corpora / 'dev.tsv'))


def test_encoder_faults_libraries_that_are_not_there(corpora, encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'tokenizers', None)
    check_fault(corpora, tmp_path, capsys, encoder, "a pretrained encoder needs tokenizers, which is not "
                "installed: pip install 'ms_crf[encoder]', or pip install -r requirements-encoder.txt")
