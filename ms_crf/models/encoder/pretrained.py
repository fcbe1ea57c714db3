"""The folder of a pretrained encoder: config.json, model.safetensors, and tokenizer.json or vocab.txt.

This is the layout of BERT, RoBERTa and similar models on the Hugging Face hub. The libraries that read these files are
imported on first use, because only encoders need them.
"""

import importlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief, not_installed
from ms_crf.base.fields import Fault, checked, errors_in, json_of, load_record, read_json, wrong
from ms_crf.base.files import PathLike
from ms_crf.models.encoder.windows import specials_of

import numpy as np

CONFIG, WEIGHTS, TOKENIZER, VOCABULARY, TOKENIZER_CONFIG = (
    'config.json', 'model.safetensors', 'tokenizer.json', 'vocab.txt', 'tokenizer_config.json')
_BERT, _ROBERTA = ('bert',), ('roberta', 'xlm-roberta', 'camembert')
_ACTIVATIONS = {'gelu': 'gelu', 'gelu_new': 'gelu_tanh', 'gelu_pytorch_tanh': 'gelu_tanh', 'relu': 'relu'}
_FLOATS = ('F32', 'F16')
_SPECIAL = ('[UNK]', '[CLS]', '[SEP]')


class Sizes(NamedTuple):
    """The sizes from config.json, with the argument names of `Encoder`."""

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
        """The largest number of subwords of a window, including special tokens."""
        return self.positions - self.first_position


class EncoderFiles:
    """The folder of an encoder; opening it reads config.json and the tokenizer.

    Args:
        path: the folder.

    Attributes:
        sizes: sizes of the encoder.
        tokenizer: a tokenizer of the library tokenizers.

    Raises:
        CorpusError: a file is missing, damaged or not supported.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = path = Path(path)
        if os.path.exists(path) and not os.path.isdir(path):
            raise CorpusError(path, None, f'expected a folder with {CONFIG}, {WEIGHTS} and {TOKENIZER}, got a file')
        if not os.path.isdir(path):
            raise CorpusError(path, None, f'no such folder; download {CONFIG}, {WEIGHTS} and {TOKENIZER} (or '
                                          f'{VOCABULARY}) of a BERT or RoBERTa model from the Hugging Face hub into a '
                                          'folder, and name that folder')
        with errors_in(path / CONFIG):
            self.sizes = load_record(PretrainedConfig, _json(path / CONFIG)).sizes()
        self.tokenizer = _tokenizer(path)
        known = 1 + last_id(self.tokenizer)
        if known > self.sizes.vocabulary:
            raise CorpusError(path / CONFIG, None, f'expected "vocab_size" to be at least {known}, one more than '
                                                   f'the largest id of the tokenizer, got {self.sizes.vocabulary}')
        if not os.path.isfile(path / WEIGHTS):
            raise CorpusError(path / WEIGHTS, None, 'no such file; expected the weights in one file of this name '
                                                    '(not .bin, not in several parts)')

    def weights(self) -> dict[str, np.ndarray]:
        """The tensors as float32, with the parameter names of `Encoder`."""
        path, safetensors = self.path / WEIGHTS, _library('safetensors')
        try:
            with safetensors.safe_open(path, 'numpy') as file:
                present = set(file.keys())
                prefix = next((prefix for prefix in ('bert.', 'roberta.')
                               if f'{prefix}embeddings.word_embeddings.weight' in present), '')
                return {ours: np.concatenate([_tensor(file, path, present, prefix + name, shape) for name in theirs])
                        for ours, theirs, shape in _names(self.sizes)}
        except (safetensors.SafetensorError, OSError) as error:
            raise CorpusError(path, None, f'expected tensors in the format safetensors: {error}') from None

    def copy(self, path: PathLike) -> None:
        """Copies the files to a new folder; may raise OSError."""
        path = Path(path)
        path.mkdir()
        for file in paths_in(self.path):
            shutil.copyfile(file, path / file.name)


def paths_in(folder: Path) -> list[Path]:
    """The existing files in an encoder's folder on which its vectors depend."""
    names = [TOKENIZER] if os.path.isfile(folder / TOKENIZER) else [VOCABULARY, TOKENIZER_CONFIG]
    return [folder / name for name in (CONFIG, *names, WEIGHTS) if os.path.isfile(folder / name)]


