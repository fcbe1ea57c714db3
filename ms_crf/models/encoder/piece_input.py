"""What a training over a pretrained encoder reads, as `word_input` has it for one over words.

A frozen encoder reads each sentence once, before the first epoch; a tuned one is part of the step.
"""

import hashlib
import time

from ms_crf.models.assembly import build_encoder, build_piece_network
from ms_crf.models.bucketing import plan
from ms_crf.models.encoder.network import EncodedTagger
from ms_crf.models.encoder.piece_decoding import PieceDecoder
from ms_crf.models.encoder.vectors import Reader
from ms_crf.models.encoder.windows import Pieces, cut_rows, piece_batch, piece_shapes, window_arrays, windows_at_most
from ms_crf.models.labels import Tags, mostly_characters
from ms_crf.runs import records
from ms_crf.runs.checksums import checksum
from ms_crf.sizes import check_pieces
from ms_crf.text.dataset import digest_of
from ms_crf.training.step import make_plain_step

import numpy as np


class PieceInput:
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
        self._shapes = piece_shapes(self.encoded['train'].sizes, options.batch_size)
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
        """As of `WordInput`; the text is that of training, as ids."""
        folder = str(self.files.path.absolute()) if self.options.encoder_link else records.ENCODER
        text, encoded = hashlib.sha256(), self.encoded['train']
        for array in (encoded.ids, encoded.words, encoded.lengths, *encoded.tags):
            text.update(np.asarray(array, np.int32).tobytes())
        return {'model': 'encoder', 'encoder': {'folder': folder, 'sha256': self.checksum},
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
        """As `WordInput.step`."""
        return make_plain_step(network, optimizer, loss_scale)

    def decoder(self, network, compiled):
        reader, tagger = (Reader(network.encoder), network.tagger) if self.tuned else (self._reader, network)
        return PieceDecoder(tagger, self.vocabulary, reader, self.files, compiled, self._reading)

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
