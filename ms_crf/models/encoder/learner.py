"""What the tagger over an encoder learns from, and how it tags.

A frozen encoder reads each sentence once, before the first epoch; a tuned one is part of the step.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ms_crf.base.errors import argument
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats.dataset import Corpora, digest_of
from ms_crf.models.base import Compiled
from ms_crf.models.bucketing import RowShape, row_shapes
from ms_crf.models.encoder.network import EncodedTagger, SubwordTagger, build_encoder, build_tagger
from ms_crf.models.encoder.pretrained import EncoderFiles, Sizes
from ms_crf.models.encoder.vectors import Reader
from ms_crf.models.encoder.windows import Subwords, specials_of, subword_batch, window_arrays, windows_at_most
from ms_crf.models.graphs import GraphDecoder
from ms_crf.models.inheritance import put_weights, taken_over
from ms_crf.models.labels import Tags
from ms_crf.models.learning import NetworkLearner, texts_of
from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token
from ms_crf.runs import records
from ms_crf.runs.checksums import checksum
from ms_crf.runs.options import Options
from ms_crf.text.splitting import mostly_characters

import numpy as np


class Base(NamedTuple):
    """The run that a training over an encoder begins with."""

    tags: list[str]
    #: weights above the encoder, by name
    tagger: dict[str, np.ndarray]
    #: those of the encoder, as `EncoderFiles.weights` gives them, if the run has tuned it
    encoder: dict[str, np.ndarray] | None


class EncoderLearner(NetworkLearner[Subwords, RowShape]):
    """The corpora of a run as subwords; `from_corpora` makes one.

    Args:
        given: the arguments of `NetworkLearner`.
        files: of the encoder.
        weights: of an encoder that is tuned; None of one that is frozen.
        reader: computes the vectors of a frozen encoder; None of one that is tuned.
        base: what the training begins with; None for nothing, or where it is resumed.
        watcher: is told how far the encoder is.
    """

    def __init__(self, *given: Any, files: EncoderFiles, weights: dict[str, np.ndarray] | None, reader: Reader | None,
                 base: Base | None, watcher: Watcher) -> None:
        super().__init__(*given)
        self.files, self._weights, self._reader, self._base, self._watcher = files, weights, reader, base, watcher

    @classmethod
    def from_corpora(cls, options: Options, corpora: Corpora, files: EncoderFiles, watcher: Watcher,
                     base: Base | None = None, record: dict[str, Any] | None = None) -> 'EncoderLearner':
        """Cuts sentences into subwords, and computes their vectors if the encoder is frozen.

        Args:
            options: of the training.
            corpora: its sentences, in one scheme.
            files: of the encoder.
            watcher: is told what is read.
            base: what the training begins with; None for nothing, or where it is resumed.
            record: what config.json says of the base; None for nothing.
        """
        texts, tuned, sizes = texts_of(corpora), options.encoder_lr > 0, files.sizes
        vocabulary = Tags(corpora.tags, mostly_characters({token for tokens in texts['train'] for token in tokens}))
        gold = vocabulary.gold([sentence.tags for sentence in corpora.parts['train']])
        encoded = {part: Subwords.of(sentences, files.tokenizer, sizes.longest, gold if part == 'train' else None)
                   for part, sentences in texts.items()}
        subwords = sum(int(each.counts.sum()) for each in encoded.values())
        tokens = sum(int(each.lengths.sum()) for each in encoded.values())
        watcher.say(f'{subwords / tokens:.2f} subwords a word; {sizes.layers} layers, {sizes.width} wide, '
                    f'{f"tuned at {options.encoder_lr:g}" if tuned else "frozen"}')
        train = encoded['train']
        shapes = row_shapes(train.sizes, options.batch_size)
        check_subwords(options, sizes, len(corpora.tags), shapes, subwords)
        digest = checksum(files.paths())
        weights, reader = (base and base.encoder) or files.weights(), None
        if base is not None:
            watcher.say(taken_over(options, base.tags, vocabulary.tags, 'the encoder'))
        if not tuned:
            reader = Reader(build_encoder(sizes, weights), digest, options.encoder_cache or None)
            for part, each in encoded.items():
                began = time.perf_counter()
                with watcher.progress('encoding', len(each.windows), 'windows') as done:
                    each.vectors = reader.vectors(each, done)
                watcher.say(f'encoded {part}: {len(each.windows):,} windows in {time.perf_counter() - began:.1f} s')
        text = hashlib.sha256()
        for array in (train.ids, train.words, train.lengths, *gold):
            text.update(np.asarray(array, np.int32).tobytes())
        folder = str(files.path.absolute()) if options.encoder_link else records.ENCODER
        return cls(options, corpora.scheme, vocabulary, encoded,
                   {'encoder': {'folder': folder, 'sha256': digest}, 'text_sha256': text.hexdigest(),
                    'dev_sha256': digest_of(corpora.parts['dev']), **({} if record is None else {'init': record})},
                   shapes, train.sizes, files=files, weights=weights if tuned else None, reader=reader, base=base,
                   watcher=watcher)

    def fill(self, folder: Path) -> None:
        """Puts the encoder into a new run directory, unless it is linked to."""
        if not self.options.encoder_link:
            self.files.copy(folder / records.ENCODER)

    def network(self) -> SubwordTagger | EncodedTagger:
        """A new network with its first weights: a `SubwordTagger`, or an `EncodedTagger` if the encoder is tuned."""
        tagger = build_tagger(self.options, self.vocabulary, self.files.sizes.width, self.scheme)
        if self._base is not None:
            put_weights(tagger, self._base.tagger, self._base.tags, self.vocabulary.tags)
        return tagger if self._reader else EncodedTagger(build_encoder(self.files.sizes, self._weights), tagger)

    def decoder(self, network: SubwordTagger | EncodedTagger, compiled: Compiled | None) -> 'EncoderDecoder':
        """What tags with a network; `compiled` is called after a graph was compiled."""
        tagger = network if self._reader else network.tagger
        reader = self._reader or Reader(network.encoder)
        return EncoderDecoder(tagger, self.vocabulary, reader, self.files, compiled, self._watcher)

    def batch(self, shape: RowShape, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays of a step, of the sentences of these indices."""
        encoded = self.encoded['train']
        batch = subword_batch(encoded, shape, indices)
        if encoded.vectors is not None:
            return batch.vectors(encoded.vectors), *batch.words_and_tags
        windows = shape.rows * windows_at_most(shape.length, encoded.room)
        length = min(shape.length, encoded.room) + encoded.specials.size
        return *window_arrays(encoded, batch, indices, windows, length), *batch.words_and_tags