def _epsilon(value: float) -> Fault | None:
    return None if 0 < value < 1 else ('a number between 0 and 1', brief(value))


@dataclass(kw_only=True)
class PretrainedConfig:
    """The used fields of an encoder's config.json, with the supported values."""

    model_type: str = checked(choices=(*_BERT, *_ROBERTA))
    position_embedding_type: str = checked('absolute', choices=('absolute',))
    is_decoder: bool = checked(None, choices=(False,))
    hidden_act: str = checked(choices=tuple(_ACTIVATIONS))
    layer_norm_eps: float = checked(1e-12, must=_epsilon)
    hidden_size: int = checked(least=1)
    embedding_size: int = checked(None)
    num_attention_heads: int = checked(least=1)
    num_hidden_layers: int = checked(least=1)
    intermediate_size: int = checked(least=1)
    vocab_size: int = checked(least=1)
    type_vocab_size: int = checked(least=1)
    max_position_embeddings: int = checked(least=8)
    pad_token_id: int = checked(None)

    def sizes(self) -> Sizes:
        """The sizes with the argument names of `Encoder`; raises ValueError if fields contradict each other."""
        width, first = self.hidden_size, 0
        if self.embedding_size not in (None, width):
            raise wrong('embedding_size', f'the same as "hidden_size", {width}', brief(self.embedding_size))
        if width % self.num_attention_heads:
            raise wrong('num_attention_heads', f'a divisor of "hidden_size", {width}', brief(self.num_attention_heads))
        if self.model_type in _ROBERTA:                          # positions of RoBERTa begin after the padding id
            if self.pad_token_id is None or self.pad_token_id < 0:
                raise wrong('pad_token_id', 'at least 0', brief(self.pad_token_id))
            first = self.pad_token_id + 1
        if self.max_position_embeddings < first + 8:
            raise wrong('max_position_embeddings', f'at least {first + 8}', brief(self.max_position_embeddings))
        return Sizes(self.vocab_size, width, self.num_hidden_layers, self.num_attention_heads, self.intermediate_size,
                     self.max_position_embeddings, first, self.type_vocab_size, _ACTIVATIONS[self.hidden_act],
                     self.layer_norm_eps)


def _json(path: Path) -> Any:
    return read_json(path, 'the Hugging Face hub', 'no such file; expected the configuration of a pretrained encoder')


def _tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, without truncation and padding."""
    path = folder / TOKENIZER
    if path.is_file():
        record = _json(path)
        # The input is a list of words. If subwords contain spaces, add a space before each word, as in running text.
        steps = [record.get('pre_tokenizer')] if isinstance(record, dict) else []
        for step in steps:
            if isinstance(step, dict):
                steps += step['pretokenizers'] if isinstance(step.get('pretokenizers'), list) else []
                if step.get('type') == 'ByteLevel':
                    step['add_prefix_space'] = True
        text = json.dumps(record)
    elif (folder / VOCABULARY).is_file():
        path = folder / VOCABULARY
        text = _wordpiece_json(path, folder / TOKENIZER_CONFIG)
    else:
        raise CorpusError(path, None, f'no such file; expected {TOKENIZER} or {VOCABULARY}')
    with errors_in(path):
        return tokenizer_of(text)


def tokenizer_of(text: str) -> Any:
    """A tokenizer of the library tokenizers from its JSON; raises ValueError if it is invalid or not supported."""
    library = _library('tokenizers')
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:                   # the library raises plain exceptions
        raise ValueError(f'expected a tokenizer in the JSON format of the library tokenizers: {error}') from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = json_of(text)['model']
    unknown = model.get('unk_token')
    if unknown is not None and tokenizer.token_to_id(unknown) is None:
        raise ValueError(f'expected the unknown subword {unknown} in the list of subwords')
    if model.get('type') == 'Unigram' and model.get('unk_id') is None:
        raise ValueError('expected "unk_id", the id of the unknown subword, got none')
    specials_of(tokenizer)
    return tokenizer


def last_id(tokenizer: Any) -> int:
    """The largest id of a tokenizer."""
    before, after = specials_of(tokenizer)
    return max(*tokenizer.get_vocab().values(), *before.tolist(), *after.tolist(), 0)


def _library(name: str) -> Any:
    """Imports a library that only encoders need; raises an error with the install command if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise not_installed('a pretrained encoder', name.partition('.')[0], 'encoder') from None


