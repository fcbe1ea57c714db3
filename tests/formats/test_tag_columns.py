"""Tests the check of the tag column before training.

Columns that are probably not tags are rejected. Tag sets of all sizes pass.
"""

import random

from ms_crf.base.errors import CorpusError
from ms_crf.cli import compare, train
from ms_crf.formats.dataset import check_tag_column
from ms_crf.formats.registry import read_corpus

import pytest

from support.paths import ROOT

CORPORA, SAMPLE = ROOT.parent / 'shared' / 'data', ROOT / 'data'
LETTERS = 'etaoinshrdlcumwfgypbvkjxqz'


def words(rng, count, kinds=20_000):
    """Returns random words by Zipf's law: the n-th most frequent word has a probability of about 1 / n."""
    numbers = [int(kinds ** rng.random()) for _ in range(count)]
    return [LETTERS[number % 26] + LETTERS[number // 26 % 26] + LETTERS[number // 676 % 26] + 'e' * (number // 17_576)
            for number in numbers]


def sentences(rng, count):
    return [words(rng, rng.randint(3, 30)) for _ in range(count)]


def rows(table):
    """Returns the text of a column file: one row per line, and an empty line after each sentence."""
    return '\n'.join(''.join(f'{row}\n' for row in sentence) for sentence in table) + '\n'


def tagged(rng, count, kinds, separator='\t'):
    """Returns a column file whose tags also follow Zipf's law; each word has only a few different tags."""
    names = [f'{LETTERS[kind % 26].upper()}{kind}' for kind in range(kinds)]

    def tag(word):
        return names[(hash_of(word) + (rng.random() < 0.1)) % int(kinds ** rng.random() + 1)]
    return rows([[f'{word}{separator}{tag(word)}' for word in sentence] for sentence in sentences(rng, count)])


def hash_of(word):
    return sum(ord(letter) * 31 ** place for place, letter in enumerate(word))


def check(path, text):
    path.write_text(text, encoding='utf-8')
    widths = []
    check_tag_column(path, read_corpus(path, widths=widths), widths)


@pytest.mark.parametrize('count,kinds', [(24, 17), (36, 50), (36, 400), (60, 1200), (300, 45), (2000, 1200), (3, 17)])
@pytest.mark.parametrize('seed', range(5))
def test_tag_columns_tag_sets_pass(tmp_path, count, kinds, seed):
    check(tmp_path / 'a.tsv', tagged(random.Random(seed), count, kinds))


@pytest.mark.parametrize('kinds', [2, 5])
def test_tag_columns_toys_pass(tmp_path, kinds):
    rng = random.Random(kinds)
    check(tmp_path / 'a.tsv', rows([[f'{rng.randrange(6)} {rng.randrange(kinds)}' for _ in range(8)]
                                     for _ in range(9)]))
    check(tmp_path / 'b.tsv', rows([[f'{rng.randrange(6)} s{rng.randrange(50)}' for _ in range(30)]
                                     for _ in range(99)]))
    check(tmp_path / 'c.tsv', 'a DET\nman NOUN\nruns VERB\n\n')


@pytest.mark.slow
@pytest.mark.parametrize('path', [*sorted(CORPORA.glob('*/*.tsv')), *sorted(SAMPLE.glob('*.tsv'))],
                         ids=lambda path: f'{path.parent.name}-{path.stem}')
def test_tag_columns_real_corpora_pass(path):
    widths = []
    corpus = read_corpus(path, widths=widths)
    check_tag_column(path, corpus, widths)
    for size in (3, 24, 60, len(corpus)):
        sample = random.Random(size).sample(corpus, min(size, len(corpus)))
        check_tag_column(path, sample)
        fine = [sentence.replace(tags=[f'{tag}|{token[-1:]}' for token, tag in zip(sentence.tokens, sentence.tags)])
                for sentence in sample]
        if 'zh-' not in path.parent.name:
            check_tag_column(path, fine)                         # about 500 different tags
        if size > 3 and '-seg' not in path.parent.name:
            swapped = [sentence.replace(tokens=sentence.tags, tags=sentence.tokens) for sentence in sample]
            with pytest.raises(CorpusError, match='expected a tag for each token, got [0-9,]+ different values in'):
                check_tag_column(path, swapped)


def prose(rng, count, end):
    return [f'{" ".join(sentence)}{end}' for sentence in sentences(rng, count)]


FORMS = {
    'a sentence a line': lambda rng, count: '\n'.join(prose(rng, count, '.')) + '\n',
    'of tokens': lambda rng, count: '\n'.join(prose(rng, count, ' .')) + '\n',
    'in paragraphs': lambda rng, count: '\n\n'.join(prose(rng, count, '.')) + '\n',
    'numbered words': lambda rng, count: rows([[f'{place} {word}' for place, word in enumerate(sentence, 1)]
                                               for sentence in sentences(rng, max(count, 12))]),
    'words twice': lambda rng, count: rows([[f'{word}\t{word}' for word in sentence]
                                            for sentence in sentences(rng, max(count, 12))]),
    'tags before words': lambda rng, count: rows([[f'T{rng.randrange(17)}\t{word}' for word in sentence]
                                                  for sentence in sentences(rng, max(count, 12))]),
    'fractions': lambda rng, count: rows([[f'{rng.random():.3f} {rng.random():.3f}' for _ in range(count + 20)]]),
    'fractions and classes': lambda rng, count: rows([[f'{rng.random():.3f} {rng.randrange(20)}'
                                                       for _ in range(count + 90)]]),
    'numbers': lambda rng, count: rows([[f'{place} {rng.randrange(10 ** 6)}' for place in range(count + 40)]]),
    'names': lambda rng, count: '\n'.join(map(' '.join, zip(words(rng, count + 60), words(rng, count + 60)))),
}


@pytest.mark.parametrize('count', [8, 60, 1000])
@pytest.mark.parametrize('form', FORMS)
def test_tag_columns_prose_and_numbers_are_refused(tmp_path, form, count):
    for seed in range(5):
        with pytest.raises(CorpusError, match=r"a\.tsv: expected a tag for each token, got .*, such as '.*; name the "
                                              'columns of token and tag, or allow any tags'):
            check(tmp_path / 'a.tsv', FORMS[form](random.Random(seed), count))


@pytest.mark.parametrize('command', [
    (train, '--model', 'hmm', '--train', '{prose}', '--dev', '{dev}', '--save', '{run}'),
    (train, '--model', 'hmm', '--train', '{dev}', '--dev', '{prose}', '--save', '{run}'),
    (compare, '--models', 'hmm', '--train', '{prose}', '--folds', '3'),
    (compare, '--models', 'hmm', '--train', '{prose}', '--dev', '{dev}', '--test', '{dev}')])
def test_tag_columns_every_command_that_learns(command, tmp_path, capfd):
    text = tmp_path / 'prose.txt'
    text.write_text(FORMS['a sentence a line'](random.Random(1), 30))
    (tmp_path / 'dev.tsv').write_text('a\tDET\nman\tNOUN\n\n' * 9)
    module, *arguments = command
    names = {'prose': text, 'dev': tmp_path / 'dev.tsv', 'run': tmp_path / 'run'}
    arguments = [argument.format(**names) for argument in arguments]
    assert module.main(arguments) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if 'a training ended' not in line]
    assert f'{text}: expected a tag for each token, got rows with different numbers of columns' in errors[-1]
    assert errors[-1].endswith('with --columns, or add --allow-any-tags if these are tags')
    assert 'Traceback' not in ''.join(errors) and not (tmp_path / 'run').exists()
    if module is train:
        assert train.main([*arguments, '--allow-any-tags']) == 0
