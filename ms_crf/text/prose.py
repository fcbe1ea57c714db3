"""Splits prose into sentences and tokens by the rules of the library spaCy for a language; no trained model is needed.

For English more rules produce the tokens of the English Web Treebank of Universal Dependencies. Words with a hyphen are
split, except after a prefix such as "e-" or "non-". Telephone numbers, hashtags and names after an "@" stay whole. In
all languages a run of the same punctuation, such as "!!!" or "-----", is one token.

Splitting takes linear time for every text. spaCy removes one character after another from both ends of a word, and
searches the whole rest each time. Here the rules for the end of a word search only the end, and words of more than
LONGEST_WORD characters are cut before spaCy gets them.
"""

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from ms_crf.base.errors import OptionError, not_installed
from ms_crf.text.sentence import Offsets, Sentence
from ms_crf.text.splitting import LIBRARY, continues, is_blank

MOST_WORDS = 300_000                   # words in spaCy's cache, some 100 MB; then spaCy is loaded again
LONGEST = 200_000                      # characters of a paragraph that are split at once
LONGEST_WORD = 1_000                   # characters without white space that spaCy splits at once
_END = 12                              # characters at the end of a word in which suffixes are searched first
_LONGEST_WHOLE = 200                   # characters of a word that may match a rule for words that stay whole
_LONG_WORD = re.compile(rf'\S{{{LONGEST_WORD + 1},}}')
_LINE_END = r'(?:\r\n|\r(?!\n)|\n)'
_PARAGRAPHS = re.compile(rf'{_LINE_END}[ \t]*{_LINE_END}\s*')
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
_NAME_AND_PASSWORD = r'(?:\S+(?::\S*)?@)?'                                     # in spaCy's rule for addresses
_IN_TWO = 'gimme Gimme lemme Lemme lets Lets wanna Wanna'.split()              # split after the third letter


class Prose:
    """A splitter with the rules of spaCy for a language.

    Args:
        language: code of the language, such as 'en' or 'de'.
    """

    def __init__(self, language: str) -> None:
        self.name, self._lock, self._language = LIBRARY + language, threading.Lock(), language
        self._library = self._load()

    def _load(self) -> Any:
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
        if hasattr(library.tokenizer, 'suffix_search'):          # not the tokenizer of another library
            library.tokenizer = _tokenizer(library, as_treebank=self._language == 'en')
        self._sentencizer = library.add_pipe('sentencizer')
        return library

    def split(self, text: str) -> list[Sentence]:
        """The sentences of a text, in order; an empty line ends a sentence."""
        # Replaces characters that spaCy does not accept, and byte order marks, without changing offsets.
        readable = re.sub('[\ud800-\udfff]', '\ufffd', text).replace('\ufeff', ' ')
        sentences: list[list[Offsets]] = []
        with self._lock:
            for begin, end in _paragraphs(readable):
                if len(self._library.vocab.strings) > MOST_WORDS:        # spaCy keeps every word in memory
                    self._library = self._load()
                sentences += self._sentences(readable[begin:end], begin)
        return [Sentence.of_text(text, tokens, raw=True) for tokens in sentences]

    def _sentences(self, text: str, offset: int) -> Iterator[list[Offsets]]:
        """The tokens of each sentence of a paragraph; `offset` is the offset of the paragraph in the text."""
        carried: list[Offsets] = []
        cuts = list(_cuts(text))
        # spaCy gets a space at each cut.
        parts = ' '.join(text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)]))
        document = self._sentencizer(self._library.tokenizer(parts))
        spaces = [cut + index for index, cut in enumerate(cuts)]
        for sentence in document.sents:
            tokens = [(token.idx, token.idx + len(token)) for token in sentence if not all(map(is_blank, token.text))]
            if cuts:
                tokens = [(begin - bisect_left(spaces, begin), end - bisect_left(spaces, end)) for begin, end in tokens]
            tokens = carried + tokens
            tokens, carried = _without_openings(text, tokens)
            if tokens:
                yield [(begin + offset, end + offset) for begin, end in _with_runs(text, tokens)]


def _missing_module(error: ImportError) -> str | None:
    """The missing library that spaCy needs for a language, such as a Japanese tokenizer; None if none is missing."""
    cause = error.__cause__ or error.__context__ or error
    name = getattr(cause, 'name', None)
    return name if isinstance(cause, ModuleNotFoundError) and name and not name.startswith('spacy') else None


def _paragraphs(text: str) -> Iterator[Offsets]:
    """Offsets of the paragraphs of a text, which are separated by empty lines; longer ones are cut at a space."""
    begin = 0
    for match in [*_PARAGRAPHS.finditer(text), None]:
        end = match.start() if match else len(text)
        while end - begin > LONGEST:
            blanks = (text.rfind(blank, begin, begin + LONGEST) for blank in '\n ')
            cut = next((offset for offset in blanks if offset > begin), begin + LONGEST)
            yield begin, cut
            begin = cut
        yield begin, end
        begin = match.end() if match else end


