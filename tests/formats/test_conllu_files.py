"""Tests CoNLL-U with hand-written files: text, multiword tokens, empty nodes and MISC.

The output must be valid CoNLL-U.
"""

import re

from ms_crf.base.errors import CorpusError
from ms_crf.formats import conllu
from ms_crf.formats.alignment import tagged
from ms_crf.formats.document import Document, ReadOptions, Target
from ms_crf.formats.registry import read_corpus
from ms_crf.text.sentence import Row, Span
from ms_crf.text.splitting import splitter_named

import pytest


def rows(*lines):
    """Returns lines of CoNLL-U, made from lines with spaces between columns.

    The last column of a given line becomes MISC; missing columns become `_`.
    """
    made = []
    for line in lines:
        if line.startswith('#') or not line:
            made.append(line)
        else:
            *cells, misc = line.split(' ')
            made.append('\t'.join([*cells, *['_'] * (9 - len(cells)), misc]))
    return '\n'.join(made) + '\n'


SPANISH = rows('# newdoc id = carta', '# sent_id = 1', '# text = Vámonos al mar.', '1-2 Vámonos _', '1 Vamos ir VERB _',
               '2 nos nosotros PRON _', '3-4 al _', '3 a a ADP _', '4 el el DET _', '4.1 azul azul ADJ _',
               '5 mar mar NOUN SpaceAfter=No', '6 . . PUNCT _', '', '# sent_id = 2', '# text = Hoy!',
               '1 Hoy hoy ADV SpaceAfter=No|NER=B-DATE', r'2 ! ! PUNCT SpacesAfter=\n\s', '')


def write(folder, text, name='in.conllu'):
    path = folder / name
    path.write_text(text, encoding='utf-8')
    return path


TO_PLAIN = Target('conllu', splitter_named('blanks'), 'plain')


def documents(path, columns=conllu.COLUMNS):
    return list(conllu.read(path, ReadOptions(columns, report=pytest.fail)))


def check(text):
    """Asserts that a text is valid CoNLL-U.

    A sentence has comments, then rows of ten columns numbered from 1, then an empty line.
    """
    assert text.endswith('\n\n') and '\r' not in text
    for block in text[:-2].split('\n\n'):
        lines = block.split('\n')
        while lines[0].startswith('#'):
            lines.pop(0)
        number = 0
        for line in lines:
            cells = line.split('\t')
            assert len(cells) == 10 and all(cells), line
            assert not any(re.search(r'\s', cell) for index, cell in enumerate(cells) if index not in (1, 2, 9)), line
            if '-' in cells[0]:
                assert cells[0].startswith(f'{number + 1}-'), line
            elif '.' in cells[0]:
                assert cells[0].startswith(f'{number}.'), line
            else:
                number += 1
                assert cells[0] == str(number), line
        assert number


def test_conllu_files_the_text_is_what_the_file_says(tmp_path):
    """Checks the text and the offsets of a CoNLL-U file with multiword tokens.

    The text contains the multiword token, and its words are the tokens. Words that do not spell the multiword token all
    get its offsets.
    """
    document, = documents(write(tmp_path, SPANISH))
    assert (document.text, document.name, document.line) == ('Vámonos al mar. Hoy!\n ', 'carta', 1)
    first, second = document.sentences
    assert first.tokens == ['Vamos', 'nos', 'a', 'el', 'mar', '.']
    assert first.offsets == [(0, 7), (0, 7), (8, 10), (8, 10), (11, 14), (14, 15)]
    assert first.tags == ['VERB', 'PRON', 'ADP', 'DET', 'NOUN', 'PUNCT'] and first.lines == (5, 6, 8, 9, 11, 12)
    assert second.offsets == [(16, 19), (19, 20)]
    document, = documents(write(tmp_path, rows("# text = don't", "1-2 don't _", "1 do _", "2 n't _", '')))
    assert document.sentences[0].offsets == [(0, 2), (2, 5)]                  # these words spell it


def test_conllu_files_text_without_space_after(tmp_path):
    """Checks files without SpaceAfter.

    The comment `# text` gives the white space. If the comment does not match the tokens, it is ignored with a remark.
    """
    path = write(tmp_path, rows('# text = Hello,  you', '1 Hello _', '2 , _', '3 you _', ''))
    document, = documents(path)
    assert (document.text, document.sentences[0].offsets) == ('Hello,  you', [(0, 5), (5, 6), (8, 11)])
    remarks = []
    document, = conllu.read(write(tmp_path, rows('# text = Bye', '1 Hello _', '2 you _', '')),
                            ReadOptions(conllu.COLUMNS, report=remarks.append))
    assert document.text == 'Hello you' and [(each.kind, each.line) for each in remarks] == [('odd text', 2)]


