"""What the tagger over words learns from: vectors, n-grams and the vocabulary of the corpora, and batches of forms.

A training may begin with another run, its base. The words of the base keep their ids and vectors, and new words follow
them. New words start with their pretrained vector if there is one, otherwise with the sum of their n-gram vectors,
otherwise with the vector of the unknown word. New characters start with the vector of the unknown character. So at
first the network behaves like the network of the base.
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
from ms_crf.models.inheritance import BaseRecord, put_weights, taken_over
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

WORDS, CHARACTERS = 'word_table', 'characters.table.weight'      # Parameters with a row for each


class Base:
    """The base of a training over words.

    Args:
        vocabulary: words and characters of the base, and its tags unless it is read from the run that has begun.
        record: what config.json of the new run says of it.
        weights: its weights by name; none where the training is resumed, whose state has all of them.
    """

    def __init__(self, vocabulary: Vocabulary, record: BaseRecord, weights: dict[str, np.ndarray]) -> None:
        self.vocabulary, self.record, self.weights = vocabulary, record, weights

    @classmethod
    def of(cls, run: SavedRun, vocabulary: Vocabulary, network: TaggerNetwork) -> 'Base':
        """From a run, its vocabulary, and its network."""
        record = BaseRecord(run.digest, len(vocabulary.words), len(vocabulary.characters), len(vocabulary.bigrams))
        return cls(vocabulary, record, records.as_arrays(network.trainable_params()))

    @classmethod
    def recorded(cls, vocabulary: Vocabulary, record: BaseRecord) -> 'Base':
        """From the vocabulary of a run that began with it, and what config.json says there."""
        before = Vocabulary(vocabulary.words[:record.words], vocabulary.characters[:record.characters], (),
                            vocabulary.char_length, vocabulary.bigrams[:record.bigrams], vocabulary.ngrams)
        return cls(before, record, {})

    def rows(self, vocabulary: Vocabulary, vectors: Mapping[str, np.ndarray],
             ngram_table: np.ndarray | None = None) -> np.ndarray:
        """(num_rows, width): the vectors of words and bigrams that a training begins with; asked for once.

        Args:
            vocabulary: of the training.
            vectors: of new words, those that there are.
            ngram_table: of the base, of which others get vectors; None if it has none.
        """
        before = self.weights.pop(WORDS)         # which may be most of the memory
        first = FIRST + self.record.words        # behind it are the rows of bigrams, that of unknown ones first
        rows = _grown(before[:first], vocabulary.num_words, UNKNOWN)
        if self.record.bigrams:
            bigrams = _grown(before[first:], vocabulary.num_rows - vocabulary.num_words, 0)
            rows = np.concatenate((rows, bigrams))
        vocabulary.put_vectors(rows, vocabulary.words[self.record.words:], vectors, ngram_table)
        return rows

    def put_into(self, network: TaggerNetwork, vocabulary: Vocabulary, rows: np.ndarray) -> None:
        """Gives a new network its first weights.

        Args:
            network: of the training.
            vocabulary: of the training.
            rows: what `rows` gave.
        """
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


class Pretrained:
    """The vectors that options name, if any, and n-grams, which are learned from the vectors unless they are known.

    Args:
        options: of the training.
        texts: of each part of the corpora its sentences, as lists of tokens.
        watcher: is told what is read.
        base: of the training; None for nothing.
        ngrams: n-grams of characters and the table of their vectors, if they are known.

    Attributes:
        vectors: by form.
        width: of each.
        ngrams: n-grams of characters.
        table: (1 + n-grams, width); None without n-grams.
    """

    def __init__(self, options: Options, texts: Iterable[Sequence[list[str]]], watcher: Watcher, base: Base | None,
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
                raise CorpusError(options.embeddings, None, f'expected vectors of {options.word_dim} numbers, as words '
                                                            f'in {options.init} have them, got {width}')
            counts = ', '.join(f'{list(ways.values()).count(way):,} {way}' for way in WAYS)
            which = 'distinct words' if base is None else 'new words'
            watcher.say(f'{width} numbers a word; {len(ways):,} of {len(distinct):,} {which} are known '
                        f'({len(ways) / max(len(distinct), 1):.1%}): {counts}')
            if learns:
                with watcher.progress('learning n-grams', width, 'columns') as done:
                    ngrams = learn({**common, **vectors}, done)
                watcher.say(f'{len(ngrams[0]):,} n-grams of characters make vectors for the others')
        self.vectors, self.width, self.ngrams = vectors, width, ngrams[0] if ngrams else []
        self.table = ngrams[1] if ngrams else None


class WordLearner(NetworkLearner[EncodedWords, FormShape]):
    """The corpora of a run as ids, and the vocabulary and vectors that follow from them.

    Args:
        options: of the training.
        corpora: its sentences, in one scheme.
        watcher: is told what is read.
        base: what the training begins with, or began with; None for nothing.
        ngrams: n-grams of characters and the table of their vectors, if they are known.

    Attributes:
        word_dim: width of a word's vector.
        rows: (ids of words and bigrams, word_dim), the first vectors of a training.
    """

    vocabulary: Vocabulary

    def __init__(self, options: Options, corpora: Corpora, watcher: Watcher, base: Base | None = None,
                 ngrams: tuple[list[str], np.ndarray] | None = None) -> None:
        texts = texts_of(corpora)
        found = Pretrained(options, texts.values(), watcher, base, ngrams)
        others = [tokens for part in ('dev', 'test') for tokens in texts.get(part, [])] if found.vectors else []
        vocabulary = Vocabulary.of(texts['train'], others, corpora.tags, found.vectors, options.char_length,
                                   bool(options.bigrams), None if base is None else base.vocabulary, found.ngrams)
        super().__init__(options, corpora, vocabulary,
                         lambda sentences, tags: EncodedWords(sentences, vocabulary, tags))
        self.shapes = batches.word_shapes(self.encoded['train'], options.batch_size)
        check_words(options, vocabulary, found.width, self.shapes)
        if base is not None and base.weights:
            self.rows = base.rows(vocabulary, found.vectors, found.table)
            watcher.say(base.described(options, vocabulary))
        else:
            self.rows = vocabulary.initial_rows(found.vectors, found.width, np.random.default_rng([options.seed, 0]),
                                                found.table)
        self.word_dim, self.base, self._ngram_table = found.width, base, found.table
        self._counts = self.encoded['train'].word_counts()
        self._record = {'word_dim': found.width, **self._record}
        if options.embeddings:
            self._record['vectors_sha256'] = _digest_of_vectors(found.vectors)
        if base is not None:
            self._record['init'] = asdict(base.record)

    def fill(self, folder: Path) -> None:
        """Puts the vectors of n-grams into a new run directory."""
        if self._ngram_table is not None and self.vocabulary.ngrams:
            with saving(folder) as new:
                new.tensors(records.NGRAMS, {'ngram_table': self._ngram_table})

    def network(self) -> TaggerNetwork:
        """A new network with its first weights."""
        network = build_network(self.options, self.vocabulary, self.word_dim, self.scheme)
        if self.base is not None and self.base.weights:
            self.base.put_into(network, self.vocabulary, self.rows)
        else:
            network.word_table.set_data(ms.Tensor(self.rows))
        if network.with_ngrams:
            network.ngram_table.set_data(ms.Tensor(self._ngram_table))
        return network

    def decoder(self, network: TaggerNetwork, compiled: Compiled | None) -> WordDecoder:
        """What tags with a network; `compiled` is called after a graph was compiled."""
        return WordDecoder(network, self.vocabulary, compiled)

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """The batches of an epoch: shape, indices of sentences, and the codes of the forms of all sentences, of which
        some stand for the unknown word."""
        encoded, unknown = self.encoded['train'], None
        if self.options.unknown > 0:
            unknown = batches.replaced(generator, encoded.tokens, self._counts, self.options.unknown)
        codes = encoded.codes(unknown)
        planned = plan(self.shapes, self.taught, partial(batches.cut_by_forms, encoded, codes), generator)
        return [(shape, indices, codes) for shape, indices in planned]

    def batch(self, shape: FormShape, indices: np.ndarray, codes: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arrays of a step, from what `plan` returned of it."""
        return self.share(slice(None), shape, indices, codes)

    def share(self, rows: slice, shape: FormShape, indices: np.ndarray,
              codes: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arrays of some rows of a batch, with the words of all its rows."""
        encoded = self.encoded['train']
        batch = batches.word_batch(encoded, (shape.length, shape.rows), indices, codes)
        return batches.step_arrays(encoded, shape, batch, rows)


def _digest_of_vectors(vectors: dict[str, np.ndarray]) -> str:
    """SHA-256 of a dict of words to vectors."""
    digest = hashlib.sha256()
    for word in sorted(vectors):
        digest.update(word.encode() + b'\0' + np.asarray(vectors[word], np.float32).tobytes())
    return digest.hexdigest()


def check_words(options: Options, vocabulary: Vocabulary, word_dim: int, shapes: Sequence[FormShape]) -> None:
    """Raises OptionError if a training over words can't fit into the memory that is there.

    Args:
        options: of the training.
        vocabulary: its tags, words and characters.
        word_dim: width of a word's vector.
        shapes: of the batches.
    """
    def needs(changed: Options) -> Needs:
        dim = word_dim if options.embeddings else changed.word_dim
        weights, step, width = vocabulary.num_rows * dim, 0, vocabulary.columns * dim
        if changed.char != 'none':
            weights += character_weights(changed, vocabulary.num_characters)
            half, width = (changed.char_length + 1) // 2, width + changed.char_width
            # What the filters read and find, or the LSTM, at each character and one beyond either end.
            values = (3 if changed.char == 'cnn' else 1) * changed.char_dim + changed.char_width
            step = values * max(shape.long_forms * (changed.char_length + 2) + shape.short_forms * (half + 2)
                                for shape in shapes)
        fixed = (1 + len(vocabulary.ngrams)) * dim if vocabulary.ngrams else 0
        return Needs(width, changed.hidden, changed.layers, weights, step, fixed)

    otherwise = f'{argument("embeddings")} {options.embeddings}' if options.embeddings else 'these files'
    check_fits(options, needs, len(vocabulary.tags), shapes, otherwise)


def character_weights(options: Options, num_characters: int) -> int:
    """How many numbers the weights of a `CharacterCNN` or a `CharacterLSTM` are."""
    dim, width = options.char_dim, options.char_width
    read = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + read
