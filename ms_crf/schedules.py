"""Learning rates over time, and the noise of a step: all of it follows from the seed and the position alone."""

import math

import numpy as np


def rate_at(kind, rate, time, epochs, warmup=0.0, decay=0.0):
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


def dropout(seed, epoch, step, shape, widths, rates, locked):
    """What values are multiplied with in training: for each width an array (length, rows, width).

    Args:
        seed, epoch, step: the position, which alone decides.
        shape: (length, rows).
        rates: for each width the share that is dropped.
        locked: the same for all positions of a row.
    """
    generator = np.random.default_rng([seed, epoch, step])
    length, rows = shape
    found = []
    for width, rate in zip(widths, rates):
        drawn = generator.random((1 if locked else length, rows, width), np.float32)
        kept = (drawn >= rate).astype(np.float32) * np.float32(1 / (1 - rate))
        found.append(np.ascontiguousarray(np.broadcast_to(kept, (length, rows, width))))
    return found


def replaced(generator, sentences, counts, strength):
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
