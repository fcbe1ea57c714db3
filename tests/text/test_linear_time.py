"""Tests that splitting raw text, and aligning spans with tokens, take linear time for any text.

The tests compare the processor time of a text with the processor time of its first eighth. Linear time gives a ratio of
8, and quadratic time a ratio of 64. The limit of 20 is far from both.

The test makes up to five measurements, and a text passes with the first good ratio. Each measurement uses the smallest
times so far, so other work on the machine cannot make a test fail.
"""

import gc
import random
import string
import time

from ms_crf.formats import raw
from ms_crf.formats.alignment import tagged
from ms_crf.formats.document import SHOWN, Document, Remarks
from ms_crf.text.prose import LONGEST_WORD, Prose
from ms_crf.text.sentence import Span
from ms_crf.text.splitting import splitter_named

import pytest

GROWTH, LIMIT, ATTEMPTS = 8, 20, 5
SIZE = 12 * LONGEST_WORD
PUNCTUATION = string.punctuation + '“”‘’«»‹›„…—–·¿¡。、，！？；：「」『』【】（）《》€£¥°©™\U0001f600\u200b\0'
UNITS = {                              # each text repeats a string
    'smileys': ':-)', 'shouts': '!?', 'lines and stars': '-=_*', 'genitives': "'s", 'contractions': "don't",
    'addresses': 'http://a.org/x?y=1&z=2 ', 'joined addresses': 'http://a.org/x?y=1,', 'passwords': 'a:b@',
    'ports': 'a:', 'users': '://a@b.c', 'labels': 'a' * 63 + '.', 'domains': 'a.b.', 'numbers': '1.2,',
    'telephones': '212-555-', 'hashtags': '#' + 'a' * 500 + '(' * 500, 'dots and brackets': '.' * 13 + ')',
    'prefixes': 'non-', 'slashes': 'b/c/', 'brackets in words': 'a)(', 'long word': 'a', 'digits': '7',
    'marks': 'e' + '\u0301' * 9, 'only marks': '\u0301',
    'joiners': '\U0001f469\u200d', 'colours': '\U0001f44d\U0001f3fd', 'spaces': ' ', 'tabs': '\t', 'line ends': '\r\n',
    'no-break spaces': '\u00a0', 'indented': '\n' + ' ' * 1000, 'paragraphs': 'a\n\n', 'lines': 'a.\n',
    'sentences': 'Go. ', 'openings': 'Go. ("', 'units': '5km', 'dollars': '$1', 'Chinese': '今天天气很好。',
    'html': '<b>x</b>', 'halves of pairs': '\ud83d', 'quotation marks': '"(a)" '}
ALPHABETS = {'random punctuation': PUNCTUATION, 'random ASCII': ''.join(map(chr, range(32, 127))),
             'base64': string.ascii_letters + string.digits + '+/',
             'random blanks': ' \t\n\r\u00a0\u3000\u2028\x85\x0b',
             'random Unicode': ''.join(map(chr, [*range(32, 0x3000), *range(0x1f300, 0x1fa00)]))}


