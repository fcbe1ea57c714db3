"""The course of a training: its length, learning rates, the noise and the loss scale of a step, the best epoch.

Rates and noise follow from the options, the seed and the position in the training alone, so that a resumed training
goes on with the same ones.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

EPOCHS, PATIENCE, WARMUP, DECAY = 40, 12, 0.5, 0.03     # defaults, which `course_of` stretches for short epochs
FEW_STEPS = 25                                         # an epoch of fewer steps is short
AVERAGE_EVERY = 8      # steps; averaging the whole word table at each step would take too long


class Course(NamedTuple):
    """How long a training may take and how its learning rate changes; the options of these names, all set.

    All but `average_every` are counted in epochs.
    """

    epochs: int
    patience: int
    warmup: float
    decay: float
    average_every: int     # the average of the weights is updated at every so many steps


def course_of(steps: int, epochs: int | None = None, patience: int | None = None, warmup: float | None = None,
              decay: float | None = None) -> Course:
    """The `Course` of a training whose epochs have that many steps.

    The defaults are 40 epochs, a patience of 12, a warm-up of 0.5 and a decay of 0.03 an epoch. If an epoch has fewer
    than FEW_STEPS steps, they are stretched to the number of steps that they would be if it had FEW_STEPS. So 50
    sentences, 4 steps an epoch, are trained for 1,000 steps in place of 160. The average of the weights is then
    updated at every step, or it would be one of a handful of weights.

    Args:
        steps: of an epoch.
        epochs, patience, warmup, decay: the options of these names; None for the defaults.
    """
    stretch = max(1.0, FEW_STEPS / steps)
    if warmup is None:
        warmup = WARMUP * stretch
        if epochs is not None:                             # which may be few
            warmup = min(warmup, max(WARMUP, epochs / 20))
    return Course(epochs=math.ceil(EPOCHS * stretch) if epochs is None else epochs,
                  patience=math.ceil(PATIENCE * stretch) if patience is None else patience,
                  warmup=warmup,
                  decay=DECAY / stretch if decay is None else decay,
                  average_every=AVERAGE_EVERY if stretch == 1 else 1)


def rate_at(kind: str, rate: float, time: float, epochs: int, warmup: float = 0.0, decay: float = 0.0) -> float:
    """The learning rate at a moment of the training.

    Args:
        kind: the schedule, 'constant', 'inverse' or 'cosine'.
        rate: the highest learning rate.
        time: the number of epochs that are done, with a fraction.
        epochs: the length of the whole training.
        warmup: the number of epochs over which 'cosine' rises at first.
        decay: for 'inverse', D of rate / (1 + D * time).
    """
    if kind == 'inverse':
        return rate / (1 + decay * time)
    if kind == 'cosine':
        if time < warmup:
            return rate * (time + 1e-3) / (warmup + 1e-3)
        share = (time - warmup) / max(epochs - warmup, 1e-9)
        return rate * max(0.5 * (1 + math.cos(math.pi * min(share, 1.0))), 1e-3)
    return rate


def dropout(seed: int, epoch: int, step: int, shape: tuple[int, int], widths: Sequence[int], rates: Sequence[float],
            locked: bool) -> list[np.ndarray]:
    """Dropout masks for a step: 0 for what is dropped, 1 / (1 - rate) for the rest.

    Args:
        seed, epoch, step: what the random generator is seeded with.
        shape: (length, rows) of the batch.
        widths: the width of each place where values are dropped.
        rates: for each of these the share that is dropped.
        locked: whether the mask is the same for all positions of a row.

    Returns:
        For each of the widths an array (length, rows, width).
    """
    bits = np.random.default_rng([seed, epoch, step]).bit_generator
    length, rows = shape
    factors = []
    for width, rate in zip(widths, rates):
        drawn_shape = 1 if locked else length, rows, width
        count = math.prod(drawn_shape)
        # 16 random bits for each value: a quarter of the time that random floats take.
        drawn = bits.random_raw(-(-count // 4)).astype('<u8', copy=False).view('<u2')[:count].reshape(drawn_shape)
        kept = (drawn >= round(rate * 65536)).astype(np.float32) * np.float32(1 / (1 - rate))
        factors.append(np.ascontiguousarray(np.broadcast_to(kept, (length, rows, width))))
    return factors


FIRST, LEAST, MOST = 2.0 ** 16, 1.0, 2.0 ** 24
GROWS_AFTER = 2000           # steps without an overflow


class LossScale:
    """The factor of the loss before its gradients are taken, so that 16-bit floats can hold them.

    It is halved after a step that overflows, and doubled after many steps that do not.
    """

    def __init__(self) -> None:
        self.scale, self.good = FIRST, 0         # good: steps without an overflow since the scale was changed

    def take(self, finite: bool) -> None:
        """Adapts the scale to a step, by whether its loss and gradients were finite."""
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.scale /= 2
        elif self.good == GROWS_AFTER:
            self.scale, self.good = min(2 * self.scale, MOST), 0

    def exhausted(self) -> bool:
        """Whether even the least scale has overflowed: then the loss itself is too large or not a number."""
        return self.scale < LEAST

    def state(self) -> list[float]:
        """Its state as two numbers."""
        return [self.scale, float(self.good)]

    def load(self, state: Sequence[float]) -> None:
        """Restores what `state` returned."""
        self.scale, self.good = float(state[0]), int(state[1])


NEAR_ZERO = 0.1      # an F1 below this proves nothing: untrained networks reach 0.01 to 0.04 with 5 to 9 tags


class Best:
    """Keeps track of the best epoch, and of how long ago there was any progress.

    Epochs are compared by their score on dev, then by accuracy. A score below NEAR_ZERO counts as 0 if accuracy is
    lower than the most frequent tag alone would reach: otherwise the few spans that an untrained network hits by chance
    would outweigh a network that has begun to learn and still tags everything 'O'. Scores of 0 with equal accuracy are
    compared by the loss.

    Args:
        gold: the lists of tags of dev.
        plain: whether these are plain tags, not tags of spans.
    """

    def __init__(self, gold: Sequence[Sequence[str]], plain: bool) -> None:
        counts: Counter[str] = Counter(chain.from_iterable(gold))
        self.common, count = counts.most_common(1)[0] if counts else ('O', 0)
        self.common_share = count / max(sum(counts.values()), 1)     # accuracy of the most frequent tag alone
        self.plain = plain
        self.epoch = self.moved = 0                          # moved: the last epoch with any progress
        self.highest = -1.0
        self.key: tuple[float, ...] = (-1.0, 0.0, 0.0)

    def take(self, epoch: int, score: float, accuracy: float, loss: float) -> bool:
        """Takes the result of an epoch; returns whether it is the best so far.

        Args:
            epoch: its number, from 1.
            score: its F1 on dev, or its accuracy with plain tags.
            accuracy: its accuracy on dev.
            loss: its mean loss in training.
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
        """One line if the best epoch is no better than the most frequent tag for every word; otherwise None."""
        score, accuracy, _ = self.key
        if self.common_share == 1 or score > (self.common_share if self.plain else 0):
            return None
        return (f'nothing was learned: on dev the model is no better than the tag {self.common!r} for every word '
                f'(accuracy {accuracy:.2%}, of that tag {self.common_share:.2%}); it needs more sentences, or more '
                'epochs')

    def state(self) -> list[float]:
        """Its state as numbers, for `load`."""
        return [self.epoch, self.moved, self.highest, *self.key]

    def load(self, state: Sequence[float]) -> None:
        """Restores what `state` returned."""
        epoch, moved, self.highest, *key = state
        self.epoch, self.moved, self.key = int(epoch), int(moved), tuple(key)

    def load_score(self, epoch: int, score: float) -> None:
        """Restores what earlier versions saved, the best epoch and its score."""
        self.epoch = self.moved = epoch
        self.highest, self.key = score, (score, 1.0, 0.0)