def _cuts(text: str) -> Iterator[int]:
    """Offsets at which words of more than LONGEST_WORD characters are cut: if possible after the last character in the
    second half that is neither a letter nor a digit, and not before a combining mark or a part of an emoji."""
    for match in _LONG_WORD.finditer(text):
        begin, end = match.span()
        while end - begin > LONGEST_WORD:
            second_half = range(begin + LONGEST_WORD, begin + LONGEST_WORD // 2, -1)
            whole = (cut for cut in second_half if not continues(text, cut))
            begin = next((cut for cut in second_half if not text[cut - 1].isalnum() and not continues(text, cut)),
                         next(whole, begin + LONGEST_WORD))
            yield begin


def _without_openings(text: str, tokens: list[Offsets]) -> tuple[list[Offsets], list[Offsets]]:
    """The tokens of a sentence, and opening brackets and quotes at its end, which belong to the next sentence."""
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
    """Tokens with runs of punctuation joined: equal characters, lines and stars, exclamation and question marks."""
    joined: list[Offsets] = []
    run: set[str] = set()                        # the characters of the last token if it was joined from several
    for begin, end in tokens:
        if joined and joined[-1][1] == begin:
            characters = (run or set(text[joined[-1][0]:begin])) | set(text[begin:end])
            if _is_run(characters):
                joined[-1], run = (joined[-1][0], end), characters
                continue
        joined.append((begin, end))
        run = set()
    return joined


def _is_run(characters: set[str]) -> bool:
    if any(character.isalnum() or character in '()[]{}"\'' for character in characters):
        return False
    return len(characters) == 1 or characters <= _RULES or (characters <= _SHOUTS and bool(characters - {'.'}))


def _tokenizer(library: Any, as_treebank: bool) -> Any:
    """A spaCy tokenizer with the rules of the tokenizer of a library, changed to take linear time.

    - A prefix is matched at the beginning of a word only, and a suffix is searched from near the end of the word.
    - In the rule for addresses, a name and a password with an ambiguous colon become a name that may contain colons.
    - Rules for single characters, which are always tokens, are removed, because spaCy applies them slowly.
    - Rules for words that stay whole apply to words of up to _LONGEST_WHOLE characters, because spaCy tries them after
      each removed character. Addresses have a separate rule.

    Args:
        library: the result of `spacy.blank`.
        as_treebank: whether to add the rules of the English Web Treebank.
    """
    before = library.tokenizer
    names = ('rules', 'prefix_search', 'suffix_search', 'infix_finditer', 'token_match', 'url_match')
    rules = {name: getattr(before, name) for name in names}
    if as_treebank:
        _add_treebank(rules)
    address = _pattern(rules['url_match'])
    whole = rules['token_match']
    rules.update(
        rules={word: parts for word, parts in rules['rules'].items() if len(word) > 1},
        token_match=whole and (lambda word: len(word) <= _LONGEST_WHOLE and whole(word)),
        prefix_search=_pattern(rules['prefix_search']).match,
        suffix_search=_search_at_end(_pattern(rules['suffix_search'])),
        url_match=re.compile(address.pattern.replace(_NAME_AND_PASSWORD, r'(?:\S+@)?'), address.flags).match)
    return type(before)(library.vocab, **rules)


def _pattern(search: Any) -> re.Pattern[str]:
    """The regular expression of a bound method such as `search`."""
    return search.__self__


def _search_at_end(pattern: re.Pattern[str]) -> Callable[[str], re.Match[str] | None]:
    """A search function for a pattern that ends in `$`. It searches the end of a word, and more if a match may begin
    earlier."""
    def search(word: str) -> re.Match[str] | None:
        size = _END
        while True:
            start = max(len(word) - size, 0)
            match = pattern.search(word, start)
            if not match or not start or match.start() > start:
                return match
            size *= 2
    return search


def _add_treebank(rules: dict[str, Any]) -> None:
    """Adds rules that split English words as in the English Web Treebank."""
    from spacy.lang.en import English
    from spacy.symbols import ORTH
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

    defaults: Any = English.Defaults
    known: Callable[[str], Any] = rules['token_match'] or (lambda _: None)
    rules.update(
        prefix_search=compile_prefix_regex([*defaults.prefixes, *_FIRST]).search,
        suffix_search=compile_suffix_regex([*defaults.suffixes, *_SUFFIXES]).search,
        infix_finditer=compile_infix_regex([*defaults.infixes, *_INFIXES]).finditer,
        token_match=lambda word: _WHOLE.fullmatch(word) or known(word),
        rules={word: parts for word, parts in rules['rules'].items() if word != 'and/or'}
        | {word: [{ORTH: word}] for word in _ABBREVIATIONS}
        | {word: [{ORTH: word[:3]}, {ORTH: word[3:]}] for word in _IN_TWO})
