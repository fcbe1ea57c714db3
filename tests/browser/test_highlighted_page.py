"""The page of `--format html` in a browser: it shows the unchanged text and marks the predicted spans."""

import json
import random
import subprocess
import sys

from ms_crf.base.files import text_writer
from ms_crf.cli import infer
from ms_crf.formats.raw import sentence_of_text
from ms_crf.formats.registry import HTML
from ms_crf.render import tagged
from ms_crf.render.html import Mark, Page
from ms_crf.render.tagged import TaggedList, Writer
from ms_crf.text.sentence import Alternative, Sentence

import pytest

from support.pages import check_page, opened
from support.paths import ROOT

#: JavaScript: the code points of an element's text. A `.code` element counts as the character that HTML cannot
#: contain and that the element represents. Labels and figures (`.note`) are skipped, because they are not text.
CHARACTERS = """
element => {
  const found = [];
  const read = node => {
    if (node.nodeType === Node.TEXT_NODE) found.push(...Array.from(node.data, part => part.codePointAt(0)));
    else if (node.matches('.code')) found.push(parseInt(node.title.slice(2), 16));
    else if (!node.matches('.note')) node.childNodes.forEach(read);
  };
  read(element);
  return found;
}
"""
TEXTS = '.text:not(.other)'

#: text, and its spans: (type, first word, last word, confidence)
SENTENCES = [
    ('Marta  Kowalski\tlives in Lisbon .', [('PER', 0, 1, .98), ('LOC', 4, 4, .42)]),
    ('', []),
    ('<script>alert(1)</script> & "Tom" <b>Jerry</b> &amp; &#65;', [('PER', 3, 3, .5)]),
    ('123 عمر يعيش في القاهرة', [('PER', 1, 1, .9), ('LOC', 4, 4, .07)]),
    ('אני גר ב-New York היום \u202eoverride', [('LOC', 2, 3, .6)]),
    ('😀 👩‍👩‍👧 New York 🗽 e\u0301 zero\u200bwidth no\xa0break \u2028 \ufffe', [('LOC', 2, 3, 1.0)]),
    ('line\r\nends \r and\n\n more', [('PER', 1, 2, .3)]),
    ('nul \x00 bell \x07 escape \x1b[31m delete \x7f c1 \x85 lone \ud83d surrogate \udc00', [('PER', 0, 1, .8)]),
    ('a' * 300 + ' ' + 'b' * 300, [('LOC', 0, 1, .77)]),
]
TAGS = ['O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER']


def tags_of(words, spans):
    tags = ['O'] * words
    for kind, first, last, *_ in spans:
        tags[first:last + 1] = [f'B-{kind}'] + [f'I-{kind}'] * (last - first)
    return tags


def write_page(path, writer, items, tagged, title='Tagged text'):
    with text_writer(path) as write:
        write(writer.begin(title))
        for item, sentence in zip(items, tagged, strict=True):
            write(writer.lines(item.predicted(sentence.prediction)))
        write(writer.end())
    return path


def characters(page, selector=TEXTS):
    return [found.evaluate(CHARACTERS) for found in page.locator(selector).element_handles()]


def numbers(texts):
    return [list(map(ord, text)) for text in texts]


@pytest.fixture(scope='module')
def names(tmp_path_factory):
    """A page with named entities, confidences and two alternative taggings of each sentence."""
    items = [sentence_of_text(text, False) for line, (text, _) in enumerate(SENTENCES, 1)]
    tagged = []
    for item, (_, spans) in zip(items, SENTENCES):
        words, tags = len(item.tokens), tags_of(len(item.tokens), spans)
        others = (Alternative(tags, .75), Alternative(['O'] * words, .125)) if words else (Alternative([], 1.0),)
        tagged.append(Sentence(item.tokens, tags, spans, [.5] * words, .75, others))
    return write_page(tmp_path_factory.mktemp('page') / 'names.html', Writer(HTML, 'BIO', TAGS, confidence=True),
                      items, tagged, '<i>news</i> & "more".txt')


@pytest.mark.slow
def test_highlighted_page_the_page_of_names_is_sound(browser, names):
    check_page(browser, names)


