"""Scores a model on dev and test, and finds the shift of the score of O with the best F1 on dev.

Training maximises the likelihood of the tags, not F1. New text has more unknown words than the training text, and most
unknown words are tagged O. So the model finds too few spans: recall loses more than precision gains. To correct this, a
number is subtracted from the score of O after the training.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Decoder, Learner
from ms_crf.models.learning import tags_of
from ms_crf.text.bootstrap import difference, f1_of
from ms_crf.text.metrics import Score, as_record, score_in, table
from ms_crf.text.partial import in_scheme
from ms_crf.training.watchers import Stopped, TrainingWatcher

import numpy as np


def score_of(part: str, corpora: Corpora, learner: Learner, decoder: Decoder) -> Score:
    """Returns the score of a model on 'dev' or 'test'."""
    predicted = predicted_of(part, corpora, learner, decoder)
    return score_in(corpora.file_scheme, corpora.gold[part], predicted, corpora.written, corpora.raw.get(part))


def predicted_of(part: str, corpora: Corpora, learner: Learner, decoder: Decoder) -> list[list[str]]:
    """Returns the predicted tags of the sentences of 'dev' or 'test', in the tag scheme of the model's output."""
    predicted = tags_of(decoder, learner.encoded[part])
    if corpora.written != corpora.scheme:
        predicted = [in_scheme(tags, corpora.written) for tags in predicted]
    return predicted


def scores_record(best_epoch: int, epochs: int, corpora: Corpora, learner: Learner, decoder: Decoder,
                  shift: float = 0.0) -> dict[str, Any]:
    """Returns the content of scores.json: the best epoch, the number of epochs, the shift of the score of O, and the
    scores of each part."""
    results = {part: score_of(part, corpora, learner, decoder) for part in ('dev', 'test') if part in learner.encoded}
    return {'best_epoch': best_epoch, 'epochs': epochs, 'shift': shift,
            **{part: {**as_record(result), 'table': table(result)} for part, result in results.items()}}


#: candidates, subtracted from the score of O; the first and the last are only used in averages
SHIFTS = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
CHANCE = 0.4       # a shift is used if the paired bootstrap test gives a smaller p


class BestShift(NamedTuple):
    """The chosen shift, and F1 on dev without and with this shift."""

    shift: float
    before: float
    after: float


def best_shift(counts: Sequence[np.ndarray]) -> BestShift:
    """Returns the shift with the best F1 on dev, or 0 if the improvement may be chance.

    F1 of each shift is averaged with F1 of the two neighbouring shifts. The result is also 0 if no span is correct
    without a shift, because then the model has not learned anything.

    Args:
        counts: for each of SHIFTS the numbers of correct, predicted and gold spans, (sentences, 3).
    """
    rates = np.nan_to_num([f1_of(each.sum(0)) for each in counts])
    smooth = rates[:-2] + rates[1:-1] + rates[2:]
    best, none = 1 + int(np.argmax(smooth)), SHIFTS.index(0.0)
    better = rates[best] > rates[none] > 0 and difference(counts[best], counts[none]).p < CHANCE
    best = best if better else none
    return BestShift(SHIFTS[best], float(rates[none]), float(rates[best]))


def balance(network: Any, learner: Learner, corpora: Corpora, decoder: Decoder, before: float,
            watcher: TrainingWatcher) -> float:
    """Shifts the score of O in a network to the value with the best F1 on dev.

    Args:
        network: the network of the decoder; a network without a `tag_bias` is not changed.
        learner: the learner of the network.
        corpora: the sentences, with tags of spans.
        decoder: a decoder that is compiled for the network.
        before: the shift that the network already contains.
        watcher: receives the progress, and a line about the shift.

    Returns:
        The shift that the network contains now.

    Raises:
        Stopped: the watcher requested a stop; a resumed training computes the shift again.
    """
    bias, tags = getattr(network, 'tag_bias', None), learner.vocabulary.tags
    if bias is None or 'O' not in tags:
        return before
    import mindspore as ms  # here, because hidden Markov models do not need MindSpore
    learned, index = bias.asnumpy().copy(), tags.index('O')
    learned[index] += before

    def shift_by(shift: float) -> None:
        shifted = learned.copy()
        shifted[index] -= shift
        ms.ops.assign(bias, ms.Tensor(shifted))                  # in place, so that compiled graphs see it

    def counts_at(shift: float) -> np.ndarray:
        shift_by(shift)
        predicted = predicted_of('dev', corpora, learner, decoder)
        return np.array([score_in(corpora.file_scheme, [gold], [tags], corpora.written).spans
                         for gold, tags in zip(corpora.gold['dev'], predicted)])

    counts = []
    with watcher.progress('balancing', len(SHIFTS), 'shifts') as done:
        for shift in SHIFTS:
            if watcher.stopping():
                raise Stopped
            counts.append(counts_at(shift))
            done(1)
    choice = best_shift(counts)
    shift_by(choice.shift)
    if choice.shift:
        moved = 'lowered' if choice.shift > 0 else 'raised'
        watcher.say(f'the score of O is {moved} by {abs(choice.shift):g}, the best shift on dev: F1 '
                    f'{choice.before:.2%} without, {choice.after:.2%} with the shift')
    return choice.shift
