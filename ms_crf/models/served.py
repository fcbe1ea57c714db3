"""The network as another program runs it: ids of a batch in, tags out."""

from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.models.tasks import EMISSIONS, PATHS

from mindspore import nn, ops


class _Served(CompilableMethods, nn.Cell):
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


class Served(_Served):
    """Of words and characters."""

    def construct(self, words, spellings, places, lengths):
        """Tags sentences.

        Args:
            words: (words,) int32 ids of the distinct words of the batch; more than once does no harm.
            spellings: (words, characters) int32 ids of their characters, 0 behind a word's end.
            places: (batch, length) int32, which of the words stands there.
            lengths: (batch,) int32.
        """
        return self._tag_places(self.network.form_vectors(words, spellings), places, lengths)

    def _tag_places(self, vectors, places, lengths):
        hidden = ops.gather(vectors, ops.transpose(places, (1, 0)), 0)
        return self.tag(self.network.emissions_of(hidden, lengths), lengths)


class ServedWithoutCharacters(Served):
    """The same for a network that reads no characters: `construct` takes no spellings."""

    def construct(self, words, places, lengths):
        return self._tag_places(self.network.form_vectors(words), places, lengths)


class ServedPieces(_Served):
    """Of pieces of words, by an `EncodedTagger`."""

    def construct(self, pieces, window_lengths, places, words, counts, lengths):
        """Tags sentences.

        Args:
            pieces: (windows, window length) int32 ids, the special ones among them.
            window_lengths: (windows,) int32.
            places: (batch, pieces) int32, where in all windows, one after the other, each piece of a sentence stands.
            words: (batch, pieces) int32, which word each piece belongs to; `length` behind a sentence's end.
            counts: (batch, length) int32, how many pieces each word has; 0 behind a sentence's end.
            lengths: (batch,) int32.
        """
        vectors = self.network.vectors(pieces, window_lengths, ops.transpose(places, (1, 0)))
        words, counts = ops.transpose(words, (1, 0)), ops.transpose(counts, (1, 0))
        return self.tag(self.network.tagger.emissions_of(vectors, words, counts), lengths)
