"""N-gram vectors: learning them from word vectors, and composing vectors of out-of-vocabulary words."""

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError
from ms_crf.cli import train
from ms_crf.models.words import ngrams
from ms_crf.models.words.batches import EncodedWords
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.models.words.ngrams import MOST, NgramIndex, composed, has_letters, learn, ngrams_of
from ms_crf.models.words.vocabulary import UNKNOWN, Vocabulary
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun

import mindspore as ms
import numpy as np
import pytest

from support.runs import make_run, write_tensors


def test_ngrams_of_a_word():
    assert ngrams_of('Ab') == ['<ab', '<ab>', 'ab>']
    assert ngrams_of('Anna') == ['<an', '<ann', '<anna', 'ann', 'anna', 'anna>', 'nna', 'nna>', 'na>']
    assert ngrams_of('aaaaaa') == ['<aa', '<aaa', '<aaaa', 'aaa', 'aaaa', 'aaaaa', 'aaaa>', 'aaa>', 'aa>']
    assert ngrams_of('') == [] and ngrams_of('x') == ['<x>']
    assert len(ngrams_of('abcdefghijklmnopqrstuvwxyz' * 40)) == MOST
    assert [has_letters(word) for word in ('1943', '#1a', '...', '', 'é')] == [False, True, False, False, True]


