"""A model as a chain on the host: the scores of its paths, its best temperature, and how uncertain it is.

A temperature makes confidences believable: all scores of a model are divided by it. Above 1 it makes posteriors less
sure, below 1 surer; the best tags stay the best. It is fitted on sentences that the model was not trained on, by the
likelihood of their gold tags. As a function of 1 / T the log likelihood is concave, so that a bounded search finds the
best one.

Measures of uncertainty are those of active learning (Settles & Craven 2008):
least-confidence  1 - P(y | x) of the best tags y; long sentences are less sure than short ones
mnlp              -log P(y | x) / L: the same for a token of its L, the maximum normalised log probability of
                  Shen et al. 2017
token-entropy     the mean over tokens of -sum_k P(y_t = k | x) log P(y_t = k | x), in nats
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ms_crf.base.environment import graph_load
from ms_crf.base.errors import OptionError
from ms_crf.crf.constraints import Constraints
from ms_crf.crf.host import SequenceBatch, batches
from ms_crf.models.base import CONFIDENCES, PATHS, Decoder, E, Encoded

import numpy as np

SCORES, LOGARITHMS, NOTHING = 'scores', 'log probabilities', 'nothing'
FORBIDDEN = -1e4               # the score of what constraints forbid, as in the layer


class Chain(NamedTuple):
    """What a path of tags gets beside the scores of its tags; all 0 where tags don't depend on each other.

    Attributes:
        transitions, start, end: (K, K), (K,), (K,), as they were learned.
        allowed: what a tag scheme allows, or None for everything.
        means: what these are: SCORES, LOGARITHMS of probabilities, or NOTHING.
    """

    transitions: np.ndarray
    start: np.ndarray
    end: np.ndarray
    allowed: Constraints | None
    means: str

    def tempered(self, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(start, transitions, end) divided by a temperature, with what is forbidden."""
        tables = []
        for name in ('start', 'transitions', 'end'):
            scores = getattr(self, name).astype(np.float64) / temperature
            tables.append(scores if self.allowed is None else np.where(getattr(self.allowed, name), scores, FORBIDDEN))
        return tables[0], tables[1], tables[2]


@runtime_checkable
class ChainDecoder(Decoder[E], Protocol[E]):
    """A decoder that may be a chain."""

    def chain(self) -> Chain | None:
        """What its paths get beside the scores of tags; None if it is no chain."""

    def emissions(self, encoded: E) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Scores of each tag at each position.

        Args:
            encoded: what `encode` gave.

        Yields:
            indices of the sentences of a batch, and for each of them an array (length, K).
        """


LOWEST, HIGHEST = 0.05, 20.0
_CLOSE = 1e-4                  # to the best, as a share of it


class FittedTemperature(NamedTuple):
    """A temperature, and what it is worth on the sentences that it was fitted on."""

    temperature: float
    before: float              # mean negative log likelihood of a token's gold tag at temperature 1,
    after: float               # and at this one
    sentences: int             # that it was fitted on
    left_out: int              # whose gold tags the model can not give


class _Batch(NamedTuple):
    emissions: np.ndarray      # (positions, K)
    lengths: np.ndarray        # (B,), falling
    indices: np.ndarray        # (B,), of the sentences

    def at(self, chain: Chain, temperature: float) -> SequenceBatch:
        start, transitions, end = chain.tempered(temperature)
        return SequenceBatch(start, transitions, end, self.emissions / temperature, self.lengths, self.indices)


def host_batches(decoder: ChainDecoder, encoded: Encoded) -> Iterator[_Batch]:
    found = {index: array.astype(np.float64) for indices, arrays in decoder.emissions(encoded)
             for index, array in zip(indices.tolist(), arrays)}
    lengths = np.asarray(encoded.lengths)
    for indices in batches(lengths):
        yield _Batch(np.concatenate([found[index] for index in indices.tolist()]), lengths[indices], indices)


def decoded(batch: SequenceBatch, task: str) -> list[np.ndarray]:
    """The arrays that `Decoder.run` yields of a batch, for 'paths' or 'confidences'."""
    states, scores = batch.viterbi()
    return [states.T, scores, *(() if task == PATHS else batch.path_posteriors(states.T))]


def fit_temperature(decoder: ChainDecoder, sentences: Sequence[list[str]],
                    tags: Sequence[list[str]]) -> FittedTemperature | None:
    """The temperature under which gold tags are likeliest.

    Args:
        decoder: of the model.
        sentences: lists of tokens.
        tags: their gold tags, in the model's scheme.

    Returns:
        None if the model is no chain, or can give none of these tags.
    """
    chain = decoder.chain()
    if chain is None:
        return None
    ids = {tag: index for index, tag in enumerate(decoder.vocabulary.tags)}
    kept = [row for row, one in enumerate(tags) if one and all(tag in ids for tag in one) and _can_be(chain, ids, one)]
    if not kept:
        return None
    encoded = decoder.encode([sentences[row] for row in kept])
    gold = [np.array([ids[tag] for tag in tags[row]]) for row in kept]
    parts = list(host_batches(decoder, encoded))
    score = sum(_score(chain, part, gold) for part in parts)
    tokens = sum(map(len, gold))

    def loss(temperature: float) -> float:
        normalizer = sum(float(part.at(chain, temperature).forward_likelihood().sum()) for part in parts)
        return (normalizer - score / temperature) / tokens

    from scipy.optimize import minimize_scalar  # here, because it takes long to import
    found = minimize_scalar(lambda logarithm: loss(math.exp(logarithm)), method='bounded',
                            bounds=(math.log(LOWEST), math.log(HIGHEST)), options={'xatol': _CLOSE})
    temperature = math.exp(found.x)
    return FittedTemperature(temperature, loss(1.0), loss(temperature), len(kept), sum(map(bool, tags)) - len(kept))


def _can_be(chain: Chain, ids: dict[str, int], tags: Sequence[str]) -> bool:
    """Whether constraints allow a path."""
    allowed, path = chain.allowed, [ids[tag] for tag in tags]
    return allowed is None or bool(allowed.start[path[0]] and allowed.end[path[-1]]
                                   and allowed.transitions[path[:-1], path[1:]].all())


def _score(chain: Chain, part: _Batch, gold: Sequence[np.ndarray]) -> float:
    """The scores of the gold paths of a batch, added up."""
    start, transitions, end = chain.tempered()
    paths = [gold[index] for index in part.indices]
    places = np.concatenate(paths)
    score = float(part.emissions[np.arange(len(places)), places].sum())
    return score + float(sum(start[path[0]] + transitions[path[:-1], path[1:]].sum() + end[path[-1]] for path in paths))


def tempered(decoder: Decoder, temperature: float) -> Decoder:
    """A decoder with all scores of its model divided by a temperature, before it has tagged anything.

    Raises:
        OptionError: they can't be divided.
    """
    if isinstance(decoder, Temperable):
        with graph_load():
            decoder.temper(temperature)
        return decoder
    if isinstance(decoder, ChainDecoder):
        return TemperedDecoder(decoder, temperature)
    raise OptionError(f'temperature must be 1 for an exported graph, got {temperature:g}; load the run itself')


@runtime_checkable
class Temperable(Decoder, Protocol):
    """A decoder that divides its scores by itself."""

    def temper(self, temperature: float) -> None:
        """Divides all scores of the model; raises OptionError if they can't be divided."""