def test_highlighted_page_every_character_of_the_text_is_there(browser, names):
    with opened(browser, names) as page:
        assert characters(page) == numbers(text for text, _ in SENTENCES)
        assert characters(page, '.other') == numbers(text for text, _ in SENTENCES if text for _ in range(2))
        assert page.locator('script, b, i').count() == 0
        assert page.title() == page.locator('h1').inner_text() == '<i>news</i> & "more".txt'


def test_highlighted_page_any_characters_of_unicode_are_there(browser, tmp_path):
    """Random texts with characters of all planes, control characters, surrogates and markup arrive unchanged.

    A part of each text is marked; the marked part must be exact, too.
    """
    rng = random.Random(15)
    pieces = ['<', '>', '&', '&lt;', '&#0;', '</p>', '<!--', '-->', ']]>', '"', "'", '\r', '\n', '\r\n', '\t', ' ',
              '\x00', '\u202e', '\u2067', '\ufeff', '\ud800']
    texts = [''.join(rng.choice(pieces) if rng.random() < .3 else chr(rng.randrange(1 << rng.randint(5, 20)))
                     for _ in range(rng.randint(1, 20))) for _ in range(400)]
    page = Page(['X'])
    with text_writer(tmp_path / 'any.html') as write:
        write(page.begin('any'))
        for text in texts:
            write(page.sentence(text, [Mark(len(text) // 3, len(text) // 2 + 1, 'X')]))
        write(page.end())
    with opened(browser, tmp_path / 'any.html') as page:
        found = page.locator(TEXTS).evaluate_all(f'all => all.map({CHARACTERS})')
        marked = page.locator(f'{TEXTS} mark').evaluate_all(f'all => all.map({CHARACTERS})')
    assert found == numbers(texts)
    assert marked == numbers(text[len(text) // 3:len(text) // 2 + 1] for text in texts)


def test_highlighted_page_names_are_marked_with_type_and_confidence(browser, names):
    expected = []
    for text, spans in SENTENCES:
        words = sentence_of_text(text, False)
        for kind, first, last, confidence in spans:
            begin, end = words.offsets[first][0], words.offsets[last][1]
            expected.append((list(map(ord, text[begin:end])), f'{kind}, confidence {confidence:.4f}',
                             f'{kind}\xa0{confidence:.2f}'))
    with opened(browser, names) as page:
        marks = page.locator(f'{TEXTS} mark')
        notes = marks.evaluate_all("all => all.map(mark => [...mark.querySelectorAll('.note')].map("
                                   "note => note.textContent).join(''))")
        titles = marks.evaluate_all('all => all.map(mark => mark.title)')
        assert list(zip(characters(page, f'{TEXTS} mark'), titles, notes)) == expected


def test_highlighted_page_lines_and_blanks_are_seen_as_they_are(browser, names):
    with opened(browser, names) as page:
        heights = page.locator(TEXTS).evaluate_all('all => all.map(each => each.getBoundingClientRect().height)')
        line = heights[0]
        assert heights[1] == line                                # an empty line
        assert heights[6] == 5 * line                            # \r\n, \r, \n and \n separate five lines
        assert page.locator(TEXTS).nth(0).inner_text().startswith('Marta  Kowalski')
        directions = page.locator(TEXTS).evaluate_all('all => all.map(each => getComputedStyle(each).direction)')
        assert directions == ['rtl' if index in (3, 4) else 'ltr' for index in range(len(SENTENCES))]


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_highlighted_page_a_type_has_one_colour_and_confidence_is_its_strength(browser, names, scheme):
    with opened(browser, names, scheme=scheme) as page:
        marks = page.locator('mark').evaluate_all(
            "all => all.map(mark => [(mark.querySelector('.note:not(.figure)') ?? mark).textContent, mark.title,"
            " getComputedStyle(mark).backgroundColor])")
        legend = {label: colour for label, title, colour in marks if not title}
        assert set(legend) == {'LOC', 'PER'} and len(set(legend.values())) == 2
        for label, title, colour in marks:
            parts = [float(part) for part in colour.strip('rgba()').split(',')]
            strength = parts[3] if len(parts) == 4 else 1.0
            assert parts[:3] == [float(part) for part in legend[label].strip('rgb()').split(',')]
            figure = float(title.split()[-1]) if 'confidence' in title else 1.0
            assert strength == pytest.approx(figure, abs=.026)   # strengths have steps of 1/20
        names_in_legend = page.get_by_role('list', name='Types').get_by_role('listitem')
        assert names_in_legend.all_inner_texts() == ['LOC', 'PER']


def test_highlighted_page_figures_are_shown_and_folded_away_by_the_keyboard(browser, names):
    with opened(browser, names) as page:
        figure = page.locator(f'{TEXTS} .figure').first
        assert figure.bounding_box()['width'] <= 1
        assert '0.98' in page.locator(TEXTS).first.aria_snapshot()          # screen readers read this tree
        page.keyboard.press('Tab')
        page.keyboard.press('Space')
        assert figure.bounding_box()['width'] > 10 and figure.inner_text().strip() == '0.98'
        assert page.locator('.other').first.is_hidden()
        page.keyboard.press('Tab')
        page.keyboard.press('Enter')
        assert page.locator('.other').first.is_visible()
        assert page.locator('details').count() == len([text for text, _ in SENTENCES if text])
        shown = page.locator('details').first.locator('li')
        assert [text.split()[0] for text in shown.all_inner_texts()] == ['0.7500', '0.1250']
        assert [item.locator('mark').count() for item in shown.all()] == [2, 0]


def test_highlighted_page_what_is_copied_is_the_text_without_labels(browser, names):
    with opened(browser, names) as page:
        copied = page.locator(TEXTS).first.evaluate(
            'element => {getSelection().selectAllChildren(element); return getSelection().toString()}')
        assert copied == SENTENCES[0][0]


@pytest.mark.slow
def test_highlighted_page_plain_tags_stand_at_each_word(browser, tmp_path):
    tags = ['DET', '<NOUN>', '.', 'NOUN', 'VERB', 'X-Y']
    item = sentence_of_text('The  dog barks .', False)
    tagged = Sentence(item.tokens, ['DET', '<NOUN>', 'VERB', '.'], [], [.9, .8, .7, 1.0], .5)
    path = write_page(tmp_path / 'tags.html', Writer(HTML, 'plain', tags, confidence=True), [item], [tagged])
    check_page(browser, path)
    with opened(browser, path) as page:
        assert characters(page) == numbers(['The  dog barks .'])
        found = page.locator(f'{TEXTS} .m')
        assert numbers(item.tokens) == characters(page, f'{TEXTS} .m')
        assert [title for title in found.evaluate_all('all => all.map(each => each.title)')] == [
            'DET, confidence 0.9000', '<NOUN>, confidence 0.8000', 'VERB, confidence 0.7000', '., confidence 1.0000']
        assert page.get_by_role('list', name='Tags').get_by_role('listitem').all_inner_texts() == sorted(tags)


@pytest.mark.slow
def test_highlighted_page_words_of_chinese_are_set_apart(browser, tmp_path):
    item = sentence_of_text('中文分词 很好用', True)
    tagged = Sentence(item.tokens, list('BEBESBE'), [('', 0, 1), ('', 2, 3), ('', 4, 4), ('', 5, 6)])
    path = write_page(tmp_path / 'words.html', Writer(HTML, 'BMES', list('BMES'), characters=True), [item], [tagged])
    check_page(browser, path)
    with opened(browser, path) as page:
        assert characters(page) == numbers(['中文分词 很好用'])
        marks = page.locator(f'{TEXTS} mark')
        assert marks.all_inner_texts() == ['中文', '分词', '很', '好用']
        boxes = [mark.bounding_box() for mark in marks.all()]
        assert all(left['x'] + left['width'] < right['x'] for left, right in zip(boxes, boxes[1:]))
        assert page.locator('.note, .legend, input, details').count() == 0


@pytest.mark.slow
def test_highlighted_page_forty_types_are_readable(browser, tmp_path):
    types = [f'TYPE{number:03}' for number in range(40)]
    item = sentence_of_text(' '.join(types), False)
    tagged = Sentence(item.tokens, [f'B-{kind}' for kind in types],
                    [(kind, index, index, index / 39) for index, kind in enumerate(types)])
    tags = ['O', *(f'B-{kind}' for kind in types), *(f'I-{kind}' for kind in types)]
    path = write_page(tmp_path / 'many.html', Writer(HTML, 'BIO', tags, confidence=True), [item], [tagged])
    check_page(browser, path)
    with opened(browser, path) as page:
        colours = page.locator('.legend mark').evaluate_all('all => all.map(each => getComputedStyle(each).background)')
        assert len(colours) == 40 and len(set(colours)) > 30     # checksums of names may collide


@pytest.mark.slow
def test_highlighted_page_the_command_makes_the_page(browser, hmm, tmp_path):
    """`infer.py --format html` marks the same entities as `--format json` lists.

    The model is a hidden Markov model, which computes confidences but no n-best taggings.
    """
    lines = ['of Xan  Yel', '', '<script>alert(1)</script>\tof Xor Yan', 'of ☃']
    source, path = tmp_path / 'in.txt', tmp_path / 'out.html'
    source.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    assert infer.main(['--run', str(hmm), '--input', str(source), '--format', 'html', '--output', str(path)]) == 0
    expected = subprocess.run([sys.executable, 'infer.py', '--run', str(hmm), '--input', str(source), '--format',
                               'json'], cwd=ROOT, capture_output=True, text=True, timeout=100).stdout
    entities = [entity for line in expected.splitlines() for entity in json.loads(line)['entities']]
    check_page(browser, path)
    with opened(browser, path) as page:
        assert page.title() == 'in.txt'
        assert characters(page) == numbers(lines)
        assert characters(page, f'{TEXTS} mark') == numbers(entity['text'] for entity in entities) != []
        assert page.locator(f'{TEXTS} mark').evaluate_all('all => all.map(mark => mark.title)') == [
            f'{entity["type"]}, confidence {entity["confidence"]:.4f}' for entity in entities]


@pytest.mark.slow
def test_highlighted_page_what_a_notebook_shows_is_a_fragment_of_its_own(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(tagged, 'SHOWN', 7)
    names = Sentence(['<b>Tom</b>', 'lives', 'in', 'New', 'York'], tags_of(5, [('LOC', 3, 4)]), [('LOC', 3, 4, .83)])
    plain = Sentence(['The', 'dog'], ['DET', 'NOUN'], [], [.25, 1.0], .2)
    arabic = Sentence(['في', 'القاهرة'], ['O', 'B-LOC'], [('LOC', 1, 1)])
    path = tmp_path / 'notebook.html'
    # Like a notebook, this page has its own styles for a light and a dark scheme.
    shown = ''.join(each._repr_html_() for each in (names, plain, arabic, Sentence([], [], [])))
    results = TaggedList([names] * 12)._repr_html_()
    path.write_text('<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>A notebook</title>'
                    '<meta name="viewport" content="width=device-width"><style>:root {color-scheme: light dark}</style>'
                    f'<main><h1>A notebook</h1>{shown}<section>{results}</section></main>', encoding='utf-8')
    check_page(browser, path)
    with opened(browser, path) as page:
        shown = page.locator('main > div')
        assert shown.all_inner_texts() == ['<b>Tom</b> lives in New York LOC 0.83', 'The DET 0.25 dog NOUN 1.00',
                                           'في القاهرة LOC', '']
        assert [each.evaluate('each => getComputedStyle(each).direction') for each in shown.all()][:3] == [
            'ltr', 'ltr', 'rtl']
        lines = page.locator('section').inner_text().split('\n')
        assert [line for line in lines if line] == ['<b>Tom</b> lives in New York LOC 0.83'] * 7 + [
            '5 more not shown']
        marked = page.locator('main > div [title]')
        assert marked.evaluate_all('all => all.map(each => each.title)') == [
            'LOC, confidence 0.8300', 'DET, confidence 0.2500', 'NOUN, confidence 1.0000', 'LOC']
        colours = marked.evaluate_all('all => all.map(each => getComputedStyle(each).backgroundColor)')
        assert len(set(colours)) == 4                            # LOC has two strengths
    assert repr([plain]) == f'[{plain!r}]'
