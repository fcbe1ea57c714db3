"""Learning rates over time, and the noise of a step: all of it follows from the seed and the position alone."""

import math
from collections.abc import Sequence
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
