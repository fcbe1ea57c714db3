"""The training data of the tagger over words: word vectors, n-grams, vocabulary, and batches of word forms.

A training may begin with another run, its base run. The words of the base run keep their ids and vectors, and new words
follow. New words start with their pretrained vector if there is one, otherwise with the sum of their n-gram vectors,
otherwise with the vector of the unknown word. New characters start with the vector of the unknown character. So the
network initially behaves like the network of the base run.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ms_crf.base.errors import CorpusError, argument
from ms_crf.base.watchers import Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled
from ms_crf.models.bucketing import plan
from ms_crf.models.inheritance import BaseRecord, describe_inherited, put_weights
from ms_crf.models.learning import Needs, NetworkLearner, check_fits, texts_of
from ms_crf.models.words import batches
from ms_crf.models.words.batches import EncodedWords, FormShape
from ms_crf.models.words.network import TaggerNetwork, WordDecoder, build_network
from ms_crf.models.words.ngrams import FITTED, learn
from ms_crf.models.words.vectors import WAYS, read_vectors
from ms_crf.models.words.vocabulary import FIRST, UNKNOWN, Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import Options
from ms_crf.runs.records import saving
from ms_crf.runs.run import SavedRun

import mindspore as ms
import numpy as np

WORDS, CHARACTERS = 'word_table', 'characters.table.weight'      # names of the Parameters with a row for each id


class WordBase:
    """The base run of a training over words.

    Args:
        vocabulary: vocabulary of the base run; without tags if it comes from the config.json of a resumed training.
        record: the field "init" of config.json of the new run.
        weights: weights of the base run by name; empty for a resumed training, whose state contains all weights.
    """

    def __init__(self, vocabulary: Vocabulary, record: BaseRecord, weights: dict[str, np.ndarray]) -> None:
        self.vocabulary, self.record, self.weights = vocabulary, record, weights

    @classmethod
    def of(cls, run: SavedRun, vocabulary: Vocabulary, network: TaggerNetwork) -> 'WordBase':
        """The base run of a new training, from the run, its vocabulary and its network."""
        record = BaseRecord(run.digest, len(vocabulary.words), len(vocabulary.characters), len(vocabulary.bigrams))
        return cls(vocabulary, record, records.as_arrays(network.trainable_params()))

    @classmethod
    def recorded(cls, vocabulary: Vocabulary, record: BaseRecord) -> 'WordBase':
        """The base run of a resumed training, from the vocabulary and the field "init" of the resumed run."""
        before = Vocabulary(vocabulary.words[:record.words], vocabulary.characters[:record.characters], (),
                            vocabulary.char_length, vocabulary.bigrams[:record.bigrams], vocabulary.ngrams)
        return cls(before, record, {})

    def rows(self, vocabulary: Vocabulary, vectors: Mapping[str, np.ndarray],
             ngram_table: np.ndarray | None = None) -> np.ndarray:
        """The initial vectors of the words and bigrams of a training, (num_rows, width); can be called only once.

        Args:
            vocabulary: vocabulary of the training.
            vectors: pretrained vectors of new words.
            ngram_table: n-gram vectors of the base run, for new words without pretrained vectors; None without
                n-grams.
        """
        before = self.weights.pop(WORDS)         # frees the largest array of the base run
        first = FIRST + self.record.words        # from here on rows of bigrams; the first is for unknown bigrams
        rows = _grown(before[:first], vocabulary.num_words, UNKNOWN)
        if self.record.bigrams:
            bigrams = _grown(before[first:], vocabulary.num_rows - vocabulary.num_words, 0)
            rows = np.concatenate((rows, bigrams))
        vocabulary.put_vectors(rows, vocabulary.words[self.record.words:], vectors, ngram_table)
        return rows

    def put_into(self, network: TaggerNetwork, vocabulary: Vocabulary, rows: np.ndarray) -> None:
        """Sets the initial weights of a new network.

        Args:
            network: network of the training.
            vocabulary: vocabulary of the training.
            rows: the result of the method `rows`.
        """
        weights = {**self.weights, WORDS: rows}
        if CHARACTERS in weights:
            weights[CHARACTERS] = _grown(weights[CHARACTERS], vocabulary.num_characters, UNKNOWN)
        put_weights(network, weights, self.vocabulary.tags, vocabulary.tags)

    def describe(self, options: Options, vocabulary: Vocabulary) -> str:
        """A line that describes which weights a training with this vocabulary takes from the base run."""
        record = self.record
        words = f'{record.words:,} words (plus {len(vocabulary.words) - record.words:,} new)'
        characters = f'{record.characters:,} characters (plus {len(vocabulary.characters) - record.characters:,} new)'
        return describe_inherited(options, self.vocabulary.tags, vocabulary.tags, words,
                          *([characters] if options.char != 'none' else []))


def _grown(table: np.ndarray, rows: int, unknown: int) -> np.ndarray:
    """A table with `rows` rows; new rows are copies of the row with the index `unknown`."""
    return np.concatenate((table, np.repeat(table[unknown:unknown + 1], rows - len(table), 0)))


class Pretrained:
    """The pretrained word vectors of a training, and n-gram vectors that are learned from the word vectors.

    Args:
        options: options of the training.
        texts: the sentences of each part of the corpora, as lists of tokens.
        watcher: receives messages about the files that are read.
        base: the base run, or None.
        ngrams: n-grams and the table of their vectors, if they are known already; otherwise None.

    Attributes:
        vectors: word vectors by the form of the word in the file; empty without `embeddings`.
        width: width of the vectors.
        ngrams: character n-grams.
        table: vectors of n-grams (1 + n-grams, width); None without n-grams.
    """

    def __init__(self, options: Options, texts: Iterable[Sequence[list[str]]], watcher: Watcher, base: WordBase | None,
                 ngrams: tuple[list[str], np.ndarray] | None) -> None:
        vectors: dict[str, np.ndarray] = {}
        width = options.word_dim
        if options.embeddings:
            distinct = list(dict.fromkeys(token for sentences in texts for tokens in sentences for token in tokens
                                          if base is None or not base.vocabulary.knows(token)))
            watcher.say(f'reading {options.embeddings}')
            learns = options.ngrams and base is None and ngrams is None
            vectors, width, ways, common = read_vectors(options.embeddings, distinct, FITTED if learns else 0)
            if base is not None and width != options.word_dim:
                raise CorpusError(options.embeddings, None, f'expected vectors of {options.word_dim} numbers as in '
                                                            f'{options.init}, got {width}')
            counts = ', '.join(f'{list(ways.values()).count(way):,} {way}' for way in WAYS)
            description = 'distinct words' if base is None else 'new words'
            watcher.say(f'vectors of {width} numbers for {len(ways):,} of {len(distinct):,} {description} '
                        f'({len(ways) / max(len(distinct), 1):.1%}): {counts}')
            if learns:
                with watcher.progress('learning n-grams', width, 'columns') as done:
                    ngrams = learn({**common, **vectors}, done)
                watcher.say(f'out-of-vocabulary words get vectors from {len(ngrams[0]):,} character n-grams')
        self.vectors, self.width, self.ngrams = vectors, width, ngrams[0] if ngrams else []
        self.table = ngrams[1] if ngrams else None


class WordLearner(NetworkLearner[EncodedWords, FormShape]):
    """The corpora of a training as ids, with the vocabulary and the initial word vectors.

    Args:
        options: options of the training.
        corpora: the sentences, all in one tag scheme.
        watcher: receives messages about the files that are read.
        base: the base run, or None.
        ngrams: n-grams and the table of their vectors, if they are known already; otherwise None.

    Attributes:
        word_dim: width of a word vector.
        rows: (ids of words and bigrams, word_dim), the initial vectors of a training.
    """

    vocabulary: Vocabulary

    def __init__(self, options: Options, corpora: Corpora, watcher: Watcher, base: WordBase | None = None,
                 ngrams: tuple[list[str], np.ndarray] | None = None) -> None:
        texts = texts_of(corpora)
        pretrained = Pretrained(options, texts.values(), watcher, base, ngrams)
        others = [tokens for part in ('dev', 'test') for tokens in texts.get(part, [])] if pretrained.vectors else []
        vocabulary = Vocabulary.of(texts['train'], others, corpora.tags, pretrained.vectors, options.char_length,
                                   bool(options.bigrams), None if base is None else base.vocabulary, pretrained.ngrams)
        super().__init__(options, corpora, vocabulary,
                         lambda sentences, tags: EncodedWords(sentences, vocabulary, tags))
        self.shapes = batches.word_shapes(self.encoded['train'], options.batch_size)
        check_words(options, vocabulary, pretrained.width, self.shapes)
        if base is not None and base.weights:
            self.rows = base.rows(vocabulary, pretrained.vectors, pretrained.table)
            watcher.say(base.describe(options, vocabulary))
        else:
            self.rows = vocabulary.initial_rows(pretrained.vectors, pretrained.width,
                                                np.random.default_rng([options.seed, 0]), pretrained.table)
        self.word_dim, self.base, self._ngram_table = pretrained.width, base, pretrained.table
        self._counts = self.encoded['train'].word_counts()
        self._record = {'word_dim': pretrained.width, **self._record}
        if options.embeddings:
            self._record['vectors_sha256'] = _vectors_digest(pretrained.vectors)
        if base is not None:
            self._record['init'] = asdict(base.record)

    def fill(self, folder: Path) -> None:
        """Writes the n-gram vectors into a new run directory."""
        if self._ngram_table is not None and self.vocabulary.ngrams:
            with saving(folder) as new:
                new.tensors(records.NGRAMS, {'ngram_table': self._ngram_table})

    def network(self) -> TaggerNetwork:
        """A new network with its initial weights."""
        network = build_network(self.options, self.vocabulary, self.word_dim, self.scheme)
        if self.base is not None and self.base.weights:
            self.base.put_into(network, self.vocabulary, self.rows)
        else:
            network.word_table.set_data(ms.Tensor(self.rows))
        if network.with_ngrams:
            network.ngram_table.set_data(ms.Tensor(self._ngram_table))
        return network

    def decoder(self, network: TaggerNetwork, compiled: Compiled | None) -> WordDecoder:
        """A decoder that tags with `network`; `compiled` is called after each compilation of a graph."""
        return WordDecoder(network, self.vocabulary, compiled)

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """The batches of an epoch: tuples (shape, indices of sentences, codes of the forms of all sentences).

        The unknown word replaces some words at random.
        """
        encoded, unknown = self.encoded['train'], None
        if self.options.unknown > 0:
            unknown = batches.replaced(generator, encoded.tokens, self._counts, self.options.unknown)
        codes = encoded.codes(unknown)
        planned = plan(self.shapes, self.annotated_sizes, partial(batches.cut_by_forms, encoded, codes), generator)
        return [(shape, indices, codes) for shape, indices in planned]

    def batch(self, shape: FormShape, indices: np.ndarray, codes: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arrays of a step; the arguments are a tuple from `plan`."""
        return self.share(slice(None), shape, indices, codes)

    def share(self, rows: slice, shape: FormShape, indices: np.ndarray,
              codes: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arrays of some rows of a batch, with the words of all rows."""
        encoded = self.encoded['train']
        batch = batches.word_batch(encoded, (shape.length, shape.rows), indices, codes)
        return batches.step_arrays(encoded, shape, batch, rows)


def _vectors_digest(vectors: dict[str, np.ndarray]) -> str:
    """SHA-256 of a dict of words to vectors."""
    digest = hashlib.sha256()
    for word in sorted(vectors):
        digest.update(word.encode() + b'\0' + np.asarray(vectors[word], np.float32).tobytes())
    return digest.hexdigest()


def check_words(options: Options, vocabulary: Vocabulary, word_dim: int, shapes: Sequence[FormShape]) -> None:
    """Raises OptionError if a training over words needs more memory than is available.

    Args:
        options: options of the training.
        vocabulary: tags, words and characters.
        word_dim: width of a word vector.
        shapes: shapes of the batches.
    """
    def needs(changed: Options) -> Needs:
        dim = word_dim if options.embeddings else changed.word_dim
        weights, step, width = vocabulary.num_rows * dim, 0, vocabulary.columns * dim
        if changed.char != 'none':
            weights += character_weights(changed, vocabulary.num_characters)
            half, width = (changed.char_length + 1) // 2, width + changed.char_width
            # Inputs and outputs of the filters or of the LSTM, at each character and one position beyond either end.
            values = (3 if changed.char == 'cnn' else 1) * changed.char_dim + changed.char_width
            step = values * max(shape.long_forms * (changed.char_length + 2) + shape.short_forms * (half + 2)
                                for shape in shapes)
        fixed = (1 + len(vocabulary.ngrams)) * dim if vocabulary.ngrams else 0
        return Needs(width, changed.hidden, changed.layers, weights, step, fixed)

    otherwise = f'{argument("embeddings")} {options.embeddings}' if options.embeddings else 'these files'
    check_fits(options, needs, len(vocabulary.tags), shapes, otherwise)


def character_weights(options: Options, num_characters: int) -> int:
    """The number of weights of a `CharacterCNN` or a `CharacterLSTM`."""
    dim, width = options.char_dim, options.char_width
    layer = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + layer
