"""The recursions of a hidden Markov model over a batch of sequences, in logarithms.

Shapes: L length, B sequences, S states. Zero probabilities may be -inf or large finite negatives.
"""

import numpy as np

CELLS = 1 << 15            # sequences are worked on together up to so many positions, padding included
LONG = 1024                # a sequence from this length on is a batch by itself, its pieces worked on together


def top(values, axis=-1):
    """The maximum over an axis, which stays as 1; 0 in place of -inf, so that it can be subtracted."""
    largest = values.max(axis, keepdims=True)
    return np.where(np.isneginf(largest), 0.0, largest)


def log_sum(values, axis):
    """Logarithm of the sum of exponentials over an axis."""
    largest = top(values, axis)
    with np.errstate(divide='ignore'):
        return (np.log(np.exp(values - largest).sum(axis, keepdims=True)) + largest).squeeze(axis)


def batches(lengths):
    """Numbers of sequences of similar lengths, those that are worked on together; empty ones are in none."""
    order = np.argsort(-lengths, kind='stable')
    order = order[lengths[order] > 0]
    while len(order):
        longest = lengths[order[0]]
        count = 1 if longest >= LONG else max(1, CELLS // longest)
        yield order[:count]
        order = order[count:]


class Batch:
    """Sequences that are worked on together, the longest first.

    Args:
        log_start, log_transition, log_end: (S,), (S, S), (S,).
        emissions: log probability of what was observed in each state, of all positions one after the other
            (positions, S).
        lengths: of the sequences, none 0, falling.
        numbers: by which messages name the sequences.
    """

    def __init__(self, log_start, log_transition, log_end, emissions, lengths, numbers):
        self.log_start, self.log_transition, self.log_end = log_start, log_transition, log_end
        self.lengths, self.numbers = np.asarray(lengths), numbers
        self.length, self.size = int(self.lengths[0]), len(log_start)
        self.live = np.arange(self.length)[:, None] < self.lengths                  # (L, B)
        self.active = self.live.sum(1)                                              # sequences that are that long
        self._observed, self._emissions = emissions, None
        self._forward = self._backward = None
        self._pieces = _Pieces(log_transition, self.emissions[:, 0]) if self.length >= LONG else None

    @property
    def emissions(self):
        """(L, B, S), 0 on padding."""
        if self._emissions is None:
            self._emissions = np.zeros((self.length, len(self.lengths), self.size))
            self._emissions.swapaxes(0, 1)[self.live.T] = self._observed
        return self._emissions

    def split(self, values, fewer=0):
        """Values (L, B, ...) as one array for each sequence, `fewer` positions shorter."""
        return [values[:length - fewer, row] for row, length in enumerate(self.lengths)]

    def forward(self):
        """(L, B, S): log probability of what was observed up to here, and of the state here."""
        if self._forward is None:
            self._forward = found = np.empty_like(self.emissions)
            found[0] = self.log_start + self.emissions[0]
            begin = 1
            if self._pieces is not None:
                begin = self._pieces.forward(found[:, 0])
            step = _Step(self.log_transition)
            for t in range(begin, self.length):
                found[t] = step(found[t - 1]) + self.emissions[t]
        return self._forward

    def backward(self):
        """(L, B, S): log probability of what is observed behind here given the state here; on padding the end's."""
        if self._backward is None:
            self._backward = found = np.empty_like(self.emissions)
            found[-1] = self.log_end
            last = 0 if self._pieces is None else self._pieces.covered
            step = _Step(self.log_transition.T)
            for t in range(self.length - 2, last - 1, -1):
                arrived = step(found[t + 1] + self.emissions[t + 1])
                found[t] = np.where(self.live[t + 1][:, None], arrived, self.log_end)
            if self._pieces is not None:
                self._pieces.backward(found[:, 0])
        return self._backward

    def forward_likelihood(self):
        """(B,)."""
        return log_sum(self.forward()[self.lengths - 1, np.arange(len(self.lengths))] + self.log_end, 1)

    def backward_likelihood(self):
        """(B,)."""
        return log_sum(self.log_start + self.emissions[0] + self.backward()[0], 1)

    def posteriors(self):
        """(L, B, S); on padding without meaning."""
        joint = self.forward() + self.backward()
        weights = np.exp(joint - top(joint))
        with np.errstate(invalid='ignore'):      # a sequence that can't be has no posterior: nan
            return weights / weights.sum(-1, keepdims=True)

    def pairs(self):
        """(L - 1, B, S, S); on padding without meaning."""
        onward = self.emissions[1:] + self.backward()[1:]
        joint = self.forward()[:-1, :, :, None] + self.log_transition + onward[:, :, None, :]
        weights = joint.reshape(*joint.shape[:2], self.size ** 2)
        # In place: this is by far the largest array of all.
        weights -= top(weights)
        np.exp(weights, out=weights)
        with np.errstate(invalid='ignore'):
            weights /= weights.sum(-1, keepdims=True)
        return joint

    def pair_counts(self):
        """(S, S): how often each state follows each, expected, in all sequences together."""
        onward = self.emissions[1:] + self.backward()[1:]
        before = self.forward()[:-1]
        live = self.live[1:]
        left = np.exp(before - top(before))[live]                                   # (positions, S)
        right = np.exp(onward - top(onward))[live]
        factors = np.exp(self.log_transition)
        arrived = left @ factors
        total = (arrived * right).sum(1)
        # Where what is likely before and what is likely behind hardly meet, products would lose everything.
        lost = total < 1e-200
        with np.errstate(divide='ignore', invalid='ignore'):
            left = left / np.where(lost, np.inf, total)[:, None]
        counts = (left.T @ right) * factors
        if lost.any():
            joint = (before[live][lost][:, :, None] + self.log_transition + onward[live][lost][:, None, :])
            flat = joint.reshape(len(joint), -1)
            weights = np.exp(flat - top(flat))
            counts += (weights / weights.sum(1, keepdims=True)).sum(0).reshape(counts.shape)
        return counts

    def viterbi(self):
        """Best states (L, B), without meaning on padding, and their scores (B,); the lowest state of equals, from
        the end on.
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

    def _choose(self, scores, emissions, chosen):
        """Of each state the best way to it, (S, B); the state that it comes from goes into `chosen`, zeros (S, B).

        The observation is added before the choice: where it is as good as impossible, all ways are equal.
        """
        best = scores[0] + self.log_transition[0][:, None] + emissions
        for state in range(1, self.size):
            other = scores[state] + self.log_transition[state][:, None] + emissions
            better = other > best
            np.maximum(best, other, out=best)
            np.copyto(chosen, state, where=better)
        return best


class _Pieces:
    """A long sequence in about as many pieces as each is long: all pieces go forward by a step at a time.

    Args:
        log_transition: (S, S).
        emissions: (L, S).
    """

    def __init__(self, log_transition, emissions):
        self.log_transition = log_transition
        self.size = int(len(emissions) ** 0.5)
        self.count = (len(emissions) - 1) // self.size
        self.covered = self.count * self.size                                       # steps; what is left goes singly
        self.emissions = emissions[1:1 + self.covered].reshape(self.count, self.size, -1)
        self.across = self._fast()                                                  # (pieces, S, S)
        if self.across is None:
            self.across = self._exact()

    def _fast(self):
        """Log probability to get from each state before a piece to each at its end; None where products don't hold."""
        factors = np.exp(self.log_transition)
        peaks = top(self.emissions)                                                 # (pieces, C, 1)
        potentials = np.exp(self.emissions - peaks)
        smallest = [array[array > 0].min(initial=1.0) for array in (factors, potentials)]
        if smallest[0] * smallest[1] < 1e-50:
            return None
        found = factors * potentials[:, 0, None]
        scales = np.zeros((self.count, len(factors), 1))
        for place in range(1, self.size):
            found = found @ factors * potentials[:, place, None]
            if place % 2 == 0 or place == self.size - 1:
                scale = found.max(2, keepdims=True)
                scale[scale == 0] = 1.0
                found /= scale
                scales += np.log(scale)
                if ((found > 0) & (found < 1e-150)).any():
                    return None
        with np.errstate(divide='ignore'):
            return np.log(found) + scales + peaks.sum(1)[:, None]

    def _exact(self):
        size = len(self.log_transition)
        step = _Step(self.log_transition)
        found = self.log_transition + self.emissions[:, 0, None]
        for place in range(1, self.size):
            found = step(found.reshape(-1, size)).reshape(found.shape) + self.emissions[:, place, None]
        return found

    def forward(self, found):
        """Fills in what follows the first of (L, S); returns the first position that it leaves."""
        entries = np.empty((self.count, found.shape[1]))
        state = found[0]
        for piece, across in enumerate(self.across):
            entries[piece] = state
            state = log_sum(state[:, None] + across, 0)
        step = _Step(self.log_transition)
        inside = found[1:1 + self.covered].reshape(self.emissions.shape)
        for place in range(self.size):
            entries = inside[:, place] = step(entries) + self.emissions[:, place]
        return 1 + self.covered

    def backward(self, found):
        """Fills in what comes before the last position that is covered."""
        state = found[self.covered]
        exits = np.empty((self.count, found.shape[1]))
        inside = found[:self.covered].reshape(self.emissions.shape)
        for piece in range(self.count - 1, -1, -1):
            exits[piece] = state
            state = inside[piece, 0] = log_sum(self.across[piece] + state, 1)
        step = _Step(self.log_transition.T)
        for place in range(self.size - 1, 0, -1):
            exits = inside[:, place] = step(exits + self.emissions[:, place])


class _Step:
    """One step of a recursion: log sums over states of (B, S) and transitions.

    By a matrix product; what it loses, because it is 700 nats below the best, is computed anew in logarithms.
    """

    def __init__(self, log_transition):
        self.log_transition, self.factors = log_transition, np.exp(log_transition)

    def __call__(self, values):
        largest = top(values)
        sums = np.exp(values - largest) @ self.factors
        lost = sums < 1e-290
        with np.errstate(divide='ignore'):
            found = np.log(sums) + largest
        if lost.any():
            rows, states = np.nonzero(lost)
            found[rows, states] = log_sum(values[rows] + self.log_transition[:, states].T, 1)
        return found
