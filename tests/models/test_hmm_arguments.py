"""Invalid arguments of the hidden Markov model: the error has one line, and the model does not change."""

import resource
import traceback
from pathlib import Path

import ms_crf
from ms_crf import HMM

import numpy as np
import pytest

PACKAGE = str(Path(ms_crf.__file__).parent)
ARRAYS = ([.2, .3, .5], [[.5, .2, .3], [.3, .5, .2], [.2, .3, .5]], [[.5, .5], [.4, .6], [.7, .3]])
BLOCKED = ([1., 0], np.eye(2), np.eye(2))        # can only emit the symbol 0
NAN, GREAT = float('nan'), 10 ** 12
NO_SEQUENCES = [
    None, 5, 1.5, True, 'ab', b'ab', {}, {'a': [0]}, {0, 1}, object(), len, np.int64(1), np.array(1), np.array('a'),
    [None], [NAN], [1.0], ['a'], [b'a'], [object()], [True], [-1], [2], [10 ** 30], [2 ** 63], [[0], 1], [0, [1]],
    [[0], None], [[0, [1]]], [[[0]], [[1]]], [[0], 'ab'], [[0], ['a']], [[[0], [0, 1]]], [[0], {}], [[0], [NAN]],
    np.zeros((2, 2, 2), int), np.array([0, 'a'], object), np.array([[0.5]]), np.array(['a', 'b']), [np.array(0), [1]],
    ('a', 'b'), [(0, 7)], 1 + 2j, [1 + 2j],
    np.array(['2020-01-01'], 'M8[D]')]


def refused(call):
    """Returns the message of the error, which must be one line and raised by ms_crf itself."""
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    text = str(raised.value)
    assert len(text.splitlines()) == 1 and len(text) < 300, text
    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename.startswith(PACKAGE), text
    return text


def words():
    return HMM().fit([['the', 'boat'], ['a', 'boat']], [['D', 'N'], ['D', 'N']])


@pytest.mark.parametrize('method', ['log_likelihood', 'forward', 'backward', 'posteriors', 'viterbi', 'log_prob',
                                    'baum_welch'])
@pytest.mark.parametrize('number', range(len(NO_SEQUENCES)))
def test_hmm_arguments_what_is_no_sequence(method, number):
    value = NO_SEQUENCES[number]
    if method == 'log_prob' and isinstance(value, list) and value == [2]:
        return                                   # 2 is a valid state, but not a valid symbol
    model = HMM(*ARRAYS)
    before = model.log_transition.copy()
    refused(lambda: getattr(model, method)(value))
    assert (model.log_transition == before).all()
    if method == 'baum_welch' and not (isinstance(value, list) and value in ([2], [(0, 7)])):
        refused(lambda: HMM().baum_welch(value, 2, steps=1, starts=1))


@pytest.mark.parametrize('value', [
    None, 5, 'ab', {}, [1], [['the'], 5], [['the'], 'boat'], [['the', 5]], ['the', 5], [None], [['the', None]],
    np.array(['the', 1], object), [[['the']]], np.array([1, 2])])
def test_hmm_arguments_what_are_no_words(value):
    for method in ('log_likelihood', 'posteriors', 'viterbi'):
        refused(lambda method=method: getattr(words(), method)(value))
    refused(lambda: words().log_prob(value))


def test_hmm_arguments_sequences_of_other_kinds_are_the_same():
    model, rows = HMM(*ARRAYS), [[0, 1, 1], [1], []]
    expected = model.log_likelihood(rows).tolist()
    for given in (tuple(rows), iter(rows), (iter(row) for row in rows), [np.array(row, np.uint8) for row in rows],
                  [list(map(np.int64, row)) for row in rows], [range(0), [1]][::-1] and [(0, 1, 1), (1,), range(0)]):
        assert model.log_likelihood(given).tolist() == expected
    assert model.log_likelihood(np.array([[0, 1], [1, 1]])).shape == (2,)
    assert model.log_likelihood(iter([0, 1, 1])) == expected[0] and model.log_likelihood([]) == 0.0
    assert words().viterbi(np.array(['the', 'boat']))[0] == words().viterbi(iter(['the', 'boat']))[0] == ['D', 'N']
    assert words().viterbi([]) == [] and model.viterbi([])[1] == 0.0


def test_hmm_arguments_sequences_of_one_symbol():
    model = HMM(*ARRAYS)
    joint = np.array(ARRAYS[0]) * np.array(ARRAYS[2])[:, 1]
    for given in ([1], [[1]], [[1], [1]], [[1], []]):
        found = model.posteriors(given)
        single, pairs = found if given == [1] else found[0]
        assert single == pytest.approx(joint[None] / joint.sum()) and pairs.shape == (0, 3, 3)
    history = HMM(*ARRAYS).baum_welch([[1], [0]], steps=2).history
    assert history[0] == pytest.approx(np.log(joint.sum()) + np.log(np.dot(ARRAYS[0], np.array(ARRAYS[2])[:, 0])))


