"""Tests which sentences are suggested for annotation.

The oracle is a plain loop over all pairs of sentences, with sets of word n-grams.
"""

import random

from ms_crf.formats.document import Document
from ms_crf.tagging.suggest import CandidatePool, DuplicateIndex, Suggestion

import pytest


def jaccard(one, other, size):
    """Returns the Jaccard similarity of the word n-grams of two sentences."""
    sets = [{' '.join(words).lower() for words in zip(*(tokens[first:] for first in range(size)))} or
            {' '.join(tokens).lower()} for tokens in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def candidate(score, *tokens):
    return Suggestion(score, list(tokens), Document('', 'x', 1))


def chosen(candidates, count, known=(), size=2, threshold=0.5, spare=10_000):
    pool = CandidatePool(count, DuplicateIndex(size, threshold, known), spare)
    for one in candidates:
        pool.add(one)
    return pool, [''.join(one.tokens) for one in pool.chosen()[0]]


@pytest.mark.parametrize('threshold', [0.0, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize('size', [1, 2, 3])
def test_suggestions_the_best_are_chosen_of_which_no_two_are_alike(size, threshold):
    rng = random.Random(size)
    texts = [''.join(rng.choices('abAcd', k=rng.randint(1, 6))) for _ in range(200)]
    scores = {text: rng.choice([0.1, 0.5, rng.random()]) for text in texts}
    candidates = [candidate(scores[text], *text) for text in texts]
    known = [rng.choices('abc', k=4) for _ in range(5)]
    expected = []
    for one in sorted(candidates, key=lambda entry: -entry.score):
        others = [*known, *(other.tokens for other in expected)]
        if all(one.tokens != other and (threshold == 1 or jaccard(one.tokens, other, size) <= threshold)
               for other in others):
            expected.append(one)
    _, found = chosen(candidates, 20, known, size, threshold)
    assert found == [''.join(one.tokens) for one in expected[:20]] and found


def test_suggestions_a_sentence_is_near_another_above_the_threshold_not_at_it():
    """Checks the threshold with "a b c" and "a b d", which share one of three word pairs."""
    third = 1 / 3
    assert not DuplicateIndex(2, third, ['abc']).near('abd') and DuplicateIndex(2, third - 0.01, ['abc']).near('abd')
    assert DuplicateIndex(2, 0.99, ['ABC']).near('abc') and not DuplicateIndex(2, 0.99, ['ABC']).same('abc')
    assert not DuplicateIndex(2, 1.0, ['ABC']).near('abc')


def test_suggestions_what_is_left_out_is_counted():
    stream = [candidate(0.9, 'a', 'b'), candidate(0.9, 'a', 'b'), candidate(0.8, 'c'), candidate(0.7, 'A', 'b'),
              candidate(0.6, 'd'), candidate(0.1, 'e')]
    pool, found = chosen(stream, 2, [['c']])
    assert found == ['ab', 'd'] and pool.chosen()[1] == 1
    assert (pool.read, pool.known_left_out, pool.repeated) == (6, 1, 1)


def test_suggestions_no_more_are_held_than_it_takes():
    """Checks that the pool holds few candidates, and still finds the best sentences.

    A thousand near-duplicates of a sentence with a high score must not displace all other sentences.
    """
    stream = [candidate(0.9 + number / 1e6, *'abcdefgh', str(number)) for number in range(1000)]
    others = [candidate(number / 1000, *(f'{letter}{number}' for letter in 'xyz')) for number in range(500)]
    random.Random(1).shuffle(others)
    mixed = [one for pair in zip(stream, others + others) for one in pair]
    pool, found = chosen(mixed, 10, spare=10)
    assert len(pool._held) < 40
    assert found == ['abcdefgh999', *(f'x{number}y{number}z{number}' for number in range(499, 490, -1))]


def test_suggestions_of_equal_scores_the_first_come_first():
    assert chosen([candidate(0.5, letter) for letter in 'cab'], 2)[1] == ['c', 'a']
