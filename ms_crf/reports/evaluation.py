"""What a model says of tagged sentences, beside what is right, and the scores of it."""

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
    """Sentences, their gold tags, and those that a model gives them.

    Args:
        tokens: of each sentence.
        gold, predicted: the tags of each sentence, in the scheme in which they are compared; gold ones may be open.
        scheme: that scheme.
        tagged: what the tagger gave.
        resamples, seed: of the intervals; see `ms_crf.text.bootstrap`.
        raw_correct: the number of tokens whose tag is right if no tag is converted; None if none was.
    """

    def __init__(self, tokens: Sequence[list[str]], gold: Sequence[list[str]], predicted: Sequence[list[str]],
                 scheme: str, tagged: Sequence[Sentence], resamples: int = bootstrap.RESAMPLES,
                 seed: int = bootstrap.SEED, raw_correct: int | None = None) -> None:
        self.raw_correct = raw_correct
        self.tokens, self.gold, self.predicted, self.tagged = tokens, gold, predicted, tagged
        self.scheme, self.resamples, self.seed = scheme, resamples, seed
        self.source: dict[str, str] = {}         # the model and the file, if the command line named them

    @property
    def plain(self) -> bool:
        """Whether tags stand for tokens, not for spans."""
        return self.scheme == PLAIN

    @cached_property
    def sentence_scores(self) -> list[Score]:
        """The score of each sentence by itself."""
        return [score([gold], [predicted], self.scheme) for gold, predicted in zip(self.gold, self.predicted)]

    @cached_property
    def score(self) -> Score:
        """That of all sentences: the one that training and tagging print."""
        return total(self.sentence_scores)._replace(raw_correct=self.raw_correct)

    @cached_property
    def types(self) -> list[str]:
        """Of the spans that are gold or predicted, or plain tags."""
        found = {*self.score.by_type}
        if self.unjudged:                        # there may be judged tokens in spans that do not count
            judged = {tags for pair in zip(self.gold, self.predicted) for tags in zip(*pair) if OPEN not in tags[0]}
            found |= {kind for tags in judged for tag in tags if (kind := self.type_of(tag)) is not None}
        return sorted(found)

    @cached_property
    def counts(self) -> np.ndarray:
        """(sentences, types, 3): correct, predicted and gold spans."""
        return counts_of(self.sentence_scores, self.types)

    @cached_property
    def token_counts(self) -> np.ndarray:
        """(sentences, types, 3): tokens that are in spans of a type, rightly, predicted so, and gold."""
        places = {kind: place for place, kind in enumerate(self.types)}
        counts = np.zeros((len(self.gold), len(self.types), 3), np.int64)
        for row, pair in enumerate(zip(self.gold, self.predicted)):
            judged = [tags for tags in zip(*pair) if OPEN not in tags[0]]
            for (one, other), times in Counter(tuple(map(self.type_of, tags)) for tags in judged).items():
                if one is not None:
                    counts[row, places[one], bootstrap.GOLD] += times
                if other is not None:
                    counts[row, places[other], bootstrap.PREDICTED] += times
                    counts[row, places[other], bootstrap.CORRECT] += times * (one == other)
        return counts

    def type_of(self, tag: str) -> str | None:
        """The type of the span that a tag is in, None outside; a plain tag is its own type."""
        return tag if self.plain else None if tag == 'O' else split_tag(tag)[1]

    @cached_property
    def spans(self) -> list[tuple[list[SpanTuple], list[SpanTuple]]]:
        """Of each sentence the gold spans and the predicted ones, those that count; of plain tags each token."""
        return [compared_spans(gold, predicted, self.scheme) for gold, predicted in zip(self.gold, self.predicted)]

    @cached_property
    def unjudged(self) -> int:
        """How many tokens do not count because nobody has judged them."""
        return sum(OPEN in tag for tags in self.gold for tag in tags)

    def intervals(self, counts: np.ndarray) -> tuple[Interval | None, dict[str, Interval | None]]:
        """Intervals of F1, of all types together and of each.

        Args:
            counts: `counts` or `token_counts`.
        """
        if not counts.size:
            return None, {}
        sums = resampled(counts, self.resamples, self.seed)                         # (resamples, types, 3)
        by_type = f1_of(sums)
        return interval_of(f1_of(sums.sum(1))), {kind: interval_of(by_type[:, place])
                                                 for place, kind in enumerate(self.types)}

    @cached_property
    def accuracy_interval(self) -> Interval | None:
        """Of the share of tokens whose tag is right."""
        pairs = np.array([(one.correct_tokens, one.tokens) for one in self.sentence_scores])
        sums = resampled(pairs, self.resamples, self.seed)
        return interval_of(sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan))

    def to_json(self) -> dict[str, Any]:
        """All figures."""
        record: dict[str, Any] = {
            **self.source, 'sentences': len(self.tokens), 'tokens': self.score.tokens, 'unjudged': self.unjudged,
            'scheme': self.scheme,
            'bootstrap': {'resamples': self.resamples, 'seed': self.seed, 'level': bootstrap.LEVEL},
            'exact': self._rates(self.counts),
            'by_token': {'accuracy': self.score.accuracy, 'accuracy_interval': self.accuracy_interval,
                         'raw_accuracy': self.score.raw_accuracy}}
        if not self.plain:
            record['by_token'].update(self._rates(self.token_counts))
        return record

    def rows(self, counts: np.ndarray) -> list[tuple[str, SpanScore, Interval | None]]:
        """The scores of all spans together, called 'overall', and of each type, with the intervals of F1.

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
    """Counts of spans and what follows from them, as JSON."""
    return {'precision': spans.precision, 'recall': spans.recall, 'f1': spans.f1, 'f1_interval': interval,
            'support': spans.gold, 'predicted': spans.predicted, 'correct': spans.correct}


def evaluate(input: PathLike, *, run: PathLike | None = None, mindir: PathLike | None = None, columns: str = '0,-1',
             unknown_tag: str | None = None, resamples: int = bootstrap.RESAMPLES, seed: int = bootstrap.SEED,
             json: PathLike | None = None, plugin: PathLike | None = None, device: str = 'auto',
             watcher: Watcher = SILENT) -> Evaluation:
    """Scores a model on tagged sentences.

    Args:
        input: file of the sentences: columns, or JSON lines (.jsonl).
        run: run directory; by default the newest in runs/.
        mindir: exported graph, in place of a run.
        columns: columns of the token and of the tag, from 0, or from -1 backwards.
        unknown_tag: the tag of tokens that nobody has judged; by default as the model was trained.
        resamples, seed: of the intervals; see `ms_crf.text.bootstrap`.
        json: file to write all figures to.
        plugin: Python file that registers kinds of model.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: is told what is found out about the device.

    Returns:
        The scores: `score.spans.f1`, `score.accuracy`, and all figures as `to_json()`.

    Raises:
        OptionError: an argument can't be, or has no effect beside the others.
        CorpusError: a file has a fault.

    Example:
        >>> from ms_crf.api import evaluate
        >>> found = evaluate('data/test.tsv', run='runs/sample')  # doctest: +SKIP
        >>> round(found.score.spans.f1, 4)                        # doctest: +SKIP
        0.9931
    """
    given = EvaluateArguments.from_call(locals())
    if given.plugin:
        run_plugin(given.plugin)
    if given.json:
        records.check_output(given.json, given.input)
    path = given.mindir or given.run or records.newest('runs')
    model = open_model(path)
    device_for(given.device, model, watcher=watcher)
    tagger = Tagger.load(model)
    mark = model.unknown_tag if given.unknown_tag is None else given.unknown_tag
    sentences = read_corpus(given.input, given.pair, tagger.splitter, mark=mark)
    check_annotated(given.input, sentences)
    found = compared(tagger, sentences, given.input, False, given.resamples, given.seed)
    found.source = {'model': str(path), 'input': given.input}
    if given.json:
        files.write_json(given.json, found.to_json())
    return found


def compared(tagger: Tagger, sentences: Sequence[Sentence], path: PathLike, confidence: bool = False,
             resamples: int = bootstrap.RESAMPLES, seed: int = bootstrap.SEED) -> Evaluation:
    """Tags sentences and sets what comes out beside their own tags.

    Args:
        tagger: of the model.
        sentences: with their gold tags.
        path: the file that they are from, for messages.
        confidence: whether confidences are wanted.
        resamples, seed: of the intervals.

    Raises:
        CorpusError: the tags are not of the model's kind, or the model can't take a sentence.
    """
    tokens = [sentence.tokens for sentence in sentences]
    try:
        tagged = tagger.tag(tokens, confidence=confidence)
    except SentenceError as error:
        raise CorpusError(path, sentences[error.index].line, error.reason) from None
    scores = Scores(tagger.file_scheme, tagger.scheme, path)
    raw, tags = [sentence.tags for sentence in sentences], [one.tags for one in tagged]
    gold, predicted = scores.compared([sentence.line for sentence in sentences], raw, tags)
    return Evaluation(tokens, gold, predicted, scoring_scheme(tagger.file_scheme), tagged, resamples, seed,
                      None if tagger.file_scheme == tagger.scheme else equal_tags(raw, tags, gold))
