"""Property-based tests of tag schemes, scores, column files and JSON lines.

Random tags and files are drawn for each property.
"""

import json
from itertools import product

from ms_crf.formats.registry import CONLL, JSON, read_corpus
from ms_crf.render.tagged import Writer
from ms_crf.text.metrics import score, total
from ms_crf.text.schemes import TABLE, allowed_transitions, recognise_scheme, spans_of, strict_spans_of, tags_of
from ms_crf.text.sentence import Sentence

import pytest

from support.properties import given, settings
from support.properties import strategies as st

quick = settings(max_examples=150, deadline=None, derandomize=True, database=None)
STRICT = ('BIO', 'BIOES', 'BMES')
TYPES = ('', 'PER', 'a-b', 'Ω')
# The prefixes of each scheme, repeated here as an independent oracle.
PREFIXES = {'BIO': 'BI', 'IOB1': 'IB', 'BIOES': 'BIES', 'BMES': 'BMES'}


@st.composite
def sentences_of_spans(draw, types=TYPES):
    """Draws spans that do not overlap, in order, and the length of the sentence."""
    spans, end = [], 0
    for gap, size, kind in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(types)),
                                         max_size=6)):
        spans.append((kind, end + gap, end + gap + size - 1))
        end += gap + size
    return spans, end + draw(st.integers(0, 2))


def tags_in(scheme, types=('A', 'B'), least=0, most=7):
    every = ['O', *(f'{prefix}-{kind}' for prefix, kind in product(PREFIXES[scheme], types))]
    return st.lists(st.sampled_from(every), min_size=least, max_size=most)


# Schemes

@pytest.mark.parametrize('scheme', TABLE)
@quick
@given(case=sentences_of_spans())
def test_properties_spans_come_back_from_their_tags(scheme, case):
    spans, length = case
    tags = tags_of(spans, length, scheme)
    assert len(tags) == length and {tag[0] for tag in tags} <= {'O', *PREFIXES[scheme]}
    assert {index for index, tag in enumerate(tags) if tag != 'O'} == {
        index for _, first, last in spans for index in range(first, last + 1)}
    assert spans_of(tags) == spans
    if scheme in STRICT:
        assert strict_spans_of(tags, scheme) == spans


@pytest.mark.parametrize('scheme', STRICT)
@quick
@given(case=sentences_of_spans())
def test_properties_the_scheme_of_a_corpus_is_recognised(scheme, case):
    """Checks that the scheme is recognised if one sentence of the corpus has every prefix."""
    whole = tags_of([('PER', 0, 2), ('PER', 3, 3)], 5, scheme)
    assert recognise_scheme([whole, tags_of(*case, scheme)]) == scheme


@quick
@given(tags=st.data())
@pytest.mark.parametrize('scheme', STRICT)
def test_properties_strict_spans_are_lenient_ones_where_tags_are_well_formed(scheme, tags):
    """Checks that strict and lenient spans are equal if the tags are valid.

    For all tags, the tags of a strict span equal the tags that `tags_of` writes for this span.
    """
    tags = tags.draw(tags_in(scheme))
    strict = strict_spans_of(tags, scheme)
    for span in strict:
        kind, first, last = span
        assert tags[first:last + 1] == tags_of([(kind, 0, last - first)], last - first + 1, scheme)
    if tags_of(strict, len(tags), scheme) == tags:
        assert strict == spans_of(tags)


@pytest.mark.parametrize('scheme', TABLE)
@quick
@given(data=st.data())
def test_properties_allowed_tags_are_those_that_their_spans_write_again(scheme, data):
    """Checks that tags are allowed if and only if their spans write the same tags again.

    IOB1 has no strict spans, so the test uses lenient spans for IOB1.
    """
    tags = data.draw(tags_in(scheme, least=1))
    names = sorted({'O', *tags})
    allowed, ids = allowed_transitions(scheme, names), [names.index(tag) for tag in tags]
    fits = bool(allowed.start[ids[0]] and allowed.end[ids[-1]]
                and all(allowed.transitions[before, after] for before, after in zip(ids, ids[1:])))
    spans = strict_spans_of(tags, scheme) if scheme in STRICT else spans_of(tags)
    assert fits == (tags_of(spans, len(tags), scheme) == tags)


@pytest.mark.parametrize('scheme', TABLE)
def test_properties_allowed_tags_of_three_tokens_one_by_one(scheme):
    names = ['O', *(f'{prefix}-{kind}' for prefix, kind in product(PREFIXES[scheme], 'AB'))]
    allowed = allowed_transitions(scheme, names)
    for ids in product(range(len(names)), repeat=3):
        tags = [names[index] for index in ids]
        fits = bool(allowed.start[ids[0]] and allowed.end[ids[2]] and allowed.transitions[ids[0], ids[1]]
                    and allowed.transitions[ids[1], ids[2]])
        spans = strict_spans_of(tags, scheme) if scheme in STRICT else spans_of(tags)
        assert fits == (tags_of(spans, 3, scheme) == tags), tags


# Scores

