"""The hidden Markov model compared with worked examples, enumeration of all paths, hmmlearn and jieba."""

import itertools
import re

from ms_crf import HMM
from ms_crf.formats.registry import read_corpus
from ms_crf.models.hmm.estimation import Words, shape_of

import numpy as np
import pytest

from support.oracle import StatePaths
from support.paths import ROOT

BOXES = ([.2, .4, .4], [[.5, .2, .3], [.3, .5, .2], [.2, .3, .5]], [[.5, .5], [.4, .6], [.7, .3]])
RED, WHITE = 0, 1
SEGMENTS = ROOT.parent / 'shared' / 'data' / 'zh-udc-seg' / 'test.tsv'


def draw(seed, states=3, symbols=4, zeros=False):
    generator = np.random.default_rng(seed)
    start, transition, emission = (generator.dirichlet(np.ones(width), count) for width, count in (
        (states, 1), (states, states), (symbols, states)))
    if zeros:
        transition[0, 1] = transition[2, 0] = 0
        transition /= transition.sum(1, keepdims=True)
    sequences = [generator.integers(0, symbols, length) for length in (4, 1, 5, 2)]
    return (start[0], transition, emission), generator.random(states) + 0.1, sequences


def test_hmm_a_chain_and_three_boxes():
    chain = HMM([.2, .8], [[.3, .7], [.6, .4]], np.eye(2))
    assert np.exp(chain.log_prob([1, 0, 1, 1])) == pytest.approx(0.1344)
    boxes = HMM(*BOXES)
    seen = [RED, WHITE, RED]
    for backward in (False, True):
        assert np.exp(boxes.log_likelihood(seen, backward)) == pytest.approx(0.130218)
    assert np.exp(boxes.forward(seen))[1:] == pytest.approx(
        np.array([[.077, .1104, .0606], [.04187, .035512, .052836]]))
    every = StatePaths(*map(np.array, BOXES), np.ones(3), seen)
    path, score = boxes.viterbi(seen)
    assert path.tolist() == every.paths[every.weights.argmax()].tolist()
    assert np.exp(score) == pytest.approx(every.weights.max())


@pytest.mark.parametrize('zeros', [False, True])
@pytest.mark.parametrize('log', [False, True])
def test_hmm_beside_every_path(zeros, log):
    arrays, end, sequences = draw(1, zeros=zeros)
    with np.errstate(divide='ignore'):
        model = HMM(*map(np.log, arrays), np.log(end), log=True) if log else HMM(*arrays, end)
    likelihoods, behind = model.log_likelihood(sequences), model.log_likelihood(sequences, backward=True)
    posteriors, best = model.posteriors(sequences), model.viterbi(sequences)
    for number, sequence in enumerate(sequences):
        every = StatePaths(*arrays, end, sequence)
        assert np.exp([likelihoods[number], behind[number]]) == pytest.approx([every.total] * 2)
        assert model.log_likelihood(sequence) == pytest.approx(likelihoods[number], rel=1e-13)
        single, pairs = posteriors[number]
        assert single.shape == (len(sequence), 3) and pairs.shape == (len(sequence) - 1, 3, 3)
        for position, state in itertools.product(range(len(sequence)), range(3)):
            assert single[position, state] == pytest.approx(every.posterior(position, state))
            for after in range(3 if position + 1 < len(sequence) else 0):
                assert pairs[position, state, after] == pytest.approx(every.pair(position, state, after))
        path, score = best[number]
        assert path.tolist() == every.paths[every.weights.argmax()].tolist()
        assert np.exp(score) == pytest.approx(every.weights.max())


def test_hmm_one_step_of_learning_beside_every_path():
    arrays, _, sequences = draw(2)
    model = HMM(*arrays)
    history = model.baum_welch(sequences, steps=1).history
    start, transition, emission = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 4))
    value = 0.0
    for sequence in sequences:
        every = StatePaths(*arrays, np.ones(3), sequence)
        value += np.log(every.total)
        for path, weight in zip(every.paths, every.weights / every.total):
            start[path[0]] += weight
            np.add.at(transition, (path[:-1], path[1:]), weight)
            np.add.at(emission, (path, sequence), weight)
    assert history[0] == pytest.approx(value) and history[1] > history[0]
    for found, counts in ((model.log_start, start), (model.log_transition, transition), (model.log_emission, emission)):
        assert np.exp(found) == pytest.approx(counts / counts.sum(-1, keepdims=True))


