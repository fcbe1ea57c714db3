"""Tests `Sentence` and `Span`: offsets in characters and tokens, text and HTML, and older attribute names."""

import pickle

from ms_crf.render.tagged import Tagged, TaggedText
from ms_crf.text.sentence import Sentence, Span

import pytest

TEXT = 'Yes. Marta Kowalski works in Lisbon. No.'
TOKENS = [(5, 10), (11, 19), (20, 25), (26, 28), (29, 35), (35, 36)]
TAGS = ['B-PER', 'I-PER', 'O', 'O', 'B-LOC', 'O']


@pytest.fixture
def placed():
    """Returns a sentence with offsets into TEXT."""
    return Sentence.of_text(TEXT, TOKENS, raw=True).predicted((TAGS, [('PER', 0, 1, .75), ('LOC', 4, 4, .5)],
                                                               [.9] * 6, .25, ()))


@pytest.fixture
def joined():
    """Returns a sentence of the same tokens without a text."""
    return Sentence(['Marta', 'Kowalski', 'works', 'in', 'Lisbon', '.'], TAGS)


def test_sentence_span_places_are_half_open_in_characters_and_in_tokens(placed, joined):
    for sentence, text in ((placed, TEXT), (joined, joined.text)):
        for span, kind, words in zip(sentence.spans, ('PER', 'LOC'), ('Marta Kowalski', 'Lisbon'), strict=True):
            assert span.type == kind and span.text == text[span.start:span.end] == words
            assert ' '.join(sentence.tokens[span.start_token:span.end_token]) == words
    assert [(span.start, span.end) for span in placed.spans] == [(5, 19), (29, 35)]
    assert [(span.start, span.end) for span in joined.spans] == [(0, 14), (24, 30)]
    assert placed.entities == placed.spans and (placed.start, placed.end) == (5, 36)
    assert [span.confidence for span in placed.spans] == [.75, .5]


def test_sentence_as_text_has_its_spans_in_brackets(placed, joined):
    assert str(joined) == '[Marta Kowalski PER] works in [Lisbon LOC] .'
    assert str(placed) == '[Marta Kowalski PER] works in [Lisbon LOC].'
    assert str(Sentence(['The', 'dog'], ['DET', 'NOUN'], [])) == 'The/DET dog/NOUN'
    assert str(Sentence(['a', 'b'])) == 'a b' and str(Sentence([])) == ''
    assert repr(joined) == "Sentence('[Marta Kowalski PER] works in [Lisbon LOC] .')"


def test_sentence_as_an_object_of_json(placed, joined):
    record = placed.to_dict()
    assert record['text'] == TEXT[5:36] and (record['start'], record['end'], record['offsets']) == (5, 36, TOKENS)
    assert record['tags'] == TAGS and record['confidence'] == .25 and record['confidences'] == [.9] * 6
    assert record['entities'][1] == {'type': 'LOC', 'text': 'Lisbon', 'first': 4, 'last': 4, 'start': 29, 'end': 35,
                                     'confidence': .5}
    assert list(joined.to_dict()) == ['text', 'tokens', 'tags', 'entities']


def test_sentence_in_a_notebook(placed, joined):
    for sentence in (placed, joined):
        assert 'Marta Kowalski <bdi' in sentence._repr_html_() and 'Lisbon <bdi' in sentence._repr_html_()


def test_sentence_with_other_tags_has_other_spans(joined):
    other = joined.replace(tags=['O'] * 4 + ['S-X', 'O'])
    assert [span.type for span in other.spans] == ['X'] and [span.type for span in joined.spans] == ['PER', 'LOC']
    moved = joined.moved(100)
    assert (moved.spans[1].start, moved.spans[1].text) == (124, 'Lisbon')


def test_sentence_can_be_copied_and_compared(placed, joined):
    again = pickle.loads(pickle.dumps(placed))
    assert again == placed and again.spans == placed.spans and again.spans[0].text == 'Marta Kowalski'
    assert placed != joined and joined == Sentence(list(joined.tokens), list(TAGS))
    assert {*placed.spans} == {*again.spans}


def test_sentence_names_of_earlier_versions(placed):
    assert Tagged is TaggedText is Sentence and placed.sentence is placed
    person = placed.spans[0]
    assert (person.first, person.last) == (0, 1) and person[:3] == ('PER', 0, 1)
    kind, first, last, confidence = person
    assert (kind, first, last, confidence) == ('PER', 0, 1, .75)
    assert placed.tokens[person.first:person.last + 1] == ['Marta', 'Kowalski']


def test_sentence_span_without_tokens_has_its_characters_alone():
    span = Span('X', 2, 4, line=3)
    assert (span.start, span.end, span.start_token, span.end_token, span.line) == (2, 4, -1, -1, 3)


def test_sentence_stays_equal_to_a_copy_when_it_is_shown():
    one, other = (Sentence(['Ada', 'flew'], ['B-PER', 'O']) for _ in range(2))
    assert one == other and str(one) == '[Ada PER] flew' and one.spans[0].text == 'Ada'
    assert one == other and one.prediction == other.prediction