class TemperedDecoder:
    """Another decoder's model with all its scores divided by a temperature; posteriors are computed on the host.

    Args:
        decoder: of a model that is a chain.
        temperature: above 0.
    """

    tasks = frozenset((PATHS, CONFIDENCES))

    def __init__(self, decoder: ChainDecoder, temperature: float) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f'temperature must be above 0, got {temperature}')
        self.decoder, self.temperature, self._chain = decoder, temperature, _chain_of(decoder)
        self.vocabulary, self.encode, self.runs_graphs = decoder.vocabulary, decoder.encode, decoder.runs_graphs

    def run(self, encoded: Encoded, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """As `Decoder.run`, of 'paths' and 'confidences'."""
        for part in host_batches(self.decoder, encoded):
            yield part.indices, decoded(part.at(self._chain, self.temperature), task)


def _chain_of(decoder: ChainDecoder) -> Chain:
    chain = decoder.chain()
    if chain is None:
        raise ValueError('decoder must be of a chain, got one of none')
    return chain


LEAST_CONFIDENCE, MNLP, TOKEN_ENTROPY = MEASURES = ('least-confidence', 'mnlp', 'token-entropy')
_TINY = 1e-300


class Unsure(NamedTuple):
    """What a model says of a sentence."""

    tags: list[str]
    confidence: float          # the posterior of all tags together
    entropy: float             # of a token, on average


def of_confidence(confidence: float, length: int, measure: str) -> float:
    """How unsure a model is whose best tags, of so many tokens, have this posterior; by a measure of confidence."""
    return 1 - confidence if measure == LEAST_CONFIDENCE else -math.log(max(confidence, _TINY)) / length


def gives_entropy(decoder: Decoder) -> bool:
    """Whether the posteriors of all tags can be computed: exported graphs and heads of one's own don't give them."""
    return isinstance(decoder, ChainDecoder) and decoder.chain() is not None


def token_entropies(decoder: ChainDecoder, sentences: Sequence[list[str]]) -> list[Unsure]:
    """Best tags and entropies.

    Args:
        decoder: of a model that `gives_entropy`.
        sentences: lists of tokens, none of them empty.
    """
    chain, names = _chain_of(decoder), decoder.vocabulary.tags
    found: dict[int, Unsure] = {}
    for part in host_batches(decoder, decoder.encode(list(sentences))):
        batch = part.at(chain, 1.0)
        states, scores = batch.viterbi()                                            # (L, B), (B,)
        confidences = np.exp(np.minimum(scores - batch.forward_likelihood(), 0.0))
        posteriors = batch.posteriors()                                             # (L, B, K)
        entropies = -(posteriors * np.log(np.maximum(posteriors, _TINY))).sum(2)
        for row, (index, length) in enumerate(zip(part.indices.tolist(), part.lengths.tolist())):
            found[index] = Unsure([names[state] for state in states[:length, row]], float(confidences[row]),
                                  float(entropies[:length, row].mean()))
    return [found[index] for index in range(len(sentences))]
