"""Sentences and tokens of prose, by the rules of the library spaCy for a language, which need no trained model.

For English some rules are added, so that tokens are those of the English Web Treebank of Universal Dependencies: words
with a hyphen come apart, but not behind a prefix such as "e-" or "non-"; telephone numbers, hashtags and names behind
an "@" stay whole. In all languages a run of the same punctuation, such as "!!!" or "-----", is one token.
"""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ms_crf.errors import OptionError, not_installed
from ms_crf.text.splitting import LIBRARY, Offsets, SplitSentence, is_blank, of_tokens

MOST_WORDS = 300_000                   # that the library remembers, some 100 MB; then it is made anew
LONGEST = 200_000                      # characters of a paragraph that are split at once
_PARAGRAPHS = re.compile(r'(?:\r\n|\r|\n)[ \t]*(?:\r\n|\r|\n)\s*')
_OPENING = set('([{"\'“‘«„‹')
_RULES, _SHOUTS = set('-=_*~#+'), set('!?.')

_PREFIXES = ('anti|co|counter|e|ex|extra|inter|mid|mini|mis|multi|non|post|pre|pro|re|semi|sub|super|trans|un|vice|'
             'x').split('|')
_WHOLE = re.compile(
    r'#[^\W\d_]\w*|@\w+'                                                        # hashtags and names
    r'|\(?\+?\d{1,4}\)?(?:[-.]\d{2,5}){2,4}|\d{3}[-.]\d{4}'                     # telephone numbers and dates
    r'|[^\W\d_](?:[-/][^\W\d_])+|w/o?'                                          # "b/c", "w/o"
    rf'|(?:{"|".join(_PREFIXES)})-[^\W\d_]+', re.IGNORECASE)
_LETTER = r'[^\W\d_]'
_INFIXES = [rf'(?<=[^\W_])[-–](?={_LETTER})', rf'(?<={_LETTER})[-–](?=\d)', r'(?<=\d)[-–](?=\d)',
            rf'(?<={_LETTER})/(?={_LETTER})', r'[)](?=[(\w])', r'(?<=[)])[(]', r'(?<=\w)[("<>]',
            rf'(?<=\d),(?={_LETTER})']
_SUFFIXES = ['--+', r'(?<=[^\W_])-$']
_FIRST = ['--+', r'-(?=\w)', '~']
_ABBREVIATIONS = ('Adm. Assn. Ave. Blvd. Bros. Capt. Co. Col. Corp. Dept. Fig. Hon. Inc. Lt. Ltd. Maj. No. Nos. Ph.D. '
                  'Pres. Rd. Sgt. Univ. Vol. approx. ave. capt. dept. fig. ph.d. pp. vol. Fri. Jan. Mon. Thurs. Tues. '
                  'Wed.').split()
_IN_TWO = 'gimme Gimme lemme Lemme lets Lets wanna Wanna'.split()              # behind the third letter


class Prose:
    """A splitter for text in a language whose rules spaCy has.

    Args:
        language: its code, such as 'en' or 'de'.
    """

    def __init__(self, language: str) -> None:
        self.name, self._lock, self._language = LIBRARY + language, threading.Lock(), language
        self._library = self._made()

    def _made(self) -> Any:
        try:
            import spacy
        except ImportError:
            raise not_installed(f'the splitter {self.name}', 'spaCy', 'text', '; or name another splitter') from None
        try:
            library = spacy.blank(self._language)
        except ImportError as error:
            missing = _missing_module(error)
            raise OptionError(f'the splitter {self.name} needs {missing}, which is not installed; install it, or name '
                              'another splitter' if missing else f'a splitter must be {LIBRARY} and the code of a '
                              f'language that spaCy has rules for, got {self.name}') from None
        if self._language == 'en':
            _as_treebank(library.tokenizer)
        self._sentencizer = library.add_pipe('sentencizer')
        return library

    def split(self, text: str) -> list[SplitSentence]:
        """The sentences of a text, in order; an empty line ends a sentence."""
        # In the same places: what spaCy can't take, and what is not to be seen.
        readable = re.sub('[\ud800-\udfff]', '\ufffd', text).replace('\ufeff', ' ')
        sentences: list[SplitSentence] = []
        with self._lock:
            for begin, end in _paragraphs(readable):
                if len(self._library.vocab.strings) > MOST_WORDS:        # it remembers all that it has ever seen
                    self._library = self._made()
                sentences += self._sentences(readable[begin:end], begin)
        return sentences

    def _sentences(self, text: str, offset: int) -> Iterator[SplitSentence]:
        carried: list[Offsets] = []
        document = self._sentencizer(self._library.tokenizer(text))
        for sentence in document.sents:
            tokens = carried + [(token.idx, token.idx + len(token)) for token in sentence
                                if not all(map(is_blank, token.text))]
            tokens, carried = _without_openings(text, tokens)
            if tokens:
                yield _moved(_with_runs(text, tokens), offset)
        if carried:
            yield _moved(_with_runs(text, carried), offset)


