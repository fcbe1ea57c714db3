"""The run directory: one folder is a model. JSON and tensors only; every file is written whole or not at all.

config.json    options, scheme and sizes
vocab.json     words, characters and tags in the order of their ids
weights.ckpt   the weights of the best epoch: what tagging needs
encoder/       the pretrained encoder under them, if there is one and config.json does not name another folder
tables.npz     in place of weights: those of a hidden Markov model
state.ckpt     weights, optimizer and position for resuming; one file, so that it is always of one moment
metrics.jsonl  a line an epoch
scores.json    what the best epoch is worth on dev and test
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import stat
import zipfile
from pathlib import Path

from ms_crf.encoder_files import EncoderFiles
from ms_crf.errors import CorpusError, OptionError
from ms_crf.hmm import HMM
from ms_crf.hmm_words import Words
from ms_crf.options import Options
from ms_crf.spans import SCHEMES
from ms_crf.vocabulary import Vocabulary

import numpy as np

CONFIG, VOCABULARY, WEIGHTS, STATE, METRICS, SCORES = (
    'config.json', 'vocab.json', 'weights.ckpt', 'state.ckpt', 'metrics.jsonl', 'scores.json')
TABLES, ENCODER = 'tables.npz', 'encoder'
_HMM_TABLES = ('start', 'transition', 'emission', 'end')
FORMAT, MODELS = 1, ('bilstm', 'hmm', 'encoder')


def check_new(path):
    """Raises CorpusError unless a folder of this name can be made."""
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise CorpusError(path, None, 'expected a folder that is not there yet, got one that is; '
                                      'choose another --save, go on with --resume, or add --overwrite')
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise CorpusError(path, None, f'can not be made: {parent} is not a folder that you may write to')


def check_place(path, overwrite):
    """Raises CorpusError unless a run can be made there, in place of another if `overwrite`."""
    if overwrite and Path(path).exists():
        check_run(path)
    else:
        check_new(path)


def create(path, config, vocabulary, overwrite=False, fill=None):
    """Makes the folder with both records in it, at once; what `overwrite` allows to be there is deleted.

    Args:
        path: the folder.
        config, vocabulary: the records.
        overwrite: whether a run may be there already.
        fill: is called with the folder, before it has its name, and puts more into it; may raise OSError.
    """
    path = Path(path)
    draft = path.with_name(f'.{path.name}.{os.getpid()}')
    try:
        draft.mkdir(parents=True)
        write_json(draft / CONFIG, config)
        write_json(draft / VOCABULARY, vocabulary)
        if fill is not None:
            fill(draft)
        if overwrite and path.exists():
            remove(path)
        os.replace(draft, path)
    except (OSError, CorpusError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise CorpusError(path, None, f'can not be written: {reason}') from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)                 # if it has not its name by now


def check_run(path):
    """Raises CorpusError unless the folder is a run and nothing else."""
    path = Path(path)
    known = {CONFIG, VOCABULARY, WEIGHTS, TABLES, ENCODER, STATE, METRICS, SCORES, 'weights.tmp', 'state.tmp'}
    names = {file.name.removeprefix('.') for file in path.iterdir()} if path.is_dir() else set()
    if CONFIG not in names or names - known:
        raise CorpusError(path, None, 'expected a run of this program to overwrite, got something else; '
                                      'choose another --save')


def remove(path):
    """Deletes a run, and nothing that is not one."""
    check_run(path)
    shutil.rmtree(path)


@contextlib.contextmanager
def _draft(path):
    """A name to write to, of which `path` becomes the name when all is written; raises CorpusError if that fails."""
    draft = path.with_name(f'.{path.name}')
    try:
        draft.unlink(missing_ok=True)
        yield draft
        with open(draft, 'rb') as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    except (OSError, RuntimeError) as error:                     # the second is MindSpore's for a full disk
        reason = getattr(error, 'strerror', None) or str(error).strip().splitlines()[0]
        for left in (draft, draft.with_suffix('.tmp')):          # the second is what MindSpore writes to
            with contextlib.suppress(OSError):
                left.unlink(missing_ok=True)
        raise CorpusError(path, None, f'can not be written: {reason}; what was saved before stays') from None


@contextlib.contextmanager
def _quiet():
    """Keeps MindSpore from logging what it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def write_text(path, text):
    with _draft(path) as draft:
        draft.write_text(text, encoding='utf-8')


def write_json(path, record):
    write_text(path, json.dumps(record, ensure_ascii=False, indent=1) + '\n')


def write_tensors(path, arrays):
    """Writes a dict of arrays."""
    import mindspore as ms  # here, because models without tensors need no MindSpore
    with _draft(path) as draft, _quiet():
        ms.save_checkpoint([{'name': name, 'data': ms.Tensor(array)} for name, array in arrays.items()], str(draft))
        draft.chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH)


