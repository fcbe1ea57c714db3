"""Word vectors, vocabularies, batches, learning rates, and corpora in a tag scheme."""

import gzip
import itertools
from functools import partial

from ms_crf.base.errors import CorpusError
from ms_crf.formats.dataset import load
from ms_crf.models.bucketing import BUCKET_COST, TaggingShapes, bucket_lengths, buckets, plan
from ms_crf.models.words.batches import EncodedWords, cut_by_forms, replaced, step_arrays, word_batch, word_shapes
from ms_crf.models.words.vectors import read_vectors
from ms_crf.models.words.vocabulary import FIRST, UNKNOWN, Vocabulary
from ms_crf.text.metrics import score_in
from ms_crf.training.schedules import dropout, rate_at

import numpy as np
import pytest

VECTORS = 'the 1 2\napple 3 4\nApple 5 6\n0000 7 8\nnever 0 0\n. . 1 1\n'


def write(folder, text, name):
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith('.gz') else text.encode())
    return str(file)


@pytest.mark.parametrize('text,name', [(VECTORS, 'v.txt'), ('6 2\n' + VECTORS, 'v.vec'), (VECTORS, 'v.txt.gz'),
                                       (VECTORS.replace('\n', ' \r\n'), 'v.txt')])
def test_vectors_are_looked_up_exactly_then_in_lower_case_then_with_digits_as_0(tmp_path, text, name):
    wanted = ['The', 'Apple', 'APPLE', '1984', 'odd']
    vectors, width, ways, common = read_vectors(write(tmp_path, text, name), wanted, 3)
    assert width == 2
    assert ways == {'The': 'lower case', 'Apple': 'exact', 'APPLE': 'lower case', '1984': 'digits as 0'}
    assert {form: vector.tolist() for form, vector in vectors.items()} == {
        'the': [1, 2], 'apple': [3, 4], 'Apple': [5, 6], '0000': [7, 8]}
    assert {form: vector.tolist() for form, vector in common.items()} == {
        'the': [1, 2], 'apple': [3, 4], 'Apple': [5, 6]}


def test_vectors_and_batches_damaged_words_that_nobody_asked_for_are_passed_over(tmp_path):
    text = 'junk nan 1\n' + VECTORS + 'trash 1 x\n'
    found = read_vectors(write(tmp_path, text, 'v.txt'), ['apple'], 9)
    assert list(found.common) == ['the', 'apple', 'Apple', 'never'] and list(found.vectors) == ['apple']
    with pytest.raises(CorpusError, match='v.txt:1: expected finite numbers, got nan as number 1'):
        read_vectors(write(tmp_path, text, 'v.txt'), ['junk'], 9)


@pytest.mark.parametrize('text,message', [
    ('a 1 2\nb 1\n', "v.txt:2: expected 2 numbers after 'b' as in the first line, got 1"),
    ('a 1 2\nb 1 2 3\n', "v.txt:2: expected 2 numbers after 'b' as in the first line, got 3"),
    ('2 3\na 1 2\n', "v.txt:2: expected 3 numbers after 'a' as in the first line, got 2"),
    ('a 1 nan\n', "v.txt:1: expected finite numbers, got nan as number 2 of 'a'"),
    ('a 1 x\n', "v.txt:1: expected 2 numbers after 'a', got '1 x'"),
    ('a\n', "v.txt:1: expected a word and its vector, got 'a'"),
    ('', 'v.txt: expected word vectors, got an empty file'),
])
def test_vectors_and_batches_faults_of_vectors(tmp_path, text, message):
    with pytest.raises(CorpusError) as raised:
        read_vectors(write(tmp_path, text, 'v.txt'), ['a', 'b'])
    assert str(raised.value).endswith(message)


def test_vectors_and_batches_a_damaged_gzip_file(tmp_path):
    file = tmp_path / 'v.txt.gz'
    file.write_bytes(gzip.compress(VECTORS.encode() * 1000)[:60])
    with pytest.raises(CorpusError, match='expected a gzip file, got a damaged one'):
        read_vectors(str(file), ['a'])