def repeated(unit, size):
    return (unit * (size // len(unit) + 1))[:size]


def of_alphabet(alphabet, size):
    return ''.join(random.Random(size).choices(alphabet, k=size))


def cold(name):
    """Returns a splitter without a cache of words."""
    if not name.startswith('spacy-'):
        return splitter_named(name)
    pytest.importorskip('spacy')
    splitter = Prose(name.removeprefix('spacy-'))
    splitter._library.tokenizer.max_cache_size = 0
    return splitter


def seconds(work, argument):
    gc.disable()
    try:
        began = time.process_time()
        work(argument)
        return time.process_time() - began
    finally:
        gc.enable()


def ratio(work, small, large):
    """Returns the time of a call for the large argument, divided by the time for the small argument.

    If time is linear, the ratio is at most LIMIT.
    """
    best = [float('inf'), float('inf')]
    for _ in range(ATTEMPTS):
        best = [min(before, seconds(work, argument)) for before, argument in zip(best, (small, large))]
        if best[1] <= LIMIT * best[0]:
            break
    return best[1] / best[0]


def grows_too_fast(work, text):
    return ratio(work, text[:len(text) // GROWTH], text) > LIMIT


@pytest.fixture(scope='module')
def english():
    return cold('spacy-en')


@pytest.mark.slow
def test_linear_time_runs_of_each_punctuation_character(english):
    assert not [character for character in PUNCTUATION if grows_too_fast(english.split, repeated(character, SIZE))]


@pytest.mark.slow
@pytest.mark.parametrize('name', ['spacy-en', 'spacy-de', 'spacy-fr', 'spacy-zh', 'blanks', 'characters+words'])
def test_linear_time_texts_of_all_kinds(name):
    splitter = cold(name)

    def items(text):
        return sum(1 for _ in raw.raw_sentences([(1, text)], splitter))

    texts = {kind: repeated(unit, SIZE) for kind, unit in UNITS.items()}
    texts.update({kind: of_alphabet(alphabet, SIZE) for kind, alphabet in ALPHABETS.items()})
    assert not [kind for kind, text in texts.items() if grows_too_fast(items, text)]


@pytest.mark.slow
def test_linear_time_line_numbers_of_many_sentences():
    def items(text):
        return sum(1 for _ in raw.raw_sentences([(1, text)], splitter_named('characters')))

    assert not grows_too_fast(items, repeated('今。\n', 240_000))


def spans_everywhere(count):
    """Returns a document of one word per line, with repeated and crossing spans and with annotated parts."""
    text = 'word\n' * count
    spans = [Span('A', 5 * index, 5 * index + 4, line=1) for index in range(count)]
    spans += [Span('B', 0, 5 * (count // 2) + index % 5, line=1) for index in range(count)]
    return Document(text, 'a.ann', 1, spans, annotated=[(5 * index, 5 * index + 4) for index in range(0, count, 2)],
                    by_line=True)


def test_linear_time_spans_on_tokens():
    """Checks the time of aligning spans, and the size of the remarks.

    A remark about a long overlapping span must not hold the whole text of the span.
    """
    remarks, splitter = Remarks('a.ann'), splitter_named('blanks')
    assert ratio(lambda document: tagged(document, splitter, remarks.add), spans_everywhere(1000),
                 spans_everywhere(1000 * GROWTH)) <= LIMIT
    assert max(len(remark.text) for remark in remarks.all) == SHOWN + 1


def test_linear_time_long_words_are_cut_after_signs_and_before_no_mark():
    pytest.importorskip('spacy')
    splitter = splitter_named('spacy-en')
    text = 'x' * (LONGEST_WORD - 5) + '+' + 'y' * 100 + ' ' + 'e\u0301' * LONGEST_WORD + ' end'
    tokens = [text[begin:end] for sentence in splitter.split(text) for begin, end in sentence.offsets]
    assert ''.join(tokens) == text.replace(' ', '') and max(map(len, tokens)) <= LONGEST_WORD
    assert tokens[:2] == ['x' * (LONGEST_WORD - 5) + '+', 'y' * 100] and tokens[-1] == 'end'
    assert not any(token.startswith('\u0301') for token in tokens)
    assert [sentence.offsets for sentence in splitter.split('!' * 5 * LONGEST_WORD)] == [[(0, 5 * LONGEST_WORD)]]


@pytest.mark.slow
@pytest.mark.parametrize('language', ['de', 'el', 'fr', 'hu', 'ro', 'xx'])
def test_linear_time_tokens_are_those_of_the_library(language):
    """Compares tokens with spaCy's tokenizer, for texts with short and long words.

    The only difference is that a run of one punctuation character is joined into one token.
    """
    spacy = pytest.importorskip('spacy')
    library, splitter = spacy.blank(language).tokenizer, splitter_named(f'spacy-{language}')
    generator = random.Random(1)
    pieces = ['a', 'Ab', '5', '12', '.', ',', "'s", '(', ')', '"', 'km', '...', '-', '@', ':', '/', 'http://a.de', "l'",
              '%', '$', 'é', 'α', '。', '\U0001f600', ' ', ' ']
    for size in [3] * 300 + [30] * 100 + [300] * 10:
        text = ''.join(generator.choices(pieces, k=size))
        expected = [(token.idx, token.idx + len(token)) for token in library(text) if not token.is_space]
        tokens = [token for sentence in splitter.split(text) for token in sentence.offsets]
        joined = set(tokens) - set(expected)
        begins, ends = ({token[side] for token in expected} for side in (0, 1))
        assert all(begin in begins and end in ends and len(set(text[begin:end])) == 1 for begin, end in joined)
        apart = [token for token in expected if not any(begin <= token[0] < end for begin, end in joined)]
        assert apart == [token for token in tokens if token not in joined]
