"""The scores of a model on dev and test, and the shift of the score of O that is best for F1 on dev.

Training makes tags likely, not F1 high. New text has more unknown words than the training text, and most unknown words
become O. So the model finds too few spans: recall loses more than precision gains. A number that is subtracted from the
score of O after the training corrects this.
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
    """Returns the tags that a model gives the sentences of 'dev' or 'test', in the scheme of its output."""
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


#: what is taken away from the score of O; the outermost are only neighbours
SHIFTS = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
CHANCE = 0.4       # a shift is kept if chance makes differences as large less often, by the paired bootstrap test


class Choice(NamedTuple):
    """A shift, and F1 on dev without and with it."""

    shift: float
    before: float
    after: float


def best_shift(counts: Sequence[np.ndarray]) -> Choice:
    """The shift by which F1 is best, averaged with those of the shifts beside it; 0 if chance may have made it so.

    Where no span is right without a shift, nothing was learned that could be shifted.

    Args:
        counts: for each of SHIFTS those of spans (sentences, 3): correct, predicted and gold ones.
    """
    rates = np.nan_to_num([f1_of(each.sum(0)) for each in counts])
    smooth = rates[:-2] + rates[1:-1] + rates[2:]
    best, none = 1 + int(np.argmax(smooth)), SHIFTS.index(0.0)
    better = rates[best] > rates[none] > 0 and difference(counts[best], counts[none]).p < CHANCE
    best = best if better else none
    return Choice(SHIFTS[best], float(rates[none]), float(rates[best]))


def balance(network: Any, learner: Learner, corpora: Corpora, decoder: Decoder, before: float,
            watcher: TrainingWatcher) -> float:
    """Shifts the score of O in a network by what F1 on dev is best with.

    Args:
        network: what the decoder tags with; without a `tag_bias` it stays as it is.
        learner: that made it.
        corpora: the sentences; their tags are of spans.
        decoder: compiled for the network.
        before: by how much the score is lower already than it was learned.
        watcher: is told how far it is, and of a shift.

    Returns:
        By how much the score is lower now than it was learned.

    Raises:
        Stopped: the watcher has stopped it; a resumed training begins with it again.
    """
    bias, tags = getattr(network, 'tag_bias', None), learner.vocabulary.tags
    if bias is None or 'O' not in tags:
        return before
    import mindspore as ms  # here, because a model that is fitted at once needs no MindSpore
    learned, place = bias.asnumpy().copy(), tags.index('O')
    learned[place] += before

    def shift_by(shift: float) -> None:
        shifted = learned.copy()
        shifted[place] -= shift
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
        watcher.say(f'the score of O is {moved} by {abs(choice.shift):g}, which suits dev: F1 {choice.before:.2%} '
                    f'without, {choice.after:.2%} with it')
    return choice.shift
