"""Fuzzing of all splitters for benchmarks/fuzz.py with hostile text; results are checked against general rules."""

import itertools
import re
import unicodedata

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.formats import raw
from ms_crf.formats.lines import numbered, open_lines
from ms_crf.text.splitting import splitter_named

from fuzz_material import check

SPLITTERS = ['blanks', 'characters', 'characters+words', 'spacy-en', 'spacy-en', 'spacy-de', 'spacy-fr', 'spacy-zh']
BLANKS = [' ', '  ', '\t', '\n', '\n\n', '\r\n', '\r', '\n \t\n', '\u00a0', '\u3000', '\u2028', '\u2029', '\x85',
          '\x0b', '\x0c', '\x1c', '\x1f', '\u200b', '\ufeff', '\u2009']
PUNCTUATION = [*'.,;:!?-–—=_*~#+/\\|&%$@^`\'"“”‘’«»„()[]{}<>…。！？、，「」『』（）·•', '...', '?!', '--', "''", '``', '://']
MARKS = ['\u0301', '\u0308', '\u0327', '\u20dd', '\u200d', '\ufe0f', '\U0001f3fb', '\u0e31', '\u093f',
         '\u05b0', '\u064b']
WORDS = ['a', 'Ada', "don't", "can't've", 'gimme', 'wanna', "'tis", 'U.S.', 'Ph.D.', 'e.g.', 'No.', 'e-mail', 'non-EU',
         'and/or', 'w/o', '@you', '#tag', 'a@b.com', 'http://a.b/c?d=e#f', 'www.a.com', '3.14', '1,000', '12:30', '5km',
         '£5', '$US', '+1-800-555-1234', '2026-11-20', '10-20', 'x-y-z', 'AC/DC', ':-)', ':D', '<3', 'Łódź', 'Москва',
         'Ελλάδα', '北京', '我爱北京。', '東京都', 'ひらがな', 'カタカナ', '한국어', 'ไทย', 'हिन्दी', 'مرحبا', 'שלום',
         '😀', '👩\u200d👩\u200d👧', '👍🏽', '🇩🇪', 'ﬁ', '①', '\ud800', '\udfff', '\0', '\x1b', '\x7f', '\u202e',
         '\uffff', '\U0010ffff', '\u00ad', '½', '\u180e', '\u2060', 'a\u0301', 'ǅ', 'İ', 'ß']
SIZES = [1, 1, 2, 3, 7, 40]


def piece(rng, longest):
    """A random piece of text: a word, repeated or mixed punctuation, combining marks, whitespace, or any Unicode."""
    size = rng.choice([*SIZES, *SIZES, *SIZES, longest])
    kind = rng.randrange(10)
    if kind < 3:
        return rng.choice(WORDS)
    if kind == 3:
        return rng.choice(PUNCTUATION) * size
    if kind == 4:
        return ''.join(rng.choices(PUNCTUATION, k=size))
    if kind == 5:
        return rng.choice(['a', 'क', '字', '😀', '', ' ']) + ''.join(rng.choices(MARKS, k=size))
    if kind == 6:
        return rng.choice(BLANKS) * size
    if kind == 7:
        return ''.join(chr(rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x110000)]))
                       for _ in range(size))
    if kind == 8:
        return rng.choice(['', '-', '/', "'", '.', ',']).join(rng.choices(WORDS, k=min(size, 200)))
    return rng.choice(WORDS) * min(size, 300)


def hostile(rng, longest=3000):
    """Returns a text of random pieces, some separated by spaces."""
    pieces = [piece(rng, longest) for _ in range(rng.choice([1, 2, 5, 12, 30]))]
    return ''.join(part + rng.choice(['', '', ' ', ' ', rng.choice(BLANKS)]) for part in pieces)[:20 * longest]


class Texts:
    """Cases of raw text.

    Args:
        material: provides words and writes files.
    """

    refusals = CorpusError, OptionError

    def __init__(self, material):
        self.material = material
        self.cases = [self.split_text, self.split_text, self.read_raw, self.split_prose]

    def split_text(self, rng):
        self._split(hostile(rng), rng.choice(SPLITTERS))

    def split_prose(self, rng):
        """Splits text of ordinary words with a few odd pieces."""
        words = [rng.choice(self.material.words) if rng.random() < 0.95 else piece(rng, 100) for _ in range(200)]
        self._split(' '.join(words), rng.choice(SPLITTERS))

    def read_raw(self, rng):
        """Reads a file as `--raw` does: the items must spell the whole file, and offsets must point to the tokens."""
        text = hostile(rng, 500).encode('utf-8', 'replace').decode()
        path = self.material.file('raw.txt', text.encode())
        lines = numbered(open_lines(path, True), path, True, lambda _: None, True)
        items = list(raw.raw_sentences(lines, splitter_named(rng.choice(SPLITTERS))))
        check(''.join(item.text for item in items) == text, 'the texts of the items are not the text')
        check([item.start for item in items] == [0, *itertools.accumulate(len(item.text) for item in items)][:-1],
              'offsets of items are not the sums of the lengths of the texts before them')
        for item in items:
            for token, (start, end) in zip(item.tokens, item.offsets, strict=True):
                check(text[start:end] == token, f'{token!r} is not at {start} of {text!r}')
            if item.tokens:
                begin = item.offsets[0][0]
                check(item.line == 1 + text.count('\n', 0, begin), f'line {item.line} of {item.tokens[0]!r} at {begin}')

    def _split(self, text, name):
        sentences = splitter_named(name).split(text)
        tokens = [token for sentence in sentences for token in sentence.offsets]
        before = 0
        for start, stop in tokens:
            check(before <= start < stop <= len(text), f'{name}: token {start} to {stop} after one to {before}')
            self._check_blank(name, text, before, start)
            before = stop
        self._check_blank(name, text, before, len(text))
        for sentence in sentences:
            first, last = sentence.offsets[0], sentence.offsets[-1]
            check((sentence.start, sentence.end) == (first[0], last[1]),
                  f'{name}: a sentence that is not from its first to its last token: {sentence}')
        words = [text[start:stop] for start, stop in tokens]
        if name == 'blanks':
            check(words == [word for word in re.split('[ \t\r\n]+', text) if word], 'blanks: other tokens')
        else:
            check(not any(word.isspace() for word in words), f'{name}: a token of white space')
        if name == 'characters':
            check(all(sum(unicodedata.category(each)[0] != 'M' for each in word) <= 1 or '\u200d' in word or
                      any('\U0001f3fb' <= each <= '\U0001f3ff' for each in word) for word in words),
                  'characters: a token of several characters')
        check(splitter_named(name).split(text) == sentences, f'{name}: another result the second time')

    @staticmethod
    def _check_blank(name, text, start, stop):
        missing = text[start:stop].replace('\ufeff', '').strip()
        check(not missing, f'{name}: {missing[:40]!r} at {start} is in no token')
