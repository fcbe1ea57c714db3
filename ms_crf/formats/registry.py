"""The formats of annotated text: a row for each, and which format a file has.

A further format is a module with a reader and a writer, and a row that `register` adds.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ms_crf.base.files import PathLike
from ms_crf.formats import brat, columns, conllu, json_exports, json_records, raw
from ms_crf.formats.document import COLUMNS, Document, Lines, Look, Marked, Reading, Report, Target
from ms_crf.formats.lines import numbered_lines
from ms_crf.text.sentence import Sentence


@dataclass(frozen=True)
class Format:
    """A format of annotated text.

    Args:
        name: of the format.
        endings: of the names of its files, also followed by .gz; the first is that of files that are written.
        stream: the name of the format where sentences are tagged as they arrive; several formats may share a name.
        sentences: reads sentences as they arrive: (lines, name of the file, how to read it).
        documents: reads the documents of a file or folder; None where each of the `sentences` is a document.
        line: a tagged sentence as text, with the end of its last line.
        write: the text of a file, in parts; None where that is a `line` for each sentence.
        save: writes documents with spans to files of its own; `check` checks their name before.
        sniff: whether a file or folder is of this format, by its name and the files next to it.
        begins: what files of this format may begin with.
        columns: indices of the columns of token and tag; () if the format has no columns.
        holds: what the format has a place for: 'tags' (sentences with tokens and tags; otherwise texts with spans),
            'text' (white space between tokens), 'tokens' (of texts with spans), 'names' (of documents), 'fields' (of
            records, and whether a model has tagged them), 'judged' (which parts of a text are judged).
        shown: what its files are called in messages.
    """

    name: str
    endings: tuple[str, ...] = ()
    stream: str = ''
    sentences: Callable[[Lines, object, Reading], Iterator[Sentence | None]] | None = None
    documents: Callable[[PathLike, Reading], Iterator[Document]] | None = None
    line: Callable[[Sentence, Look], str] | None = None
    write: Callable[[Iterable[Any], Target], Iterator[str]] | None = None
    save: Callable[[Sequence[Marked], PathLike, Report], None] | None = None
    check: Callable[[PathLike], None] | None = None
    sniff: Callable[[PathLike], bool] | None = None
    begins: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    holds: frozenset[str] = frozenset()
    shown: str = ''

    @property
    def readable(self) -> bool:
        """Whether annotations can be read from the format."""
        return self.documents is not None or (self.sentences is not None and 'tags' in self.holds)

    @property
    def writable(self) -> bool:
        """Whether annotations can be written to the format."""
        return any((self.write, self.save)) or (self.line is not None and 'tags' in self.holds)

    def read(self, path: PathLike, reading: Reading) -> Iterator[Document]:
        """The documents of a file or folder."""
        if self.documents is not None:
            yield from self.documents(path, reading)
        elif self.sentences is not None:
            for sentence in self.sentences(numbered_lines(path), path, reading):
                if sentence is not None and sentence.tokens:
                    yield columns.document_of(path, [sentence], False)


TEXT, CONLL, JSON, HTML = 'text', 'conll', 'json', 'html'
TOKENS, DOCCANO, LABEL_STUDIO, PRODIGY, SPACY = 'tokens', 'doccano', 'label-studio', 'prodigy', 'spacy'
BRAT, CONLLU, CONLL2003, ROWS = 'brat', 'conllu', 'conll2003', 'columns'
#: all formats, by their names
FORMATS: dict[str, Format] = {}
#: names of the formats that annotations are read from and written to
SOURCES: list[str] = []
TARGETS: list[str] = []
#: names of the formats that sentences to tag come in, and that tagged sentences are written in
STREAMS = [TEXT, CONLL, JSON]
OUTPUTS = [*STREAMS, HTML]


def register(row: Format) -> None:
    """Adds a format; from now on commands know it."""
    FORMATS[row.name] = row
    for names, name, known in ((SOURCES, row.name, row.readable), (TARGETS, row.name, row.writable),
                               (STREAMS, row.stream, row.sentences), (OUTPUTS, row.stream, row.line)):
        if known and name and name not in names:
            names.append(name)


_TAGS, _FIELDS, _TEXT = frozenset({'tags'}), frozenset({'fields'}), frozenset({'text'})
_JSON: dict[str, Any] = {'documents': json_records.read, 'shown': 'JSON lines'}      # each record shows its form
for _row in (
    Format(TEXT, ('.txt',), TEXT, raw.sentences),
    Format(JSON, ('.jsonl', '.json'), JSON, json_records.sentences, line=json_exports.line, begins=('{', '['), **_JSON),
    Format(TOKENS, write=json_exports.tokens, holds=_TAGS | _FIELDS, **_JSON),
    Format(DOCCANO, write=json_exports.doccano, holds=_FIELDS | _TEXT | {'judged'}, **_JSON),
    Format(LABEL_STUDIO, write=json_exports.label_studio, holds=_FIELDS | _TEXT, **_JSON),
    Format(PRODIGY, write=json_exports.prodigy, holds=_FIELDS | _TEXT | {'judged', 'tokens'}, **_JSON),
    Format(SPACY, write=json_exports.spacy, holds=_TEXT | {'judged'}, **_JSON),
    Format(BRAT, (brat.NOTES,), documents=brat.read, save=brat.write, check=brat.check_target, sniff=brat.is_brat,
           holds=_TEXT | {'names'}, shown=BRAT),
    Format(CONLLU, ('.conllu',), CONLL, partial(columns.sentences, conllu=True), conllu.read, conllu.line, conllu.write,
           columns=conllu.COLUMNS, holds=_TAGS | _TEXT | {'names'}),
    Format(CONLL2003, documents=partial(columns.read, width=columns.WIDTH_2003), write=columns.write_2003,
           columns=COLUMNS, holds=_TAGS),
    Format(ROWS, ('.tsv', '.conll', '.col', '.bio', '.iob', '.iob2', '.bioes', '.bmes'), CONLL, columns.sentences,
           columns.read, columns.line, columns.write, columns=COLUMNS, holds=_TAGS),
    Format(HTML, ('.html',), HTML),
):
    register(_row)


def of_ending(path: PathLike) -> Format | None:
    """The format of a file by the ending of its name."""
    name = os.fspath(path).removesuffix('.gz')
    return next((row for row in FORMATS.values() if row.endings and name.endswith(row.endings)), None)


def of_name(path: PathLike) -> Format | None:
    """The format of annotations by the name of their file or folder, and what lies there; None if that leaves it open.
    """
    row = next((row for row in FORMATS.values() if row.sniff and row.sniff(path)), None) or of_ending(path)
    return row if row is not None and row.readable else None


def of_corpus(path: PathLike) -> Format:
    """The format of a corpus; columns unless its name says something else."""
    return of_name(path) or FORMATS[ROWS]


def of_file(path: PathLike) -> Format | None:
    """The format of annotations by their name, or by how the file begins; None if neither says it."""
    row = of_name(path)
    if row is None and os.path.isfile(path):
        begin = next((text.lstrip() for _, text in numbered_lines(path) if text.strip()), '')
        row = next((row for row in FORMATS.values() if row.begins and begin.startswith(row.begins)), None)
    return row


def of_target(path: PathLike) -> Format | None:
    """The format of a file that is to be written, by its name; None if that leaves a choice."""
    name = os.fspath(path)
    if name.endswith(os.sep) or os.path.isdir(name):
        return next(row for row in FORMATS.values() if row.save)
    row = of_ending(name)
    return row if row is not None and row.writable else None


def of_stream(name: PathLike, stream: str = 'auto') -> Format:
    """The format of sentences to tag.

    Args:
        name: of the file.
        stream: one of `STREAMS`, or 'auto' for the format that the name says, text for any other name.
    """
    row = of_ending(name)
    if stream == 'auto':
        return row if row is not None and row.sentences else FORMATS[TEXT]
    rows = [row for row in FORMATS.values() if row.stream == stream and row.sentences]
    return row if row in rows else rows[-1]


def columns_of(path: PathLike, columns: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of the columns of token and tag, or of the token alone: a format may have a default of its own."""
    row = of_ending(path)
    size = len(columns)
    return row.columns[:size] if row is not None and row.columns and columns == COLUMNS[:size] else columns


def without_columns(path: PathLike) -> str | None:
    """Why naming the columns of a corpus has no effect, such as 'with JSON lines'; None if it has one."""
    row = of_corpus(path)
    return None if row.columns else f'with {row.shown or row.name}'
