"""Which epoch of a training is the best, and how long ago there was any progress."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

NEAR_ZERO = 0.1      # F1 that says nothing by itself: untrained networks reach 0.01 to 0.04 on 5 to 9 tags


class Best:
    """The best epoch so far.

    The score on dev decides, then accuracy. Below NEAR_ZERO, a model that gets fewer tags right than the most
    frequent tag alone would counts as 0: so the few spans that an untrained network hits don't outweigh one that has
    begun to learn and still tags everything 'O'. Among zeros of equal accuracy the loss decides.

    Args:
        gold: lists of tags of dev.
        plain: whether these are plain tags, not those of spans.
    """

    def __init__(self, gold: Sequence[Sequence[str]], plain: bool) -> None:
        counts: Counter[str] = Counter(chain.from_iterable(gold))
        self.common, count = counts.most_common(1)[0]
        self.common_share = count / sum(counts.values())     # accuracy of the most frequent tag alone
        self.plain = plain
        self.epoch = self.moved = 0                          # moved: the last epoch that was better in any way
        self.highest = -1.0
        self.key: tuple[float, ...] = (-1.0, 0.0, 0.0)

    def take(self, epoch: int, score: float, accuracy: float, loss: float) -> bool:
        """Whether an epoch is the best so far.

        Args:
            epoch: its number, from 1.
            score: F1, or accuracy of plain tags, on dev.
            accuracy: of tokens on dev.
            loss: of its training.
        """
        counts = score >= NEAR_ZERO or accuracy >= self.common_share
        score_or_0 = score if counts else 0.0
        key = score_or_0, accuracy, 0.0 if score_or_0 > 0 else -loss
        best = key > self.key
        if best:
            self.key, self.epoch = key, epoch
        if best or score > self.highest:
            self.moved = epoch
        self.highest = max(self.highest, score)
        return best

    def nothing_learned(self) -> str | None:
        """One line if the best epoch is worth no more than the most frequent tag, otherwise None."""
        score, accuracy, _ = self.key
        if self.common_share == 1 or score > (self.common_share if self.plain else 0):
            return None
        return (f'nothing was learned: on dev the model is no better than the tag {self.common!r} for every word '
                f'(accuracy {accuracy:.2%}, of that tag {self.common_share:.2%}); it needs more sentences, or more '
                'epochs')

    def state(self) -> list[float]:
        """Numbers for `load`."""
        return [self.epoch, self.moved, self.highest, *self.key]

    def load(self, state: Sequence[float]) -> None:
        """Goes on from what `state` gave."""
        epoch, moved, self.highest, *key = state
        self.epoch, self.moved, self.key = int(epoch), int(moved), tuple(key)

    def load_score(self, epoch: int, score: float) -> None:
        """Goes on from what an earlier version saved, which was the best epoch and its score."""
        self.epoch = self.moved = epoch
        self.highest, self.key = score, (score, 1.0, 0.0)

