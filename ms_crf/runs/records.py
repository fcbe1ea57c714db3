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

How it is written to says `saving`, where it is made `directory`.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, NoRun, OptionError, brief, visible
from ms_crf.base.fields import Fault, checked, found_in, load_record
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import check_readable
from ms_crf.runs import checksums
from ms_crf.runs.options import Options
from ms_crf.runs.saving import NAMES, quiet, saving
from ms_crf.text.metrics import RATES
from ms_crf.text.schemes import PLAIN, SCHEMES, allowed_transitions
from ms_crf.text.splitting import splitter_fault

import numpy as np

CONFIG, VOCABULARY, NGRAMS, TABLES, WEIGHTS, METRICS, STATE, SCORES = NAMES
CHECKSUMS, ENCODER = checksums.RECORD, 'encoder'
FORMAT = 1


def create(path: PathLike, config: Any, vocabulary: Any) -> None:
    """Makes the folder, unless it is there, with both records in it."""
    Path(path).mkdir(parents=True, exist_ok=True)
    with saving(path) as new:
        new.json(CONFIG, config)
        new.json(VOCABULARY, vocabulary)


def write_json(path: PathLike, record: Any) -> None:
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


def read_json(path: PathLike) -> Any:
    """Raises CorpusError if the file is not there, damaged or not JSON."""
    data = files.read_whole(path, checksums.NO_RUN)
    checksums.check(path)
    return files.parse_json(path, data, 'training')


def model_digest(folder: PathLike) -> str:
    """What tells the model of a run from others: a digest of its configuration, vocabulary and weights."""
    folder = Path(folder)
    listed = checksums.read(folder) or {}
    names = [name for name in (CONFIG, VOCABULARY, NGRAMS, TABLES, WEIGHTS)
             if name in listed or (folder / name).exists()]
    return checksums.digest({name: (listed.get(name) or [checksums.digest_of(folder / name)])[-1] for name in names})


def model_version(path: PathLike) -> str:
    """The name of a run or of an exported graph, and the beginning of its checksum, such as 'mine@0123456789ab'."""
    own = Path(os.path.abspath(path))
    checksum = checksums.checksum([own]) if own.suffix == '.mindir' else model_digest(own)
    return f'{own.name}@{checksum[:12]}'


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


def read_metrics(folder: PathLike) -> list[dict[str, Any]]:
    """The records of metrics.jsonl, one an epoch."""
    path = Path(folder) / METRICS
    if not path.exists():
        return []
    data = files.read_whole(path, 'no such file')
    checksums.check(path)
    records = [files.parse_json(path, line, 'training') for line in data.splitlines()]
    if not all(isinstance(record, dict) for record in records):
        raise CorpusError(path, None, 'expected a JSON object a line, as training writes them')
    return records


def config_path(folder: PathLike) -> Path:
    """Name of the file that says what a run is."""
    return Path(folder) / CONFIG


@dataclass(kw_only=True)
class RunConfig:
    """What config.json of every run holds, whatever its kind of model puts there."""

    format: int = checked(choices=(FORMAT,), advice='another version of this program made it, train again')
    options: dict
    scheme: str = checked(choices=SCHEMES)
    found_scheme: str = checked(choices=SCHEMES)
    written_scheme: str = checked(None, choices=SCHEMES)  # of the tags that come out; earlier runs: that of training
    splitter: str = checked(None, must=splitter_fault)    # earlier runs do not say


def _rates_fault(scores: dict) -> Fault | None:
    """What is wrong with the scores on a part: all rates have to be there."""
    for name in RATES:
        if not isinstance(scores.get(name), (int, float)) or isinstance(scores[name], bool):
            return f'scores with the number "{name}"', brief(scores.get(name))
    return None


@dataclass(kw_only=True)
class RunScores:
    """What scores.json holds: the end of a training in steps."""

    best_epoch: int = checked(least=0)
    epochs: int = checked(least=0)
    shift: float = checked(0.0, least=-100, most=100)    # of the score of O; earlier runs have none
    dev: dict = checked(must=_rates_fault)
    test: dict = checked(None, must=_rates_fault)


def read_scores(folder: PathLike) -> dict[str, Any] | None:
    """What scores.json holds, a `RunScores` and more; None as long as a training is not at its end."""
    path = Path(folder) / SCORES
    if not path.exists():
        return None
    record = read_json(path)
    with found_in(path):
        load_record(RunScores, record)
    return record


def read_config(folder: PathLike) -> dict[str, Any]:
    """What config.json holds; raises CorpusError unless a version of this program made it that this one reads."""
    path = config_path(folder)
    record = read_json(path)
    with found_in(path):
        load_record(RunConfig, record)
    return record


def read_options(folder: PathLike, config: Mapping[str, Any], **others: Any) -> Options:
    """The `Options` in what `read_config` gave, with others in place of some.

    Earlier runs lack some options, and are read as they were made.
    """
    path = Path(folder) / CONFIG
    try:
        # Earlier versions took every tag for one of its own, and '?' may be one among plain tags.
        earlier = {'unknown_tag': ''} if config.get('found_scheme') == PLAIN else {}
        values = {**earlier, 'ngrams': False, 'balance': False, **Options.read(config['options'], path)}
        Options(**values).check()
    except OptionError as error:
        raise CorpusError(path, None, str(error).removeprefix(visible(f'{path}: '))) from None
    options = Options(**{**values, **others}).settled(False)
    options.check()
    return options


def read_vocabulary(folder: PathLike, kind: Any) -> Any:
    """What vocab.json of a run holds, read by `kind.from_json`, a class of tags."""
    path = Path(folder) / VOCABULARY
    with found_in(path):
        vocabulary = kind.from_json(read_json(path))
        if (scheme := read_config(folder)['scheme']) != PLAIN:
            allowed_transitions(scheme, vocabulary.tags)
    return vocabulary


def check_tensors(path: PathLike) -> None:
    """Raises CorpusError if the file is not there or damaged."""
    if not Path(path).is_file():
        raise CorpusError(path, None, 'no such file; expected a run that training has brought to the end of an epoch')
    check_readable(path)                         # before MindSpore, which would log it
    checksums.check(path)


def read_tensors(path: PathLike) -> dict[str, np.ndarray]:
    """A dict of arrays; raises CorpusError if the file is damaged."""
    import mindspore as ms
    check_tensors(path)
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


def as_arrays(parameters: Iterable[Any]) -> dict[str, np.ndarray]:
    """Names and values of Parameters."""
    return {parameter.name: np.array(parameter.asnumpy()) for parameter in parameters}
