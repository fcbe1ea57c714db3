"""Tests column files: which lines are tokens, comments or neither, and which characters end a line."""

import gzip
import json
import os
import threading

from ms_crf.base.errors import CorpusError
from ms_crf.formats import columns, conversion
from ms_crf.formats.columns import blocks
from ms_crf.formats.dataset import load
from ms_crf.formats.document import ReadOptions, discard
from ms_crf.formats.lines import numbered_lines
from ms_crf.formats.registry import ROWS, read_corpus

import pytest

from support.corpora import CORPORA, write

CONLLU = '''# newdoc id = a
# sent_id = 1
# text = one two three four five six seven
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
3.1\tla\tla\tDET\t_\t_\t_\t_\t5:det\t_
4\t#mar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_

# sent_id = 2
1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
2\tde facto\tde facto\tADJ\t_\t_\t0\troot\t_\t_
'''


def found(path, **options):
    return [(sentence.tokens, sentence.tags) for sentence in read_corpus(path, **options)]


def test_column_files_conllu_has_its_own_columns(tmp_path):
    path = write(tmp_path, CONLLU, 'es.conllu')
    expected = [(['vamos', 'nos', 'a', '#mar'], ['VERB', 'PRON', 'ADP', 'NOUN']), (['#', 'de facto'], ['SYM', 'ADJ'])]
    assert found(path) == expected
    with gzip.open(tmp_path / 'es.conllu.gz', 'wb') as file:
        file.write(CONLLU.encode())
    assert found(tmp_path / 'es.conllu.gz') == expected
    assert found(path, columns=(1, 7))[1][1] == ['root', 'root']                   # explicit column numbers are used
    # In a file of another name, multiword tokens and empty nodes are ordinary rows. Comments are still comments.
    other = write(tmp_path, CONLLU, 'es.conll')
    assert found(other, columns=(1, 3))[1] == expected[1] and len(found(other, columns=(1, 3))[0][0]) == 6


def test_column_files_a_fault_in_conllu_is_at_its_line(tmp_path):
    path = write(tmp_path, CONLLU, 'es.conllu')
    assert [(sentence.line, *sentence.lines) for sentence in read_corpus(path)] == [(5, 5, 6, 7, 9), (12, 12, 13)]
    odd = write(tmp_path, CONLLU.replace('\tVERB', '\tB-X').replace('\tSYM', '\tB-X'), 'odd.conllu')
    with pytest.raises(CorpusError, match="odd.conllu:6: expected 'O' or one of .* got 'PRON'"):
        load({'train': odd})
    with pytest.raises(CorpusError, match='bad.conllu:2: expected columns 1 and 3 to hold token and tag'):
        read_corpus(write(tmp_path, '1\tEU\tEU\tX\n2\trejects\n', 'bad.conllu'))


@pytest.mark.parametrize('text,tokens', [
    ('# a comment\nEU\tB-ORG\n', ['EU']),  # the comment has two words, and rows have two tab-separated columns
    ('# two words\n#Ebola\tO\n#\tO\nEU\tB-ORG\n# EU\tO\n', ['#Ebola', '#', 'EU', '# EU']),
    ('EU\tB-ORG\n# in between\n#\tO\n', ['EU', '#']),
    ('# comment\nEU B-ORG\n', ['EU']),
    ('# O\n#Ebola O\nEU B-ORG\n# O\n', ['#', '#Ebola', 'EU', '#']),
    ('EU NNP\n. SYM\n\n# note\n# 5\n# SYM\n', ['EU', '.', '#']),    # a row, because another row has the tag SYM
    ('# id = 5\n# x = O\nEU NNP I-NP B-ORG\n# # B-NP O\n', ['EU', '#']),
    ('# ?\nEU ?\n', ['#', 'EU']), ('# ?-ORG\nEU O\n', ['#', 'EU']), ('# ?-\nEU O\n', ['EU']),
    ('# B-ORG\nEU B-ORG\n', ['#', 'EU']), ('EU\n#\n#mar\n# note\n', ['EU', '#', '#mar']),
])
def test_column_files_comments_and_hashtags(tmp_path, text, tokens):
    path = write(tmp_path, text)
    rows = [row for block in blocks(numbered_lines(path)) for row in block]
    assert [row.cells[0] for row in rows if row.cells] == tokens
    assert ''.join(row.text + '\n' for row in rows) == text      # no character is lost


@pytest.mark.parametrize('mark,tag,other', [
    ('XX', 'XX', 'B-PER'), ('XX', 'XX', 'NN'), ('XX', 'XX-PER', 'B-PER'), ('XX', 'B-XX', 'B-PER'),
    ('XX', 'XX-XX', 'B-PER'), ('XX', '?', 'NN'), ('', '?', 'NN'), ('?', '?-PER', 'B-PER')])