def test_vectors_and_batches_vocabulary():
    vectors = {'apple': np.ones(2), 'pear': np.ones(2)}
    vocabulary = Vocabulary.of([['Apple', 'apple', 'xyz']], [['pear', 'plum']], ['O'], vectors, 4)
    assert vocabulary.words == ['apple', 'xyz', 'pear']
    ids = [vocabulary.word_id(word) for word in ('Apple', 'APPLE', 'xyz', 'Pear', 'plum')]
    assert ids == [2, 2, 3, 4, UNKNOWN]
    rows = vocabulary.initial_rows(vectors, 2, np.random.default_rng(0))
    assert rows.shape == (5, 2) and rows[[0, 2, 4]].tolist() == [[0, 0], [1, 1], [1, 1]]
    a, p, e = (vocabulary.characters.index(character) + 2 for character in 'ape')
    assert vocabulary.spellings(['ap', 'apxxpe', '?', '\ud800']).tolist() == [
        [a, p, 0, 0], [a, p, p, e], [UNKNOWN, 0, 0, 0], [UNKNOWN, 0, 0, 0]]
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again.to_json() == vocabulary.to_json() and again.word_id('xyz') == 3


def test_vectors_and_batches_words_without_a_vector_begin_small():
    words = [f'word{number}' for number in range(50)]
    vectors = {word: np.random.default_rng([7, number]).normal(0, 2, 40) for number, word in enumerate(words[:25])}
    vocabulary = Vocabulary.of([words], [], ['O'], vectors, 4)
    for known, spread in ((vectors, np.std(list(vectors.values())) / 4), ({}, 1 / 40 ** 0.5)):
        others = vocabulary.initial_rows(known, 40, np.random.default_rng(0))[2 + len(known):]
        assert np.std(others) == pytest.approx(spread, rel=0.1) and abs(np.mean(others)) < spread / 5


def test_vectors_and_batches_bigrams_of_a_vocabulary():
    """The vocabulary contains the bigrams that occur at least twice in training.

    The rows of bigrams follow the rows of words. The first bigram row is for unknown bigrams.
    """
    training = [['a', 'b', 'a', 'b'], ['a', 'b'], ['c']]
    vocabulary = Vocabulary.of(training, [['b', 'c', 'b', 'c']], ['O'], {}, 4, bigrams=True)
    assert vocabulary.words == ['a', 'b', 'c'] and vocabulary.bigrams == [' a', 'a b', 'b ']
    assert (vocabulary.num_words, vocabulary.num_rows) == (5, 9)
    encoded = EncodedWords([['a', 'b'], ['b', 'z']], vocabulary)
    words, _ = encoded.arrays(np.concatenate(encoded.tokens), 5)
    others = 5
    assert words.tolist() == [[2, 6, 7], [3, 7, 8], [3, others, others], [UNKNOWN, others, others], [0, 0, 0]]
    assert vocabulary.initial_rows({}, 3, np.random.default_rng(0)).shape == (9, 3)
    record = vocabulary.to_json()
    assert Vocabulary.from_json(record).to_json() == record
    before = {name: value for name, value in record.items() if name != 'bigrams'}      # as in runs without bigrams
    assert Vocabulary.from_json(before).to_json() == before


@pytest.mark.parametrize('change,message', [
    ({'words': 'x'}, '"words" to be a list of strings'), ({'bigrams': ['a', 'a']}, '"bigrams" to be distinct'),
    ({'tags': ['O', 'O']}, '"tags" to be distinct'),
    ({'char_length': 0}, '"char_length" to be at least 1, got 0'),
    ({'more': 1}, 'the keys words, characters, bigrams, ngrams')])
