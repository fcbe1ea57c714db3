"""Hidden Markov models of partly annotated text, compared with enumeration of all paths of each sentence."""

from ms_crf import HMM
from ms_crf.cli import train
from ms_crf.models.hmm.estimation import WordCounts, learn

import numpy as np
import pytest

from support.oracle import StatePaths
from support.trainings import files

SENTENCES = ['the dog runs'.split(), 'a dog'.split(), 'the cat runs fast'.split(), 'dog'.split()]
TAGS = ['D N V'.split(), 'D N'.split(), 'D N V N'.split(), 'N'.split()]
STATES = ['D', 'N', 'V']


def sets_of(rows):
    """The allowed states of each token: all states for '?', otherwise the states that the cell names."""
    return [np.array([[cell == '?' or state in cell for state in STATES] for cell in row.split()]) for row in rows]


def test_counting_in_part_what_is_known_whole_is_counted_as_ever():
    whole = HMM().fit(SENTENCES, TAGS, 0.5)
    found = HMM().fit_sets(SENTENCES, [np.array([[tag == state for state in STATES] for tag in row]) for row in TAGS],
                           STATES, 0.5)
    assert found.words.words == whole.words.words
    for one, other in zip(found.tables(), whole.tables()):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_counting_in_part_what_is_not_known_is_counted_as_it_is_expected():
    sets, add = sets_of(['D ? V', 'D N', '? N NV ?', 'N']), 0.5
    words = WordCounts(SENTENCES)
    models = []
    for steps in (0, 1):
        model = HMM()
        model.states, model.words = STATES, words.words
        learn(model, SENTENCES, sets, words, add, steps)
        models.append([np.exp(table) for table in model.tables()])
    # Counts of the known tags: D twice and N once at the beginning, D N once, V once and N twice at the end.
    start, transition, emission, end = models[0]
    np.testing.assert_allclose(start, np.array([2, 1, 0] + np.full(3, add)) / 4.5)
    counted = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]) + add
    ends = np.array([0, 2, 1]) + add
    np.testing.assert_allclose(transition, counted / (counted.sum(1) + ends)[:, None])
    starts, steps_, lasts = np.zeros(3), np.zeros((3, 3)), np.zeros(3)
    for tokens, allowed in zip(SENTENCES, sets):
        every = StatePaths(start, transition, emission, end, words.words.columns(tokens))
        weights = every.weights * np.array([all(allowed[range(len(path)), path]) for path in every.paths])
        weights /= weights.sum()
        for path, weight in zip(every.paths, weights):
            starts[path[0]] += weight
            lasts[path[-1]] += weight
            np.add.at(steps_, (path[:-1], path[1:]), weight)
    start, transition, _, end = models[1]
    np.testing.assert_allclose(start, (starts + add) / (starts + add).sum())
    leaving = (steps_ + add).sum(1) + lasts + add
    np.testing.assert_allclose(transition, (steps_ + add) / leaving[:, None])
    np.testing.assert_allclose(end, (lasts + add) / leaving)


@pytest.mark.parametrize('sets,message', [
    ([np.ones((3, 3), bool)], r'tags must contain a list for each sentence \(4\), got 1'),
    (sets_of(['D N V', 'D N', 'D N V N', 'X']), r'sets must contain for sentence 3 an array \(1, 3\) of bools with a'),
    ([np.ones((len(row), 2), bool) for row in TAGS], r'sets must contain for sentence 0 an array \(3, 3\)'),
])
def test_counting_in_part_sets_that_are_none_are_refused(sets, message):
    with pytest.raises(ValueError, match=message):
        HMM().fit_sets(SENTENCES, sets, STATES)


def test_counting_in_part_a_run_is_counted_from_text_that_is_tagged_in_part(corpora, tmp_path, capsys):
    text = (corpora / 'train.tsv').read_text().split('\n\n')
    partly = [part.replace('B-PER', '?').replace('of\tO', 'of\t?') if index % 2 else part.replace('I-PER', '?-PER')
              for index, part in enumerate(text)]
    (tmp_path / 'train.tsv').write_text('\n\n'.join(partly))
    assert train.main([*files(corpora, train=tmp_path / 'train.tsv'), '--model', 'hmm', '--save',
                       str(tmp_path / 'run')]) == 0
    assert 'accuracy: 100.00%' in capsys.readouterr().out
