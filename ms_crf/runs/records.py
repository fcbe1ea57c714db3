"""The run directory: one folder is a model. JSON and tensors only; every file is written whole or not at all.

config.json     options, scheme and sizes
vocab.json      words, characters and tags in the order of their ids
weights.ckpt    the weights of the best epoch: what tagging needs
encoder/        the pretrained encoder under them, if there is one and config.json does not name another folder
tables.npz      in place of weights: those of a hidden Markov model
state.ckpt      weights, optimizer and position for resuming; one file, so that it is always of one moment
metrics.jsonl   a line an epoch
scores.json     what the best epoch is worth on dev and test
checksums.json  by which damage to the files above is noticed
lock            held by the training that writes to the folder

How it is written to says `saving`, where it is made `run_place`.
"""

import os
import zipfile
from pathlib import Path

from ms_crf import files
from ms_crf.runs import checksums
from ms_crf.text.schemes import allowed_transitions
from ms_crf.models.encoder.pretrained import EncoderFiles
from ms_crf.errors import CorpusError, OptionError, brief
from ms_crf.models.hmm.hmm import HMM
from ms_crf.models.hmm.symbols import Words
from ms_crf.options import WIDEST, Options
from ms_crf.runs.saving import NAMES, quiet, saving
from ms_crf.text.schemes import PLAIN, SCHEMES
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.models.labels import check_strings

import numpy as np

CONFIG, VOCABULARY, TABLES, WEIGHTS, METRICS, STATE, SCORES = NAMES
CHECKSUMS, ENCODER = checksums.RECORD, 'encoder'
_HMM_TABLES = ('start', 'transition', 'emission', 'end')
FORMAT, MODELS = 1, ('bilstm', 'hmm', 'encoder')


def create(path, config, vocabulary):
    """Makes the folder, unless it is there, with both records in it."""
    Path(path).mkdir(parents=True, exist_ok=True)
    with saving(path) as new:
        new.json(CONFIG, config)
        new.json(VOCABULARY, vocabulary)


def write_json(path, record):
    """Replaces one file of a run."""
    with saving(Path(path).parent) as new:
        new.json(Path(path).name, record)


def write_tensors(path, arrays):
    """Likewise, by a dict of arrays."""
    with saving(Path(path).parent) as new:
        new.tensors(Path(path).name, arrays)


def read_json(path):
    """Raises CorpusError if the file is not there, damaged or not JSON."""
    data = files.read_whole(path, 'no such file; expected a run made by train.py')
    checksums.check(path)
    return files.parse_json(path, data, 'train.py')


def newest(folder):
    """The run in a folder whose weights are the newest; raises CorpusError if there is none."""
    weights = [path for name in (WEIGHTS, TABLES) for path in Path(folder).glob(f'*/{name}')
               if not path.parent.name.startswith('.')]          # of runs that have not taken their places yet
    weights.sort(key=lambda path: path.stat().st_mtime)
    if not weights:
        raise CorpusError(folder, None, 'no run there yet; make one with: python train.py')
    return weights[-1].parent


def read_metrics(folder):
    """The records of metrics.jsonl, one an epoch."""
    path = Path(folder) / METRICS
    if not path.exists():
        return []
    data = files.read_whole(path, 'no such file')
    checksums.check(path)
    records = [files.parse_json(path, line, 'train.py') for line in data.splitlines()]
    if not all(isinstance(record, dict) for record in records):
        raise CorpusError(path, None, 'expected a JSON object a line, as train.py writes them')
    return records


def read_config(folder):
    """What config.json holds; raises CorpusError unless a version of this program made it that this one reads."""
    path = Path(folder) / CONFIG
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get('options'), dict):
        raise CorpusError(path, None, 'expected the configuration of a run, with "options" in it, got something else')
    if record.get('format') != FORMAT or record.get('model') not in MODELS:
        found = f'{brief(record.get("format"))} and {brief(record.get("model"))}'
        raise CorpusError(path, None, f'expected "format": {FORMAT} and "model": {" or ".join(MODELS)}, got {found}; '
                                      'another version of this program made it, train again')
    width = record.get('word_dim')
    if record['model'] == 'bilstm' and not (type(width) is int and 0 < width <= WIDEST):
        raise CorpusError(path, None, f'expected "word_dim" to be from 1 to {WIDEST:,}, got {brief(width)}')
    encoder = record.get('encoder')
    if record['model'] == 'encoder' and not (isinstance(encoder, dict) and sorted(encoder) == ['folder', 'sha256']
                                             and all(isinstance(value, str) for value in encoder.values())):
        raise CorpusError(path, None, f'expected "encoder" to have "folder" and "sha256", got {brief(encoder)}')
    if record['model'] == 'encoder' and not isinstance(record.get('text_sha256'), str):
        raise CorpusError(path, None, f'expected "text_sha256" to be text, got {brief(record.get("text_sha256"))}')
    for name in ('scheme', 'found_scheme'):
        if record.get(name) not in SCHEMES:
            raise CorpusError(path, None, f'expected "{name}" to be one of {", ".join(SCHEMES)}, '
                                          f'got {brief(record.get(name))}')
    return record