def test_conllu_files_tags_of_spans_are_in_misc(tmp_path):
    path = write(tmp_path, SPANISH)
    assert [sentence.tags for sentence in read_corpus(path, (1, 9))] == [['O'] * 6, ['B-DATE', 'O']]
    assert read_corpus(path, (1, -1)) == read_corpus(path, (1, 9))
    assert read_corpus(path, (1, 2))[1].tags == ['hoy', '!']


@pytest.mark.parametrize('lines,message', [
    (['1-2 al _', '1 a _', ''],
     ':1: expected all words of each range like 1-2, got fewer in the sentence that begins here'),
    (['1-3 al _', '1-2 a _', '1 a _', ''], ":2: expected a range of words like 1-2, got '1-2'"),
    (['1 a _', '2 _'], ':2: expected columns 1 and 3')])
def test_conllu_files_faults_are_named_with_file_and_line(tmp_path, lines, message):
    text = rows(*lines).replace('2\t_\t_\t_\t_\t_\t_\t_\t_\t_', '2\ta')
    with pytest.raises(CorpusError) as raised:
        documents(write(tmp_path, text))
    assert f'in.conllu{message}' in str(raised.value)


def test_conllu_files_a_row_with_another_tag():
    row = Row(4, '1\ta b\t_\tX\tY\t_\t0\troot\t_\tSpaceAfter=No|NER=B-PER|Gloss=x', ['1'])
    assert conllu.row_with('', row, 'NOUN', 3, {}) == row.text.replace('\tX\t', '\tNOUN\t')
    assert conllu.row_with('', row, 'B-LOC', 9, {}).split('\t')[9] == 'SpaceAfter=No|Gloss=x|NER=B-LOC'
    assert conllu.row_with('', row, 'O', 9, {}).split('\t')[9] == 'SpaceAfter=No|Gloss=x'
    assert conllu.row_with('', row, 'O', 9, {'SpaceAfter': None, 'Gloss': None}).split('\t')[9] == '_'
    with pytest.raises(CorpusError, match='f.conllu:4: expected 10 columns, as CoNLL-U has them, got '):
        conllu.row_with('f.conllu', Row(4, '1\ta', ['1', 'a']), 'O', 9, {})


def written(document, plain=False):
    sentences = tagged(document, splitter_named('blanks'), pytest.fail)
    return ''.join(conllu.write([(document, sentences)], TO_PLAIN if plain else TO_PLAIN._replace(scheme='BIO')))


def test_conllu_files_texts_are_written_with_all_their_white_space(tmp_path):
    text = '  Ada  saw\tNew York.\n\nBob| \\ x\n'
    document = Document(text, 'x.jsonl', 1, [Span('PER', 2, 5, line=1), Span('LOC', 11, 20, line=1)], name='a b')
    out = written(document)
    check(out)
    assert out.split('\n')[:6] == [
        '# newdoc id = a b', '# sent_id = 1', '# text = Ada saw New York.',
        '\t'.join(['1', 'Ada', *'_______', r'SpacesBefore=\s\s|SpacesAfter=\s\s|NER=B-PER']),
        '\t'.join(['2', 'saw', *'_______', r'SpacesAfter=\t']), '\t'.join(['3', 'New', *'_______', 'NER=B-LOC'])]
    again, = documents(write(tmp_path, out), columns=(1, 9))
    assert (again.text, again.name) == (text, 'a b')
    assert [sentence.tags for sentence in again.sentences] == [['B-PER', 'O', 'B-LOC', 'I-LOC'], ['O', 'O', 'O']]


def test_conllu_files_rows_that_were_read_stay_as_they_are(tmp_path):
    document, = documents(write(tmp_path, SPANISH))
    out = ''.join(conllu.write([(document, document.sentences)], TO_PLAIN))
    assert out == SPANISH + '\n' * (not SPANISH.endswith('\n\n'))
    check(out)
    assert ''.join(conllu.write([(document, document.sentences)], TO_PLAIN._replace(column=4))) != out


@pytest.mark.parametrize('text,span,message', [
    ('a\x0bb', (0, 3, 'X|Y'), "expected types that MISC can hold, got | in 'B-X|Y'"),
    ('ab', (0, 2, 'X\tY'), 'got a tab in')])
def test_conllu_files_what_columns_can_not_hold(text, span, message):
    with pytest.raises(CorpusError, match=re.escape(message)):
        written(Document(text, 'x.jsonl', 1, [Span(span[2], *span[:2], line=1)]))