@dataclass
class TokenizerConfig:
    """The used fields of tokenizer_config.json, for a tokenizer from vocab.txt."""

    do_lower_case: bool = checked(None)
    strip_accents: bool = checked(None)
    tokenize_chinese_chars: bool = checked(None)


def _wordpiece_json(path: Path, config: Path) -> str:
    """The JSON of a WordPiece tokenizer, from the list of subwords in vocab.txt."""
    try:
        subwords = path.read_text(encoding='utf-8').split('\n')
    except (ValueError, OSError) as error:
        raise CorpusError(path, None, f'expected one subword per line, in UTF-8: {error}') from None
    for subword in _SPECIAL:
        if subword not in subwords:
            raise CorpusError(path, None, f'expected a line {subword}, got none')
    # If tokenizer_config.json does not say it, a list without capital letters is for lowercased text.
    lower = not any(subword != subword.lower() for subword in subwords if not subword.startswith('['))
    with errors_in(config):
        options = load_record(TokenizerConfig, _json(config) if config.is_file() else {})
    tokenizer = _library('tokenizers').BertWordPieceTokenizer(
        {subword: index for index, subword in enumerate(subwords) if subword},
        lowercase=lower if options.do_lower_case is None else options.do_lower_case,
        strip_accents=options.strip_accents, handle_chinese_chars=options.tokenize_chinese_chars is not False)
    return tokenizer.to_str()


def _names(sizes: Sizes) -> Iterator[tuple[str, list[str], tuple]]:
    """For each parameter of `Encoder`: its name, the names of the tensors that form it, and their shape."""
    width, inner = sizes.width, sizes.inner

    def pair(ours: str, theirs: list[str], *shape: int) -> Iterator[tuple[str, list[str], tuple]]:
        weight, bias = ('gamma', 'beta') if len(shape) == 1 else ('weight', 'bias')         # layer norm; linear layer
        yield f'{ours}.{weight}', [f'{name}.weight' for name in theirs], shape
        yield f'{ours}.{bias}', [f'{name}.bias' for name in theirs], shape[:1]

    yield 'pieces', ['embeddings.word_embeddings.weight'], (sizes.vocabulary, width)
    yield 'positions', ['embeddings.position_embeddings.weight'], (sizes.positions, width)
    yield 'kinds', ['embeddings.token_type_embeddings.weight'], (sizes.kinds, width)
    yield from pair('norm', ['embeddings.LayerNorm'], width)
    for layer in range(sizes.layers):
        ours, theirs = f'layers.{layer}', f'encoder.layer.{layer}'
        attention = [f'{theirs}.attention.self.{part}' for part in ('query', 'key', 'value')]
        yield from pair(f'{ours}.attention.inputs', attention, width, width)
        yield from pair(f'{ours}.attention.output', [f'{theirs}.attention.output.dense'], width, width)
        yield from pair(f'{ours}.attention_norm', [f'{theirs}.attention.output.LayerNorm'], width)
        yield from pair(f'{ours}.inner', [f'{theirs}.intermediate.dense'], inner, width)
        yield from pair(f'{ours}.outer', [f'{theirs}.output.dense'], width, inner)
        yield from pair(f'{ours}.norm', [f'{theirs}.output.LayerNorm'], width)


def _tensor(file: Any, path: Path, present: set[str], name: str, shape: tuple) -> np.ndarray:
    """A tensor of a file as float32; raises CorpusError if it is missing, or has another shape or type."""
    # Models that were converted from TensorFlow call the parameters of a layer norm gamma and beta.
    older = name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta')
    stored = next((known for known in (name, older) if known in present), None)
    if stored is None:
        raise CorpusError(path, None, f'expected a tensor {name}, got none')
    tensor = file.get_slice(stored)
    if tuple(tensor.get_shape()) != shape:
        raise CorpusError(path, None, f'expected {stored} of shape {shape}, as in config.json, '
                                      f'got {tuple(tensor.get_shape())}')
    if tensor.get_dtype() not in _FLOATS:
        raise CorpusError(path, None, f'expected {stored} of type {" or ".join(_FLOATS)}, got {tensor.get_dtype()}; '
                                      'save the model as float32')
    array = file.get_tensor(stored).astype(np.float32)
    if not np.isfinite(array).all():
        raise CorpusError(path, None, f'expected {stored} to be finite numbers, got infinity or nan')
    return array
