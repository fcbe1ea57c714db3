"""Common parts of learners: encoding of corpora, batches, best tags for scoring, and the check of memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ms_crf.base.errors import OptionError, argument
from ms_crf.base.memory import check_memory
from ms_crf.formats.dataset import Corpora, digest_of
from ms_crf.models.base import Decoder, Encoded, Tags
from ms_crf.models.bucketing import S, Shape, cut_rows, plan
from ms_crf.runs.options import Options

import numpy as np


class Corpus(Encoded, Protocol):
    """Sentences as ids, with gold tags."""

    @property
    def tags(self) -> list[np.ndarray] | None:
        """The result of `Tags.gold`; None for sentences without gold tags."""


C = TypeVar('C', bound=Corpus)


class NetworkLearner(Generic[C, S]):
    """Base class of learners of a network; subclasses create the network, the decoder and the arrays of a step.

    Args:
        options: options of the training.
        corpora: the sentences, all in one tag scheme.
        vocabulary: the tags, and the ids of the input of the network.
        encode: converts lists of tokens, and the result of `Tags.gold` or None, to a `Corpus`.

    Attributes:
        encoded: 'train', 'dev' and, if there is a test file, 'test'; only 'train' has gold tags.
        sizes: the length that each training sentence needs in a batch: (sentences,).
        shapes: shapes of batches for all training sentences, shortest first.
    """

    vocabulary: Tags
    shapes: Sequence[S]

    def __init__(self, options: Options, corpora: Corpora, vocabulary: Tags,
                 encode: Callable[[list[list[str]], list[np.ndarray] | None], C]) -> None:
        self.options, self.scheme, self.vocabulary = options, corpora.scheme, vocabulary
        gold = vocabulary.gold([sentence.tags for sentence in corpora.parts['train']])
        self.encoded: Mapping[str, C] = {part: encode(sentences, gold if part == 'train' else None)
                                         for part, sentences in texts_of(corpora).items()}
        self.sizes = self.encoded['train'].lengths
        self._record: dict[str, Any] = {'text_sha256': digest_of(corpora.parts['train']),
                                        'dev_sha256': digest_of(corpora.parts['dev'])}

    def record(self) -> dict[str, Any]:
        """The fields of the model in config.json: digests of the train and dev sentences, and fields of subclasses."""
        return self._record

    def fill(self, folder: Path) -> None:
        """Writes nothing: a new run directory needs no further files."""

    @cached_property
    def annotated_sizes(self) -> np.ndarray:
        """The sizes of the training sentences, 0 for unlabelled sentences."""
        tags = self.encoded['train'].tags or ()
        annotated = [not gold.all() if gold.dtype == bool else bool((gold >= 0).any()) for gold in tags]
        return np.where(annotated, self.sizes, 0)

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """(shape, indices of sentences) of the batches of an epoch."""
        return plan(self.shapes, self.annotated_sizes, cut_rows, generator)


def texts_of(corpora: Corpora) -> dict[str, list[list[str]]]:
    """The tokens of all sentences of each part of the corpora."""
    return {part: [sentence.tokens for sentence in sentences] for part, sentences in corpora.parts.items()}


def tags_of(decoder: Decoder, encoded: Encoded) -> list[list[str]]:
    """The best tags of all encoded sentences, in the order of the sentences."""
    names = decoder.vocabulary.tags
    tagged: list[list[str]] = [[]] * len(encoded.lengths)
    for indices, (paths, *_) in decoder.run(encoded):
        for row, index in enumerate(indices):
            tagged[index] = [names[tag] for tag in paths[row, :encoded.lengths[index]]]
    return tagged


_DEFAULTS: dict[str, Any] = {entry.name: entry.default for entry in fields(Options)}
_LARGE = ('word_dim', 'char_dim', 'char_width', 'char_length', 'hidden', 'encoder_lstm', 'layers', 'batch_size')


def layer_weights(width: int, hidden: int, layers: int, tags: int, head: str) -> int:
    """The number of weights of `Layers`."""
    total = 0
    for _ in range(layers):
        total += 2 * 4 * (hidden // 2) * (width + hidden // 2 + 2)       # directions, gates, rows, columns, biases
        width = hidden
    return total + (width + 1) * tags + (tags * (tags + 2) if head == 'crf' else 0)


class Needs(NamedTuple):
    """The size of a network, in numbers of 4 bytes: the sizes of its layers, and of the parts below the layers."""

    width: int                 # width of the input of the layers
    hidden: int                # width of a BiLSTM layer's output
    layers: int                # number of BiLSTM layers
    weights: int = 0           # weights below the layers
    step: int = 0              # values that a step computes below the layers
    fixed: int = 0             # numbers without gradients and optimizer states


def check_fits(options: Options, needs: Callable[[Options], Needs], tags: int, shapes: Sequence[Shape],
               otherwise: str) -> None:
    """Raises OptionError if a training needs more memory than is available.

    The message names options above their defaults that account for most of the memory. Weights are counted exactly. Of
    the values of a step, only values count that are certainly in memory at the same time, so that no possible training
    is rejected.

    Args:
        options: options of the training.
        needs: function from options to the size of a network, with batches of these shapes.
        tags: number of tags.
        shapes: shapes of the batches.
        otherwise: text for the message if no option is above its default.
    """
    tokens = max(shape.length * shape.rows for shape in shapes)
    # Copies of a weight: itself, its gradient, the moments of the optimizer, the average.
    copies = 2 + (1 if options.optimizer == 'sgd' else 2) + (options.average > 0)

    def count(changed: Options) -> int:
        width, hidden, layers, weights, step, fixed = needs(changed)
        weights += layer_weights(width, hidden, layers, tags, changed.head)
        # Inputs and outputs of layers before and after dropout, their dropout masks, and scores.
        step += tokens * (3 * (width + hidden * layers) + tags)
        return fixed + weights * copies + int(step * changed.batch_size / options.batch_size)

    size = count(options)
    saved = {name: size - count(replace(options, **{name: _DEFAULTS[name]})) for name in _LARGE
             if getattr(options, name) > _DEFAULTS[name]}
    largest = [f'{argument(name)} {getattr(options, name)}' for name in saved if 2 * saved[name] >= max(saved.values())]
    check_memory(4 * size, f'a training with {" and ".join(largest) or otherwise}', error=OptionError)