def test_column_files_the_mark_of_unknown_tags_is_a_tag_in_the_first_row_of_a_sentence(tmp_path, mark, tag, other):
    path = write(tmp_path, f'# id = 5\n# a comment XX-\n# _ _ {tag}\nEU _ _ {other}\n')
    tokens = ['#', 'EU']
    assert [row.cells[0] for rows in blocks(numbered_lines(path), mark=mark) for row in rows if row.cells] == tokens
    assert [sentence.tokens for sentence in read_corpus(path, mark=mark)] == [tokens]
    items = columns.sentences(numbered_lines(path), 'x.tsv', ReadOptions((0,), mark))
    assert [item.tokens for item in items] == [tokens]
    [document] = conversion.read(path, ROWS, discard, mark=mark).documents
    assert document.sentences[0].tokens == tokens


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA.exists(), reason='the corpora are not here')
@pytest.mark.parametrize('folder', ['en-btc-ner', 'en-wnut17-ner'])
@pytest.mark.parametrize('separator', ['\t', ' '])
def test_column_files_tweets_keep_their_hashtags(tmp_path, folder, separator):
    lines = (CORPORA / folder / 'train.tsv').read_text(encoding='utf-8').replace('\t', separator).split('\n')
    path = write(tmp_path, '# a comment\n' + '\n'.join(lines))
    tokens = [token for sentence in read_corpus(path) for token in sentence.tokens]
    assert tokens == [line.split(separator)[0] for line in lines if line.strip(' \t')]
    assert '#' in tokens


@pytest.mark.parametrize('text', [' EU\tB-ORG\n  rejects \t O \n', 'EU \tB-ORG\nrejects\tO\n'])
def test_column_files_blanks_around_columns_are_none_of_them(tmp_path, text):
    assert found(write(tmp_path, text)) == [(['EU', 'rejects'], ['B-ORG', 'O'])]
    with pytest.raises(CorpusError, match='expected a token and a tag, got an empty column'):
        read_corpus(write(tmp_path, 'a\tO\n \tO\n'))


@pytest.mark.parametrize('end', ['\r', '\r\n', '\n', '\r\r\n'])
@pytest.mark.parametrize('last', [True, False])
def test_column_files_lines_end_as_they_do_anywhere(tmp_path, end, last):
    path = write(tmp_path, end.join(['EU\tB-ORG', 'rejects\tO', '', 'it\tO']) + end * last)
    assert found(path) == [(['EU', 'rejects'], ['B-ORG', 'O']), (['it'], ['O'])]
    assert read_corpus(path)[1].line == 4
    rows = [json.dumps({'tokens': [word], 'tags': ['O']}) for word in 'ab']
    path = write(tmp_path, end.join(rows) + end * last, 'a.json')
    assert found(path) == [(['a'], ['O']), (['b'], ['O'])]


@pytest.mark.parametrize('text', ['#\tO\n#dev\tB-PER\n', '# O\n#dev B-PER\n', '# id = O\n#\tO\n# dev\n#dev\tB-PER\n'])
def test_column_files_a_file_in_which_every_line_begins_as_comments_do(tmp_path, text):
    assert found(write(tmp_path, text)) == [(['#', '#dev'], ['O', 'B-PER'])]


@pytest.mark.parametrize('text,message', [
    ('{"tokens": ["a"], "tags": ["O"], "x": NaN}', 'expected a JSON object: NaN is not a finite number'),
    ('{"x": -Infinity}', '-Infinity is not a finite number'), ('{"x": 1e999}', '1e999 is too large for a number'),
    ('{"x": ' + '1' * 5000 + '}', 'expected a JSON object: Exceeds the limit'),
    ('{"x": 1, "y": {"a": 2, "a": 3}}', "'a' appears twice, expected it once"),
    ('[' * 100_000, 'it is nested too deeply')])
def test_column_files_json_that_is_not_read(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message) as raised:
        read_corpus(write(tmp_path, text, 'x.jsonl'))
    shown = str(raised.value).replace(', record 1', '')           # the record number, shown for arrays
    assert shown.startswith(f'{tmp_path}/x.jsonl:1: ') and len(str(raised.value).splitlines()) == 1


def test_column_files_files_are_read_once_and_may_be_pipes(tmp_path):
    """Checks that files are read once; a second reading of a named pipe would wait for a writer forever."""
    paths = {part: tmp_path / part for part in ('train', 'dev')}
    for path in paths.values():
        os.mkfifo(path)
    writers = [threading.Thread(target=path.write_text, args=['EU\tB-ORG\n'], daemon=True)
               for path in paths.values()]
    for writer in writers:
        writer.start()
    assert [sentence.tokens for sentence in load(paths).parts['dev']] == [['EU']]
    for writer in writers:
        writer.join(60)


@pytest.mark.skipif(not hasattr(os, 'seteuid'), reason='users are another matter there')
def test_column_files_what_may_not_be_read_is_said_so(tmp_path):
    path = write(tmp_path, 'EU\tO\n')
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.chmod(tmp_path, 0o777)
        os.seteuid(65534)
    try:
        with pytest.raises(CorpusError, match='cannot be read: Permission denied'):
            read_corpus(path)
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize('name', ['a\0b', '\ud800', 'x' * 5000])
def test_column_files_names_that_no_file_can_have(name):
    with pytest.raises(CorpusError) as raised:
        read_corpus(name)
    assert len(str(raised.value).splitlines()) == 1
