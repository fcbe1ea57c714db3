"""Computes the figures of a run for a report, from its run directory and a tagged file."""

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ms_crf.base.errors import CorpusError, OptionError, argument, brief
from ms_crf.base.watchers import Watcher
from ms_crf.formats.dataset import check_annotated
from ms_crf.formats.registry import read_corpus
from ms_crf.models.base import kind_of_run
from ms_crf.models.chains import NOTHING, Chain, ChainDecoder, FittedTemperature, TemperedDecoder, fit_temperature
from ms_crf.reports import analysis
from ms_crf.reports.analysis import Confusion, Group, Mistake, Reliability, confusion, mistakes, reliabilities
from ms_crf.reports.evaluation import Evaluation, evaluate_sentences
from ms_crf.runs import checksums, records
from ms_crf.runs.options import Options, dashed
from ms_crf.runs.run import SavedRun
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.partial import in_scheme, is_open
from ms_crf.text.schemes import PLAIN
from ms_crf.text.sentence import Sentence


class ReportInput(NamedTuple):
    """The tagged sentences of a report."""

    path: str
    parts: list[str]               # 'train', 'dev', 'test': the roles of this file in the training
    sentences: list[Sentence]

    @property
    def part(self) -> str | None:
        """The role of the file in the training: 'test', 'dev' or None."""
        return next((part for part in ('test', 'dev') if part in self.parts), None)


class Calibration(NamedTuple):
    """The calibration of the confidences of 'tags' and 'entities', with and without a temperature."""

    before: dict[str, Reliability]           # without a temperature
    after: dict[str, Reliability] = {}       # with the fitted temperature
    fit: FittedTemperature | None = None
    why_not: str = ''                        # reason for a missing temperature


@dataclass
class RunFigures:
    """The figures of a run on a file.

    Attributes:
        path, options, metrics: path, options and metrics of the run directory.
        in_epochs: whether the model type is trained in epochs.
        tags, of_characters: the tags of the model, and whether its tokens are characters.
        chain: transition, start and end scores; None if the model has no such scores.
        evaluation: the scores on the file.
        calibration: calibration of the confidences; None if the model has no confidences.
        confusion: the confusion matrix.
        groups: by name of a grouping, the scores of its groups, or a sentence that says why there are no scores.
        mistakes, wrong: the sentences of the error list, and the number of all sentences with mistakes.
        seconds: duration of tagging the file with compiled graphs.
    """

    path: str
    in_epochs: bool
    options: Options
    metrics: list[dict[str, Any]]
    tags: list[str]
    of_characters: bool
    chain: Chain | None
    evaluation: Evaluation
    calibration: Calibration | None
    confusion: Confusion
    groups: dict[str, list[Group] | str]
    mistakes: list[Mistake]
    wrong: int
    seconds: float

    @property
    def shown_options(self) -> list[tuple[str, str]]:
        """All options with their command-line names, as text."""
        return [(dashed(name), 'none' if value is None else str(value))
                for name, value in self.options.to_json().items()]

    @property
    def command(self) -> str:
        """The command that trains such a run; options with default values are omitted."""
        defaults = Options(embeddings=self.options.embeddings).settled(self.of_characters)
        words = ['ms-crf', 'train']
        for name, value in self.options.to_json().items():
            # Paths are always shown: the defaults of dev and test depend on train.
            named = name in ('train', 'dev', 'test', 'save', 'embeddings')
            if not named and (value == getattr(defaults, name) or self.options.idle(name)):
                continue
            if isinstance(value, bool):
                words.append(f'--{"" if value else "no-"}{dashed(name)}')
            elif value is not None and (value != '' or name == 'unknown_tag'):
                words += [f'--{dashed(name)}', str(value)]
        return shlex.join(words)


def input_of(run: SavedRun, path: str | None, columns: tuple[int, ...] | None, mark: str | None = None) -> ReportInput:
    """Reads the sentences of a report.

    Args:
        run: the run; without a `path`, its test file is read, or its dev file if it has no test file.
        path: path of a tagged file, or None.
        columns: indices of the token column and the tag column; None for the columns of the training.
        mark: the tag of tokens that are not annotated; None for the tag of the training.

    Raises:
        OptionError: the file of the run is missing or has changed.
        CorpusError: the file cannot be read.
    """
    options = run.options
    columns = columns or options.column_pair()
    named = {part: getattr(options, part) for part in ('train', 'dev', 'test')}
    if path is None:
        part = 'test' if named['test'] else 'dev'
        path = named[part]
        fault = checksums.corpus_fault(run.config, options, part)
        if fault is not None:
            raise OptionError(f'{path}, the {part} file that {run.path / records.CONFIG} names, {fault}; name another '
                              f'tagged file with {argument("input")}')
    parts = [part for part, name in named.items() if name and os.path.realpath(name) == os.path.realpath(path)]
    mark = options.unknown_tag if mark is None else mark
    sentences = read_corpus(path, columns, run.splitter or options.splitter, mark=mark)
    check_annotated(path, sentences)
    return ReportInput(path, parts, sentences)


