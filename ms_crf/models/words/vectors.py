"""Word vectors from a text file in the format of word2vec or GloVe."""

from ms_crf.errors import CorpusError
from ms_crf.text.readers import numbered_lines

import numpy as np

WAYS = ('exact', 'lower case', 'digits as 0')


def forms_of(word):
    """The forms under which a word is looked up, in this order: as it is, in lower case, its digits as 0."""
    yield word
    lower = word.lower()
    yield lower
    yield ''.join('0' if character.isdigit() else character for character in lower)


def _header(text):
    """Width of the vectors, if the line is a word2vec header: number of words and width."""
    fields = text.split()
    return int(fields[1]) if len(fields) == 2 and all(field.isdecimal() for field in fields) else None


def _numbers(path, number, word, fields, width):
    try:
        vector = np.array(fields, np.float32)
    except ValueError:
        raise CorpusError(path, number,
                          f'expected {width} numbers after {word!r}, got {" ".join(fields)[:40]!r}') from None
    if not np.isfinite(vector).all():
        place = int(np.argmin(np.isfinite(vector)))
        raise CorpusError(path, number,
                          f'expected finite numbers, got {fields[place]} as number {place + 1} of {word!r}')
    return vector


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def read_vectors(path, wanted):
    """Vectors of the wanted words, each under the form that the file knows first (see `forms_of`).

    Args:
        path: a line a word, followed by its numbers; with or without a header line; .gz is decompressed.
        wanted: words.

    Returns:
        vectors: dict of form: (width,) float32.
        width: int.
        ways: dict of word: how it was found, one of WAYS; words that were not found are missing.

    Raises:
        CorpusError: at the first fault.
    """
    kept = {form for word in wanted for form in forms_of(word)}
    vectors, width = {}, None
    for number, text in numbered_lines(path):
        text = text.rstrip(' \t')
        if number == 1:
            width = _header(text)
            if width is not None:
                continue
        if not text:
            continue
        fields = text.replace('\t', ' ').split(' ')
        if width is None:
            width = len(fields) - 1
            if width < 1:
                raise CorpusError(path, number, f'expected a word and its vector, got {text[:40]!r}')
        found = len(fields) - 1
        if found != width and (found < width or _is_number(fields[-width - 1])):    # a word may contain blanks
            raise CorpusError(path, number, f'expected {width} numbers after {fields[0]!r}, as before, got {found}')
        word = ' '.join(fields[:-width])
        if word in kept and word not in vectors:
            vectors[word] = _numbers(path, number, word, fields[-width:], width)
    if width is None:
        raise CorpusError(path, None, 'expected word vectors, got an empty file')
    ways = {}
    for word in wanted:
        way = next((way for form, way in zip(forms_of(word), WAYS) if form in vectors), None)
        if way is not None:
            ways[word] = way
    used = {form_in(vectors, word) for word in ways}
    return {form: vector for form, vector in vectors.items() if form in used}, width, ways


def form_in(known, word):
    """The first form of a word that is known, or None."""
    return next((form for form in forms_of(word) if form in known), None)