@pytest.mark.parametrize('zeros', [False, True])
@pytest.mark.parametrize('sharp', [False, True])
def test_hmm_long_sequences_go_in_pieces(zeros, sharp):
    """A long sequence gives the same results as a step-by-step recursion in NumPy.

    The recursion multiplies probabilities and normalises their sum to 1 after each step.
    """
    (start, transition, emission), end, _ = draw(3, 4, 5, zeros)
    if sharp:                                    # probabilities too far apart for products over several steps
        emission = emission ** 60
        emission /= emission.sum(1, keepdims=True)
    seen = np.random.default_rng(0).integers(0, 5, 2600)
    with np.errstate(divide='ignore'):
        model = HMM(*map(np.log, (start, transition, emission, end)), log=True)
    forward, logs = start * emission[:, seen[0]], 0.0
    alphas = []
    for symbol in [*seen[1:], None]:
        total = forward.sum()
        logs, forward = logs + np.log(total), forward / total
        alphas.append(np.log(np.maximum(forward, 1e-300)) + logs)
        if symbol is not None:
            forward = forward @ transition * emission[:, symbol]
    expected = logs + np.log(forward @ end)
    assert model.log_likelihood(seen) == pytest.approx(expected, rel=1e-11)
    assert model.log_likelihood(seen, backward=True) == pytest.approx(expected, rel=1e-11)
    found = model.forward(seen)
    real = np.array(alphas) > np.array(alphas).max(1, keepdims=True) - 600
    assert found[real] == pytest.approx(np.array(alphas)[real], rel=1e-10)
    single, pairs = model.posteriors(seen)
    assert single.sum(1) == pytest.approx(np.ones(2600)) and pairs.sum(2) == pytest.approx(single[:-1], abs=1e-9)


@pytest.mark.slow
def test_hmm_beside_hmmlearn():
    hmmlearn = pytest.importorskip('hmmlearn.hmm')
    generator = np.random.default_rng(4)
    (start, transition, emission), _, _ = draw(4, 5, 7)
    sequences = [generator.integers(0, 7, length) for length in (30, 1, 200, 77, 1500)]
    lengths, joined = list(map(len, sequences)), np.concatenate(sequences)[:, None]
    peer = hmmlearn.CategoricalHMM(5, n_iter=10, tol=-1e9, init_params='', n_features=7)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = start, transition, emission
    model = HMM(start, transition, emission)
    assert model.log_likelihood(sequences).sum() == pytest.approx(peer.score(joined, lengths), abs=1e-6)
    score, path = peer.decode(joined, lengths)
    best = model.viterbi(sequences)
    assert sum(value for _, value in best) == pytest.approx(score, abs=1e-6)
    parts = np.split(path, np.cumsum(lengths)[:-1])
    for (states, value), other, sequence in zip(best, parts, sequences):
        # Several paths can have the highest score. So check that both paths have this score.
        for chain in (states, other):
            parts = np.log(transition[chain[:-1], chain[1:]]).sum() + np.log(emission[chain, sequence]).sum()
            assert np.log(start[chain[0]]) + parts == pytest.approx(value, abs=1e-9)
        assert (states == other).mean() > 0.95
    fit = model.baum_welch(sequences, steps=10, tolerance=-1e9)
    peer.fit(joined, lengths)
    assert len(fit.history) == 11 and fit.history[9] == pytest.approx(peer.monitor_.history[-1], abs=1e-6)
    assert np.exp(model.log_start) == pytest.approx(peer.startprob_, abs=1e-6)
    assert np.exp(model.log_transition) == pytest.approx(peer.transmat_, abs=1e-6)
    assert np.exp(model.log_emission) == pytest.approx(peer.emissionprob_, abs=1e-6)


