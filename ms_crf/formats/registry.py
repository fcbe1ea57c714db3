"""The formats of annotated text: a row for each, which format a file has, and corpora in any of them.

A further format is a module with a reader and a writer, and a row that `register` adds.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment, brat, columns, conllu, json_exports, json_records, raw
from ms_crf.formats.document import COLUMNS, Document, Lines, Look, Marked, Reading, Report, Target, nowhere
from ms_crf.formats.lines import Job, files_of, numbered_lines, placed
from ms_crf.text.partial import MARK, opened
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import AUTO, Deferred, Splitter


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


# Files

def jobs(name: str, output: PathLike | None, kind: str) -> list[Job]:
    """The files that a name stands for, by their names, and what is written for each: the same path in another folder.

    Files and folders whose names begin with a dot are left out.

    Args:
        name: of a folder, of which all files are read, those of the folders in it too; or a pattern, in which * and ?
            stand for any characters and ** for folders.
        output: the folder to write to; it need not be there. None if nothing is written.
        kind: the format that is written. Where the name of the input says another one, that of the output is longer.

    Raises:
        CorpusError: there is no file of that name.
        OptionError: the outputs can't be told from each other or from the inputs.
    """
    base, found = files_of(name)
    if output is None:
        return [Job(path, None) for path in found]
    return placed({path: os.path.relpath(path, base).removesuffix('.gz') + _ending(path, kind) for path in found},
                  output)


def _ending(path: str, kind: str) -> str:
    """What is put behind the name of an input, so that its format is seen in the name of the output."""
    if of_stream(path).stream == kind or kind == TEXT:
        return ''
    return next(row.endings[0] for row in reversed(FORMATS.values()) if row.stream == kind)


def read_corpus(path: PathLike, columns: tuple[int, ...] = COLUMNS, splitter: str | Splitter = AUTO,
                report: Report = nowhere, mark: str = MARK, widths: list[int] | None = None) -> list[Sentence]:
    """All tagged sentences of a corpus.

    Its name says which format it has, see `of_corpus`; files of any other name have columns. Texts with
    spans become sentences with tags in BIO by the rules of `ms_crf.formats.alignment`. A file is read only once, so
    that it may be a pipe.

    Args:
        path: the file or folder.
        columns: indices of the columns of token and tag, from 0, or from -1 backwards.
        splitter: what finds sentences and tokens in texts, or its name, see `ms_crf.text.splitting`.
        report: is called with a `Remark` on whatever of a text or its spans is not kept.
        mark: what stands in place of a tag that nobody has judged, see `ms_crf.text.partial`; '' for nothing. In the
            tags that are returned OPEN stands there.
        widths: gets the number of columns of each row.

    Raises:
        CorpusError: the file can't be read, has a fault, or holds no sentence.
    """
    made = Deferred(splitter) if isinstance(splitter, str) else splitter
    sentences = list(_sentences(path, of_corpus(path), Reading(columns_of(path, columns), mark, report, made), widths))
    if not sentences:
        raise CorpusError(path, None, 'expected tagged sentences, got none')
    for sentence in sentences:
        sentence.tags = opened(sentence.tags, mark)
    return sentences


def _sentences(path: PathLike, row: Format, reading: Reading, widths: list[int] | None) -> Iterator[Sentence]:
    if row.sentences is None or row.documents is not None and not row.columns:
        assert reading.splitter is not None
        yield from alignment.corpus_of(row.read(path, reading), reading.splitter, reading.report)
        return
    for sentence in row.sentences(numbered_lines(path), path, reading):
        if sentence is not None and sentence.tokens:
            if widths is not None:
                widths.extend(len(row.cells) for row in sentence.rows if row.cells)
            # Without its rows, which take more memory than all else.
            yield Sentence(sentence.tokens, sentence.tags, line=sentence.line_of(0), lines=sentence.lines)
