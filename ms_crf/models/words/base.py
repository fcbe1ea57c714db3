"""The run that a training over words begins with: its words keep their ids and vectors, and new words follow them.

New words start with their pretrained vector if there is one, otherwise with the sum of their n-gram vectors, otherwise
with the vector of the unknown word. New characters start with the vector of the unknown character. So at first the
network behaves like the network of the base.
"""

from collections.abc import Mapping

from ms_crf.base.errors import CorpusError
from ms_crf.models.inheritance import BaseRecord, put_weights, taken_over
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.models.words.vocabulary import FIRST, UNKNOWN, Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import Options
from ms_crf.runs.run import Run

import numpy as np

WORDS, CHARACTERS = 'word_table', 'characters.table.weight'      # Parameters with a row for each


class Base:
    """The base of a training over words.

    Args:
        vocabulary: words and characters of the base, and its tags unless it is read from the run that has begun.
        record: what config.json of the new run says of it.
        weights: its weights by name; None where the training goes on, whose state has all of them.
    """

    def __init__(self, vocabulary: Vocabulary, record: BaseRecord, weights: dict[str, np.ndarray] | None) -> None:
        self.vocabulary, self.record, self.weights = vocabulary, record, weights

    @classmethod
    def of(cls, run: Run, vocabulary: Vocabulary, network: TaggerNetwork) -> 'Base':
        """From a run, its vocabulary, and its network."""
        record = BaseRecord(run.digest, len(vocabulary.words), len(vocabulary.characters), len(vocabulary.bigrams))
        return cls(vocabulary, record, records.as_arrays(network.trainable_params()))

    @classmethod
    def recorded(cls, vocabulary: Vocabulary, record: BaseRecord) -> 'Base':
        """From the vocabulary of a run that began with it, and what config.json says there."""
        before = Vocabulary(vocabulary.words[:record.words], vocabulary.characters[:record.characters], (),
                            vocabulary.char_length, vocabulary.bigrams[:record.bigrams], vocabulary.ngrams)
        return cls(before, record, None)

    def check_width(self, options: Options, width: int) -> None:
        """Raises CorpusError unless the vectors of `embeddings` are as wide as those of the words of the base."""
        if width != options.word_dim:
            raise CorpusError(options.embeddings, None, f'expected vectors of {options.word_dim} numbers, as words '
                              f'in {options.init} have them, got {width}')

    def rows(self, vocabulary: Vocabulary, vectors: Mapping[str, np.ndarray],
             ngram_table: np.ndarray | None = None) -> np.ndarray:
        """(num_rows, width): the vectors of words and bigrams that a training begins with; asked for once.

        Args:
            vocabulary: of the training.
            vectors: of new words, those that there are.
            ngram_table: of the base, of which others get vectors; None if it has none.
        """
        assert self.weights is not None
        before = self.weights.pop(WORDS)         # which may be most of the memory
        first = FIRST + self.record.words        # behind it are the rows of bigrams, that of unknown ones first
        rows = _grown(before[:first], vocabulary.num_words, UNKNOWN)
        if self.record.bigrams:
            bigrams = _grown(before[first:], vocabulary.num_rows - vocabulary.num_words, 0)
            rows = np.concatenate((rows, bigrams))
        new = vocabulary.words[self.record.words:]
        for word_id, word in enumerate(new, FIRST + self.record.words):
            if word in vectors:
                rows[word_id] = vectors[word]
        vocabulary.compose(rows, new, vectors, ngram_table)
        return rows

    def put_into(self, network: TaggerNetwork, vocabulary: Vocabulary, rows: np.ndarray) -> None:
        """Gives a new network its first weights.

        Args:
            network: of the training.
            vocabulary: of the training.
            rows: what `rows` gave.
        """
        assert self.weights is not None
        weights = {**self.weights, WORDS: rows}
        if CHARACTERS in weights:
            weights[CHARACTERS] = _grown(weights[CHARACTERS], vocabulary.num_characters, UNKNOWN)
        put_weights(network, weights, self.vocabulary.tags, vocabulary.tags)

    def described(self, options: Options, vocabulary: Vocabulary) -> str:
        """One line about what a training with that vocabulary has from it."""
        record = self.record
        words = f'{record.words:,} words ({len(vocabulary.words) - record.words:,} new beside them)'
        characters = f'{record.characters:,} characters ({len(vocabulary.characters) - record.characters:,} new)'
        return taken_over(options, self.vocabulary.tags, vocabulary.tags, words,
                          *([characters] if options.char != 'none' else []))


def _grown(table: np.ndarray, rows: int, unknown: int) -> np.ndarray:
    """A table with more rows behind its own, which are that of what is unknown, whose index is given."""
    return np.concatenate((table, np.repeat(table[unknown:unknown + 1], rows - len(table), 0)))
