"""Enumeration of all paths of a small chain in float64: an oracle that shares no code with the layer."""

import itertools

import numpy as np


class Row:
    """One sentence: all its allowed paths and their scores. Paths with a score of -inf are not allowed.

    Args:
        emissions: emissions (n, K).
        scores: dict of transitions (K, K), start (K,), end (K,).
        constraints: bools (transitions, start, end), or None.
        pairs: pair emissions (n - 1, K, K), which are added to the transitions, or None.
    """

    def __init__(self, emissions, scores, constraints=None, pairs=None):
        self.length, self.num_tags = emissions.shape
        paths = np.array(list(itertools.product(range(self.num_tags), repeat=self.length)), int)
        paths = paths.reshape(self.num_tags ** self.length, self.length)
        if constraints is not None and self.length:
            allowed, start, end = constraints
            keep = start[paths[:, 0]] & end[paths[:, -1]] & allowed[paths[:, :-1], paths[:, 1:]].all(1)
            paths = paths[keep]
        self.paths = paths
        self.scores = np.zeros(len(paths))
        if self.length:
            self.scores += emissions[np.arange(self.length), paths].sum(1)
            self.scores += scores['transitions'][paths[:, :-1], paths[:, 1:]].sum(1)
            self.scores += scores['start'][paths[:, 0]] + scores['end'][paths[:, -1]]
        if pairs is not None and self.length > 1:
            self.scores += pairs[np.arange(self.length - 1), paths[:, :-1], paths[:, 1:]].sum(1)
        possible = self.scores > -np.inf                         # paths with -inf are not allowed
        self.paths, self.scores = self.paths[possible], self.scores[possible]

    def log_normalizer(self, tags=None):
        """Log of the summed exp(score) of all paths, or of the paths that agree with tags (n,).

        Negative tags are unknown.
        """
        scores = self.scores if tags is None else self.scores[self._agree(tags)]
        top = scores.max()
        return top + np.log(np.exp(scores - top).sum())

    def loss(self, tags):
        return self.log_normalizer() - self.log_normalizer(tags)

    def marginals(self, tags=None):
        """Posteriors (n, K) of the tags, given the known tags."""
        weights, paths = self._weights(tags)
        return np.stack([(weights[:, None] * (paths == tag)).sum(0) for tag in range(self.num_tags)], 1)

    def transition_counts(self, tags=None):
        """Expected numbers (K, K) of transitions, given the known tags."""
        return self.pair_marginals(tags).sum(0)

    def pair_marginals(self, tags=None):
        """Posteriors (n - 1, K, K) of pairs of tags, given the known tags; (0, K, K) for an empty row."""
        weights, paths = self._weights(tags)
        posteriors = np.zeros((max(self.length - 1, 0), self.num_tags, self.num_tags))
        for weight, path in zip(weights, paths):
            posteriors[np.arange(len(posteriors)), path[:-1], path[1:]] += weight
        return posteriors

    def derivative(self, of_path):
        """Derivative (paths,) of the expected value of `of_path` by the scores of the paths.

        Args:
            of_path: a value of each path (paths,), which does not depend on the scores.
        """
        weights = np.exp(self.scores - self.log_normalizer())
        return weights * (of_path - (weights * of_path).sum())

    def best(self):
        """The best path. Of ties, the path with the lowest last tag, then with the lowest tag before it, and so on."""
        ties = self.paths[self.scores == self.scores.max()]
        return min(ties.tolist(), key=lambda path: path[::-1])

    def ranked(self):
        """Scores of all paths, best first."""
        return np.sort(self.scores)[::-1]

    def _agree(self, tags):
        tags = np.asarray(tags)
        return ((self.paths == tags) | (tags < 0)).all(1)

    def _weights(self, tags):
        agree = slice(None) if tags is None else self._agree(tags)
        return np.exp(self.scores[agree] - self.log_normalizer(tags)), self.paths[agree]


