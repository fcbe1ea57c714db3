"""Tests partially annotated text: reading, conversion to another scheme, and scoring.

The oracle enumerates all valid tag sequences that agree with the known tags.
"""

import itertools
import json

from ms_crf.base.errors import CorpusError
from ms_crf.formats.dataset import load
from ms_crf.formats.registry import read_corpus
from ms_crf.text.metrics import Scores, score
from ms_crf.text.partial import certain, converted, fits, marked, one_of, opened
from ms_crf.text.schemes import completions, recognise_scheme, tags_in

import pytest

from support.corpora import write

BIO = ['O', 'B-P', 'I-P', 'B-Q', 'I-Q']
BIOES = ['O', *(f'{prefix}-{kind}' for kind in 'PQ' for prefix in 'BIES')]


def matches(tag, pattern):
    """Whether a tag agrees with a pattern such as `?`, `?-P` or `B-?`."""
    if '?' not in pattern:
        return tag == pattern
    if pattern == '?':
        return True
    prefix, kind = pattern.split('-')
    return tag != 'O' and prefix in ('?', tag[0]) and kind in ('?', tag[2:])


def well_formed(tags):
    """Whether a BIO sequence is valid: each I follows a B or an I of its type."""
    return all(tag[0] != 'I' or before[1:] == tag[1:] for before, tag in zip(['O', *tags], tags))


def every(patterns):
    """Returns all valid BIO sequences that agree with the patterns."""
    return [tags for tags in itertools.product(BIO, repeat=len(patterns))
            if well_formed(tags) and all(map(matches, tags, patterns))]


def in_bioes(tags):
    """Converts a sequence from BIO to BIOES; the next tag shows whether a span ends."""
    made = []
    for tag, after in zip(tags, [*tags[1:], 'O']):
        ends = after != f'I{tag[1:]}'
        made.append(tag if tag == 'O' or not ends else tag.replace('B-', 'S-').replace('I-', 'E-'))
    return tuple(made)


def spans(tags):
    """Returns the spans (type, first, last) of a BIO sequence."""
    found = []
    for place, tag in enumerate(tags):
        if tag[0] == 'B':
            found.append([tag[2:], place, place])
        elif tag[0] == 'I':
            found[-1][2] = place
    return set(map(tuple, found))


PATTERNS = [row for row in itertools.product(['O', 'B-P', 'I-P', '?', '?-P', 'B-?', '?-?'], repeat=3)
            if '?' in ''.join(row) and every(row)]


# Reading

def test_partly_tagged_a_mark_stands_for_what_nobody_has_judged(tmp_path):
    columns = write(tmp_path, 'a\tB-P\nb\t?\nc\t?-P\nd\tB-?\ne\tO\n')
    lines = write(tmp_path, '{"tokens": ["a", "b", "c", "d", "e"], "tags": ["B-P", null, "?-P", "B-?", "O"]}\n',
                  'x.jsonl')
    for path in (columns, lines):
        [sentence] = read_corpus(path)
        assert [marked(tag) for tag in sentence.tags] == ['B-P', '?', '?-P', 'B-?', 'O']
        assert [completions(tag, BIO) for tag in sentence.tags] == [
            ['B-P'], BIO, ['B-P', 'I-P'], ['B-P', 'B-Q'], ['O']]


def test_partly_tagged_another_mark_or_none(tmp_path):
    path = write(tmp_path, 'a\t?\nb\tXX\nc\tNOUN\n')
    tags = {mark: [marked(tag, '*') for tag in read_corpus(path, mark=mark)[0].tags] for mark in ('?', 'XX', '')}
    assert tags == {'?': ['*', 'XX', 'NOUN'], 'XX': ['?', '*', 'NOUN'], '': ['?', 'XX', 'NOUN']}
    assert load({'train': path}, mark='').tags == ['?', 'NOUN', 'XX']
    assert load({'train': path}, mark='?').tags == ['NOUN', 'XX']


def test_partly_tagged_what_a_mark_is_part_of_is_no_mark():
    tags = ['O-?', 'NN-?', '?-', '-?', '??', 'I-?X', 'B-X?']
    assert opened(tags) == tags
    assert opened(['O', '?'], '') == ['O', '?']


def test_partly_tagged_it_is_said_how_many_tokens_are_not_judged(tmp_path):
    train = write(tmp_path, 'a\tB-P\nb\t?\nc\t?\nd\tI-?\n\ne\tO\n', 'train.tsv')
    dev = write(tmp_path, 'a\tB-P\n', 'dev.tsv')
    [line] = load({'train': train, 'dev': dev}).remarks
    assert line == (f"{train}: 3 of 5 tokens are not annotated: ? 2, I-? 1 ('?' marks unknown tags; if '?' is a "
                    "normal tag, name another mark, or '' for no mark)")