class EncoderDecoder(GraphDecoder[Subwords]):
    """Tags with a network over an encoder.

    Args:
        network: above the encoder.
        vocabulary: its tags.
        reader: computes the vectors of subwords with the encoder.
        files: of the encoder.
        compiled: is called with length, rows and seconds after a graph was compiled.
        watcher: is told how far the encoder is.
    """

    def __init__(self, network: SubwordTagger, vocabulary: Tags, reader: Reader, files: EncoderFiles,
                 compiled: Compiled | None = None, watcher: Watcher = SILENT) -> None:
        super().__init__(network, vocabulary, compiled)
        self.reader, self.files, self.watcher = reader, files, watcher
        self._specials = specials_of(files.tokenizer)

    def encode(self, sentences: Sequence[list[str]]) -> Subwords:
        """Lists of tokens, none of them empty, as `run` takes them."""
        return Subwords.of(sentences, self.files.tokenizer, self.files.sizes.longest, specials=self._specials)

    def inputs(self, encoded: Subwords, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """(length, rows), indices of the sentences, and arrays of each batch: lengths, what `emissions_of` takes."""
        vectors = encoded.vectors
        if vectors is None:
            with self.watcher.progress('encoding', len(encoded.windows), 'windows') as done:
                vectors = self.reader.vectors(encoded, done)
        for shape, indices in self.plan(encoded.sizes, at_most):
            batch = subword_batch(encoded, shape, indices)
            yield shape, indices, (batch.lengths, batch.vectors(vectors), batch.words, batch.counts)


def check_subwords(options: Options, sizes: Sizes, tags: int, shapes: Sequence[RowShape], subwords: int) -> None:
    """Raises OptionError if a training over an encoder can't fit into the memory that is there.

    Args:
        options: of the training.
        sizes: of the encoder.
        tags: how many there are.
        shapes: of the batches.
        subwords: how many there are in all files.
    """
    def count(changed: Options) -> int:
        layers = changed.layers if changed.encoder_lstm else 0
        weights = layer_weights(sizes.width, changed.encoder_lstm, layers, tags, changed.head)
        step = max(shape.length * shape.rows for shape in shapes) * values_of_a_token(
            sizes.width, changed.encoder_lstm, layers, tags)
        kept = 0 if changed.encoder_lr > 0 or changed.encoder_cache else subwords * sizes.width
        return weights * copies(changed) + int(step * changed.batch_size / options.batch_size) + kept

    check_fits(options, count, f'these files and no {argument("encoder_cache")}')
