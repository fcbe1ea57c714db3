"""Splitters that find sentences and tokens in raw text, by name.

blanks            text that is already tokenised with spaces or tabs, with a sentence in each line
characters        each character is a token, as in Chinese training data; sentences end with 。！？ or with a line
characters+words  like characters, but Latin, Greek and Cyrillic words, and numbers, are one token
spacy-en          the rules of the library spaCy for a language, here English; see `ms_crf.text.prose`
"""

import functools
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from ms_crf.base.errors import OptionError, brief
from ms_crf.base.fields import Fault
from ms_crf.text.sentence import Offsets, Sentence

AUTO, DEFAULT, LIBRARY = 'auto', 'spacy-en', 'spacy-'
BLANK, CHARACTERS, WORDS = 'blanks', 'characters', 'characters+words'
CHOICES = f'{BLANK}, {CHARACTERS}, {WORDS}, or {LIBRARY} and the code of a language such as {DEFAULT}'
MOSTLY = 0.9                           # minimum share of one-character words in text that is split into characters

BLANKS = ' \t\r\n'            # separators of tokens and lines; other Unicode white space is a part of tokens
_TOKEN = re.compile(f'[^{BLANKS}]+')
_LINE_FEED = re.compile('\n')
_LINE_END = re.compile(r'\r\n|\r|\n')
# After the end of a sentence and after closing quotation marks and brackets.
_SENTENCE_END = re.compile(r'[。！？!?；…]+[”’」』）》\])"]*')
# A number, or ASCII, Latin, Greek and Cyrillic letters and digits with combining marks.
_WORD = re.compile(r'[0-9A-Za-z\u00aa-\u024f\u0370-\u052f\u1e00-\u1fff\u0300-\u036f]+(?:[.,\'’_-][0-9A-Za-z]+)*')
_CHINESE = re.compile('[\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]')
_JOINER = '\u200d'                     # joins two characters into one emoji


class Splitter(Protocol):
    """Finds sentences and tokens in text; offsets count the characters of the unchanged text."""

    @property
    def name(self) -> str:
        """The name of the splitter; `splitter_named(name)` returns an equivalent splitter."""

    def split(self, text: str) -> list[Sentence]:
        """The sentences of a text in order, each with at least one token. Only white space is in no token."""


class _Lines:
    """Splits lines into tokens at spaces and tabs; other white space is a part of tokens."""

    name = BLANK

    def split(self, text: str) -> list[Sentence]:
        sentences = []
        for begin, end in lines_of(text):
            tokens = [match.span() for match in _TOKEN.finditer(text, begin, end)]
            if tokens:
                sentences.append(Sentence.of_text(text, tokens, raw=True))
        return sentences


class _Characters:
    """Splits text into characters, together with their combining marks.

    Args:
        words: whether numbers, and words of scripts that separate words with spaces, are one token.
    """

    def __init__(self, words: bool) -> None:
        self.words, self.name = words, WORDS if words else CHARACTERS

    def split(self, text: str) -> list[Sentence]:
        sentences: list[Sentence] = []
        for begin, end in lines_of(text):
            while begin < end:
                match = _SENTENCE_END.search(text, begin, end)
                after = match.end() if match else end
                tokens = list(self._tokens(text, begin, after))
                if tokens:
                    sentences.append(Sentence.of_text(text, tokens, raw=True))
                begin = after
        return sentences

    def _tokens(self, text: str, begin: int, end: int) -> Iterator[Offsets]:
        while begin < end:
            word = _WORD.match(text, begin, end) if self.words else None
            after = word.end() if word else begin + 1
            if not is_blank(text[begin]):
                while after < end and continues(text, after):
                    after += 1
                yield begin, after
            begin = after


def continues(text: str, index: int) -> bool:
    """Whether a character belongs to the previous one: a combining mark, a variation selector, a part of an emoji."""
    character = text[index]
    return not is_blank(character) and (
        unicodedata.category(character) in ('Mn', 'Me') or character == _JOINER or text[index - 1] == _JOINER
        or '\U0001f3fb' <= character <= '\U0001f3ff')                          # skin tones


def is_blank(character: str) -> bool:
    """Whether a character is Unicode white space or a byte order mark."""
    return character.isspace() or character == '\ufeff'


def lines_of(text: str) -> Iterator[Offsets]:
    """Offsets of the lines of a text, without line ends."""
    begin = 0
    for match in _LINE_END.finditer(text):
        yield begin, match.start()
        begin = match.end()
    yield begin, len(text)


def line_ends_before(text: str) -> Callable[[int], int]:
    """Returns a function that counts the line feeds before an offset; it takes logarithmic time."""
    ends = [match.start() for match in _LINE_FEED.finditer(text)]
    return lambda offset: bisect_left(ends, offset)


def mostly_characters(words: Collection[str]) -> bool:
    """Whether distinct words come from a text in which each character is a token, as in Chinese training data."""
    return sum(len(word) == 1 for word in words) > MOSTLY * len(words)


def suited(words: Collection[str]) -> str:
    """The name of the splitter that fits training text, given its distinct words."""
    if not mostly_characters(words):
        return DEFAULT
    return WORDS if any(len(word) > 1 and word.isalnum() and _WORD.fullmatch(word) for word in words) else CHARACTERS


def suited_to_text(text: str) -> str:
    """The name of the splitter for raw text: `characters+words` if most letters are Chinese, otherwise `spacy-en`."""
    letters = sum(map(str.isalpha, text))
    return WORDS if len(_CHINESE.findall(text)) > letters / 2 else DEFAULT


def splitter_fault(name: str) -> Fault | None:
    """What is wrong with the name of a splitter; None if the name is valid."""
    known = name in (BLANK, CHARACTERS, WORDS) or re.fullmatch(f'{LIBRARY}[a-z]{{2,3}}', name)
    return None if known else (CHOICES, brief(name))


def check_name(name: str, what: str = 'a splitter') -> None:
    """Raises OptionError unless the name of a splitter is valid; `what` begins the message."""
    if fault := splitter_fault(name):
        raise OptionError(f'{what} must be {fault[0]}, got {fault[1]}')


class Deferred:
    """A splitter that is loaded when the first text arrives, so that a library is needed only for text that is split.

    Args:
        name: name of the splitter; with `AUTO` the first text decides.

    Attributes:
        used: name of the loaded splitter; with `AUTO`, None before the first text.
    """

    def __init__(self, name: str) -> None:
        self.name, self.used = name, None if name == AUTO else name
        if name != AUTO:
            check_name(name)

    def split(self, text: str) -> list[Sentence]:
        """The sentences of a text in order, each with at least one token. Only white space is in no token."""
        self.used = self.used or suited_to_text(text)
        return splitter_named(self.used).split(text)


@functools.cache
def splitter_named(name: str) -> Splitter:
    """The splitter with this name; raises OptionError if the name is invalid or a library is not installed."""
    check_name(name)
    if name == BLANK:
        return _Lines()
    if name in (CHARACTERS, WORDS):
        return _Characters(name == WORDS)
    from ms_crf.text.prose import Prose
    return Prose(name.removeprefix(LIBRARY))