@pytest.mark.slow
def test_hmm_learning_never_falls_and_says_how_it_ended():
    arrays, _, _ = draw(5)
    source = HMM(*arrays)
    sequences = [source.sample(60, seed)[1] for seed in range(20)]
    model = HMM()
    fit = model.baum_welch(sequences, states=3, starts=3, steps=200, tolerance=0.01)
    assert fit.converged and len(fit.histories) == 3
    assert fit.history[-1] == max(history[-1] for history in fit.histories)
    for history in fit.histories:
        assert (np.diff(history) > -1e-8).all()
    assert model.log_likelihood(sequences).sum() == pytest.approx(fit.history[-1], abs=0.02)
    assert fit.history[-1] > source.log_likelihood(sequences).sum() - 5
    short = HMM().baum_welch(sequences, states=3, steps=2, starts=1)
    assert not short.converged and len(short.history) == 3


@pytest.mark.slow
def test_hmm_samples_are_of_the_model():
    arrays, _, _ = draw(6)
    few, again = (HMM(*arrays).sample(1000, seed=1) for _ in range(2))
    assert (few[0] == again[0]).all() and (few[1] == again[1]).all()
    states, observations = HMM(*arrays).sample(200000, seed=1)
    for state in range(3):
        following = np.bincount(states[1:][states[:-1] == state], minlength=3)
        assert following / following.sum() == pytest.approx(arrays[1][state], abs=0.01)
        seen = np.bincount(observations[states == state], minlength=4)
        assert seen / seen.sum() == pytest.approx(arrays[2][state], abs=0.01)


def test_hmm_words_are_counted():
    sentences, tags = [['the', 'old', 'man', 'the', 'boat'], ['the', 'boat'], []], [list('DNVDN'), list('DN'), []]
    model = HMM().fit(sentences, tags, add=1e-6)
    assert model.states == ['D', 'N', 'V']
    assert np.exp(model.log_start) == pytest.approx([1, 0, 0], abs=1e-5)
    # After N comes V once and the end of a sentence twice.
    assert np.exp(model.log_transition[1]) == pytest.approx([0, 0, 1 / 3], abs=1e-5)
    assert np.exp(model.log_end) == pytest.approx([0, 2 / 3, 0], abs=1e-5)
    # N has boat twice and old once. One token of three is a word that occurs once, so unknown words get a third.
    columns = np.exp(model.log_emission[1])[model.words.columns(['boat', 'old', 'the'])]
    assert columns == pytest.approx([2 / 3 * 2 / 3, 1 / 3 * 2 / 3, 0], abs=1e-5)
    assert np.exp(model.log_emission).sum(1) == pytest.approx(np.ones(3))
    assert model.viterbi(['the', 'boat'])[0] == ['D', 'N']
    assert [path for path, _ in model.viterbi([['the', 'boat'], ['the', 'cold', 'man', 'the', 'goat']])] == [
        ['D', 'N'], ['D', 'N', 'V', 'D', 'N']]                   # unknown words are tagged by shape and context
    assert HMM().fit(sentences, tags, states=['V', 'N', 'D']).viterbi(['the', 'boat'])[0] == ['D', 'N']


def test_hmm_shapes():
    assert [shape_of(word) for word in ('1990', 'A4', '...', 'NATO', 'Lisbon', 'walked', 'iPod', 'x', '中')] == [
        'digits', 'letters and digits', 'neither', 'capitals', 'capital on', 'small ed', 'other', 'one letter',
        'one letter']


@pytest.mark.slow
def test_hmm_segmentation_is_jiebas():
    finalseg = pytest.importorskip('jieba.finalseg')
    if not SEGMENTS.exists():
        pytest.skip('the corpus is not here')
    sentences = [''.join(sentence.tokens) for part in ('train', 'test')
                 for sentence in read_corpus(SEGMENTS.with_name(f'{part}.tsv'))][:1000]
    model = from_jieba(finalseg)
    blocks = [block for sentence in sentences for block in re.findall('([\u4E00-\u9FD5]+)', sentence)]
    found = model.viterbi(list(map(list, blocks)))
    assert len(blocks) > 1000
    for block, (path, _) in zip(blocks, found):
        _, expected = finalseg.viterbi(block, 'BMES', finalseg.start_P, finalseg.trans_P, finalseg.emit_P)
        assert path == expected


