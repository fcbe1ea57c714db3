"""How a training begins and goes on, whatever kind of model it is for: from options and files to a run directory."""

import time
from contextlib import ExitStack

from ms_crf.errors import CorpusError, OptionError
from ms_crf.models.base import kind_of, read_run
from ms_crf.runs import records
from ms_crf.runs.place import Place, new_beside
from ms_crf.runs.saving import settle
from ms_crf.text.dataset import load
from ms_crf.training.at_once import AtOnce


def start(options, watcher, overwrite=False):
    """A new run in `options.save`, a `Training` or an `AtOnce`; nothing is written before all input has been read.

    Args:
        options: `Options`, checked.
        watcher: is told what happens; see `Watcher` of the command.
        overwrite: whether a run may be there already.
    """
    kind = kind_of(options)
    with ExitStack() as fault:
        place = Place(options.save, overwrite)
        fault.callback(place.release)
        corpora, began = _read(options, watcher), time.perf_counter()
        learner = kind.learner(options, corpora, watcher)
        seconds = time.perf_counter() - began
        config = {'format': records.FORMAT, 'model': kind.name, **learner.record(), 'options': options.to_json(),
                  'scheme': corpora.scheme, 'found_scheme': corpora.found}
        place.create(config, learner.vocabulary.to_json(), learner.fill)
        if kind.in_steps:
            made = _training(options, place, corpora, learner, watcher)
        else:
            made = AtOnce(place, corpora, learner, seconds)
        fault.pop_all()
    return made


def resume(folder, options, watcher):
    """Goes on with a run; its files must be what they were. Options that are others than before are kept in it."""
    with ExitStack() as fault:
        place = Place.resumed(folder)
        fault.callback(place.release)
        settle(place.folder)                     # a saving that a crash has cut off
        kind, config = read_run(place.folder)
        if not kind.in_steps:
            raise OptionError('--resume goes on with trainings in steps; a run of --model '
                              f'{kind.name} is learned at once')
        check_run(place.folder, watcher)
        corpora = _read(options, watcher)
        learner = kind.learner(options, corpora, watcher, (place.folder, config))
        check_input(place.folder, config, options, learner)
        made = _training(options, place, corpora, learner, watcher)
        keep_options(made.folder, options)
        fault.pop_all()
    return made


def _read(options, watcher):
    paths = {part: path for part in ('train', 'dev', 'test') if (path := getattr(options, part))}
    corpora = load(paths, options.scheme, options.column_pair())
    watcher.corpora(corpora)
    return corpora


def _training(options, place, corpora, learner, watcher):
    from ms_crf.training.trainer import Training  # here, because it starts MindSpore
    return Training(options, place, corpora, learner, watcher)


def check_run(folder, watcher):
    """Raises CorpusError if a run can't go on."""
    state, weights = folder / records.STATE, folder / records.WEIGHTS
    if not state.exists() and (weights.exists() or records.read_metrics(folder)):
        left = f'{records.WEIGHTS} is there, to tag with; ' if weights.exists() else ''
        raise CorpusError(state, None, f'no such file, and a training that has epochs can not go on without it; {left}'
                                       'restore it, or train from the start with another --save')
    other = new_beside(folder)
    if (other / records.STATE).exists():
        watcher.say(f'{other} holds a training that was stopped before it could take the place of {folder}; go on with '
                    f'that by --resume {other}')


def check_input(folder, config, options, learner):
    """Raises CorpusError unless a training reads what it read when the run began.

    Args:
        folder: the run directory.
        config: what is in config.json; of earlier versions, less than today.
        options: `Options`.
        learner: a `StepLearner`.
    """
    record = {name: value for name, value in learner.record().items() if name in config}
    for name, what, path in (('text_sha256', 'sentences', options.train), ('dev_sha256', 'sentences', options.dev),
                             ('vectors_sha256', 'vectors', options.embeddings)):
        if name in record and record[name] != config[name]:
            raise CorpusError(path, None, f'these are not the {what} that {folder} began with; restore them or begin a '
                                          'new run')
    known = records.read_json(folder / records.VOCABULARY)
    if known != learner.vocabulary.to_json() or record != {name: config[name] for name in record}:
        raise CorpusError(folder, None, 'the training files or word vectors are not those that the run began with; '
                                        'restore them or begin a new run')


def keep_options(folder, options):
    """Puts the options of a resumption into config.json, so that the next one needs not name them again."""
    config = records.read_config(folder)
    before = records.read_options(folder, config).to_json()
    changed = {name: value for name, value in options.to_json().items() if value != before[name]}
    if changed:
        config['options'].update(changed)
        records.write_json(folder / records.CONFIG, config)


class Stopped(Exception):
    """The user has stopped the run; it is saved."""


class NotFinite(Exception):
    """The loss is no number; what was saved before stays."""
