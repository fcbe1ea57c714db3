"""A base for kinds of model of one's own: a network that reads whole numbers about each token, its features.

`FeatureKind` says what has to be written: how features follow from tokens, and the network over them. Batches,
training, tagging, confidences and export are here.
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
from ms_crf.models.graphs import GraphDecoder, GraphInput, Served, Static, constraints_of, load_weights
from ms_crf.models.learning import NetworkLearner, texts_of
from ms_crf.runs.options import Options
from ms_crf.runs.run import SavedRun
from ms_crf.text.splitting import mostly_characters

import numpy as np
from mindspore import nn, ops


class FeatureNetwork(nn.Cell):
    """A network over features, to be inherited.

    What inherits it sets `head`, a `CRF` or another `Head`, and `widths`: of each place where values are dropped in
    training, the input of the network first; and writes `emissions_of`.
    """

    def emissions_of(self, features, seq_length, keep=None):
        """Scores of each tag at each position.

        Args:
            features: (length, batch, count) int32, 0 on padding.
            seq_length: (batch,) int32.
            keep: for training, for each of `widths` a tensor (length, batch, width) that the values there are
                multiplied with; None otherwise.

        Returns:
            (length, batch, num_tags) float32.
        """
        raise NotImplementedError

    def construct(self, features, seq_length, tags, keep=None):
        """The loss of training, mean of the sentences: see `emissions_of`, and tags (length, batch)."""
        return self.head(self.emissions_of(features, seq_length, keep), tags, seq_length)


@dataclass(kw_only=True)
class FeatureRecord(TagsRecord):
    """What vocab.json holds of `FeatureTags`."""

    known: Any


class FeatureTags(Tags):
    """Tags, and what features are made with.

    Args:
        tags: strings, their ids counted from 0.
        of_characters: whether the model was trained on single characters.
        known: what `FeatureKind.known` gave.
    """

    record: ClassVar[type] = FeatureRecord

    def __init__(self, tags: list, of_characters: bool, known: Any) -> None:
        super().__init__(tags, of_characters)
        self.known = known


class _Encoded(NamedTuple):
    """A corpus as features."""

    lengths: np.ndarray          # (sentences,) tokens of each
    features: list[np.ndarray]   # of each sentence (tokens, count) int32
    tags: list[np.ndarray] | None        # of each sentence what `Tags.gold` gave


class _Learner(NetworkLearner[_Encoded, RowShape]):
    """The corpora of a run as features: the `StepLearner` of a `FeatureKind`."""

    vocabulary: FeatureTags

    def __init__(self, kind: type['FeatureKind'], options: Options, corpora: Corpora) -> None:
        train = texts_of(corpora)['train']
        vocabulary = FeatureTags(corpora.tags, mostly_characters(set(chain.from_iterable(train))),
                                 kind.known(train, options))
        super().__init__(options, corpora, vocabulary,
                         lambda sentences, tags: kind.encode(sentences, vocabulary.known)._replace(tags=tags))
        self.kind, self.shapes = kind, row_shapes(self.sizes, options.batch_size)

    def network(self) -> FeatureNetwork:
        """A new network with its first weights."""
        return self.kind.build(self.options, self.vocabulary, self.scheme)

    def decoder(self, network: FeatureNetwork, compiled: Compiled | None) -> '_Decoder':
        """What tags with the network."""
        return _Decoder(network, self.vocabulary, self.kind.encoding(self.vocabulary), compiled)

    def batch(self, shape: RowShape, indices: np.ndarray) -> TokenBatch:
        """The arrays of a step: features (length, rows, count), lengths (rows,) and tags (length, rows)."""
        return token_batch(self.encoded['train'], self.encoded['train'].features, shape, indices)


class _Decoder(GraphDecoder[_Encoded]):
    """Tags with the network of a `FeatureKind`."""

    def inputs(self, encoded: _Encoded, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """(length, rows), indices of the sentences, and arrays of each batch: lengths, features, lengths."""
        for shape, indices in self.plan(encoded.lengths, at_most):
            batch = token_batch(encoded, encoded.features, shape, indices)
            yield shape, indices, (batch.lengths, batch.values, batch.lengths)


class _Served(Served):
    """The cell of an exported graph."""

    def construct(self, features, lengths):
        """Tags sentences: features (batch, length, count) int32 and lengths (batch,) int32."""
        return self.tag(self.network.emissions_of(ops.transpose(features, (1, 0, 2)), lengths), lengths)


class _GraphInput(GraphInput[_Encoded]):
    """What makes the inputs of an exported graph: the features of a batch, and the lengths of its sentences."""

    def __init__(self, kind: type['FeatureKind'], vocabulary: FeatureTags) -> None:
        super().__init__(vocabulary, kind.encoding(vocabulary))
        self.kind = kind

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs, of (batch, length) or, where that is None, of any size."""
        batch, length = static or (None, None)
        return {'features': (batch, length, self.kind.count), 'lengths': (batch,)}

    def arrays(self, encoded: _Encoded, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""
        batch = token_batch(encoded, encoded.features, self.shape(encoded, indices, static), indices)
        return {'features': np.ascontiguousarray(batch.values.transpose(1, 0, 2)), 'lengths': batch.lengths}


def _as_rows(features: Any, tokens: int, count: int) -> np.ndarray | None:
    """(tokens, count) int32; None unless these are so many whole numbers of 32 bits for each token."""
    try:
        array = np.asarray(features)
    except ValueError:                           # rows of different lengths
        return None
    if count == 1 and array.ndim == 1:
        array = array[:, None]
    if array.shape != (tokens, count) or array.dtype.kind not in 'biu':
        return None
    limits = np.iinfo(np.int32)
    return array.astype(np.int32) if limits.min <= array.min() and array.max() <= limits.max else None


class FeatureKind(Kind):
    """A kind of model whose network reads features, to be inherited and given to `register`.

    Attributes:
        name: in config.json, and in the `Options` of a training.
        options: names of the `Options` that mean something to it, beside those that every training in steps has.
        count: how many features a token has.
    """

    count: ClassVar[int] = 1

    @classmethod
    def known(cls, sentences: list, options: Options) -> Any:
        """What features are made with, such as a vocabulary: anything that JSON holds. Of lists of training tokens."""
        return None

    @classmethod
    def features(cls, tokens: list, known: Any) -> Any:
        """The features of a sentence: for each token `count` whole numbers. 0 is what padding has."""
        raise NotImplementedError

    @classmethod
    def network(cls, known: Any, num_tags: int, options: Options, constraints: Constraints | None) -> FeatureNetwork:
        """A new network; constraints are what `CRF` takes, or None."""
        raise NotImplementedError

    @classmethod
    def encode(cls, sentences: Sequence[list[str]], known: Any) -> _Encoded:
        """Lists of tokens as a decoder reads them.

        Raises:
            OptionError: `features` gave something else than `count` whole numbers of 32 bits for each token.
        """
        features = [cls._rows(tokens, cls.features(tokens, known)) for tokens in sentences]
        return _Encoded(np.array([len(tokens) for tokens in sentences], np.int32), features, None)

    @classmethod
    def encoding(cls, vocabulary: FeatureTags) -> Callable[[Sequence[list[str]]], _Encoded]:
        """What makes features of lists of tokens."""
        return partial(cls.encode, known=vocabulary.known)

    @classmethod
    def _rows(cls, tokens: list, features: Any) -> np.ndarray:
        """What `features` gave for a sentence, as (tokens, count) int32."""
        rows = _as_rows(features, len(tokens), cls.count)
        if rows is not None:
            return rows
        expected = f'{cls.__name__}.features of the model {cls.name} must give'
        if not (isinstance(features, (list, tuple)) or (isinstance(features, np.ndarray) and features.ndim)):
            raise OptionError(f'{expected} a list with an entry for each token, got {brief(features)}')
        if len(features) != len(tokens):
            raise OptionError(f'{expected} an entry for each of the {len(tokens)} tokens of a sentence, got '
                              f'{len(features)}')
        wrong = (position for position, entry in enumerate(features) if _as_rows([entry], 1, cls.count) is None)
        position = next(wrong, 0)
        raise OptionError(f'{expected} for each token {cls.count} whole number{"s" * (cls.count > 1)} of 32 bits, got '
                          f'{brief(features[position])} for {brief(tokens[position])} at position {position}')

    @classmethod
    def build(cls, options: Options, vocabulary: FeatureTags, scheme: str) -> FeatureNetwork:
        """The network of a run; its weights are random until they are loaded."""
        tags = vocabulary.tags
        return cls.network(vocabulary.known, len(tags), options, constraints_of(options, scheme, tags))

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: SavedRun | None = None) -> StepLearner:
        """What a training begins or resumes with."""
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
        """What tags with the model of a run."""
        vocabulary, network = cls.load_network(run)
        return _Decoder(network, vocabulary, cls.encoding(vocabulary), compiled)

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple[_GraphInput, _Served]:
        """What makes the inputs of the graph of a run, and the cell to export."""
        vocabulary, network = cls.load_network(run)
        return _GraphInput(cls, vocabulary), _Served(network, output)

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> _GraphInput:
        """What makes the inputs of a graph, from its record; raises ValueError if it is not of this type."""
        return _GraphInput(cls, FeatureTags.from_json(record, closed=False))
