"""Random batches of a chain: compares the C++ operators with float64 NumPy in the log domain."""

import numpy as np

BREAK = 1e4                                                      # score of a forbidden tag or transition
HUGE = 1e29                                                      # a path with a score below -HUGE is forbidden


class Chain:
    """A batch with reference results, computed in float64 in the log domain, one position at a time.

    Args:
        emissions: scores of the tags, (L, B, K).
        tags: (L, B), negative for unknown tags.
        lengths: lengths of the sentences, (B,).
        transitions, start, end: scores, (K, K), (K,), (K,); -inf forbids a transition.
        allowed: three arrays of bools with the shapes of transitions, start and end; None if everything is allowed.
    """

    def __init__(self, emissions, tags, lengths, transitions, start, end, allowed=None):
        self.emissions, self.tags, self.lengths = emissions, tags, lengths
        self.scores, self.allowed = (transitions, start, end), allowed
        if allowed is not None:
            transitions, start, end = (np.where(may, score, -np.inf)
                                       for may, score in zip(allowed, (transitions, start, end)))
        self.transitions, self.start, self.end = transitions, start, end

    def inputs(self, batch_first, integers=np.int32):
        """The first inputs, which all chain operators share."""
        emissions = self.emissions.swapaxes(0, 1) if batch_first else self.emissions
        allowed = np.ones(1, bool)
        if self.allowed is not None:
            allowed = np.concatenate([np.asarray(part).reshape(-1) for part in self.allowed])
        return [emissions.astype(np.float32), self.lengths.astype(integers),
                *(score.astype(np.float32) for score in self.scores), allowed, np.array([int(batch_first)], np.int32)]

    def sums(self, row, tags=None):
        """Log normaliser, marginals (n, K) and expected transitions (K, K) of a row.

        If no path is possible, the log normaliser is -inf and the other results are None.
        """
        n = self.lengths[row]
        emissions = self.emissions[:n, row].astype(np.float64)
        if tags is not None:
            other = np.arange(emissions.shape[1]) != tags[:n, row, None]
            emissions = np.where(other & (tags[:n, row, None] >= 0), -np.inf, emissions)
        before, after = np.empty_like(emissions), np.empty_like(emissions)
        with np.errstate(invalid='ignore', divide='ignore'):
            for t in range(n):
                arriving = self.start if t == 0 else np.logaddexp.reduce(before[t - 1][:, None] + self.transitions, 0)
                before[t] = arriving + emissions[t]
            for t in range(n - 1, -1, -1):
                after[t] = self.end if t == n - 1 else np.logaddexp.reduce(
                    self.transitions + emissions[t + 1] + after[t + 1], 1)
            total = np.logaddexp.reduce(before[-1] + after[-1])
            if total == -np.inf:
                return total, None, None
            marginals = np.exp(before + after - total)
            pairs = np.zeros(self.transitions.shape)
            for t in range(1, n):
                pairs += np.exp(before[t - 1][:, None] + self.transitions + emissions[t] + after[t] - total)
        return total, marginals, pairs

    def best_score(self, row):
        n = self.lengths[row]
        emissions = self.emissions[:n, row].astype(np.float64)
        best = self.start + emissions[0]
        for t in range(1, n):
            best = (best[:, None] + self.transitions).max(0) + emissions[t]
        return (best + self.end).max()

    def path_score(self, row, path):
        n = self.lengths[row]
        path = path[:n]
        emissions = self.emissions[np.arange(n), row, path].astype(np.float64)
        return (emissions.sum() + self.transitions[path[:-1], path[1:]].sum() + self.start[path[0]]
                + self.end[path[-1]])


def random_chain(rng):
    """A random chain of any shape and scale, with forbidden transitions, unknown tags and rows of length 0."""
    length, batch = int(rng.choice([1, 2, 3, 5, 9, 17, 40])), int(rng.choice([1, 2, 3, 4, 5, 8, 9, 13]))
    tags = int(rng.choice([1, 2, 3, 4, 5, 7, 9, 12, 21]))
    scale = float(rng.choice([0.0, 0.1, 1.0, 1.0, 5.0, 50.0, 300.0, 2000.0]))
    draw = [rng.normal(size=shape) * scale for shape in ((length, batch, tags), (tags, tags), (tags,), (tags,))]
    emissions, *scores = (part.astype(np.float32).astype(np.float64) for part in draw)
    if rng.random() < 0.2:
        emissions, scores = np.round(emissions), [np.round(part) for part in scores]
    for part in (emissions, *scores):
        if rng.random() < 0.2:
            part[rng.random(part.shape) < rng.choice([0.05, 0.3, 0.8])] = -np.inf
    allowed = None
    if rng.random() < 0.3:
        allowed = [rng.random(part.shape) < 0.8 for part in scores]
        for part in allowed:
            part.flat[0] = True
    lengths = rng.integers(0, length + 1, batch)
    lengths[0] = length
    given = rng.integers(0, tags, (length, batch))
    given[rng.random(given.shape) < rng.choice([0.0, 0.0, 0.3, 1.0])] = -1
    padding = np.arange(length)[:, None] >= lengths
    emissions[padding] = rng.choice([0.0, np.nan, np.inf, 1e30])
    given[padding] = rng.choice([-7, 0, 10 ** 6])
    return Chain(emissions, given, lengths, *scores, allowed)


