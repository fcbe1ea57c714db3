"""Sentences one after the other: what is a sentence, and how many of them are tagged together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from ms_crf.base.errors import CorpusError

CHUNK = 2048               # at most so many sentences are sorted by length together,
CHUNK_TOKENS = 65536       # and at most so many tokens, or a single sentence


def checked(sentences: Iterable[Iterable[str]]) -> Iterator[list[str]]:
    """Yields each sentence as a list of str; raises TypeError or ValueError for what is no sentence."""
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        shown = 'a string' if isinstance(sentences, str) else repr(sentences)[:60]
        raise TypeError(f'sentences must be lists of tokens, got {shown}; split it')
    for index, sentence in enumerate(sentences):
        # Sets have no order, and of dicts only the keys would be read.
        ordered = type(sentence) is list or (isinstance(sentence, Iterable)
                                             and not isinstance(sentence, (str, bytes, Set, Mapping)))
        tokens: list[Any] = list(sentence) if ordered else [sentence]
        if ordered and set(map(type, tokens)) == {str} and '' not in tokens:
            yield tokens                         # as they nearly always are
            continue
        if not ordered or not all(isinstance(token, str) for token in tokens):
            raise TypeError(f'sentence {index} must be a list of strings, got {_shown(sentence, tokens)}; '
                            'split it into tokens')
        if not all(tokens):
            raise ValueError(f'sentence {index} must have no empty token, got {_shown(sentence, tokens)}')
        yield [str(token) for token in tokens]   # NumPy has strings of its own


def _shown(sentence: object, tokens: list) -> str:
    """A sentence as it is shown in a message; for an iterator, the tokens that it gave."""
    return repr(tokens if isinstance(sentence, Iterator) else sentence)[:60].replace('\n', ' ')


def chunks(items: Iterable[Any], size: Callable[[Any], int] = len) -> Iterator[list]:
    """Yields lists of items to be sorted by length: at most CHUNK items and CHUNK_TOKENS tokens, or a single item.

    Args:
        items: one after the other. A None among them, which stands for a pause in the input, ends a list. So does a
            CorpusError that is raised between them; it is raised again after that list.
        size: a function that returns the number of tokens of an item.
    """
    chunk: list = []
    tokens = 0
    try:
        for item in items:
            more = 0 if item is None else size(item)
            if chunk and (item is None or len(chunk) == CHUNK or tokens + more > CHUNK_TOKENS):
                yield chunk
                chunk, tokens = [], 0
            if item is not None:
                chunk.append(item)
                tokens += more
    except CorpusError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
