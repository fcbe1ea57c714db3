"""Reads and writes CoNLL-U: ten columns, comments, multiword tokens and empty nodes.

Plain tags, such as parts of speech, are in a column. Tags of spans are attributes of MISC, such as NER=B-PER. The
attributes SpaceAfter, SpacesAfter and SpacesBefore give the white space; the last two use the escapes of UDPipe.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats import columns
from ms_crf.formats.columns import EMPTY, MISC, NER, attributes, check_cells, split
from ms_crf.formats.document import (
    UPOS,
    Document,
    OutputStyle,
    ReadOptions,
    Remark,
    Report,
    TaggedDocument,
    Target,
    offsets_in,
)
from ms_crf.formats.lines import numbered_lines
from ms_crf.text.schemes import PLAIN
from ms_crf.text.sentence import Offsets, Row, Sentence

WIDTH, ID, FORM = 10, 0, 1
COLUMNS = (FORM, UPOS)         # default columns of token and tag
_RANGE = re.compile(r'(\d+)-(\d+)')
_ESCAPED = {'\\\\': '\\', '\\s': ' ', '\\t': '\t', '\\r': '\r', '\\n': '\n', '\\p': '|'}
_ESCAPES = str.maketrans({character: escape for escape, character in _ESCAPED.items()})


def check_tag_column(column: int) -> int:
    """The index, from 0, of a column that tags can be written to; raises OptionError for other columns."""
    index = column if column >= 0 else WIDTH + column
    if not FORM < index < WIDTH:
        raise OptionError(f'the tag column of CoNLL-U must be from {FORM + 1} to {WIDTH - 1}, got {column}')
    return index


# Rows

def cells_in(path: object, row: Row) -> list[str]:
    """The ten unchanged columns of a row; raises CorpusError for another number of columns."""
    cells = row.text.split('\t') if '\t' in row.text else row.cells
    if len(cells) != WIDTH:
        raise CorpusError(path, row.line_number, f'expected {WIDTH} columns, as CoNLL-U has them, got {row.text!r}')
    return cells


def row_with(path: object, row: Row, tag: str, column: int, others: Mapping[str, str]) -> str:
    """A row with a new tag, without its line end.

    Args:
        path: path of the file, for messages.
        row: the row of the input.
        tag: the new tag.
        column: the column for the tag. In MISC the tag becomes the attribute NER, which is omitted for O.
        others: more attributes to add to MISC.
    """
    cells = cells_in(path, row)
    changed: dict[str, str | None] = dict(others)
    if column == MISC:
        changed[NER] = tag if tag != 'O' else None
    else:
        cells[column] = tag
    if changed:
        kept = [part for part in cells[MISC].split('|') if part != EMPTY and part.partition('=')[0] not in changed]
        kept += [f'{name}={value}' for name, value in changed.items() if value is not None]
        cells[MISC] = '|'.join(kept) or EMPTY
    return '\t'.join(cells)


def _rows(path: object, sentence: Sentence, column: int, shown: Sequence[float] | None = None) -> list[str]:
    """The rows of a sentence with its tags, and with confidences in MISC if `shown` has them."""
    return columns.rewritten(sentence, lambda row, index: row_with(
        path, row, sentence.tags[index], column, {'Confidence': f'{shown[index]:.4f}'} if shown else {}))


# Reading

def read(path: PathLike, options: ReadOptions) -> Iterator[Document]:
    """The documents of a file. Documents begin with '# newdoc'; without this comment each sentence is a document.

    Args:
        path: path of the file.
        options: the columns; `report` receives a `Remark` if the comment '# text' does not match the forms.
    """
    waiting: list[tuple[Sentence, str | None]] = []
    line, name, begun = 1, '', False
    for sentence in columns.sentences(numbered_lines(path), path, options, True):
        rows = sentence.rows if sentence else ()
        comments = {name.strip(): value.strip() for name, _, value in (
            row.text[1:].partition('=') for row in rows if not row.cells and row.text.startswith('#'))}
        if 'newdoc' in comments or 'newdoc id' in comments:
            if waiting:
                yield _document(path, waiting, line, name, begun)
            waiting, begun, name, line = [], True, comments.get('newdoc id', ''), rows[0].line_number
        if sentence is None or not sentence.tokens:
            continue
        placed = _placed(path, sentence, comments.get('text'), options.report)
        if begun:
            waiting.append(placed)
        else:
            yield _document(path, [placed], placed[0].line, '', False)
    if waiting:
        yield _document(path, waiting, line, name, begun)


def _placed(path: PathLike, sentence: Sentence, text: str | None, report: Report) -> tuple[Sentence, str | None]:
    """A sentence with its text and offsets, and the white space after it; None if the file does not state it."""
    line, tokens = sentence.lines[0], sentence.tokens
    units = _units(path, sentence.rows)
    parts: list[str] = []
    offsets: list[Offsets] = []
    begins, after, length = [], None, 0
    for form, misc, _ in units:
        values = attributes(misc)
        lead = unescaped(values.get('SpacesBefore', ''))
        begins.append(length + len(lead))
        after = unescaped(values['SpacesAfter']) if 'SpacesAfter' in values else (
            '' if values.get('SpaceAfter') == 'No' else None)
        parts += [lead, form, ' ' if after is None else after]
        length += sum(map(len, parts[-3:]))
    joined = ''.join(parts[:-1])
    if text is not None and joined.split() != text.split():
        forms = offsets_in([form for form, _, _ in units], text)
        if forms is None:
            report(Remark('odd text', str(path), line, text))
        else:                                    # only the comment shows the white space
            joined, begins = text, [begin for begin, _ in forms]
    for (form, _, size), begin in zip(units, begins):
        offsets += _within(tokens[len(offsets):len(offsets) + size], form, begin)
    return sentence.replace(line=line, text=joined, offsets=offsets), after


def _units(path: PathLike, rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """(form, MISC, number of words) of each unit of the text: a word, or a multiword token with several words."""
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
        raise CorpusError(path, rows[0].line_number, 'expected all words of each range like 1-2, got fewer in the '
                                                     'sentence that begins here')
    return units


def _within(tokens: Sequence[str], form: str, begin: int) -> list[Offsets]:
    """Offsets of the words of a unit: parts of the form if the words spell it, otherwise the whole form for each."""
    if ''.join(tokens) == form:
        ends = [begin + size for size in accumulate(map(len, tokens), initial=0)]
        return list(zip(ends, ends[1:]))
    return [(begin, begin + len(form))] * len(tokens)


def _document(path: PathLike, sentences: Sequence[tuple[Sentence, str | None]], line: int, name: str, has_boundary: bool
              ) -> Document:
    pieces, placed, offset = [], [], 0
    for index, (sentence, after) in enumerate(sentences):
        placed.append(sentence.moved(offset))
        last = index + 1 == len(sentences)
        space = ('' if last else ' ') if after is None else after if has_boundary or not last else ''
        pieces += [sentence.text, space]
        offset += len(sentence.text) + len(space)
    return Document(''.join(pieces), str(path), line, sentences=placed, name=name, has_boundary=has_boundary)


def unescaped(text: str) -> str:
    return re.sub(r'\\[\\strnp]', lambda match: _ESCAPED[match.group()], text)


# Writing

def write(documents: Iterable[TaggedDocument], target: Target) -> Iterator[str]:
    """Writes the tagged sentences of documents. Rows that came from CoNLL-U keep their other columns and attributes.

    Raises:
        CorpusError: a column cannot hold a token or tag.
    """
    numbers, plain = count(1), target.scheme == PLAIN
    column = target.column if plain else MISC
    for document, sentences in documents:
        for index, (sentence, number) in enumerate(zip(sentences, numbers)):
            for cells in zip(sentence.tokens, sentence.tags):
                check_cells(document, sentence, cells)
                if not plain and '|' in cells[1]:
                    raise CorpusError(document.source_path, sentence.line, 'expected types that MISC can hold, got | '
                                                                           f'in {cells[1]!r}')
            if sentence.rows:
                texts = [text for text in _rows(document.path, sentence, column) if text.strip(' \t')]
                yield '\n'.join([*texts, '', ''])
            else:
                if index == 0 and document.has_boundary:
                    name = ' '.join(document.name.split())
                    yield f'# newdoc id = {name}\n' if name else '# newdoc\n'
                after = sentences[index + 1].offsets[0][0] if index + 1 < len(sentences) else len(document.text)
                yield _written(document, sentence, number, after, index == 0, index + 1 == len(sentences), column)


def line(sentence: Sentence, style: OutputStyle) -> str:
    """The rows of a tagged sentence; CoNLL-U rows get the tag, and if wanted the confidence in MISC."""
    if not sentence.rows or style.conllu is None:
        return columns.line(sentence, style)
    lines = _rows('', sentence, style.conllu if style.scheme == PLAIN else MISC,
                  sentence.confidences if style.confidence else None)
    if sentence.tokens and lines[-1].strip(' \t'):                  # the file ends without an empty line
        lines.append('')
    return ''.join(f'{text}\n' for text in lines)


def checked(sentences: Iterable[Sentence | None], name: str) -> Iterator[Sentence | None]:
    """Yields all sentences, and None, unchanged; raises CorpusError at the first row without ten columns."""
    for sentence in sentences:
        for row in sentence.rows if sentence is not None else ():
            if row.cells:
                cells_in(name, row)
        yield sentence


def _written(document: Document, sentence: Sentence, number: int, after: int, first: bool, last: bool, column: int
             ) -> str:
    """The CoNLL-U rows of a sentence that came from another format.

    Args:
        document: the document of the sentence.
        sentence: the sentence, with tags.
        number: number of the sentence in the file.
        after: offset at which the next sentence begins, or the text ends.
        first, last: whether it is the first, or the last, sentence of its document.
        column: the column for the tags.
    """
    text, offsets = document.text, sentence.offsets
    begin, ends = offsets[0][0], [*(start for start, _ in offsets[1:]), after]
    lines = [f'# sent_id = {number}', f'# text = {" ".join(text[begin:offsets[-1][1]].split())}']
    for index, (token, tag, (_, end), following) in enumerate(zip(sentence.tokens, sentence.tags, offsets, ends)):
        space, cells, misc = text[end:following], [str(index + 1), token, *[EMPTY] * 8], {}
        if first and index == 0 and begin:
            misc['SpacesBefore'] = text[:begin].translate(_ESCAPES)
        default = '' if last and index + 1 == len(offsets) else ' '
        if space != default:
            misc.update({'SpacesAfter': space.translate(_ESCAPES)} if space else {'SpaceAfter': 'No'})
        lines.append(row_with(document.path, Row(0, '\t'.join(cells), cells), tag, column, misc))
    return '\n'.join([*lines, '', ''])
