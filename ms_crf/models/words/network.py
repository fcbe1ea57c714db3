"""The network of the tagger over words (word vectors, characters, BiLSTM layers, projection, head), and its decoder.

The input of the network is the distinct word forms of a batch, and the index of the form of each token. So the
characters of a form are read once, and a training step updates only the vectors of the words in its batch. For long
texts, the input gates of the LSTM are also computed once for each form.
"""

from collections.abc import Callable, Iterator
from functools import partial

from ms_crf.base.environment import graph_call
from ms_crf.crf.constraints import Constraints
from ms_crf.models.base import Compiled
from ms_crf.models.graphs import ExportCell, GraphDecoder, constraints_of
from ms_crf.models.words.batches import EncodedWords, word_batch
from ms_crf.models.words.ngrams import composed
from ms_crf.models.words.vocabulary import UNKNOWN, Vocabulary
from ms_crf.native import custom
from ms_crf.nn.characters import CharacterCNN, CharacterLSTM
from ms_crf.nn.head import Layers
from ms_crf.runs.options import Options

import mindspore as ms
import numpy as np
from mindspore import Parameter, ops
from mindspore.common.initializer import Uniform, initializer


class TaggerNetwork(Layers):
    """Computes scores of tags for sentences, length first.

    Args:
        num_words: number of ids of words and bigrams.
        word_dim: width of a word vector.
        num_tags: number of tags.
        hidden_dim: width of a BiLSTM layer's output, half for each direction; even.
        num_layers: number of BiLSTM layers.
        char: 'cnn', 'lstm' or 'none'.
        num_characters: number of character ids; 0 is padding.
        char_dim: width of a character vector.
        char_width: width of the vector that is computed from the characters of a word.
        head: 'crf' or 'softmax'.
        constraints: the result of `allowed_transitions`, for the CRF.
        columns: number of ids of a form: 1, or 3 with bigrams.
        num_ngrams: number of character n-grams, which give vectors to out-of-vocabulary words.
    """

    def __init__(self, num_words: int, word_dim: int, num_tags: int, hidden_dim: int = 200, num_layers: int = 1,
                 char: str = 'cnn', num_characters: int = 1, char_dim: int = 30, char_width: int = 50,
                 head: str = 'crf', constraints: Constraints | None = None, columns: int = 1,
                 num_ngrams: int = 0) -> None:
        super().__init__()
        self.word_table = Parameter(initializer(Uniform((3 / word_dim) ** 0.5), (num_words, word_dim)),
                                    name='word_table')
        self.with_characters = char != 'none'
        if self.with_characters:
            reader = CharacterCNN if char == 'cnn' else CharacterLSTM
            self.characters = reader(num_characters, char_dim, char_width)
        self.columns, self.word_dim, self.with_ngrams = columns, word_dim, num_ngrams > 0
        if self.with_ngrams:
            # A row of 0, then a row for each n-gram. The rows are learned from word vectors before the training.
            self.ngram_table = Parameter(ms.Tensor(np.zeros((1 + num_ngrams, word_dim), np.float32)),
                                         name='ngram_table', requires_grad=False)
        self.add_layers(columns * word_dim + char_width * self.with_characters, num_tags, hidden_dim, num_layers, head,
                        constraints)

    @property
    def row_table(self) -> Parameter:
        """The word vectors; a training step reads and updates only the rows of its batch."""
        return self.word_table

    def parts(self) -> dict[str, list]:
        """The names that the option `freeze` accepts, and their Parameters."""
        characters = {'characters': self.characters.trainable_params()} if self.with_characters else {}
        return {'words': [self.word_table], **characters, 'lstm': self.layers.trainable_params()}

    def rows(self, words):
        """The vectors (words, word_dim) of ids (words,)."""
        return ops.gather(self.word_table, words, 0)

    def _of_forms(self, rows):
        """Concatenates the vectors of the ids of each form."""
        return rows if self.columns == 1 else rows.reshape(rows.shape[0], -1)

    def emissions(self, rows, form_words, long_spellings, short_spellings, places, seq_length, keep=None):
        """The score of each tag at each position.

        Args:
            rows: (words, word_dim), the vectors of the distinct words of the batch.
            form_words: (forms,) or, with bigrams, (forms, columns): indices into `rows` for each form.
            long_spellings, short_spellings: (long forms, characters) and (short forms, fewer characters) ids of
                characters, 0 for padding. There are two arrays because few words are long.
            places: (length, batch), the index of the form of each token.
            seq_length: (batch,).
            keep: in training the dropout masks: for each of `widths` a tensor (length, batch, width), with 0 for
                dropped values and 1 / (1 - rate) for all others.

        Returns:
            (length, batch, num_tags).
        """
        vectors = self._of_forms(ops.gather(rows, form_words, 0))                   # (forms, columns * word_dim)
        if self.with_characters:
            read = ops.concat((self.characters(long_spellings), self.characters(short_spellings)), 0)
            vectors = ops.concat((vectors, read.astype(ms.float32)), 1)
        return self.emissions_of(ops.gather(vectors, places, 0), seq_length, keep)

    def form_vectors(self, words, spellings=None, composed=None, ngrams=None):
        """The vectors of forms without context: (forms, widths[0]).

        Args:
            words: (forms,) or (forms, columns) ids.
            spellings: (forms, characters) ids; None for a network without characters.
            composed: (some,) indices of forms of out-of-vocabulary words that get vectors from their n-grams; or None.
            ngrams: (some, n-grams) ids of their n-grams, then 0; a form without n-grams keeps its vector.
        """
        vectors = self._of_forms(self.rows(words))
        if composed is not None:
            vectors = ops.tensor_scatter_add(vectors, composed.expand_dims(1), self._change(ngrams))
        if self.with_characters:
            vectors = ops.concat((vectors, self.characters(spellings).astype(ms.float32)), 1)
        return vectors

    def _change(self, ngrams):
        """The vectors of words from their n-grams, minus the vector of the unknown word: (some, columns * word_dim)."""
        counts = (ngrams != 0).astype(ms.float32).sum(1).expand_dims(1)             # (some, 1)
        composed_vectors = ops.gather(self.ngram_table, ngrams, 0).sum(1) / ops.sqrt(ops.maximum(counts, 1.0))
        change = (composed_vectors - self.word_table[UNKNOWN]) * ops.minimum(counts, 1.0)       # (some, word_dim)
        if self.columns > 1:                                                        # bigrams keep their vectors
            change = ops.concat((change, *(ops.zeros_like(change),) * (self.columns - 1)), 1)
        return change

    def form_gates(self, vectors, count):
        """The input gates of the first layer for forms, before their context is known; C++ on CPU, without gradients.

        Args:
            vectors: (forms, widths[0]), the result of `form_vectors`.
            count: (1,) int32, number of forms; further rows are ignored.

        Returns:
            (forms, 4 hidden_dim).
        """
        return self.layers[0].gates(vectors, count)

    def emissions_of_gates(self, gates, places, seq_length):
        """The result of `emissions_of`, computed from the result of `form_gates`; only for networks with one layer.

        Args:
            gates: (forms, 4 hidden_dim).
            places: (length, batch) int32, the index of the form of each token; any value for padding.
            seq_length: (batch,).
        """
        return self.layers[0].scores_of_gates(gates, places, seq_length, self.projection)

    def emissions_of(self, hidden, seq_length, keep=None):
        """The score of each tag at each position (length, batch, num_tags), from vectors of the tokens.

        Args:
            hidden: (length, batch, widths[0]).
            seq_length: (batch,).
            keep: in training the dropout masks; see `emissions`.
        """
        return self.scores_of(self.hidden_of(hidden, seq_length, keep))

    def construct(self, rows, form_words, long_spellings, short_spellings, places, seq_length, tags, keep=None):
        """The training loss, averaged over sentences; tags are (length, batch). For the rest see `emissions`."""
        emissions = self.emissions(rows, form_words, long_spellings, short_spellings, places, seq_length, keep)
        return self.head(emissions, tags, seq_length)


