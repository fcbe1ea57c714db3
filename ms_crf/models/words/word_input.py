"""What a training over word vectors and characters reads: ids and batches, and the network and step that take them."""

import hashlib
from functools import partial

from ms_crf.models.assembly import build_network
from ms_crf.models.bucketing import plan
from ms_crf.models.words.batches import Batcher, Encoded, cut_by_forms, make_batch
from ms_crf.models.words.decoding import Decoder
from ms_crf.models.words.vectors import WAYS, read_vectors
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.sizes import check_words
from ms_crf.text.dataset import digest_of
from ms_crf.training.schedules import replaced
from ms_crf.training.step import make_step

import mindspore as ms
import numpy as np


class WordInput:
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

    #: as of `PieceInput`; here there is nothing to put into a run directory
    fill = None

    def record(self):
        """What config.json says of the model, and of the files it is made from, the vectors of words that occur."""
        return {'model': 'bilstm', 'word_dim': self.word_dim, **self._digests}

    def network(self):
        """A new network with its first weights."""
        network = build_network(self.options, self.vocabulary, self.word_dim, self.scheme)
        network.word_table.set_data(ms.Tensor(self.rows))
        return network

    def step(self, network, optimizer, loss_scale):
        """The compiled function of a step, of an array of `Optimizer`, what `batch` gives, and `keep`."""
        return make_step(network, optimizer, loss_scale)

    def decoder(self, network, compiled):
        return Decoder(network, self.vocabulary, compiled)

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
