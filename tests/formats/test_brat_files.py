"""Tests brat's standoff format with hand-written files: spans, ignored lines, invalid lines, and folders."""

from ms_crf.base.errors import CorpusError
from ms_crf.formats import brat
from ms_crf.formats.document import ReadOptions
from ms_crf.formats.registry import read_corpus

import pytest

TEXT = 'Ada saw\nLisbon and Porto.\r\nBob 💩 Eve\n'
ANN = '''T1\tPER 0 3\tAda
T2\tLOC 8 14\tLisbon
R1\tsees Arg1:T1 Arg2:T2
E1\tSeeing:T1 Agent:T1
A1\tNegated E1
#1\tAnnotatorNotes T1\ta note
*\tEquiv T1 T2
T3\tLOC 19 24\tPorto
T4\tPER 33 36\tEve
'''


@pytest.fixture
def pair(tmp_path):
    def write(text=TEXT, ann=ANN, name='doc'):
        (tmp_path / f'{name}.txt').write_bytes(text.encode())
        (tmp_path / f'{name}.ann').write_bytes(ann.encode())
        return tmp_path / f'{name}.ann'
    return write


def found(path):
    remarks = []
    documents = [(document.name, [(span.start, span.end, span.type) for span in document.spans])
                 for document in brat.read(path, ReadOptions(report=remarks.append))]
    return documents, [(remark.kind, remark.line, remark.text) for remark in remarks]


def test_brat_files_offsets_count_every_character_of_the_text(pair):
    """Checks that CR and LF count as two characters, and that a character beyond U+FFFF counts as one."""
    path = pair()
    expected = [('doc', [(0, 3, 'PER'), (8, 14, 'LOC'), (19, 24, 'LOC'), (33, 36, 'PER')])]
    for name in (path, path.with_suffix('.txt'), path.parent):
        documents, remarks = found(name)
        assert documents == expected and [(kind, line) for kind, line, _ in remarks] == [
            ('ignored', line) for line in (3, 4, 5, 6, 7)]
    assert [(one.tokens, one.tags, one.line, one.line_of(1)) for one in read_corpus(path, splitter='blanks')] == [
        (['Ada', 'saw'], ['B-PER', 'O'], 1, 1),
        (['Lisbon', 'and', 'Porto.'], ['B-LOC', 'O', 'B-LOC'], 2, 2),
        (['Bob', '💩', 'Eve'], ['O', 'O', 'B-PER'], 3, 3)]


def test_brat_files_spans_in_parts(pair):
    """Checks that a discontinuous span is read from its first to its last part, with a remark about the gap.

    A span over a line end also has several parts, but no gap.
    """
    path = pair('North and South America\nNew\nYork', 'T1\tLOC 0 5;16 23\tNorth America\n'
                                                      'T2\tLOC 24 27;28 32\tNew York\nT3\tX 24 32\tNew York\n')
    assert found(path) == ([('doc', [(0, 23, 'LOC'), (24, 32, 'LOC'), (24, 32, 'X')])],
                           [('gap', 1, 'North and South America')])


def test_brat_files_a_byte_order_mark_is_counted_if_the_spans_say_so(pair):
    for start, end in ((0, 3), (1, 4)):
        assert found(pair('\ufeffAda', f'T1\tPER {start} {end}\tAda\n'))[0] == [('doc', [(start, end, 'PER')])]


def test_brat_files_a_byte_order_mark_is_counted_if_the_spans_fit_both_ways(pair):
    """Checks that an ambiguous byte order mark counts as a character, because brat counts it too."""
    assert read_corpus(pair('\ufeffaa', 'T1\tPER 1 2\ta\n'), splitter='characters')[0].tags == ['B-PER', 'O']


def test_brat_files_a_folder_is_read_in_the_order_of_names(pair, tmp_path):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    for name in ('b', 'a'):
        pair(f'{name} x', f'T1\tX 0 1\t{name}\n', name)
    (tmp_path / 'c.txt').write_text('not annotated')
    (tmp_path / 'annotation.conf').write_text('[entities]')
    assert found(tmp_path) == ([('a', [(0, 1, 'X')]), ('b', [(0, 1, 'X')])], [('unlabelled', 1, 'not annotated')])
    assert [sentence.tokens for sentence in read_corpus(tmp_path)] == [['a', 'x'], ['b', 'x']]


@pytest.mark.parametrize('ann,message', [
    ('T1\tPER 0 3\tBob\n', "doc.ann:1: expected 'Bob' at the offsets of T1, got 'Ada'"),
    ('T1\tPER 0 3\tAda\nT2 PER 0 3 Ada\n', "doc.ann:2: expected T1, a tab, 'TYPE START END', a tab and the text, got "
                                          "'T2 PER 0 3 Ada'"),
    ('T1\tPER 0\tAda\n', 'doc.ann:1: expected T1, a tab'),
    ('T1\tPER 0 99\n', 'doc.ann:1: expected a span from 0 to 37, the length of its text, its start not after its end, '
                       'got 0 to 99'),
    ('T1\tPER 3 0\n', 'doc.ann:1: expected a span from 0 to 37'),
    ('T1\tPER 0 3;4 99\n', 'doc.ann:1: expected a span from 0 to 37'),
])
def test_brat_files_faults_are_named_with_file_and_line(pair, ann, message):
    with pytest.raises(CorpusError) as raised:
        read_corpus(pair(ann=ann))
    assert message in str(raised.value)


def test_brat_files_half_of_a_pair_and_text_that_is_not_utf8(pair, tmp_path):
    path = pair()
    path.with_suffix('.txt').write_bytes(b'Ada\n\xff')
    with pytest.raises(CorpusError, match=r'doc.txt:2: expected UTF-8, got byte 0xff at column 1'):
        read_corpus(path)
    path.with_suffix('.txt').unlink()
    for name in (path, tmp_path):
        with pytest.raises(CorpusError, match='doc.txt: no such file'):
            read_corpus(name)
    with pytest.raises(CorpusError, match='other.ann: no such file'):
        read_corpus(tmp_path / 'other.ann')
