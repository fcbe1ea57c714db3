"""A model as a chain in NumPy: scores of paths, fitting of the temperature, and uncertainty of sentences.

A temperature calibrates confidences: all scores of a model are divided by the temperature. Above 1 confidences become
lower, below 1 higher; the best paths stay the same. The temperature is fitted on sentences that the model was not
trained on, so that the likelihood of their gold tags is largest. The log likelihood is a concave function of 1 / T,
and a bounded search finds the maximum.

The measures of uncertainty are measures of active learning (Settles & Craven 2008):
least-confidence  1 - P(y | x) for the best path y; long sentences get higher values than short ones
mnlp              -log P(y | x) / L for a sentence of L tokens, the negated maximum normalised log probability of
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
FORBIDDEN = -1e4               # the score of a forbidden transition, as in the CRF layer


class Chain(NamedTuple):
    """The scores that a path gets in addition to its emissions; all 0 if tags do not depend on each other.

    Attributes:
        transitions, start, end: (K, K), (K,), (K,), as learned, without constraints.
        allowed: the constraints of a tag scheme, or None if everything is allowed.
        means: the meaning of the scores: SCORES, LOGARITHMS of probabilities, or NOTHING.
    """

    transitions: np.ndarray
    start: np.ndarray
    end: np.ndarray
    allowed: Constraints | None
    means: str

    def tempered(self, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(start, transitions, end) divided by a temperature, with FORBIDDEN where constraints forbid a transition."""
        tables = []
        for name in ('start', 'transitions', 'end'):
            scores = getattr(self, name).astype(np.float64) / temperature
            tables.append(scores if self.allowed is None else np.where(getattr(self.allowed, name), scores, FORBIDDEN))
        return tables[0], tables[1], tables[2]


@runtime_checkable
class ChainDecoder(Decoder[E], Protocol[E]):
    """A decoder whose scores may form a chain."""

    def chain(self) -> Chain | None:
        """The scores that a path gets in addition to its emissions; None if the model is not a chain."""

    def emissions(self, encoded: E) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """The score of each tag at each position.

        Args:
            encoded: the result of `encode`.

        Yields:
            The indices of the sentences of a batch, and an array (length, K) for each sentence.
        """


LOWEST, HIGHEST = 0.05, 20.0   # bounds of a fitted temperature
_TOLERANCE = 1e-4              # of the logarithm of the temperature


class FittedTemperature(NamedTuple):
    """A fitted temperature, and the log likelihood with and without it."""

    temperature: float
    before: float              # negative log likelihood of the gold tags per token, at temperature 1
    after: float               # negative log likelihood of the gold tags per token, at the fitted temperature
    sentences: int             # number of sentences on which the temperature was fitted
    left_out: int              # number of sentences whose gold tags the model cannot predict


class HostBatch(NamedTuple):
    """Emissions of some sentences in NumPy arrays."""

    emissions: np.ndarray      # (positions, K)
    lengths: np.ndarray        # (B,), in descending order
    indices: np.ndarray        # (B,) indices of the sentences

    def at(self, chain: Chain, temperature: float) -> SequenceBatch:
        """The batch with all scores divided by a temperature."""
        start, transitions, end = chain.tempered(temperature)
        return SequenceBatch(start, transitions, end, self.emissions / temperature, self.lengths, self.indices)


def host_batches(decoder: ChainDecoder, encoded: Encoded) -> Iterator[HostBatch]:
    """The emissions of encoded sentences as batches of sentences of similar length."""
    emissions = {index: array.astype(np.float64) for indices, arrays in decoder.emissions(encoded)
                 for index, array in zip(indices.tolist(), arrays)}
    lengths = np.asarray(encoded.lengths)
    for indices in batches(lengths):
        yield HostBatch(np.concatenate([emissions[index] for index in indices.tolist()]), lengths[indices], indices)


def decoded(batch: SequenceBatch, task: str) -> list[np.ndarray]:
    """The arrays that `Decoder.run` yields for a batch; task is 'paths' or 'confidences'."""
    states, scores = batch.viterbi()
    return [states.T, scores, *(() if task == PATHS else batch.path_posteriors(states.T))]


def fit_temperature(decoder: ChainDecoder, sentences: Sequence[list[str]],
                    tags: Sequence[list[str]]) -> FittedTemperature | None:
    """The temperature with the highest likelihood of gold tags.

    Args:
        decoder: decoder of the model.
        sentences: lists of tokens.
        tags: the gold tags of the sentences, in the scheme of the model.

    Returns:
        The temperature; None if the model is not a chain, or cannot predict the gold tags of any sentence.
    """
    chain = decoder.chain()
    if chain is None:
        return None
    ids = {tag: index for index, tag in enumerate(decoder.vocabulary.tags)}
    kept = [index for index, path in enumerate(tags)
            if path and all(tag in ids for tag in path) and _is_allowed(chain, ids, path)]
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
    minimum = minimize_scalar(lambda logarithm: loss(math.exp(logarithm)), method='bounded',
                              bounds=(math.log(LOWEST), math.log(HIGHEST)), options={'xatol': _TOLERANCE})
    temperature = math.exp(minimum.x)
    return FittedTemperature(temperature, loss(1.0), loss(temperature), len(kept), sum(map(bool, tags)) - len(kept))


