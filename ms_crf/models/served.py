"""The network as another program runs it: what it is given for a batch, tags out."""

from typing import Any, Protocol

from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.models.base import EMISSIONS, PATHS, Encoded
from ms_crf.models.labels import Tags

import numpy as np
from mindspore import nn

# (batch, length) of a graph for that shape alone; None for one of any shape.
Static = tuple[int, int] | None


class GraphInput(Protocol):
    """What an exported graph is given: made of sentences, described by the record beside the graph."""

    @property
    def vocabulary(self) -> Tags:
        """The tags."""

    @property
    def rows(self) -> int:
        """Sentences of a batch at most, where the graph takes any number."""

    @property
    def tokens(self) -> int:
        """What `sizes` may add up to in a batch, filled up to the longest, where the graph takes any length."""

    @property
    def unit(self) -> str:
        """What `sizes` counts, for messages."""

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs, all int32; None is an axis of any size.

        Args:
            static: (batch, length), or None for any.
        """

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """Of the graph's parameters whose size follows from the record: (end of the name, what, how many, exactly).

        `what` names the rows in a message; where the number is not exact, there may be more rows.
        """

    def to_json(self) -> dict:
        """What another program needs to make inputs of sentences, and tags of what comes out."""

    def encode(self, sentences: list) -> Encoded:
        """Lists of tokens, none of them empty, as `sizes` and `arrays` take them."""

    def sizes(self, encoded: Any) -> np.ndarray:
        """(sentences,): the length that each needs in a batch."""

    def arrays(self, encoded: Any, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""


class Served(CompilableMethods, nn.Cell):
    """A trained network without what only training needs.

    Args:
        network: a cell with a `head`, a `Head`; what inherits this makes emissions with it in `construct`.
        output: 'paths', 'confidences' or 'emissions'.

    `construct` returns of
        'paths': best paths (batch, length) int32, 0 on padding, and their scores (batch,).
        'confidences': these, the posterior of each tag of the paths (batch, length), and that of every tag given the
            path's tag before it (batch, length, tags).
        'emissions': what `post_decode` takes: score (batch, tags) and history (length - 1, batch, tags).
    """

    def __init__(self, network: Any, output: str = PATHS) -> None:
        super().__init__()
        self.network, self.output = network, output

    def tag(self, emissions, lengths):
        """What `construct` returns, from emissions (length, batch, tags)."""
        head = self.network.head
        if self.output == EMISSIONS:
            return head(emissions, None, lengths)
        paths, scores = head.decode(emissions, lengths)
        if self.output == PATHS:
            return paths, scores
        chosen, given_before = head.path_posteriors(emissions, paths, lengths)
        return paths, scores, chosen, given_before
