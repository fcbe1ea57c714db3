"""The network that `train` trains: word vectors and characters, BiLSTM layers, projection, head; and how it tags.

It works on the distinct words of a batch and on where they stand, so that a word's characters are read once
and only the vectors of words in the batch are touched. In much text each form is multiplied with the weights of the
LSTM once.
"""

from collections.abc import Callable, Iterator
from functools import partial

from ms_crf.base.environment import graph_call
from ms_crf.crf.constraints import Constraints
from ms_crf.models.base import Compiled
from ms_crf.models.graphs import GraphDecoder, Served, constraints_of
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
    """Scores of tags for sentences, length first.

    Args:
        num_words: number of word ids, those of bigrams among them.
        word_dim: width of a word's vector.
        num_tags: number of tags.
        hidden_dim: width of a BiLSTM layer's output, half for each direction; even.
        num_layers: number of BiLSTM layers.
        char: 'cnn', 'lstm' or 'none'.
        num_characters: number of character ids, 0 of them padding.
        char_dim: width of a character's vector.
        char_width: width of what the characters of a word become.
        head: 'crf' or 'softmax'.
        constraints: what `allowed_transitions` returns; for the CRF.
        columns: how many of these ids a form has: 1, or 3 with bigrams.
        num_ngrams: number of n-grams of characters, of which words that are not known get vectors.
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
            # A row of 0, and one for each; it is learned from the vectors of words before the training.
            self.ngram_table = Parameter(ms.Tensor(np.zeros((1 + num_ngrams, word_dim), np.float32)),
                                         name='ngram_table', requires_grad=False)
        self.add_layers(columns * word_dim + char_width * self.with_characters, num_tags, hidden_dim, num_layers, head,
                        constraints)

    @property
    def row_table(self) -> Parameter:
        """The vectors of words, of which a step of training reads and updates those of its batch."""
        return self.word_table

    def parts(self) -> dict[str, list]:
        """What the option `freeze` may name, and its Parameters."""
        characters = {'characters': self.characters.trainable_params()} if self.with_characters else {}
        return {'words': [self.word_table], **characters, 'lstm': self.layers.trainable_params()}

    def rows(self, words):
        """(words,) ids to their vectors (words, word_dim)."""
        return ops.gather(self.word_table, words, 0)

    def _of_forms(self, rows):
        """The vectors of the ids of each form side by side."""
        return rows if self.columns == 1 else rows.reshape(rows.shape[0], -1)

    def emissions(self, rows, form_words, long_spellings, short_spellings, places, seq_length, keep=None):
        """Scores of each tag at each position.

        Args:
            rows: (words, word_dim), the vectors of the batch's distinct words.
            form_words: (forms,), which of the words each form has, or (forms, columns) with bigrams; a form is a word
                with its spelling and its bigrams.
            long_spellings, short_spellings: (some forms, characters) and (the other forms, fewer characters) ids,
                0 after a word's end; in two parts because few words are long.
            places: (length, batch), index of the form that stands there.
            seq_length: (batch,).
            keep: for training, a tensor (length, batch, width) for each of `widths` that the values there are
                multiplied with: 0 for what is dropped, 1 / (1 - rate) for the rest.

        Returns:
            (length, batch, num_tags).
        """
        vectors = self._of_forms(ops.gather(rows, form_words, 0))                   # (forms, columns * word_dim)
        if self.with_characters:
            read = ops.concat((self.characters(long_spellings), self.characters(short_spellings)), 0)
            vectors = ops.concat((vectors, read.astype(ms.float32)), 1)
        return self.emissions_of(ops.gather(vectors, places, 0), seq_length, keep)

    def form_vectors(self, words, spellings=None, composed=None, ngrams=None):
        """What is known of forms by themselves (forms, widths[0]).

        Args:
            words: (forms,) ids, or (forms, columns).
            spellings: (forms, characters) ids; None if characters are not read.
            composed: (some,), which of the forms are unknown words that get vectors from their n-grams; None for none.
            ngrams: (some, n-grams) ids of these, 0 behind them; a form without any stays as it is.
        """
        vectors = self._of_forms(self.rows(words))
        if composed is not None:
            vectors = ops.tensor_scatter_add(vectors, composed.expand_dims(1), self._change(ngrams))
        if self.with_characters:
            vectors = ops.concat((vectors, self.characters(spellings).astype(ms.float32)), 1)
        return vectors

    def _change(self, ngrams):
        """What the n-grams of unknown words make, less the vector of the unknown word: (some, columns * word_dim)."""
        counts = (ngrams != 0).astype(ms.float32).sum(1).expand_dims(1)             # (some, 1)
        made = ops.gather(self.ngram_table, ngrams, 0).sum(1) / ops.sqrt(ops.maximum(counts, 1.0))
        change = (made - self.word_table[UNKNOWN]) * ops.minimum(counts, 1.0)       # (some, word_dim)
        if self.columns > 1:                                                        # of bigrams nothing changes
            change = ops.concat((change, *(ops.zeros_like(change),) * (self.columns - 1)), 1)
        return change

    def form_gates(self, vectors, count):
        """What the layer can say of forms before it is known where they stand, on CPU in C++, without gradients.

        Args:
            vectors: (forms, widths[0]), what `form_vectors` gave.
            count: (1,) int32, how many of them there are; the others may be anything.

        Returns:
            (forms, 4 hidden_dim).
        """
        return self.layers[0].gates(vectors, count)

    def emissions_of_gates(self, gates, places, seq_length):
        """What `emissions_of` gives for the vectors of forms, from what `form_gates` gave; of a network of one layer.

        Args:
            gates: (forms, 4 hidden_dim).
            places: (length, batch) int32, which form stands there; anything on padding.
            seq_length: (batch,).
        """
        return self.layers[0].scores_of_gates(gates, places, seq_length, self.projection)

    def emissions_of(self, hidden, seq_length, keep=None):
        """Scores of each tag at each position (length, batch, num_tags), from vectors of the tokens.

        Args:
            hidden: (length, batch, widths[0]).
            seq_length: (batch,).
            keep: for training, what values are multiplied with; see `emissions`.
        """
        return self.scores_of(self.hidden_of(hidden, seq_length, keep))

    def construct(self, rows, form_words, long_spellings, short_spellings, places, seq_length, tags, keep=None):
        """The loss of training, mean of the sentences: see `emissions`, and tags (length, batch)."""
        emissions = self.emissions(rows, form_words, long_spellings, short_spellings, places, seq_length, keep)
        return self.head(emissions, tags, seq_length)


class ServedWords(Served):
    """The cell of a graph that is given words and their characters."""

    def construct(self, words, spellings, places, lengths, composed=None, ngrams=None):
        """Tags sentences.

        Args:
            words: (words,) int32 ids of the distinct words of the batch, more than once does no harm; with bigrams
                (words, 3), ids of a word and of the bigrams that it ends and begins.
            spellings: (words, characters) int32 ids of their characters, 0 behind a word's end.
            places: (batch, length) int32, index of the word that stands there.
            lengths: (batch,) int32.
            composed: with n-grams, (some,) int32, which of the words are unknown ones that are composed of n-grams.
            ngrams: with n-grams, (some, n-grams) int32 ids of these, 0 behind them.
        """
        return self._tag_words(self.network.form_vectors(words, spellings, composed, ngrams), places, lengths)

    def _tag_words(self, vectors, places, lengths):
        hidden = ops.gather(vectors, ops.transpose(places, (1, 0)), 0)
        return self.tag(self.network.emissions_of(hidden, lengths), lengths)


class ServedWithoutCharacters(ServedWords):
    """The cell of a graph whose network reads no characters: `construct` takes no spellings."""

    def construct(self, words, places, lengths, composed=None, ngrams=None):  # type: ignore[override]
        return self._tag_words(self.network.form_vectors(words, None, composed, ngrams), places, lengths)


def build_network(options: Options, vocabulary: Vocabulary, word_dim: int, scheme: str) -> TaggerNetwork:
    """The network of a run over words; its weights are random until they are loaded."""
    network = TaggerNetwork(vocabulary.num_rows, word_dim, len(vocabulary.tags), options.hidden, options.layers,
                            options.char, vocabulary.num_characters, options.char_dim, options.char_width,
                            options.head, constraints_of(options, scheme, vocabulary.tags), vocabulary.columns,
                            len(vocabulary.ngrams))
    if options.precision == 'mixed':
        for cell in (network.layers, *([network.characters] if options.char != 'none' else [])):
            cell.to_float(ms.float16)
    return network


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
        room, gates = self._room(encoded), None
        vectors = np.zeros((room or encoded.num_forms + 1, self.network.widths[0]), np.float32)
        self._read_forms(encoded, vectors)
        if room:                                 # each form is multiplied with the layer's weights once
            with graph_call():
                count = np.array([encoded.num_forms], np.int32)
                gates = self._gates(ms.from_numpy(vectors), ms.from_numpy(count)).asnumpy()
        rooms: dict[tuple[int, int], np.ndarray] = {}            # written again and again: new memory takes longer
        for shape, indices in self.plan(encoded.lengths, at_most):
            batch = word_batch(encoded, shape, indices)
            if gates is not None:
                yield shape, indices, (batch.lengths, gates, batch.values, batch.lengths)
                continue
            if shape not in rooms:
                rooms[shape] = np.empty((*shape, vectors.shape[1]), np.float32)
            np.take(vectors, batch.values, 0, rooms[shape], 'wrap')        # NO_FORM finds the last row, of zeros
            yield shape, indices, (batch.lengths, rooms[shape], batch.lengths)

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
