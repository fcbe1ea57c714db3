"""All figures of one run's report: what its directory holds, and what it makes of a tagged file."""

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
from ms_crf.reports.analysis import Confusion, Mistake, Part, Reliability, confusion, mistakes, reliabilities
from ms_crf.reports.evaluation import Evaluation, compared
from ms_crf.runs import checksums, records
from ms_crf.runs.options import Options, dashed
from ms_crf.runs.run import SavedRun
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.partial import in_scheme, is_open
from ms_crf.text.schemes import PLAIN
from ms_crf.text.sentence import Sentence


class Input(NamedTuple):
    """The tagged sentences of a report."""

    path: str
    parts: list[str]               # 'train', 'dev' and 'test', as far as the run names this file so
    sentences: list[Sentence]

    @property
    def part(self) -> str | None:
        """What the file is to the run: 'test', or else 'dev'."""
        return next((part for part in ('test', 'dev') if part in self.parts), None)


class Believable(NamedTuple):
    """How far the confidences of 'tags' and 'entities' can be believed, and why no temperature was fitted, if so."""

    before: dict[str, Reliability]           # as they are
    after: dict[str, Reliability] = {}       # under the temperature
    fit: FittedTemperature | None = None
    why_not: str = ''


@dataclass
class RunFigures:
    """A run, and what it makes of a file.

    Attributes:
        path, options, metrics: what its directory holds.
        in_epochs: whether its kind of model is trained in epochs.
        tags, of_characters: of the model.
        chain: what its paths get beside the scores of tags; None if it has no such scores to show.
        evaluation: of the file.
        believable: None if the model gives no confidences.
        parts: by their subject, scores of parts of the entities, or why there are none.
        mistakes, wrong: the worst of the wrong sentences, and how many there are.
        seconds: that tagging the file took, everything compiled.
    """

    path: str
    in_epochs: bool
    options: Options
    metrics: list[dict[str, Any]]
    tags: list[str]                          # of the chain
    of_characters: bool
    chain: Chain | None
    evaluation: Evaluation
    believable: Believable | None
    confusion: Confusion
    parts: dict[str, list[Part] | str]
    mistakes: list[Mistake]
    wrong: int
    seconds: float

    @property
    def shown_options(self) -> list[tuple[str, str]]:
        """All options by their names on the command line."""
        return [(dashed(name), 'none' if value is None else str(value))
                for name, value in self.options.to_json().items()]

    @property
    def command(self) -> str:
        """The command that makes such a run on such text; options at their defaults are left away."""
        defaults = Options(embeddings=self.options.embeddings).settled(self.of_characters)
        words = ['ms-crf', 'train']
        for name, value in self.options.to_json().items():
            # The default of test is no file, unless train is at its own.
            named = name in ('train', 'dev', 'test', 'save', 'embeddings')
            if not named and (value == getattr(defaults, name) or self.options.idle(name)):
                continue
            if isinstance(value, bool):
                words.append(f'--{"" if value else "no-"}{dashed(name)}')
            elif value is not None and (value != '' or name == 'unknown_tag'):
                words += [f'--{dashed(name)}', str(value)]
        return shlex.join(words)


def input_of(run: SavedRun, path: str | None, columns: tuple[int, ...] | None, mark: str | None = None) -> Input:
    """The sentences of a report.

    Args:
        run: whose test file, or else dev file, it is if none is named.
        path: of the file, or None.
        columns: of token and tag; None for those that the run was trained with.
        mark: what stands in place of a tag that nobody has judged; None for what did so in training.

    Raises:
        OptionError: the file that the run names is not there, or is not that of the training.
        CorpusError: the file can't be read.
    """
    options = run.options
    columns = columns or options.column_pair()
    named = {part: getattr(options, part) for part in ('train', 'dev', 'test')}
    if path is None:
        part = 'test' if named['test'] else 'dev'
        path = named[part]
        fault = checksums.corpus_fault(run.config, options, part)
        if fault is not None:
            raise OptionError(f'{path}, the {part} file that {run.path / records.CONFIG} names, {fault}; name a '
                              f'tagged file with {argument("input")}')
    parts = [part for part, name in named.items() if name and os.path.realpath(name) == os.path.realpath(path)]
    mark = options.unknown_tag if mark is None else mark
    sentences = read_corpus(path, columns, run.splitter or options.splitter, mark=mark)
    check_annotated(path, sentences)
    return Input(path, parts, sentences)


