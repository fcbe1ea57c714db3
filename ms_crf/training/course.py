"""How a training begins or is resumed, for any model type: from options and files to a run in its directory.

A model that is trained in steps gets the `Training` of `trainer`, a model that is fitted at once the `Fitted` here.
"""

import json
import time
from collections.abc import Container
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ms_crf.base.errors import CorpusError
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
from ms_crf.training.workers import ALONE, Workers, check_together, tell

if TYPE_CHECKING:
    from ms_crf.training.trainer import Training


def start(options: Options, watcher: TrainingWatcher, overwrite: bool = False,
          workers: Workers = ALONE) -> 'Training | Fitted':
    """Begins a new run in the folder that the options name; nothing is written before all input has been read.

    Args:
        options: those of the run, checked.
        watcher: is told how it goes on.
        overwrite: whether an earlier run may be there, which the new one replaces.
        workers: the processes that train together.

    Raises:
        PathExists: there is something in that folder.
        CorpusError, OptionError: the input has a fault, or the options ask for what can't be.
    """
    kind = kind_of(options)
    with ExitStack() as fault:
        directory = RunDirectory.new(options.save, overwrite) if workers.leads else ReadOnlyRun(options.save, False)
        fault.callback(directory.release)
        corpora = _read(options, watcher, _for_bio(kind, options), options.allow_any_tags)
        began = time.perf_counter()
        words = {token for sentence in corpora.parts['train'] for token in sentence.tokens}
        options = options.settled(mostly_characters(words))
        learner = kind.learner(options, corpora, watcher)
        seconds = time.perf_counter() - began
        config = {'format': records.FORMAT, 'model': kind.name, **learner.record(), 'options': options.to_json(),
                  'scheme': corpora.scheme, 'found_scheme': corpora.file_scheme, 'written_scheme': corpora.written,
                  'splitter': corpora.splitter or suited(words) if options.splitter == AUTO else options.splitter,
                  checksums.CORPORA: checksums.corpora_digests(options)}
        check_together(workers, learner)
        if workers.leads:
            directory.create(config, learner.vocabulary.to_json(), learner.fill)
        run = (_training(options, directory, corpora, learner, watcher, workers) if kind.in_steps
               else Fitted(directory, corpora, learner, seconds))
        fault.pop_all()
    return run


def resume(folder: PathLike, options: Options, watcher: TrainingWatcher, workers: Workers = ALONE,
           named: Container[str] = ()) -> 'Training | Fitted':
    """Goes on with a run, whose training files must be the same as before.

    Args:
        folder: the run directory.
        options: those of the run, some of them perhaps changed; changes are saved in it.
        watcher: is told how it goes on.
        workers: the processes that train together; they need not be as many as before.
        named: those of 'train', 'dev' and 'test' that the user has named; see `checksums.corpus_fault` for the others.

    Raises:
        CorpusError: the run can't be resumed, or the files are not the same.
    """
    with ExitStack() as fault:
        directory = RunDirectory.resumed(folder) if workers.leads else ReadOnlyRun(folder, True)
        fault.callback(directory.release)
        if workers.leads:
            settle(directory.folder)             # a saving that a crash has cut off
        tell(workers)                            # nobody reads before that
        before = SavedRun.open(directory.folder)
        kind = kind_of_run(before)
        if not kind.in_steps:
            raise CorpusError(folder, None, f'cannot be resumed: a model of kind {kind.name} is learned at once, not '
                                            'in steps')
        check_run(before, watcher)
        options = options.settled_as(before.options)
        _check_sources(before, options, named)
        corpora = _read(options, watcher, before.scheme, True)        # they were accepted when the run began
        learner = _learner_of(kind, options, corpora, watcher, before)
        check_input(before, options, learner)
        check_together(workers, learner)
        run = _training(options, directory, corpora, learner, watcher, workers)
        if workers.leads:
            keep_options(before, run.folder, options)
        fault.pop_all()
    return run


def _check_sources(run: SavedRun, options: Options, named: Container[str]) -> None:
    """Raises CorpusError if a corpus that only config.json names is not the one that the run began with."""
    for part in checksums.PARTS:
        path = getattr(options, part)
        fault = checksums.corpus_fault(run.config, options, part) if path and part not in named else None
        if fault == checksums.CHANGED:
            raise _changed(path, 'sentences', run)
        if fault is not None:
            raise CorpusError(path, None, f'the {part} file that {run.path / records.CONFIG} names {fault}; restore '
                                          'it, or name it anew')


