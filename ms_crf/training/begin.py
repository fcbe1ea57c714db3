"""How a training begins, whatever kind of model it is for: from options and files to a `Run` in its directory.

A model that is trained in steps gets the `Training` of `trainer`, one that is fitted at once the `Fitted` here.
"""

import json
import time
from collections.abc import Container, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, Protocol

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import temporary
from ms_crf.base.watchers import Watcher as LearnerWatcher
from ms_crf.formats.dataset import Corpora, load
from ms_crf.formats.scoring import score_in
from ms_crf.models.base import Decoder, Kind, Learner, kind_of, read_run, tags_of
from ms_crf.runs import records, sources
from ms_crf.runs.directory import Onlooker, RunDirectory, new_beside
from ms_crf.runs.options import Options
from ms_crf.runs.saving import saving, settle
from ms_crf.text.metrics import Score, as_record, table
from ms_crf.text.partial import in_scheme
from ms_crf.text.splitting import AUTO, mostly_characters, suited


class Watcher(LearnerWatcher, Protocol):
    """Is told how a training goes on, to show it, and says when the training is to stop."""

    def corpora(self, corpora: Corpora) -> None:
        """Called when the files have been read."""

    def compiled(self, task: str, length: int, rows: int, seconds: float) -> None:
        """Called when a graph was compiled, for the task 'training' or 'tagging', and a batch of this shape."""

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Called when an epoch begins; `done` of its sentences were done already before the training was resumed."""

    def step(self, sentences: int, loss: float) -> None:
        """Called after each step, with the number of sentences in its batch."""

    def epoch_ends(self, record: dict) -> None:
        """Called when an epoch is scored and saved, with its line of metrics.jsonl."""

    def stopping(self) -> bool:
        """Whether the training is to stop after this step."""


class Run(Protocol):
    """A run that has begun."""

    epoch: int                 # epochs that are done
    step_in_epoch: int         # steps of the next epoch that are done
    stoppable: bool            # whether the watcher can stop it; then it is saved

    @property
    def directory(self) -> RunDirectory:
        """The directory of the run, locked."""

    @property
    def folder(self) -> Path:
        """The run directory."""

    def run(self) -> dict:
        """Trains to the end; returns what scores.json holds.

        Raises:
            Stopped: the watcher has stopped it.
            NotFinite: the loss is no number any more.
        """


def start(options: Options, watcher: Watcher, overwrite: bool = False, workers: Any = None) -> Run:
    """Begins a new run in the folder that the options name; nothing is written before all input has been read.

    Args:
        options: those of the run, checked.
        watcher: is told how it goes on.
        overwrite: whether an earlier run may be there, which the new one replaces.
        workers: the `Workers` of `training.workers` that train together; None for one alone.

    Raises:
        PathTaken: there is something in that folder.
        CorpusError, OptionError: the input has a fault, or the options ask for what can't be.
    """
    kind = kind_of(options)
    with ExitStack() as fault:
        leads = workers is None or workers.leads
        directory: Any = RunDirectory.new(options.save, overwrite) if leads else Onlooker(options.save, False)
        fault.callback(directory.release)
        corpora = _read(options, watcher, _for_bio(kind, options), options.allow_any_tags)
        began = time.perf_counter()
        words = {token for sentence in corpora.parts['train'] for token in sentence.tokens}
        options = options.settled(mostly_characters(words))
        learner = kind.learner(options, corpora, watcher)
        seconds = time.perf_counter() - began
        config = {'format': records.FORMAT, 'model': kind.name, **learner.record(), 'options': options.to_json(),
                  'scheme': corpora.scheme, 'found_scheme': corpora.file_scheme, 'written_scheme': corpora.written,
                  'splitter': _splitter(options, corpora, words), sources.NAME: sources.digests_of(options)}
        _check_together(workers, learner)
        if isinstance(directory, RunDirectory):
            directory.create(config, learner.vocabulary.to_json(), learner.fill)
        run = (_training(options, directory, corpora, learner, watcher, workers) if kind.in_steps
               else Fitted(directory, corpora, learner, seconds))
        fault.pop_all()
    return run


def resume(folder: Any, options: Options, watcher: Watcher, workers: Any = None, named: Container[str] = ()) -> Run:
    """Goes on with a run, whose training files must be the same as before.

    Args:
        folder: the run directory.
        options: those of the run, some of them perhaps changed; changes are saved in it.
        watcher: is told how it goes on.
        workers: those that train together, as in `start`; they need not be as many as before.
        named: those of 'train', 'dev' and 'test' that the user has named; see `runs.sources` for the others.

    Raises:
        CorpusError: the run can't be resumed, or the files are not the same.
    """
    with ExitStack() as fault:
        leads = workers is None or workers.leads
        directory: Any = RunDirectory.resumed(folder) if leads else Onlooker(folder, True)
        fault.callback(directory.release)
        if leads:
            settle(directory.folder)                 # a saving that a crash has cut off
        if workers is not None:
            from ms_crf.training.workers import tell
            tell(workers)
        kind, config = read_run(directory.folder)
        if not kind.in_steps:
            raise CorpusError(folder, None, f'can not be resumed: a model of kind {kind.name} is learned at once, not '
                                            'in steps')
        check_run(directory.folder, watcher)
        options = options.settled_as(records.read_options(directory.folder, config))
        _check_sources(directory.folder, config, options, named)
        corpora = _read(options, watcher, config['scheme'], True)        # they were accepted when the run began
        learner = _learner_of(kind, options, corpora, watcher, (directory.folder, config))
        check_input(directory.folder, config, options, learner)
        _check_together(workers, learner)
        run = _training(options, directory, corpora, learner, watcher, workers)
        if leads:
            keep_options(run.folder, options)
        fault.pop_all()
    return run


def _check_sources(folder: Path, config: Mapping[str, Any], options: Options, named: Container[str]) -> None:
    """Raises CorpusError if a corpus that only config.json names is not the one that the run began with."""
    for part in sources.PARTS:
        path = getattr(options, part)
        fault = sources.fault_of(config, options, part) if path and part not in named else None
        if fault == sources.CHANGED:
            raise CorpusError(path, None, f'these are not the sentences that {folder} began with; restore them or '
                                          'begin a new run')
        if fault is not None:
            raise CorpusError(path, None, f'the {part} file that {records.config_path(folder)} names {fault}; restore '
                                          'it, or name it anew')


def _learner_of(kind: type[Kind], options: Options, corpora: Corpora, watcher: Watcher,
                run: tuple[Path, dict]) -> Learner:
    """The learner of a run that is resumed; of vectors that only config.json names, no message shows anything."""
    try:
        return kind.learner(options, corpora, watcher, run)
    except CorpusError as error:
        if not options.embeddings or error.path != options.embeddings:
            raise
    raise CorpusError(options.embeddings, None, f'these are not the vectors that {run[0]} began with; restore them or '
                                                'begin a new run')


def _splitter(options: Options, corpora: Corpora, words: set[str]) -> str:
    """The name of what cuts raw text for this model as its training text was cut."""
    if options.splitter != AUTO:
        return options.splitter
    return corpora.splitter or suited(words)


def _for_bio(kind: type[Kind], options: Options) -> str:
    """The scheme to train in where BIO is found and none is named.

    BIOES tells more of where a span ends; a constrained chain gives each tagging in BIO by exactly one in BIOES. A run
    that begins with another one has the scheme of that.
    """
    before = read_run(options.init)[1]['scheme'] if options.init else None
    if before in ('BIO', 'BIOES'):
        return before
    return 'BIOES' if kind.in_steps and options.head == 'crf' and options.constraints else 'BIO'


def _read(options: Options, watcher: Watcher, for_bio: str, any_tags: bool) -> Corpora:
    """Reads the sentences of a run."""
    paths = {part: path for part in ('train', 'dev', 'test') if (path := getattr(options, part))}
    corpora = load(paths, options.scheme, options.column_pair(), options.splitter, options.unknown_tag, for_bio,
                   any_tags)
    watcher.corpora(corpora)
    return corpora


def _check_together(workers: Any, learner: Any) -> None:
    if workers is not None:
        from ms_crf.training.workers import check_together
        check_together(workers, learner)


def _training(options: Options, directory: Any, corpora: Corpora, learner: Any, watcher: Watcher, workers: Any) -> Run:
    from ms_crf.training.trainer import ALONE, Training  # here, because it starts MindSpore
    return Training(options, directory, corpora, learner, watcher, workers or ALONE)


def check_run(folder: Path, watcher: Watcher) -> None:
    """Raises CorpusError if files are missing without which a training can't go on."""
    state, weights = folder / records.STATE, folder / records.WEIGHTS
    if not state.exists() and (weights.exists() or records.read_metrics(folder)):
        left = f'{records.WEIGHTS} is there, to tag with; ' if weights.exists() else ''
        raise CorpusError(state, None, f'no such file, and a training that has epochs can not go on without it; {left}'
                                       'restore it, or train from the start in another folder')
    if not state.exists() and records.read_config(folder)['options'].get('init'):
        raise CorpusError(state, None, 'no such file; it holds the weights of another run that the training began '
                                       'with, and without it the training can not go on; restore it, or begin again')
    other = new_beside(folder)
    if (other / records.STATE).exists():
        watcher.say(f'{other} holds a training that was stopped before it could replace {folder}; to go on with that, '
                    f'resume {other}')


