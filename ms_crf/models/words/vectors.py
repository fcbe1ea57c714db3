"""Word vectors from a text file in the format of word2vec or GloVe."""

from collections.abc import Collection, Container, Iterator
from contextlib import suppress
from typing import NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import numbered_lines
from ms_crf.models.words.ngrams import has_letters

import numpy as np

WAYS = ('exact', 'lower case', 'digits as 0')


def forms_of(word: str) -> Iterator[str]:
    """The forms under which a word is looked up, in this order: as it is, in lower case, its digits as 0."""
    yield word
    lower = word.lower()
    yield lower
    if not lower.isalpha():                                      # which has no digits
        yield ''.join(['0' if character.isdigit() else character for character in lower])


def _header(text: str) -> int | None:
    """Width of the vectors, if the line is a word2vec header: number of words and width."""
    fields = text.split()
    return int(fields[1]) if len(fields) == 2 and all(field.isdecimal() for field in fields) else None


def _vector(path: PathLike, line: int, word: str, fields: list[str], width: int) -> np.ndarray:
    """The numbers behind a word; raises CorpusError at what is none."""
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
    try:
        float(field)
    except ValueError:
        return False
    return True


class Vectors(NamedTuple):
    """What a file of vectors has for some words."""

    vectors: dict[str, np.ndarray]           # by form, (width,) float32
    width: int
    ways: dict[str, str]                     # how each word was found, one of WAYS; words that were not are missing
    common: dict[str, np.ndarray]            # of the first words with letters in the file, which are its commonest


def read_vectors(path: PathLike, wanted: Collection[str], common: int = 0) -> Vectors:
    """Vectors of the wanted words, each under the form that the file knows first (see `forms_of`).

    Args:
        path: a line a word, followed by its numbers; with or without a header line; .gz is decompressed.
        wanted: words.
        common: how many of the first words of the file are read in any case, if their numbers can be read.

    Raises:
        CorpusError: at the first fault.
    """
    looked_up = {form for word in wanted for form in forms_of(word)}
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
        if count != width and (count < width or _is_number(fields[-width - 1])):    # a word may contain blanks
            raise CorpusError(path, line, f'expected {width} numbers after {fields[0]!r}, as before, got {count}')
        word = ' '.join(fields[:-width])
        if word in looked_up and word not in vectors:
            vectors[word] = _vector(path, line, word, fields[-width:], width)
        if len(first) < common and has_letters(word) and word not in first:
            with suppress(CorpusError):          # a word that nobody asked for may be damaged
                first[word] = vectors[word] if word in vectors else _vector(path, line, word, fields[-width:], width)
    if width is None:
        raise CorpusError(path, None, 'expected word vectors, got an empty file')
    used = {word: form for word in wanted if (form := form_in(vectors, word)) is not None}
    ways = {word: WAYS[list(forms_of(word)).index(form)] for word, form in used.items()}
    forms = set(used.values())
    return Vectors({form: vector for form, vector in vectors.items() if form in forms}, width, ways, first)


def form_in(known: Container[str], word: str) -> str | None:
    """The first form of a word that is known, or None."""
    return next((form for form in forms_of(word) if form in known), None)