class WordExportCell(ExportCell):
    """The cell of an exported graph over words and their characters."""

    def construct(self, words, spellings, places, lengths, composed=None, ngrams=None):
        """Tags sentences.

        Args:
            words: (words,) int32 ids of the distinct words of the batch; repeated words are allowed. With bigrams
                (words, 3): ids of the word, of the bigram that it ends, and of the bigram that it begins.
            spellings: (words, characters) int32 ids of their characters, then 0.
            places: (batch, length) int32, the index of the word of each token.
            lengths: (batch,) int32.
            composed: with n-grams, (some,) int32 indices of out-of-vocabulary words that get vectors from n-grams.
            ngrams: with n-grams, (some, n-grams) int32 ids of their n-grams, then 0.
        """
        return self._tag_words(self.network.form_vectors(words, spellings, composed, ngrams), places, lengths)

    def _tag_words(self, vectors, places, lengths):
        hidden = ops.gather(vectors, ops.transpose(places, (1, 0)), 0)
        return self.tag(self.network.emissions_of(hidden, lengths), lengths)


class CharacterlessExportCell(WordExportCell):
    """The cell of an exported graph of a network without characters: `construct` has no argument `spellings`."""

    def construct(self, words, places, lengths, composed=None, ngrams=None):  # type: ignore[override]
        return self._tag_words(self.network.form_vectors(words, None, composed, ngrams), places, lengths)