@pytest.mark.slow
def test_ngrams_are_found_for_many_words_at_once():
    """`NgramIndex` finds the same n-grams as a dictionary that is searched word by word.

    The words have all lengths, repeated n-grams, and characters of all Unicode planes.
    """
    rng = np.random.default_rng(0)
    letters = list('aabcdE') + ['é', '語', '\U0001f600', '\ud800', '\0', '\u0130']      # the last is two in lower case
    words = [''.join(rng.choice(letters[:rng.integers(1, 13)], rng.integers(0, 60))) for _ in range(3000)]
    words += ['', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaab', 'abcdéabcdéabcdéabcdéabcdé', 'x' * 100]
    parts = list(dict.fromkeys(part for word in words for part in ngrams_of(word)))
    for known in (parts[::3], [part for part in parts if len(part) == 5][::2], ['a', 'ab', 'aabcda', 'b\0', 'zzz']):
        ids = dict(zip(known, range(1, 1 + len(known))))
        found = NgramIndex(known).find(words)
        assert found.shape == (len(words), MOST) and found.dtype == np.int32
        for word, row in zip(words, found.tolist()):
            expected = [ids[part] for part in ngrams_of(word) if part in ids]
            assert row == expected + [0] * (MOST - len(expected))
    assert not NgramIndex([]).find(words).any() and NgramIndex(parts).find([]).shape == (0, MOST)


def words_of_towns(count, seed=0):
    """Vectors of words in 'ville' near one vector and of words in 'ing' near another, and these two vectors."""
    rng = np.random.default_rng(seed)
    towns, verbs = rng.normal(size=(2, 7))
    vectors = {}
    for _ in range(count):
        stem = ''.join(rng.choice(list('bcdfgklmnprst'), 4))
        vectors[stem + 'ville'] = towns + rng.normal(0, 0.1, 7)
        vectors[stem[::-1] + 'ing'] = verbs + rng.normal(0, 0.1, 7)
    return vectors, towns, verbs


def dense(vectors):
    """The n-grams of the least-squares problem, one for each column of X, and X and Y in float64."""
    words = [word for word in vectors if any(letter.isalpha() for letter in word)]
    parts = [{f'<{word.lower()}>'[start:start + size] for start in range(len(word) + 2) for size in (3, 4, 5)
              if start + size <= len(word) + 2} for word in words]
    every = sorted({part for some in parts for part in some})
    often = [part for part in every if sum(part in some for some in parts) >= 3]
    found = [(word, some & {*often}) for word, some in zip(words, parts) if some & {*often}]
    X = np.array([[(part in some) / len(some) ** 0.5 for part in often] for _, some in found])
    Y = np.array([vectors[word] for word, _ in found], np.float64)
    return often, X, Y - Y.mean(0)


def test_ngrams_learned_is_the_ridge_regression(monkeypatch):
    """After many steps the vectors solve the normal equations; after the default number they are close."""
    vectors, _, _ = words_of_towns(40)
    vectors = {**vectors, '1984': np.full(7, 50.0), 'zzz': np.full(7, 3.0)}     # without letters; with rare n-grams
    often, X, Y = dense(vectors)
    expected = np.linalg.solve(X.T @ X + np.eye(len(often)), X.T @ Y)
    monkeypatch.setattr(ngrams, 'COLUMNS', 3)
    for steps, most in ((100, 1e-4), (ngrams.STEPS, 0.05)):
        monkeypatch.setattr(ngrams, 'STEPS', steps)
        done = []
        found, table = learn(vectors, done.append)
        assert done == [3, 3, 1]
        assert sorted(found) == often and table.dtype == np.float32 and not table[0].any()
        order = [1 + found.index(part) for part in often]
        assert np.abs(table[order] - expected).max() < most * np.abs(expected).max()


def test_ngrams_words_get_vectors_like_those_with_the_same_parts():
    vectors, towns, verbs = words_of_towns(100)
    found, table = learn(vectors)
    vocabulary = Vocabulary([], [], ['O'], 16, ngrams=found)
    made, known = composed(table, vocabulary.ngram_ids(['Kojimaville', '#kojiming', '1943', 'x' * 70]))
    assert known.tolist() == [True, True, False, False] and not made[2:].any()
    mean = (towns + verbs) / 2
    assert np.linalg.norm(made[0] - (towns - mean)) < 0.5 * np.linalg.norm(towns - mean)
    assert np.linalg.norm(made[1] - (verbs - mean)) < 0.5 * np.linalg.norm(verbs - mean)


@pytest.mark.parametrize('vectors', [{}, {'1': np.ones(2), '2': np.ones(2)}, {'ab': np.ones(2), 'cd': np.ones(2)}])
def test_ngrams_nothing_to_learn_from(vectors):
    found, table = learn(vectors)
    assert found == [] and table.shape == (1, 2 if vectors else 0)


def test_ngrams_where_nothing_is_left_to_learn():
    """If all word vectors are the same, the n-gram vectors are 0, because they add nothing to the mean."""
    found, table = learn({f'{letter}ville': np.ones(3) for letter in 'abcd'})
    assert 'ville' in found and not table.any()


def test_ngrams_words_of_training_begin_with_what_their_ngrams_make():
    """New words begin with their vector, or the sum of their n-gram vectors divided by the root of their number.

    Words without both begin with the same random vector as in a vocabulary without n-grams.
    """
    vectors = {'apple': np.ones(2, np.float32)}
    names = Vocabulary.of([['Apple', 'grapple', '1984']], [], ['O'], vectors, 8, ngrams=['ppl', 'ple>', 'xyz'])
    table = np.array([[0, 0], [1, 2], [3, 4], [9, 9]], np.float32)
    rows, before = (names.initial_rows(vectors, 2, np.random.default_rng(0), each) for each in (table, None))
    ids = [names.word_id(word) for word in ('Apple', 'grapple', '1984')]
    assert rows[ids[:2]].tolist() == [[1, 1], pytest.approx((table[1] + table[2]) / 2 ** 0.5)]
    assert (rows[ids[2]] == before[ids[2]]).all() and (rows[ids[1]] != before[ids[1]]).all()
    assert Vocabulary.from_json(names.to_json()).to_json() == names.to_json()
    grown = Vocabulary.of([['new']], [], ['O'], {}, 8, before=names)
    assert grown.ngrams == names.ngrams


@pytest.mark.parametrize('bigrams', [False, True])
@pytest.mark.parametrize('compiled', [False, True])
def test_ngrams_forms_in_the_graph(compiled, bigrams):
    """`form_vectors` composes only the vectors of the given forms that have n-grams, as computed in NumPy.

    With bigrams, only the part of the word changes.
    """
    network = TaggerNetwork(9, 4, 3, 6, 1, 'none', columns=3 if bigrams else 1, num_ngrams=5)
    table = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    table[0] = 0
    network.ngram_table.set_data(ms.Tensor(table))
    assert 'ngram_table' not in {parameter.name for parameter in network.trainable_params()}
    words = np.array([2, UNKNOWN, 3, UNKNOWN, UNKNOWN], np.int32)
    ids = np.stack((words, words + 3, words + 4), 1) if bigrams else words
    places, parts = np.array([1, 4, 0, 0], np.int32), np.array([[5, 2, 0], [1, 0, 0], [0] * 3, [0] * 3], np.int32)
    call = ms.jit(network.form_vectors) if compiled else network.form_vectors
    found = call(ms.Tensor(ids), None, ms.Tensor(places), ms.Tensor(parts)).asnumpy()
    rows = network.word_table.asnumpy()
    expected = rows[ids].reshape(5, -1).copy()
    expected[1, :4], expected[4, :4] = (table[5] + table[2]) / 2 ** 0.5, table[1]
    assert found == pytest.approx(expected, abs=1e-6)


def test_ngrams_forms_that_are_composed():
    names = Vocabulary(['known'], list('known'), ['O'], 8, ngrams=['<ab', 'abc'])
    encoded = EncodedWords([['known', 'abc', 'xyz'], ['ABD', 'abc']], names)
    assert encoded.composed.tolist() == [1, 3]                   # the distinct forms are known, abc, xyz, ABD
    assert encoded.ngrams_of[:, :3].tolist() == [[1, 2, 0], [1, 0, 0]]
    places, ids = encoded.ngrams(np.array([2, 3, 0]))
    assert places.tolist() == [1] and ids[:, :2].tolist() == [[1, 0]]
    places, ids = encoded.ngrams(np.array([0]))                  # at least one row, which changes nothing
    assert places.tolist() == [0] and not ids.any()
    places, ids = encoded.ngrams(np.array([1, 3]), 4)
    assert places.tolist() == [0, 1, 0, 0] and ids[:, 0].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize('change,message', [
    (None, 'ngrams.ckpt: no such file'),
    (lambda data: data[:-7], 'ngrams.ckpt: expected the file that training wrote, got an edited or damaged one')])
def test_ngrams_a_damaged_table(tmp_path, change, message):
    file = make_run(tmp_path / 'run', ngrams=True, embeddings='v.txt') / 'ngrams.ckpt'
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    with pytest.raises(CorpusError, match=message):
        Tagger.load(tmp_path / 'run')


def test_ngrams_a_table_of_another_size(tmp_path):
    run = make_run(tmp_path / 'run', ngrams=True, embeddings='v.txt')
    write_tensors(run / 'ngrams.ckpt', {'ngram_table': np.zeros((2, 6), np.float32)})
    with pytest.raises(CorpusError, match=r'expected ngram_table of shape \(11, 6\), got \(2, 6\)'):
        Tagger.load(run)


@pytest.mark.slow
def test_ngrams_earlier_runs_have_none(tmp_path):
    run = make_run(tmp_path / 'run')
    config = SavedRun.open(run).config
    del config['options']['ngrams'], config['options']['balance']
    config['options']['embeddings'] = 'v.txt'
    records.write_json(run / 'config.json', config)
    options = SavedRun.open(run).options
    assert (options.ngrams, options.balance) == (False, False)
    assert Tagger.load(run).tag([['unknown']])


@pytest.mark.parametrize('given,why', [([], 'without --embeddings'), (['--encoder', 'x'], 'with --encoder')])
def test_ngrams_an_option_of_word_vectors(given, why, capfd):
    assert train.main(['--ngrams', *given]) == 2
    assert f'--ngrams has no effect {why}' in capfd.readouterr().err
