"""The folds of a cross-validation: which sentences and documents they contain."""

import json
from itertools import chain

from ms_crf.base.errors import CorpusError
from ms_crf.experiments.folds import documents_of, folds_of, json_lines_of, splits_of
from ms_crf.formats.registry import read_corpus
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import splitter_named

import pytest

ROWS = 'Ada\tB-X\nsaw\tO\n\nit\tO\n\n'
CONLLU = '1\tit\t_\tX\t_\t_\t_\t_\t_\t_\n2\tis\t_\tY\t_\t_\t_\t_\t_\t_'
TEXTS = [{'text': 'Ada saw it\nIt was Rome', 'entities': [[0, 3, 'X'], [18, 22, 'Y']]},
         {'text': 'Not it', 'entities': []}]


def rows(sentences):
    """The tokens and tags of each sentence."""
    return [(sentence.tokens, sentence.tags) for sentence in sentences]


def of(sizes):
    """Documents with these numbers of sentences; the only token of a sentence is its index."""
    numbers = iter(range(sum(sizes)))
    return [[Sentence([str(next(numbers))], ['O']) for _ in range(size)] for size in sizes]


def tokens(sentences):
    return [sentence.tokens[0] for sentence in sentences]


@pytest.mark.parametrize('count', [2, 3, 7, 10])
def test_folds_each_sentence_is_tested_once_by_a_model_that_has_not_seen_it(count):
    documents = of([1] * 31)
    folds = folds_of('x', documents, count, 1)
    assert sorted(chain(*map(tokens, folds)), key=int) == [str(number) for number in range(31)]
    assert {len(fold) for fold in folds} <= {31 // count, 31 // count + 1}
    assert all(tokens(fold) == sorted(tokens(fold), key=int) for fold in folds)
    for index, turn in enumerate(splits_of(folds, None)) if count > 2 else ():
        assert turn.test == folds[index] and turn.dev == folds[(index + 1) % count]
        assert sorted(chain(*map(tokens, turn)), key=int) == [str(number) for number in range(31)]
    dev = of([2])[0]
    for index, turn in enumerate(splits_of(folds, dev)):
        assert (turn.test, turn.dev) == (folds[index], dev) and len(turn.train) + len(turn.test) == 31


def test_folds_the_seed_decides_which_and_nothing_else_does():
    first, again, other = (folds_of('x', of([1] * 20), 4, seed) for seed in (3, 3, 4))
    assert first == again != other


def test_folds_documents_stay_whole_and_folds_alike():
    documents = of([5, 1, 1, 3, 2, 2, 4, 1, 1])
    folds = folds_of('x', documents, 3, 2)
    home = {name: index for index, fold in enumerate(folds) for name in tokens(fold)}
    assert all(len({home[name] for name in tokens(document)}) == 1 for document in documents)
    assert sum(map(len, folds)) == 20 and max(map(len, folds)) - min(map(len, folds)) <= 5


def test_folds_too_few_to_cut():
    with pytest.raises(CorpusError, match='x: expected at least 3 sentences for 3 folds, got 2'):
        folds_of('x', of([1, 1]), 3, 1)
    with pytest.raises(CorpusError, match='x: expected at least 3 documents, which are not split, for 3 folds, got'):
        folds_of('x', of([9, 1]), 3, 1)


@pytest.mark.parametrize('name,text,sizes', [
    ('a.tsv', ROWS * 2, [1, 1, 1, 1]),
    ('a.conll', f'-DOCSTART-\tO\n\n{ROWS}{ROWS}-DOCSTART-\tO\n\n{ROWS}', [4, 2]),
    ('a.conllu', f'# newdoc\n{CONLLU}\n\n{CONLLU}\n\n# newdoc id = b\n{CONLLU}\n\n', [2, 1]),
    ('a.conllu', f'{CONLLU}\n\n{CONLLU}\n\n', [1, 1]),
    ('a.jsonl', ''.join(json.dumps(text) + '\n' for text in TEXTS), [2, 1]),
    ('a.jsonl', '{"tokens": ["Ada"], "tags": ["B-X"]}\n{"tokens": ["it", "is"], "tags": ["O", "O"]}\n', [1, 1])])
def test_folds_documents_of_files(tmp_path, name, text, sizes):
    """The documents of a file together contain the sentences that a training reads from this file."""
    path = tmp_path / name
    path.write_text(text)
    documents = documents_of(path, (0, -1), splitter_named('blanks'))
    assert list(map(len, documents)) == sizes
    read = read_corpus(path, splitter='blanks')
    assert rows(chain(*documents)) == rows(read)
    again = tmp_path / 'again.jsonl'
    again.write_text(json_lines_of(read))
    assert rows(read_corpus(again)) == rows(read)


def test_folds_documents_of_a_folder(tmp_path):
    for name, text in (('a', 'Ada saw it\nIt was Rome'), ('b', 'Not it')):
        (tmp_path / f'{name}.txt').write_text(text)
        (tmp_path / f'{name}.ann').write_text('T1\tX 0 3\tAda\n' if name == 'a' else '')
    documents = documents_of(tmp_path, (0, -1), splitter_named('blanks'))
    assert [[sentence.tags for sentence in document] for document in documents] == [
        [['B-X', 'O', 'O'], ['O', 'O', 'O']], [['O', 'O']]]