def read_options(folder, config, **others):
    """The `Options` in what `read_config` gave, with others in place of some."""
    path = Path(folder) / CONFIG
    try:
        given = Options.read(config['options'], path)
        Options(**given).check()
    except OptionError as error:
        raise CorpusError(path, None, str(error).removeprefix(f'{path}: ')) from None
    options = Options(**{**given, **others})
    options.check()
    return options


def read_vocabulary(folder, kind=Vocabulary):
    """The `Vocabulary` of a run, or another kind of `Tags`."""
    path = Path(folder) / VOCABULARY
    try:
        made = kind.from_json(read_json(path))
        _check_scheme(folder, made.tags)
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None
    return made


def _check_scheme(folder, tags):
    """Raises ValueError unless the tags of a run are of its scheme."""
    scheme = read_config(folder)['scheme']
    if scheme != PLAIN:
        allowed_transitions(scheme, tags)


def read_encoder(folder, config):
    """The `EncoderFiles` of a run, and what `read_config` gave of it."""
    path = Path(folder) / config['encoder']['folder']            # which may be one elsewhere
    if not os.path.isdir(path):
        raise CorpusError(path, None, f'no such folder; {folder}/{CONFIG} names it as the encoder of the run; '
                                      'put it back, or name it there anew')
    found = EncoderFiles(path)
    if checksums.checksum(found.paths()) != config['encoder']['sha256']:
        raise CorpusError(path, None, f'expected the encoder that {folder} was trained with, got another or a damaged '
                                      'one; restore it or train again')
    return found


def read_tensors(path):
    """A dict of arrays; raises CorpusError if the file is damaged."""
    import mindspore as ms
    if not Path(path).is_file():
        raise CorpusError(path, None, 'no such file; expected a run that train.py has brought to the end of an epoch')
    checksums.check(path)
    try:
        with quiet():
            return {name: parameter.asnumpy() for name, parameter in ms.load_checkpoint(str(path)).items()}
    except (ValueError, RuntimeError, TypeError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CorpusError(path, None, f'expected tensors as train.py writes them: {first}') from None


def write_hmm(folder, model):
    """Writes the tables of an `HMM` of words; `hmm_vocabulary` goes into vocab.json."""
    with saving(folder) as new:
        new.arrays(TABLES, {name: getattr(model, f'log_{name}') for name in _HMM_TABLES})


def hmm_vocabulary(model):
    """What vocab.json of an `HMM` of words holds."""
    return {'tags': model.states, **model.words.to_json()}


def read_hmm(folder):
    """The `HMM` of a run; raises CorpusError if its files are damaged or don't fit."""
    path = Path(folder) / VOCABULARY
    record = read_json(path)
    lists = ('tags', 'words', 'shapes')
    if not isinstance(record, dict) or sorted(record) != sorted(lists):
        raise CorpusError(path, None, 'expected the keys tags, words and shapes, as of a hidden Markov model')
    try:
        check_strings(record, lists)
        _check_scheme(folder, record['tags'])
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None
    path = Path(folder) / TABLES
    if not path.is_file():
        raise CorpusError(path, None, 'no such file; expected a run of --model hmm')
    checksums.check(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            tables = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise CorpusError(path, None, f'expected tables as train.py writes them: {error}') from None
    tags = len(record['tags'])
    columns = len(record['words']) + len(record['shapes']) + 1
    check_fit(path, tables, {'start': (tags,), 'transition': (tags, tags), 'emission': (tags, columns), 'end': (tags,)})
    try:
        model = HMM(*(tables[name] for name in _HMM_TABLES), log=True)
    except (ValueError, TypeError) as error:
        raise CorpusError(path, None, str(error)) from None
    model.states, model.words = record['tags'], Words(record['words'], record['shapes'])
    return model


def check_fit(path, arrays, shapes):
    """Raises CorpusError unless the arrays have exactly these names and shapes."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise CorpusError(path, None, f'expected a tensor {name}, got none')
        if arrays[name].shape != tuple(shape):
            raise CorpusError(path, None, f'expected {name} of shape {tuple(shape)}, got {arrays[name].shape}')
    strange = sorted(set(arrays) - set(shapes))
    if strange:
        raise CorpusError(path, None, f'expected no tensor {strange[0]}, got one')


def as_arrays(parameters):
    """Names and values of Parameters."""
    return {parameter.name: np.array(parameter.asnumpy()) for parameter in parameters}
