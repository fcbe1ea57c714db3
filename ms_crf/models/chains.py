"""A model as a chain on the host: what it adds to the scores of tags, and these scores of sentences."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from ms_crf.crf.constraints import Constraints
from ms_crf.models.base import Decoder, E

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
