"""The network as another program runs it: ids of a batch in, tags out."""

from ms_crf.cells import CompilableMethods
from ms_crf.tasks import EMISSIONS, PATHS

from mindspore import nn, ops


class Served(CompilableMethods, nn.Cell):
    """A trained `TaggerNetwork` without what only training needs; see `construct`.

    Args:
        network: a `TaggerNetwork`.
        output: 'paths', 'confidences' or 'emissions'.
    """

    def __init__(self, network, output=PATHS):
        super().__init__()
        self.network, self.output = network, output

    def construct(self, words, spellings, places, lengths):
        """Tags sentences.

        Args:
            words: (words,) int32 ids of the distinct words of the batch; more than once does no harm.
            spellings: (words, characters) int32 ids of their characters, 0 behind a word's end.
            places: (batch, length) int32, which of the words stands there.
            lengths: (batch,) int32.

        Returns:
            'paths': best paths (batch, length) int32, 0 on padding, and their scores (batch,).
            'confidences': these, and what `CRF.along` returns.
            'emissions': what `post_decode` takes: score (batch, tags) and history (length - 1, batch, tags).
        """
        return self._tag(self.network.form_vectors(words, spellings), places, lengths)

    def _tag(self, vectors, places, lengths):
        hidden = ops.gather(vectors, ops.transpose(places, (1, 0)), 0)
        emissions = self.network.emissions_of(hidden, lengths)
        head = self.network.head
        if self.output == EMISSIONS:
            return head(emissions, None, lengths)
        paths, scores = head.decode(emissions, lengths)
        if self.output == PATHS:
            return paths, scores
        chosen, given_before = head.along(emissions, paths, lengths)
        return paths, scores, chosen, given_before


class ServedWithoutCharacters(Served):
    """The same for a network that reads no characters: `construct` takes no spellings."""

    def construct(self, words, places, lengths):
        return self._tag(self.network.form_vectors(words), places, lengths)
