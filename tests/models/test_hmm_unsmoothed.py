"""Hidden Markov models without smoothing, compared with enumeration of all paths in exact fractions."""

import itertools
import math
import warnings
from fractions import Fraction

from ms_crf import HMM

import numpy as np
import pytest

SENTENCES = [['the', 'dog', 'sleeps'], ['the', 'cat', 'sees', 'the', 'dog'], ['dogs', 'sleep'], ['cat']]
TAGS = [['D', 'N', 'V'], ['D', 'N', 'V', 'D', 'N'], ['N', 'V'], ['N']]


class Frequencies:
    """The relative frequencies of a corpus, and the exact probabilities of all paths."""

    def __init__(self, sentences, tags):
        self.states = sorted({tag for row in tags for tag in row})
        counts = {tag: sum(row.count(tag) for row in tags) for tag in self.states}
        pairs = [pair for row in tags for pair in zip(row, row[1:])]
        emitted = [pair for row, words in zip(tags, sentences) for pair in zip(row, words)]
        self.start = {tag: Fraction(sum(row[0] == tag for row in tags), len(tags)) for tag in self.states}
        self.end = {tag: Fraction(sum(row[-1] == tag for row in tags), counts[tag]) for tag in self.states}
        self.step = {pair: Fraction(pairs.count(pair), counts[pair[0]])
                     for pair in itertools.product(self.states, repeat=2)}
        self.word = {pair: Fraction(emitted.count(pair), counts[pair[0]]) for pair in emitted}

    def of_path(self, path, words):
        product = self.start[path[0]] * self.end[path[-1]]
        for pair in zip(path, path[1:]):
            product *= self.step[pair]
        for pair in zip(path, words):
            product *= self.word.get(pair, 0)
        return product

    def of_paths(self, words):
        return {path: self.of_path(path, words) for path in itertools.product(self.states, repeat=len(words))}


def log(fraction):
    return math.log(fraction) if fraction else -math.inf


def random_corpus(seed):
    rng = np.random.default_rng(seed)
    sentences = [[f'w{word}' for word in rng.integers(0, 4, rng.integers(1, 5))] for _ in range(5)]
    return sentences, [[f't{tag}' for tag in rng.integers(0, 3, len(words))] for words in sentences]


@pytest.mark.parametrize('sentences,tags', [(SENTENCES, TAGS), *map(random_corpus, range(8))])
def test_hmm_unsmoothed_probabilities_are_relative_frequencies(sentences, tags):
    """Likelihoods, best paths and posteriors agree with enumeration of all paths in fractions, without warnings."""
    exact, words = Frequencies(sentences, tags), sorted({word for row in sentences for word in row})[:3]
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        model = HMM().fit(sentences, tags, add=0)
        for given in [*sentences, *map(list, itertools.product(words, repeat=3)), [words[0], 'unknown']]:
            paths = exact.of_paths(given)
            total, best = sum(paths.values()), max(paths.values())
            path, score = model.viterbi(given)
            assert score == pytest.approx(log(best)) and model.log_likelihood(given) == pytest.approx(log(total))
            assert model.log_likelihood(given, backward=True) == pytest.approx(log(total))
            if not total:
                with pytest.raises(ValueError, match='is impossible in the model'):
                    model.posteriors(given)
                continue
            assert paths[tuple(path)] == best
            singles, pairs = model.posteriors(given)
            for position, (index, state) in itertools.product(range(len(given)), enumerate(exact.states)):
                expected = sum(value for path, value in paths.items() if path[position] == state) / total
                assert singles[position, index] == pytest.approx(float(expected), abs=1e-12)
            for position, first, second in itertools.product(range(len(given) - 1), *[range(len(exact.states))] * 2):
                both = (exact.states[first], exact.states[second])
                expected = sum(value for path, value in paths.items() if path[position:position + 2] == both) / total
                assert pairs[position, first, second] == pytest.approx(float(expected), abs=1e-12)


def test_hmm_unsmoothed_a_little_smoothing_comes_near():
    """A model with very little smoothing has almost the same start and transition probabilities."""
    model, near = HMM().fit(SENTENCES, TAGS, add=0), HMM().fit(SENTENCES, TAGS, add=1e-9)
    assert np.exp(model.log_transition) == pytest.approx(np.exp(near.log_transition), abs=1e-6)
    assert np.exp(model.log_start) == pytest.approx(np.exp(near.log_start), abs=1e-6)
