"""Tagging with a network over words: each form is read once, in much text up to the gates of the LSTM."""

from collections.abc import Callable, Iterator, Sequence

from ms_crf.base.environment import graph_call
from ms_crf.models.base import Compiled
from ms_crf.models.graphs import GraphDecoder
from ms_crf.models.words.batches import EncodedWords, word_batch
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.models.words.ngrams import composed
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.native import custom

import mindspore as ms
import numpy as np

GATES_BYTES = 1 << 26            # at most for what a layer says of forms before it is known where they stand;
GATES_FORMS = (2048, 4096)       # which takes at least so many forms, and has room for a multiple of so many
FORMS = (2048, 512)              # that are read at a time: as many as there are, and what is left of them


class WordDecoder(GraphDecoder[EncodedWords]):
    """Tags with a network over words.

    Args:
        network: the network.
        vocabulary: the tags, and the ids of words and characters.
        compiled: is called with length, rows and seconds after a graph was compiled.
    """

    vocabulary: Vocabulary

    def __init__(self, network: TaggerNetwork, vocabulary: Vocabulary, compiled: Compiled | None = None) -> None:
        super().__init__(network, vocabulary, compiled)

        @ms.jit
        def read(words, spellings):
            return network.form_vectors(words, spellings)

        @ms.jit
        def gates(vectors, count):
            return network.form_gates(vectors, count)

        self._read, self._gates = read, gates
        self._ngram_table: np.ndarray | None = network.ngram_table.asnumpy() if network.with_ngrams else None

    def encode(self, sentences: Sequence[list[str]]) -> EncodedWords:
        """Lists of tokens, none of them empty, as `run` takes them."""
        return EncodedWords.of(sentences, self.vocabulary)

    def method(self, encoded: EncodedWords) -> Callable:
        """What makes scores of tags, from gates of forms where the operators in C++ can be taken, or from vectors."""
        return self.network.emissions_of_gates if self._room(encoded) else self.network.emissions_of

    def _room(self, encoded: EncodedWords) -> int:
        """For how many forms gates are computed beforehand, of which only some are there; 0 where they are not."""
        least, step = GATES_FORMS
        room = -(-encoded.num_forms // step) * step          # few different ones: for each, graphs are compiled
        fits = 4 * 4 * self.network.widths[1] * room <= GATES_BYTES
        return room if custom.in_use() and len(self.network.layers) == 1 and encoded.num_forms >= least and fits else 0

    def inputs(self, encoded: EncodedWords, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """(length, rows), indices of the sentences, and arrays of each batch: lengths, what `method` takes.

        An array keeps its values only until the next batch is asked for.

        Args:
            encoded: what `encode` gave.
            at_most: sentences of a batch.
        """
        if self._room(encoded):
            yield from self._inputs_of_gates(encoded, at_most)
            return
        vectors = np.zeros((encoded.num_forms + 1, self.network.widths[0]), np.float32)    # NO_FORM finds the last
        self._read_forms(encoded, vectors)
        rooms: dict[tuple[int, int], np.ndarray] = {}            # written again and again: new memory takes longer
        for shape, indices in self.plan(encoded.lengths, at_most):
            batch = word_batch(encoded, shape, indices)
            if shape not in rooms:
                rooms[shape] = np.empty((*shape, vectors.shape[1]), np.float32)
            np.take(vectors, batch.values, 0, rooms[shape], 'wrap')
            yield shape, indices, (batch.lengths, rooms[shape], batch.lengths)

    def _inputs_of_gates(self, encoded: EncodedWords, at_most: int) -> Iterator:
        """As `inputs`, for `emissions_of_gates`: each form is multiplied with the layer's weights once."""
        vectors = np.empty((self._room(encoded), self.network.widths[0]), np.float32)
        self._read_forms(encoded, vectors)
        with graph_call():
            count = np.array([encoded.num_forms], np.int32)
            gates = self._gates(ms.from_numpy(vectors), ms.from_numpy(count)).asnumpy()
        for shape, indices in self.plan(encoded.lengths, at_most):
            batch = word_batch(encoded, shape, indices)
            yield shape, indices, (batch.lengths, gates, batch.values, batch.lengths)

    def _read_forms(self, encoded: EncodedWords, table: np.ndarray) -> None:
        """Puts the vectors of all forms into the first rows of a table (at least so many, widths[0])."""
        is_long = encoded.is_long[:encoded.num_forms]
        for chosen, width in ((np.flatnonzero(is_long), encoded.spelling_of.shape[1]),
                              (np.flatnonzero(~is_long), encoded.half)):
            while len(chosen):
                room = FORMS[len(chosen) < FORMS[0]]
                forms, chosen = chosen[:room], chosen[room:]
                with graph_call():
                    vectors = self._read(*map(ms.from_numpy, encoded.arrays(forms, room, width))).asnumpy()
                table[forms] = vectors[:len(forms)]
        if self._ngram_table is not None and len(encoded.composed):      # sums of few rows need no graph
            made, _ = composed(self._ngram_table, encoded.ngrams_of)
            table[encoded.composed, :made.shape[1]] = made
