"""A base for kinds of model of one's own: a network that reads whole numbers about each token, its features.

`FeatureKind` says what has to be written: how features follow from tokens, and the network over them. Batches,
training, tagging, confidences and export are here.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from ms_crf.models.base import EMISSIONS, Kind, check_head, constraints_of
from ms_crf.models.bucketing import cut_rows, plan, row_shapes, spread
from ms_crf.models.graphs import GraphDecoder, load_weights
from ms_crf.models.labels import Tags, check_tags, mostly_characters
from ms_crf.models.served import Served
from ms_crf.options import Options
from ms_crf.runs import records
from ms_crf.text.dataset import digest_of
from ms_crf.training.step import make_plain_step

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


class FeatureTags(Tags):
    """Tags, and what features are made with.

    Args:
        tags, of_characters: as of `Tags`.
        known: what `FeatureKind.known` gave.
    """

    def __init__(self, tags, of_characters, known):
        super().__init__(tags, of_characters)
        self.known = known

    def to_json(self):
        return {**super().to_json(), 'known': self.known}

    @classmethod
    def from_json(cls, record):
        """Raises ValueError if the record is not what `to_json` gave."""
        if not isinstance(record, dict) or sorted(record) != ['known', 'of_characters', 'tags']:
            raise ValueError('expected the keys tags, of_characters and known')
        tags = Tags.from_json({key: record[key] for key in ('tags', 'of_characters')})
        return cls(tags.tags, tags.of_characters, record['known'])


class _Encoded(NamedTuple):
    """A corpus as features."""

    lengths: np.ndarray          # (sentences,) tokens of each
    features: list               # of each sentence (tokens, count) int32
    tags: list | None         # of each sentence the ids of its tags


def _arrays(encoded, length, rows, numbers):
    """Features (length, rows, count), lengths (rows,) and tags (length, rows) of a batch."""
    lengths = np.zeros(rows, np.int32)
    lengths[:len(numbers)] = encoded.lengths[numbers]
    row, position = spread(encoded.lengths[numbers])
    stacked = np.concatenate([encoded.features[number] for number in numbers])
    features = np.zeros((length, rows, stacked.shape[1]), np.int32)
    features[position, row] = stacked
    tags = np.zeros((length, rows), np.int32)
    if encoded.tags is not None:
        tags[position, row] = np.concatenate([encoded.tags[number] for number in numbers])
    return features, lengths, tags


class _Learner:
    """A `StepLearner` of a `FeatureKind`."""

    def __init__(self, kind, options, corpora):
        self.kind, self.options, self.scheme = kind, options, corpora.scheme
        sentences = {part: [sentence.tokens for sentence in found] for part, found in corpora.parts.items()}
        of_characters = mostly_characters({token for tokens in sentences['train'] for token in tokens})
        self.vocabulary = FeatureTags(corpora.tags, of_characters, kind.known(sentences['train'], options))
        self.encoded = {part: kind.encode(found, self.vocabulary.known) for part, found in sentences.items()}
        ids = [np.array(self.vocabulary.tag_ids(sentence.tags), np.int32) for sentence in corpora.parts['train']]
        self.encoded['train'] = self.encoded['train']._replace(tags=ids)
        self._shapes = row_shapes(self.encoded['train'].lengths, options.batch_size)
        self._digests = {f'{name}_sha256': digest_of(corpora.parts[part])
                         for name, part in (('text', 'train'), ('dev', 'dev'))}

    def record(self):
        return self._digests

    def fill(self, folder):
        """A new run directory needs nothing further."""

    def network(self):
        return self.kind.build(self.options, self.vocabulary, self.scheme)

    def step(self, network, optimizer, loss_scale):
        return make_plain_step(network, optimizer, loss_scale)

    def decoder(self, network, compiled):
        return _Decoder(self.kind, network, self.vocabulary, compiled)

    def plan(self, generator):
        return plan(self._shapes, self.encoded['train'].lengths, cut_rows, generator)

    def batch(self, shape, numbers):
        features, lengths, tags = _arrays(self.encoded['train'], *shape, numbers)
        return features, lengths, tags


class _Decoder(GraphDecoder):
    """A `Decoder` of a `FeatureKind`."""

    def __init__(self, kind, network, vocabulary, compiled=None):
        super().__init__(network, vocabulary, compiled)
        self.kind = kind

    def encode(self, sentences):
        return self.kind.encode(sentences, self.vocabulary.known)

    def inputs(self, encoded, at_most):
        for (length, rows), numbers in self.plan(encoded.lengths, at_most):
            features, lengths, _ = _arrays(encoded, length, rows, numbers)
            yield (length, rows), numbers, (lengths, features, lengths)


class _Served(Served):
    """The cell of an exported graph."""

    def construct(self, features, lengths):
        """Tags sentences: features (batch, length, count) int32 and lengths (batch,) int32."""
        return self.tag(self.network.emissions_of(ops.transpose(features, (1, 0, 2)), lengths), lengths)


class _GraphInput:
    """What an exported graph is given; see `ms_crf.models.served.GraphInput`."""

    rows, tokens = 512, 16384
    unit = 'tokens'

    def __init__(self, kind, vocabulary):
        self.kind, self.vocabulary = kind, vocabulary

    def inputs(self, static=None):
        batch, length = static or (None, None)
        return {'features': (batch, length, self.kind.count), 'lengths': (batch,)}

    def tables(self):
        return []

    def to_json(self):
        return self.vocabulary.to_json()

    def encode(self, sentences):
        return self.kind.encode(sentences, self.vocabulary.known)

    def sizes(self, encoded):
        return encoded.lengths

    def arrays(self, encoded, numbers, static):
        rows, length = static or (len(numbers), encoded.lengths[numbers].max())
        features, lengths, _ = _arrays(encoded, length, rows, numbers)
        return {'features': np.ascontiguousarray(features.transpose(1, 0, 2)), 'lengths': lengths}


class FeatureKind(Kind):
    """A kind of model whose network reads features, to be inherited and given to `register`.

    Attributes:
        name, options: as of `Kind`.
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
    def network(cls, known: Any, num_tags: int, options: Options, constraints: Any) -> FeatureNetwork:
        """A new network; constraints are what `CRF` takes, or None."""
        raise NotImplementedError

    @classmethod
    def encode(cls, sentences, known):
        """Lists of tokens as a decoder reads them."""
        features = [np.asarray(cls.features(tokens, known), np.int32).reshape(len(tokens), cls.count)
                    for tokens in sentences]
        return _Encoded(np.array([len(tokens) for tokens in sentences], np.int32), features, None)

    @classmethod
    def build(cls, options, vocabulary, scheme):
        """The network of a run; its weights are random until they are loaded."""
        tags = vocabulary.tags
        return cls.network(vocabulary.known, len(tags), options, constraints_of(options, scheme, tags))

    @classmethod
    def learner(cls, options, corpora, watcher, run=None):
        return _Learner(cls, options, corpora)

    @classmethod
    def load_network(cls, folder, config):
        """The tags of a run, and its network with the weights of the best epoch."""
        vocabulary = records.read_vocabulary(folder, FeatureTags)
        options = replace(records.read_options(folder, config), precision='float32')
        network = cls.build(options, vocabulary, config['scheme'])
        load_weights(folder, network)
        return vocabulary, network

    @classmethod
    def load(cls, folder, config, compiled=None):
        vocabulary, network = cls.load_network(folder, config)
        return _Decoder(cls, network, vocabulary, compiled)

    @classmethod
    def exported(cls, folder, config, output):
        if output == EMISSIONS:
            check_head(output, records.read_options(folder, config))
        vocabulary, network = cls.load_network(folder, config)
        return _GraphInput(cls, vocabulary), _Served(network, output)

    @classmethod
    def graph_input(cls, record):
        check_tags(record)
        return _GraphInput(cls, FeatureTags.from_json({key: record.get(key) for key in ('tags', 'of_characters',
                                                                                       'known')}))
