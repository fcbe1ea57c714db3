"""The tagger over word vectors and characters as a kind of model: what it learns from, how it tags, its graph."""

import hashlib
from dataclasses import replace
from functools import partial

from ms_crf.errors import brief
from ms_crf.models.base import Kind, check_head, constraints_of
from ms_crf.models.bucketing import plan
from ms_crf.models.graph_calls import graph_call
from ms_crf.models.graphs import GraphDecoder, load_weights
from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token
from ms_crf.models.words.batches import Batcher, Encoded, cut_by_forms, make_batch
from ms_crf.models.words.graph import ServedWithoutCharacters, ServedWords, WordGraphInput
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.models.words.vectors import WAYS, read_vectors
from ms_crf.models.words.vocabulary import PADDING, Vocabulary
from ms_crf.options import WIDEST
from ms_crf.runs import records
from ms_crf.text.dataset import digest_of
from ms_crf.training.schedules import replaced
from ms_crf.training.step import make_step

import mindspore as ms
import numpy as np

FORMS = 512                # that are read at a time


class WordLearner:
    """The corpora of a run as ids, and the vocabulary and vectors that follow from them.

    Args:
        options: `Options`.
        corpora: what `load` gave.
        watcher: see `Watcher` of the command.
    """

    def __init__(self, options, corpora, watcher):
        self.options, self.scheme = options, corpora.scheme
        tokens = {part: [sentence.tokens for sentence in sentences] for part, sentences in corpora.parts.items()}
        vectors, self.word_dim = {}, options.word_dim
        others = [sentence for part in ('dev', 'test') for sentence in tokens.get(part, [])]
        if options.embeddings:
            distinct = list(dict.fromkeys(token for part in tokens.values() for sentence in part for token in sentence))
            watcher.say(f'reading {options.embeddings}')
            vectors, self.word_dim, ways = read_vectors(options.embeddings, distinct)
            counts = ', '.join(f'{sum(way == found for found in ways.values()):,} {way}' for way in WAYS)
            watcher.say(f'{self.word_dim} numbers a word; {len(ways):,} of {len(distinct):,} distinct words are known '
                        f'({len(ways) / len(distinct):.1%}): {counts}')
        self.vocabulary = Vocabulary.of(tokens['train'], others if vectors else [], corpora.tags, vectors,
                                        options.char_length)
        self.encoded = {
            part: Encoded(tokens[part], self.vocabulary,
                          [sentence.tags for sentence in sentences] if part == 'train' else None)
            for part, sentences in corpora.parts.items()}
        self._batcher = Batcher(self.encoded['train'], options.batch_size)
        check_words(options, self.vocabulary, self.word_dim, self._batcher.shapes)
        self.rows = self.vocabulary.initial_rows(vectors, self.word_dim, np.random.default_rng([options.seed, 0]))
        self._digests = {'text_sha256': digest_of(corpora.parts['train']),
                         'dev_sha256': digest_of(corpora.parts['dev'])}
        if options.embeddings:
            self._digests['vectors_sha256'] = _digest_of_vectors(vectors)
        self._counts = self.encoded['train'].word_counts()
        self._codes = None

    def fill(self, folder):
        """A new run directory needs nothing further."""

    def record(self):
        """What config.json says of the model, and of the files it is made from, the vectors of words that occur."""
        return {'word_dim': self.word_dim, **self._digests}

    def network(self):
        """A new network with its first weights."""
        network = build_network(self.options, self.vocabulary, self.word_dim, self.scheme)
        network.word_table.set_data(ms.Tensor(self.rows))
        return network

    def step(self, network, optimizer, loss_scale):
        """The compiled function of a step, of an array of `Optimizer`, what `batch` gives, and `keep`."""
        return make_step(network, optimizer, loss_scale)

    def decoder(self, network, compiled):
        return WordDecoder(network, self.vocabulary, compiled)

    def plan(self, generator):
        """(shape, sentence numbers) of the batches of an epoch; `batch` makes those of the last one planned."""
        encoded, unknown = self.encoded['train'], None
        if self.options.unknown > 0:
            unknown = replaced(generator, encoded.tokens, self._counts, self.options.unknown)
        self._codes = encoded.codes(unknown)
        return plan(self._batcher.shapes_for(encoded), encoded.lengths, partial(cut_by_forms, encoded, self._codes),
                    generator)

    def batch(self, shape, numbers):
        """The arrays of a step."""
        batch = make_batch(self.encoded['train'], shape, numbers, self._codes)
        return *batch.inputs, batch.tags


def _digest_of_vectors(vectors):
    """SHA-256 of a dict of words to vectors."""
    digest = hashlib.sha256()
    for word in sorted(vectors):
        digest.update(word.encode() + b'\0' + np.asarray(vectors[word], np.float32).tobytes())
    return digest.hexdigest()