def check_input(folder: Path, config: dict, options: Options, learner: Learner) -> None:
    """Raises CorpusError unless a training reads what it read when the run began.

    Args:
        folder: the run directory.
        config: what is in config.json; earlier versions wrote less into it.
        options: those of the training.
        learner: what has been read now.
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


def keep_options(folder: Path, options: Options) -> None:
    """Saves changed options in config.json, and the checksums of corpora that were named, so that these need not be
    named again when the run is resumed again."""
    config = records.read_config(folder)
    before, digests = records.read_options(folder, config).to_json(), sources.digests_of(options)
    changed = {name: value for name, value in options.to_json().items() if value != before[name]}
    if changed or digests != config.get(sources.NAME):
        config['options'].update(changed)
        config[sources.NAME] = digests
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
                results: dict[str, Score] = {
                    part: score_of(part, self.corpora, self.learner, decoder)
                    for part in ('dev', 'test') if part in self.corpora.parts}
                metrics = {'epoch': 0, **as_record(results['dev']), 'seconds': round(self.seconds, 3)}
                scores = scores_record(0, 0, results)
                with saving(self.folder) as new:
                    new.text(records.METRICS, json.dumps(metrics) + '\n')
                    new.json(records.SCORES, scores)
                self.directory.publish()
                return scores
        finally:
            self.directory.release()


def score_of(part: str, corpora: Corpora, learner: Learner, decoder: Decoder) -> Score:
    """The score of a model on 'dev' or 'test'."""
    predicted = predicted_of(part, corpora, learner, decoder)
    return score_in(corpora.file_scheme, corpora.gold[part], predicted, corpora.written, corpora.raw.get(part))


def predicted_of(part: str, corpora: Corpora, learner: Learner, decoder: Decoder) -> list:
    """The tags of a model for 'dev' or 'test', in the scheme in which it gives them."""
    predicted = tags_of(decoder, learner.encoded[part])
    if corpora.written != corpora.scheme:
        predicted = [in_scheme(tags, corpora.written) for tags in predicted]
    return predicted


def scores_record(best_epoch: int, epochs: int, results: Mapping[str, Score], shift: float = 0.0) -> dict[str, Any]:
    """What scores.json holds: the best epoch, the number of epochs, the shift of O's score, and the scores by part."""
    return {'best_epoch': best_epoch, 'epochs': epochs, 'shift': shift,
            **{part: {**as_record(result), 'table': table(result)} for part, result in results.items()}}


class Stopped(Exception):
    """The user has stopped the training, whose state is saved."""


class NotFinite(Exception):
    """The loss or its gradients are not finite; what was saved before stays."""
