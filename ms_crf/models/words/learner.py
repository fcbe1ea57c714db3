"""What the tagger over words learns from: vectors, n-grams and the vocabulary of the corpora, and batches of forms."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from ms_crf.base.errors import argument
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled, Watcher
from ms_crf.models.bucketing import plan
from ms_crf.models.learning import NetworkLearner, digests_of, texts_of
from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token
from ms_crf.models.words import batches
from ms_crf.models.words.base import Base
from ms_crf.models.words.batches import EncodedWords, Shape
from ms_crf.models.words.decoder import WordDecoder
from ms_crf.models.words.network import TaggerNetwork, build_network
from ms_crf.models.words.ngrams import FITTED, learn
from ms_crf.models.words.vectors import WAYS, read_vectors
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import Options
from ms_crf.runs.records import saving

import mindspore as ms
import numpy as np


class Pretrained(NamedTuple):
    """What a training has of a file of word vectors, and of n-grams."""

    vectors: dict[str, np.ndarray]           # by form
    width: int
    ngrams: list[str]
    table: np.ndarray | None                 # (1 + n-grams, width); None without n-grams

    @classmethod
    def read(cls, options: Options, texts: Iterable[Sequence[list[str]]], watcher: Watcher, base: Base | None,
             ngrams: tuple[list[str], np.ndarray] | None) -> 'Pretrained':
        """Reads the vectors that options name, if any, and learns n-grams from them, unless these are known.

        Args:
            options: of the training.
            texts: of each part of the corpora its sentences, as lists of tokens.
            watcher: is told what is read.
            base: of the training; None for nothing.
            ngrams: n-grams of characters and the table of their vectors, if they are known.
        """
        vectors: dict[str, np.ndarray] = {}
        width = options.word_dim
        if options.embeddings:
            distinct = list(dict.fromkeys(token for sentences in texts for tokens in sentences for token in tokens
                                          if base is None or not base.vocabulary.knows(token)))
            watcher.say(f'reading {options.embeddings}')
            learns = options.ngrams and base is None and ngrams is None
            vectors, width, ways, common = read_vectors(options.embeddings, distinct, FITTED if learns else 0)
            if base is not None:
                base.check_width(options, width)
            counts = ', '.join(f'{list(ways.values()).count(way):,} {way}' for way in WAYS)
            which = 'distinct words' if base is None else 'new words'
            watcher.say(f'{width} numbers a word; {len(ways):,} of {len(distinct):,} {which} are known '
                        f'({len(ways) / max(len(distinct), 1):.1%}): {counts}')
            if learns:
                with watcher.progress('learning n-grams', width, 'columns') as done:
                    ngrams = learn({**common, **vectors}, done)
                watcher.say(f'{len(ngrams[0]):,} n-grams of characters make vectors for the others')
        return cls(vectors, width, *(ngrams or ([], None)))


class WordLearner(NetworkLearner[EncodedWords, Shape]):
    """The corpora of a run as ids, and the vocabulary and vectors that follow from them; `from_corpora` makes one.

    Args:
        given: the arguments of `NetworkLearner`.
        word_dim: width of a word's vector.
        rows: (ids of words and bigrams, word_dim), the first vectors of a training.
        ngram_table: the vectors of n-grams; None without them.
        base: what the training begins with, or began with; None for nothing.
    """

    vocabulary: Vocabulary

    def __init__(self, *given: Any, word_dim: int, rows: np.ndarray, ngram_table: np.ndarray | None,
                 base: Base | None) -> None:
        super().__init__(*given)
        self.word_dim, self.rows, self.base, self._ngram_table = word_dim, rows, base, ngram_table

    @classmethod
    def from_corpora(cls, options: Options, corpora: Corpora, watcher: Watcher, base: Base | None = None,
                     ngrams: tuple[list[str], np.ndarray] | None = None) -> 'WordLearner':
        """Reads word vectors, and learns n-grams and the vocabulary.

        Args:
            options: of the training.
            corpora: its sentences, in one scheme.
            watcher: is told what is read.
            base: what the training begins with, or began with; None for nothing.
            ngrams: n-grams of characters and the table of their vectors, if they are known.
        """
        texts = texts_of(corpora)
        found = Pretrained.read(options, texts.values(), watcher, base, ngrams)
        others = [tokens for part in ('dev', 'test') for tokens in texts.get(part, [])] if found.vectors else []
        vocabulary = Vocabulary.of(texts['train'], others, corpora.tags, found.vectors, options.char_length,
                                   bool(options.bigrams), None if base is None else base.vocabulary, found.ngrams)
        tags = [sentence.tags for sentence in corpora.parts['train']]
        encoded = {part: EncodedWords.of(sentences, vocabulary, tags if part == 'train' else None)
                   for part, sentences in texts.items()}
        shapes = batches.word_shapes(encoded['train'], options.batch_size)
        check_words(options, vocabulary, found.width, shapes)
        if base is not None and base.weights is not None:
            rows = base.rows(vocabulary, found.vectors, found.table)
            watcher.say(base.described(options, vocabulary))
        else:
            rows = vocabulary.initial_rows(found.vectors, found.width, np.random.default_rng([options.seed, 0]),
                                           found.table)
        record = {'word_dim': found.width, **digests_of(corpora)}
        if options.embeddings:
            record['vectors_sha256'] = _digest_of_vectors(found.vectors)
        if base is not None:
            record['init'] = asdict(base.record)
        return cls(options, corpora.scheme, vocabulary, encoded, record, shapes, encoded['train'].lengths,
                   word_dim=found.width, rows=rows, ngram_table=found.table, base=base)

    def fill(self, folder: Path) -> None:
        """Puts the vectors of n-grams into a new run directory."""
        if self._ngram_table is not None and self.vocabulary.ngrams:
            with saving(folder) as new:
                new.tensors(records.NGRAMS, {'ngram_table': self._ngram_table})

    def network(self) -> TaggerNetwork:
        """A new network with its first weights."""
        network = build_network(self.options, self.vocabulary, self.word_dim, self.scheme)
        if self.base is not None and self.base.weights is not None:
            self.base.put_into(network, self.vocabulary, self.rows)
        else:
            network.word_table.set_data(ms.Tensor(self.rows))
        if network.with_ngrams:
            network.ngram_table.set_data(ms.Tensor(self._ngram_table))
        return network

    def decoder(self, network: TaggerNetwork, compiled: Compiled | None) -> WordDecoder:
        """What tags with a network; `compiled` is called after a graph was compiled."""
        return WordDecoder(network, self.vocabulary, compiled)

    @cached_property
    def _counts(self) -> np.ndarray:
        return self.encoded['train'].word_counts()

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """The batches of an epoch: shape, indices of sentences, and the codes of the forms of all sentences, of which
        some stand for the unknown word."""
        encoded, unknown = self.encoded['train'], None
        if self.options.unknown > 0:
            unknown = batches.replaced(generator, encoded.tokens, self._counts, self.options.unknown)
        codes = encoded.codes(unknown)
        planned = plan(self.shapes, self.taught, partial(batches.cut_by_forms, encoded, codes), generator)
        return [(shape, indices, codes) for shape, indices in planned]

    def batch(self, shape: Shape, indices: np.ndarray, codes: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The arrays of a step, from what `plan` returned of it."""
        return self.share(slice(None), shape, indices, codes)

    def share(self, rows: slice, shape: Shape, indices: np.ndarray,
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


def check_words(options: Options, vocabulary: Vocabulary, word_dim: int, shapes: Sequence[Shape]) -> None:
    """Raises OptionError if a training over words can't fit into the memory that is there.

    Args:
        options: of the training.
        vocabulary: its tags, words and characters.
        word_dim: width of a word's vector.
        shapes: of the batches.
    """
    tags = len(vocabulary.tags)

    def count(changed: Options) -> int:
        dim, share = word_dim if options.embeddings else changed.word_dim, changed.batch_size / options.batch_size
        weights, step, width = vocabulary.num_rows * dim, 0, vocabulary.columns * dim
        fixed = (1 + len(vocabulary.ngrams)) * dim if vocabulary.ngrams else 0
        if changed.char != 'none':
            weights += character_weights(changed, vocabulary.num_characters)
            half, width = (changed.char_length + 1) // 2, width + changed.char_width
            # What the filters read and find, or the LSTM, at each character and one beyond either end.
            values = (3 if changed.char == 'cnn' else 1) * changed.char_dim + changed.char_width
            step = values * max(shape.long_forms * (changed.char_length + 2) + shape.short_forms * (half + 2)
                                for shape in shapes)
        weights += layer_weights(width, changed.hidden, changed.layers, tags, changed.head)
        step += max(shape.length * shape.rows for shape in shapes) * values_of_a_token(
            width, changed.hidden, changed.layers, tags)
        return fixed + weights * copies(changed) + int(step * share)

    otherwise = f'{argument("embeddings")} {options.embeddings}' if options.embeddings else 'these files'
    check_fits(options, count, otherwise)


def character_weights(options: Options, num_characters: int) -> int:
    """How many numbers the weights of a `CharacterCNN` or a `CharacterLSTM` are."""
    dim, width = options.char_dim, options.char_width
    read = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + read
