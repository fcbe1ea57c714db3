"""The network that `train` trains: word vectors and characters, BiLSTM layers, projection, head.

It works on the distinct words of a batch and on where they stand, so that a word's characters are read once
and only the vectors of words in the batch are touched.
"""


from ms_crf.crf.constraints import Constraints
from ms_crf.models.graphs import constraints_of
from ms_crf.models.words.vocabulary import UNKNOWN, Vocabulary
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