class WordDecoder(GraphDecoder):
    """Tags with a network over words.

    Args:
        network: a `TaggerNetwork`.
        vocabulary: its `Vocabulary`.
        compiled: as in `GraphDecoder`.
    """

    def __init__(self, network, vocabulary, compiled=None):
        super().__init__(network, vocabulary, compiled)

        @ms.jit
        def read(words, spellings):
            return network.form_vectors(words, spellings)

        self._read = read

    def encode(self, sentences):
        """Lists of tokens, none of them empty, as `run` takes them."""
        return Encoded(sentences, self.vocabulary)

    def inputs(self, encoded, at_most):
        """(length, rows), numbers of the sentences, and arrays of each batch: lengths, what `emissions_of` takes.

        Args:
            encoded: what `encode` gave.
            at_most: sentences of a batch.
        """
        vectors = self._vectors(encoded)
        for (length, rows), numbers in self.plan(encoded.lengths, at_most):
            lengths = np.zeros(rows, np.int32)
            lengths[:len(numbers)] = encoded.lengths[numbers]
            tokens = np.concatenate([encoded.tokens[number] for number in numbers])
            places = np.full((rows, length), len(vectors) - 1)
            places[np.arange(length) < lengths[:, None]] = tokens
            hidden = vectors.take(places.T, 0)
            yield (length, rows), numbers, (lengths, hidden, lengths)

    def _vectors(self, encoded):
        """(forms + 1, width): a vector for each form, and zeros."""
        found = np.zeros((encoded.num_forms + 1, self.network.widths[0]), np.float32)
        is_long = encoded.is_long[:encoded.num_forms]
        for chosen, width in ((np.flatnonzero(is_long), encoded.spelling_of.shape[1]),
                              (np.flatnonzero(~is_long), encoded.half)):
            for first in range(0, len(chosen), FORMS):
                forms = chosen[first:first + FORMS]
                words, spellings = np.full(FORMS, PADDING, np.int32), np.full((FORMS, width), PADDING, np.int32)
                words[:len(forms)] = encoded.word_of[forms]
                spellings[:len(forms)] = encoded.spelling_of[forms, :width]
                with graph_call():
                    vectors = self._read(ms.Tensor(words), ms.Tensor(spellings)).asnumpy()
                found[forms] = vectors[:len(forms)]
        return found


def build_network(options, vocabulary, word_dim, scheme):
    """The network of a run over words; its weights are random until they are loaded."""
    network = TaggerNetwork(vocabulary.num_words, word_dim, len(vocabulary.tags), options.hidden, options.layers,
                            options.char, vocabulary.num_characters, options.char_dim, options.char_width,
                            options.head, constraints_of(options, scheme, vocabulary.tags))
    if options.precision == 'mixed':
        for cell in (network.layers, *([network.characters] if options.char != 'none' else [])):
            cell.to_float(ms.float16)
    return network


def load_network(folder, config):
    """The `Vocabulary` of a run, and its network with the weights of the best epoch, in 32 bits however it was trained.

    Raises:
        CorpusError: something of the run is damaged or doesn't fit.
    """
    vocabulary = records.read_vocabulary(folder, Vocabulary)
    options = replace(records.read_options(folder, config), precision='float32')
    network = build_network(options, vocabulary, config['word_dim'], config['scheme'])
    load_weights(folder, network)
    return vocabulary, network


class WordKind(Kind):
    """Word vectors and characters under BiLSTM layers."""

    name = 'bilstm'

    @classmethod
    def learner(cls, options, corpora, watcher, run=None):
        return WordLearner(options, corpora, watcher)

    @classmethod
    def check_config(cls, config):
        width = config.get('word_dim')
        if not (type(width) is int and 0 < width <= WIDEST):
            raise ValueError(f'expected "word_dim" to be from 1 to {WIDEST:,}, got {brief(width)}')

    @classmethod
    def load(cls, folder, config, compiled=None):
        vocabulary, network = load_network(folder, config)
        return WordDecoder(network, vocabulary, compiled)

    @classmethod
    def exported(cls, folder, config, output):
        check_head(output, records.read_options(folder, config))
        vocabulary, network = load_network(folder, config)
        kind = ServedWords if network.with_characters else ServedWithoutCharacters
        return WordGraphInput(vocabulary, network.with_characters), kind(network, output)

    @classmethod
    def graph_input(cls, record):
        return WordGraphInput.from_json(record)


def check_words(options, vocabulary, word_dim, shapes):
    """Raises OptionError if a training over words can't fit into the memory that is there.

    Args:
        options: `Options`.
        vocabulary: a `Vocabulary`.
        word_dim: width of a word's vector.
        shapes: `Shape` of the batches.
    """
    tags = len(vocabulary.tags)

    def count(changed):
        dim, share = word_dim if options.embeddings else changed.word_dim, changed.batch_size / options.batch_size
        weights, step, width = vocabulary.num_words * dim, 0, dim
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
        return weights * copies(changed) + int(step * share)

    check_fits(options, count, f'--embeddings {options.embeddings}' if options.embeddings else 'these files')


def character_weights(options, num_characters):
    """How many numbers the weights of a `CharacterCNN` or a `CharacterLSTM` are."""
    dim, width = options.char_dim, options.char_width
    read = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + read