def _missing_module(error: ImportError) -> str | None:
    """The name of a library that spaCy needs for a language, such as one that cuts Japanese; None if it needs none."""
    cause = error.__cause__ or error.__context__ or error
    name = getattr(cause, 'name', None)
    return name if isinstance(cause, ModuleNotFoundError) and name and not name.startswith('spacy') else None


def _paragraphs(text: str) -> Iterator[Offsets]:
    """The paragraphs of a text; what is between them is white space. Those of more than LONGEST are cut at a blank."""
    begin = 0
    for match in [*_PARAGRAPHS.finditer(text), None]:
        end = match.start() if match else len(text)
        while end - begin > LONGEST:
            blanks = (text.rfind(blank, begin, begin + LONGEST) for blank in '\n ')
            cut = next((place for place in blanks if place > begin), begin + LONGEST)
            yield begin, cut
            begin = cut
        yield begin, end
        begin = match.end() if match else end


def _moved(tokens: list[Offsets], offset: int) -> SplitSentence:
    return of_tokens([(begin + offset, end + offset) for begin, end in tokens])


def _without_openings(text: str, tokens: list[Offsets]) -> tuple[list[Offsets], list[Offsets]]:
    """The tokens of a sentence, and those at its end that belong to the next one: what opens there behind a blank."""
    count = len(tokens)
    while count > 1:
        begin, end = tokens[count - 1]
        glued = end < len(text) and not is_blank(text[end])
        if text[begin:end] in _OPENING and glued and is_blank(text[begin - 1]):
            count -= 1
        else:
            break
    return tokens[:count], tokens[count:]


def _with_runs(text: str, tokens: list[Offsets]) -> list[Offsets]:
    """The tokens, runs of punctuation as one: of the same, of lines and stars, of exclamation and question marks."""
    joined: list[Offsets] = []
    for begin, end in tokens:
        if joined and joined[-1][1] == begin and _is_run(text[joined[-1][0]:end]):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined


def _is_run(text: str) -> bool:
    characters = set(text)
    if any(character.isalnum() or character in '()[]{}"\'' for character in characters):
        return False
    return len(characters) == 1 or characters <= _RULES or (characters <= _SHOUTS and bool(characters - {'.'}))


def _as_treebank(tokenizer: Any) -> None:
    """Adds the rules by which English words come apart in the English Web Treebank."""
    from spacy.lang.en import English
    from spacy.symbols import ORTH
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

    defaults: Any = English.Defaults
    tokenizer.prefix_search = compile_prefix_regex([*defaults.prefixes, *_FIRST]).search
    tokenizer.suffix_search = compile_suffix_regex([*defaults.suffixes, *_SUFFIXES]).search
    tokenizer.infix_finditer = compile_infix_regex([*defaults.infixes, *_INFIXES]).finditer
    known: Callable[[str], Any] = tokenizer.token_match or (lambda _: None)
    tokenizer.token_match = lambda word: _WHOLE.fullmatch(word) or known(word)
    rules = dict(tokenizer.rules)
    rules.pop('and/or', None)
    tokenizer.rules = rules
    for word in _ABBREVIATIONS:
        tokenizer.add_special_case(word, [{ORTH: word}])
    for word in _IN_TWO:
        tokenizer.add_special_case(word, [{ORTH: word[:3]}, {ORTH: word[3:]}])
