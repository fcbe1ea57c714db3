"""Evaluates a model on tagged sentences: scores, scores by type, and confidence intervals."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ms_crf.base import files
from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats.dataset import check_annotated
from ms_crf.formats.registry import read_corpus
from ms_crf.models.base import SentenceError
from ms_crf.models.opening import device_for, open_model, run_plugin
from ms_crf.runs import records
from ms_crf.runs.arguments import EvaluateArguments
from ms_crf.tagging.tagger import Tagger
from ms_crf.text import bootstrap
from ms_crf.text.bootstrap import Interval, counts_of, f1_of, interval_of, resampled
from ms_crf.text.metrics import Score, Scores, SpanScore, compared_spans, equal_tags, score, total
from ms_crf.text.partial import scoring_scheme
from ms_crf.text.schemes import OPEN, PLAIN, SpanTuple, split_tag
from ms_crf.text.sentence import Sentence

import numpy as np


class Evaluation:
    """Sentences with gold and predicted tags, and their scores.

    Args:
        tokens: the tokens of each sentence.
        gold, predicted: the tags of each sentence, converted to one scheme; gold tags can be unknown.
        scheme: the scheme of `gold` and `predicted`.
        tagged: the results of the tagger.
        resamples, seed: number of resamples and seed of the intervals; see `ms_crf.text.bootstrap`.
        raw_correct: number of tokens with a correct tag before the conversion; None if no tag was converted.
    """

    def __init__(self, tokens: Sequence[list[str]], gold: Sequence[list[str]], predicted: Sequence[list[str]],
                 scheme: str, tagged: Sequence[Sentence], resamples: int = bootstrap.RESAMPLES,
                 seed: int = bootstrap.SEED, raw_correct: int | None = None) -> None:
        self.raw_correct = raw_correct
        self.tokens, self.gold, self.predicted, self.tagged = tokens, gold, predicted, tagged
        self.scheme, self.resamples, self.seed = scheme, resamples, seed
        self.source: dict[str, str] = {}         # the paths of model and file, if `evaluate` created this object

    @property
    def plain(self) -> bool:
        """Whether the tags are plain tags, without spans."""
        return self.scheme == PLAIN

    @cached_property
    def sentence_scores(self) -> list[Score]:
        """The score of each sentence."""
        return [score([gold], [predicted], self.scheme) for gold, predicted in zip(self.gold, self.predicted)]

    @cached_property
    def score(self) -> Score:
        """The score of all sentences, which training and tagging print."""
        return total(self.sentence_scores)._replace(raw_correct=self.raw_correct)

    @cached_property
    def types(self) -> list[str]:
        """The types of all gold and predicted spans, or the plain tags, sorted."""
        types = {*self.score.by_type}
        if self.unannotated:                     # annotated tokens can be in spans that do not count
            annotated = {tags for pair in zip(self.gold, self.predicted) for tags in zip(*pair) if OPEN not in tags[0]}
            types |= {kind for tags in annotated for tag in tags if (kind := self.type_of(tag)) is not None}
        return sorted(types)

    @cached_property
    def counts(self) -> np.ndarray:
        """Numbers of correct, predicted and gold spans, (sentences, types, 3)."""
        return counts_of(self.sentence_scores, self.types)

    @cached_property
    def token_counts(self) -> np.ndarray:
        """Numbers of tokens in correct, predicted and gold spans of a type, (sentences, types, 3)."""
        columns = {kind: column for column, kind in enumerate(self.types)}
        counts = np.zeros((len(self.gold), len(self.types), 3), np.int64)
        for row, pair in enumerate(zip(self.gold, self.predicted)):
            annotated = [tags for tags in zip(*pair) if OPEN not in tags[0]]
            for (gold, predicted), count in Counter(tuple(map(self.type_of, tags)) for tags in annotated).items():
                if gold is not None:
                    counts[row, columns[gold], bootstrap.GOLD] += count
                if predicted is not None:
                    counts[row, columns[predicted], bootstrap.PREDICTED] += count
                    counts[row, columns[predicted], bootstrap.CORRECT] += count * (gold == predicted)
        return counts

    def type_of(self, tag: str) -> str | None:
        """Returns the type of a tag of a span, None for O, and a plain tag itself."""
        return tag if self.plain else None if tag == 'O' else split_tag(tag)[1]

    @cached_property
    def spans(self) -> list[tuple[list[SpanTuple], list[SpanTuple]]]:
        """The gold and predicted spans of each sentence that count; for plain tags one span for each token."""
        return [compared_spans(gold, predicted, self.scheme) for gold, predicted in zip(self.gold, self.predicted)]

    @cached_property
    def unannotated(self) -> int:
        """The number of tokens without a gold tag, which do not count."""
        return sum(OPEN in tag for tags in self.gold for tag in tags)

    def intervals(self, counts: np.ndarray) -> tuple[Interval | None, dict[str, Interval | None]]:
        """Returns the confidence intervals of F1: of all types together, and of each type.

        Args:
            counts: `counts` or `token_counts`.
        """
        if not counts.size:
            return None, {}
        sums = resampled(counts, self.resamples, self.seed)                         # (resamples, types, 3)
        by_type = f1_of(sums)
        return interval_of(f1_of(sums.sum(1))), {kind: interval_of(by_type[:, column])
                                                 for column, kind in enumerate(self.types)}

    @cached_property
    def accuracy_interval(self) -> Interval | None:
        """The confidence interval of the accuracy of tags."""
        pairs = np.array([(each.correct_tokens, each.tokens) for each in self.sentence_scores])
        sums = resampled(pairs, self.resamples, self.seed)
        return interval_of(sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan))

    def to_json(self) -> dict[str, Any]:
        """Returns all figures as a dict for JSON."""
        record: dict[str, Any] = {
            **self.source, 'sentences': len(self.tokens), 'tokens': self.score.tokens, 'unjudged': self.unannotated,
            'scheme': self.scheme,
            'bootstrap': {'resamples': self.resamples, 'seed': self.seed, 'level': bootstrap.LEVEL},
            'exact': self._rates(self.counts),
            'by_token': {'accuracy': self.score.accuracy, 'accuracy_interval': self.accuracy_interval,
                         'raw_accuracy': self.score.raw_accuracy}}
        if not self.plain:
            record['by_token'].update(self._rates(self.token_counts))
        return record

    def rows(self, counts: np.ndarray) -> list[tuple[str, SpanScore, Interval | None]]:
        """Returns a row (name, scores, interval of F1) for all types together ('overall') and for each type.

        Args:
            counts: `counts` or `token_counts`.
        """
        overall, by_type = self.intervals(counts)
        return [('overall', SpanScore(*counts.sum((0, 1)).tolist()), overall),
                *((kind, SpanScore(*row), by_type[kind]) for kind, row in zip(self.types, counts.sum(0).tolist()))]

    def _rates(self, counts: np.ndarray) -> dict[str, Any]:
        (_, overall), *by_type = [(kind, rates(spans, interval)) for kind, spans, interval in self.rows(counts)]
        return {**overall, 'by_type': {kind: row for kind, row in by_type if kind}}


def rates(spans: SpanScore, interval: Interval | None) -> dict[str, Any]:
    """Returns the scores and counts of spans, as JSON."""
    return {'precision': spans.precision, 'recall': spans.recall, 'f1': spans.f1, 'f1_interval': interval,
            'support': spans.gold, 'predicted': spans.predicted, 'correct': spans.correct}


def evaluate(input: PathLike, *, run: PathLike | None = None, mindir: PathLike | None = None, columns: str = '0,-1',
             unknown_tag: str | None = None, resamples: int = bootstrap.RESAMPLES, seed: int = bootstrap.SEED,
             json: PathLike | None = None, plugin: PathLike | None = None, device: str = 'auto',
             watcher: Watcher = SILENT) -> Evaluation:
    """Scores a model on tagged sentences.

    Args:
        input: file of tagged sentences: columns, or JSON lines (.jsonl).
        run: run directory; by default the newest run in runs/.
        mindir: exported graph, instead of a run.
        columns: indices of the token column and the tag column; negative indices count from the last column.
        unknown_tag: the tag of tokens that are not annotated; by default as in the training.
        resamples, seed: number of resamples and seed of the intervals; see `ms_crf.text.bootstrap`.
        json: file to write all figures to.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives messages about the device.

    Returns:
        The scores: `score.spans.f1`, `score.accuracy`, and all figures as `to_json()`.

    Raises:
        OptionError: an argument is invalid, or has no effect with the other arguments.
        CorpusError: a file is invalid.

    Example:
        >>> from ms_crf.api import evaluate
        >>> evaluation = evaluate('data/test.tsv', run='runs/sample')  # doctest: +SKIP
        >>> round(evaluation.score.spans.f1, 4)                        # doctest: +SKIP
        0.9931
    """
    arguments = EvaluateArguments.from_call(locals())
    if arguments.plugin:
        run_plugin(arguments.plugin)
    if arguments.json:
        records.check_output(arguments.json, arguments.input)
    path = arguments.mindir or arguments.run or records.newest('runs')
    model = open_model(path)
    device_for(arguments.device, model, watcher=watcher)
    tagger = Tagger.load(model)
    mark = model.unknown_tag if arguments.unknown_tag is None else arguments.unknown_tag
    sentences = read_corpus(arguments.input, arguments.pair, tagger.splitter, mark=mark)
    check_annotated(arguments.input, sentences)
    evaluation = evaluate_sentences(tagger, sentences, arguments.input, False, arguments.resamples, arguments.seed)
    evaluation.source = {'model': str(path), 'input': arguments.input}
    if arguments.json:
        files.write_json(arguments.json, evaluation.to_json())
    return evaluation


def evaluate_sentences(tagger: Tagger, sentences: Sequence[Sentence], path: PathLike, confidence: bool = False,
             resamples: int = bootstrap.RESAMPLES, seed: int = bootstrap.SEED) -> Evaluation:
    """Tags sentences and returns the evaluation against their gold tags.

    Args:
        tagger: the tagger of the model.
        sentences: sentences with gold tags.
        path: the file of the sentences, for messages.
        confidence: whether to compute confidences.
        resamples, seed: number of resamples and seed of the intervals.

    Raises:
        CorpusError: the gold tags do not fit the model (spans or plain tags), or the model cannot tag a sentence.
    """
    tokens = [sentence.tokens for sentence in sentences]
    try:
        tagged = tagger.tag(tokens, confidence=confidence)
    except SentenceError as error:
        raise CorpusError(path, sentences[error.index].line, error.reason) from None
    scores = Scores(tagger.file_scheme, tagger.scheme, path)
    raw, tags = [sentence.tags for sentence in sentences], [result.tags for result in tagged]
    gold, predicted = scores.compared([sentence.line for sentence in sentences], raw, tags)
    return Evaluation(tokens, gold, predicted, scoring_scheme(tagger.file_scheme), tagged, resamples, seed,
                      None if tagger.file_scheme == tagger.scheme else equal_tags(raw, tags, gold))
