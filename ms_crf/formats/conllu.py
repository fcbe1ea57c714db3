"""Reads and writes CoNLL-U: ten columns, comments, ranges of words and empty nodes.

Tags such as parts of speech are in the column of their own; tags of spans are in MISC, as NER=B-PER. White space is
what SpaceAfter, SpacesAfter and SpacesBefore say, the last two with UDPipe's escapes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats.columns import EMPTY, check_cells
from ms_crf.formats.document import Document, Placed, Remark, Report, moved, places_in
from ms_crf.formats.readers import CONLLU_COLUMNS, MISC, NER, Row, attributes, blocks, cells_of, numbered_lines, split
from ms_crf.text.splitting import Offsets

WIDTH, ID, FORM, UPOS = 10, 0, 1, CONLLU_COLUMNS[1]
_RANGE = re.compile(r'(\d+)-(\d+)')
_ESCAPES = {'\\': '\\\\', ' ': '\\s', '\t': '\\t', '\r': '\\r', '\n': '\\n', '|': '\\p'}
_ESCAPED = {escape: character for character, escape in _ESCAPES.items()}


def check_tag_column(column: int) -> int:
    """A column that tags can be written to, from 0; raises OptionError for one of the others."""
    found = column if column >= 0 else WIDTH + column
    if not FORM < found < WIDTH:
        raise OptionError(f'the column of the tags of CoNLL-U must be from {FORM + 1} to {WIDTH - 1}, got {column}')
    return found


# Rows

def cells_in(path: object, row: Row) -> list[str]:
    """The ten columns of a row as they stand there; raises CorpusError if there are others."""
    cells = row.text.split('\t') if '\t' in row.text else row.cells
    if len(cells) != WIDTH:
        raise CorpusError(path, row.line_number, f'expected {WIDTH} columns, as CoNLL-U has them, got {row.text!r}')
    return cells


def row_with(path: object, row: Row, tag: str, column: int, others: Mapping[str, str | None]) -> str:
    """A row with another tag, without its line end.

    Args:
        path: of the file, for messages.
        row: of the input.
        tag: the tag.
        column: the one that it goes to; in MISC it is the attribute NER, which is left out for O.
        others: attributes of MISC that it gets besides; those that are None are taken away.
    """
    cells = cells_in(path, row)
    changed = dict(others)
    if column == MISC:
        changed[NER] = tag if tag != 'O' else None
    else:
        cells[column] = tag
    if changed:
        cells[MISC] = misc_with(cells[MISC], changed)
    return '\t'.join(cells)


def misc_with(misc: str, changed: Mapping[str, str | None]) -> str:
    """The column MISC with other values of some attributes; those that are None are taken away."""
    kept = [part for part in misc.split('|') if part != EMPTY and part.partition('=')[0] not in changed]
    kept += [f'{name}={value}' for name, value in changed.items() if value is not None]
    return '|'.join(kept) or EMPTY


# Reading

def read(path: PathLike, report: Report, columns: tuple[int, ...] = CONLLU_COLUMNS) -> Iterator[Document]:
    """The documents of a file: those that '# newdoc' begins, or each sentence by itself where there are none.

    Args:
        path: of the file.
        report: is called with a `Remark` on a # text that does not hold the forms of its sentence.
        columns: indices of the columns of token and tag.
    """
    sentences: list[tuple[Placed, str, str | None]] = []
    line, name, begun = 1, '', False
    for rows in blocks(numbered_lines(path), True):
        words = [row for row in rows or () if row.cells]
        comments = dict(_comment(row.text) for row in rows or () if not row.cells and row.text.startswith('#'))
        if 'newdoc' in comments or 'newdoc id' in comments:
            if sentences:
                yield _document(path, sentences, line, name, begun)
            sentences, begun, name = [], True, comments.get('newdoc id', '')
            line = rows[0].line_number if rows else line
        if not words:
            continue
        sentence = _sentence(path, rows or [], words, columns, comments.get('text'), report)
        if begun:
            sentences.append(sentence)
        else:
            yield _document(path, [sentence], sentence[0].line, '', False)
    if sentences:
        yield _document(path, sentences, line, name, begun)


def _comment(text: str) -> tuple[str, str]:
    name, _, value = text[1:].partition('=')
    return name.strip(), value.strip()


def _sentence(path: PathLike, rows: Sequence[Row], words: Sequence[Row], columns: tuple[int, ...], text: str | None,
              report: Report) -> tuple[Placed, str, str | None]:
    """A sentence, its text, and the white space after it, None where the file does not say."""
    cells = [cells_of(path, row, columns, True) for row in words]
    tokens, tags = [token for token, *_ in cells], [tag for _, tag in cells]
    units = _units(path, rows)
    parts: list[str] = []
    places: list[Offsets] = []
    after, length = None, 0
    for form, misc, size in units:
        said = attributes(misc)
        lead = unescaped(said.get('SpacesBefore', ''))
        places += _within(tokens[len(places):len(places) + size], form, length + len(lead))
        parts += [lead, form]
        after = unescaped(said['SpacesAfter']) if 'SpacesAfter' in said else (
            '' if said.get('SpaceAfter') == 'No' else None)
        parts.append(' ' if after is None else after)
        length += sum(map(len, parts[-3:]))
    own = ''.join(parts[:-1])
    if text is not None and own.split() != text.split():
        forms = places_in([form for form, _, _ in units], text)
        if forms is None:
            report(Remark('odd text', str(path), words[0].line_number, text))
        else:                                    # the file says nothing of its white space but by the text
            own, places = text, []
            for (form, _, size), (begin, _) in zip(units, forms):
                places += _within(tokens[len(places):len(places) + size], form, begin)
    lines = tuple(row.line_number for row in words)
    return Placed(tokens, places, lines[0], tags, lines, tuple(rows)), own, after


def _units(path: PathLike, rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """(form, MISC, number of words) of what stands in the text: words, and ranges that several words are in."""
    units, inside = [], 0
    for row in rows:
        if row.text.startswith('#') or not row.text.strip(' \t'):
            continue
        cells = row.cells or split(row.text)
        match = _RANGE.fullmatch(cells[ID])
        misc = cells[MISC] if len(cells) > MISC else EMPTY
        if match and not row.cells:
            size = int(match[2]) - int(match[1]) + 1
            if size < 1 or inside:
                raise CorpusError(path, row.line_number, f'expected a range of words like 1-2, got {cells[ID]!r}')
            units.append((cells[FORM], misc, size))
            inside = size
        elif row.cells and inside:
            inside -= 1
        elif row.cells:
            units.append((cells[FORM], misc, 1))
    if inside:
        raise CorpusError(path, rows[0].line_number, 'expected all words of each range, got fewer in the sentence that '
                                                     'begins here')
    return units


def _within(tokens: Sequence[str], form: str, begin: int) -> list[Offsets]:
    """The places of the words of a form: its parts if they are its spelling, otherwise the whole of it for each."""
    if ''.join(tokens) == form:
        places: list[Offsets] = []
        for token in tokens:
            places.append((begin, begin + len(token)))
            begin += len(token)
        return places
    return [(begin, begin + len(form))] * len(tokens)


def _document(path: PathLike, sentences: Sequence[tuple[Placed, str, str | None]], line: int, name: str, bordered: bool
              ) -> Document:
    pieces, placed, offset = [], [], 0
    for index, (sentence, text, after) in enumerate(sentences):
        placed.append(sentence._replace(places=moved(sentence.places, offset)))
        last = index + 1 == len(sentences)
        space = ('' if last else ' ') if after is None else after if bordered or not last else ''
        pieces += [text, space]
        offset += len(text) + len(space)
    return Document(''.join(pieces), str(path), line, sentences=placed, name=name, bordered=bordered)


def escaped(space: str) -> str:
    return ''.join(_ESCAPES.get(character, character) for character in space)


def unescaped(text: str) -> str:
    return re.sub(r'\\[\\strnp]', lambda match: _ESCAPED[match.group()], text)


# Writing

def write(documents: Iterable[tuple[Document, Sequence[Placed]]], plain: bool, column: int = UPOS) -> Iterator[str]:
    """The sentences of documents with their tags; rows that came from CoNLL-U keep all else that they have.

    Args:
        documents: with the sentences of each, which have tags.
        plain: whether tags are not of spans.
        column: the one that plain tags go to.

    Raises:
        CorpusError: a token or tag can't stand in a column.
    """
    number = 0
    for document, sentences in documents:
        for index, sentence in enumerate(sentences):
            number += 1
            for cells in zip(sentence.tokens, sentence.tags or []):
                check_cells(document, sentence, cells)
                if not plain and '|' in cells[1]:
                    raise CorpusError(document.home, sentence.line, 'expected types that MISC can hold, got | in '
                                                                    f'{cells[1]!r}')
            if sentence.rows:
                yield _rewritten(document, sentence, column if plain else MISC)
            else:
                heading = _heading(document) if index == 0 and document.bordered else ''
                after = sentences[index + 1].places[0][0] if index + 1 < len(sentences) else len(document.text)
                yield heading + _written(document, sentence, number, after, index == 0, index + 1 == len(sentences),
                                         column if plain else MISC)


def _heading(document: Document) -> str:
    name = ' '.join(document.name.split())
    return f'# newdoc id = {name}\n' if name else '# newdoc\n'


def _rewritten(document: Document, sentence: Placed, column: int) -> str:
    tags, lines = iter(sentence.tags or []), []
    for row in sentence.rows:
        if row.cells:
            lines.append(row_with(document.path, row, next(tags), column, {}))
        elif row.text.strip(' \t'):
            lines.append(row.text)
    return '\n'.join([*lines, '', ''])


def _written(document: Document, sentence: Placed, number: int, after: int, first: bool, last: bool, column: int
             ) -> str:
    """A sentence that is not from CoNLL-U.

    Args:
        document, sentence: of the sentence.
        number: of the sentence in the file.
        after: where the next sentence, or the end, is in the text.
        first, last: whether it is the first, or the last, of its document.
        column: of the tag.
    """
    text, places = document.text, sentence.places
    begin, ends = places[0][0], [*(start for start, _ in places[1:]), after]
    lines = [f'# sent_id = {number}', f'# text = {" ".join(text[begin:places[-1][1]].split())}']
    for index, (token, tag, (_, end), following) in enumerate(zip(sentence.tokens, sentence.tags or [], places, ends)):
        space, cells = text[end:following], [str(index + 1), token, *[EMPTY] * 8]
        misc: dict[str, str | None] = {}
        if first and index == 0 and begin:
            misc['SpacesBefore'] = escaped(text[:begin])
        default = '' if last and index + 1 == len(places) else ' '
        if space != default:
            misc.update({'SpacesAfter': escaped(space)} if space else {'SpaceAfter': 'No'})
        cells[MISC] = misc_with(EMPTY, misc)
        row = Row(0, '\t'.join(cells), cells)
        lines.append(row_with(document.path, row, tag, column, {}))
    return '\n'.join([*lines, '', ''])


def has_parts_of_speech(documents: Iterable[Document]) -> bool:
    """Whether any word of documents from CoNLL-U has a tag in the column UPOS."""
    return any(tag != EMPTY for document in documents for sentence in document.sentences or ()
               for tag in sentence.tags or ())


def has_more(sentence: Placed, columns: Sequence[int]) -> bool:
    """Whether a sentence from CoNLL-U says something in other columns than its numbers and some."""
    return any(cell != EMPTY for row in sentence.rows for index, cell in enumerate(row.cells)
               if index != ID and index not in columns)
