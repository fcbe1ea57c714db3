"""How unsure a model is of a sentence, by the measures of active learning (Settles & Craven 2008).

least-confidence  1 - P(y | x) of the best tags y; long sentences are less sure than short ones
mnlp              -log P(y | x) / L: the same for a token of its L, the maximum normalised log probability of
                  Shen et al. 2017
token-entropy     the mean over tokens of -sum_k P(y_t = k | x) log P(y_t = k | x), in nats
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ms_crf.models.base import Decoder
from ms_crf.models.chains import ChainDecoder
from ms_crf.models.temperature import host_batches

import numpy as np

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
    chain = decoder.chain()
    if chain is None:
        raise ValueError('decoder must be of a chain, got one of none')
    names = decoder.vocabulary.tags
    found: list[Unsure | None] = [None] * len(sentences)
    for part in host_batches(decoder, decoder.encode(list(sentences))):
        batch = part.at(chain, 1.0)
        states, scores = batch.viterbi()                                            # (L, B), (B,)
        confidences = np.exp(np.minimum(scores - batch.forward_likelihood(), 0.0))
        posteriors = batch.posteriors()                                             # (L, B, K)
        entropies = -(posteriors * np.log(np.maximum(posteriors, _TINY))).sum(2)
        for row, (index, length) in enumerate(zip(part.indices.tolist(), part.lengths.tolist())):
            found[index] = Unsure([names[state] for state in states[:length, row]], float(confidences[row]),
                                  float(entropies[:length, row].mean()))
    return [one for one in found if one is not None]
