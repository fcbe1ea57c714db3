"""Folders of small encoders with random weights, in the layout of the Hugging Face hub, and oracles that read them."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from support.networks import bert, word_pieces
from support.trainings import files

SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
LETTERS = 'abcdefghijklmnopqrstuvwxyz'
PIECES = [*SPECIAL, *LETTERS, *(f'##{letter}' for letter in LETTERS), 'to', 'in', 'at', 'on', 'by', 'of', 'the', '##an',
          '##el', '.', 'X', 'Y', 'Xan', 'Yel']
CONFIG = {'model_type': 'bert', 'vocab_size': len(PIECES), 'hidden_size': 12, 'num_hidden_layers': 2,
          'num_attention_heads': 3, 'intermediate_size': 20, 'max_position_embeddings': 20, 'type_vocab_size': 2,
          'hidden_act': 'gelu', 'layer_norm_eps': 1e-12, 'pad_token_id': 0}


def tensors(config=CONFIG, prefix='', seed=0):
    """A dict of random weights with BERT's names, after `prefix`."""
    generator = np.random.default_rng(seed)
    width, inner = config['hidden_size'], config['intermediate_size']
    shapes = {f'embeddings.{name}_embeddings.weight': (config[rows], width) for name, rows in (
        ('word', 'vocab_size'), ('position', 'max_position_embeddings'), ('token_type', 'type_vocab_size'))}
    norms = ['embeddings.LayerNorm']
    for layer in (f'encoder.layer.{number}' for number in range(config['num_hidden_layers'])):
        norms += [f'{layer}.attention.output.LayerNorm', f'{layer}.output.LayerNorm']
        for name, outputs, inputs in (('attention.self.query', width, width), ('attention.self.key', width, width),
                                      ('attention.self.value', width, width), ('attention.output.dense', width, width),
                                      ('intermediate.dense', inner, width), ('output.dense', width, inner)):
            shapes[f'{layer}.{name}.weight'], shapes[f'{layer}.{name}.bias'] = (outputs, inputs), (outputs,)
    found = {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    for norm in norms:
        found[f'{norm}.weight'] = generator.normal(1, 0.3, width).astype(np.float32)
        found[f'{norm}.bias'] = generator.normal(0, 0.3, width).astype(np.float32)
    return {prefix + name: array for name, array in found.items()}


def make_folder(path, config=CONFIG, arrays=None):
    """Creates the folder of a cased BERT, with vocab.txt; returns its path."""
    numpy = pytest.importorskip('safetensors.numpy')
    pytest.importorskip('tokenizers')
    path = Path(path)
    path.mkdir()
    (path / 'config.json').write_text(json.dumps(config))
    (path / 'vocab.txt').write_text('\n'.join(PIECES) + '\n')
    numpy.save_file(tensors(config) if arrays is None else arrays, path / 'model.safetensors')
    return path


def arguments(corpora, encoder, folder, *others):
    """Command-line arguments of a short training with a frozen encoder."""
    return [*files(corpora), '--encoder', str(encoder), '--encoder-lstm', '6', '--batch-size', '4', '--epochs', '2',
            '--learning-rate', '0.05', '--average', '0.9', '--scheme', 'BIO', '--device', 'CPU', '--save', str(folder),
            *others]


def by_numpy(config, arrays, prefix=''):
    """A function like `peer_of` returns, computed in float64 NumPy, for an encoder of `make_folder`."""
    arrays = {name: array.astype(float) for name, array in arrays.items()}

    def read(sentences):
        found = []
        for sentence in sentences:
            pieces = [word_pieces(word, PIECES) for word in sentence]
            ids = [PIECES.index('[CLS]'), *(piece for each in pieces for piece in each), PIECES.index('[SEP]')]
            words = [number for number, each in enumerate(pieces) for _ in each]
            found.append((bert(config, arrays, np.array(ids), prefix)[1:-1], words))
        return found
    return read


def peer_of(path):
    """A function that computes an encoder's vectors with transformers on PyTorch.

    It takes lists of words, and returns for each list the vectors of its pieces and the word index of each piece.
    """
    transformers, torch = pytest.importorskip('transformers'), pytest.importorskip('torch')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        model = transformers.AutoModel.from_pretrained(path).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, add_prefix_space=True)

    def read(sentences):
        found = []
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
        for first in range(0, len(order), 8):
            numbers = order[first:first + 8]
            inputs = tokenizer([sentences[number] for number in numbers], is_split_into_words=True, padding=True,
                               return_tensors='pt')
            with torch.no_grad():
                hidden = model(**inputs).last_hidden_state.numpy()
            for row, number in enumerate(numbers):
                words = inputs.word_ids(row)
                real = [place for place, word in enumerate(words) if word is not None]
                found.append((number, hidden[row, real], [words[place] for place in real]))
        return [(vectors, words) for _, vectors, words in sorted(found, key=lambda item: item[0])]
    read.model = model
    return read
