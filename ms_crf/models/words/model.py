"""The tagger over word vectors and characters as a kind of model: what it learns from, how it tags, its graph."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ms_crf.base.fields import checked, load_record
from ms_crf.formats.dataset import Corpora, digest_of
from ms_crf.models.base import Kind, Watcher, check_head, constraints_of
from ms_crf.models.bucketing import plan, teaching
from ms_crf.models.graphs import load_weights
from ms_crf.models.inheritance import BaseRecord, read_base
from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token
from ms_crf.models.words.base import Base
from ms_crf.models.words.batches import Batcher, EncodedWords, Shape, cut_by_forms, replaced, step_arrays, word_batch
from ms_crf.models.words.decoder import WordDecoder
from ms_crf.models.words.graph import ServedWithoutCharacters, ServedWords, WordGraphInput
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.models.words.ngrams import FITTED, learn
from ms_crf.models.words.vectors import WAYS, read_vectors
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import WIDEST, Options
from ms_crf.runs.saving import saving

import mindspore as ms
import numpy as np

#: options that a base decides, beside the width of its words
SHAPING = ('model', 'encoder', 'bigrams', 'ngrams', 'char', 'char_dim', 'char_width', 'char_length', 'hidden', 'layers',
           'head')


class WordLearner:
    """The corpora of a run as ids, and the vocabulary and vectors that follow from them.

    Args:
        options: of the training.
        corpora: its sentences, in one scheme.
        watcher: is told what is read.
        base: what the training begins with, or began with; None for nothing.
        ngrams: n-grams of characters and the table of their vectors, where they are known already; None otherwise.
    """

    def __init__(self, options: Options, corpora: Corpora, watcher: Watcher, base: Base | None = None,
                 ngrams: tuple[list[str], np.ndarray] | None = None) -> None:
        self.options, self.scheme, self.base = options, corpora.scheme, base
        tokens = {part: [sentence.tokens for sentence in sentences] for part, sentences in corpora.parts.items()}
        vectors: dict[str, np.ndarray] = {}
        self.word_dim = options.word_dim
        others = [sentence for part in ('dev', 'test') for sentence in tokens.get(part, [])]
        if options.embeddings:
            distinct = list(dict.fromkeys(token for part in tokens.values() for sentence in part for token in sentence
                                          if base is None or not base.vocabulary.knows(token)))
            watcher.say(f'reading {options.embeddings}')
            learns = options.ngrams and base is None and ngrams is None
            vectors, self.word_dim, ways, common = read_vectors(options.embeddings, distinct, FITTED if learns else 0)
            if base is not None:
                base.check_width(options, self.word_dim)
            counts = ', '.join(f'{list(ways.values()).count(way):,} {way}' for way in WAYS)
            which = 'distinct words' if base is None else 'new words'
            watcher.say(f'{self.word_dim} numbers a word; {len(ways):,} of {len(distinct):,} {which} are known '
                        f'({len(ways) / max(len(distinct), 1):.1%}): {counts}')
            if learns:
                with watcher.progress('learning n-grams', self.word_dim, 'columns') as done:
                    ngrams = learn({**common, **vectors}, done)
                watcher.say(f'{len(ngrams[0]):,} n-grams of characters make vectors for the others')
        found = [] if ngrams is None else ngrams[0]
        self._ngram_table = None if ngrams is None else ngrams[1]
        self.vocabulary = Vocabulary.of(tokens['train'], others if vectors else [], corpora.tags, vectors,
                                        options.char_length, bool(options.bigrams),
                                        None if base is None else base.vocabulary, found)
        self.encoded = {
            part: EncodedWords(tokens[part], self.vocabulary,
                               [sentence.tags for sentence in sentences] if part == 'train' else None)
            for part, sentences in corpora.parts.items()}
        self._batcher = Batcher(self.encoded['train'], options.batch_size)
        check_words(options, self.vocabulary, self.word_dim, self._batcher.shapes)
        if base is not None and base.weights is not None:
            self.rows = base.rows(self.vocabulary, vectors, self._ngram_table)
            watcher.say(base.described(options, self.vocabulary))
        else:
            self.rows = self.vocabulary.initial_rows(vectors, self.word_dim, np.random.default_rng([options.seed, 0]),
                                                     self._ngram_table)
        self._digests = {'text_sha256': digest_of(corpora.parts['train']),
                         'dev_sha256': digest_of(corpora.parts['dev'])}
        if options.embeddings:
            self._digests['vectors_sha256'] = _digest_of_vectors(vectors)
        self._counts = self.encoded['train'].word_counts()
        self._teaching = teaching(self.encoded['train'].lengths, self.encoded['train'].tags or ())
        self._codes: list[np.ndarray] = []

    def fill(self, folder: Path) -> None:
        """Puts the vectors of n-grams into a new run directory."""
        if self.vocabulary.ngrams:
            with saving(folder) as new:
                new.tensors(records.NGRAMS, {'ngram_table': self._ngram_table})

    def record(self) -> dict:
        """What config.json says of the model, and of the files it is made from, the vectors of words that occur."""
        base = {} if self.base is None else {'init': asdict(self.base.record)}
        return {'word_dim': self.word_dim, **self._digests, **base}

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

    def decoder(self, network: TaggerNetwork, compiled: Any) -> 'WordDecoder':
        """What tags with a network; `compiled` is called with length, rows and seconds after a graph was compiled."""
        return WordDecoder(network, self.vocabulary, compiled)

    def plan(self, generator: np.random.Generator) -> list:
        """(shape, indices of sentences) of the batches of an epoch; `batch` makes those of the last one planned."""
        encoded, unknown = self.encoded['train'], None
        if self.options.unknown > 0:
            unknown = replaced(generator, encoded.tokens, self._counts, self.options.unknown)
        self._codes = encoded.codes(unknown)
        return plan(self._batcher.shapes_for(encoded), self._teaching, partial(cut_by_forms, encoded, self._codes),
                    generator)

    def batch(self, shape: Shape, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays of a step, of the sentences of these indices."""
        return self.share(shape, indices, slice(None))

    def share(self, shape: Shape, indices: np.ndarray, rows: slice) -> tuple[np.ndarray, ...]:
        """The arrays of some rows of a batch, with the words of all of them."""
        encoded = self.encoded['train']
        batch = word_batch(encoded, (shape.length, shape.rows), indices, self._codes)
        return step_arrays(encoded, shape, batch, rows)