def build_network(options: Options, vocabulary: Vocabulary, word_dim: int, scheme: str) -> TaggerNetwork:
    """The network of a run over words, with random weights."""
    network = TaggerNetwork(vocabulary.num_rows, word_dim, len(vocabulary.tags), options.hidden, options.layers,
                            options.char, vocabulary.num_characters, options.char_dim, options.char_width,
                            options.head, constraints_of(options, scheme, vocabulary.tags), vocabulary.columns,
                            len(vocabulary.ngrams))
    if options.precision == 'mixed':
        for cell in (network.layers, *([network.characters] if options.char != 'none' else [])):
            cell.to_float(ms.float16)
    return network


GATES_BYTES = 1 << 26            # largest size of the array of the gates of all forms
GATES_FORMS = (2048, 4096)       # smallest number of forms to compute gates for; step of the number of rows
FORMS = (2048, 512)              # forms in a batch of `form_vectors`, and in a batch of the last forms


class WordDecoder(GraphDecoder[EncodedWords]):
    """Tags with a network over words.

    Args:
        network: the network.
        vocabulary: the tags, and the ids of words and characters.
        compiled: is called with length, rows and seconds after each compilation of a graph.
    """

    def __init__(self, network: TaggerNetwork, vocabulary: Vocabulary, compiled: Compiled | None = None) -> None:
        super().__init__(network, vocabulary, partial(EncodedWords, vocabulary=vocabulary), compiled)

        @ms.jit
        def read(words, spellings):
            return network.form_vectors(words, spellings)

        @ms.jit
        def gates(vectors, count):
            return network.form_gates(vectors, count)

        self._read, self._gates = read, gates
        self._ngram_table: np.ndarray | None = network.ngram_table.asnumpy() if network.with_ngrams else None

    def method(self, encoded: EncodedWords) -> Callable:
        """The function that computes scores of tags: from gates of forms if possible, otherwise from vectors."""
        return self.network.emissions_of_gates if self._room(encoded) else self.network.emissions_of

    def _room(self, encoded: EncodedWords) -> int:
        """The number of rows for the gates of forms, at least the number of forms; 0 if gates are not computed."""
        least, step = GATES_FORMS
        room = -(-encoded.num_forms // step) * step          # few different values, because each needs its own graphs
        fits = 4 * 4 * self.network.widths[1] * room <= GATES_BYTES
        return room if custom.in_use() and len(self.network.layers) == 1 and encoded.num_forms >= least and fits else 0

    def inputs(self, encoded: EncodedWords, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """Batches: (length, rows), indices of the sentences, and arrays: lengths, then the arguments of `method`.

        The arrays are overwritten by the next batch.

        Args:
            encoded: the result of `encode`.
            at_most: largest number of sentences in a batch.
        """
        room, gates = self._room(encoded), None
        vectors = np.zeros((room or encoded.num_forms + 1, self.network.widths[0]), np.float32)
        self._read_forms(encoded, vectors)
        if room:                                 # multiply each form with the weights of the layer only once
            with graph_call():
                count = np.array([encoded.num_forms], np.int32)
                gates = self._gates(ms.from_numpy(vectors), ms.from_numpy(count)).asnumpy()
        buffers: dict[tuple[int, int], np.ndarray] = {}          # reused, because new memory takes longer
        for shape, indices in self.plan(encoded.lengths, at_most):
            batch = word_batch(encoded, shape, indices)
            if gates is not None:
                yield shape, indices, (batch.lengths, gates, batch.values, batch.lengths)
                continue
            if shape not in buffers:
                buffers[shape] = np.empty((*shape, vectors.shape[1]), np.float32)
            np.take(vectors, batch.values, 0, buffers[shape], 'wrap')      # NO_FORM (-1) takes the last row: zeros
            yield shape, indices, (batch.lengths, buffers[shape], batch.lengths)

    def _read_forms(self, encoded: EncodedWords, table: np.ndarray) -> None:
        """Writes the vectors of all forms into the first rows of `table` (at least num_forms, widths[0])."""
        is_long = encoded.is_long[:encoded.num_forms]
        for chosen, width in ((np.flatnonzero(is_long), encoded.spelling_of.shape[1]),
                              (np.flatnonzero(~is_long), encoded.half)):
            while len(chosen):
                room = FORMS[len(chosen) < FORMS[0]]
                forms, chosen = chosen[:room], chosen[room:]
                with graph_call():
                    vectors = self._read(*map(ms.from_numpy, encoded.arrays(forms, room, width))).asnumpy()
                table[forms] = vectors[:len(forms)]
        if self._ngram_table is not None and len(encoded.composed):      # few sums, which need no graph
            sums, _ = composed(self._ngram_table, encoded.ngrams_of)
            table[encoded.composed, :sums.shape[1]] = sums
