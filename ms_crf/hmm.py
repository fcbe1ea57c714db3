"""The hidden Markov model, in NumPy: likelihoods, posteriors, best paths, and learning with tags and without.

Everything is computed in logarithms, on many sequences at a time. Shapes: L length, B sequences of a batch, S states.
"""

from itertools import chain
from typing import NamedTuple

from ms_crf.hmm_batch import Batch, batches
from ms_crf.hmm_input import check_arrays, check_parallel, check_symbols, join_symbols, several
from ms_crf.hmm_words import count_words

import numpy as np


class Fit(NamedTuple):
    """What `HMM.baum_welch` has done."""

    history: list              # log likelihood of the observations before each step, and after the last
    converged: bool            # whether it stopped by itself, not at the limit of steps
    histories: list            # of all random starts


class HMM:
    """A hidden Markov model with discrete observations, from arrays or to be learned.

    `HMM(start, transition, emission)` is a model; `HMM().fit(sentences, tags)` counts one, and
    `HMM().baum_welch(observations, states)` finds one without tags. All methods take one sequence, or a list of them
    and give back a list or an array of what one sequence would give. A sequence is an array or list of symbols, 0 to
    V - 1; after `fit` a list of tokens.

    Args:
        start: (S,), how likely each state is at first.
        transition: (S, S), entry (i, j) from state i to state j.
        emission: (S, V), each symbol in each state.
        end: (S,), how likely each state is at last, as a factor; None for 1 everywhere.
        log: whether these are logarithms. Otherwise start and rows have to add up to 1.
    """

    def __init__(self, start=None, transition=None, emission=None, end=None, log=False):
        self.states, self.words = None, None
        self.log_start = None
        if start is not None:
            self._set(*check_arrays(start, transition, emission, end, log))

    def _set(self, log_start, log_transition, log_emission, log_end):
        self.log_start, self.log_transition = log_start, log_transition
        self.log_emission, self.log_end = log_emission, log_end

    # What a model says of sequences

    def log_prob(self, states):
        """Log probability of state sequences in the plain Markov chain: start and transitions alone."""
        self._check_learned()
        many, sequences = several(states)
        chains = [self._indices(sequence) for sequence in sequences]
        found = [self.log_start[chain[0]] + self.log_transition[chain[:-1], chain[1:]].sum() if len(chain) else 0.0
                 for chain in chains]
        return np.array(found) if many else float(found[0])

    def log_likelihood(self, observations, backward=False):
        """Log probability of observations, by the forward recursion or by the backward one, which agree."""
        many, found = self._each(observations, lambda batch: batch.backward_likelihood() if backward
                                 else batch.forward_likelihood(), 0.0)
        return np.array(found) if many else float(found[0])

    def forward(self, observations):
        """Log probability of the observations up to each position and the state there, (L, S)."""
        many, found = self._each(observations, lambda batch: batch.split(batch.forward()), self._nothing(1))
        return found if many else found[0]

    def backward(self, observations):
        """Log probability of the observations behind each position given the state there, (L, S)."""
        many, found = self._each(observations, lambda batch: batch.split(batch.backward()), self._nothing(1))
        return found if many else found[0]

    def posteriors(self, observations):
        """Of each state at each position (L, S), and of each pair of states (L - 1, S, S) one after the other."""
        many, found = self._each(observations, lambda batch: list(zip(
            batch.split(batch.posteriors()), batch.split(batch.pairs(), 1))), (self._nothing(1), self._nothing(2)))
        return found if many else found[0]

    def viterbi(self, observations):
        """(best states, log probability of them and the observations); the lowest state of equals, from the end on."""
        names = None if self.states is None else np.array(self.states, object)

        def work(batch):
            states, scores = batch.viterbi()
            if names is None:
                return zip(batch.split(states), scores.tolist())
            joined = names[states.T[batch.live.T]].tolist()
            ends = np.cumsum(batch.lengths)
            begins = ends - batch.lengths
            return zip([joined[begin:end] for begin, end in zip(begins.tolist(), ends.tolist())], scores.tolist())

        many, found = self._each(observations, work, (np.zeros(0, np.int64) if names is None else [], 0.0))
        return found if many else found[0]

    def sample(self, length, seed=0):
        """(states, observations), both (length,), drawn from a model that was made from arrays."""
        self._check_learned()
        if self.words is not None:
            raise ValueError('sample needs a model made from arrays: words can not be drawn from classes of shapes')
        generator = np.random.default_rng(seed)
        start, transition, emission = (np.exp(logs).cumsum(-1) for logs in (
            self.log_start, self.log_transition, self.log_emission))
        states, observations = np.zeros((2, length), np.int64)
        row = start
        for place, (first, second) in enumerate(generator.random((length, 2))):
            states[place] = np.searchsorted(row, first * row[-1], 'right')
            symbols = emission[states[place]]
            observations[place] = np.searchsorted(symbols, second * symbols[-1], 'right')
            row = transition[states[place]]
        return states, observations

    # Learning

    def fit(self, sentences, tags, add=0.1, states=None):
        """Counts a model of words: transitions and words of each tag, with `add` added to every count.

        A word that was not seen is taken for its shape: endings, capitals, digits; how likely each shape is with
        each tag is learned from the words that were seen once.

        Args:
            sentences: lists of tokens.
            tags: for each sentence the tag of each token.
            add: above 0.
            states: all tags, in the order of the states; None for those that occur, sorted.
        """
        if not add > 0:
            raise ValueError(f'add must be above 0, got {add}')
        check_parallel(sentences, tags)
        self.states = sorted({tag for row in tags for tag in row}) if states is None else list(states)
        numbers = {tag: number for number, tag in enumerate(self.states)}
        missing = next((tag for row in tags for tag in row if tag not in numbers), None)
        if missing is not None:
            raise ValueError(f'states must hold all tags, got none for {missing!r}')
        every = [np.array([numbers[tag] for tag in row], np.int64) for row in tags]
        paths = [path for path in every if len(path)]
        size = len(self.states)
        start = np.bincount([path[0] for path in paths], minlength=size) + add
        end = np.bincount([path[-1] for path in paths], minlength=size) + add
        steps = np.concatenate([path[:-1] * size + path[1:] for path in paths])
        transition = np.bincount(steps, minlength=size * size).reshape(size, size) + add
        # From each state the sentence ends or goes on.
        leaving = transition.sum(1) + end
        self.words, table = count_words(sentences, every, size, add)
        self._set(np.log(start / start.sum()), np.log(transition / leaving[:, None]), table, np.log(end / leaving))
        return self

    def baum_welch(self, observations, states=None, symbols=None, steps=100, tolerance=1e-4, starts=4, seed=0):
        """Finds a model by expectation maximisation: the likelihood never falls.

        A model that has arrays already goes on from these, otherwise the best of several random starts is kept.

        Args:
            observations: a sequence of symbols or a list of them.
            states: how many; None where there are arrays.
            symbols: how many; None for the largest that occurs and all below it.
            steps: at most.
            tolerance: it stops when a step adds less to the log likelihood.
            starts: number of random starts.
            seed: of these.

        Returns:
            `Fit`: history of the log likelihood, whether it has converged, and the histories of all starts.
        """
        if self.words is not None:
            raise ValueError('baum_welch needs symbols, got a model of words; make another with HMM()')
        _, sequences = several(observations)
        known = None if self.log_start is None else self.log_emission.shape[1]
        sequences = [check_symbols(sequence, number, known or symbols) for number, sequence in enumerate(sequences)]
        if not sum(map(len, sequences)):
            raise ValueError('observations must hold a symbol, got none')
        if self.log_start is not None:
            if states not in (None, len(self.log_start)):
                raise ValueError(f'states must be {len(self.log_start)} as in the arrays, or None, got {states}')
            models = [self]
        else:
            if states is None or states < 1:
                raise ValueError(f'states must be a number from 1 where there are no arrays, got {states}')
            symbols = symbols or 1 + max(int(sequence.max()) for sequence in sequences if len(sequence))
            generator = np.random.default_rng(seed)
            models = [_random_model(generator, states, symbols) for _ in range(starts)]
        found = [_climb(model, sequences, steps, tolerance) for model in models]
        best = max(range(len(models)), key=lambda index: found[index][0][-1])
        chosen = models[best]
        self._set(chosen.log_start, chosen.log_transition, chosen.log_emission, chosen.log_end)
        return Fit(*found[best], [history for history, _ in found])

    # Batches

    def _nothing(self, axes):
        """What an empty sequence has instead of (L, S) or (L - 1, S, S)."""
        self._check_learned()
        return np.zeros((0,) + (len(self.log_start),) * axes)

    def _check_learned(self):
        if self.log_start is None:
            raise ValueError('the model is empty; give it arrays, or call fit or baum_welch first')

    def _indices(self, states):
        if self.states is None:
            return check_symbols(states, 0, len(self.log_start), 'state')
        return np.array([self.states.index(state) for state in states], np.int64)

    def columns_of(self, sequences):
        """The column of each observation in the table of emissions, of all sequences one after the other."""
        if self.words is not None:
            return self.words.columns(chain.from_iterable(sequences))
        return join_symbols(sequences, self.log_emission.shape[1])

    def batches(self, sequences):
        """Numbers of sequences of similar lengths and a `Batch` of them; empty sequences are in none."""
        table = np.ascontiguousarray(self.log_emission.T)
        columns, lengths = self.columns_of(sequences), np.array(list(map(len, sequences)), np.int64)
        begins = np.cumsum(lengths) - lengths
        for numbers in batches(lengths):
            count = lengths[numbers]
            # Where the positions of these sequences are among all.
            places = np.arange(count.sum()) + np.repeat(begins[numbers] - (np.cumsum(count) - count), count)
            chosen = columns[places]
            yield numbers, Batch(self.log_start, self.log_transition, self.log_end, table[chosen], count), chosen

    def _each(self, observations, work, empty=None):
        """Whether there are several sequences, and what `work` gives for a `Batch`, in their order."""
        self._check_learned()
        many, sequences = several(observations, self.words is not None)
        found = [empty] * len(sequences)
        for numbers, batch, _ in self.batches(sequences):
            for number, result in zip(numbers.tolist(), work(batch)):
                found[number] = result
        return many, found