def near(actual, expected, what, tolerance=2e-6):
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    scale = np.maximum(1.0, np.abs(expected).max(initial=0.0))
    wrong = ~(np.abs(actual - expected) <= tolerance * scale)
    assert not wrong.any(), f'{what}: {actual[wrong][:3]} for {expected[wrong][:3]}'


def check_chain(operators, rng):
    """Checks all results of the operators for a random batch."""
    check(operators, random_chain(rng), bool(rng.integers(2)), rng)


def check(operators, chain, batch_first, rng):
    """Checks all results of the operators for a chain against the reference results."""
    length, batch, tags = chain.emissions.shape
    count = length * batch * tags
    inputs = chain.inputs(batch_first, rng.choice([np.int32, np.int64, np.uint8 if length < 256 else np.uint16]))
    given = chain.tags.swapaxes(0, 1) if batch_first else chain.tags

    def by_row(flat):
        values = flat.reshape(inputs[0].shape)
        return values if batch_first else values.swapaxes(0, 1)  # (B, L, K)

    packed = operators.call('ChainNormalizer', inputs, batch + count + batch * tags * tags)
    loss = operators.call('ChainLoss', [*inputs, given.astype(np.int32)], packed.size)
    marginals = by_row(operators.call('ChainMarginals', inputs, count))
    decoded = operators.call('ChainDecode', inputs, batch + batch * length)
    paths = decoded[batch:].reshape(batch, length).astype(int)
    several = operators.call('ChainNBest', [*inputs, np.zeros(3, np.int32)], 3 * (batch + batch * length))
    scores, three = several[:3 * batch].reshape(batch, 3), several[3 * batch:].reshape(batch, 3, length).astype(int)
    of_path = operators.call('ChainPathPosteriors', [*inputs, paths.astype(np.int32)], batch * length + count)
    scored = operators.call('ChainViterbi', inputs, count)
    factors = rng.normal(size=batch).astype(np.float32)
    gradients = operators.call('ChainGradients', [*inputs, loss, factors], count + tags * tags + 2 * tags)
    for name, of, weights in (('ChainPathGradients', decoded, factors),
                              ('ChainViterbiGradients', scored, np.ones(batch * tags, np.float32))):
        assert np.isfinite(operators.call(name, [*inputs, of, weights], gradients.size)).all(), name
    for name, values in (('normaliser', packed), ('loss', loss), ('marginals', marginals), ('gradients', gradients),
                         ('scores', decoded), ('posteriors of paths', of_path)):
        assert np.isfinite(values).all(), f'{name} of numbers are not'
    assert ((paths >= 0) & (paths < tags)).all() and ((three >= 0) & (three < tags)).all()

    everything = True                                            # whether every row has a possible path
    by_emissions = np.zeros((batch, length, tags))
    by_steps, by_start, by_end = np.zeros((tags, tags)), np.zeros(tags), np.zeros(tags)
    for row, n in enumerate(chain.lengths):
        if n == 0:
            assert packed[row] == loss[row] == decoded[row] == scores[row, 0] == 0.0
            continue
        total, expected, pairs = chain.sums(row)
        known, of_known, pairs_of_known = chain.sums(row, chain.tags)
        if expected is None or of_known is None:
            everything = False
        if expected is None:
            assert packed[row] < -BREAK / 2 + n * 10000 * 3 and decoded[row] < -HUGE
            near(marginals[row, :n].sum(-1), np.ones(n), 'sums of marginals', 1e-5)
            continue
        near(packed[row], total, 'normaliser')
        near(marginals[row, :n], expected, 'marginals', 2e-5)
        near(packed[batch + count:].reshape(batch, tags, tags)[row], pairs, 'expected transitions', 2e-5)
        best = chain.best_score(row)
        near(decoded[row], best, 'best score')
        near(chain.path_score(row, paths[row]), best, 'score of the best path')
        near(scores[row, 0], best, 'first of the best')
        assert (scores[row, :-1] >= scores[row, 1:]).all()
        for path, score in zip(three[row], scores[row]):
            if score > -HUGE:
                near(chain.path_score(row, path), score, 'score of one of the best')
        near(of_path[:batch * length].reshape(batch, length)[row, :n],
             expected[np.arange(n), paths[row, :n]], 'posteriors of a path', 2e-5)
        if of_known is not None:
            near(loss[row], total - known, 'loss', 1e-5)
            by_emissions[row, :n] = (expected - of_known) * factors[row]
            by_steps += (pairs - pairs_of_known) * factors[row]
            by_start += (expected - of_known)[0] * factors[row]
            by_end += (expected - of_known)[-1] * factors[row]
    if everything:
        near(by_row(gradients[:count]), by_emissions, 'gradient by emissions', 2e-5)
        near(gradients[count:], np.concatenate([by_steps.reshape(-1), by_start, by_end]), 'gradient by scores', 2e-5)