def _is_allowed(chain: Chain, ids: dict[str, int], tags: Sequence[str]) -> bool:
    """Whether the constraints of a chain allow a path."""
    allowed, path = chain.allowed, [ids[tag] for tag in tags]
    return allowed is None or bool(allowed.start[path[0]] and allowed.end[path[-1]]
                                   and allowed.transitions[path[:-1], path[1:]].all())


def _score(chain: Chain, part: HostBatch, gold: Sequence[np.ndarray]) -> float:
    """The sum of the scores of the gold paths of a batch."""
    start, transitions, end = chain.tempered()
    paths = [gold[index] for index in part.indices]
    states = np.concatenate(paths)
    score = float(part.emissions[np.arange(len(states)), states].sum())
    return score + float(sum(start[path[0]] + transitions[path[:-1], path[1:]].sum() + end[path[-1]] for path in paths))


def tempered(decoder: Decoder, temperature: float) -> Decoder:
    """A decoder whose scores are divided by a temperature; call this function before `decoder` has tagged anything.

    Raises:
        OptionError: the decoder does not support a temperature.
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
    """A decoder that supports a temperature in its own graphs."""

    def temper(self, temperature: float) -> None:
        """Divides all scores of the model by a temperature; raises OptionError if the model does not support it."""


class TemperedDecoder:
    """A decoder that divides all scores of another decoder's model by a temperature and computes posteriors in NumPy.

    Args:
        decoder: decoder of a model that is a chain.
        temperature: above 0.
    """

    tasks = frozenset((PATHS, CONFIDENCES))

    def __init__(self, decoder: ChainDecoder, temperature: float) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f'temperature must be above 0, got {temperature}')
        self.decoder, self.temperature, self._chain = decoder, temperature, _chain_of(decoder)
        self.vocabulary, self.encode, self.runs_graphs = decoder.vocabulary, decoder.encode, decoder.runs_graphs

    def run(self, encoded: Encoded, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences in batches, for 'paths' and 'confidences'; see `Decoder.run`."""
        for part in host_batches(self.decoder, encoded):
            yield part.indices, decoded(part.at(self._chain, self.temperature), task)


def _chain_of(decoder: ChainDecoder) -> Chain:
    chain = decoder.chain()
    if chain is None:
        raise ValueError('decoder must be of a model that is a chain, got another model')
    return chain


LEAST_CONFIDENCE, MNLP, TOKEN_ENTROPY = MEASURES = ('least-confidence', 'mnlp', 'token-entropy')
_TINY = 1e-300


class Uncertainty(NamedTuple):
    """The best path of a sentence and how uncertain the model is about it."""

    tags: list[str]
    confidence: float          # the posterior probability of the path
    entropy: float             # mean entropy of a token's tag, in nats


def of_confidence(confidence: float, length: int, measure: str) -> float:
    """Uncertainty of a sentence of `length` tokens whose best path has probability `confidence`.

    Args:
        confidence: posterior probability of the best path.
        length: number of tokens.
        measure: LEAST_CONFIDENCE or MNLP.
    """
    return 1 - confidence if measure == LEAST_CONFIDENCE else -math.log(max(confidence, _TINY)) / length


def gives_entropy(decoder: Decoder) -> bool:
    """Whether `token_entropies` supports a decoder; exported graphs and models with a custom head are not supported."""
    return isinstance(decoder, ChainDecoder) and decoder.chain() is not None


def token_entropies(decoder: ChainDecoder, sentences: Sequence[list[str]]) -> list[Uncertainty]:
    """The best path, its probability and the mean token entropy of each sentence.

    Args:
        decoder: decoder for which `gives_entropy` is true.
        sentences: non-empty lists of tokens.
    """
    chain, names = _chain_of(decoder), decoder.vocabulary.tags
    results: dict[int, Uncertainty] = {}
    for part in host_batches(decoder, decoder.encode(list(sentences))):
        batch = part.at(chain, 1.0)
        states, scores = batch.viterbi()                                            # (L, B), (B,)
        confidences = np.exp(np.minimum(scores - batch.forward_likelihood(), 0.0))
        posteriors = batch.posteriors()                                             # (L, B, K)
        entropies = -(posteriors * np.log(np.maximum(posteriors, _TINY))).sum(2)
        for row, (index, length) in enumerate(zip(part.indices.tolist(), part.lengths.tolist())):
            results[index] = Uncertainty([names[state] for state in states[:length, row]], float(confidences[row]),
                                         float(entropies[:length, row].mean()))
    return [results[index] for index in range(len(sentences))]