def _learner_of(kind: type[Kind], options: Options, corpora: Corpora, watcher: TrainingWatcher,
                run: SavedRun) -> Learner:
    """The learner of a run that is resumed; of vectors that only config.json names, no message shows anything."""
    try:
        return kind.learner(options, corpora, watcher, run)
    except CorpusError as error:
        if not options.embeddings or error.path != options.embeddings:
            raise
    raise _changed(options.embeddings, 'vectors', run)


def _changed(path: str, what: str, run: SavedRun) -> CorpusError:
    return CorpusError(path, None, f'these are not the {what} that {run.path} began with; restore them or begin a new '
                                   'run')


def _for_bio(kind: type[Kind], options: Options) -> str:
    """The scheme to train in where BIO is found and none is named.

    BIOES tells more of where a span ends; a constrained chain gives each tagging in BIO by exactly one in BIOES. A run
    that begins with another one has the scheme of that.
    """
    before = SavedRun.open(options.init).scheme if options.init else None
    if before in ('BIO', 'BIOES'):
        return before
    return 'BIOES' if kind.in_steps and options.head == 'crf' and options.constraints else 'BIO'


def _read(options: Options, watcher: TrainingWatcher, for_bio: str, any_tags: bool) -> Corpora:
    """Reads the sentences of a run."""
    paths = {part: path for part in checksums.PARTS if (path := getattr(options, part))}
    corpora = load(paths, options.scheme, options.column_pair(), options.splitter, options.unknown_tag, for_bio,
                   any_tags)
    watcher.corpora(corpora)
    return corpora


def _training(options: Options, directory: RunDirectory, corpora: Corpora, learner: Learner,
              watcher: TrainingWatcher, workers: Workers) -> 'Training':
    from ms_crf.training.trainer import Training  # here, because it starts MindSpore
    return Training(options, directory, corpora, cast(StepLearner, learner), watcher, workers)


def check_run(run: SavedRun, watcher: TrainingWatcher) -> None:
    """Raises CorpusError if files are missing without which a training can't go on."""
    folder = run.path
    state, weights = folder / records.STATE, folder / records.WEIGHTS
    if not state.exists() and (weights.exists() or run.metrics):
        left = f'{records.WEIGHTS} is there, to tag with; ' if weights.exists() else ''
        raise CorpusError(state, None, f'no such file, and a training that has epochs can not go on without it; {left}'
                                       'restore it, or train from the start in another folder')
    if not state.exists() and run.config['options'].get('init'):
        raise CorpusError(state, None, 'no such file; it holds the weights of another run that the training began '
                                       'with, and without it the training can not go on; restore it, or begin again')
    other = new_beside(folder)
    if (other / records.STATE).exists():
        watcher.say(f'{other} holds a training that was stopped before it could replace {folder}; to go on with that, '
                    f'resume {other}')


def check_input(run: SavedRun, options: Options, learner: Learner) -> None:
    """Raises CorpusError unless a training reads what it read when the run began.

    Args:
        run: which is resumed; earlier versions wrote less into its config.json.
        options: those of the training.
        learner: what has been read now.
    """
    folder, config = run.path, run.config
    record = {name: value for name, value in learner.record().items() if name in config}
    for name, what, path in (('text_sha256', 'sentences', options.train), ('dev_sha256', 'sentences', options.dev),
                             ('vectors_sha256', 'vectors', options.embeddings)):
        if name in record and record[name] != config[name]:
            raise _changed(path, what, run)
    if run.vocabulary_record != learner.vocabulary.to_json() or record != {name: config[name] for name in record}:
        raise CorpusError(folder, None, 'the training files or word vectors are not those that the run began with; '
                                        'restore them or begin a new run')


def keep_options(before: SavedRun, folder: Path, options: Options) -> None:
    """Saves changed options in config.json, and the checksums of corpora that were named, so that these need not be
    named again when the run is resumed again."""
    known, digests = before.options.to_json(), checksums.corpora_digests(options)
    changed = {name: value for name, value in options.to_json().items() if value != known[name]}
    if changed or digests != before.config.get(checksums.CORPORA):
        config = {**before.config, 'options': {**before.config['options'], **changed}, checksums.CORPORA: digests}
        records.write_json(folder / records.CONFIG, config)


class Fitted:
    """A run whose model is fitted at once, when it begins: it is only scored and saved.

    Args:
        directory: the run directory, which exists, with the model in it.
        corpora: the sentences, in one scheme.
        learner: the model that was learned from them.
        seconds: that it took to learn.
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
        """Scores and saves the model, and unlocks the directory; returns what scores.json holds."""
        # If it can't replace an earlier run after all, its folder goes.
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
