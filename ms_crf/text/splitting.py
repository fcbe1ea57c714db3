"""Where sentences and tokens are in raw text."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ms_crf.errors import OptionError
from ms_crf.text.readers import BLANKS

Offsets = tuple[int, int]              # where something begins in the text, and where it ends, exclusive


class SplitSentence(NamedTuple):
    """A sentence of a text: where it stands, and the tokens in it, which do not overlap and hold all but white space."""

    start: int
    end: int
    tokens: list[Offsets]


class Splitter(Protocol):
    """Finds sentences and tokens; offsets count the characters of the text as it is."""

    @property
    def name(self) -> str:
        """What it is recorded as: `splitter_named(name)` gives the same one again."""

    def split(self, text: str) -> list[SplitSentence]:
        """The sentences of a text, in order; none has no token."""


class _Lines:
    """A sentence a line; blanks and tabs separate its tokens."""

    name = 'blanks'

    def split(self, text: str) -> list[SplitSentence]:
        sentences, begin = [], 0
        for line in text.split('\n'):
            tokens, start = [], None
            for index, character in enumerate(line + '\n', begin):
                if character in BLANKS:
                    if start is not None:
                        tokens.append((start, index))
                    start = None
                elif start is None:
                    start = index
            if tokens:
                sentences.append(SplitSentence(tokens[0][0], tokens[-1][1], tokens))
            begin += len(line) + 1
        return sentences


_MAKERS: dict[str, Callable[[], Splitter]] = {'blanks': _Lines}
NAMES = tuple(_MAKERS)


def splitter_named(name: str) -> Splitter:
    """The splitter of that name; raises OptionError if there is none, or if what it needs is not installed."""
    if name not in _MAKERS:
        raise OptionError(f'a splitter must be one of {", ".join(NAMES)}, got {name!r}')
    return _MAKERS[name]()
