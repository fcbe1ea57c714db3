"""The tagger over a pretrained encoder as a kind of model: what it learns from, how it tags, its graph.

A frozen encoder reads each sentence once, before the first epoch; a tuned one is part of the step.
"""

import contextlib
import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

from ms_crf.errors import CorpusError, brief
from ms_crf.models.base import Kind, check_head, constraints_of
from ms_crf.models.bucketing import cut_rows, plan, row_shapes
from ms_crf.models.encoder.graph import PieceGraphInput, ServedPieces
from ms_crf.models.encoder.network import EncodedTagger, PieceTagger
from ms_crf.models.encoder.pretrained import EncoderFiles
from ms_crf.models.encoder.sizes import check_pieces
from ms_crf.models.encoder.vectors import Reader
from ms_crf.models.encoder.windows import Pieces, Specials, piece_batch, window_arrays, windows_at_most
from ms_crf.models.graphs import GraphDecoder, load_weights
from ms_crf.models.labels import Tags, mostly_characters
from ms_crf.nn.transformer import Encoder
from ms_crf.runs import records
from ms_crf.runs.checksums import checksum
from ms_crf.text.dataset import digest_of
from ms_crf.training.step import make_plain_step

import mindspore as ms
import numpy as np


class EncoderLearner:
    """The corpora of a run as pieces of words.

    Args:
        options: `Options`.
        corpora: what `load` gave.
        files: `EncoderFiles`.
        watcher: see `Watcher` of the command.
    """

    def __init__(self, options, corpora, files, watcher):
        self.options, self.scheme, self.files = options, corpora.scheme, files
        self.tuned = options.encoder_lr > 0
        self._dev_digest = digest_of(corpora.parts['dev'])
        words = {token for sentence in corpora.parts['train'] for token in sentence.tokens}
        self.vocabulary = Tags(corpora.tags, mostly_characters(words))
        self.encoded = {
            part: Pieces([sentence.tokens for sentence in sentences], files.tokenizer, files.sizes.longest,
                         [self.vocabulary.tag_ids(sentence.tags) for sentence in sentences]
                         if part == 'train' else None)
            for part, sentences in corpora.parts.items()}
        pieces, tokens = (sum(int(values.sum()) for values in found) for found in zip(
            *((encoded.counts, encoded.lengths) for encoded in self.encoded.values())))
        watcher.say(f'{pieces / tokens:.2f} pieces a word; {files.sizes.layers} layers, {files.sizes.width} wide, '
                    f'{f"tuned at {options.encoder_lr:g}" if self.tuned else "frozen"}')
        self._shapes = row_shapes(self.encoded['train'].sizes, options.batch_size)
        check_pieces(options, files.sizes, len(corpora.tags), self._shapes, pieces)
        self.checksum, self._weights = checksum(files.paths()), files.weights()
        self._reading = watcher.reading
        if not self.tuned:
            encoder, self._weights = build_encoder(files.sizes, self._weights), None
            self._reader = Reader(encoder, self.checksum, options.encoder_cache or None)
            for part, encoded in self.encoded.items():
                began = time.perf_counter()
                with self._reading(len(encoded.windows)) as done:
                    encoded.vectors = self._reader.vectors(encoded, done)
                watcher.say(f'encoded {part}: {len(encoded.windows):,} windows in {time.perf_counter() - began:.1f} s')

    def record(self):
        """What config.json says of the encoder, and of the text, that of training as ids."""
        folder = str(self.files.path.absolute()) if self.options.encoder_link else records.ENCODER
        text, encoded = hashlib.sha256(), self.encoded['train']
        for array in (encoded.ids, encoded.words, encoded.lengths, *encoded.tags):
            text.update(np.asarray(array, np.int32).tobytes())
        return {'encoder': {'folder': folder, 'sha256': self.checksum},
                'text_sha256': text.hexdigest(), 'dev_sha256': self._dev_digest}

    def fill(self, folder):
        """Puts the encoder into a new run directory, unless it is linked to."""
        if not self.options.encoder_link:
            self.files.copy(folder / records.ENCODER)

    def network(self):
        """A new network with its first weights: a `PieceTagger`, or an `EncodedTagger` if the encoder is tuned."""
        tagger = build_piece_network(self.options, self.vocabulary, self.files.sizes.width, self.scheme)
        return EncodedTagger(build_encoder(self.files.sizes, self._weights), tagger) if self.tuned else tagger

    def step(self, network, optimizer, loss_scale):
        """As of every `StepLearner`."""
        return make_plain_step(network, optimizer, loss_scale)

    def decoder(self, network, compiled):
        reader, tagger = (Reader(network.encoder), network.tagger) if self.tuned else (self._reader, network)
        return EncoderDecoder(tagger, self.vocabulary, reader, self.files, compiled, self._reading)

    def plan(self, generator):
        """(shape, sentence numbers) of the batches of an epoch."""
        return plan(self._shapes, self.encoded['train'].sizes, cut_rows, generator)

    def batch(self, shape, numbers):
        """The arrays of a step."""
        encoded = self.encoded['train']
        batch = piece_batch(encoded, shape, numbers)
        if not self.tuned:
            return batch.vectors(encoded.vectors), *batch[1:]
        windows = shape.rows * windows_at_most(shape.length, encoded.room)
        length = min(shape.length, encoded.room) + encoded.specials.count
        return *window_arrays(encoded, batch, numbers, windows, length), *batch[1:]


