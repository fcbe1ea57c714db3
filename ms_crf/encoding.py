"""The vectors of pieces, by an encoder in compiled graphs of fixed shapes; kept in a folder, if one is named."""

import hashlib
import os
from pathlib import Path

from ms_crf.batches import TaggingShapes
from ms_crf.corpus import CorpusError

import mindspore as ms
import numpy as np

ROWS, ROOM = 32, 64        # windows of a batch, fewer where they are longer: 2,048 pieces
COST = 20_000              # of compiling a shape, in padded pieces: 1 to 2 s


class Reader:
    """Computes vectors.

    Args:
        encoder: an `Encoder`.
        checksum: of the encoder's files; vectors in a folder go under it.
        folder: where vectors are kept; None for nowhere.
    """

    def __init__(self, encoder, checksum='', folder=None):
        self.encoder, self.checksum, self.folder = encoder, checksum, folder and Path(folder)
        self._shapes = TaggingShapes(ROWS, ROOM, COST)

        @ms.jit
        def read(ids, lengths):
            return encoder(ids, lengths)

        self._read = read

    def vectors(self, encoded, done=None):
        """(pieces, width) of all pieces of a corpus.

        Args:
            encoded: `Pieces`.
            done: is called with the number of windows that were read, after each batch.
        """
        shape = len(encoded.ids), self.encoder.width
        if self.folder is None:
            table = np.zeros(shape, np.float32)
            for first, vectors in self._read_windows(encoded, done):
                table[first:first + len(vectors)] = vectors
            return table
        key = hashlib.sha256(self.checksum.encode())
        for array in (encoded.ids, encoded.windows):
            key.update(array.tobytes())
        path = self.folder / f'{key.hexdigest()[:32]}.npy'
        if not path.exists():
            self._keep(path, shape, self._read_windows(encoded, done))
        return _kept(path, shape)

    def _read_windows(self, encoded, done):
        """(place of the first of them, vectors) of the pieces that each window supplies."""
        before, room = len(encoded.specials.before), encoded.room + encoded.specials.count
        plan = self._shapes.plan(encoded.window_lengths) if len(encoded.windows) else ()
        for (length, rows), numbers in plan:
            ids, counts = encoded.window_batch(numbers, rows, min(length, room))
            found = self._read(ms.Tensor(ids), ms.Tensor(counts)).asnumpy()
            for vectors, (begin, _, first, last) in zip(found, encoded.windows[numbers].tolist()):
                yield first, vectors[before + first - begin:before + last - begin]
            if done is not None:
                done(len(numbers))

    def _keep(self, path, shape, parts):
        draft = path.with_name(f'.{path.name}.{os.getpid()}')
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(draft, 'wb') as file:
                np.lib.format.write_array_header_1_0(file, {'descr': '<f4', 'fortran_order': False, 'shape': shape})
                begin = file.tell()
                for first, vectors in parts:
                    file.seek(begin + 4 * first * shape[1])
                    file.write(np.ascontiguousarray(vectors, '<f4'))
            os.replace(draft, path)
        except OSError as error:
            raise CorpusError(path, None, f'can not be written: {error.strerror}') from None
        finally:
            draft.unlink(missing_ok=True)


def _kept(path, shape):
    try:
        found = np.load(path, mmap_mode='r' if shape[0] else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise CorpusError(path, None, f'expected vectors as train.py keeps them: {error}; delete the file') from None
    if found.shape != shape or found.dtype != np.float32:
        raise CorpusError(path, None, f'expected vectors {shape} of float32, got {found.shape} of {found.dtype}; '
                                      'delete the file')
    return found