# Expectation maximisation

def _random_model(generator, states, symbols):
    model = HMM()
    start, *rows = (generator.dirichlet(np.ones(width), count)
                    for width, count in ((states, 1), (states, states), (symbols, states)))
    model._set(np.log(start[0]), np.log(rows[0]), np.log(rows[1]), np.zeros(states))
    return model


def _climb(model, sequences, steps, tolerance):
    """Steps of expectation maximisation on a model, which changes: (history, whether it has converged)."""
    history = []
    for _ in range(steps):
        value, counts = _expect(model, sequences)
        history.append(value)
        if len(history) > 1 and history[-1] - history[-2] < tolerance:
            return history, True
        start, transition, emission = counts
        with np.errstate(divide='ignore', invalid='ignore'):
            rows = [np.log(array / array.sum(-1, keepdims=True)) for array in (start, transition, emission)]
        # A state that is never there, or never before another, keeps what it had.
        old = model.log_start, model.log_transition, model.log_emission
        rows = [np.where(np.isnan(new), before, new) for new, before in zip(rows, old)]
        model._set(*rows, model.log_end)
    history.append(_expect(model, sequences)[0])
    return history, len(history) > 1 and history[-1] - history[-2] < tolerance


def _expect(model, sequences):
    """Log likelihood of all sequences, and expected counts: of first states, of transitions, of symbols."""
    states, symbols = model.log_emission.shape
    value, start = 0.0, np.zeros(states)
    transition, emission = np.zeros((states, states)), np.zeros((states, symbols))
    for numbers, batch, seen in model.batches(sequences):
        likelihoods = batch.forward_likelihood()
        if np.isneginf(likelihoods).any():
            raise ValueError(f'sequence {numbers[int(np.isneginf(likelihoods).argmax())]} is impossible in the model')
        value += float(likelihoods.sum())
        weights = batch.posteriors()
        start += weights[0].sum(0)
        transition += batch.pair_counts()
        flat = weights.swapaxes(0, 1)[batch.live.T]                                 # (positions, S)
        emission += np.stack([np.bincount(seen, flat[:, state], symbols) for state in range(states)])
    return value, (start, transition, emission)
