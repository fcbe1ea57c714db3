"""The HTML source of pages and fragments: escaping, colours, and the content security policy."""

import base64
import copy
import hashlib
import html
import json
import pickle
import re
from html.parser import HTMLParser
from itertools import combinations

from ms_crf.formats.registry import CONLL, JSON, TEXT
from ms_crf.render.html import (
    COLOURS,
    LEVELS,
    PAGE,
    TAGS,
    WORDS,
    Mark,
    Page,
    colour,
    colour_of,
    colour_rules,
    escaped,
    fragment,
    number_of,
)
from ms_crf.render.tagged import SHOWN, TaggedList, Writer
from ms_crf.text.sentence import Sentence

import pytest

from support.properties import given, settings
from support.properties import strategies as st

quick = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def luminance(rgb):
    """The relative luminance of a colour, as WCAG 2.1 defines it."""
    red, green, blue = (part / 12.92 if part <= .04045 else ((part + .055) / 1.055) ** 2.4
                        for part in (part / 255 for part in rgb))
    return .2126 * red + .7152 * green + .0722 * blue


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + .05) / (dark + .05)


@pytest.mark.parametrize('dark', [False, True])
def test_html_text_can_be_read_on_every_colour_at_every_strength(dark):
    """Text has a contrast of at least 4.5 on every colour, computed from the WCAG formula.

    Contrast is monotonic between the background and the full colour, so a few levels of each colour are enough.
    """
    ground, ink = PAGE[dark]
    assert contrast(ground, ink) >= 4.5
    for number in range(COLOURS):
        for level in (1, LEVELS // 2, LEVELS):
            mixed = [level / LEVELS * top + (1 - level / LEVELS) * below
                     for top, below in zip(colour_of(number, dark), ground)]
            assert contrast(mixed, ink) >= 4.5, (number, level)


USUAL = ['PER LOC ORG MISC', 'person location group corporation product creative-work', 'PER LOC ORG PROD',
         'PERSON ORG GPE LOC DATE MONEY', 'NP VP PP ADVP ADJP SBAR', 'NOUN VERB ADJ ADV PRON DET ADP PUNCT']
MANY = ['CARDINAL DATE EVENT FAC GPE LANGUAGE LAW LOC MONEY NORP ORDINAL ORG PERCENT PERSON PRODUCT QUANTITY TIME '
        'WORK_OF_ART', 'ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X']


@pytest.mark.parametrize('dark', [False, True])
@pytest.mark.parametrize('labels', USUAL + MANY)
def test_html_labels_of_usual_corpora_have_colours_at_a_distance(labels, dark):
    colours = [colour(label, dark) for label in labels.split()]
    distances = [sum((a - b) ** 2 for a, b in zip(one, other)) ** .5 for one, other in combinations(colours, 2)]
    assert min(distances) > (20 if labels in USUAL else 15) * (1 if dark else 1.5)


@quick
@given(label=st.text(max_size=8))
def test_html_any_label_has_a_colour_of_the_palette(label):
    assert 0 <= number_of(label) < COLOURS
    assert colour(label) == colour_of(number_of(label), False)


def test_html_a_type_has_one_colour_whatever_other_types_are_there():
    """The colour of a type is the same on pages, in reports (which use `colour_rules`) and in notebooks."""
    def background(style, index):
        return re.findall(rf'\.t{index}{{--c:([^;]*);', style)          # light, dark
    expected = [' '.join(map(str, colour('MISC', dark))) for dark in (False, True)]
    for labels in (['MISC'], ['LOC', 'MISC'], [*'abcdefghij', 'MISC', 'PER']):
        assert background(colour_rules(labels), labels.index('MISC')) == expected
        assert background(Page(labels).style(), labels.index('MISC')) == expected
    shown = re.search(r'background:rgb\(([^)]*)\)', fragment('a', [Mark(0, 1, 'MISC')])).group(1)
    assert shown.replace(',', ' ') == expected[0]


class Characters(HTMLParser):
    """The text that the standard library's HTML parser finds in HTML, as an independent oracle.

    A `.code` element counts as the character that it represents.
    """

    def __init__(self, text):
        super().__init__()
        self.found, self.elements, self.code = [], [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        if ('class', 'code') in attributes:
            self.code = True
            self.found.append(chr(int(dict(attributes)['title'][2:], 16)))

    def handle_endtag(self, tag):
        self.code = False

    def handle_data(self, data):
        if not self.code:
            self.found.append(data)


@quick
@given(text=st.text(st.one_of(st.characters(), st.sampled_from('<>&"\'\r\n\x00\ud800;#x/')), max_size=30))
def test_html_escaped_text_is_the_same_text_and_no_element(text):
    # Browsers decode &#13; as a carriage return, so it is replaced here before parsing.
    found = Characters(escaped(text).replace('&#13;', '\r'))
    assert ''.join(found.found) == text
    assert set(found.elements) <= {'span', 'br'}
    assert not re.search('[\x00\x07\x85\ud800-\udfff]', escaped(text))


def test_html_what_stands_for_characters_that_html_lacks():
    assert escaped('a<b>&"c"') == 'a&lt;b&gt;&amp;&quot;c&quot;'
    assert escaped('\x00') == '<span class="code" title="U+0000">U+0000</span>'
    assert escaped('\ud83d') == '<span class="code" title="U+D83D">U+D83D</span>'
    assert escaped('a\r\nb\rc\nd\te') == 'a&#13;\nb&#13;<br>c\nd\te'
    assert escaped('😀 ب \u202e e\u0301') == '😀 ب \u202e e\u0301'


def test_html_a_page_allows_its_own_style_and_nothing_else():
    page = Page(['LOC', 'PER'], confidence=True)
    text = page.begin('a "b" <c>\x00') + page.sentence('in Oslo', [Mark(3, 7, 'LOC', .5)], .5) + page.end()
    policy = html.unescape(re.search('Content-Security-Policy" content="([^"]*)"', text).group(1))
    style = re.search('<style>(.*?)</style>', text, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.split('; ')[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert not re.search(r'<script|\bstyle="|\bon\w+=|url\(|@import|https?:', text)
    assert '<title>a &quot;b&quot; &lt;c&gt;U+0000</title>' in text


def test_html_a_page_without_confidences_does_not_speak_of_them():
    for kind in (TAGS, WORDS, 'spans'):
        page = Page(['X', ''], kind)
        text = page.begin('a') + page.sentence('b c', [Mark(0, 1, 'X'), Mark(2, 3, '')]) + page.end()
        assert 'onfidence' not in text


def test_html_other_formats_have_nothing_before_and_after():
    for kind in (TEXT, CONLL, JSON):
        writer = Writer(kind, 'BIO', ['O', 'B-X', 'I-X'])
        assert (writer.begin('a'), writer.end()) == ('', '')


def test_html_a_label_has_one_colour_in_all_fragments():
    one, other = (re.findall('background:([^;]*)', fragment(text, [Mark(0, 1, 'PER'), Mark(2, 3, 'LOC')]))
                  for text in ('a b', 'c d e'))
    assert one == other and len(set(one)) == 2


@quick
@given(text=st.text(min_size=3, max_size=12), label=st.text(max_size=5), confidence=st.one_of(
    st.none(), st.floats(0, 1)), data=st.data())
def test_html_fragments_hold_any_text_and_label(text, label, confidence, data):
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    found = Characters(fragment(text, [Mark(begin, end, label, confidence)]).replace('&#13;', '\r'))
    assert set(found.elements) <= {'div', 'span', 'bdi', 'br'}
    assert ''.join(found.found).startswith(text[:end]) and ''.join(found.found).endswith(text[end:])


SENTENCE = Sentence(['<b>', 'Tom', 'Yel'], ['O', 'B-<i>', 'I-<i>'], [('<i>', 1, 2, .5)], [.5] * 3, .5)
IN_TEXT = SENTENCE.replace(text='<b>Tom  Yel', start=10, offsets=[(10, 13), (13, 16), (18, 21)])


def shown(result):
    """The text that a notebook shows for a result, without labels."""
    return ''.join(Characters(re.sub('<bdi.*?</bdi>', '', result._repr_html_())).found)


def test_html_sentences_of_a_text_are_shown_as_they_stand_in_it():
    """Adjacent tokens have no space between them; any other gap in the text becomes one space."""
    assert shown(SENTENCE) == '<b> Tom Yel ' and shown(IN_TEXT) == '<b>Tom Yel '
    assert re.search('<span [^>]*>Tom Yel <bdi[^>]*>&lt;i&gt; 0.50</bdi></span>', IN_TEXT._repr_html_())
    assert shown(Sentence([], [], [], text='')) == ''
    plain = Sentence(['a', 'b'], ['DET', 'NOUN'], [], text='ab', offsets=[(0, 1), (1, 2)])
    assert 'NOUN</bdi>' in plain._repr_html_()


@pytest.mark.parametrize('count', [0, 1, SHOWN - 1, SHOWN, SHOWN + 1, SHOWN + 4321])
def test_html_a_long_list_is_shown_in_part(count):
    result = TaggedList([SENTENCE, IN_TEXT][index % 2] for index in range(count))
    parts = Characters(result._repr_html_())
    assert parts.elements.count('bdi') == min(count, SHOWN)
    assert set(parts.elements) <= {'div', 'span', 'bdi', 'p'}
    more = re.findall('<p>(.*)</p>', result._repr_html_())
    assert more == ([] if count <= SHOWN else [f'{count - SHOWN:,} more not shown'])


def test_html_a_list_of_results_is_a_list():
    plain = [SENTENCE, SENTENCE]
    result = TaggedList(plain)
    assert isinstance(result, list) and result == plain and plain == result and repr(result) == repr(plain)
    assert result[:1] == plain[:1] and result + plain == plain * 2 and sorted(result, key=str) == sorted(plain, key=str)
    assert json.loads(json.dumps([each.to_dict() for each in result]))[1]['tokens'] == SENTENCE.tokens
    for copied in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert copied == plain and type(copied) is TaggedList
    result.append('<script>')                                     # items that are not results are escaped
    assert "'<script>'" in shown(result) and '<script' not in result._repr_html_()
    assert not hasattr(result, '__dict__')
