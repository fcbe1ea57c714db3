"""The training data and the decoder of the tagger over a pretrained encoder.

A frozen encoder reads each sentence once, before the first epoch. A fine-tuned encoder is part of the training step.
Compiled graphs of fixed shapes compute the vectors of subwords. `encoder_cache` names a folder to keep the vectors.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ms_crf.base.environment import VERSION, graph_call
from ms_crf.base.errors import CorpusError, argument
from ms_crf.base.files import PathLike, faults_named, whole
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled, Tags
from ms_crf.models.bucketing import RowShape, row_shapes
from ms_crf.models.encoder.network import EncodedTagger, SubwordTagger, build_encoder, build_tagger
from ms_crf.models.encoder.pretrained import EncoderFiles, paths_in
from ms_crf.models.encoder.windows import Subwords, pack, specials_of, subword_batch, window_arrays, window_shape
from ms_crf.models.graphs import GraphDecoder
from ms_crf.models.inheritance import describe_inherited, put_weights
from ms_crf.models.learning import Needs, NetworkLearner, check_fits, texts_of
from ms_crf.nn.transformer import Encoder
from ms_crf.runs import records
from ms_crf.runs.checksums import checksum
from ms_crf.runs.options import Options
from ms_crf.text.splitting import mostly_characters

import mindspore as ms
import numpy as np

SHORTEST = 64              # length of the shortest rows; other lengths are 2, 4, 8, ... times as long
SUBWORDS = 512             # subwords in a batch; 1,024 would be some 4 % faster and take twice the memory
WORTH = 20_000             # subwords that justify another graph: compiling takes 1 s, a subword 20 to 50 µs


class Reader:
    """Computes the vectors of subwords; windows are packed into rows of few lengths, so that few graphs are compiled.

    Args:
        encoder: an `Encoder`.
        checksum: checksum of the encoder's files; part of the names of stored vectors.
        folder: folder to store vectors in; None to store nothing.
    """

    def __init__(self, encoder: Encoder, checksum: str = '', folder: PathLike | None = None) -> None:
        self.encoder, self.checksum = encoder, checksum
        self.folder = None if folder is None else Path(folder)
        self._lengths: set[int] = set()
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CorpusError(folder, None, f'cannot create a folder for vectors: {error.strerror}') from None

        @ms.jit
        def read(ids, windows, positions):
            return encoder.packed(ids, windows, positions)

        self._read = read

    def vectors(self, encoded: Subwords, done: Callable[[int], object] | None = None) -> np.ndarray:
        """The vectors of all subwords of a corpus: (subwords, width).

        Args:
            encoded: the corpus.
            done: is called after each batch with its number of windows.
        """
        shape = len(encoded.ids), self.encoder.width
        if self.folder is None:
            table = np.zeros(shape, np.float32)
            for first, vectors in self._read_windows(encoded, done):
                table[first:first + len(vectors)] = vectors
            return table
        key = hashlib.sha256(f'{self.checksum} {VERSION} {ms.get_context("device_target")}'.encode())
        for array in (encoded.ids, encoded.windows):
            key.update(array.tobytes())
        path = self.folder / f'{key.hexdigest()[:32]}.npy'
        if not os.path.exists(path):
            _save(path, shape, self._read_windows(encoded, done))
        return _load(path, shape)

    def _read_windows(self, encoded: Subwords,
                      done: Callable[[int], object] | None) -> Iterator[tuple[int, np.ndarray]]:
        """For each window: the index of the first subword that it supplies, and the vectors of its subwords."""
        for length, indices in self._plan(encoded.window_lengths):
            packed = pack(encoded.window_lengths[indices], length)
            rows = 1 if len(packed) == 1 else max(SUBWORDS // length, 1)         # faster for a single sentence
            for start in range(0, len(packed), rows):
                batch = [indices[row].tolist() for row in packed[start:start + rows]]
                *arrays, begins = encoded.packed_batch(batch, (rows, length))
                with graph_call():
                    vectors = self._read(*map(ms.Tensor, arrays)).asnumpy()
                for index, row, offset in begins:
                    begin, _, first, last = encoded.windows[index].tolist()
                    yield first, vectors[row, offset + first - begin:offset + last - begin]
                if done is not None:
                    done(len(begins))

    def _plan(self, lengths: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Groups windows of similar length: yields (padded length, indices of the windows), the shortest first."""
        sizes = SHORTEST * 2 ** np.ceil(np.log2(np.maximum(lengths / SHORTEST, 1))).astype(np.int64)
        indices = np.zeros(0, np.int64)
        for size in np.unique(sizes):
            indices = np.concatenate((indices, np.flatnonzero(sizes == size)))
            if size in self._lengths or size == sizes.max(initial=0) or lengths[indices].sum() >= WORTH:
                self._lengths.add(size)
                yield int(size), indices
                indices = indices[:0]