def figures_of(run: SavedRun, given: Input, resamples: int, seed: int, number: int, watcher: Watcher) -> RunFigures:
    """All figures of a run.

    Args:
        run: its directory.
        given: tagged sentences.
        resamples, seed: of the intervals.
        number: of mistakes to show.
        watcher: receives a line for each task.

    Raises:
        CorpusError: something of the run is damaged, or it can't take a sentence.
    """
    metrics = epochs_of(run)
    watcher.say(f'tagging {given.path} with {run.path}')
    tagger = Tagger.load(run)
    evaluation = compared(tagger, given.sentences, given.path, tagger.gives_confidences, resamples, seed)
    began = time.perf_counter()                                  # everything is compiled by now
    tagger.tag(evaluation.tokens, confidence=tagger.gives_confidences)
    seconds = time.perf_counter() - began
    chain = tagger.decoder.chain() if isinstance(tagger.decoder, ChainDecoder) else None
    shown, wrong = mistakes(evaluation, number, '' if tagger.of_characters else ' ')
    return RunFigures(str(run.path), kind_of_run(run).in_steps, run.options, metrics, tagger.decoder.vocabulary.tags,
                      tagger.of_characters, None if chain is None or chain.means == NOTHING else chain, evaluation,
                      _believable(tagger, evaluation, run, given, watcher), confusion(evaluation),
                      _parts(tagger, evaluation, run), shown, wrong, seconds)


def epochs_of(run: SavedRun) -> list[dict[str, Any]]:
    """The records of metrics.jsonl, without that of a model that is not trained in epochs.

    Raises:
        CorpusError: they are not what a training writes.
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
    """The sentences of a file of the training, or why they can't be had."""
    options = run.options
    path, fault = getattr(options, part), checksums.corpus_fault(run.config, options, part)
    if fault is not None:
        return f'The {part} file that config.json names, {path}, {fault}.'
    try:
        return read_corpus(path, options.column_pair(), options.splitter, mark=options.unknown_tag)
    except CorpusError as error:
        return f'The {part} file of the training cannot be read: {error}.'


def _believable(tagger: Tagger, evaluation: Evaluation, run: SavedRun, given: Input,
                watcher: Watcher) -> Believable | None:
    if not tagger.gives_confidences:
        return None
    before, fit = reliabilities(evaluation), _fitted(tagger, run, watcher)
    if isinstance(fit, str):
        return Believable(before, why_not=fit)
    tempered = Tagger(TemperedDecoder(cast(ChainDecoder, tagger.decoder), fit.temperature), tagger.model_scheme,
                      tagger.file_scheme, tagger.splitter, tagger.scheme)
    return Believable(before, reliabilities(compared(tempered, given.sentences, given.path, True)), fit)


def _fitted(tagger: Tagger, run: SavedRun, watcher: Watcher) -> FittedTemperature | str:
    """The temperature that is fitted on the dev file of the run, or why there is none."""
    if not isinstance(tagger.decoder, ChainDecoder) or tagger.decoder.chain() is None:
        return 'This kind of model has no scores that a temperature could divide.'
    path, dev = run.options.dev, _read(run, 'dev')
    if isinstance(dev, str):
        return f'{dev} No temperature could be fitted on it.'
    watcher.say(f'fitting a temperature on {path}')
    whole = [sentence for sentence in dev if not is_open(sentence.tags)]
    if not whole:
        return f'No sentence of {path} is judged whole, so that no temperature could be fitted on it.'
    scheme = tagger.model_scheme
    tags = [sentence.tags if scheme == PLAIN else in_scheme(sentence.tags, scheme) for sentence in whole]
    fit = fit_temperature(tagger.decoder, [sentence.tokens for sentence in whole], tags)
    return fit or f'The model can give none of the tags in {path}, on which a temperature would be fitted.'


def _parts(tagger: Tagger, evaluation: Evaluation, run: SavedRun) -> dict[str, list[Part] | str]:
    unit = 'token' if evaluation.plain else 'entity'
    found: dict[str, list[Part] | str] = {'length of the sentence, in tokens': analysis.by_sentence_length(evaluation)}
    if not evaluation.plain:
        found['length of the entity, in tokens'] = analysis.by_entity_length(evaluation)
    training = _read(run, 'train')
    found[f'whether the {unit} was seen in training'] = (
        training if isinstance(training, str) else analysis.by_training(evaluation, training))
    knows = getattr(tagger.decoder.vocabulary, 'knows', None)
    found[f'whether the {unit} is known to the vocabulary'] = (
        'This model has no vocabulary of words.' if knows is None
        else analysis.by_vocabulary(evaluation, knows))
    return found


def options_that_differ(runs: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """The options, where to save apart, in which runs are not alike, and the value in each."""
    rows = []
    for name in runs[0].options.to_json():
        values = ['none' if (value := getattr(run.options, name)) in (None, '') else str(value) for run in runs]
        if name != 'save' and any(value != values[0] for value in values):
            idle = [run.options.idle(name) for run in runs]
            rows.append((f'--{dashed(name)}', [f'none, it means nothing {why}' if why else value
                                               for why, value in zip(idle, values)]))
    return rows
