"""The recursions of a chain in NumPy: forward, backward and Viterbi over batches of sequences, in float64 logarithms.

The names are the names of a hidden Markov model: a state is a tag, and the observations give the emissions. The module
does not use MindSpore.

Shapes: L length, B sequences, S states. Zero probabilities may be -inf or large finite negative numbers.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

CELLS = 1 << 15            # largest number of positions in a batch, including padding
LONG = 1024                # a sequence of at least this length is a batch of its own, computed in segments


def top(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The maximum over an axis, which is kept with size 1; 0 instead of -inf, so that it can be subtracted."""
    largest = values.max(axis, keepdims=True)
    return np.where(np.isneginf(largest), 0.0, largest)


def log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    """Logarithm of the sum of exponentials over an axis."""
    largest = top(values, axis)
    with np.errstate(divide='ignore'):
        return (np.log(np.exp(values - largest).sum(axis, keepdims=True)) + largest).squeeze(axis)


def _normalized(values: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis from their logarithms; nan where all are impossible.

    The logarithms may contain an additive constant. They are overwritten, because tag pairs are the largest array of
    all.
    """
    values -= top(values)
    np.exp(values, out=values)
    with np.errstate(invalid='ignore'):
        values /= values.sum(-1, keepdims=True)
    return values


def batches(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Batches of sequences with similar lengths, as arrays of their indices; empty sequences are in no batch."""
    indices = np.argsort(-lengths, kind='stable')
    indices = indices[lengths[indices] > 0]
    while len(indices):
        longest = lengths[indices[0]]
        count = 1 if longest >= LONG else max(1, CELLS // longest)
        yield indices[:count]
        indices = indices[count:]


class SequenceBatch:
    """A batch of sequences, longest first, with its recursions.

    Args:
        log_start, log_transition, log_end: (S,), (S, S), (S,).
        emissions: log probabilities of the observations in each state, (positions, S), for the positions of all
            sequences one after the other.
        lengths: lengths of the sequences, in descending order, at least 1.
        indices: numbers of the sequences in messages.
    """

    def __init__(self, log_start: np.ndarray, log_transition: np.ndarray, log_end: np.ndarray, emissions: np.ndarray,
                 lengths: np.ndarray, indices: np.ndarray) -> None:
        self.log_start, self.log_transition, self.log_end = log_start, log_transition, log_end
        self.lengths, self.indices = np.asarray(lengths), indices
        self.length, self.size = int(self.lengths[0]), len(log_start)
        self.live = np.arange(self.length)[:, None] < self.lengths                  # (L, B)
        self.active = self.live.sum(1)                                         # number of sequences with this position
        self._observed = emissions
        self._segments = _Segments(log_transition, self.emissions[:, 0]) if self.length >= LONG else None

    @cached_property
    def emissions(self) -> np.ndarray:
        """Emissions (L, B, S), 0 on padding."""
        emissions = np.zeros((self.length, len(self.lengths), self.size))
        emissions.swapaxes(0, 1)[self.live.T] = self._observed
        return emissions

    def split(self, values: np.ndarray, fewer: int = 0) -> list[np.ndarray]:
        """Values (L, B, ...) as one array for each sequence, without its last `fewer` positions."""
        return [values[:length - fewer, row] for row, length in enumerate(self.lengths)]

    @cached_property
    def forward(self) -> np.ndarray:
        """Log probability of the observations up to each position together with the state there, (L, B, S)."""
        forward = np.empty_like(self.emissions)
        forward[0] = self.log_start + self.emissions[0]
        begin = 1 if self._segments is None else self._segments.forward(forward[:, 0])
        step = _Step(self.log_transition)
        for t in range(begin, self.length):
            forward[t] = step(forward[t - 1]) + self.emissions[t]
        return forward

    @cached_property
    def backward(self) -> np.ndarray:
        """Log probability of the observations after each position given the state there, (L, B, S).

        On padding it is the end score of the state.
        """
        backward = np.empty_like(self.emissions)
        backward[-1] = self.log_end
        last = 0 if self._segments is None else self._segments.covered
        step = _Step(self.log_transition.T)
        for t in range(self.length - 2, last - 1, -1):
            arrived = step(backward[t + 1] + self.emissions[t + 1])
            backward[t] = np.where(self.live[t + 1][:, None], arrived, self.log_end)
        if self._segments is not None:
            self._segments.backward(backward[:, 0])
        return backward

    def forward_likelihood(self) -> np.ndarray:
        """Log probability of the observations of each sequence (B,), by the forward recursion."""
        return log_sum(self.forward[self.lengths - 1, np.arange(len(self.lengths))] + self.log_end, 1)

    def backward_likelihood(self) -> np.ndarray:
        """Log probability of the observations of each sequence (B,), by the backward recursion."""
        return log_sum(self.log_start + self.emissions[0] + self.backward[0], 1)

    def check_possible(self) -> np.ndarray:
        """Log likelihoods of the sequences (B,); raises ValueError if a sequence is impossible in the model."""
        likelihoods = self.forward_likelihood()
        if np.isneginf(likelihoods).any():
            index = self.indices[int(np.isneginf(likelihoods).argmax())]
            raise ValueError(f'sequence {index} is impossible in the model')
        return likelihoods

    def posteriors(self) -> np.ndarray:
        """Probability of each state at each position given all observations (L, B, S); undefined on padding."""
        return _normalized(self.forward + self.backward)

    def path_posteriors(self, paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posteriors of the states of paths, and posteriors of all states given the previous state of the path.

        Args:
            paths: (B, L) integers.

        Returns:
            Arrays (B, L) and (B, L, S), both 0 on padding.
        """
        before = self.log_transition[paths.T[:-1]]                                  # (L - 1, B, S)
        first = np.broadcast_to(self.log_start, (1, *before.shape[1:]))
        onward = np.concatenate((first, before)) + self.emissions + self.backward
        weights = np.exp(onward - top(onward))
        weights *= self.live[:, :, None] / weights.sum(-1, keepdims=True)
        chosen = np.take_along_axis(self.posteriors().swapaxes(0, 1), paths[:, :, None], 2)[:, :, 0]
        return np.where(self.live.T, chosen, 0.0), weights.swapaxes(0, 1)

    def pairs(self) -> np.ndarray:
        """Probability of each pair of states at neighbouring positions (L - 1, B, S, S); undefined on padding."""
        onward = self.emissions[1:] + self.backward[1:]
        joint = self.forward[:-1, :, :, None] + self.log_transition + onward[:, :, None, :]
        return _normalized(joint.reshape(*joint.shape[:2], self.size ** 2)).reshape(joint.shape)

    def pair_counts(self) -> np.ndarray:
        """Expected number of times that state j follows state i, in all sequences together, (S, S)."""
        onward = self.emissions[1:] + self.backward[1:]
        before = self.forward[:-1]
        live = self.live[1:]
        left = np.exp(before - top(before))[live]                                   # (positions, S)
        right = np.exp(onward - top(onward))[live]
        factors = np.exp(self.log_transition)
        arrived = left @ factors
        total = (arrived * right).sum(1)
        # Products underflow if the likely states before and the likely states after a step hardly overlap.
        lost = total < 1e-200
        with np.errstate(divide='ignore', invalid='ignore'):
            left = left / np.where(lost, np.inf, total)[:, None]
        counts = (left.T @ right) * factors
        if lost.any():
            joint = before[live][lost][:, :, None] + self.log_transition + onward[live][lost][:, None, :]
            counts += _normalized(joint.reshape(len(joint), -1)).sum(0).reshape(counts.shape)
        return counts

    def viterbi(self) -> tuple[np.ndarray, np.ndarray]:
        """Best states (L, B), undefined on padding, and their scores (B,).

        Of paths with equal scores, the path with the lowest last state is chosen, then the lowest state before it, and
        so on.
        """
        emissions = np.zeros((self.length, self.size, len(self.lengths)))           # (L, S, B): long inner axes
        emissions.transpose(2, 0, 1)[self.live.T] = self._observed
        scores = self.log_start[:, None] + emissions[0]
        best = scores.copy()                                                        # at each sequence's end
        history = np.zeros(emissions.shape, np.min_scalar_type(self.size))
        for t in range(1, self.length):
            count = self.active[t]
            scores = self._choose(scores[:, :count], emissions[t, :, :count], history[t, :, :count])
            best[:, :count] = scores
        best = best + self.log_end[:, None]
        states = np.zeros(self.live.shape, np.int64)
        state = best.argmax(0)
        values = best[state, np.arange(len(state))]
        for t in range(self.length - 1, 0, -1):
            count = self.active[t]
            states[t, :count] = state[:count]
            state[:count] = history[t, state[:count], np.arange(count)]
        states[0] = state
        return states, values

    def _choose(self, scores: np.ndarray, emissions: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Scores (S, B) of the best path to each state.

        The emission is added before the comparison: if it is practically impossible, all previous states count as
        equal.

        Args:
            scores: (S, B), of the best paths to the states at the previous position.
            emissions: (S, B).
            chosen: (S, B), zeros; the previous state of each state is written to it.
        """
        best = scores[0] + self.log_transition[0][:, None] + emissions
        for state in range(1, self.size):
            other = scores[state] + self.log_transition[state][:, None] + emissions
            better = other > best
            np.maximum(best, other, out=best)
            np.copyto(chosen, state, where=better)
        return best


class _Segments:
    """A long sequence as about sqrt(L) segments of about sqrt(L) positions; all segments are computed side by side.

    Args:
        log_transition: (S, S).
        emissions: (L, S).
    """

    def __init__(self, log_transition: np.ndarray, emissions: np.ndarray) -> None:
        self.log_transition = log_transition
        self.size = int(len(emissions) ** 0.5)
        self.count = (len(emissions) - 1) // self.size
        self.covered = self.count * self.size                                  # the remaining steps follow one by one
        self.emissions = emissions[1:1 + self.covered].reshape(self.count, self.size, -1)
        across = self._fast()
        self.across = self._exact() if across is None else across                   # (segments, S, S)

    def _fast(self) -> np.ndarray | None:
        """Log probability of each path from a state before a segment to a state at its end, by products.

        Returns (segments, S, S), or None if float64 cannot represent the products.
        """
        factors = np.exp(self.log_transition)
        peaks = top(self.emissions)                                                 # (segments, C, 1)
        potentials = np.exp(self.emissions - peaks)
        smallest = [array[array > 0].min(initial=1.0) for array in (factors, potentials)]
        if smallest[0] * smallest[1] < 1e-50:
            return None
        products = factors * potentials[:, 0, None]
        scales = np.zeros((self.count, len(factors), 1))
        for position in range(1, self.size):
            products = products @ factors * potentials[:, position, None]
            if position % 2 == 0 or position == self.size - 1:
                scale = products.max(2, keepdims=True)
                scale[scale == 0] = 1.0
                products /= scale
                scales += np.log(scale)
                if ((products > 0) & (products < 1e-150)).any():
                    return None
        with np.errstate(divide='ignore'):
            return np.log(products) + scales + peaks.sum(1)[:, None]

    def _exact(self) -> np.ndarray:
        """The log probabilities (segments, S, S) that `_fast` computes, in logarithms."""
        size = len(self.log_transition)
        step = _Step(self.log_transition)
        across = self.log_transition + self.emissions[:, 0, None]
        for position in range(1, self.size):
            across = step(across.reshape(-1, size)).reshape(across.shape) + self.emissions[:, position, None]
        return across

    def forward(self, values: np.ndarray) -> int:
        """Fills in the forward values after the first position, as far as the segments reach.

        Args:
            values: (L, S); the first row is set.

        Returns:
            The first position that is not filled in.
        """
        entries = np.empty((self.count, values.shape[1]))
        state = values[0]
        for segment, across in enumerate(self.across):
            entries[segment] = state
            state = log_sum(state[:, None] + across, 0)
        step = _Step(self.log_transition)
        inside = values[1:1 + self.covered].reshape(self.emissions.shape)
        for position in range(self.size):
            entries = inside[:, position] = step(entries) + self.emissions[:, position]
        return 1 + self.covered

    def backward(self, values: np.ndarray) -> None:
        """Fills in the backward values (L, S) before the last position that the segments cover."""
        state = values[self.covered]
        exits = np.empty((self.count, values.shape[1]))
        inside = values[:self.covered].reshape(self.emissions.shape)
        for segment in range(self.count - 1, -1, -1):
            exits[segment] = state
            state = inside[segment, 0] = log_sum(self.across[segment] + state, 1)
        step = _Step(self.log_transition.T)
        for position in range(self.size - 1, 0, -1):
            exits = inside[:, position] = step(exits + self.emissions[:, position])


class _Step:
    """One step of a recursion: log sums over states, from values (B, S) and transitions.

    It is a matrix product. Entries that underflow, about 700 nats below the best, are computed again in logarithms.
    """

    def __init__(self, log_transition: np.ndarray) -> None:
        self.log_transition, self.factors = log_transition, np.exp(log_transition)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        largest = top(values)
        sums = np.exp(values - largest) @ self.factors
        lost = sums < 1e-290
        with np.errstate(divide='ignore'):
            logs = np.log(sums) + largest
        if lost.any():
            rows, states = np.nonzero(lost)
            logs[rows, states] = log_sum(values[rows] + self.log_transition[:, states].T, 1)
        return logs
