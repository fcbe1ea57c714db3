"""What learners have in common: the corpora as ids, batches of few shapes, tags for scoring, and checks of memory."""

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
    """Sentences as ids."""

    @property
    def tags(self) -> list[np.ndarray] | None:
        """For each sentence what `Tags.gold` returned; None where there are no tags."""


C = TypeVar('C', bound=Corpus)


class NetworkLearner(Generic[C, S]):
    """Corpora as ids, for a network; to be inherited by what makes the network, the decoder and the arrays of a step.

    Args:
        options: of the training.
        corpora: its sentences, in one scheme.
        vocabulary: the tags, and the ids of what the network reads.
        encode: makes ids of lists of tokens, and of what `Tags.gold` returned for them or None.

    Attributes:
        encoded: 'train', 'dev' and perhaps 'test'; 'train' with tags.
        sizes: (sentences,), the length that each training sentence needs in a batch.
        shapes: of batches, shortest first, that all training sentences fit into.
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
        """What config.json says of the model: digests of the sentences of train and dev, and more."""
        return self._record

    def fill(self, folder: Path) -> None:
        """A new run directory needs nothing further."""

    @cached_property
    def taught(self) -> np.ndarray:
        """The sizes of the training sentences, 0 for those of which nobody has judged a token."""
        tags = self.encoded['train'].tags or ()
        judged = [not own.all() if own.dtype == bool else bool((own >= 0).any()) for own in tags]
        return np.where(judged, self.sizes, 0)

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """(shape, indices of sentences) of the batches of an epoch."""
        return plan(self.shapes, self.taught, cut_rows, generator)


def texts_of(corpora: Corpora) -> dict[str, list[list[str]]]:
    """For each part the tokens of its sentences."""
    return {part: [sentence.tokens for sentence in sentences] for part, sentences in corpora.parts.items()}


def tags_of(decoder: Decoder, encoded: Encoded) -> list[list[str]]:
    """The best tags of all encoded sentences, in their order."""
    names = decoder.vocabulary.tags
    tagged: list[list[str]] = [[]] * len(encoded.lengths)
    for indices, (paths, *_) in decoder.run(encoded):
        for row, index in enumerate(indices):
            tagged[index] = [names[tag] for tag in paths[row, :encoded.lengths[index]]]
    return tagged


_DEFAULTS: dict[str, Any] = {entry.name: entry.default for entry in fields(Options)}
_LARGE = ('word_dim', 'char_dim', 'char_width', 'char_length', 'hidden', 'encoder_lstm', 'layers', 'batch_size')


def layer_weights(width: int, hidden: int, layers: int, tags: int, head: str) -> int:
    """How many numbers the weights of `Layers` are."""
    total = 0
    for _ in range(layers):
        total += 2 * 4 * (hidden // 2) * (width + hidden // 2 + 2)       # directions, gates, rows, columns with biases
        width = hidden
    return total + (width + 1) * tags + (tags * (tags + 2) if head == 'crf' else 0)


class Needs(NamedTuple):
    """What a network holds, in numbers of 4 bytes: the sizes of its layers, and what is below them."""

    width: int                 # of the input of the layers
    hidden: int
    layers: int
    weights: int = 0           # below the layers
    step: int = 0              # computed below the layers in a step
    fixed: int = 0             # held once, without gradients


def check_fits(options: Options, needs: Callable[[Options], Needs], tags: int, shapes: Sequence[Shape],
               otherwise: str) -> None:
    """Raises OptionError if a training does not fit into memory; it names the options that make the training so large.

    They are those that are above their defaults and without which it would be much smaller. Weights are counted
    exactly; of what a step computes only what is certainly there at once, so that nothing that would work is refused.

    Args:
        options: of the training.
        needs: what a network of other options needs, with batches of these shapes.
        tags: how many there are.
        shapes: of the batches.
        otherwise: stands for options if there are none.
    """
    tokens = max(shape.length * shape.rows for shape in shapes)
    # A weight, its gradient, the optimizer's moments, the average.
    copies = 2 + (1 if options.optimizer == 'sgd' else 2) + (options.average > 0)

    def count(changed: Options) -> int:
        width, hidden, layers, weights, step, fixed = needs(changed)
        weights += layer_weights(width, hidden, layers, tags, changed.head)
        # Vectors and outputs of layers, each with and without dropout and what it is; scores.
        step += tokens * (3 * (width + hidden * layers) + tags)
        return fixed + weights * copies + int(step * changed.batch_size / options.batch_size)

    size = count(options)
    saved = {name: size - count(replace(options, **{name: _DEFAULTS[name]})) for name in _LARGE
             if getattr(options, name) > _DEFAULTS[name]}
    named = [f'{argument(name)} {getattr(options, name)}' for name in saved if 2 * saved[name] >= max(saved.values())]
    check_memory(4 * size, f'a training with {" and ".join(named) or otherwise}', error=OptionError)