@pytest.mark.slow
def test_hmm_arguments_pairs_only_where_they_are_asked_for():
    """Without `pairs`, posteriors need no memory for pairs: 2.6 GB for 400 states and 2,000 positions."""
    generator = np.random.default_rng(0)
    model = HMM(*(generator.dirichlet(np.ones(width), count) if count > 1 else generator.dirichlet(np.ones(width))
                  for width, count in ((400, 1), (400, 400), (5, 400))))
    rows = [generator.integers(0, 5, length) for length in (1000, 1000, 40)]
    alone = model.posteriors(rows[2], pairs=False)
    assert (alone == model.posteriors(rows[2])[0]).all()
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), before[1]))
    try:
        found = model.posteriors(rows, pairs=False)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert [row.shape for row in found] == [(1000, 400), (1000, 400), (40, 400)]
    assert found[2] == pytest.approx(alone, abs=1e-12)


def test_hmm_arguments_what_can_not_be_has_no_posteriors():
    model = HMM(*BLOCKED)
    assert model.log_likelihood([[0, 0], [0, 1]]).tolist() == [0.0, -np.inf]
    assert model.viterbi([0, 1])[1] == -np.inf and model.log_prob([0, 1]) == -np.inf
    for pairs in (False, True):
        assert refused(lambda pairs=pairs: model.posteriors([[0, 0], [0, 1, 1], []], pairs=pairs)) == (
            'sequence 1 is impossible in the model')
    least = np.finfo(np.float64).min             # often used as the logarithm of 0; the sum of two is -inf
    lowest = HMM([0, least], [[0, least], [least, 0]], [[0, least], [least, 0]], log=True)
    assert lowest.log_likelihood([[0, 0], [0, 1]]).tolist() == [0.0, least]
    assert lowest.log_likelihood([0, 1, 0, 1]) == lowest.viterbi([0, 1, 0, 1])[1] == -np.inf
    assert lowest.baum_welch([0, 0], steps=1).history[0] == 0.0
    states, observations = lowest.sample(3)
    assert states.tolist() == observations.tolist() == [0, 0, 0]


def test_hmm_arguments_states_that_the_model_does_not_have():
    assert refused(lambda: words().log_prob(['D', 'X'])) == (
        "sequence 0 must contain states of the model, got 'X' at position 1")
    assert refused(lambda: HMM(*ARRAYS).log_prob([[0], [1, 3]])) == (
        'sequence 1 must contain states from 0 to 2, got 3 at position 1')
    assert words().log_prob(['D', 'N']) > words().log_prob(['N', 'D'])


@pytest.mark.parametrize('arrays', [
    (None, [[1.]], [[1.]]), ([1.], None, [[1.]]), ([1.], [[1.]], None), (None, None, None, [1.]),
    ('ab', [[1.]], [[1.]]),
    (['a'], [[1.]], [[1.]]), ([1.], [[1.], [1., 2.]], [[1.]]), ([[1.], [1., 2.]], [[1.]], [[1.]]),
    ([1j], [[1.]], [[1.]]), ([None], [[1.]], [[1.]]), ({}, [[1.]], [[1.]]), ([1.], [[1.]], [[]]),
    ([1.], [[1.]], [[1.]], 'a'), ([1.], [[1.]], [[1.]], [NAN]), ([1.], [[1.]], [[1.]], [-1.]), ([], [], []),
    ([1.], [[1.]], [[10 ** 400]]), ([1.], [[1.]], [[1.]], None, 'yes'), ([NAN], [[0.]], [[0.]], None, True),
    ([np.inf], [[0.]], [[0.]], None, True), ([1.], [[1.]], [[1.]], [np.inf])])
def test_hmm_arguments_arrays_of_other_kinds(arrays):
    refused(lambda: HMM(*arrays))


@pytest.mark.parametrize('options', [
    {'states': 0}, {'states': -1}, {'states': 2.0}, {'states': '2'}, {'states': True}, {'states': 10 ** 6},
    {'states': 10 ** 30}, {'states': [2]}, {'symbols': 0}, {'symbols': 1}, {'symbols': 2.5}, {'symbols': 10 ** 12},
    {'steps': -1}, {'steps': 1.0}, {'steps': None}, {'tolerance': NAN}, {'tolerance': 'x'}, {'tolerance': None},
    {'starts': 0}, {'starts': -1}, {'starts': 1.5}, {'seed': -1}, {'seed': 'x'}, {'seed': 1.5}])
