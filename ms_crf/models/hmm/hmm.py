"""The hidden Markov model in NumPy: likelihoods, posteriors, best paths, and training with and without tags.

Everything is computed in logarithms, for many sequences at the same time. Shapes: L length, B sequences of a batch,
S states.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ms_crf.base.memory import check_memory
from ms_crf.crf.host import SequenceBatch, batches, top
from ms_crf.models.hmm import estimation, validation
from ms_crf.models.hmm.estimation import Fit, Tables, WordCounts, Words

import numpy as np


class HMM:
    """A hidden Markov model with discrete observations.

    `HMM(start, transition, emission)` creates a model from arrays. `HMM().fit(sentences, tags)` estimates a model from
    tagged sentences, and `HMM().baum_welch(observations, states)` from observations without tags. All methods take a
    sequence or a list of sequences. For a list they return a list or an array of results. A sequence is an array or
    list of symbols from 0 to V - 1; after `fit` it is a list of tokens.

    The probability of states s and observations o is p(s, o) = start(s[0]) emission(s[0], o[0]) transition(s[0], s[1])
    ... end(s[-1]). `viterbi` returns the states with the largest p(s, o), and its logarithm. `log_likelihood` returns
    the logarithm of p(o), the sum of p(s, o) over all s. `posteriors` returns the probabilities of states given o.

    Example with two states and three symbols:
        >>> import numpy as np
        >>> from ms_crf import HMM
        >>> model = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
        >>> states, log_probability = model.viterbi([0, 1, 2])
        >>> states.tolist()
        [0, 0, 1]
        >>> f'{np.exp(log_probability):.5f} of {np.exp(model.log_likelihood([0, 1, 2])):.5f}'
        '0.01512 of 0.03628'

    Args:
        start: (S,), probability of each state at the beginning.
        transition: (S, S), entry (i, j) is the probability of state j after state i.
        emission: (S, V), probability of each symbol in each state.
        end: (S,), a factor for each state at the end; None for 1.
        log: whether the arrays contain logarithms. Otherwise start and rows must add up to 1.

    Attributes:
        states: the names of the states, after `fit` and `fit_sets`; otherwise None.
        words: the columns of the emissions, after `fit` and `fit_sets`; otherwise None.
    """

    def __init__(self, start: Any = None, transition: Any = None, emission: Any = None, end: Any = None,
                 log: bool = False) -> None:
        self.states: list | None = None
        self.words: Words | None = None
        self.log_start: Any = None               # None for an empty model
        if any(array is not None for array in (start, transition, emission, end)):
            self.set_tables(Tables(*validation.check_arrays(start, transition, emission, end, log)))

    def tables(self) -> Tables:
        """Start, transition, emission and end in logarithms."""
        return Tables(self.log_start, self.log_transition, self.log_emission, self.log_end)

    def set_tables(self, tables: Tables) -> None:
        """Replaces the tables, which are in logarithms and are not checked."""
        self.log_start, self.log_transition, self.log_emission, self.log_end = tables

    # Probabilities and paths of sequences

    def log_prob(self, states: Any) -> Any:
        """Log probability of state sequences without observations: start and transitions only."""
        self._check_learned()
        many, sequences = validation.several(states, name='states')
        paths = [self._state_indices(sequence, index) for index, sequence in enumerate(sequences)]
        scores = [self.log_start[path[0]] + self.log_transition[path[:-1], path[1:]].sum() if len(path) else 0.0
                  for path in paths]
        return np.array(scores) if many else float(scores[0])

    def log_likelihood(self, observations: Any, backward: bool = False) -> Any:
        """Log probability of observations, by the forward or by the backward recursion, with the same result."""
        values = self._each(observations, lambda batch: batch.backward_likelihood() if backward
                            else batch.forward_likelihood(), 0.0)
        return np.array(values) if isinstance(values, list) else float(values)

    def forward(self, observations: Any) -> Any:
        """Log probability of the state at each position and the observations up to this position, (L, S)."""
        return self._each(observations, lambda batch: batch.split(batch.forward), self._nothing(1))

    def backward(self, observations: Any) -> Any:
        """Log probability of the observations after each position given the state at this position, (L, S)."""
        return self._each(observations, lambda batch: batch.split(batch.backward), self._nothing(1))

    def posteriors(self, observations: Any, pairs: bool = True) -> Any:
        """Probabilities of each state at each position (L, S), and of each pair of successive states (L - 1, S, S).

        Args:
            observations: a sequence of symbols or tokens, or a list of sequences. An impossible sequence raises
                ValueError.
            pairs: False to compute states only, which needs S times less memory.
        """
        def work(batch: SequenceBatch) -> Iterable:
            batch.check_possible()
            singles = batch.split(batch.posteriors())
            return zip(singles, batch.split(batch.pairs(), 1)) if pairs else singles

        return self._each(observations, work, (self._nothing(1), self._nothing(2)) if pairs else self._nothing(1),
                          pairs)

    def viterbi(self, observations: Any) -> Any:
        """(best states, log probability of the best states and the observations).

        Of equally probable paths, the path with the lowest states is returned, compared from the end on. A result of
        -inf means that no states are possible for the observations; then the returned states have no meaning.
        """
        names = None if self.states is None else np.fromiter(self.states, object, len(self.states))

        def work(batch: SequenceBatch) -> Iterable:
            states, scores = batch.viterbi()
            paths = batch.split(states)
            return zip(paths if names is None else [names[path].tolist() for path in paths], scores.tolist())

        return self._each(observations, work, (np.zeros(0, np.int64) if names is None else [], 0.0))

    def sample(self, length: int, seed: Any = 0) -> tuple[np.ndarray, np.ndarray]:
        """Random (states, observations), both (length,); only for models from arrays or from `baum_welch`."""
        self._check_learned()
        if self.words is not None:
            raise ValueError('sample needs a model created from arrays, got a model of words')
        length = validation.check_count(length, 'length', 0)
        check_memory(32 * length, f'a sample of length {length:,}')
        generator = validation.generator_of(seed)
        start, transition, emission = map(_sums, (self.log_start, self.log_transition, self.log_emission))
        states, observations = np.zeros((2, length), np.int64)
        row = start
        for position, (first, second) in enumerate(generator.random((length, 2))):
            if not row[-1] > 0:
                raise ValueError('sample needs transitions from each state, got a state without transitions')
            states[position] = np.searchsorted(row, first * row[-1], 'right')
            symbols = emission[states[position]]
            if not symbols[-1] > 0:
                raise ValueError('sample needs symbols in each state, got none in state '
                                 f'{states[position]}')
            observations[position] = np.searchsorted(symbols, second * symbols[-1], 'right')
            row = transition[states[position]]
        return states, observations

    # Training
    def fit(self, sentences: Any, tags: Any, add: float = 0.1, states: Any = None) -> 'HMM':
        """Estimates a model of words from counts of transitions and words, after adding `add` to every count.

        An unknown word is represented by its shape: ending, capital letters and digits. The probability of each shape
        in each state is estimated from the words that occur once.

        Args:
            sentences: lists of tokens.
            tags: for each sentence the tag of each token.
            add: at least 0. With 0, probabilities are relative frequencies. Then unknown words and tag transitions that
                do not occur are impossible: `log_likelihood` and the score of `viterbi` are -inf, and `posteriors`
                raises ValueError.
            states: all tags, in the order of the states; None for the tags that occur, sorted.
        """
        value = validation.check_add(add, zero=True)
        sentences, tags = validation.check_parallel(sentences, tags)
        states, indices = validation.check_states(states, tags)
        every = [np.array([indices[tag] for tag in row], np.int64) for row in tags]
        validation.check_tables(len(states), len(set(chain.from_iterable(sentences))), 'take fewer tags or words')
        words = WordCounts(sentences)
        counts = estimation.counts_of([path for path in every if len(path)], words, len(states))
        if value == 0:
            validation.check_states_occur(states, counts.emission.sum(1))
        return self._take(estimation.tables_of(counts, words, value), states, words)

    def fit_sets(self, sentences: Any, sets: Any, states: Any, add: float = 0.1) -> 'HMM':
        """Estimates a model of words, as `fit` does, from sentences of which only some tags are known.

        Unknown tags have expected counts: first from the known tags only, then from all tags, a few times.

        Args:
            sentences: lists of tokens.
            sets: for each sentence an array (tokens, states) bool: the tags that each token may have, at least one.
            states: all tags, in the order of the sets.
            add: above 0.
        """
        value = validation.check_add(add)
        sentences, sets = validation.check_sets(sentences, sets, len(states))
        validation.check_tables(len(states), len(set(chain.from_iterable(sentences))), 'take fewer tags or words')
        words = WordCounts(sentences)
        learned = HMM()
        learned.states, learned.words = list(states), words.words
        estimation.learn(learned, sentences, sets, words, value)
        return self._take(learned.tables(), list(states), words)

    def _take(self, tables: Tables, states: list, words: WordCounts) -> 'HMM':
        """Sets the tables, states and words, and returns this model."""
        self.states, self.words = states, words.words
        self.set_tables(tables)
        return self

    def baum_welch(self, observations: Any, states: int | None = None, symbols: int | None = None, steps: int = 100,
                   tolerance: float = 1e-4, starts: int = 4, seed: Any = 0) -> Fit:
        """Estimates a model without tags by expectation maximisation; no step decreases the likelihood.

        A model with arrays is trained further. Otherwise the best of several random starts is kept.

        Args:
            observations: a sequence of symbols, or a list of sequences.
            states: number of states; None if the model has arrays.
            symbols: number of symbols; None for the largest symbol plus 1.
            steps: largest number of steps.
            tolerance: training stops when a step increases the log likelihood by less.
            starts: number of random starts.
            seed: seed of the random starts.

        Returns:
            `Fit`: history of the log likelihood, whether it has converged, and the histories of all starts.
        """
        if self.words is not None:
            raise ValueError('baum_welch needs symbols, got a model of words; create a new model with HMM()')
        steps, starts = validation.check_count(steps, 'steps', 0), validation.check_count(starts, 'starts', 1)
        tolerance, generator = validation.check_number(tolerance, 'tolerance'), validation.generator_of(seed)
        symbols = None if symbols is None else validation.check_count(symbols, 'symbols', 1)
        states = None if states is None else validation.check_count(states, 'states', 1)
        _, sequences = validation.several(observations)
        if self.log_start is not None:
            for name, value, known in (('states', states, len(self.log_start)),
                                       ('symbols', symbols, self.log_emission.shape[1])):
                if value not in (None, known):
                    raise ValueError(f'{name} must be {known} as in the arrays, or None, got {value}')
            symbols = self.log_emission.shape[1]
        sequences = [validation.check_symbols(sequence, index, symbols) for index, sequence in enumerate(sequences)]
        if not sum(map(len, sequences)):
            raise ValueError('observations must contain a symbol, got none')
        models: Iterable[HMM] = [self]
        if self.log_start is None:
            if states is None:
                raise ValueError('states must be at least 1 for a model without arrays, got None')
            symbols = symbols or 1 + max(int(sequence.max()) for sequence in sequences if len(sequence))
            validation.check_tables(states, symbols, 'number the symbols from 0 without gaps, or take fewer states')
            models = (HMM(*estimation.random_tables(generator, states, symbols), log=True) for _ in range(starts))
        tables, fit = estimation.best_of(models, sequences, steps, tolerance)
        self.set_tables(tables)
        return fit

    def _nothing(self, axes: int) -> np.ndarray:
        """The result for an empty sequence: an array without positions for (L, S) or (L - 1, S, S)."""
        self._check_learned()
        return np.zeros((0,) + (len(self.log_start),) * axes)

    def _check_learned(self) -> None:
        if self.log_start is None:
            raise ValueError('the model is empty; create it from arrays, or call fit or baum_welch first')

    def _state_indices(self, states: Any, sequence: int) -> np.ndarray:
        if self.states is None:
            return validation.check_symbols(states, sequence, len(self.log_start), 'state')
        indices = {state: index for index, state in enumerate(self.states)}
        for position, state in enumerate(states):
            if getattr(state, '__hash__', None) is None or state not in indices:
                raise ValueError(f'sequence {sequence} must contain states of the model, got {state!r:.40} at position '
                                 f'{position}')
        return np.array([indices[state] for state in states], np.int64)

    def columns_of(self, sequences: Sequence[Any]) -> np.ndarray:
        """The column of each observation in the table of emissions, for all sequences concatenated."""
        if self.words is not None:
            return self.words.columns(chain.from_iterable(sequences))
        return validation.join_symbols(sequences, self.log_emission.shape[1])

    def batches(self, sequences: Sequence[Any], mask: np.ndarray | None = None
                ) -> Iterator[tuple[np.ndarray, SequenceBatch, np.ndarray]]:
        """Batches of sequences of similar lengths, without empty sequences.

        Args:
            sequences: lists of observations.
            mask: (positions, S) for all sequences concatenated, added to the log emissions; or None.

        Yields:
            The indices of the sequences, a `SequenceBatch`, and the columns of its observations.
        """
        table = np.ascontiguousarray(self.log_emission.T)
        columns, lengths = self.columns_of(sequences), np.array(list(map(len, sequences)), np.int64)
        begins = np.cumsum(lengths) - lengths
        for indices in batches(lengths):
            count = lengths[indices]
            # Indices of the positions of this batch among the positions of all sequences.
            offsets = np.arange(count.sum()) + np.repeat(begins[indices] - (np.cumsum(count) - count), count)
            observed = columns[offsets]
            emissions = table[observed] if mask is None else table[observed] + mask[offsets]
            yield indices, SequenceBatch(self.log_start, self.log_transition, self.log_end, emissions, count,
                                         indices), observed

    def _each(self, observations: Any, work: Callable[[SequenceBatch], Iterable], empty: Any,
              pairs: bool = False) -> Any:
        """The result of `work` for a sequence, or the list of its results for a list of sequences."""
        self._check_learned()
        many, sequences = validation.several(observations, self.words is not None)
        if pairs:
            validation.check_pairs(sequences, len(self.log_start))
        results = [empty] * len(sequences)
        with np.errstate(over='ignore'):         # a sum below the smallest number is -inf
            for indices, batch, _ in self.batches(sequences):
                for index, result in zip(indices.tolist(), work(batch)):
                    results[index] = result
        return results if many else results[0]


def _sums(logs: np.ndarray) -> np.ndarray:
    """Cumulative probabilities along the rows, from logarithms of any size."""
    largest = top(logs)
    return np.exp(np.where(np.abs(largest) > 600, logs - largest, logs)).cumsum(-1)
