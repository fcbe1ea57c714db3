"""The network as another program runs it: ids of a batch in, tags out."""

from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.models.base import EMISSIONS, PATHS

from mindspore import nn


class Served(CompilableMethods, nn.Cell):
    """A trained network without what only training needs.

    Args:
        network: a `TaggerNetwork` or an `EncodedTagger`.
        output: 'paths', 'confidences' or 'emissions'.

    `construct` returns of
        'paths': best paths (batch, length) int32, 0 on padding, and their scores (batch,).
        'confidences': these, and what `CRF.along` returns.
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
        chosen, given_before = head.along(emissions, paths, lengths)
        return paths, scores, chosen, given_before
