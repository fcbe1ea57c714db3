"""Tests how character spans become tags of tokens.

The oracles are hand-written examples of each rule, and a slow implementation of all rules.
"""

import json

from ms_crf.formats.alignment import cut, scheme_of, spans_in, tagged
from ms_crf.formats.dataset import load
from ms_crf.formats.document import Document
from ms_crf.formats.registry import read_corpus
from ms_crf.text.sentence import Span
from ms_crf.text.splitting import splitter_named

import pytest

from support.properties import given, settings
from support.properties import strategies as st

quick = settings(max_examples=200, deadline=None, derandomize=True, database=None)
BLANKS = splitter_named('blanks')


def tags(text, spans, **options):
    """Returns the tags of each sentence and (kind, text) of each remark."""
    remarks = []
    document = Document(text, 'x.jsonl', 1, [Span(kind, start, end, line=1) for start, end, kind in spans])
    sentences = tagged(document, BLANKS, remarks.append, **options)
    return [' '.join(sentence.tags) for sentence in sentences], [(remark.kind, remark.text) for remark in remarks]


@pytest.mark.parametrize('text,spans,expected,remarks', [
    ('Ada saw New York .', [(0, 3, 'PER'), (8, 16, 'LOC')], ['B-PER O B-LOC I-LOC O'], []),
    ('Ada Bob', [(0, 3, 'PER'), (4, 7, 'PER')], ['B-PER B-PER'], []),
    ('Lisbon.', [(0, 6, 'LOC')], ['B-LOC'], [('grown', 'Lisbon')]),
    ('pre-Lisbon-day x', [(4, 10, 'LOC')], ['B-LOC O'], [('grown', 'Lisbon')]),
    ('New York x', [(2, 6, 'LOC')], ['B-LOC I-LOC O'], [('grown', 'w Yo')]),
    ('a Ada b', [(1, 6, 'PER')], ['O B-PER O'], []),  # white space at the ends of a span is ignored
    ('University of Lisbon', [(14, 20, 'LOC'), (0, 20, 'ORG')], ['B-ORG I-ORG I-ORG'], [('overlap', 'Lisbon')]),
    ('a b c', [(0, 3, 'X'), (2, 5, 'Y')], ['B-X I-X O'], [('overlap', 'b c')]),
    ('a b', [(0, 1, 'X'), (0, 1, 'Y'), (0, 1, 'X')], ['B-X O'], [('overlap', 'a'), ('overlap', 'a')]),
    ('Lisbon/Porto', [(0, 6, 'LOC'), (7, 12, 'LOC')], ['B-LOC'], [('grown', 'Lisbon'), ('overlap', 'Porto')]),
    ('New\nYork x\ny', [(0, 8, 'LOC')], ['B-LOC I-LOC O', 'O'], [('joined', 'New\nYork')]),
    ('a\nb\nc\nd', [(2, 5, 'X'), (4, 7, 'Y')], ['O', 'B-X I-X', 'O'], [('joined', 'b\nc'), ('overlap', 'c\nd')]),
    ('a  b', [(1, 3, 'X'), (2, 2, 'Y')], ['O O'], [('empty', '  '), ('empty', '')]),
    ('', [(0, 0, 'X')], [], [('empty', '')]),
    ('a b', [], ['O O'], []),
    ('a', [(0, 1, '')], ['B'], []),
])
def test_spans_on_tokens_rules(text, spans, expected, remarks):
    assert tags(text, spans) == (expected, remarks)


def test_spans_on_tokens_schemes():
    spans = [(0, 3, 'X'), (4, 5, 'X')]
    assert [tags('a b c d', spans, scheme=scheme)[0] for scheme in ('BIO', 'IOB1', 'BIOES', 'BMES')] == [
        ['B-X I-X B-X O'], ['I-X I-X B-X O'], ['B-X E-X S-X O'], ['B-X E-X S-X O']]
    assert tags('a b', [(0, 1, 'DET'), (2, 3, 'NOUN')], scheme='plain')[0] == ['DET NOUN']


@quick
@given(text=st.text('ab \n', max_size=30), places=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30),
                                                                    st.sampled_from('XY')), max_size=6))
def test_spans_on_tokens_the_rules_read_slowly(text, places):
    """Compares the tags with a slow implementation that marks each character of each span.

    Long spans come first, a span covers whole tokens, and no token belongs to two spans.
    """
    spans = [(min(a, b), max(a, b), kind) for a, b, kind in places if max(a, b) <= len(text)]
    owner = [None] * len(text)
    words, start = [], None
    for index, character in enumerate(text + ' '):
        if character in ' \n':
            if start is not None:
                words.append(range(start, index))
            start = None
        elif start is None:
            start = index
    kept = []
    for number, (start, end, _) in sorted(enumerate(spans), key=lambda entry: (entry[1][0] - entry[1][1], entry[1][0])):
        held = [word for word in words if any(start <= place < end for place in word)]
        if held and all(owner[place] is None for word in held for place in word):
            kept.append((number, held))
            for word in held:
                for place in word:
                    owner[place] = number
    expected = []
    for word in words:
        number = owner[word[0]]
        first = number is not None and next(held for kept_number, held in kept if kept_number == number)[0] == word
        expected.append('O' if number is None else f'{"B" if first else "I"}-{spans[number][2]}')
    found, remarks = tags(text, spans)
    assert ' '.join(found).split() == expected
    assert len(spans) - len(kept) == sum(kind in ('overlap', 'empty') for kind, _ in remarks)


@quick
@given(text=st.text('abc \n', max_size=30), cuts=st.lists(st.integers(0, 9), max_size=4))
def test_spans_on_tokens_tags_become_spans_that_become_the_same_tags(text, cuts):
    sentences = cut(Document(text, '', 1), BLANKS)
    given_tags = [['B-X' if index in cuts else 'I-X' if index - 1 in cuts else 'O' for index in range(len(each.tokens))]
                  for each in sentences]
    document = Document(text, '', 1, sentences=[each.replace(tags=row) for each, row in zip(sentences, given_tags)])
    spans = spans_in(document, scheme_of([document]) or 'BIO', pytest.fail)
    again = tagged(Document(text, '', 1, spans), BLANKS, pytest.fail)
    assert [sentence.tags for sentence in again] == given_tags


def test_spans_on_tokens_a_corpus_says_what_it_does_not_keep(tmp_path):
    """Checks that loading a corpus reports each kind of changed span once, with the count and the first span."""
    path = tmp_path / 'train.jsonl'
    rows = [('Lisbon.', [[0, 6, 'LOC']]), ('in Porto, Faro.', [[3, 8, 'LOC'], [10, 14, 'LOC'], [3, 5, 'X']])]
    path.write_text('\n'.join(json.dumps({'text': text, 'entities': spans}) for text, spans in rows))
    corpora = load({'train': path, 'dev': path}, splitter='blanks')
    line = (f'{path}: 3 spans beginning or ending within a token, widened to whole tokens; the first, at line 1: '
            "'Lisbon'")
    other = f"{path}: 1 span dropped, because of an overlap with a longer or earlier span; the first, at line 2: 'Po'"
    assert corpora.remarks == [line, other] * 2
    assert [sentence.tags for sentence in corpora.parts['train']] == [['B-LOC'], ['O', 'B-LOC', 'B-LOC']]
    remarks = []
    read_corpus(path, splitter='blanks', report=remarks.append)
    assert [(remark.line, remark.text) for remark in remarks] == [(1, 'Lisbon'), (2, 'Porto'), (2, 'Po'), (2, 'Faro')]
