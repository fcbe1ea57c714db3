"""Reads pretrained word vectors from a text file in word2vec or GloVe format."""

from collections.abc import Collection, Container, Iterator
from contextlib import suppress
from typing import NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import numbered_lines
from ms_crf.models.words.ngrams import has_letters

import numpy as np

WAYS = ('exact', 'lower case', 'digits as 0')


def lookup_forms(word: str) -> Iterator[str]:
    """The forms of a word to look up, in this order: unchanged, lowercased, lowercased with digits replaced by 0."""
    yield word
    lower = word.lower()
    yield lower
    if not lower.isalpha():                                      # only such words can contain digits
        yield ''.join(['0' if character.isdigit() else character for character in lower])


def _header(text: str) -> int | None:
    """The width of the vectors if the line is a word2vec header (number of words and width), otherwise None."""
    fields = text.split()
    return int(fields[1]) if len(fields) == 2 and all(field.isdecimal() for field in fields) else None


def _vector(path: PathLike, line: int, word: str, fields: list[str], width: int) -> np.ndarray:
    """The vector of a word from the fields of its line; raises CorpusError if a field is not a finite number."""
    try:
        vector = np.array(fields, np.float32)
    except ValueError:
        raise CorpusError(path, line,
                          f'expected {width} numbers after {word!r}, got {" ".join(fields)[:40]!r}') from None
    if not np.isfinite(vector).all():
        index = int(np.argmin(np.isfinite(vector)))
        raise CorpusError(path, line, f'expected finite numbers, got {fields[index]} as number {index + 1} of {word!r}')
    return vector


def _is_number(field: str) -> bool:
    """Whether a field is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


class Vectors(NamedTuple):
    """The vectors of some words from a file."""

    vectors: dict[str, np.ndarray]           # (width,) float32, by the form of the word in the file
    width: int
    ways: dict[str, str]                     # for each word with a vector the form that was found, one of WAYS
    common: dict[str, np.ndarray]            # by word: vectors of the file's first (most frequent) words


def read_vectors(path: PathLike, words: Collection[str], common: int = 0) -> Vectors:
    """Reads the vectors of some words; a word gets the vector of its first form in the file, see `lookup_forms`.

    Args:
        path: file with a word and its numbers in each line, with or without a header line; .gz is decompressed.
        words: the words.
        common: number of the file's first words to read in addition; damaged vectors of these words are ignored.

    Raises:
        CorpusError: a line is invalid.
    """
    looked_up = {form for word in words for form in lookup_forms(word)}
    vectors: dict[str, np.ndarray] = {}
    first: dict[str, np.ndarray] = {}
    width: int | None = None
    for line, text in numbered_lines(path):
        text = text.rstrip(' \t')
        if line == 1:
            width = _header(text)
            if width is not None:
                continue
        if not text:
            continue
        fields = text.replace('\t', ' ').split(' ')
        if width is None:
            width = len(fields) - 1
            if width < 1:
                raise CorpusError(path, line, f'expected a word and its vector, got {text[:40]!r}')
        count = len(fields) - 1
        if count != width and (count < width or _is_number(fields[-width - 1])):    # a word may contain spaces
            raise CorpusError(path, line, f'expected {width} numbers after {fields[0]!r} as in the first line, got '
                                          f'{count}')
        word = ' '.join(fields[:-width])
        if word in looked_up and word not in vectors:
            vectors[word] = _vector(path, line, word, fields[-width:], width)
        if len(first) < common and has_letters(word) and word not in first:
            with suppress(CorpusError):          # a damaged vector of a word that is not in the text is no error
                first[word] = vectors[word] if word in vectors else _vector(path, line, word, fields[-width:], width)
    if width is None:
        raise CorpusError(path, None, 'expected word vectors, got an empty file')
    used = {word: form for word in words if (form := form_in(vectors, word)) is not None}
    ways = {word: WAYS[list(lookup_forms(word)).index(form)] for word, form in used.items()}
    forms = set(used.values())
    return Vectors({form: vector for form, vector in vectors.items() if form in forms}, width, ways, first)


def form_in(known: Container[str], word: str) -> str | None:
    """The first of a word's `lookup_forms` that is in `known`, or None."""
    return next((form for form in lookup_forms(word) if form in known), None)
