"""The files of a run directory: their names, and how they are read and replaced together.

One folder is a model. It holds JSON and tensors only.

config.json     options, scheme and sizes
vocab.json      words, characters and tags in the order of their ids
ngrams.ckpt     vectors of character n-grams for out-of-vocabulary words, if the model uses them
weights.ckpt    weights of the best epoch, for tagging
encoder/        copy of the pretrained encoder, if the model has one and config.json does not name another folder
tables.npz      tables of a hidden Markov model, instead of weights
state.ckpt      weights, optimizer state and position for resuming; in one file, so that they belong together
metrics.jsonl   one line per epoch
scores.json     scores of the best epoch on dev and test
checksums.json  digests of these files, to detect damage
lock            lock file of the training that writes to the folder

A crash at any moment leaves a readable run. First each new file is written to a draft next to the old file and flushed
to the disk. Then checksums.json is replaced by a record that lists both the old and the new contents. Then the drafts
are renamed one by one.

- After a crash before checksums.json is replaced, all files are unchanged, and the drafts are ignored.
- After a later crash some files are new and some old; both contents are listed, so all files can be read. The drafts of
  the old files still exist, and `settle` renames them before the next write, so that state and weights belong together.
  A file without a draft has the contents that are listed last.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, NoRun
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import check_readable
from ms_crf.runs import checksums
from ms_crf.runs.checksums import RECORD as CHECKSUMS
from ms_crf.runs.checksums import Verified

import numpy as np

if TYPE_CHECKING:                                # not at run time: the import starts MindSpore
    from mindspore import Parameter

#: all saved files, in the order of their replacement
NAMES = ('config.json', 'vocab.json', 'ngrams.ckpt', 'tables.npz', 'weights.ckpt', 'metrics.jsonl', 'state.ckpt',
         'scores.json')
CONFIG, VOCABULARY, NGRAMS, TABLES, WEIGHTS, METRICS, STATE, SCORES = NAMES
ENCODER = 'encoder'
FORMAT = 1
#: more files whose drafts a crash may leave: MindSpore's temporary files, and the checksums
LEFT = ('ngrams.tmp', 'weights.tmp', 'state.tmp', CHECKSUMS)
_KEPT = 'the previous files are unchanged'


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disables logging within the block, because MindSpore logs each error that it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class Saving:
    """Writes drafts of new files; created by `saving`.

    Args:
        folder: the run directory.
        drafts: exit stack that removes drafts, unless they were renamed to files.
    """

    def __init__(self, folder: Path, drafts: contextlib.ExitStack) -> None:
        self.folder, self._drafts = folder, drafts
        self.names: list[str] = []

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Yields the path of a draft for the file `name`, one of NAMES."""
        draft = self.folder / f'.{name}'
        for path in (draft, draft.with_suffix('.tmp')):          # MindSpore writes to the second path
            self._drafts.enter_context(files.temporary(path))
        self.names.append(name)
        try:
            with files.faults_named(self.folder / name, _KEPT):
                draft.unlink(missing_ok=True)
                yield draft
                files.sync(draft)
        except RuntimeError as error:                            # raised by MindSpore if the disk is full
            reason = next(iter(str(error).strip().splitlines()), 'unknown reason')
            raise CorpusError(self.folder / name, None, f'cannot be written: {reason}; {_KEPT}') from None

    def text(self, name: str, text: str) -> None:
        """Writes a text file; lone surrogates, which JSON strings may contain, are escaped."""
        with self.file(name) as draft:
            draft.write_text(text, encoding='utf-8', errors='backslashreplace')

    def json(self, name: str, record: object) -> None:
        """Writes a JSON file."""
        self.text(name, files.json_text(record))

    def tensors(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes arrays as a MindSpore checkpoint."""
        import mindspore as ms  # not above: models without tensors do not need MindSpore
        with self.file(name) as draft, quiet():
            ms.save_checkpoint([{'name': key, 'data': ms.Tensor(array)} for key, array in arrays.items()], str(draft))
            draft.chmod(0o644)

    def arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes arrays as a NumPy .npz file."""
        with self.file(name) as draft, open(draft, 'wb') as file:        # NumPy would append .npz to a path
            np.savez(file, **arrays)


@contextlib.contextmanager
def saving(folder: PathLike) -> Iterator[Saving]:
    """Yields a `Saving`; its files replace the old files together when the block ends without an error.

    Raises:
        CorpusError: a file cannot be written; the previous files are unchanged.
    """
    folder = Path(folder)
    settle(folder)
    with contextlib.ExitStack() as drafts:
        new = Saving(folder, drafts)
        yield new
        listed = checksums.read(folder)
        if listed is None:                       # a new run, or a run of an earlier version
            listed = {name: [checksums.file_digest(folder / name)] for name in NAMES if (folder / name).exists()}
        names = [name for name in NAMES if name in new.names]
        for name in names:
            draft = folder / f'.{name}'
            listed[name] = [*listed.get(name, [])[-1:], checksums.file_digest(draft, name)]
            files.keep(draft)                    # from here on `settle` renames or removes the draft
        try:
            checksums.write(folder, listed)
        except CorpusError:
            settle(folder)
            raise
        _rename(folder, names)


def settle(folder: PathLike) -> None:
    """Finishes a save that a crash interrupted; discards it if not all drafts had been written."""
    folder = Path(folder)
    drafts = [name for name in NAMES if (folder / f'.{name}').exists()]
    if drafts:
        listed = checksums.read(folder) or {}
        _rename(folder, [name for name in drafts if _is_listed(folder / f'.{name}', name, listed)])
    with files.faults_named(folder, _KEPT):
        for name in (*drafts, *LEFT):
            (folder / f'.{name}').unlink(missing_ok=True)


def _is_listed(draft: Path, name: str, listed: Mapping[str, list[str]]) -> bool:
    try:
        return listed.get(name, [None])[-1] == checksums.file_digest(draft, name)
    except CorpusError:
        return False


def _rename(folder: Path, names: Sequence[str]) -> None:
    """Renames drafts to their files."""
    with files.faults_named(folder, _KEPT):
        for name in names:
            os.replace(folder / f'.{name}', folder / name)
        if names:
            files.sync(folder)


def create(path: PathLike, config: object, vocabulary: object) -> None:
    """Writes config.json and vocab.json, and creates the folder if it is missing."""
    Path(path).mkdir(parents=True, exist_ok=True)
    with saving(path) as new:
        new.json(CONFIG, config)
        new.json(VOCABULARY, vocabulary)


def write_json(path: PathLike, record: object) -> None:
    """Replaces a JSON file of a run."""
    with saving(Path(path).parent) as new:
        new.json(Path(path).name, record)


def check_output(path: PathLike, *read: PathLike) -> None:
    """Raises CorpusError if a file cannot be written, is in `read`, or belongs to a run; see `files.check_writable`."""
    files.check_writable(path, *read)
    target = Path(os.path.realpath(path))
    if target.name in (*NAMES, CHECKSUMS) and (target.parent / CONFIG).exists() and not files.is_written_through(path):
        raise CorpusError(path, None, 'cannot be written: it is a file of the run in '
                                      f'{target.parent}; choose another name')


def newest(folder: PathLike) -> Path:
    """Returns the run with the newest weights in a folder; raises NoRun if there is none."""
    weights = [path for name in (WEIGHTS, TABLES) for path in Path(folder).glob(f'*/{name}')
               if not path.parent.name.startswith('.')]          # new runs that will replace others
    if not weights:
        _check_enterable(folder)
        raise NoRun(folder, None, 'no run found')
    return max(weights, key=lambda path: path.stat().st_mtime).parent


def _check_enterable(folder: PathLike) -> None:
    """Raises CorpusError if permissions forbid reading a folder or one of its subfolders."""
    path = folder = Path(folder)
    try:
        for path in (folder, *map(folder.joinpath, sorted(os.listdir(folder)))):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.stat(path / CONFIG)
    except PermissionError as error:
        raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    except OSError:                              # the folder does not exist
        return


def check_tensors(path: PathLike, verified: Verified | None = None) -> None:
    """Raises CorpusError if a checkpoint is missing or damaged.

    Args:
        path: path of the checkpoint.
        verified: the `Verified` of its run, if there is one already.
    """
    path = Path(path)
    if not path.is_file():
        raise CorpusError(path, None, 'no such file; expected a run whose training has finished an epoch')
    check_readable(path)                         # first, because MindSpore would log an error
    (verified or Verified(path.parent)).check(path.name)


def read_tensors(path: PathLike, verified: Verified | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of a checkpoint by name; for arguments and errors see `check_tensors`."""
    import mindspore as ms
    check_tensors(path, verified)
    try:
        with quiet():
            return {name: parameter.asnumpy() for name, parameter in ms.load_checkpoint(str(path)).items()}
    except (ValueError, RuntimeError, TypeError, OSError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CorpusError(path, None, f'expected tensors as training writes them: {first}') from None


def check_fit(path: PathLike, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> None:
    """Raises CorpusError if the names and shapes of arrays differ from `shapes`."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise CorpusError(path, None, f'expected a tensor {name}, got none')
        if arrays[name].shape != tuple(shape):
            raise CorpusError(path, None, f'expected {name} of shape {tuple(shape)}, got {arrays[name].shape}')
    unknown = sorted(set(arrays) - set(shapes))
    if unknown:
        raise CorpusError(path, None, f'unknown tensor {unknown[0]}')


def as_arrays(parameters: Iterable['Parameter']) -> dict[str, np.ndarray]:
    """Returns copies of the values of Parameters by name."""
    return {parameter.name: np.array(parameter.asnumpy()) for parameter in parameters}