def test_vectors_and_batches_faults_of_vocabularies(change, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_json({'words': [], 'characters': [], 'tags': ['O'], 'char_length': 4, **change})


def padding_cost(lengths, buckets):
    return np.array(buckets)[np.searchsorted(buckets, lengths)].sum() + BUCKET_COST * len(buckets)


def test_vectors_and_batches_buckets_cost_least_of_all_choices():
    generator = np.random.default_rng(0)
    for _ in range(20):
        lengths = generator.integers(1, 60, 7).repeat(generator.integers(1, 1500, 7))
        distinct = sorted(set(lengths.tolist()))
        choices = [[*chosen, distinct[-1]] for count in range(len(distinct))
                   for chosen in itertools.combinations(distinct[:-1], count)]
        best = min(padding_cost(lengths, buckets) for buckets in choices)
        assert padding_cost(lengths, bucket_lengths(lengths)) == best


def test_vectors_and_batches_lengths_that_are_compiled_already_cost_nothing():
    lengths = np.repeat([10, 20, 30], [3000, 1, 1])
    distinct, counts = np.unique(lengths, return_counts=True)
    assert bucket_lengths(lengths) == [10, 30]
    assert buckets(distinct.tolist(), counts, BUCKET_COST, [20, 40]) == [10, 20, 40]
    assert buckets([20, 30], counts[1:], BUCKET_COST, [40]) == [40] and bucket_lengths([5]) == [5]


def test_vectors_and_batches_shapes_of_tagging_serve_all_lengths_and_stay():
    generator, shapes = np.random.default_rng(0), TaggingShapes(8)
    for lengths in (np.array([3]), generator.integers(1, 60, 500), np.array([1000, 5, 70])):
        seen = []
        for (length, rows), numbers in shapes.plan(lengths):
            assert len(numbers) <= rows <= 8 and lengths[numbers].max() <= length
            assert rows == 1 or length * rows <= 8 * 128
            seen += numbers.tolist()
        assert sorted(seen) == list(range(len(lengths)))
    assert shapes.lengths == [16, 64, 1024]
    many = np.repeat([12, 20, 60], 2000)
    for _ in range(3):
        used = [length for (length, _), _ in shapes.plan(many)]
    assert used.count(24) == 250 and shapes.lengths == [16, 24, 64, 1024]        # 24 now saves enough padding


def random_corpus(generator, count, longest):
    words = [''.join(generator.choice(list('abc'), generator.integers(1, 12))) for _ in range(300)]
    tokens = [generator.choice(words, generator.integers(1, longest)).tolist() for _ in range(count)]
    return tokens, [generator.choice(['O', 'B', 'I'], len(sentence)).tolist() for sentence in tokens]


@pytest.mark.parametrize('shuffled,bigrams', [(False, False), (True, False), (True, True)])
def test_vectors_and_batches_every_sentence_comes_back_from_its_batch(shuffled, bigrams):
    generator = np.random.default_rng(0)
    tokens, tags = random_corpus(generator, 200, 30)
    vocabulary = Vocabulary.of(tokens[:150], [], ['O', 'B', 'I'], {}, 8, bigrams)
    tokens[7] = tokens[7] * 100                                  # far longer than all other sentences
    tags[7] = tags[7] * 100
    encoded = EncodedWords(tokens, vocabulary, vocabulary.gold(tags))
    unknown = None
    if shuffled:
        unknown = replaced(generator, encoded.tokens, encoded.word_counts(), 5.0)
        assert 0 < sum(map(sum, unknown)) < sum(map(len, tokens))
    codes, seen = encoded.codes(unknown), []
    cut = partial(cut_by_forms, encoded, codes)
    for shape, numbers in plan(word_shapes(encoded, 16), encoded.lengths, cut, generator if shuffled else None):
        batch = word_batch(encoded, (shape.length, shape.rows), numbers, codes)
        words, form_words, long_spellings, short_spellings, places, lengths, ids = step_arrays(encoded, shape, batch)
        columns = 3 if bigrams else 1
        assert words.shape == (shape.forms * columns,)
        assert form_words.shape == ((shape.forms, 3) if bigrams else (shape.forms,))
        assert len(long_spellings) == shape.long_forms and len(short_spellings) == shape.short_forms
        real = words[words != 0]
        assert len(set(real.tolist())) == len(real)              # each row of the word table is written once
        for row in range(shape.rows):
            if row >= len(numbers):
                assert lengths[row] == 0
                continue
            number = numbers[row]
            assert lengths[row] == len(tokens[number])
            assert [vocabulary.tags[tag] for tag in ids[:lengths[row], row]] == tags[number]
            for position, token in enumerate(tokens[number]):
                form = places[position, row]
                word = UNKNOWN if unknown and unknown[number][position] else vocabulary.word_id(token)
                of_form = words[form_words[form]].tolist() if bigrams else [words[form_words[form]]]
                assert of_form[0] == word
                around = ['', *tokens[number], ''][position:position + 3]
                for found, pair in zip(of_form[1:], (f'{around[0]} {token}', f'{token} {around[2]}')):
                    known = pair in vocabulary.bigrams
                    assert found == vocabulary.num_words + (1 + vocabulary.bigrams.index(pair) if known else 0)
                in_long = form < shape.long_forms
                spelling = long_spellings[form] if in_long else short_spellings[form - shape.long_forms]
                read = token if len(token) <= 8 else token[:4] + token[-4:]
                letters = [FIRST + 'abc'.index(letter) for letter in read]
                assert spelling.tolist() == letters + [0] * (len(spelling) - len(letters))
                assert in_long or len(token) <= 4
        seen += numbers.tolist()
    assert sorted(seen) == list(range(200))


def test_vectors_and_batches_noise_follows_from_the_position_alone():
    first = dropout(1, 2, 3, (4, 5), [6, 7], [0.5, 0.25], True)
    again = dropout(1, 2, 3, (4, 5), [6, 7], [0.5, 0.25], True)
    assert all((a == b).all() for a, b in zip(first, again))
    assert (first[0] != dropout(1, 2, 4, (4, 5), [6, 7], [0.5, 0.25], True)[0]).any()
    assert (first[0] == first[0][:1]).all()                      # locked dropout: the same factors at all positions
    free, = dropout(1, 2, 3, (40, 50), [60], [0.25], False)
    assert (free != free[:1]).any()
    assert set(np.unique(free).tolist()) == {0.0, np.float32(1 / 0.75)} and free.mean() == pytest.approx(1, abs=0.01)


def test_vectors_and_batches_rates():
    assert rate_at('constant', 0.1, 7.5, 10) == 0.1
    assert rate_at('inverse', 0.1, 4, 10, decay=0.25) == pytest.approx(0.05)
    assert rate_at('cosine', 0.1, 1, 9, warmup=1) == pytest.approx(0.1)
    assert rate_at('cosine', 0.1, 5, 9, warmup=1) == pytest.approx(0.05)
    assert 0 < rate_at('cosine', 0.1, 0, 9, warmup=1) < 0.001 and 0 < rate_at('cosine', 0.1, 9, 9) < 0.001


def corpus(folder, **parts):
    return {part: write(folder, '\n'.join(row.replace('/', '\t') for row in text.split(' ')).replace('|', ''),
                        f'{part}.tsv') for part, text in parts.items()}


def test_vectors_and_batches_a_corpus_in_other_schemes(tmp_path):
    paths = corpus(tmp_path, train='a/I-X b/I-X c/O d/I-Y', dev='a/I-X b/B-X')
    found = load(paths)
    assert (found.file_scheme, found.scheme, found.repaired) == ('IOB1', 'BIO', [])
    assert found.tags == ['O', 'B-X', 'I-X', 'B-Y', 'I-Y']
    assert found.parts['train'][0].tags == ['B-X', 'I-X', 'O', 'B-Y'] and found.gold['dev'] == [['B-X', 'B-X']]
    found = load(paths, 'BIOES')
    assert found.parts['train'][0].tags == ['B-X', 'E-X', 'O', 'S-Y'] and found.gold['dev'] == [['B-X', 'B-X']]
    assert len(found.tags) == 9
    scored = score_in('IOB1', found.gold['dev'], [['B-X', 'E-X']], 'BIOES')
    assert scored.spans[:] == (0, 1, 2) and scored.accuracy == 0.5
    found = load(paths, for_bio='BIOES')
    assert (found.scheme, found.written, found.parts['train'][0].tags) == ('BIOES', 'BIO', ['B-X', 'E-X', 'O', 'S-Y'])
    assert found.gold['dev'] == [['B-X', 'B-X']]
    for scheme, row, text in (('auto', 'B M E S', 'a/B b/M c/E d/S'), ('BIO', 'B-X I-X', 'a/B-X b/I-X'),
                              ('auto', 'P Q', 'a/P b/Q')):
        found = load(corpus(tmp_path, train=text, dev=text), scheme, for_bio='BIOES')
        assert found.scheme == found.written != 'BIOES' and found.parts['train'][0].tags == row.split()


def test_vectors_and_batches_ill_formed_tags_are_told(tmp_path):
    paths = corpus(tmp_path, train='a/B-X b/O  c/O d/I-X', dev='a/B-X')
    found = load(paths)
    assert found.repaired == [(paths['train'], 1, 4)]
    assert found.parts['train'][1].tags == ['O', 'B-X']


def test_vectors_and_batches_words_and_plain_tags(tmp_path):
    found = load(corpus(tmp_path, train='a/B b/M c/E d/S', dev='a/S'))
    assert (found.scheme, found.tags) == ('BMES', ['B', 'M', 'E', 'S'])
    found = load(corpus(tmp_path, train='a/NOUN b/VERB', dev='a/VERB'))
    assert (found.scheme, found.tags) == ('plain', ['NOUN', 'VERB'])


@pytest.mark.parametrize('train,dev,scheme,line,tag,counts', [
    ('a/B-X', 'a/O  c/O b/B-Y c/I-Y d/B-X b/B-Z', 'auto', 4, 'B-Y', {'Y': 2, 'Z': 1}),
    ('a/NOUN', 'a/NOUN b/VERB c/VERB', 'auto', 2, 'VERB', {'VERB': 2}),
    ('a/NOUN', 'a/O b/NOUN', 'auto', 1, 'O', {'O': 1}),
    ('a/B b/M c/E', 'a/S b/O', 'auto', 2, 'O', {'O': 1}),
    ('a/S-X', 'a/O b/B-X c/E-X', 'BMES', 1, 'O', {'O': 1}),
    ('a/S-X', 'a/O b/B-X c/E-X', 'BIO', None, None, None),       # a BIO model always has the tag O
    ('a/B-X', 'a/B b/I', 'auto', 1, 'B', {'B': 1, 'I': 1}),
    ('a/O', 'a/I-X b/B-X', 'auto', 1, 'I-X', {'X': 2}),
])
def test_vectors_and_batches_tags_that_train_lacks_are_counted(tmp_path, train, dev, scheme, line, tag, counts):
    paths = corpus(tmp_path, train=train, dev=dev, test=train)
    found = load(paths, scheme)
    assert found.unknown == ([] if line is None else [(paths['dev'], line, tag, counts)])


@pytest.mark.parametrize('train,dev,scheme,message', [
    ('a/B-X b/NOUN', 'a/O', 'auto', "train.tsv:2: expected 'O' or one of B, I, E, M, S with a type like 'B-X'"),
    ('a/NOUN', 'a/NOUN', 'BIO', 'train.tsv: expected tags of spans for the scheme BIO, got plain tags'),
])
def test_vectors_and_batches_faults_of_corpora(tmp_path, train, dev, scheme, message):
    paths = corpus(tmp_path, train=train, dev=dev)
    with pytest.raises(CorpusError) as raised:
        load(paths, scheme)
    assert message.format(**paths) in str(raised.value)
