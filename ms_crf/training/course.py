"""Starts and resumes the training of any model type: reads options and files, and creates the run directory.

Model types with gradient steps use `StepTraining` of `trainer`. Model types that are estimated in one pass, such as
hidden Markov models, use `OneShotTraining`.
"""

import json
import time
from collections.abc import Container
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ms_crf.base.errors import CorpusError, argument
from ms_crf.base.files import PathLike, temporary
from ms_crf.formats.dataset import Corpora, load
from ms_crf.models.base import Kind, Learner, StepLearner, kind_of, kind_of_run
from ms_crf.runs import checksums, records
from ms_crf.runs.directory import ReadOnlyRun, RunDirectory, new_beside
from ms_crf.runs.options import Options
from ms_crf.runs.records import saving, settle
from ms_crf.runs.run import SavedRun
from ms_crf.text.splitting import AUTO, mostly_characters, suited
from ms_crf.training.scores import scores_record
from ms_crf.training.watchers import TrainingWatcher
from ms_crf.training.workers import ALONE, Workers, broadcast, check_workers_agree

if TYPE_CHECKING:
    from ms_crf.training.trainer import StepTraining


def start(options: Options, watcher: TrainingWatcher, overwrite: bool = False,
          workers: Workers = ALONE) -> 'StepTraining | OneShotTraining':
    """Starts a new run in the folder `options.save`. Nothing is written before all input has been read.

    Args:
        options: the checked options of the run.
        watcher: receives the events of the training.
        overwrite: whether to replace an earlier run in the folder.
        workers: the position of this process among the workers.

    Returns:
        The training; call its method `run`.

    Raises:
        PathExists: the folder exists, and must not be overwritten.
        CorpusError: an input file is invalid.
        OptionError: the options are invalid for this input.
    """
    kind = kind_of(options)
    with ExitStack() as on_error:
        directory = RunDirectory.new(options.save, overwrite) if workers.leads else ReadOnlyRun(options.save, False)
        on_error.callback(directory.release)
        corpora = _read(options, watcher, _for_bio(kind, options), options.allow_any_tags)
        started = time.perf_counter()
        words = {token for sentence in corpora.parts['train'] for token in sentence.tokens}
        options = options.settled(mostly_characters(words))
        learner = kind.learner(options, corpora, watcher)
        seconds = time.perf_counter() - started
        config = {'format': records.FORMAT, 'model': kind.name, **learner.record(), 'options': options.to_json(),
                  'scheme': corpora.scheme, 'found_scheme': corpora.file_scheme, 'written_scheme': corpora.written,
                  'splitter': corpora.splitter or suited(words) if options.splitter == AUTO else options.splitter,
                  checksums.CORPORA: checksums.corpora_digests(options)}
        check_workers_agree(workers, learner)
        if workers.leads:
            directory.create(config, learner.vocabulary.to_json(), learner.fill)
        run = (_training(options, directory, corpora, learner, watcher, workers) if kind.in_steps
               else OneShotTraining(directory, corpora, learner, seconds))
        on_error.pop_all()
    return run


def resume(folder: PathLike, options: Options, watcher: TrainingWatcher, workers: Workers = ALONE,
           named: Container[str] = ()) -> 'StepTraining | OneShotTraining':
    """Resumes a stopped run. The training files must not have changed.

    Args:
        folder: the run directory.
        options: the options of the run; changed values are saved in config.json.
        watcher: receives the events of the training.
        workers: the position of this process among the workers; the number of workers can change.
        named: the parts ('train', 'dev', 'test') that the user names. All other files must pass
            `checksums.corpus_fault`.

    Returns:
        The training; call its method `run`.

    Raises:
        CorpusError: the run cannot be resumed, or the files have changed.
    """
    with ExitStack() as on_error:
        directory = RunDirectory.resumed(folder) if workers.leads else ReadOnlyRun(folder, True)
        on_error.callback(directory.release)
        if workers.leads:
            settle(directory.folder)             # complete or undo a save that a crash interrupted
        broadcast(workers)                       # all workers wait before they read the folder
        before = SavedRun.open(directory.folder)
        kind = kind_of_run(before)
        if not kind.in_steps:
            raise CorpusError(folder, None, f'cannot be resumed: the model type {kind.name} is estimated at once, not '
                                            'in steps')
        check_run(before, watcher)
        options = options.settled_as(before.options)
        _check_sources(before, options, named)
        corpora = _read(options, watcher, before.scheme, True)        # the tags were checked when the run started
        learner = _learner_of(kind, options, corpora, watcher, before)
        check_input(before, options, learner)
        check_workers_agree(workers, learner)
        run = _training(options, directory, corpora, learner, watcher, workers)
        if workers.leads:
            keep_options(before, run.folder, options)
        on_error.pop_all()
    return run


def _check_sources(run: SavedRun, options: Options, named: Container[str]) -> None:
    """Raises CorpusError if a file that the user does not name has changed since the run started."""
    for part in checksums.PARTS:
        path = getattr(options, part)
        fault = checksums.corpus_fault(run.config, options, part) if path and part not in named else None
        if fault == checksums.CHANGED:
            raise _changed(path, 'sentences', run)
        if fault is not None:
            raise CorpusError(path, None, f'the {part} file that {run.path / records.CONFIG} names {fault}; restore '
                                          f'the file, or name it with {argument(part)}')


