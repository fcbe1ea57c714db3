"""The table of file formats: finding the format of a file, registering formats, and reading corpora in any format.

To add a format, write a module with a reader and a writer, and `register` a `Format`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment, brat, columns, conllu, json_exports, json_records, raw
from ms_crf.formats.document import (
    COLUMNS,
    Document,
    Lines,
    OutputStyle,
    ReadOptions,
    Report,
    SpanDocument,
    Target,
    discard,
)
from ms_crf.formats.lines import FilePair, files_of, numbered_lines, pair_files
from ms_crf.text.partial import MARK, opened
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import AUTO, Deferred, Splitter


@dataclass(frozen=True)
class Format:
    """A format of annotated text.

    Args:
        name: name of the format.
        endings: endings of file names, which may be followed by .gz; the first ending is used for new files.
        stream: name of the format for tagging sentences as they arrive; several formats may share this name.
        sentences: reader for sentences as they arrive, a function of (lines, file name, reading options).
        documents: reader for a file or folder; None if each of the `sentences` is a document.
        line: writer for a tagged sentence; returns its text with a line end.
        write: writer for a whole file; yields the text in parts. None if `line` writes each sentence.
        save: writer that creates its own files from documents with spans.
        check: checks the output path of `save` before anything is read.
        sniff: returns whether a file or folder has this format, by its name and the files next to it.
        begins: texts with which files of this format may begin.
        columns: indices of the columns of token and tag; () if the format has no columns.
        holds: the information that the format can hold: 'tags' (tokens with tags; otherwise the format holds texts with
            spans), 'text' (white space between tokens), 'tokens' (tokens of texts with spans), 'names' (names of
            documents), 'fields' (other fields of records, and predictions), 'judged' (annotated parts of a text).
        shown: name of the format in messages.
    """

    name: str
    endings: tuple[str, ...] = ()
    stream: str = ''
    sentences: Callable[[Lines, object, ReadOptions], Iterator[Sentence | None]] | None = None
    documents: Callable[[PathLike, ReadOptions], Iterator[Document]] | None = None
    line: Callable[[Sentence, OutputStyle], str] | None = None
    write: Callable[[Iterable[Any], Target], Iterator[str]] | None = None
    save: Callable[[Sequence[SpanDocument], PathLike, Report], None] | None = None
    check: Callable[[PathLike], None] | None = None
    sniff: Callable[[PathLike], bool] | None = None
    begins: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    holds: frozenset[str] = frozenset()
    shown: str = ''

    @property
    def readable(self) -> bool:
        """Whether the format has a reader for annotations."""
        return self.documents is not None or (self.sentences is not None and 'tags' in self.holds)

    @property
    def writable(self) -> bool:
        """Whether the format has a writer for annotations."""
        return any((self.write, self.save)) or (self.line is not None and 'tags' in self.holds)

    def read(self, path: PathLike, options: ReadOptions) -> Iterator[Document]:
        """Reads the documents of a file or folder."""
        if self.documents is not None:
            yield from self.documents(path, options)
        elif self.sentences is not None:
            for sentence in self.sentences(numbered_lines(path), path, options):
                if sentence is not None and sentence.tokens:
                    yield columns.document_of(path, [sentence], False)


TEXT, CONLL, JSON, HTML = 'text', 'conll', 'json', 'html'
TOKENS, DOCCANO, LABEL_STUDIO, PRODIGY, SPACY = 'tokens', 'doccano', 'label-studio', 'prodigy', 'spacy'
BRAT, CONLLU, CONLL2003, ROWS = 'brat', 'conllu', 'conll2003', 'columns'
#: all formats by name
FORMATS: dict[str, Format] = {}
#: names of the formats with readers, and with writers, for annotations
SOURCES: list[str] = []
TARGETS: list[str] = []
#: names of the input formats and output formats for tagging
STREAMS = [TEXT, CONLL, JSON]
OUTPUTS = [*STREAMS, HTML]


def register(row: Format) -> None:
    """Adds a format to the table, so that the commands can use it."""
    FORMATS[row.name] = row
    for names, name, known in ((SOURCES, row.name, row.readable), (TARGETS, row.name, row.writable),
                               (STREAMS, row.stream, row.sentences), (OUTPUTS, row.stream, row.line)):
        if known and name and name not in names:
            names.append(name)


_TAGS, _FIELDS, _TEXT = frozenset({'tags'}), frozenset({'fields'}), frozenset({'text'})
_JSON: dict[str, Any] = {'documents': json_records.read, 'shown': 'JSON lines'}      # the keys of a record decide
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
    """The format that uses the ending of a file name; None if no format does."""
    name = os.fspath(path).removesuffix('.gz')
    return next((row for row in FORMATS.values() if row.endings and name.endswith(row.endings)), None)


def of_name(path: PathLike) -> Format | None:
    """The format of annotations, decided by the path and the files next to it; None if neither decides it."""
    row = next((row for row in FORMATS.values() if row.sniff and row.sniff(path)), None) or of_ending(path)
    return row if row is not None and row.readable else None


def of_corpus(path: PathLike) -> Format:
    """The format of a corpus, decided by its path; any unknown name means columns."""
    return of_name(path) or FORMATS[ROWS]


def of_file(path: PathLike) -> Format | None:
    """The format of annotations, decided by the path or by the first line; None if neither decides it."""
    row = of_name(path)
    if row is None and os.path.isfile(path):
        begin = next((text.lstrip() for _, text in numbered_lines(path) if text.strip()), '')
        row = next((row for row in FORMATS.values() if row.begins and begin.startswith(row.begins)), None)
    return row


def of_target(path: PathLike) -> Format | None:
    """The format for a new file, decided by its path; None if the path does not decide it."""
    name = os.fspath(path)
    if name.endswith(os.sep) or os.path.isdir(name):
        return next(row for row in FORMATS.values() if row.save)
    row = of_ending(name)
    return row if row is not None and row.writable else None


def of_stream(name: PathLike, stream: str = 'auto') -> Format:
    """The format of sentences to tag.

    Args:
        name: name of the file.
        stream: one of `STREAMS`, or 'auto': then the file name decides, and any unknown name means text.
    """
    row = of_ending(name)
    if stream == 'auto':
        return row if row is not None and row.sentences else FORMATS[TEXT]
    rows = [row for row in FORMATS.values() if row.stream == stream and row.sentences]
    return row if row in rows else rows[-1]


def columns_of(path: PathLike, columns: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of the columns of token and tag, or of the token alone; default columns depend on the format."""
    row = of_ending(path)
    size = len(columns)
    return row.columns[:size] if row is not None and row.columns and columns == COLUMNS[:size] else columns


