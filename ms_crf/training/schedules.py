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

EPOCHS, PATIENCE, WARMUP, DECAY = 24, 8, 0.5, 0.05     # what `course_of` stretches
FEW_STEPS = 25                                         # an epoch of fewer is a small part of a training
AVERAGE_EVERY = 8      # steps; the whole word table takes part, which each step would wait for


class Course(NamedTuple):
    """How long a training may take and how its rate goes; all but the last in epochs, as the options of these names."""

    epochs: int
    patience: int
    warmup: float
    decay: float
    average_every: int     # steps from which to which the average of the weights moves


def course_of(steps: int, epochs: int | None = None, patience: int | None = None, warmup: float | None = None,
              decay: float | None = None) -> Course:
    """The `Course` of a training whose epochs have that many steps.

    What is None follows from the steps: 24 epochs, 8 of patience, 0.5 of warm-up, decay by 0.05 an epoch; stretched,
    where an epoch has fewer than FEW_STEPS, to as many steps as epochs of FEW_STEPS would have. For 50 sentences, 2
    steps an epoch, that makes 600 steps of 48: F1 44 for 4 on the sample corpus. There the average moves at every
    step: moved at every 8th, it would be that of a handful of weights.
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
    """The learning rate.

    Args:
        kind: 'constant', 'inverse' or 'cosine'.
        rate: the highest.
        time: epochs done, with their fraction.
        epochs: of the whole training.
        warmup: epochs over which 'cosine' rises first.
        decay: of 'inverse'.
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
    """What values are multiplied with in training: for each width an array (length, rows, width).

    Args:
        seed, epoch, step: the position, which alone decides.
        shape: (length, rows).
        rates: for each width the share that is dropped.
        locked: the same for all positions of a row.
    """
    generator = np.random.default_rng([seed, epoch, step])
    length, rows = shape
    factors = []
    for width, rate in zip(widths, rates):
        drawn = generator.random((1 if locked else length, rows, width), np.float32)
        kept = (drawn >= rate).astype(np.float32) * np.float32(1 / (1 - rate))
        factors.append(np.ascontiguousarray(np.broadcast_to(kept, (length, rows, width))))
    return factors


def replaced(generator: np.random.Generator, sentences: Sequence[np.ndarray], counts: np.ndarray,
             strength: float) -> list[np.ndarray]:
    """For each sentence which of its tokens become the unknown word.

    Args:
        generator: a NumPy random generator.
        sentences: for each the forms of its tokens.
        counts: how often each form's word occurs.
        strength: Z of Z / (Z + count).
    """
    rates = strength / (strength + counts)
    lengths = np.cumsum([len(tokens) for tokens in sentences])[:-1]
    drawn = generator.random(sum(map(len, sentences))) < rates[np.concatenate(sentences)]
    return np.split(drawn, lengths)


FIRST, LEAST, MOST = 2.0 ** 16, 1.0, 2.0 ** 24
GROWS_AFTER = 2000           # steps without an overflow


class LossScale:
    """What the loss is multiplied with before its gradients are taken: half as much after a step that overflows."""

    def __init__(self) -> None:
        self.scale, self.good = FIRST, 0         # steps without an overflow since it was changed

    def take(self, finite: bool) -> None:
        """Takes whether the loss and the gradients of a step were finite."""
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.scale /= 2
        elif self.good == GROWS_AFTER:
            self.scale, self.good = min(2 * self.scale, MOST), 0

    def exhausted(self) -> bool:
        """Whether even the least scale has overflowed: the numbers themselves are too large, or none."""
        return self.scale < LEAST

    def state(self) -> list[float]:
        """All there is to it, as two numbers."""
        return [self.scale, float(self.good)]

    def load(self, state: Sequence[float]) -> None:
        """Goes on from what `state` gave."""
        self.scale, self.good = float(state[0]), int(state[1])


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