def _digest_of_vectors(vectors: dict[str, np.ndarray]) -> str:
    """SHA-256 of a dict of words to vectors."""
    digest = hashlib.sha256()
    for word in sorted(vectors):
        digest.update(word.encode() + b'\0' + np.asarray(vectors[word], np.float32).tobytes())
    return digest.hexdigest()


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


def load_network(folder: Any, config: dict) -> tuple[Vocabulary, TaggerNetwork]:
    """The vocabulary of a run, and its network with the weights of the best epoch, in 32 bits however it was trained.

    Raises:
        CorpusError: something of the run is damaged or doesn't fit.
    """
    vocabulary = records.read_vocabulary(folder, Vocabulary)
    options = replace(records.read_options(folder, config), precision='float32')
    network = build_network(options, vocabulary, config['word_dim'], config['scheme'])
    load_weights(folder, network)
    if network.with_ngrams:
        network.ngram_table.set_data(ms.Tensor(read_ngram_table(folder, network.ngram_table.shape)))
    return vocabulary, network


def read_ngram_table(folder: Any, shape: Sequence[int]) -> np.ndarray:
    """The vectors of n-grams of a run, of this shape; raises CorpusError if they are damaged or don't fit."""
    path = Path(folder) / records.NGRAMS
    arrays = records.read_tensors(path)
    records.check_fit(path, arrays, {'ngram_table': shape})
    return arrays['ngram_table']


@dataclass
class WordConfig:
    """What config.json of a run over words holds beside what that of every run does."""

    word_dim: int = checked(least=1, most=WIDEST)
    init: dict = checked(None)


class WordKind(Kind):
    """Word vectors and characters under BiLSTM layers."""

    name: ClassVar[str] = 'bilstm'

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: Any = None) -> WordLearner:
        """What a training begins with, or goes on with."""
        base = ngrams = None
        if options.init and run is None:
            vocabulary, network = load_network(options.init, read_base(cls, options.init))
            base = Base.of(options.init, vocabulary, network)
            if network.with_ngrams:
                ngrams = vocabulary.ngrams, network.ngram_table.asnumpy()
        if run is not None:
            folder, config = run
            vocabulary = records.read_vocabulary(folder, Vocabulary)
            if options.init:
                base = Base.recorded(vocabulary, load_record(BaseRecord, config['init']))
            if vocabulary.ngrams:
                shape = 1 + len(vocabulary.ngrams), config['word_dim']
                ngrams = vocabulary.ngrams, read_ngram_table(folder, shape)
        return WordLearner(options, corpora, watcher, base, ngrams)

    @classmethod
    def shape(cls, folder: Any, config: dict, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a training that begins with a run over words."""
        options = records.read_options(folder, config).to_json()
        return {**{name: options[name] for name in SHAPING}, 'word_dim': config['word_dim']}

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """What --freeze may name."""
        return ('words', 'lstm') if options.char == 'none' else ('words', 'characters', 'lstm')

    @classmethod
    def check_config(cls, config: dict) -> None:
        """Raises ValueError unless config.json has the width of the word vectors, and says what a base has brought."""
        base = load_record(WordConfig, config).init
        if base is not None or config['options'].get('init'):
            load_record(BaseRecord, base)

    @classmethod
    def load(cls, folder: Any, config: dict, compiled: Any = None) -> WordDecoder:
        """From a run directory and what its config.json holds; raises CorpusError if something of it is damaged."""
        vocabulary, network = load_network(folder, config)
        return WordDecoder(network, vocabulary, compiled)

    @classmethod
    def exported(cls, folder: Any, config: dict, output: str) -> tuple[WordGraphInput, ServedWords]:
        """What the graph of a run is given, and the cell to export."""
        check_head(output, records.read_options(folder, config))
        vocabulary, network = load_network(folder, config)
        kind = ServedWords if network.with_characters else ServedWithoutCharacters
        return WordGraphInput(vocabulary, network.with_characters), kind(network, output)

    @classmethod
    def graph_input(cls, record: dict) -> WordGraphInput:
        """What a graph is given, from the record beside it; raises ValueError if it is not of this kind."""
        return WordGraphInput.from_json(record)


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

    check_fits(options, count, f'--embeddings {options.embeddings}' if options.embeddings else 'these files')


def character_weights(options: Options, num_characters: int) -> int:
    """How many numbers the weights of a `CharacterCNN` or a `CharacterLSTM` are."""
    dim, width = options.char_dim, options.char_width
    read = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + read
