"""One number that makes confidences believable: all scores of a model divided by a temperature.

Above 1 it makes posteriors less sure, below 1 surer; the best tags stay the best. It is fitted on sentences that the
model was not trained on, by the likelihood of their gold tags. As a function of 1 / T the log likelihood is concave, so
that a bounded search finds the best one.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ms_crf.base.environment import graph_load
from ms_crf.base.errors import OptionError
from ms_crf.crf.host import SequenceBatch, batches
from ms_crf.models.base import CONFIDENCES, PATHS, Decoder, Encoded
from ms_crf.models.chains import Chain, ChainDecoder

import numpy as np

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
    found: list[np.ndarray] = [np.zeros(0)] * len(encoded.lengths)
    for indices, arrays in decoder.emissions(encoded):
        for index, array in zip(indices.tolist(), arrays):
            found[index] = array.astype(np.float64)
    for indices in batches(np.asarray(encoded.lengths)):
        yield _Batch(np.concatenate([found[index] for index in indices]), np.asarray(encoded.lengths)[indices], indices)


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
    if chain.allowed is None:
        return True
    path = [ids[tag] for tag in tags]
    return bool(chain.allowed.start[path[0]] and chain.allowed.end[path[-1]]
                and chain.allowed.transitions[path[:-1], path[1:]].all())


def _score(chain: Chain, part: _Batch, gold: Sequence[np.ndarray]) -> float:
    """The scores of the gold paths of a batch, added up."""
    start, transitions, end = chain.tempered()
    paths = [gold[index] for index in part.indices]
    places = np.concatenate(paths)
    score = float(part.emissions[np.arange(len(places)), places].sum())
    return score + float(sum(start[path[0]] + transitions[path[:-1], path[1:]].sum() + end[path[-1]]
                             for path in paths))


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
        chain = decoder.chain()
        if chain is None:
            raise ValueError('decoder must be of a chain, got one of none')
        if not 0 < temperature < math.inf:
            raise ValueError(f'temperature must be above 0, got {temperature}')
        self.decoder, self.temperature, self._chain = decoder, temperature, chain
        self.vocabulary, self.encode, self.runs_graphs = decoder.vocabulary, decoder.encode, decoder.runs_graphs

    def run(self, encoded: Encoded, task: str = PATHS,
            count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """As `Decoder.run`, of 'paths' and 'confidences'."""
        for part in host_batches(self.decoder, encoded):
            batch = part.at(self._chain, self.temperature)
            states, scores = batch.viterbi()
            arrays = [states.T, scores]
            yield part.indices, arrays if task == PATHS else [*arrays, *batch.path_posteriors(states.T)]
