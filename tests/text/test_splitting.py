"""Tests how raw text is split into sentences and tokens.

The tests check that offsets are correct, that no character is lost, and that tokens agree with a treebank.
"""

import json
import subprocess
import sys
import threading

from ms_crf.base.errors import OptionError
from ms_crf.formats import raw
from ms_crf.text import splitting
from ms_crf.text.splitting import splitter_named, suited

import pytest

from support.paths import ROOT
from support.properties import example, given, settings
from support.properties import strategies as st

NAMES = ['blanks', 'characters', 'characters+words', 'spacy-en', 'spacy-de']
# Pieces include emoji with joiners and skin tones, combining marks, unpaired surrogates, all kinds of white space and
# line ends, zero-width characters and right-to-left letters.
PIECES = ['Dr. Who', "don't", 'e-mail', '!!!', '...', 'a', 'I', '3,000.50', '(x)', '"', '。', '今天', 'ABC', '-', '/',
          '\U0001f600', '@x', '#y', '\0', '<b>', ' ', '  ', '.',
          '\U0001f469\u200d\U0001f680', '\U0001f44d\U0001f3fd', 'e\u0301', '\u0301', '\ud83d', '\udc00', '\t', '\r\n',
          '\n', '\r', '\n\n', '\u00a0', '\u3000', '\u2028', '\x85', '\x0b', '\u200b', '\u200d', '\ufeff', '\u200f',
          '\u05e9\u05dc\u05d5\u05dd', '\u0645\u0631\u062d\u0628\u0627']
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map(''.join)


def named(name):
    if name.startswith('spacy'):
        pytest.importorskip('spacy')
    return splitter_named(name)


def words(name, text):
    return [sentence.tokens for sentence in named(name).split(text)]


def separates(name, character):
    """Whether a character is never part of a token.

    For `blanks`, these are tabs, spaces and line ends only. For all other splitters, they are all white space.
    """
    return character in ' \t\r\n' if name == 'blanks' else character.isspace() or character == '\ufeff'


@pytest.mark.parametrize('name', NAMES)
@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(TEXTS)
@example('')
@example('\ufeffOne. Two')
def test_splitting_tokens_follow_each_other_and_hold_all_but_white_space(name, text):
    sentences = named(name).split(text)
    end = 0
    for sentence in sentences:
        assert (sentence.start, sentence.end) == (sentence.offsets[0][0], sentence.offsets[-1][1])
        for begin, after in sentence.offsets:
            assert end <= begin < after
            assert all(separates(name, character) for character in text[end:begin])
            assert not separates(name, text[begin]) and not separates(name, text[after - 1])
            end = after
    assert all(separates(name, character) for character in text[end:])


@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(TEXTS)
def test_splitting_items_of_a_text_make_up_the_text(name, text):
    lines = [(number, line) for number, line in enumerate(text.split('\n'), 1)]
    lines = [(number, line + '\n') for number, line in lines[:-1]] + lines[-1:]
    items = list(raw.raw_sentences([line for line in lines if line[1]], named(name)))
    assert ''.join(item.text for item in items) == text
    offset = 0
    for item in items:
        assert item.start == offset
        assert [text[start:end] for start, end in item.offsets] == item.tokens
        assert item.line == text.count('\n', 0, item.offsets[0][0] if item.tokens else offset) + 1
        offset += len(item.text)


@pytest.mark.parametrize('text,expected', [
    ('Mr. Smith went to Washington. "He was there," she said.',
     ['Mr. Smith went to Washington .', '" He was there , " she said .']),
    ('He came (I was told) today!!! Why?!', ['He came ( I was told ) today !!!', 'Why ?!']),
    ("They can't e-mail the well-known co-worker's U.S. office.",
     ["They ca n't e-mail the well - known co-worker 's U.S. office ."]),
    ('Call 212-848-8400 or @bob about #holidays and/or http://a.org/b-c on 3/9/2005.',
     ['Call 212-848-8400 or @bob about #holidays and / or http://a.org/b-c on 3/9/2005 .']),
    ('A title\n\nand text\nover two lines', ['A title', 'and text over two lines']),
    ('A title\r\n \r\nand text\r\nover two\rlines', ['A title', 'and text over two lines']),
    ('-----====\tdone', ['-----==== done'])])
def test_splitting_english(text, expected):
    assert [' '.join(tokens) for tokens in words('spacy-en', text)] == expected


@pytest.mark.parametrize('name,text,expected', [
    ('characters', '今天ABC好。“走！”他说\n明天', ['今 天 A B C 好 。', '“ 走 ！ ”', '他 说', '明 天']),
    ('characters+words', '用iPhone 15看3.5米 e\u0301té。', ['用 iPhone 15 看 3.5 米 e\u0301té 。']),
    ('characters', 'e\u0301\U0001f469\u200d\U0001f680\U0001f44d\U0001f3fdx',
     ['e\u0301 \U0001f469\u200d\U0001f680 \U0001f44d\U0001f3fd x']),
    ('blanks', ' a.b  c\u00a0d\r\n\n e ', ['a.b c\u00a0d', 'e'])])
def test_splitting_characters_and_blanks(name, text, expected):
    assert [' '.join(tokens) for tokens in words(name, text)] == expected