def without_columns(path: PathLike) -> str | None:
    """The reason why columns have no effect for a corpus, such as 'with JSON lines'; None if they have an effect."""
    row = of_corpus(path)
    return None if row.columns else f'with {row.shown or row.name}'


# Files

def file_pairs(name: str, output: PathLike | None, kind: str) -> list[FilePair]:
    """Pairs of input file and output file for a folder or a pattern; the output path is the same in another folder.

    Files and folders whose names begin with a dot are skipped.

    Args:
        name: a folder, which is read with its subfolders, or a pattern: * and ? stand for any characters, ** for
            any folders.
        output: the output folder, which need not exist; None if nothing is written.
        kind: the output format. If the input has another format, the ending of the output format is appended.

    Raises:
        CorpusError: there is no such file.
        OptionError: two outputs have the same path, or an output is also an input.
    """
    base, paths = files_of(name)
    if output is None:
        return [FilePair(path, None) for path in paths]
    return pair_files({path: os.path.relpath(path, base).removesuffix('.gz') + _ending(path, kind) for path in paths},
                      output)


def _ending(path: str, kind: str) -> str:
    """The ending to append to the name of an input, so that the output name shows the output format."""
    if of_stream(path).stream == kind or kind == TEXT:
        return ''
    return next(row.endings[0] for row in reversed(FORMATS.values()) if row.stream == kind)


def read_corpus(path: PathLike, columns: tuple[int, ...] = COLUMNS, splitter: str | Splitter = AUTO,
                report: Report = discard, mark: str = MARK, widths: list[int] | None = None) -> list[Sentence]:
    """All tagged sentences of a corpus.

    The path decides the format, see `of_corpus`. Texts with spans become sentences with BIO tags by the rules of
    `ms_crf.formats.alignment`. The file is read only once, so it may be a pipe.

    Args:
        path: the file or folder.
        columns: indices of the columns of token and tag, from 0, or from -1 backwards.
        splitter: a splitter for texts with spans, or its name, see `ms_crf.text.splitting`.
        report: receives a `Remark` about everything that is changed or dropped.
        mark: the mark of unknown tags, see `ms_crf.text.partial`; '' for no mark. In the result, OPEN replaces it.
        widths: a list that receives the number of columns of each row.

    Raises:
        CorpusError: the file cannot be read, is invalid, or contains no sentence.
    """
    resolved = Deferred(splitter) if isinstance(splitter, str) else splitter
    options = ReadOptions(columns_of(path, columns), mark, report, resolved)
    sentences = list(_sentences(path, of_corpus(path), options, widths))
    if not sentences:
        raise CorpusError(path, None, 'expected tagged sentences, got none')
    for sentence in sentences:
        sentence.tags = opened(sentence.tags, mark)
    return sentences


def _sentences(path: PathLike, row: Format, options: ReadOptions, widths: list[int] | None) -> Iterator[Sentence]:
    if row.sentences is None or row.documents is not None and not row.columns:
        assert options.splitter is not None
        yield from alignment.corpus_of(row.read(path, options), options.splitter, options.report)
        return
    for sentence in row.sentences(numbered_lines(path), path, options):
        if sentence is not None and sentence.tokens:
            if widths is not None:
                widths.extend(len(row.cells) for row in sentence.rows if row.cells)
            # Without the rows, which need most of the memory.
            yield Sentence(sentence.tokens, sentence.tags, line=sentence.line_of(0), lines=sentence.lines)