def read_json(path):
    """Raises CorpusError if the file is not there or not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding='utf-8'))
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(path, None, 'no such file; expected a run made by train.py') from None
    except (ValueError, OSError) as error:
        raise CorpusError(path, None, f'expected JSON as train.py writes it: {error}') from None


def newest(folder):
    """The run in a folder whose weights are the newest; raises CorpusError if there is none."""
    weights = [path for name in (WEIGHTS, TABLES) for path in Path(folder).glob(f'*/{name}')]
    weights.sort(key=lambda path: path.stat().st_mtime)
    if not weights:
        raise CorpusError(folder, None, 'no run there yet; make one with: python train.py')
    return weights[-1].parent


def read_metrics(folder):
    """The records of metrics.jsonl, one an epoch."""
    path = Path(folder) / METRICS
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]
    except (ValueError, OSError) as error:
        raise CorpusError(path, None, f'expected a JSON object a line, as train.py writes them: {error}') from None


def read_config(folder):
    """What config.json holds; raises CorpusError unless a version of this program made it that this one reads."""
    path = Path(folder) / CONFIG
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get('options'), dict):
        raise CorpusError(path, None, 'expected the configuration of a run, with "options" in it, got something else')
    if record.get('format') != FORMAT or record.get('model') not in MODELS:
        raise CorpusError(path, None, f'expected "format": {FORMAT} and "model": {" or ".join(MODELS)}, got '
                                      f'{record.get("format")!r} and {record.get("model")!r}; another version of this '
                                      'program made it, train again')
    if record['model'] == 'bilstm' and (not isinstance(record.get('word_dim'), int) or record['word_dim'] < 1):
        raise CorpusError(path, None, f'expected "word_dim" to be a positive number, got {record.get("word_dim")!r}')
    encoder = record.get('encoder')
    if record['model'] == 'encoder' and not (isinstance(encoder, dict) and sorted(encoder) == ['folder', 'sha256']
                                             and all(isinstance(value, str) for value in encoder.values())):
        raise CorpusError(path, None, f'expected "encoder" to have "folder" and "sha256", got {encoder!r}')
    if record['model'] == 'encoder' and not isinstance(record.get('text_sha256'), str):
        raise CorpusError(path, None, f'expected "text_sha256" to be text, got {record.get("text_sha256")!r}')
    for name in ('scheme', 'found_scheme'):
        if record.get(name) not in SCHEMES:
            raise CorpusError(path, None, f'expected "{name}" to be one of {", ".join(SCHEMES)}, '
                                          f'got {record.get(name)!r}')
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
        return kind.from_json(read_json(path))
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None


def checksum(paths):
    """SHA-256 of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, 'rb') as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise CorpusError(path, None, f'can not be read: {error.strerror}') from None
    return digest.hexdigest()


def read_encoder(folder, config):
    """The `EncoderFiles` of a run, and what `read_config` gave of it."""
    path = Path(folder) / config['encoder']['folder']            # which may be one elsewhere
    if not os.path.isdir(path):
        raise CorpusError(path, None, f'no such folder; {folder}/{CONFIG} names it as the encoder of the run; '
                                      'put it back, or name it there anew')
    files = EncoderFiles(path)
    if checksum(files.paths()) != config['encoder']['sha256']:
        raise CorpusError(path, None, f'expected the encoder that {folder} was trained with, got another or a damaged '
                                      'one; restore it or train again')
    return files


def read_tensors(path):
    """A dict of arrays; raises CorpusError if the file is damaged."""
    import mindspore as ms
    if not Path(path).is_file():
        raise CorpusError(path, None, 'no such file; expected a run that train.py has brought to the end of an epoch')
    try:
        with _quiet():
            return {name: parameter.asnumpy() for name, parameter in ms.load_checkpoint(str(path)).items()}
    except (ValueError, RuntimeError, TypeError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CorpusError(path, None, f'expected tensors as train.py writes them: {first}') from None


def write_hmm(folder, model):
    """Writes the tables of an `HMM` of words; `hmm_vocabulary` goes into vocab.json."""
    path = Path(folder) / TABLES
    with _draft(path) as draft, open(draft, 'wb') as file:       # a name would get an ending
        np.savez(file, **{name: getattr(model, f'log_{name}') for name in _HMM_TABLES})


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
    for name in lists:
        if not isinstance(record[name], list) or not all(isinstance(item, str) for item in record[name]):
            raise CorpusError(path, None, f'expected {name} to be a list of strings')
    path = Path(folder) / TABLES
    if not path.is_file():
        raise CorpusError(path, None, 'no such file; expected a run of --model hmm')
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
