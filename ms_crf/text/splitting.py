"""Where sentences and tokens are in raw text, as offsets: splitters by their names.

blanks            a sentence a line; blanks and tabs separate its tokens
characters        each character is a token, as Chinese training data has it; sentences end in 。！？ or with a line
characters+words  the same, but a word of letters that are written with blanks between words, or a number, is one token
spacy-en          by the rules of the library spaCy for a language, here English; see `ms_crf.text.prose`
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
MOSTLY = 0.9                           # text is one of characters if so many of its words are of one

BLANKS = ' \t\r\n'            # what separates tokens and lines; other white space of Unicode is a part of them
_TOKEN = re.compile(f'[^{BLANKS}]+')
_LINE_FEED = re.compile('\n')
_LINE_END = re.compile(r'\r\n|\r|\n')
# Behind what ends a sentence, also behind quotation marks and brackets that close there.
_SENTENCE_END = re.compile(r'[。！？!?；…]+[”’」』）》\])"]*')
# A number, or letters and digits of ASCII, Latin, Greek and Cyrillic with the marks on them.
_WORD = re.compile(r'[0-9A-Za-z\u00aa-\u024f\u0370-\u052f\u1e00-\u1fff\u0300-\u036f]+(?:[.,\'’_-][0-9A-Za-z]+)*')
_CHINESE = re.compile('[\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]')
_JOINER = '\u200d'                     # makes one emoji of the two beside it


class Splitter(Protocol):
    """Finds sentences and tokens; offsets count the characters of the text as it is."""

    @property
    def name(self) -> str:
        """`splitter_named(name)` gives the same splitter again."""

    def split(self, text: str) -> list[Sentence]:
        """The sentences of a text, in order, each with a token at least; what is in no token is white space."""


class _Lines:
    """A sentence a line; blanks and tabs separate its tokens, all other white space belongs to them."""

    name = BLANK

    def split(self, text: str) -> list[Sentence]:
        sentences = []
        for begin, end in lines_of(text):
            tokens = [match.span() for match in _TOKEN.finditer(text, begin, end)]
            if tokens:
                sentences.append(Sentence.of_text(text, tokens, raw=True))
        return sentences


class _Characters:
    """Each character is a token, with the marks that stand on it.

    Args:
        words: whether letters that other scripts put blanks between make words.
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
    """Whether a character stands on the one before it: a combining mark, a variation of it, or a part of an emoji."""
    character = text[index]
    return not is_blank(character) and (
        unicodedata.category(character) in ('Mn', 'Me') or character == _JOINER or text[index - 1] == _JOINER
        or '\U0001f3fb' <= character <= '\U0001f3ff')                          # the colour of a skin


def is_blank(character: str) -> bool:
    """Whether a character is white space of Unicode, or the mark of byte order, which is as little to be seen."""
    return character.isspace() or character == '\ufeff'


def lines_of(text: str) -> Iterator[Offsets]:
    """Where the lines of a text are, without their ends."""
    begin = 0
    for match in _LINE_END.finditer(text):
        yield begin, match.start()
        begin = match.end()
    yield begin, len(text)


def line_ends_before(text: str) -> Callable[[int], int]:
    """Returns a function that counts the line feeds before an offset of the text, without reading the text again."""
    ends = [match.start() for match in _LINE_FEED.finditer(text)]
    return lambda offset: bisect_left(ends, offset)


def mostly_characters(words: Collection[str]) -> bool:
    """Whether distinct words are those of a text in which each character is a word, as Chinese text is for a tagger."""
    return sum(len(word) == 1 for word in words) > MOSTLY * len(words)


def suited(words: Collection[str]) -> str:
    """The name of the splitter that cuts raw text as the text was cut that has these distinct words."""
    if not mostly_characters(words):
        return DEFAULT
    return WORDS if any(len(word) > 1 and word.isalnum() and _WORD.fullmatch(word) for word in words) else CHARACTERS


def suited_to_text(text: str) -> str:
    """The name of the splitter for a text that no one has cut: by characters if most of its letters are Chinese."""
    letters = sum(map(str.isalpha, text))
    return WORDS if len(_CHINESE.findall(text)) > letters / 2 else DEFAULT


def splitter_fault(name: str) -> Fault | None:
    """What is wrong with the name of a splitter, or None."""
    known = name in (BLANK, CHARACTERS, WORDS) or re.fullmatch(f'{LIBRARY}[a-z]{{2,3}}', name)
    return None if known else (CHOICES, brief(name))


def check_name(name: str, what: str = 'a splitter') -> None:
    """Raises OptionError unless there is, or could be, a splitter of that name; `what` begins the message."""
    if fault := splitter_fault(name):
        raise OptionError(f'{what} must be {fault[0]}, got {fault[1]}')


class Deferred:
    """A splitter that is made when the first text comes, so that one that is not needed need not be installed.

    Args:
        name: of the splitter; `AUTO` for the one that suits that text.

    Attributes:
        used: the name of the one that was made; None before.
    """

    def __init__(self, name: str) -> None:
        self.name, self.used = name, None if name == AUTO else name
        if name != AUTO:
            check_name(name)

    def split(self, text: str) -> list[Sentence]:
        """The sentences of a text, in order, each with a token at least; what is in no token is white space."""
        self.used = self.used or suited_to_text(text)
        return splitter_named(self.used).split(text)


@functools.cache
def splitter_named(name: str) -> Splitter:
    """The splitter of that name; raises OptionError if there is none, or if what it needs is not installed."""
    check_name(name)
    if name == BLANK:
        return _Lines()
    if name in (CHARACTERS, WORDS):
        return _Characters(name == WORDS)
    from ms_crf.text.prose import Prose
    return Prose(name.removeprefix(LIBRARY))
