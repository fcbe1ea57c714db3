"""How a training begins and goes on, whatever kind of model it is for: from options and files to a run directory."""

import time
from contextlib import ExitStack

from ms_crf.errors import OptionError
from ms_crf.models.base import kind_of, read_run
from ms_crf.runs import records
from ms_crf.runs.place import Place
from ms_crf.runs.saving import settle
from ms_crf.text.dataset import load
from ms_crf.training import resuming
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
        resuming.check_run(place.folder, watcher)
        corpora = _read(options, watcher)
        learner = kind.learner(options, corpora, watcher, (place.folder, config))
        resuming.check_input(place.folder, config, options, learner)
        made = _training(options, place, corpora, learner, watcher)
        resuming.keep_options(made.folder, options)
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
