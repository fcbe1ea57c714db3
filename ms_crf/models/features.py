"""Base classes for custom model types: a network whose input is some integers for each token, the features.

A subclass of `FeatureKind` defines the features of tokens, and the network. This module provides batches, training,
tagging, confidences and export.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from ms_crf.base.errors import OptionError, brief
from ms_crf.base.watchers import Watcher
from ms_crf.crf.constraints import Constraints
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled, Kind, StepLearner, Tags, TagsRecord
from ms_crf.models.bucketing import RowShape, TokenBatch, row_shapes, token_batch
from ms_crf.models.graphs import ExportCell, GraphDecoder, GraphInput, Static, constraints_of, load_weights
from ms_crf.models.learning import NetworkLearner, texts_of
from ms_crf.runs.options import Options
from ms_crf.runs.run import SavedRun
from ms_crf.text.splitting import mostly_characters

import numpy as np
from mindspore import nn, ops


class FeatureNetwork(nn.Cell):
    """Base class of a network over features.

    A subclass writes `emissions_of`, and sets `head` (a `CRF` or another `Head`) and `widths`: the sizes of the vectors
    to which dropout is applied; the first is the input of the network.
    """

    def emissions_of(self, features, seq_length, keep=None):
        """The score of each tag at each position.

        Args:
            features: (length, batch, count) int32, 0 for padding.
            seq_length: (batch,) int32.
            keep: in training the dropout masks: a tensor (length, batch, width) for each of `widths`, to multiply with
                the vectors; otherwise None.

        Returns:
            (length, batch, num_tags) float32.
        """
        raise NotImplementedError

    def construct(self, features, seq_length, tags, keep=None):
        """The training loss, averaged over sentences; tags are (length, batch). For the rest see `emissions_of`."""
        return self.head(self.emissions_of(features, seq_length, keep), tags, seq_length)


@dataclass(kw_only=True)
class FeatureRecord(TagsRecord):
    """The fields of `FeatureTags` in vocab.json."""

    known: Any


class FeatureTags(Tags):
    """The tags of a model, and the data for computing features.

    Args:
        tags: strings; their ids begin at 0.
        of_characters: whether the tokens of the training text are mostly single characters.
        known: the result of `FeatureKind.known`.
    """

    record: ClassVar[type] = FeatureRecord

    def __init__(self, tags: list, of_characters: bool, known: Any) -> None:
        super().__init__(tags, of_characters)
        self.known = known


class _Encoded(NamedTuple):
    """Sentences as features."""

    lengths: np.ndarray                  # (sentences,) number of tokens
    features: list[np.ndarray]           # for each sentence (tokens, count) int32
    tags: list[np.ndarray] | None        # the result of `Tags.gold`


class _Learner(NetworkLearner[_Encoded, RowShape]):
    """The learner of a `FeatureKind`: the corpora as features."""

    vocabulary: FeatureTags

    def __init__(self, kind: type['FeatureKind'], options: Options, corpora: Corpora) -> None:
        train = texts_of(corpora)['train']
        vocabulary = FeatureTags(corpora.tags, mostly_characters(set(chain.from_iterable(train))),
                                 kind.known(train, options))
        super().__init__(options, corpora, vocabulary,
                         lambda sentences, tags: kind.encode(sentences, vocabulary.known)._replace(tags=tags))
        self.kind, self.shapes = kind, row_shapes(self.sizes, options.batch_size)

    def network(self) -> FeatureNetwork:
        """A new network with its initial weights."""
        return self.kind.build(self.options, self.vocabulary, self.scheme)

    def decoder(self, network: FeatureNetwork, compiled: Compiled | None) -> '_Decoder':
        """A decoder that tags with the network."""
        return _Decoder(network, self.vocabulary, self.kind.encoding(self.vocabulary), compiled)

    def batch(self, shape: RowShape, indices: np.ndarray) -> TokenBatch:
        """The arrays of a step: features (length, rows, count), lengths (rows,) and tags (length, rows)."""
        return token_batch(self.encoded['train'], self.encoded['train'].features, shape, indices)


class _Decoder(GraphDecoder[_Encoded]):
    """Tags with the network of a `FeatureKind`."""

    def inputs(self, encoded: _Encoded, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """Batches: (length, rows), indices of the sentences, and the arrays (lengths, features, lengths)."""
        for shape, indices in self.plan(encoded.lengths, at_most):
            batch = token_batch(encoded, encoded.features, shape, indices)
            yield shape, indices, (batch.lengths, batch.values, batch.lengths)


class _FeatureExportCell(ExportCell):
    """The cell of the exported graph of a `FeatureKind`."""

    def construct(self, features, lengths):
        """Tags sentences: features (batch, length, count) int32 and lengths (batch,) int32."""
        return self.tag(self.network.emissions_of(ops.transpose(features, (1, 0, 2)), lengths), lengths)


class _GraphInput(GraphInput[_Encoded]):
    """Converts sentences to the inputs of an exported graph: features and lengths."""

    def __init__(self, kind: type['FeatureKind'], vocabulary: FeatureTags) -> None:
        super().__init__(vocabulary, kind.encoding(vocabulary))
        self.kind = kind

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs, for a batch of the static shape (batch, length), or of any shape."""
        batch, length = static or (None, None)
        return {'features': (batch, length, self.kind.count), 'lengths': (batch,)}

    def arrays(self, encoded: _Encoded, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, for the sentences with the indices `indices`."""
        batch = token_batch(encoded, encoded.features, self.shape(encoded, indices, static), indices)
        return {'features': np.ascontiguousarray(batch.values.transpose(1, 0, 2)), 'lengths': batch.lengths}


def _as_rows(features: Any, tokens: int, count: int) -> np.ndarray | None:
    """Features as an array (tokens, count) int32; None unless they are `count` 32-bit integers for each token."""
    try:
        array = np.asarray(features)
    except ValueError:                           # the rows have different lengths
        return None
    if count == 1 and array.ndim == 1:
        array = array[:, None]
    if array.shape != (tokens, count) or array.dtype.kind not in 'biu':
        return None
    limits = np.iinfo(np.int32)
    return array.astype(np.int32) if limits.min <= array.min() and array.max() <= limits.max else None


class FeatureKind(Kind):
    """Base class of a model type whose network reads features: subclass it and pass the class to `register`.

    Attributes:
        name: name of the model type in config.json and in the `Options` of a training.
        options: names of the `Options` that the model uses; the general options of training in steps are always
            allowed.
        count: number of features of a token.
    """

    count: ClassVar[int] = 1

    @classmethod
    def known(cls, sentences: list, options: Options) -> Any:
        """The data for computing features, such as a vocabulary; must be valid JSON.

        Args:
            sentences: the training sentences, as lists of tokens.
            options: options of the training.
        """
        return None

    @classmethod
    def features(cls, tokens: list, known: Any) -> Any:
        """The features of the tokens of a sentence: `count` integers for each token. 0 is reserved for padding."""
        raise NotImplementedError

    @classmethod
    def network(cls, known: Any, num_tags: int, options: Options, constraints: Constraints | None) -> FeatureNetwork:
        """A new network with `num_tags` tags; `constraints` is the argument of `CRF`, or None."""
        raise NotImplementedError

    @classmethod
    def encode(cls, sentences: Sequence[list[str]], known: Any) -> _Encoded:
        """Converts lists of tokens to the input of a decoder.

        Raises:
            OptionError: `features` did not return `count` 32-bit integers for each token.
        """
        features = [cls._rows(tokens, cls.features(tokens, known)) for tokens in sentences]
        return _Encoded(np.array([len(tokens) for tokens in sentences], np.int32), features, None)

    @classmethod
    def encoding(cls, vocabulary: FeatureTags) -> Callable[[Sequence[list[str]]], _Encoded]:
        """A function that converts lists of tokens to features."""
        return partial(cls.encode, known=vocabulary.known)

    @classmethod
    def _rows(cls, tokens: list, features: Any) -> np.ndarray:
        """The result of `features` for a sentence as (tokens, count) int32; raises OptionError if it is invalid."""
        rows = _as_rows(features, len(tokens), cls.count)
        if rows is not None:
            return rows
        expected = f'{cls.__name__}.features of the model type {cls.name} must return'
        if not (isinstance(features, (list, tuple)) or (isinstance(features, np.ndarray) and features.ndim)):
            raise OptionError(f'{expected} a list with an entry for each token, got {brief(features)}')
        if len(features) != len(tokens):
            raise OptionError(f'{expected} an entry for each of the {len(tokens)} tokens of a sentence, got '
                              f'{len(features)}')
        invalid = (position for position, entry in enumerate(features) if _as_rows([entry], 1, cls.count) is None)
        position = next(invalid, 0)
        raise OptionError(f'{expected} {cls.count} integer{"s" * (cls.count > 1)} of 32 bits for each token, got '
                          f'{brief(features[position])} for {brief(tokens[position])} at position {position}')

    @classmethod
    def build(cls, options: Options, vocabulary: FeatureTags, scheme: str) -> FeatureNetwork:
        """The network of a run with random weights."""
        tags = vocabulary.tags
        return cls.network(vocabulary.known, len(tags), options, constraints_of(options, scheme, tags))

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: SavedRun | None = None) -> StepLearner:
        """The learner of a new or resumed training."""
        return _Learner(cls, options, corpora)

    @classmethod
    def load_network(cls, run: SavedRun) -> tuple[FeatureTags, FeatureNetwork]:
        """The tags of a run, and its network with the weights of the best epoch."""
        vocabulary = run.vocabulary(FeatureTags)
        network = cls.build(replace(run.options, precision='float32'), vocabulary, run.scheme)
        load_weights(run, network)
        return vocabulary, network

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> _Decoder:
        """A decoder with the model of a run."""
        vocabulary, network = cls.load_network(run)
        return _Decoder(network, vocabulary, cls.encoding(vocabulary), compiled)

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple[_GraphInput, _FeatureExportCell]:
        """The `GraphInput` of the exported graph of a run, and the cell to export."""
        vocabulary, network = cls.load_network(run)
        return _GraphInput(cls, vocabulary), _FeatureExportCell(network, output)

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> _GraphInput:
        """The `GraphInput` of an exported graph, from its record; raises ValueError if the record is invalid."""
        return _GraphInput(cls, FeatureTags.from_json(record, closed=False))
