"""Baum-Welch: learning the tables of a hidden Markov model without tags, by expectation maximisation.

Shapes: B sequences of a batch, S states, V symbols.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ms_crf.crf.host import SequenceBatch

import numpy as np


class Fit(NamedTuple):
    """What `HMM.baum_welch` has done."""

    history: list              # log likelihood of the observations before each step, and after the last
    converged: bool            # whether it stopped by itself, not at the limit of steps
    histories: list            # of all random starts


class Tables(NamedTuple):
    """A model in logarithms: (S,), (S, S), (S, V) and (S,)."""

    log_start: np.ndarray
    log_transition: np.ndarray
    log_emission: np.ndarray
    log_end: np.ndarray


class Learnable(Protocol):
    """A model whose tables can be exchanged; `HMM` is one."""

    def tables(self) -> Tables:
        """Its tables, as they are now."""

    def set_tables(self, tables: Tables) -> None:
        """Gives it other ones."""

    def batches(self, sequences: list) -> Iterator[tuple[np.ndarray, SequenceBatch, np.ndarray]]:
        """Indices of sequences, a batch of them, and its symbols one after the other."""


def random_tables(generator: np.random.Generator, states: int, symbols: int) -> Tables:
    """Tables of a model at random, every distribution as likely as every other."""
    start, *rows = (generator.dirichlet(np.ones(width), count)
                    for width, count in ((states, 1), (states, states), (symbols, states)))
    return Tables(np.log(start[0]), np.log(rows[0]), np.log(rows[1]), np.zeros(states))


def best_of(models: Iterable[Learnable], sequences: list, steps: int, tolerance: float) -> tuple[Tables, Fit]:
    """The tables of the model that becomes the most likely of several, each of which is changed.

    Args:
        models: what learning begins with.
        sequences: arrays of symbols.
        steps: of each model at most.
        tolerance: a model is done when a step adds less to its log likelihood.
    """
    histories: list[list[float]] = []
    best: tuple[Tables, list[float], bool] | None = None
    for model in models:
        history, converged = climb(model, sequences, steps, tolerance)
        histories.append(history)
        if best is None or history[-1] > best[1][-1]:
            best = model.tables(), history, converged
    assert best is not None                      # there is at least one start
    return best[0], Fit(best[1], best[2], histories)


def climb(model: Learnable, sequences: list, steps: int, tolerance: float) -> tuple[list[float], bool]:
    """Steps of expectation maximisation on a model, which changes: (history, whether it has converged)."""
    history: list[float] = []
    for _ in range(steps):
        value, counts = _expected(model, sequences)
        history.append(value)
        if len(history) > 1 and history[-1] - history[-2] < tolerance:
            return history, True
        with np.errstate(divide='ignore', invalid='ignore'):
            learned = [np.log(array / array.sum(-1, keepdims=True)) for array in counts]
        # A state that is never there, or never before another, keeps what it had.
        before = model.tables()
        start, transition, emission = (np.where(np.isnan(new), old, new) for new, old in zip(learned, before))
        model.set_tables(Tables(start, transition, emission, before.log_end))
    history.append(_expected(model, sequences)[0])
    return history, len(history) > 1 and history[-1] - history[-2] < tolerance


@np.errstate(over='ignore')
def _expected(model: Learnable, sequences: list) -> tuple[float, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Log likelihood of all sequences, and expected counts: of first states, of transitions, of symbols."""
    states, symbols = model.tables().log_emission.shape
    value, start = 0.0, np.zeros(states)
    transition, emission = np.zeros((states, states)), np.zeros((states, symbols))
    for _, batch, observed in model.batches(sequences):
        value += float(batch.check_possible().sum())
        weights = batch.posteriors()
        start += weights[0].sum(0)
        transition += batch.pair_counts()
        flat = weights.swapaxes(0, 1)[batch.live.T]                                 # (positions, S)
        emission += np.stack([np.bincount(observed, flat[:, state], symbols) for state in range(states)])
    return value, (start, transition, emission)
