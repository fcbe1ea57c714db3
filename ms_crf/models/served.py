"""The network as another program runs it: what it is given for a batch, tags out."""

from typing import Any, Protocol

from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.models.base import EMISSIONS, PATHS
from ms_crf.models.labels import Tags

import numpy as np
from mindspore import nn


class GraphInput(Protocol):
    """What an exported graph is given, from sentences, and from the record beside it.

    Attributes:
        vocabulary: the tags.
        rows, tokens: sentences and tokens of a batch at most, where the graph takes any number.
        unit: what `sizes` counts, for messages.
    """

    vocabulary: Tags
    rows: int
    tokens: int
    unit: str

    def inputs(self, static: Any = None) -> dict:
        """Names and shapes of the graph's inputs, all int32; None is an axis of any size.

        Args:
            static: (batch, length), or None for any.
        """

    def tables(self) -> list:
        """Of the graph's parameters whose size follows from the record: (end of the name, what, how many, exactly)."""

    def to_json(self) -> dict:
        """What another program needs to make inputs of sentences, and tags of what comes out."""

    def encode(self, sentences: list) -> Any:
        """Lists of tokens, none of them empty, as `arrays` takes them."""

    def sizes(self, encoded: Any) -> np.ndarray:
        """(sentences,) by which they are put into batches."""

    def arrays(self, encoded: Any, numbers: np.ndarray, static: Any) -> dict:
        """The inputs by name, of the sentences of these numbers."""


class Served(CompilableMethods, nn.Cell):
    """A trained network without what only training needs.

    Args:
        network: a `TaggerNetwork` or an `EncodedTagger`.
        output: 'paths', 'confidences' or 'emissions'.

    `construct` returns of
        'paths': best paths (batch, length) int32, 0 on padding, and their scores (batch,).
        'confidences': these, and what `CRF.path_posteriors` returns.
        'emissions': what `post_decode` takes: score (batch, tags) and history (length - 1, batch, tags).
    """

    def __init__(self, network, output=PATHS):
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
