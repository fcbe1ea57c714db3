"""Replaces several files of a run together, so that a crash at any moment leaves a run that can be read.

First each new file is written to a draft beside the old one and flushed to the disk. Then checksums.json is replaced:
from now on it lists both what each file holds and what its draft holds. Then the drafts are renamed, one by one.

- A crash before checksums.json is replaced leaves all files as they were, and the drafts mean nothing.
- A crash after that leaves some files new and others old; both contents are listed, so that all can be read. The files
  that are still old have their drafts beside them. `settle` renames these before the run is written to again, so that
  state and weights belong together. A file without a draft holds what is listed last.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ms_crf.base import files
from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.runs import checksums

import numpy as np

#: all files that are saved, in the order in which they are replaced
NAMES = ('config.json', 'vocab.json', 'ngrams.ckpt', 'tables.npz', 'weights.ckpt', 'metrics.jsonl', 'state.ckpt',
         'scores.json')
# drafts of what MindSpore writes, and of the record
_LEFT = ('.ngrams.tmp', '.weights.tmp', '.state.tmp', f'.{checksums.RECORD}')
_KEPT = 'what was saved before stays'


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps MindSpore from logging what it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class Saving:
    """Writes drafts of new files; `saving` makes one of these.

    Args:
        folder: the run directory.
        drafts: removes the drafts at its end, unless they have become files.
    """

    def __init__(self, folder: Path, drafts: contextlib.ExitStack) -> None:
        self.folder, self._drafts = folder, drafts
        self.names: list[str] = []

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """The name of a draft to write to, for one of NAMES."""
        draft = _draft(self.folder, name)
        for path in (draft, draft.with_suffix('.tmp')):          # the second is what MindSpore writes to
            self._drafts.enter_context(files.temporary(path))
        self.names.append(name)
        try:
            with files.faults_named(self.folder / name, _KEPT):
                draft.unlink(missing_ok=True)
                yield draft
                files.sync(draft)
        except RuntimeError as error:                            # MindSpore's for a full disk
            reason = next(iter(str(error).strip().splitlines()), 'MindSpore does not say why')
            raise CorpusError(self.folder / name, None, f'can not be written: {reason}; {_KEPT}') from None

    def text(self, name: str, text: str) -> None:
        """Writes a text file; halves of surrogate pairs, which strings of JSON may hold, as escapes."""
        with self.file(name) as draft:
            draft.write_text(text, encoding='utf-8', errors='backslashreplace')

    def json(self, name: str, record: object) -> None:
        """Writes a JSON file."""
        self.text(name, files.json_text(record))

    def tensors(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a checkpoint of MindSpore with these arrays."""
        import mindspore as ms  # here, because models without tensors need no MindSpore
        with self.file(name) as draft, quiet():
            ms.save_checkpoint([{'name': key, 'data': ms.Tensor(array)} for key, array in arrays.items()], str(draft))
            draft.chmod(0o644)

    def arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes an .npz file of NumPy with these arrays."""
        with self.file(name) as draft, open(draft, 'wb') as file:        # a name would get an ending
            np.savez(file, **arrays)


@contextlib.contextmanager
def saving(folder: PathLike) -> Iterator[Saving]:
    """Gives a `Saving`, whose files replace the old ones together when the block ends without an error.

    Raises:
        CorpusError: they can't be written; what was saved before stays.
    """
    folder = Path(folder)
    settle(folder)
    with contextlib.ExitStack() as drafts:
        new = Saving(folder, drafts)
        yield new
        listed = checksums.read(folder)
        if listed is None:                       # a new run, or one of an earlier version
            listed = {name: [checksums.digest_of(folder / name)] for name in NAMES if (folder / name).exists()}
        new_drafts = {name: _draft(folder, name) for name in NAMES if name in new.names}
        for name, draft in new_drafts.items():
            listed[name] = [*listed.get(name, [])[-1:], checksums.digest_of(draft, name)]
            files.keep(draft)                    # from here on `settle` decides what becomes of it
        try:
            checksums.write(folder, listed)
        except CorpusError:
            settle(folder)
            raise
        _rename(folder, new_drafts)


def settle(folder: PathLike) -> None:
    """Finishes a saving that was interrupted by a crash, or discards it if not all drafts had been written."""
    folder = Path(folder)
    new_drafts = {name: draft for name in NAMES if (draft := _draft(folder, name)).exists()}
    if new_drafts:
        listed = checksums.read(folder) or {}
        _rename(folder, {name: draft for name, draft in new_drafts.items() if _is_listed(draft, name, listed)})
    with files.faults_named(folder, _KEPT):
        for left in (*new_drafts.values(), *(folder / name for name in _LEFT)):
            left.unlink(missing_ok=True)


def _is_listed(draft: Path, name: str, listed: Mapping[str, list[str]]) -> bool:
    try:
        return listed.get(name, [None])[-1] == checksums.digest_of(draft, name)
    except CorpusError:
        return False


def _draft(folder: Path, name: str) -> Path:
    return folder / f'.{name}'


def _rename(folder: Path, new_drafts: Mapping[str, Path]) -> None:
    with files.faults_named(folder, _KEPT):
        for name, draft in new_drafts.items():
            os.replace(draft, folder / name)
        if new_drafts:
            files.sync(folder)