@pytest.mark.parametrize('train,dev,message', [
    ('a\t?\nb\t?\n', 'a\tO\n', 'train.tsv: expected tags, but none of 2 tokens is annotated; if the mark of unknown'),
    ('a\tB-P\n', 'a\t?\n', 'dev.tsv: expected tags, but none of 1 tokens is completely annotated; if'),
    ('a\tB-P\n', 'a\tB-?\n', 'dev.tsv: expected tags, but none of 1 tokens is completely annotated; if'),
    ('a\tO\nb\tB-?\n', 'a\tO\n',
     "train.tsv:2: expected at least one known entity type in the file, got 'B-?' and no known type"),
    ('a\tNN\nb\t?-NN\n', 'a\tNN\n',
     "train.tsv:1: expected 'O' or one of B, I, E, M, S with a type like '?-NN', got 'NN'"),
    ('a\tO\nb\tB-\0\n', 'a\tO\n', "train.tsv:2: expected a tag or type without NUL characters, got 'B-\\x00'"),
])
def test_partly_tagged_what_can_not_be_learned_from_is_refused(tmp_path, train, dev, message):
    paths = {'train': write(tmp_path, train, 'train.tsv'), 'dev': write(tmp_path, dev, 'dev.tsv')}
    with pytest.raises(CorpusError) as raised:
        load(paths)
    assert str(raised.value).replace(f'{tmp_path}/', '').startswith(message)


def test_partly_tagged_the_scheme_is_recognised_by_what_is_judged():
    def scheme(*rows):
        return recognise_scheme([opened(row.split()) for row in rows])
    assert scheme('O I-P ? ?', 'I-P B-P ?') == 'IOB1'
    assert scheme('? I-P ?', 'B-P ? O') == 'BIO'
    assert scheme('? ? S-P', 'O ?-P') == 'BIOES'
    assert scheme('NN ? VB', '? ?') == 'plain'
    assert scheme('? ?-P') == 'BIO'


# Spans in a partially annotated text

def read_json(tmp_path, **record):
    [sentence] = read_corpus(write(tmp_path, json.dumps(record) + '\n', 'x.jsonl'), splitter='blanks')
    return [[marked(tag), *completions(tag, ['O', 'B-P', 'I-P'])] for tag in sentence.tags]


def test_partly_tagged_tokens_outside_of_what_was_looked_at_are_not_judged(tmp_path):
    text = 'Ada Lovelace saw Rome and Bonn'
    unknown = ['?', 'O', 'B-P', 'I-P']
    # After an entity, the next token may have any tag that does not continue the entity.
    behind = ['?', 'O', 'B-P']
    assert read_json(tmp_path, text=text, spans=[{'start': 0, 'end': 12, 'label': 'P'}], judged=[[17, 27]]) == [
        ['B-P', 'B-P'], ['I-P', 'I-P'], behind, ['O', 'O'], ['O', 'O'], unknown]
    assert read_json(tmp_path, text=text, entities=[], judged=[[0, 14]])[1:3] == [['O', 'O'], unknown]
    assert read_json(tmp_path, text=text, entities=[[17, 21, 'P']])[0] == ['O', 'O']


def test_partly_tagged_an_answer_about_single_spans_judges_these_alone(tmp_path):
    spans = [{'start': 0, 'end': 3, 'label': 'P'}]
    assert [tag for tag, *_ in read_json(tmp_path, text='Ada saw Rome', spans=spans, answer='accept', _is_binary=True)
            ] == ['B-P', '?', '?']


def test_partly_tagged_an_entity_may_have_an_open_type(tmp_path):
    tags = [sentence.tags for sentence in read_corpus(
        write(tmp_path, '{"text": "Ada Po saw Rome", "entities": [[0, 6, "?"], [11, 15, "P"]]}\n', 'x.jsonl'),
        splitter='blanks')]
    assert [[marked(tag) for tag in row] for row in tags] == [['B-?', 'I-?', 'O', 'B-P']]
    assert completions(tags[0][0], BIO) == ['B-P', 'B-Q']


