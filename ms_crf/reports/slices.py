"""Scores of parts of the entities: by the length of the sentence, by their own, by what training has shown."""

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from ms_crf.reports.evaluation import Evaluation
from ms_crf.text.bootstrap import CORRECT, GOLD, PREDICTED, Interval, f1_of, interval_of, resampled
from ms_crf.text.metrics import SpanScore
from ms_crf.text.partial import closed
from ms_crf.text.schemes import OPEN, PLAIN, SpanTuple, spans_of
from ms_crf.text.sentence import Sentence

import numpy as np

SENTENCES, ENTITIES = (5, 10, 20, 40), (1, 2, 3, 4)          # the greatest length of each part but the last
SEEN, ELSEWHERE, UNSEEN = SEEN_PARTS = ('seen with this type', 'seen with other types only', 'not seen')
KNOWN, UNKNOWN = KNOWN_PARTS = ('all tokens known', 'a token is unknown')
Surface = tuple[str, ...]


class Part(NamedTuple):
    """Some of the entities."""

    name: str
    spans: SpanScore
    interval: Interval | None          # of F1
    sentences: int                     # in which they are


def parts(evaluation: Evaluation, names: Sequence[str], part_of: Callable[[list[str], SpanTuple], int]) -> list[Part]:
    """The scores of each part; of entities that are right both sides are in the same one.

    Args:
        evaluation: what was tagged.
        names: of the parts.
        part_of: says, by the tokens of a sentence and a gold or predicted span of it, which part that is in.
    """
    counts = np.zeros((len(evaluation.tokens), len(names), 3), np.int64)
    for row, (tokens, (gold, predicted)) in enumerate(zip(evaluation.tokens, evaluation.spans)):
        spans = {*gold}, {*predicted}
        for column, chosen in ((GOLD, spans[0]), (PREDICTED, spans[1]), (CORRECT, spans[0] & spans[1])):
            for span in chosen:
                counts[row, part_of(tokens, span), column] += 1
    rates = f1_of(resampled(counts, evaluation.resamples, evaluation.seed))
    found = (counts > 0).any(2).sum(0).tolist()
    return [Part(name, SpanScore(*counts[:, place].sum(0).tolist()), interval_of(rates[:, place]), found[place])
            for place, name in enumerate(names)]


def _ranges(bounds: Sequence[int]) -> list[str]:
    firsts = [1, *(bound + 1 for bound in bounds)]
    return [str(first) if first == last else f'{first} to {last}' for first, last in zip(firsts, bounds)] + [
        f'{firsts[-1]} or more']


def by_sentence_length(evaluation: Evaluation) -> list[Part]:
    """By the number of tokens in the sentence."""
    return parts(evaluation, _ranges(SENTENCES), lambda tokens, _: sum(len(tokens) > bound for bound in SENTENCES))


def by_entity_length(evaluation: Evaluation) -> list[Part]:
    """By the number of tokens in the entity."""
    return parts(evaluation, _ranges(ENTITIES),
                 lambda _, span: sum(span[2] - span[1] + 1 > bound for bound in ENTITIES))


def by_training(evaluation: Evaluation, training: Sequence[Sentence]) -> list[Part]:
    """By whether the same tokens are an entity, or have a plain tag, in the training sentences."""
    types: dict[Surface, Set[str]] = {}
    for sentence in training:
        spans = ([(tag, place, place) for place, tag in enumerate(sentence.tags) if OPEN not in tag]
                 if evaluation.scheme == PLAIN else spans_of(closed(sentence.tags)))
        for kind, first, last in spans:
            surface = tuple(sentence.tokens[first:last + 1])
            types[surface] = {*types.get(surface, ()), kind}

    def part_of(tokens: list[str], span: SpanTuple) -> int:
        found = types.get(tuple(tokens[span[1]:span[2] + 1]))
        return SEEN_PARTS.index(UNSEEN if not found else SEEN if span[0] in found else ELSEWHERE)
    return parts(evaluation, SEEN_PARTS, part_of)


def by_vocabulary(evaluation: Evaluation, knows: Callable[[str], bool]) -> list[Part]:
    """By whether all tokens of the entity are in the model's vocabulary."""
    known: dict[str, bool] = {}
    for tokens in evaluation.tokens:
        for token in tokens:
            if token not in known:
                known[token] = knows(token)

    def part_of(tokens: list[str], span: SpanTuple) -> int:
        return int(not all(known[token] for token in tokens[span[1]:span[2] + 1]))
    return parts(evaluation, KNOWN_PARTS, part_of)