def from_jieba(finalseg):
    """The model of jieba: its words are characters; the last column of its emissions is for unknown characters."""
    # In this order, because among equal paths jieba takes the last letter, and HMM the first state.
    letters = 'SMEB'
    least = finalseg.MIN_FLOAT
    columns = {character: number for number, character in enumerate(sorted(set().union(*finalseg.emit_P.values())))}
    emission = np.full((4, len(columns) + 1), least)
    for state, letter in enumerate(letters):
        for character, value in finalseg.emit_P[letter].items():
            emission[state, columns[character]] = value
    transition = np.array([[finalseg.trans_P[before].get(after, -np.inf) for after in letters] for before in letters])
    start = [finalseg.start_P[letter] for letter in letters]
    end = [0.0 if letter in 'ES' else -np.inf for letter in letters]
    model = HMM(start, transition, emission, end, log=True)
    model.states, model.words = list(letters), Words(columns, [])
    return model


@pytest.mark.parametrize('arrays,message', [
    (([[.5, .5]], np.eye(2), np.eye(2)), r'start must be \(states,\), got shape \(1, 2\)'),
    (([.5, .5], np.eye(3), np.eye(2)), r'transition must have the shape \(2, 2\) for start of 2 states, got \(3, 3\)'),
    (([.5, .5], np.eye(2), np.eye(3)), r'emission must have the shape \(2, 3\) for start'),
    (([.5, .6], np.eye(2), np.eye(2)), 'start must add up to 1, got 1.1'),
    (([.5, .5], [[1, 0], [.5, .4]], np.eye(2)), 'transition must add up to 1 in each row, got 0.9'),
    (([1.5, -.5], np.eye(2), np.eye(2)), 'start must contain probabilities, got -0.5'),
    (([np.nan, 1], np.eye(2), np.eye(2)), 'start must contain probabilities, got nan')])
def test_hmm_arrays_that_are_no_model(arrays, message):
    with pytest.raises(ValueError, match=message):
        HMM(*arrays)


@pytest.mark.parametrize('call,message', [
    (lambda: HMM().viterbi([0]), 'the model is empty'),
    (lambda: HMM(*BOXES).viterbi([0, 2]), 'sequence 0 must contain symbols from 0 to 1, got 2 at position 1'),
    (lambda: HMM(*BOXES).log_likelihood([[0], [0.5]]), 'sequence 1 must be a list of symbols'),
    (lambda: HMM().fit([['a']], [['X', 'Y']]), 'sentence 0 must have a tag for each token'),
    (lambda: HMM().fit([['a']], []), 'tags must contain a list for each sentence'),
    (lambda: HMM().fit([[]], [[]]), 'sentences must contain at least one token, got none'),
    (lambda: HMM().fit([['a']], [['X']], add=-1), 'add must be at least 0, got -1'),
    (lambda: HMM().fit_sets([['a']], [np.ones((1, 2), bool)], ['X', 'Y'], add=0), 'add must be above 0, got 0'),
    (lambda: HMM().fit([['a']], [['X']], add=0, states=['X', 'Y']),
     "add=0 leaves the probabilities of state 'Y' undefined, because no token has this tag; omit it from states"),
    (lambda: HMM().fit([['a']], [['X']], states=['Y']), "states must contain all tags, got none for 'X'"),
    (lambda: HMM().baum_welch([[0, 1]]), 'states must be at least 1'),
    (lambda: HMM().baum_welch([[]], 2), 'observations must contain a symbol'),
    (lambda: HMM().baum_welch([0, -1], 2), 'sequence 0 must contain symbols from 0, got -1 at position 1'),
    (lambda: HMM(*BOXES).baum_welch([[0]], 5), 'states must be 3 as in the arrays'),
    (lambda: HMM([1., 0], np.eye(2), np.eye(2)).baum_welch([0, 1]), 'sequence 0 is impossible in the model')])
def test_hmm_what_a_model_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
