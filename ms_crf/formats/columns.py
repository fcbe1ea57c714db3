"""Reads and writes columns: a token and its tag a row, or the four columns of CoNLL-2003."""

from collections.abc import Iterable, Iterator, Sequence

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.formats.document import Document, Placed, Remark, Report, joined, moved
from ms_crf.formats.readers import COLUMNS, Row, blocks, cells_of, numbered_lines
from ms_crf.text.partial import MARK

DOCSTART = '-DOCSTART-'
WIDTH = 4                      # of CoNLL-2003: token, part of speech, chunk, name
EMPTY = '_'
FILLERS = (EMPTY, '-X-')        # which stand where there is nothing to say


def read(path: PathLike, report: Report, columns: tuple[int, ...] = COLUMNS, width: int | None = None,
         mark: str = MARK) -> Iterator[Document]:
    """The documents of a file: those that -DOCSTART- rows begin, or each sentence by itself where there are none.

    Args:
        path: of the file.
        report: is called with a `Remark` on what is not kept: here columns beside those of token and tag.
        columns: indices of the columns of token and tag.
        width: the number of columns that each row must have.
        mark: what stands in place of a tag that nobody has judged; '' for nothing.
    """
    sentences: list[Placed] = []
    begun = False
    for rows in blocks(numbered_lines(path), mark=mark):
        for row in rows or ():
            if row.text.startswith(DOCSTART):
                if sentences:
                    yield _document(path, sentences, True)
                sentences, begun = [], True
        words = [row for row in rows or () if row.cells]
        if words:
            sentence = _sentence(path, words, columns, width)
            if any(_others(row, columns) for row in words):
                report(Remark('columns', str(path), sentence.line, ' '.join(sentence.tokens)))
            if begun:
                sentences.append(sentence)
            else:
                yield _document(path, [sentence], False)
    if sentences:
        yield _document(path, sentences, True)


def _sentence(path: PathLike, words: Sequence[Row], columns: tuple[int, ...], width: int | None) -> Placed:
    odd = next((row for row in words if width is not None and len(row.cells) != width), None)
    if odd is not None:
        raise CorpusError(path, odd.line_number, f'expected {width} columns, as CoNLL-2003 has them, got {odd.text!r}')
    tokens, tags = map(list, zip(*(cells_of(path, row, columns) for row in words)))
    return Placed(tokens, joined(tokens)[1], words[0].line_number, tags, tuple(row.line_number for row in words))


def _others(row: Row, columns: tuple[int, ...]) -> list[str]:
    """What a row has in other columns than those of token and tag."""
    read = {column % len(row.cells) for column in columns}
    return [cell for index, cell in enumerate(row.cells) if index not in read and cell not in FILLERS]


def _document(path: PathLike, sentences: Sequence[Placed], bordered: bool) -> Document:
    """A document of sentences: its text is their tokens joined by blanks, and the sentences by line ends."""
    lines, placed, offset = [], [], 0
    for sentence in sentences:
        text, places = joined(sentence.tokens)
        placed.append(sentence._replace(places=moved(places, offset)))
        lines.append(text)
        offset += len(text) + 1
    return Document('\n'.join(lines), str(path), sentences[0].line, sentences=placed, bordered=bordered, has_text=False)


def write(documents: Iterable[tuple[Document, Sequence[Placed]]]) -> Iterator[str]:
    """Rows of token, tab, tag; a blank line after each sentence.

    Raises:
        CorpusError: a token or tag can't stand in a column.
    """
    for document, sentences in documents:
        for sentence in sentences:
            rows = list(zip(sentence.tokens, sentence.tags or []))
            for row in rows:
                check_cells(document, sentence, row)
            yield ''.join(f'{token}\t{tag}\n' for token, tag in rows) + '\n'


def write_2003(documents: Iterable[tuple[Document, Sequence[Placed]]], plain: bool) -> Iterator[str]:
    """Rows of four columns separated by blanks, a -DOCSTART- row before each document.

    Args:
        documents: with the sentences of each, which have tags.
        plain: whether tags are not of spans; they are in the second column then.
    """
    first = True
    for document, sentences in documents:
        if first or document.bordered:
            yield f'{DOCSTART} -X- -X- O\n\n'
        first = False
        for sentence in sentences:
            lines = []
            for token, tag in zip(sentence.tokens, sentence.tags or []):
                check_cells(document, sentence, (token, tag), '\t\r\n ')
                lines.append(f'{token} {tag} {EMPTY} O\n' if plain else f'{token} {EMPTY} {EMPTY} {tag}\n')
            yield ''.join(lines) + '\n'


def check_cells(document: Document, sentence: Placed, cells: Sequence[str], separators: str = '\t\r\n') -> None:
    """Raises CorpusError if a column can't hold one of some values."""
    for cell in cells:
        why = next((_NAMES[character] for character in separators if character in cell), None)
        if why is None and (not cell or cell != cell.strip(' ')):
            why = 'a blank at its end' if cell else 'nothing'
        if why is None and cell.startswith((DOCSTART, '\ufeff')):
            why = 'the sign of a border between documents' if cell.startswith(DOCSTART) else 'a byte order mark'
        if why is None and not cell.isascii() and any('\ud800' <= character <= '\udfff' for character in cell):
            why = 'half of a surrogate pair'
        if why is not None:
            raise CorpusError(document.home, sentence.line, 'expected tokens and tags that columns can hold, got '
                                                            f'{why} in {brief(cell)}; JSON lines can hold it')


_NAMES = {'\t': 'a tab', '\r': 'a line end', '\n': 'a line end', ' ': 'a blank'}
