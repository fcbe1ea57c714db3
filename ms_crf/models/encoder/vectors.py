"""The vectors of subwords, by an encoder in compiled graphs of fixed shapes; kept in a folder, if one is named."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ms_crf.base.environment import VERSION, graph_call
from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike, faults_named, whole
from ms_crf.models.encoder.windows import Subwords, pack
from ms_crf.nn.transformer import Encoder

import mindspore as ms
import numpy as np

SHORTEST = 64              # row; the next lengths are twice as long, four times, ...
SUBWORDS = 512             # of a batch; 1,024 would be some 4 % faster and take twice the memory
WORTH = 20_000             # subwords: so many are worth a graph of shorter rows, 1 s against 20 to 50 µs a subword


class Reader:
    """Computes vectors: windows are packed into rows of few lengths, which are all that is compiled.

    Args:
        encoder: an `Encoder`.
        checksum: of the encoder's files; vectors in a folder go under it.
        folder: where vectors are kept; None for nowhere.
    """

    def __init__(self, encoder: Encoder, checksum: str = '', folder: PathLike | None = None) -> None:
        self.encoder, self.checksum = encoder, checksum
        self.folder = None if folder is None else Path(folder)
        self._lengths: set[int] = set()
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CorpusError(folder, None, f'expected a folder to keep vectors in: {error.strerror}') from None

        @ms.jit
        def read(ids, windows, positions):
            return encoder.packed(ids, windows, positions)

        self._read = read

    def vectors(self, encoded: Subwords, done: Callable[[int], object] | None = None) -> np.ndarray:
        """(subwords, width) of all subwords of a corpus.

        Args:
            encoded: the corpus.
            done: is called with the number of windows that were read, after each batch.
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
        """(index of the first of them, vectors) of the subwords that each window supplies."""
        for length, indices in self._plan(encoded.window_lengths):
            packed = pack(encoded.window_lengths[indices], length)
            rows = 1 if len(packed) == 1 else max(SUBWORDS // length, 1)         # a sentence alone should not wait
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
        """(length of rows, indices of the windows that go into such), the shortest first."""
        if not len(lengths):
            return
        sizes = SHORTEST * 2 ** np.ceil(np.log2(np.maximum(lengths / SHORTEST, 1))).astype(np.int64)
        indices = np.zeros(0, np.int64)
        for size in np.unique(sizes):
            indices = np.concatenate((indices, np.flatnonzero(sizes == size)))
            if size in self._lengths or size == sizes.max() or lengths[indices].sum() >= WORTH:
                self._lengths.add(size)
                yield int(size), indices
                indices = indices[:0]


def _save(path: Path, shape: tuple[int, int], parts: Iterable[tuple[int, np.ndarray]]) -> None:
    """Writes vectors of this shape as a whole file, from (index of the first, vectors) of its parts."""
    with whole(path) as draft, faults_named(path, ''), open(draft, 'wb') as file:
        np.lib.format.write_array_header_1_0(file, {'descr': '<f4', 'fortran_order': False, 'shape': shape})
        begin = file.tell()
        for first, vectors in parts:
            file.seek(begin + 4 * first * shape[1])
            file.write(np.ascontiguousarray(vectors, '<f4').data)


def _load(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """The vectors in a file; raises CorpusError unless they have this shape."""
    try:
        vectors = np.load(path, mmap_mode='r' if shape[0] else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise CorpusError(path, None, f'expected vectors as training keeps them: {error}; delete the file') from None
    if vectors.shape != shape or vectors.dtype != np.float32:
        raise CorpusError(path, None, f'expected vectors {shape} of float32, got {vectors.shape} of {vectors.dtype}; '
                                      'delete the file')
    return vectors