def test_splitting_what_suits_a_training_text():
    assert suited({'the', 'a', 'I'}) == 'spacy-en'
    assert suited(set('今天很好ABC')) == 'characters'
    assert suited({*'今天很好我们去看一个电影吧', '3G'}) == 'characters+words'


@pytest.mark.parametrize('text,name', [('', 'spacy-en'), ('A 中文 word', 'spacy-en'), ('. 3 !', 'spacy-en'),
                                       ('今天 iPhone 很好', 'spacy-en'),
                                       ('我今天用一个iPhone看电影。', 'characters+words')])
def test_splitting_what_suits_a_text_that_no_one_has_cut(text, name):
    assert splitting.suited_to_text(text) == name


@pytest.mark.parametrize('name', ['', 'space', 'spacy', 'spacy-', 'spacy-english', 'SPACY-en', 'spacy-e1', 'blanks '])
def test_splitting_names_of_no_splitter(name):
    with pytest.raises(OptionError, match=r'^a splitter must be blanks, characters, characters\+words, or spacy- '
                                          r'and the code of a language such as spacy-en, got '):
        splitter_named(name)


def test_splitting_languages_that_the_library_does_not_have_or_needs_another_one_for():
    pytest.importorskip('spacy')
    with pytest.raises(OptionError, match='code of a language that spaCy has rules for, got spacy-zz$'):
        splitter_named('spacy-zz')
    with pytest.raises(OptionError, match='^the splitter spacy-ja needs sudachipy, which is not installed; install it'):
        splitter_named('spacy-ja')


def test_splitting_one_line_without_the_library():
    """Checks the error message in a process that cannot import spaCy."""
    program = ('import sys; sys.modules["spacy"] = None\n'
               'from ms_crf.text.splitting import splitter_named\n'
               'try: splitter_named("spacy-en")\n'
               'except ValueError as error: print(error)')
    shown = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True,
                           timeout=60)
    assert shown.stdout == ("the splitter spacy-en needs spaCy, which is not installed: pip install 'ms_crf[text]', or "
                            'pip install -r requirements-text.txt; or name another splitter\n') and not shown.stderr


def test_splitting_threads_share_a_splitter():
    splitter, found = named('spacy-en'), []
    texts = [f'Word{number} is here. And word-{number} there!' for number in range(200)]

    def offsets(text):
        return [sentence.offsets for sentence in splitter.split(text)]

    def split():
        found.append([offsets(text) for text in texts])

    threads = [threading.Thread(target=split, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[offsets(text) for text in texts]] * 4


@pytest.mark.parametrize('blank', [' ', '\n', ''])
def test_splitting_paragraphs_of_any_length(monkeypatch, blank):
    """Checks that long paragraphs are divided at a line end or a space, or anywhere if there is none.

    Nothing is lost.
    """
    pytest.importorskip('spacy')
    monkeypatch.setattr('ms_crf.text.prose.LONGEST', 50)
    text = blank.join(['word.', 'other'] * 100)
    found = [token for tokens in words('spacy-en', text) for token in tokens]
    assert ''.join(found) == text.replace(blank, '') if blank else ''.join(found) == text
    if blank:
        assert found == ['word', '.', 'other'] * 100


@pytest.mark.slow
def test_splitting_a_text_of_two_million_characters():
    assert sum(map(len, words('spacy-en', 'to be or not\n' * 160_000))) == 640_000


def test_splitting_a_long_paragraph_ends_with_a_line(monkeypatch):
    monkeypatch.setattr(raw, 'LONGEST', 20)
    lines = [(number, f'{number:04} a b c\n') for number in range(1, 21)]
    items = list(raw.raw_sentences(iter(lines), named('blanks')))
    assert ''.join(item.text for item in items) == ''.join(line for _, line in lines)
    assert [item.line for item in items] == list(range(1, 21))


def f1(gold, found):
    correct = sum(len(set(one) & set(other)) for one, other in zip(gold, found))
    return 2 * correct / (sum(map(len, gold)) + sum(map(len, found)))


def test_splitting_english_agrees_with_the_treebank():
    """Compares tokens and sentences with the English Web Treebank.

    The treebank gives the correct offsets. docs/experiments/raw_text.md describes the data and the scores.
    """
    path = ROOT.parent / 'shared/data/en-ewt-raw/dev.jsonl'
    if not path.exists():
        pytest.skip('the English Web Treebank is not there')
    texts = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]
    found = [named('spacy-en').split(text['text']) for text in texts]
    tokens = [[token for sentence in sentences for token in sentence.offsets] for sentences in found]
    assert f1([[tuple(token) for token in text['tokens']] for text in texts], tokens) >= 0.99
    sentences = [[(sentence.start, sentence.end) for sentence in one] for one in found]
    assert f1([[tuple(sentence) for sentence in text['sentences']] for text in texts], sentences) >= 0.84


def test_splitting_the_names_in_help_are_those_that_there_are():
    for name in (splitting.BLANK, splitting.CHARACTERS, splitting.WORDS, splitting.DEFAULT):
        assert name in splitting.CHOICES and not splitting.splitter_fault(name)
