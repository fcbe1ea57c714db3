"""Reads and writes brat standoff: the text is in NAME.txt, and its annotations are in NAME.ann."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.formats.document import SHOWN, Document, ReadOptions, Remark, Report, SpanDocument, check_span
from ms_crf.formats.lines import byte_lines, decode, half_of_pair, numbered_lines, unreadable
from ms_crf.text.sentence import Span

TEXT, NOTES = '.txt', '.ann'
_SPAN = re.compile(r'(T\S+)\t(\S+) ((?:\d+ \d+)(?:;\d+ \d+)*)(?:\t(.*))?')
_WORD, _PART = re.compile(r'\S+'), re.compile(r'[^\r\n]+')


def is_brat(path: PathLike) -> bool:
    """Whether a path is a file of a brat pair, or a folder that contains such pairs."""
    name = os.fspath(path)
    try:
        if os.path.isdir(name):
            return any(entry.endswith(NOTES) for entry in os.listdir(name))
        return name.endswith(NOTES) or name.endswith(TEXT) and os.path.isfile(_with_ending(name, NOTES))
    except (OSError, ValueError):
        return False


def _with_ending(name: str, ending: str) -> str:
    return os.path.splitext(name)[0] + ending


def read(path: PathLike, options: ReadOptions) -> Iterator[Document]:
    """Reads a pair of files, or all pairs of a folder sorted by name.

    In a folder, texts without an annotation file are reported as unlabelled, and other files are ignored.
    """
    name, report = os.fspath(path), options.report
    if not os.path.isdir(name):
        yield _document(_with_ending(name, TEXT), _with_ending(name, NOTES), report)
        return
    try:
        entries = sorted(os.listdir(name))
    except OSError as error:
        raise unreadable(path, error) from None
    for entry in entries:
        text = os.path.join(name, _with_ending(entry, TEXT))
        if entry.endswith(NOTES):
            yield _document(text, os.path.join(name, entry), report)
        elif entry.endswith(TEXT) and _with_ending(entry, NOTES) not in entries:
            report(Remark('unlabelled', text, 1, _text(text)))


def _text(path: str) -> str:
    """The unchanged text of a file, including line ends, because offsets count them."""
    return ''.join(decode(path, number, line, raw=True) for number, line in enumerate(byte_lines(path, True), 1))


class _Entry(NamedTuple):
    """A text-bound annotation: a line of the annotation file that begins with T."""

    line: int
    name: str
    type: str
    parts: list[tuple[int, int]]
    text: str | None


def _document(text_path: str, path: str, report: Report) -> Document:
    entries, others = [], []
    for line, row in numbered_lines(path):
        match = _SPAN.fullmatch(row)
        if match:
            parts = [(int(start), int(end)) for start, end in (part.split(' ') for part in match[3].split(';'))]
            entries.append(_Entry(line, match[1], match[2], parts, match[4]))
        elif row.startswith('T'):
            raise CorpusError(path, line, f"expected T1, a tab, 'TYPE START END', a tab and the text, got {row[:60]!r}")
        elif row.strip():
            others.append((line, row))
    text = _text(text_path)
    if text.startswith('\ufeff') and all(_fits(text[1:], entry) for entry in entries) and not (
            entries and all(_fits(text, entry) for entry in entries)):
        text = text[1:]                          # brat counts a byte order mark as a character, other tools do not
    document = Document(text, path, 1, name=os.path.splitext(os.path.basename(path))[0],
                        text_path=text_path, by_line=True)
    spans = [_span(document, entry, report) for entry in entries]
    for line, row in others:
        report(Remark('ignored', path, line, row))
    return document._replace(spans=spans)


def _fits(text: str, entry: _Entry) -> bool:
    """Whether the text at the offsets matches the text in the annotation; white space may differ."""
    held = ' '.join(text[start:end] for start, end in entry.parts)
    return entry.text is None or entry.text.split() == held.split()


def _span(document: Document, entry: _Entry, report: Report) -> Span:
    for start, end in entry.parts:
        check_span(document, start, end, entry.line)
    text = document.text
    if not _fits(text, entry):
        held = ' '.join(text[start:end] for start, end in entry.parts)
        raise CorpusError(document.path, entry.line, f'expected {brief(entry.text)} at the offsets of {entry.name}, '
                                                     f'got {brief(held)}')
    parts = sorted(entry.parts)
    start, end = parts[0][0], max(end for _, end in parts)
    if any(text[before[1]:after[0]].strip() for before, after in zip(parts, parts[1:])):
        report(Remark('gap', document.path, entry.line, text[start:min(end, start + SHOWN + 1)]))
    return Span(entry.type, start, end, line=entry.line, source=document)


def notes(document: Document, spans: Sequence[Span]) -> str:
    """The annotation file of a document: one line for each span. A span over a line end has one part on each line.

    Raises:
        CorpusError: a type, or the text, cannot be written.
    """
    if half_of_pair([document.text]) is not None:
        raise CorpusError(document.source_path, document.line, 'expected text that UTF-8 can hold, got an unpaired '
                                                               'surrogate; JSON lines can hold it')
    lines = []
    for number, span in enumerate(spans, 1):
        if not span.type or _WORD.fullmatch(span.type) is None:
            raise CorpusError(document.path, span.line, 'expected a type without white space for each span, because '
                                                        f'brat requires it, got {brief(span.type)}')
        parts = [match.span() for match in _PART.finditer(document.text, span.start, span.end)] or [
            (span.start, span.end)]
        offsets = ';'.join(f'{start} {end}' for start, end in parts)
        text = ' '.join(document.text[start:end] for start, end in parts)
        lines.append(f'T{number}\t{span.type} {offsets}\t{text}\n')
    return ''.join(lines)


def check_target(path: PathLike) -> None:
    """Raises CorpusError if the folder, or the pair of files, cannot be written; does not change any file."""
    name = os.fspath(path)
    if _is_pair(name):
        files.check_writable(path)
        return
    folder = name.rstrip(os.sep)
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise CorpusError(name, None, 'expected a new or empty folder, got an existing file or a folder with files; '
                                      'choose another name')


def _is_pair(name: str) -> bool:
    """Whether a path names one file of a pair, and not a folder."""
    return os.path.splitext(name)[1] in (TEXT, NOTES) and not os.path.isdir(name)


def write(marked: Sequence[SpanDocument], path: PathLike, report: Report) -> None:
    """Writes a folder of pairs, or one pair with one text if the path ends in .txt or .ann."""
    name = os.fspath(path)
    if _is_pair(name):
        _write_pair(*_as_one(marked, report), os.path.splitext(name)[0])
        return
    check_target(name)
    folder = name.rstrip(os.sep)
    with files.temporary(files.draft_of(folder)) as draft, files.faults_named(name):
        os.mkdir(draft)
        names = [document.name for document, _ in marked]
        if not all(names) or len(set(names)) < len(names):       # without unique names, use numbers
            names = [str(number).zfill(len(str(len(names)))) for number in range(1, len(names) + 1)]
        for stem, (document, spans) in zip(names, marked):
            _write_pair(document, spans, os.path.join(draft, stem))
        os.rename(draft, folder)


def _as_one(marked: Sequence[SpanDocument], report: Report) -> SpanDocument:
    """Several documents as one document, with line ends between the texts."""
    if len(marked) == 1:
        return marked[0]
    spans, offset = [], 0
    for document, document_spans in marked:
        if offset and document.has_boundary:
            report(Remark('borders', document.path, document.line, document.text.strip()))
        spans += [replace(span, start=span.start + offset, end=span.end + offset) for span in document_spans]
        offset += len(document.text) + 1
    return marked[0][0]._replace(text='\n'.join(document.text for document, _ in marked)), spans


def _write_pair(document: Document, spans: Sequence[Span], stem: str) -> None:
    lines = notes(document, spans)
    with files.text_writer(stem + TEXT) as put_text, files.text_writer(stem + NOTES) as put_notes:
        put_text(document.text)
        put_notes(lines)
