"""The files of a run directory: their names, and how they are read and replaced together.

One folder is a model. It holds JSON and tensors only.

config.json     options, scheme and sizes
vocab.json      words, characters and tags in the order of their ids
ngrams.ckpt     vectors of n-grams of characters, if there are any: what words get vectors of that are not known
weights.ckpt    the weights of the best epoch: what tagging needs
encoder/        the pretrained encoder under them, if there is one and config.json does not name another folder
tables.npz      in place of weights: those of a hidden Markov model
state.ckpt      weights, optimizer and position for resuming; one file, so that it is always of one moment
metrics.jsonl   a line an epoch
scores.json     what the best epoch is worth on dev and test
checksums.json  by which damage to the files above is noticed
lock            held by the training that writes to the folder

A crash at any moment leaves a run that can be read. First each new file is written to a draft beside the old one and
flushed to the disk. Then checksums.json is replaced: from now on it lists both what each file holds and what its draft
holds. Then the drafts are renamed, one by one.

- A crash before checksums.json is replaced leaves all files as they were, and the drafts mean nothing.
- A crash after that leaves some files new and others old; both contents are listed, so that all can be read. The files
  that are still old have their drafts beside them. `settle` renames these before the run is written to again, so that
  state and weights belong together. A file without a draft holds what is listed last.
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

if TYPE_CHECKING:                                # at run time it would start MindSpore
    from mindspore import Parameter

#: all files that are saved, in the order in which they are replaced
NAMES = ('config.json', 'vocab.json', 'ngrams.ckpt', 'tables.npz', 'weights.ckpt', 'metrics.jsonl', 'state.ckpt',
         'scores.json')
CONFIG, VOCABULARY, NGRAMS, TABLES, WEIGHTS, METRICS, STATE, SCORES = NAMES
ENCODER = 'encoder'
FORMAT = 1
#: further files with drafts, which a crash may leave: of MindSpore, and the record
LEFT = ('ngrams.tmp', 'weights.tmp', 'state.tmp', CHECKSUMS)
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
        draft = self.folder / f'.{name}'
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
            raise CorpusError(self.folder / name, None, f'cannot be written: {reason}; {_KEPT}') from None

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
            listed = {name: [checksums.file_digest(folder / name)] for name in NAMES if (folder / name).exists()}
        names = [name for name in NAMES if name in new.names]
        for name in names:
            draft = folder / f'.{name}'
            listed[name] = [*listed.get(name, [])[-1:], checksums.file_digest(draft, name)]
            files.keep(draft)                    # from here on `settle` decides what becomes of it
        try:
            checksums.write(folder, listed)
        except CorpusError:
            settle(folder)
            raise
        _rename(folder, names)


def settle(folder: PathLike) -> None:
    """Finishes a saving that was interrupted by a crash, or discards it if not all drafts had been written."""
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
    """Gives drafts the names of their files."""
    with files.faults_named(folder, _KEPT):
        for name in names:
            os.replace(folder / f'.{name}', folder / name)
        if names:
            files.sync(folder)


def create(path: PathLike, config: object, vocabulary: object) -> None:
    """Makes the folder, unless it is there, with both records in it."""
    Path(path).mkdir(parents=True, exist_ok=True)
    with saving(path) as new:
        new.json(CONFIG, config)
        new.json(VOCABULARY, vocabulary)


def write_json(path: PathLike, record: object) -> None:
    """Replaces one file of a run."""
    with saving(Path(path).parent) as new:
        new.json(Path(path).name, record)


def check_output(path: PathLike, *read: PathLike) -> None:
    """As `files.check_writable`; raises CorpusError for a file that belongs to a run as well."""
    files.check_writable(path, *read)
    target = Path(os.path.realpath(path))
    if target.name in (*NAMES, CHECKSUMS) and (target.parent / CONFIG).exists() and not files.is_written_through(path):
        raise CorpusError(path, None, 'expected a file to write that is none of a run, got one of the run in '
                                      f'{target.parent}; choose another name')


def newest(folder: PathLike) -> Path:
    """The run in a folder whose weights are the newest; raises CorpusError if there is none."""
    weights = [path for name in (WEIGHTS, TABLES) for path in Path(folder).glob(f'*/{name}')
               if not path.parent.name.startswith('.')]          # of runs that have not taken their places yet
    if not weights:
        _check_enterable(folder)
        raise NoRun(folder, None, 'no run there yet')
    return max(weights, key=lambda path: path.stat().st_mtime).parent


def _check_enterable(folder: PathLike) -> None:
    """Raises CorpusError if a folder, or one of those in it, may not be looked into."""
    path = folder = Path(folder)
    try:
        for path in (folder, *map(folder.joinpath, sorted(os.listdir(folder)))):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.stat(path / CONFIG)
    except PermissionError as error:
        raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    except OSError:                              # it is not there
        return


def check_tensors(path: PathLike, verified: Verified | None = None) -> None:
    """Raises CorpusError if the file is missing or damaged.

    Args:
        path: of the file.
        verified: the files of its run, if these are known.
    """
    path = Path(path)
    if not path.is_file():
        raise CorpusError(path, None, 'no such file; expected a run that training has brought to the end of an epoch')
    check_readable(path)                         # before MindSpore, which would log it
    (verified or Verified(path.parent)).check(path.name)


def read_tensors(path: PathLike, verified: Verified | None = None) -> dict[str, np.ndarray]:
    """A dict of arrays; arguments and errors are those of `check_tensors`."""
    import mindspore as ms
    check_tensors(path, verified)
    try:
        with quiet():
            return {name: parameter.asnumpy() for name, parameter in ms.load_checkpoint(str(path)).items()}
    except (ValueError, RuntimeError, TypeError, OSError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CorpusError(path, None, f'expected tensors as training writes them: {first}') from None


def check_fit(path: PathLike, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> None:
    """Raises CorpusError unless the arrays have exactly these names and shapes."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise CorpusError(path, None, f'expected a tensor {name}, got none')
        if arrays[name].shape != tuple(shape):
            raise CorpusError(path, None, f'expected {name} of shape {tuple(shape)}, got {arrays[name].shape}')
    strange = sorted(set(arrays) - set(shapes))
    if strange:
        raise CorpusError(path, None, f'expected no tensor {strange[0]}, got one')


def as_arrays(parameters: Iterable['Parameter']) -> dict[str, np.ndarray]:
    """Names and values of Parameters."""
    return {parameter.name: np.array(parameter.asnumpy()) for parameter in parameters}