def _unseen(_):
    return contextlib.nullcontext()


class EncoderDecoder(GraphDecoder):
    """Tags with a network over an encoder.

    Args:
        network: a `PieceTagger`.
        vocabulary: its `Tags`.
        reader: a `Reader` of its encoder.
        files: `EncoderFiles` of the encoder.
        compiled: as in `GraphDecoder`.
        reading: `Watcher.reading` of the command, or None.
    """

    def __init__(self, network, vocabulary, reader, files, compiled=None, reading=None):
        super().__init__(network, vocabulary, compiled)
        self.reader, self.files, self.reading = reader, files, reading or _unseen
        self._specials = Specials.of(files.tokenizer)

    def encode(self, sentences):
        """Lists of tokens, none of them empty, as `run` takes them."""
        return Pieces(sentences, self.files.tokenizer, self.files.sizes.longest, specials=self._specials)

    def inputs(self, encoded, at_most):
        """As `Decoder.inputs`."""
        vectors = encoded.vectors
        if vectors is None:
            with self.reading(len(encoded.windows)) as done:
                vectors = self.reader.vectors(encoded, done)
        for shape, numbers in self.plan(encoded.sizes, at_most):
            batch = piece_batch(encoded, shape, numbers)
            yield shape, numbers, (batch.lengths, batch.vectors(vectors), batch.words, batch.counts)


def build_piece_network(options, vocabulary, width, scheme):
    """The network of a run over an encoder whose vectors have this width; its weights are random."""
    layers = options.layers if options.encoder_lstm else 0
    network = PieceTagger(width, len(vocabulary.tags), options.encoder_lstm, layers, options.head,
                          constraints_of(options, scheme, vocabulary.tags))
    if options.precision == 'mixed':
        network.layers.to_float(ms.float16)
    return network


def build_encoder(sizes, weights=None):
    """The `Encoder` of `Sizes`, with what `EncoderFiles.weights` gave, if anything."""
    encoder = Encoder(**sizes._asdict())
    for parameter in encoder.get_parameters() if weights else ():
        parameter.set_data(ms.Tensor(weights[parameter.name]))
    return encoder


def read_encoder(folder, config):
    """The `EncoderFiles` of a run; raises CorpusError unless they are those that it was trained with."""
    path = Path(folder) / config['encoder']['folder']            # which may be one elsewhere
    if not os.path.isdir(path):
        raise CorpusError(path, None, f'no such folder; {folder}/{records.CONFIG} names it as the encoder of the run; '
                                      'put it back, or name it there anew')
    found = EncoderFiles(path)
    if checksum(found.paths()) != config['encoder']['sha256']:
        raise CorpusError(path, None, f'expected the encoder that {folder} was trained with, got another or a damaged '
                                      'one; restore it or train again')
    return found


def load_network(folder, config):
    """`Tags` and `EncoderFiles` of a run, and its `EncodedTagger` with the weights of the best epoch, in 32 bits.

    Raises:
        CorpusError: something of the run is damaged or doesn't fit.
    """
    options = replace(records.read_options(folder, config), precision='float32')
    vocabulary, files = records.read_vocabulary(folder, Tags), read_encoder(folder, config)
    tagger = build_piece_network(options, vocabulary, files.sizes.width, config['scheme'])
    if options.encoder_lr > 0:
        network = EncodedTagger(build_encoder(files.sizes), tagger)
        load_weights(folder, network)
    else:
        load_weights(folder, tagger)
        network = EncodedTagger(build_encoder(files.sizes, files.weights()), tagger)
    return vocabulary, files, network


class EncoderKind(Kind):
    """A pretrained encoder under BiLSTM layers."""

    name = 'encoder'

    @classmethod
    def learner(cls, options, corpora, watcher, run=None):
        files = EncoderFiles(options.encoder) if run is None else read_encoder(*run)
        return EncoderLearner(options, corpora, files, watcher)

    @classmethod
    def check_config(cls, config):
        encoder = config.get('encoder')
        if not (isinstance(encoder, dict) and sorted(encoder) == ['folder', 'sha256']
                and all(isinstance(value, str) for value in encoder.values())):
            raise ValueError(f'expected "encoder" to have "folder" and "sha256", got {brief(encoder)}')
        if not isinstance(config.get('text_sha256'), str):
            raise ValueError(f'expected "text_sha256" to be text, got {brief(config.get("text_sha256"))}')

    @classmethod
    def load(cls, folder, config, compiled=None):
        vocabulary, files, network = load_network(folder, config)
        return EncoderDecoder(network.tagger, vocabulary, Reader(network.encoder), files, compiled)

    @classmethod
    def exported(cls, folder, config, output):
        check_head(output, records.read_options(folder, config))
        vocabulary, files, network = load_network(folder, config)
        return PieceGraphInput(vocabulary, files.tokenizer, files.sizes.longest), ServedPieces(network, output)

    @classmethod
    def graph_input(cls, record):
        return PieceGraphInput.from_json(record)
