"""A pretrained encoder as a folder: config.json, model.safetensors, and tokenizer.json or vocab.txt.

That is how the Hugging Face hub lays out BERT, RoBERTa and models of their form. The libraries that read it are
needed only here and are imported when they are.
"""

import importlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ms_crf.errors import CorpusError
from ms_crf.models.encoder.windows import specials_of

import numpy as np

CONFIG, WEIGHTS, TOKENIZER, VOCABULARY, TOKENIZER_CONFIG = (
    'config.json', 'model.safetensors', 'tokenizer.json', 'vocab.txt', 'tokenizer_config.json')
_BERT, _ROBERTA = ('bert',), ('roberta', 'xlm-roberta', 'camembert')
_ACTIVATIONS = {'gelu': 'gelu', 'gelu_new': 'gelu_tanh', 'gelu_pytorch_tanh': 'gelu_tanh', 'relu': 'relu'}
_FLOATS = ('F32', 'F16')
_SPECIAL = ('[UNK]', '[CLS]', '[SEP]')


class Sizes(NamedTuple):
    """What config.json says, in the names of `Encoder`."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    first_position: int
    kinds: int
    activation: str
    epsilon: float

    @property
    def longest(self) -> int:
        """How many subwords it takes at most, the special ones among them."""
        return self.positions - self.first_position


class EncoderFiles:
    """A folder, of which config.json and the tokenizer have been read.

    Args:
        path: the folder.

    Raises:
        CorpusError: something is missing, damaged or of another form.
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        if os.path.exists(path) and not os.path.isdir(path):
            raise CorpusError(path, None, f'expected a folder with {CONFIG}, {WEIGHTS} and {TOKENIZER}, got a file')
        if not os.path.isdir(path):
            raise CorpusError(path, None, f'no such folder; download {CONFIG}, {WEIGHTS} and {TOKENIZER} (or '
                                          f'{VOCABULARY}) of a BERT or RoBERTa model from the Hugging Face hub into a '
                                          'folder, and name that folder')
        self.sizes = _sizes(self.path / CONFIG)
        self.tokenizer = _tokenizer(self.path)
        known = 1 + last_id(self.tokenizer)
        if known > self.sizes.vocabulary:
            raise CorpusError(self.path / CONFIG, None, f'expected "vocab_size" to be at least {known}, one more than '
                                                        f'the last id of the tokenizer, got {self.sizes.vocabulary}')
        if not os.path.isfile(self.path / WEIGHTS):
            raise CorpusError(self.path / WEIGHTS, None, 'no such file; expected the weights in one file of this name '
                                                         '(not .bin, not in several parts)')

    def weights(self) -> dict[str, np.ndarray]:
        """The tensors as float32, in the names of `Encoder`'s parameters."""
        return _weights(self.path / WEIGHTS, self.sizes)

    def paths(self) -> list[Path]:
        """Of the files that vectors depend on."""
        names = [TOKENIZER] if os.path.isfile(self.path / TOKENIZER) else [VOCABULARY, TOKENIZER_CONFIG]
        return [self.path / name for name in (CONFIG, *names, WEIGHTS) if os.path.isfile(self.path / name)]

    def copy(self, path: Any) -> None:
        """Makes a folder of that name that holds the same files; may raise OSError."""
        path = Path(path)
        path.mkdir()
        for file in self.paths():
            shutil.copyfile(file, path / file.name)


def _object(path: Path) -> dict:
    """The JSON object in a file."""
    try:
        record = json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise CorpusError(path, None, 'no such file; expected that of a pretrained encoder') from None
    except OSError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(path, None, f'expected JSON: {error}') from None
    if not isinstance(record, dict):
        raise CorpusError(path, None, f'expected a JSON object, got {type(record).__name__}')
    return record