def figures_of(run: SavedRun, file: ReportInput, resamples: int, seed: int, number: int,
               watcher: Watcher) -> RunFigures:
    """Computes all figures of a run.

    Args:
        run: the run.
        file: the tagged sentences.
        resamples, seed: number of resamples and seed of the intervals.
        number: number of sentences in the error list.
        watcher: receives a line for each task.

    Raises:
        CorpusError: a file of the run is damaged, or the model cannot tag a sentence.
    """
    metrics = epochs_of(run)
    watcher.say(f'tagging {file.path} with {run.path}')
    tagger = Tagger.load(run)
    evaluation = evaluate_sentences(tagger, file.sentences, file.path, tagger.gives_confidences, resamples, seed)
    started = time.perf_counter()                                # all graphs are compiled
    tagger.tag(evaluation.tokens, confidence=tagger.gives_confidences)
    seconds = time.perf_counter() - started
    chain = tagger.decoder.chain() if isinstance(tagger.decoder, ChainDecoder) else None
    shown, wrong = mistakes(evaluation, number, '' if tagger.of_characters else ' ')
    return RunFigures(str(run.path), kind_of_run(run).in_steps, run.options, metrics, tagger.decoder.vocabulary.tags,
                      tagger.of_characters, None if chain is None or chain.means == NOTHING else chain, evaluation,
                      _calibration(tagger, evaluation, run, file, watcher), confusion(evaluation),
                      _groups(tagger, evaluation, run), shown, wrong, seconds)


def epochs_of(run: SavedRun) -> list[dict[str, Any]]:
    """Returns the records of metrics.jsonl; an empty list if the model type is not trained in epochs.

    Raises:
        CorpusError: a record is invalid.
    """
    metrics = run.metrics
    for line, record in enumerate(metrics, 1):
        for name in ('epoch', *(('loss',) if 'loss' in record else ()), 'f1', 'accuracy'):
            value = record.get(name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise CorpusError(run.path / records.METRICS, line, f'expected "{name}" to be a number, as training '
                                                                     f'writes it, got {brief(value)}')
    return [record for record in metrics if 'loss' in record]


def _read(run: SavedRun, part: str) -> list[Sentence] | str:
    """Returns the sentences of a file of the training, or a sentence that says why they cannot be read."""
    options = run.options
    path, fault = getattr(options, part), checksums.corpus_fault(run.config, options, part)
    if fault is not None:
        return f'The {part} file that config.json names, {path}, {fault}.'
    try:
        return read_corpus(path, options.column_pair(), options.splitter, mark=options.unknown_tag)
    except CorpusError as error:
        return f'The {part} file of the training cannot be read: {error}.'


def _calibration(tagger: Tagger, evaluation: Evaluation, run: SavedRun, file: ReportInput,
                 watcher: Watcher) -> Calibration | None:
    if not tagger.gives_confidences:
        return None
    before, fit = reliabilities(evaluation), _fitted(tagger, run, watcher)
    if isinstance(fit, str):
        return Calibration(before, why_not=fit)
    tempered = Tagger(TemperedDecoder(cast(ChainDecoder, tagger.decoder), fit.temperature), tagger.model_scheme,
                      tagger.file_scheme, tagger.splitter, tagger.scheme)
    return Calibration(before, reliabilities(evaluate_sentences(tempered, file.sentences, file.path, True)), fit)


def _fitted(tagger: Tagger, run: SavedRun, watcher: Watcher) -> FittedTemperature | str:
    """Returns the temperature fitted on the dev file of the run, or a sentence that says why there is none."""
    if not isinstance(tagger.decoder, ChainDecoder) or tagger.decoder.chain() is None:
        return 'This model type does not support temperatures.'
    path, dev = run.options.dev, _read(run, 'dev')
    if isinstance(dev, str):
        return f'{dev} So no temperature was fitted.'
    watcher.say(f'fitting a temperature on {path}')
    complete = [sentence for sentence in dev if not is_open(sentence.tags)]
    if not complete:
        return f'No sentence of {path} is completely annotated, so no temperature was fitted.'
    scheme = tagger.model_scheme
    tags = [sentence.tags if scheme == PLAIN else in_scheme(sentence.tags, scheme) for sentence in complete]
    fit = fit_temperature(tagger.decoder, [sentence.tokens for sentence in complete], tags)
    return fit or f'The model cannot predict the tags of {path}, so no temperature was fitted.'


def _groups(tagger: Tagger, evaluation: Evaluation, run: SavedRun) -> dict[str, list[Group] | str]:
    unit = 'token' if evaluation.plain else 'entity'
    groups: dict[str, list[Group] | str] = {'sentence length in tokens': analysis.by_sentence_length(evaluation)}
    if not evaluation.plain:
        groups['entity length in tokens'] = analysis.by_entity_length(evaluation)
    training = _read(run, 'train')
    groups[f'{unit} in training'] = (
        training if isinstance(training, str) else analysis.by_training(evaluation, training))
    knows = getattr(tagger.decoder.vocabulary, 'knows', None)
    groups['out-of-vocabulary words'] = (
        'This model has no vocabulary of words.' if knows is None
        else analysis.by_vocabulary(evaluation, knows))
    return groups


def options_that_differ(runs: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """Returns the options except `save` with different values, and the value of each run."""
    rows = []
    for name in runs[0].options.to_json():
        values = ['none' if (value := getattr(run.options, name)) in (None, '') else str(value) for run in runs]
        if name != 'save' and any(value != values[0] for value in values):
            idle = [run.options.idle(name) for run in runs]
            rows.append((f'--{dashed(name)}', [f'none, no effect {why}' if why else value
                                               for why, value in zip(idle, values)]))
    return rows