def _learner_of(kind: type[Kind], options: Options, corpora: Corpora, watcher: TrainingWatcher,
                run: SavedRun) -> Learner:
    """Returns the learner of a resumed run. Error messages never show the content of its vector file, because the path
    of this file comes from config.json and not from the user."""
    try:
        return kind.learner(options, corpora, watcher, run)
    except CorpusError as error:
        if not options.embeddings or error.path != options.embeddings:
            raise
    raise _changed(options.embeddings, 'vectors', run)


def _changed(path: str, what: str, run: SavedRun) -> CorpusError:
    return CorpusError(path, None, f'the {what} have changed since {run.path} was started; restore the file or start a '
                                   'new run')


def _for_bio(kind: type[Kind], options: Options) -> str:
    """Returns the tag scheme to train in for BIO files if no scheme is named.

    BIOES tags mark the last token of a span, which improves the model. With constraints, each BIO tagging corresponds
    to exactly one BIOES tagging. A run with `init` uses the scheme of the base run.
    """
    before = SavedRun.open(options.init).scheme if options.init else None
    if before in ('BIO', 'BIOES'):
        return before
    return 'BIOES' if kind.in_steps and options.head == 'crf' and options.constraints else 'BIO'


def _read(options: Options, watcher: TrainingWatcher, for_bio: str, any_tags: bool) -> Corpora:
    """Reads the sentences of a run, and reports them to the watcher."""
    paths = {part: path for part in checksums.PARTS if (path := getattr(options, part))}
    corpora = load(paths, options.scheme, options.column_pair(), options.splitter, options.unknown_tag, for_bio,
                   any_tags)
    watcher.corpora(corpora)
    return corpora


def _training(options: Options, directory: RunDirectory, corpora: Corpora, learner: Learner,
              watcher: TrainingWatcher, workers: Workers) -> 'StepTraining':
    from ms_crf.training.trainer import StepTraining  # here, because it imports MindSpore
    return StepTraining(options, directory, corpora, cast(StepLearner, learner), watcher, workers)


def check_run(run: SavedRun, watcher: TrainingWatcher) -> None:
    """Raises CorpusError if files are missing that the resumed training needs."""
    folder = run.path
    state, weights = folder / records.STATE, folder / records.WEIGHTS
    if not state.exists() and (weights.exists() or run.metrics):
        left = f'tagging with {records.WEIGHTS} still works; ' if weights.exists() else ''
        raise CorpusError(state, None, f'no such file; a training with finished epochs cannot resume without it; {left}'
                                       'restore the file, or start a new training in another folder')
    if not state.exists() and run.config['options'].get('init'):
        raise CorpusError(state, None, f'no such file; it contains the weights from the run of {argument("init")}, and '
                                       'the training cannot resume without it; restore the file, or start again')
    other = new_beside(folder)
    if (other / records.STATE).exists():
        watcher.say(f'{other} holds a training that was stopped before it replaced {folder}; to continue it, resume '
                    f'{other}')


def check_input(run: SavedRun, options: Options, learner: Learner) -> None:
    """Raises CorpusError if the content of the training files or of the vectors has changed since the run started.

    Args:
        run: the resumed run; config.json of earlier versions has fewer checksums.
        options: the options of the training.
        learner: the learner with the current content of the files.
    """
    folder, config = run.path, run.config
    record = {name: value for name, value in learner.record().items() if name in config}
    for name, what, path in (('text_sha256', 'sentences', options.train), ('dev_sha256', 'sentences', options.dev),
                             ('vectors_sha256', 'vectors', options.embeddings)):
        if name in record and record[name] != config[name]:
            raise _changed(path, what, run)
    if run.vocabulary_record != learner.vocabulary.to_json() or record != {name: config[name] for name in record}:
        raise CorpusError(folder, None, 'the training files or word vectors have changed since the run was started; '
                                        'restore the files or start a new run')


def keep_options(before: SavedRun, folder: Path, options: Options) -> None:
    """Saves changed options and the checksums of renamed files in config.json, for the next resume."""
    known, digests = before.options.to_json(), checksums.corpora_digests(options)
    changed = {name: value for name, value in options.to_json().items() if value != known[name]}
    if changed or digests != before.config.get(checksums.CORPORA):
        config = {**before.config, 'options': {**before.config['options'], **changed}, checksums.CORPORA: digests}
        records.write_json(folder / records.CONFIG, config)


class OneShotTraining:
    """A training without steps: the learner has already estimated the model, which is now scored and saved.

    Args:
        directory: the existing run directory, with the model.
        corpora: the sentences, converted to one tag scheme.
        learner: the learner with the estimated model.
        seconds: duration of the estimation.
    """

    stoppable = False
    epoch = step_in_epoch = 0

    def __init__(self, directory: RunDirectory, corpora: Corpora, learner: Learner, seconds: float) -> None:
        self.directory, self.corpora, self.learner, self.seconds = directory, corpora, learner, seconds

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.directory.folder

    def run(self) -> dict:
        """Scores and saves the model, and unlocks the directory; returns the content of scores.json."""
        # If the new run cannot replace the earlier run, the new folder is removed.
        draft: Any = nullcontext() if self.directory.earlier is None else temporary(self.folder)
        try:
            with draft:
                decoder = self.learner.decoder(None, None)
                scores = scores_record(0, 0, self.corpora, self.learner, decoder)
                metrics = {'epoch': 0, **scores['dev'], 'seconds': round(self.seconds, 3)}
                del metrics['table']
                with saving(self.folder) as new:
                    new.text(records.METRICS, json.dumps(metrics) + '\n')
                    new.json(records.SCORES, scores)
                self.directory.publish()
                return scores
        finally:
            self.directory.release()
