"""How readily a model finds spans: a shift of the score of O, chosen by F1 on dev.

Training makes tags likely, not F1 high. Where text to be tagged differs from what was learned from, most words that
are unlike any before become O, and far fewer spans are found than there are; what is lost in recall is then more than
what is won in precision. A single number set after the training evens that out.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Decoder, Learner
from ms_crf.text.bootstrap import difference, f1_of
from ms_crf.text.metrics import score_in
from ms_crf.training.errors import Stopped
from ms_crf.training.scores import predicted_of
from ms_crf.training.watchers import TrainingWatcher

import mindspore as ms
import numpy as np

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