def _save(path: Path, shape: tuple[int, int], parts: Iterable[tuple[int, np.ndarray]]) -> None:
    """Writes vectors of this shape to a file atomically; `parts` are tuples (index of the first vector, vectors)."""
    with whole(path) as draft, faults_named(path, ''), open(draft, 'wb') as file:
        np.lib.format.write_array_header_1_0(file, {'descr': '<f4', 'fortran_order': False, 'shape': shape})
        begin = file.tell()
        for first, vectors in parts:
            file.seek(begin + 4 * first * shape[1])
            file.write(np.ascontiguousarray(vectors, '<f4').data)


def _load(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """The vectors in a file; raises CorpusError if they are damaged or have another shape."""
    try:
        vectors = np.load(path, mmap_mode='r' if shape[0] else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise CorpusError(path, None, f'expected vectors stored by training: {error}; delete the file') from None
    if vectors.shape != shape or vectors.dtype != np.float32:
        raise CorpusError(path, None, f'expected vectors of shape {shape} in float32, got {vectors.shape} in '
                                      f'{vectors.dtype}; delete the file')
    return vectors


class EncoderBase(NamedTuple):
    """The base run of a training over an encoder."""

    tags: list[str]
    #: weights of the layers above the encoder, by name
    tagger: dict[str, np.ndarray]
    #: weights of the encoder by name if the base run has fine-tuned it, otherwise None
    encoder: dict[str, np.ndarray] | None


class EncoderLearner(NetworkLearner[Subwords, RowShape]):
    """The corpora of a training as subwords, with their vectors if the encoder is frozen.

    Args:
        options: options of the training.
        corpora: the sentences, all in one tag scheme.
        files: files of the encoder.
        watcher: receives messages and the progress of the encoder.
        base: the base run; None for a training without base run, or a resumed training.
        record: the field "init" of config.json; None for a training without base run.
    """

    def __init__(self, options: Options, corpora: Corpora, files: EncoderFiles, watcher: Watcher,
                 base: EncoderBase | None = None, record: dict[str, Any] | None = None) -> None:
        tuned, sizes = options.encoder_lr > 0, files.sizes
        vocabulary = Tags(corpora.tags, mostly_characters(set(chain.from_iterable(texts_of(corpora)['train']))))
        super().__init__(options, corpora, vocabulary,
                         lambda sentences, tags: Subwords(sentences, files.tokenizer, sizes.longest, tags))
        subwords = sum(int(each.counts.sum()) for each in self.encoded.values())
        tokens = sum(int(each.lengths.sum()) for each in self.encoded.values())
        watcher.say(f'encoder of {sizes.layers} layers of width {sizes.width}, '
                    f'{f"learning rate {options.encoder_lr:g}" if tuned else "frozen"}; '
                    f'{subwords / tokens:.2f} subwords per word')
        train = self.encoded['train']
        self.sizes, self.shapes = train.sizes, row_shapes(train.sizes, options.batch_size)
        check_fits(options, lambda changed: Needs(
            sizes.width, changed.encoder_lstm, changed.layers if changed.encoder_lstm else 0,
            fixed=0 if changed.encoder_lr > 0 or changed.encoder_cache else subwords * sizes.width),
            len(corpora.tags), self.shapes, f'this encoder and text without {argument("encoder_cache")}')
        digest = checksum(paths_in(files.path))
        self.files, self._base, self._watcher = files, base, watcher
        weights = (base and base.encoder) or files.weights()
        self._weights, self._reader = weights if tuned else None, None
        if base is not None:
            watcher.say(describe_inherited(options, base.tags, vocabulary.tags, 'the encoder'))
        if not tuned:
            self._reader = reader = Reader(build_encoder(sizes, weights), digest, options.encoder_cache or None)
            for part, each in self.encoded.items():
                began = time.perf_counter()
                with watcher.progress('encoding', len(each.windows), 'windows') as done:
                    each.vectors = reader.vectors(each, done)
                watcher.say(f'encoded {part}: {len(each.windows):,} windows in {time.perf_counter() - began:.1f} s')
        text = hashlib.sha256()
        for array in (train.ids, train.words, train.lengths, *(train.tags or ())):
            text.update(np.asarray(array, np.int32).tobytes())
        folder = str(files.path.absolute()) if options.encoder_link else records.ENCODER
        self._record = {'encoder': {'folder': folder, 'sha256': digest}, **self._record,
                        'text_sha256': text.hexdigest(), **({} if record is None else {'init': record})}

    def fill(self, folder: Path) -> None:
        """Copies the encoder into a new run directory, unless the run links to the encoder."""
        if not self.options.encoder_link:
            self.files.copy(folder / records.ENCODER)

    def network(self) -> SubwordTagger | EncodedTagger:
        """A new network with its initial weights: an `EncodedTagger` for fine-tuning, else a `SubwordTagger`."""
        tagger = build_tagger(self.options, self.vocabulary, self.files.sizes.width, self.scheme)
        if self._base is not None:
            put_weights(tagger, self._base.tagger, self._base.tags, self.vocabulary.tags)
        return tagger if self._reader else EncodedTagger(build_encoder(self.files.sizes, self._weights), tagger)

    def decoder(self, network: SubwordTagger | EncodedTagger, compiled: Compiled | None) -> 'EncoderDecoder':
        """A decoder that tags with `network`; `compiled` is called after each compilation of a graph."""
        tagger = network if self._reader else network.tagger
        reader = self._reader or Reader(network.encoder)
        return EncoderDecoder(tagger, self.vocabulary, reader, self.files, compiled, self._watcher)

    def batch(self, shape: RowShape, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays of a step, for the sentences with the indices `indices`."""
        encoded = self.encoded['train']
        batch = subword_batch(encoded, shape, indices)
        if encoded.vectors is not None:
            return batch.vectors(encoded.vectors), *batch[1:]
        windows = window_shape(shape, encoded.room, encoded.specials)
        return *window_arrays(encoded, batch, indices, *windows), *batch[1:]


class EncoderDecoder(GraphDecoder[Subwords]):
    """Tags with a network over an encoder.

    Args:
        network: network above the encoder.
        vocabulary: the tags.
        reader: computes the vectors of subwords.
        files: files of the encoder.
        compiled: is called with length, rows and seconds after each compilation of a graph.
        watcher: receives the progress of the encoder.
    """

    def __init__(self, network: SubwordTagger, vocabulary: Tags, reader: Reader, files: EncoderFiles,
                 compiled: Compiled | None = None, watcher: Watcher = SILENT) -> None:
        super().__init__(network, vocabulary, partial(Subwords, tokenizer=files.tokenizer, longest=files.sizes.longest,
                                                      specials=specials_of(files.tokenizer)), compiled)
        self.reader, self.watcher = reader, watcher

    def inputs(self, encoded: Subwords, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """Batches: (length, rows), indices of the sentences, and arrays: lengths and arguments of `emissions_of`."""
        vectors = encoded.vectors
        if vectors is None:
            with self.watcher.progress('encoding', len(encoded.windows), 'windows') as done:
                vectors = self.reader.vectors(encoded, done)
        for shape, indices in self.plan(encoded.sizes, at_most):
            batch = subword_batch(encoded, shape, indices)
            yield shape, indices, (batch.lengths, batch.vectors(vectors), batch.words, batch.counts)
