"""The run directory: one folder is a model. JSON and tensors only; every file is written whole or not at all.

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

`run` reads it, `saving` writes to it, and `directory` makes it.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, NoRun
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import check_readable
from ms_crf.runs.checksums import RECORD, Verified
from ms_crf.runs.saving import NAMES, quiet, saving

import numpy as np

if TYPE_CHECKING:                                # at run time it would start MindSpore
    from mindspore import Parameter

CONFIG, VOCABULARY, NGRAMS, TABLES, WEIGHTS, METRICS, STATE, SCORES = NAMES
CHECKSUMS, ENCODER = RECORD, 'encoder'
FORMAT = 1


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
    weights.sort(key=lambda path: path.stat().st_mtime)
    if not weights:
        _check_enterable(folder)
        raise NoRun(folder, None, 'no run there yet')
    return weights[-1].parent


def _check_enterable(folder: PathLike) -> None:
    """Raises CorpusError if a folder, or one of those in it, may not be looked into."""
    path = folder = Path(folder)
    try:
        for path in (folder, *map(folder.joinpath, sorted(os.listdir(folder)))):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.stat(path / CONFIG)
    except PermissionError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None
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
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
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
