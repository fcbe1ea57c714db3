"""What a tagger says of a sentence: its tags, the spans that they stand for, and confidences."""

from typing import NamedTuple


class Span(NamedTuple):
    """A name, chunk or word: tokens first to last; confidence is its posterior."""

    type: str
    first: int
    last: int
    confidence: float | None = None


class Alternative(NamedTuple):
    """One of the n best taggings of a sentence; confidence is its posterior."""

    tags: list[str]
    confidence: float


class Tagged(NamedTuple):
    """A sentence; without confidences these are None."""

    tokens: list[str]
    tags: list[str]
    spans: list[Span]
    confidences: list[float] | None = None           # of each token: posterior of its tag
    confidence: float | None = None                  # of the sentence: posterior of all tags together
    alternatives: tuple[Alternative, ...] = ()       # n best, the first of them the same as tags