def _sizes(path: Path) -> Sizes:
    """What config.json says; raises CorpusError at the first thing in it that this encoder can't be."""
    record = _object(path)

    def fault(key: str, expected: str) -> CorpusError:
        return CorpusError(path, None, f'expected "{key}" to be {expected}, got {record.get(key)!r}')

    def number(key: str, least: int = 1) -> int:
        value = record.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise fault(key, f'a whole number of at least {least}')
        return value

    kind = record.get('model_type')
    if kind not in (*_BERT, *_ROBERTA):
        raise fault('model_type', f'one of {", ".join((*_BERT, *_ROBERTA))}')
    if record.get('position_embedding_type', 'absolute') != 'absolute':
        raise fault('position_embedding_type', "'absolute'")
    if record.get('is_decoder'):
        raise fault('is_decoder', 'false')
    if record.get('embedding_size', record.get('hidden_size')) != record.get('hidden_size'):
        raise fault('embedding_size', 'the same as "hidden_size"')
    if not isinstance(record.get('hidden_act'), str) or record['hidden_act'] not in _ACTIVATIONS:
        raise fault('hidden_act', f'one of {", ".join(_ACTIVATIONS)}')
    epsilon = record.get('layer_norm_eps', 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise fault('layer_norm_eps', 'a number between 0 and 1')
    width, heads = number('hidden_size'), number('num_attention_heads')
    if width % heads:
        raise fault('num_attention_heads', f'a divisor of "hidden_size", {width}')
    first = number('pad_token_id', 0) + 1 if kind in _ROBERTA else 0     # RoBERTa counts positions from there
    return Sizes(number('vocab_size'), width, number('num_hidden_layers'), heads, number('intermediate_size'),
                 number('max_position_embeddings', first + 8), first, number('type_vocab_size'),
                 _ACTIVATIONS[record['hidden_act']], epsilon)


def _tokenizer(folder: Path) -> Any:
    """A tokenizer of the library, without what cuts or fills sentences."""
    path = folder / TOKENIZER
    if path.is_file():
        record = _object(path)
        # Words come one by one; where blanks are part of the subwords, each word has one before it, as in running text.
        steps = [record.get('pre_tokenizer')]
        for step in steps:
            if isinstance(step, dict):
                steps += step['pretokenizers'] if isinstance(step.get('pretokenizers'), list) else []
                if step.get('type') == 'ByteLevel':
                    step['add_prefix_space'] = True
        text = json.dumps(record)
    elif (folder / VOCABULARY).is_file():
        path = folder / VOCABULARY
        text = _of_vocabulary(path, folder / TOKENIZER_CONFIG)
    else:
        raise CorpusError(path, None, f'no such file; expected it, or {VOCABULARY}')
    try:
        return tokenizer_of(text)
    except CorpusError:                          # which is a ValueError too
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None


def tokenizer_of(text: str) -> Any:
    """A tokenizer of the library from its JSON; raises ValueError if it is none, or none that serves an encoder."""
    library = _library('tokenizers')
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:                   # the library raises nothing more special
        raise ValueError(f'expected a tokenizer as the library tokenizers reads it: {error}') from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = json.loads(text)['model']
    unknown = model.get('unk_token')
    if unknown is not None and tokenizer.token_to_id(unknown) is None:
        raise ValueError(f'expected {unknown}, which stands for unknown subwords, to be one of its subwords')
    if model.get('type') == 'Unigram' and model.get('unk_id') is None:
        raise ValueError('expected "unk_id", the subword that stands for unknown ones, got none')
    specials_of(tokenizer)
    return tokenizer


def last_id(tokenizer: Any) -> int:
    """The greatest id that a tokenizer gives."""
    before, behind = specials_of(tokenizer)
    return max(*tokenizer.get_vocab().values(), *before.tolist(), *behind.tolist(), 0)


def _library(name: str) -> Any:
    """A library that only encoders need."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise CorpusError(name, None, 'this library, which encoders need, is not installed; do: '
                                      'pip install -r requirements-encoder.txt') from None


def _of_vocabulary(path: Path, config: Path) -> str:
    """The text of a WordPiece tokenizer, from a list of subwords."""
    try:
        subwords = path.read_text(encoding='utf-8').split('\n')
    except (ValueError, OSError) as error:
        raise CorpusError(path, None, f'expected a subword a line, in UTF-8: {error}') from None
    for subword in _SPECIAL:
        if subword not in subwords:
            raise CorpusError(path, None, f'expected a line {subword}, got none')
    # Without its configuration, a list without capitals is one of lower case.
    lower = not any(subword != subword.lower() for subword in subwords if not subword.startswith('['))
    options = {'do_lower_case': lower, 'strip_accents': None, 'tokenize_chinese_chars': True}
    for key, value in (_object(config) if config.is_file() else {}).items():
        if key in options and value is not None:
            if not isinstance(value, bool):
                raise CorpusError(config, None, f'expected "{key}" to be true or false, got {value!r}')
            options[key] = value
    made = _library('tokenizers').BertWordPieceTokenizer(
        {subword: index for index, subword in enumerate(subwords) if subword}, lowercase=options['do_lower_case'],
        strip_accents=options['strip_accents'], handle_chinese_chars=options['tokenize_chinese_chars'])
    return made.to_str()


def _names(sizes: Sizes) -> Iterator[tuple[str, list[str], tuple]]:
    """For each parameter of `Encoder`, the tensors that are put together for it, and their shape."""
    width, inner = sizes.width, sizes.inner

    def norm(ours: str, theirs: str) -> Iterator[tuple[str, list[str], tuple]]:
        yield f'{ours}.gamma', [f'{theirs}.weight'], (width,)
        yield f'{ours}.beta', [f'{theirs}.bias'], (width,)

    def product(ours: str, theirs: list[str], shape: tuple) -> Iterator[tuple[str, list[str], tuple]]:
        yield f'{ours}.weight', [f'{name}.weight' for name in theirs], shape
        yield f'{ours}.bias', [f'{name}.bias' for name in theirs], shape[:1]

    yield 'pieces', ['embeddings.word_embeddings.weight'], (sizes.vocabulary, width)
    yield 'positions', ['embeddings.position_embeddings.weight'], (sizes.positions, width)
    yield 'kinds', ['embeddings.token_type_embeddings.weight'], (sizes.kinds, width)
    yield from norm('norm', 'embeddings.LayerNorm')
    for layer in range(sizes.layers):
        ours, theirs = f'layers.{layer}', f'encoder.layer.{layer}'
        looks = [f'{theirs}.attention.self.{part}' for part in ('query', 'key', 'value')]
        yield from product(f'{ours}.attention.inputs', looks, (width, width))
        yield from product(f'{ours}.attention.output', [f'{theirs}.attention.output.dense'], (width, width))
        yield from norm(f'{ours}.attention_norm', f'{theirs}.attention.output.LayerNorm')
        yield from product(f'{ours}.inner', [f'{theirs}.intermediate.dense'], (inner, width))
        yield from product(f'{ours}.outer', [f'{theirs}.output.dense'], (width, inner))
        yield from norm(f'{ours}.norm', f'{theirs}.output.LayerNorm')


def _weights(path: Path, sizes: Sizes) -> dict[str, np.ndarray]:
    """The tensors of a file, in the names of `Encoder`'s parameters."""
    safetensors = _library('safetensors')
    try:
        with safetensors.safe_open(path, 'numpy') as file:
            present = set(file.keys())
            prefix = next((prefix for prefix in ('bert.', 'roberta.')
                           if f'{prefix}embeddings.word_embeddings.weight' in present), '')
            return {ours: np.concatenate([_tensor(file, path, present, prefix + name, shape) for name in theirs])
                    for ours, theirs, shape in _names(sizes)}
    except (safetensors.SafetensorError, OSError) as error:
        raise CorpusError(path, None, f'expected tensors in the format safetensors: {error}') from None


def _tensor(file: Any, path: Path, present: set[str], name: str, shape: tuple) -> np.ndarray:
    """A tensor of a file as float32; raises CorpusError unless it is there, and of this shape."""
    # Weights that came from TensorFlow call those of a norm gamma and beta.
    older = name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta')
    stored = next((known for known in (name, older) if known in present), None)
    if stored is None:
        raise CorpusError(path, None, f'expected a tensor {name}, got none')
    tensor = file.get_slice(stored)
    if tuple(tensor.get_shape()) != shape:
        raise CorpusError(path, None, f'expected {stored} of shape {shape}, as config.json says, '
                                      f'got {tuple(tensor.get_shape())}')
    if tensor.get_dtype() not in _FLOATS:
        raise CorpusError(path, None, f'expected {stored} of type {" or ".join(_FLOATS)}, got {tensor.get_dtype()}; '
                                      'save the model in 32 bits')
    array = file.get_tensor(stored).astype(np.float32)
    if not np.isfinite(array).all():
        raise CorpusError(path, None, f'expected {stored} to be finite numbers, got others among them')
    return array
