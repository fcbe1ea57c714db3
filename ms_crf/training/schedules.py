"""Number of epochs, learning rate schedule, dropout masks, loss scale, and the choice of the best epoch.

Learning rates and dropout masks depend only on the options, the seed and the position in the training. So a resumed
training uses the same rates and masks as an uninterrupted one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

EPOCHS, PATIENCE, WARMUP, DECAY = 40, 12, 0.5, 0.03     # defaults; `epoch_settings` adapts them to short epochs
FEW_STEPS = 25                                         # epochs with fewer steps are short
AVERAGE_EVERY = 8      # steps; averaging the whole word table in each step would take too long


class EpochSettings(NamedTuple):
    """The options that are counted in epochs, with defaults filled in, and the interval of weight averaging."""

    epochs: int
    patience: int
    warmup: float
    decay: float
    average_every: int     # number of steps between two updates of the averaged weights


def epoch_settings(steps: int, epochs: int | None = None, patience: int | None = None, warmup: float | None = None,
              decay: float | None = None) -> EpochSettings:
    """Returns the `EpochSettings` of a training with `steps` steps per epoch.

    The defaults are 40 epochs, a patience of 12, a warmup of 0.5 and a decay of 0.03 per epoch. Short epochs, with
    fewer than FEW_STEPS steps, use larger defaults: the same number of steps as if an epoch had FEW_STEPS steps. For
    example, 50 sentences have 4 steps per epoch and are trained for 1,000 steps instead of 160. The averaged weights
    are then updated in every step, because otherwise the average would contain only few steps.

    Args:
        steps: number of steps per epoch.
        epochs, patience, warmup, decay: the options of the same name; None selects the default.
    """
    stretch = max(1.0, FEW_STEPS / steps)
    if warmup is None:
        warmup = WARMUP * stretch
        if epochs is not None:                             # a short training needs a short warmup
            warmup = min(warmup, max(WARMUP, epochs / 20))
    return EpochSettings(epochs=math.ceil(EPOCHS * stretch) if epochs is None else epochs,
                  patience=math.ceil(PATIENCE * stretch) if patience is None else patience,
                  warmup=warmup,
                  decay=DECAY / stretch if decay is None else decay,
                  average_every=AVERAGE_EVERY if stretch == 1 else 1)


def rate_at(kind: str, rate: float, time: float, epochs: int, warmup: float = 0.0, decay: float = 0.0) -> float:
    """Returns the learning rate at a position of the training.

    Args:
        kind: the learning rate schedule: 'constant', 'inverse' or 'cosine'.
        rate: the highest learning rate.
        time: number of finished epochs, with the fraction of the current epoch.
        epochs: number of epochs of the whole training.
        warmup: number of epochs at the beginning in which the 'cosine' rate rises.
        decay: D in the formula of 'inverse': rate / (1 + D * time).
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
    """Returns the dropout masks of a step: 0 for dropped values, 1 / (1 - rate) for kept values.

    Args:
        seed, epoch, step: seed of the random generator.
        shape: (length, rows) of the batch.
        widths: width of each layer with dropout.
        rates: dropout rate of each layer.
        locked: whether all positions of a row have the same mask.

    Returns:
        One array (length, rows, width) for each layer.
    """
    bits = np.random.default_rng([seed, epoch, step]).bit_generator
    length, rows = shape
    factors = []
    for width, rate in zip(widths, rates):
        drawn_shape = 1 if locked else length, rows, width
        count = math.prod(drawn_shape)
        # 16 random bits for each value take a quarter of the time of random floats.
        drawn = bits.random_raw(-(-count // 4)).astype('<u8', copy=False).view('<u2')[:count].reshape(drawn_shape)
        kept = (drawn >= round(rate * 65536)).astype(np.float32) * np.float32(1 / (1 - rate))
        factors.append(np.ascontiguousarray(np.broadcast_to(kept, (length, rows, width))))
    return factors


INITIAL_SCALE, MIN_SCALE, MAX_SCALE = 2.0 ** 16, 1.0, 2.0 ** 24
GROWS_AFTER = 2000           # steps without an overflow


class LossScale:
    """Dynamic loss scaling: the factor of the loss with which 16-bit gradients neither overflow nor vanish.

    The scale is halved after a step with an overflow, and doubled after GROWS_AFTER steps without an overflow.
    """

    def __init__(self) -> None:
        self.scale, self.good = INITIAL_SCALE, 0         # good: steps without overflow since the last change

    def take(self, finite: bool) -> None:
        """Adapts the scale after a step; `finite` states whether loss and gradients were finite."""
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.scale /= 2
        elif self.good == GROWS_AFTER:
            self.scale, self.good = min(2 * self.scale, MAX_SCALE), 0

    def exhausted(self) -> bool:
        """Returns whether the smallest scale has overflowed, so that the loss itself must be too large or nan."""
        return self.scale < MIN_SCALE

    def state(self) -> list[float]:
        """Returns the state as two numbers."""
        return [self.scale, float(self.good)]

    def load(self, state: Sequence[float]) -> None:
        """Restores a result of `state`."""
        self.scale, self.good = float(state[0]), int(state[1])


NEAR_ZERO = 0.1      # a lower F1 can be chance: untrained networks reach 0.01 to 0.04 with 5 to 9 tags


class BestEpoch:
    """Finds the best epoch, and the last epoch with progress for early stopping.

    Epochs are compared by their dev score, then by accuracy, then, if the score is 0, by the loss. A score below
    NEAR_ZERO counts as 0 if the accuracy is lower than the accuracy of the most frequent tag. Otherwise the few spans
    that an untrained network predicts correctly by chance would win against a network that has begun to learn and
    still predicts 'O' everywhere.

    Args:
        gold: the tags of each dev sentence.
        plain: whether the tags are plain tags, without spans.
    """

    def __init__(self, gold: Sequence[Sequence[str]], plain: bool) -> None:
        counts: Counter[str] = Counter(chain.from_iterable(gold))
        self.most_frequent, count = counts.most_common(1)[0] if counts else ('O', 0)
        self.baseline = count / max(sum(counts.values()), 1)     # accuracy of the most frequent tag
        self.plain = plain
        self.epoch = self.last_progress = 0                          # the best epoch; the last one with progress
        self.highest = -1.0
        self.key: tuple[float, ...] = (-1.0, 0.0, 0.0)

    def take(self, epoch: int, score: float, accuracy: float, loss: float) -> bool:
        """Adds the result of an epoch; returns whether the epoch is the best so far.

        Args:
            epoch: number of the epoch, from 1.
            score: F1 on dev, or accuracy for plain tags.
            accuracy: accuracy on dev.
            loss: mean training loss.
        """
        counts = score >= NEAR_ZERO or accuracy >= self.baseline
        score_or_0 = score if counts else 0.0
        key = score_or_0, accuracy, 0.0 if score_or_0 > 0 else -loss
        best = key > self.key
        if best:
            self.key, self.epoch = key, epoch
        if best or score > self.highest:
            self.last_progress = epoch
        self.highest = max(self.highest, score)
        return best

    def nothing_learned(self) -> str | None:
        """Returns a warning if the best epoch is no better than the most frequent tag for every word, or None."""
        score, accuracy, _ = self.key
        if self.baseline == 1 or score > (self.baseline if self.plain else 0):
            return None
        return ('nothing was learned: on dev the model is no better than predicting the tag '
                f'{self.most_frequent!r} for every word (accuracy {accuracy:.2%}, {self.baseline:.2%} with that tag); '
                'train with more sentences or more epochs')

    def state(self) -> list[float]:
        """Returns the state as numbers, for `load`."""
        return [self.epoch, self.last_progress, self.highest, *self.key]

    def load(self, state: Sequence[float]) -> None:
        """Restores a result of `state`."""
        epoch, last_progress, self.highest, *key = state
        self.epoch, self.last_progress, self.key = int(epoch), int(last_progress), tuple(key)

    def load_score(self, epoch: int, score: float) -> None:
        """Restores the state of earlier versions: the best epoch and its score."""
        self.epoch = self.last_progress = epoch
        self.highest, self.key = score, (score, 1.0, 0.0)