@pytest.mark.parametrize('judged', ['3', '[[0, 99]]', '[[2, 1]]', '[[0]]', '["a"]'])
def test_partly_tagged_parts_that_are_none_are_refused(tmp_path, judged):
    path = write(tmp_path, f'{{"text": "Ada", "entities": [], "judged": {judged}}}\n', 'x.jsonl')
    with pytest.raises(CorpusError, match=r'x.jsonl:1: expected (a span from 0 to 3|"judged" to be a list)'):
        read_corpus(path, splitter='blanks')


# Other schemes

def test_partly_tagged_in_another_scheme_a_tag_is_all_that_it_can_be():
    for patterns in PATTERNS:
        found = converted(opened(patterns), 'BIO', 'BIOES', 'PQ')
        possible = list(zip(*map(in_bioes, every(patterns))))
        for tag, pattern, tags in zip(found, patterns, possible):
            allowed = completions(tag, BIOES)
            assert set(tags) <= set(allowed), patterns
            kept = {one for one in allowed if matches(one.replace('S-', 'B-').replace('E-', 'I-'), pattern)}
            assert kept == set(allowed), patterns


def test_partly_tagged_the_tag_before_one_that_is_not_judged_may_be_the_last():
    found = converted(opened(['B-P', '?', 'O', 'I-P', '?-P']), 'BIO', 'BIOES', 'PQ')
    assert [set(completions(tag, BIOES)) for tag in found[:3]] == [{'B-P', 'S-P'}, set(BIOES), {'O'}]
    assert [set(completions(tag, BIOES)) for tag in converted(opened(['?', 'I-P', 'O']), 'IOB1', 'BIO', 'PQ')][1:] == [
        {'B-P'} | {'I-P'}, {'O'}]


def test_partly_tagged_what_can_be_well_formed():
    for patterns in itertools.product(['O', 'B-P', 'I-P', '?', '?-P', 'B-?'], repeat=2):
        assert fits(opened(patterns), 'BIO') == bool(every(patterns)), patterns


# Scores

def test_partly_tagged_a_span_is_certain_if_it_is_there_whatever_was_not_judged():
    for patterns in PATTERNS:
        sure = certain(opened(patterns), 'BIO')
        always = set.intersection(*map(spans, every(patterns)))
        judged = {(kind, first, last) for kind, first, last in always
                  if not any('?' in pattern for pattern in patterns[first:last + 1])}
        tags = ['O' if '?' in pattern else pattern for pattern in patterns]
        if well_formed(tags):
            assert {span for span in spans(tags) if all(sure[span[1]:span[2] + 1])} == judged, patterns


def test_partly_tagged_what_is_not_judged_does_not_count():
    gold = opened('B-P I-P O ? B-Q ? O O B-P O'.split())
    #                 found         end unknown       missed
    predicted = 'B-P I-P O B-Q B-Q I-Q B-P O O B-Q'.split()
    result = score([gold], [predicted], 'BIO')
    # Gold: P at 0-1 and P at 8. The span at 4 may continue, so it is ignored. Predicted: spans at 0-1, 6 and 9. The
    # spans at 3 and at 4-5 hold unknown tokens, so they are ignored.
    assert (result.spans.correct, result.spans.predicted, result.spans.gold) == (1, 3, 2)
    assert (result.tokens, result.correct_tokens) == (8, 5)
    plain = score([opened(['NN', '?', 'VB'])], [['NN', 'NN', 'NN']], 'plain')
    assert (plain.tokens, plain.correct_tokens, plain.spans.predicted, plain.spans.gold) == (2, 1, 2, 2)


def test_partly_tagged_the_table_says_what_does_not_count():
    scores = Scores('BIO', 'BIOES', 'x.tsv')
    scores.add([1], [opened(['B-P', '?', 'O', 'B-P'])], [['S-P', 'O', 'O', 'S-P']])
    assert scores.lines()[0].startswith('processed 3 tokens with 1 phrases; found: 1 phrases; correct: 1.')
    assert scores.lines()[-1] == '1 more tokens are not annotated and not scored, nor are spans with such tokens'
    with pytest.raises(CorpusError, match="x.tsv:1: expected plain tags, got '[?]-P', which stands for tags of spans"):
        Scores('plain', 'plain', 'x.tsv').add([1], [opened(['NN', '?-P'])], [['NN', 'NN']])


@pytest.mark.parametrize('tags,text', [
    (['O', 'B-PER'], '?'), (['B-PER', 'I-PER'], '?-PER'), (['B-LOC', 'B-PER'], 'B-?'), (['B-LOC', 'I-PER'], '?-?')])
def test_partly_tagged_marked_shows_what_several_tags_have_in_common(tags, text):
    assert marked(one_of(tags, tags_in('BIO', ['PER', 'LOC']))) == text