def bio_spans(rows):
    """Returns the spans (sentence, type, first, last) of valid BIO tags; reads the tags one by one."""
    spans = set()
    for index, tags in enumerate(rows):
        for first, tag in enumerate(tags):
            if tag[0] == 'B':
                last = first
                while last + 1 < len(tags) and tags[last + 1] == f'I{tag[1:]}':
                    last += 1
                spans.add((index, tag[2:], first, last))
    return spans


@st.composite
def pairs_of_rows(draw):
    """Draws valid BIO tags, gold and predicted, of equal lengths."""
    rows = []
    for _ in range(draw(st.integers(0, 4))):
        length = draw(st.integers(0, 8))
        pair = []
        for _ in range(2):
            tags, before = [], 'O'
            for _ in range(length):
                others = [f'I{before[1:]}'] if before != 'O' else []
                before = draw(st.sampled_from(['O', 'B-A', 'B-B', *others]))
                tags.append(before)
            pair.append(tags)
        rows.append(pair)
    return [gold for gold, _ in rows], [predicted for _, predicted in rows]


@quick
@given(pair=pairs_of_rows())
def test_properties_scores_are_those_of_sets_of_spans(pair):
    gold, predicted = pair
    true, said = bio_spans(gold), bio_spans(predicted)
    for strict in (False, True):
        result = score(gold, predicted, 'BIO', strict)
        assert result.spans == (len(true & said), len(said), len(true))
        assert {kind: tuple(counts) for kind, counts in result.by_type.items()} == {
            kind: tuple(sum(span[1] == kind for span in spans) for spans in (true & said, said, true))
            for kind in {span[1] for span in true | said}}
        assert result.tokens == sum(map(len, gold))
        assert result.correct_tokens == sum(a == b for row, other in zip(gold, predicted) for a, b in zip(row, other))
        precision = len(true & said) / len(said) if said else 0
        recall = len(true & said) / len(true) if true else 0
        assert (result.spans.precision, result.spans.recall) == (precision, recall)
        assert result.spans.f1 == pytest.approx(
            2 * precision * recall / (precision + recall) if precision + recall else 0)


@quick
@given(pair=pairs_of_rows(), cut=st.integers(0, 4))
def test_properties_scores_add_up(pair, cut):
    gold, predicted = pair
    assert total([score(gold[:cut], predicted[:cut], 'BIO'), score(gold[cut:], predicted[cut:], 'BIO')]) == score(
        gold, predicted, 'BIO')


# Files

def tokens(excluded):
    """Draws tokens of any characters except the excluded ones.

    Some tokens are unusual: Unicode white space that is part of a token, quotes, control characters and `#`.
    """
    odd = ['#', '# a', '-DOCSTARTX', '\u00a0', '\u2028', '\x85', '\x0b', '"', '\\', '\ufeff', '1-2', '\u200b', 'a  b']
    text = st.text(st.characters(exclude_categories=['Cs'], exclude_characters=excluded), min_size=1, max_size=6)
    return st.one_of(text, st.sampled_from([word for word in odd if not set(word) & set(excluded)]))


def corpora(excluded):
    pair = st.tuples(tokens(excluded), st.sampled_from(['O', 'B-PER', 'I-PER', 'B-X']))
    return st.lists(st.lists(pair, min_size=1, max_size=5), min_size=1, max_size=4)


def written(kind, rows):
    """Returns the output of infer.py for sentences that were read from JSON lines."""
    writer = Writer(kind, 'BIO', ['O', 'B-PER', 'I-PER', 'B-X'])
    for row in rows:
        words, tags = map(list, zip(*row))
        yield writer.lines(Sentence(words, tags, []))


@quick
@given(rows=corpora('\t\r\n'))
def test_properties_columns_that_are_written_are_read_again(tmp_path_factory, rows):
    """Checks that column files can be read again.

    Spaces at the ends of a column and a byte order mark at the start of the file are not part of a token.
    """
    rows = [[(token.strip(' ') or '-', tag) for token, tag in row] for row in rows]
    rows = [[(token if not token.startswith(('-DOCSTART-', '\ufeff')) else '-', tag) for token, tag in row]
            for row in rows]
    path = tmp_path_factory.getbasetemp() / 'written.tsv'
    path.write_text(''.join(written(CONLL, rows)), encoding='utf-8', newline='')
    found = read_corpus(path)
    assert [list(zip(sentence.tokens, sentence.tags)) for sentence in found] == rows
    starts = [1 + sum(len(row) + 1 for row in rows[:index]) for index in range(len(rows))]
    assert [sentence.line for sentence in found] == starts


@quick
@given(rows=corpora(''))
def test_properties_json_lines_that_are_written_are_read_again(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / 'written.jsonl'
    path.write_text(''.join(written(JSON, rows)), encoding='utf-8', newline='')
    found = read_corpus(path)
    assert [list(zip(sentence.tokens, sentence.tags)) for sentence in found] == rows
    assert [sentence.line for sentence in found] == list(range(1, len(rows) + 1))
    for ascii_only in (True, False):
        path.write_text('\n\n'.join(json.dumps(dict(zip(('tokens', 'tags'), map(list, zip(*row)))),
                                               ensure_ascii=ascii_only) for row in rows), encoding='utf-8', newline='')
        assert [list(zip(sentence.tokens, sentence.tags)) for sentence in read_corpus(path)] == rows