def test_hmm_arguments_how_not_to_learn(options):
    model = HMM()
    text = refused(lambda: model.baum_welch([0, 1, 1], **{'states': 2, 'steps': 1, 'starts': 1, **options}))
    assert next(iter(options)) in text and model.log_start is None


def test_hmm_arguments_symbols_with_gaps():
    text = refused(lambda: HMM().baum_welch([[0, 1], [10 ** 9, 3]], 300))
    assert text.startswith('a model of 300 states and 1,000,000,001 symbols needs at least 9,600 GB of memory, and ')
    assert text.endswith('; number the symbols from 0 without gaps, or take fewer states')
    assert refused(lambda: HMM(*ARRAYS).baum_welch([0, 1], symbols=9)) == (
        'symbols must be 2 as in the arrays, or None, got 9')
    assert refused(lambda: HMM(*ARRAYS).posteriors(np.broadcast_to(np.int64(0), (GREAT,)))).startswith(
        'an array of 3 x 3 pairs at 999,999,999,999 positions needs at least 71,999 GB of memory')


@pytest.mark.parametrize('given,tags,options', [
    ('ab', 'XY', {}), (['ab'], [['X', 'Y']], {}), ([['a', 'b']], ['XY'], {}), (None, [['X']], {}), ([['a']], None, {}),
    (5, 5, {}), ([5], [5], {}), ([[5]], [['X']], {}), ([['a'], [None]], [['X'], ['X']], {}), ([['a']], [[['X']]], {}),
    ([['a', 'b']], [['X', None]], {}), ([['a', 'b']], [['X', 1]], {}), ([['a']], [[NAN]], {}), ([], [], {}),
    ([['a']], [['X']], {'add': NAN}), ([['a']], [['X']], {'add': '1'}), ([['a']], [['X']], {'add': None}),
    ([['a']], [['X']], {'add': -1}), ([['a']], [['X']], {'add': np.inf}), ([['a']], [['X']], {'add': 1e308}),
    ([['a', 'b']], [['X', 'Y']], {'add': 5e-324}), ([['a']], [['X']], {'add': [1]}),
    ([['a']], [['X']], {'add': 10 ** 400}), ([['a']], [['X']], {'states': 5}), ([['a']], [['X']], {'states': 'X'}),
    ([['a']], [['X']], {'states': ['X', 'X']}), ([['a']], [['X']], {'states': [['X']]}),
    ([['a']], [['X']], {'states': []}), ({'a': 1}, {'X': 1}, {})])
def test_hmm_arguments_what_can_not_be_counted(given, tags, options):
    model = words()
    before = model.log_emission
    refused(lambda: model.fit(given, tags, **options))
    assert model.states == ['D', 'N'] and model.log_emission is before


def test_hmm_arguments_what_can_be_counted_comes_from_anywhere():
    sentences, tags = [['the', 'boat'], ['a', 'boat']], [['D', 'N'], ['D', 'N']]
    model = HMM().fit((iter(row) for row in sentences), (iter(row) for row in tags), np.float32(0.1))
    assert model.viterbi(['the', 'boat'])[0] == ['D', 'N']
    assert HMM().fit(tuple(map(np.array, sentences)), tags).log_emission.shape == words().log_emission.shape
    pairs = HMM().fit(sentences, [[(0, 1), (1, 2)], [(0, 1), (1, 2)]])
    assert pairs.viterbi(['the', 'boat'])[0] == [(0, 1), (1, 2)]


@pytest.mark.parametrize('length,seed', [(-1, 0), (1.0, 0), ('3', 0), (None, 0), (True, 0), (GREAT, 0), (10 ** 30, 0),
                                         (3, -1), (3, 'x'), (3, 0.5)])
def test_hmm_arguments_how_not_to_sample(length, seed):
    refused(lambda: HMM(*ARRAYS).sample(length, seed))


def test_hmm_arguments_samples_of_odd_models():
    assert [len(part) for part in HMM(*ARRAYS).sample(0)] == [0, 0]
    assert len(HMM(*ARRAYS).sample(np.int64(3), None)[0]) == 3
    dead = HMM([0.0, -np.inf], [[-np.inf] * 2, [0.0, 0.0]], np.log([[.5, .5], [.5, .5]]), log=True)
    assert len(dead.sample(1)[0]) == 1
    refused(lambda: dead.sample(2))
    refused(lambda: HMM([0.0], [[0.0]], [[-np.inf]], log=True).sample(1))
    scaled = HMM([1000.0], [[1000.0]], [[-1000.0, -1000.0]], log=True)
    assert set(scaled.sample(50)[1].tolist()) == {0, 1}