class Case:
    """A random batch, length first: emissions (L, B, K), tags (L, B), lengths (B,), scores, and the rows as `Row`."""

    def __init__(self, seed, length, batch, num_tags, scale=1.0, constraints=None, unknown=0.0, integers=False):
        rng = np.random.default_rng(seed)

        def draw(*shape):
            values = rng.normal(size=shape) * scale
            return np.round(values) if integers else values.astype(np.float32).astype(np.float64)

        self.num_tags, self.constraints, self.pairs = num_tags, constraints, None
        self.emissions = draw(length, batch, num_tags)
        self.scores = {'transitions': draw(num_tags, num_tags), 'start': draw(num_tags), 'end': draw(num_tags)}
        self.lengths = rng.integers(0, length + 1, batch)
        self.lengths[:2] = [length, min(1, length - 1)][:batch]
        self.rescore()
        self.tags = rng.integers(0, num_tags, (length, batch))
        for b, (row, n) in enumerate(zip(self.rows, self.lengths)):
            if constraints is not None and n:
                self.tags[:n, b] = row.paths[rng.integers(len(row.paths))]
        self.tags[rng.random((length, batch)) < unknown] = rng.choice([-1, -100])
        # Extreme values on padding must have no influence.
        padding = np.arange(length)[:, None] >= self.lengths
        self.emissions[padding] = rng.choice([1e4, -1e4])
        self.tags[padding] = rng.choice([-1, 0])

    def with_pairs(self, seed, scale=1.0, forbidden=()):
        """Adds random pair emissions (L - 1, B, K, K), with -inf at the indices `forbidden`; returns the case."""
        rng = np.random.default_rng(seed)
        length, batch, num_tags = self.emissions.shape
        pairs = rng.normal(size=(length - 1, batch, num_tags, num_tags)) * scale
        self.pairs = pairs.astype(np.float32).astype(np.float64)
        self.pairs[np.arange(1, length)[:, None] >= self.lengths] = rng.choice([1e4, -np.inf, np.nan])
        return self.forbid(pairs=forbidden)

    def forbid(self, emissions=(), transitions=(), start=(), end=(), pairs=()):
        """Sets scores at these indices to -inf; returns the case.

        Gold tags that are no longer possible are replaced by a possible path; unknown tags stay unknown.
        """
        for values, places in ((self.emissions, emissions), (self.scores['transitions'], transitions),
                               (self.scores['start'], start), (self.scores['end'], end), (self.pairs, pairs)):
            for place in places:
                values[place] = -np.inf
        self.rescore()
        for b, (row, n) in enumerate(zip(self.rows, self.lengths)):
            if n and not row._agree(self.known(b)).any():
                self.tags[:n, b] = np.where(self.known(b) < 0, self.known(b), row.paths[len(row.paths) // 2])
        return self

    def rescore(self):
        """Computes the rows again, after emissions or scores have changed."""
        self.rows = [Row(self.emissions[:n, b], self.scores, self.constraints,
                         None if self.pairs is None else self.pairs[:max(n - 1, 0), b])
                     for b, n in enumerate(self.lengths)]

    def known(self, b):
        return self.tags[:self.lengths[b], b]

    def losses(self):
        return np.array([row.loss(self.known(b)) for b, row in enumerate(self.rows)])

    def by_position(self, of_row):
        """An array (L, B, K) of the values (n, K) that `of_row(b, row)` returns, with 0 on padding."""
        result = np.zeros(self.emissions.shape)
        for b, row in enumerate(self.rows):
            if row.length:
                result[:row.length, b] = of_row(b, row)
        return result

    def gradients(self):
        """Gradients of the summed loss by emissions, transitions, start and end scores."""
        emissions = self.by_position(lambda b, row: row.marginals() - row.marginals(self.known(b)))
        transitions = sum(row.transition_counts() - row.transition_counts(self.known(b))
                          for b, row in enumerate(self.rows) if row.length)
        ends = sum(emissions[n - 1, b] for b, n in enumerate(self.lengths) if n)
        return emissions, transitions, emissions[0].sum(0), ends


    def gradients_by_paths(self, by_scores):
        """Gradients by emissions, transitions, start, end and pairs, from gradients by the scores of paths.

        Args:
            by_scores: for each row, the gradients (paths,) by the scores of its paths.
        """
        length, batch, num_tags = self.emissions.shape
        emissions, pairs = np.zeros(self.emissions.shape), np.zeros((length - 1, batch, num_tags, num_tags))
        start, end = np.zeros(num_tags), np.zeros(num_tags)
        for b, (row, values) in enumerate(zip(self.rows, by_scores)):
            for path, value in zip(row.paths, values):
                if row.length:
                    start[path[0]] += value
                    end[path[-1]] += value
                emissions[np.arange(row.length), b, path] += value
                pairs[np.arange(len(path) - 1), b, path[:-1], path[1:]] += value
        return emissions, pairs.sum((0, 1)), start, end, pairs


class StatePaths:
    """All state paths of an HMM for a sequence, and their joint probabilities with it, by enumeration."""

    def __init__(self, start, transition, emission, end, observations):
        self.states, length = len(start), len(observations)
        self.paths = np.array(list(itertools.product(range(self.states), repeat=length)))
        self.weights = np.array([start[path[0]] * end[path[-1]] * np.prod(transition[path[:-1], path[1:]])
                                 * np.prod(emission[path, observations]) for path in self.paths])
        self.total = self.weights.sum()

    def posterior(self, position, state):
        return self.weights[self.paths[:, position] == state].sum() / self.total

    def pair(self, position, before, after):
        found = (self.paths[:, position] == before) & (self.paths[:, position + 1] == after)
        return self.weights[found].sum() / self.total
