"""Tests bootstrap intervals and the paired bootstrap test.

The oracle draws and scores sentences one by one in plain Python.
"""

import random

from ms_crf.text.bootstrap import counts_of, difference, f1_of, interval_of, resampled
from ms_crf.text.metrics import score

import numpy as np
import pytest


def f1(rows):
    """Returns F1 of rows (correct, predicted, gold), or None if nothing is predicted and nothing is gold."""
    correct, predicted, gold = (sum(column) for column in zip(*rows))
    return 2 * correct / (predicted + gold) if predicted + gold else None


def quantile(values, share):
    """Returns a quantile, interpolated linearly between the two nearest sorted values."""
    values = sorted(values)
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


@pytest.fixture(scope='module')
def rows():
    """Returns (correct, predicted, gold) of 60 sentences for each of two types."""
    rng = random.Random(3)

    def row():
        predicted, gold = rng.randint(0, 3), rng.randint(0, 3)
        return rng.randint(0, min(predicted, gold)), predicted, gold
    return [(row(), row()) for _ in range(60)]


def test_bootstrap_counts_are_those_of_each_sentence():
    gold = [['B-X', 'I-X', 'O'], ['B-Y', 'O', 'B-X'], ['O']]
    predicted = [['B-X', 'I-X', 'O'], ['B-X', 'O', 'B-X'], ['O']]
    scores = [score([one], [other], 'BIO') for one, other in zip(gold, predicted)]
    #                                                      X          Y: correct, predicted, gold
    assert counts_of(scores, ['X', 'Y']).tolist() == [[[1, 1, 1], [0, 0, 0]], [[1, 2, 1], [0, 0, 1]],
                                                      [[0, 0, 0], [0, 0, 0]]]


def test_bootstrap_each_resample_is_the_sum_of_sentences_that_are_drawn(rows):
    """Checks that each resample is a sum of drawn sentences.

    The counts of the sentences are powers of 100, so the digits of a sum tell how often each sentence was drawn.
    """
    marks = np.array([100 ** place for place in range(7)])
    sums = resampled(marks, 300, seed=5)
    for value in map(int, sums):
        times = []
        for _ in range(7):
            value, digit = divmod(value, 100)
            times.append(digit)
        assert value == 0 and sum(times) == 7
    assert len(set(sums.tolist())) > 150
    assert (resampled(marks, 300, seed=5) == sums).all() and (resampled(marks, 300, seed=6) != sums).any()
    # With the same seed, the same sentences are drawn for other counts.
    assert (resampled(np.stack((marks, 2 * marks), 1), 300, seed=5) == np.stack((sums, 2 * sums), 1)).all()


def test_bootstrap_many_draws_are_made_in_parts(monkeypatch):
    monkeypatch.setattr('ms_crf.text.bootstrap._CELLS', 50)
    sums = resampled(np.eye(20, dtype=int), 31)
    assert sums.shape == (31, 20) and (sums.sum(1) == 20).all() and len({*map(tuple, sums.tolist())}) == 31


def test_bootstrap_intervals_are_those_of_sentences_drawn_in_python(rows):
    rng = random.Random(1)
    drawn = [f1([rng.choice(rows)[0] for _ in rows]) for _ in range(4000)]
    low, high = interval_of(f1_of(resampled(np.array(rows)[:, 0], 4000)))
    assert low < f1([row[0] for row in rows]) < high
    # Quantiles of two sets of 4,000 random draws differ by a few hundredths of the interval.
    assert low == pytest.approx(quantile(drawn, 0.025), abs=0.008)
    assert high == pytest.approx(quantile(drawn, 0.975), abs=0.008)
    assert high - low > 0.1


def test_bootstrap_quantiles_of_known_values():
    values = np.array([np.nan, *range(101)])
    assert interval_of(values) == pytest.approx((quantile(range(101), 0.025), quantile(range(101), 0.975)))
    assert interval_of(values, 0.5) == (25, 75)
    assert interval_of(np.array([np.nan, np.nan])) is None


def test_bootstrap_f1_of_nothing_is_no_number():
    assert np.isnan(f1_of(np.array([0, 0, 0])))
    assert f1_of(np.array([[0, 1, 0], [1, 2, 1]])).tolist() == [0, 2 / 3]


def test_bootstrap_paired_differences_are_those_of_sentences_drawn_in_python(rows):
    """Compares the paired test with sentences drawn in plain Python.

    The second model misses some of the spans that the first model predicts correctly.
    """
    rng = random.Random(2)
    pairs = [(row[0], (max(0, row[0][0] - (rng.random() < 0.15)), *row[0][1:])) for row in rows]
    value = f1([pair[0] for pair in pairs]) - f1([pair[1] for pair in pairs])
    drawn = []
    for _ in range(4000):
        sample = [rng.choice(pairs) for _ in pairs]
        drawn.append(f1([pair[0] for pair in sample]) - f1([pair[1] for pair in sample]))
    found = difference(*(np.array([pair[which] for pair in pairs]) for which in (0, 1)), resamples=4000)
    assert found.value == pytest.approx(value)
    assert found.interval == pytest.approx((quantile(drawn, 0.025), quantile(drawn, 0.975)), abs=0.008)
    assert found.p == pytest.approx(sum(abs(other - value) >= value for other in drawn) / 4000, abs=0.02)
    assert 0 < found.p < 0.1


def test_bootstrap_what_is_equal_differs_by_chance_and_what_is_always_better_does_not(rows):
    one = np.array(rows)[:, 0]
    assert difference(one, one) == (0.0, (0.0, 0.0), 1.0)
    best, worst = np.tile([1, 1, 1], (50, 1)), np.tile([0, 1, 1], (50, 1))
    assert difference(best, worst, 999) == (1.0, (1.0, 1.0), 1 / 1000)
    assert difference(worst, best, 999) == (-1.0, (-1.0, -1.0), 1 / 1000)
    with pytest.raises(ValueError, match='the same sentences, got 60 and 50'):
        difference(one, best)


def test_bootstrap_intervals_hold_the_truth_and_the_test_finds_what_is_not_there_as_often_as_they_say():
    """Checks on random data how often intervals contain the true F1, and how often the test errs.

    There are 300 pairs of models with a true F1 of 0.7, on 150 sentences each.
    """
    rng = np.random.default_rng(8)
    held, found = 0, 0
    for seed in range(300):
        gold = rng.integers(1, 4, 150)
        one, other = (np.stack((rng.binomial(gold, 0.7), gold, gold), 1) for _ in range(2))
        low, high = interval_of(f1_of(resampled(one, 200, seed)))
        held += low <= 0.7 <= high
        found += difference(one, other, 200, seed).p < 0.1
    # Binomial bounds for 300 trials with probability 0.95 and 0.1; chance exceeds them once in a thousand cases.
    assert 270 <= held <= 297 and 15 <= found <= 48
