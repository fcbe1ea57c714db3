"""Converts documents from one format to another: reads them, converts tags and spans, and writes them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment, conllu
from ms_crf.formats.columns import EMPTY, MISC, NER, attributes, has_other_columns
from ms_crf.formats.document import (
    COLUMNS,
    Document,
    OutputStyle,
    ReadOptions,
    Remark,
    Report,
    SpanDocument,
    TaggedDocument,
    Target,
)
from ms_crf.formats.json_lines import flat
from ms_crf.formats.registry import CONLLU, FORMATS, Format, columns_of
from ms_crf.text.partial import MARK, is_open, marked, opened, types_in
from ms_crf.text.schemes import PLAIN


class Source(NamedTuple):
    """The documents of an input, and how they were read."""

    documents: list[Document]
    format: str
    scheme: str | None                     # the scheme of the tags; None if the documents have spans
    columns: tuple[int, ...]               # columns of token and tag, in column files


def read(path: PathLike, kind: str, report: Report, pair: tuple[int, ...] | None = None, mark: str = MARK) -> Source:
    """Reads the documents of a file or folder.

    Args:
        path: path of the file or folder.
        kind: name of its format.
        report: receives a `Remark` about everything that is not read.
        pair: indices of the columns of token and tag. By default the tags of CoNLL-U are in UPOS, or in MISC if UPOS
            is empty in the whole file.
        mark: the mark of unknown tags; '' for no mark.
    """
    row = FORMATS[kind]
    columns = pair or (row.columns if kind == CONLLU else columns_of(path, COLUMNS))
    documents = list(row.read(path, ReadOptions(columns, mark, report)))
    if not documents:
        raise CorpusError(path, None, 'expected annotated text, got none')
    sentences = [sentence for document in documents for sentence in document.sentences or ()]
    if kind == CONLLU and pair is None and all(tag == EMPTY for sentence in sentences for tag in sentence.tags):
        columns = conllu.FORM, MISC
        for sentence in sentences:
            sentence.tags = [attributes(''.join(row.cells[MISC:])).get(NER, 'O') for row in sentence.rows if row.cells]
    for sentence in sentences:
        sentence.tags = opened(sentence.tags, mark)
    scheme = alignment.scheme_of(documents)
    spans = next((document for document in documents if document.spans), None) if scheme == PLAIN else None
    if spans is not None:
        raise CorpusError(spans.path, spans.line, 'expected plain tags as in the rest of the file, got spans')
    return Source(documents, kind, scheme, columns)


def check_target(path: PathLike, kind: str) -> None:
    """Raises CorpusError if a file, or a folder for brat, cannot be written; does not change any file."""
    (FORMATS[kind].check or files.check_writable)(path)


def write(source: Source, target: Target, path: PathLike, report: Report) -> None:
    """Writes documents to a file, or to a pair or folder of brat files. If it fails, no output is written.

    Raises:
        CorpusError: the format cannot hold a token, tag or type, or the file cannot be written.
        OptionError: plain tags cannot be converted to a scheme of spans.
    """
    row = FORMATS[target.format]
    if row.save is not None:
        _report_losses(source, target, report)
        row.save(list(_span_documents(source, row, report)), path, report)
        return
    with files.text_writer(path) as put:
        for text in lines(source, target, report):
            put(text)


def lines(source: Source, target: Target, report: Report) -> Iterator[str]:
    """The parts of the text of a file in any format except brat; raises the same errors as `write`."""
    _report_losses(source, target, report)
    row = FORMATS[target.format]
    if 'tags' not in row.holds:
        assert row.write is not None
        return row.write(_span_documents(source, row, report), target)
    tagged = _tagged_documents(source, target, report)
    if 'fields' not in row.holds:
        tagged = _with_marks(tagged, target)
    target = target._replace(scheme=target.scheme or source.scheme)
    if row.write is not None:
        return row.write(tagged, target)
    line, style = row.line, OutputStyle(target.scheme or 'BIO')
    assert line is not None                      # formats that hold tags write whole files or single sentences
    return (line(sentence, style) for _, sentences in tagged for sentence in sentences)


def _span_documents(source: Source, row: Format, report: Report) -> Iterator[SpanDocument]:
    """Documents with their spans; reports partly annotated texts if the format cannot mark them."""
    for document in source.documents:
        annotated = alignment.annotated_parts(document, source.scheme or PLAIN, report)
        spans = alignment.spans_in(document, source.scheme or PLAIN, report)
        if annotated is not None and 'judged' not in row.holds:
            report(Remark('judged', document.path, document.line, document.text.strip()))
        yield document._replace(annotated=annotated), spans


def _with_marks(tagged: Iterable[TaggedDocument], target: Target) -> Iterator[TaggedDocument]:
    """Documents with the mark in place of unknown tags, as column files need it."""
    for document, sentences in tagged:
        converted = []
        for sentence in sentences:
            if is_open(sentence.tags) and not target.mark:
                raise CorpusError(document.source_path, sentence.line, 'expected a mark for unknown tags, got none; '
                                                                       'some tokens here are unlabelled, and columns '
                                                                       'need a mark')
            converted.append(sentence.replace(tags=[marked(tag, target.mark) for tag in sentence.tags]))
        yield document, converted


def _tagged_documents(source: Source, target: Target, report: Report) -> Iterator[TaggedDocument]:
    """Documents with tagged sentences; documents without any sentence are dropped."""
    types = types_in({tag for document in source.documents for sentence in document.sentences or ()
                      for tag in sentence.tags})
    # If the token after a span is unlabelled, only BIOES tags show the end of the span.
    of_spans = 'BIOES' if any(document.annotated is not None for document in source.documents) else 'BIO'
    for document in source.documents:
        sentences = alignment.tagged(document, target.splitter, report, target.scheme or source.scheme or of_spans)
        if target.scheme is not None and target.scheme != source.scheme and document.sentences is not None:
            for sentence in sentences:
                alignment.check_scheme(document, sentence, source.scheme or PLAIN, report)
            sentences = [alignment.retagged(sentence, document.source_path, target.scheme, source.scheme or PLAIN,
                                            types) for sentence in sentences]
        if sentences:
            yield document, sentences


def _report_losses(source: Source, target: Target, report: Report) -> None:
    """Reports everything in the documents that the target format cannot hold."""
    if target.scheme not in (None, PLAIN) and source.scheme == PLAIN:
        raise OptionError(f'the scheme {target.scheme} is for tags of spans, got plain tags; omit the scheme')
    holds, to_other = FORMATS[target.format].holds, source.format == CONLLU != target.format
    for document in source.documents:
        lost = {
            'no text': not document.has_text and 'text' in holds,
            'text': document.has_text and 'text' not in holds and _loses_space(document, target),
            'columns': to_other and any(has_other_columns(sentence, (conllu.ID, *source.columns), (EMPTY,))
                                        for sentence in document.sentences or ()),
            'name': document.name and 'names' not in holds,
            'fields': 'fields' not in holds and flat(document.record),
            'predicted': 'fields' not in holds and document.prediction is not None}
        for kind in [*_lost_boundaries(document, target), *filter(lost.get, lost)]:
            report(Remark(kind, document.path, document.line, document.text.strip()))


def _lost_boundaries(document: Document, target: Target) -> list[str]:
    """['tokens'] or ['sentences'] if the target format loses boundaries that the splitter would not find again."""
    holds = FORMATS[target.format].holds
    if 'tags' in holds or (document.sentences is None and document.tokens is None):
        return []
    existing, new = ([sentence.offsets for sentence in alignment.cut(cut, target.splitter)]
                  for cut in (document, document._replace(sentences=None, tokens=None)))
    if existing == new:
        return []
    return ['tokens'] if 'tokens' not in holds else ['sentences'] * (len(existing) > 1)


def _loses_space(document: Document, target: Target) -> bool:
    """Whether white space is lost: whether the output differs from the text. JSON records hold the text of each
    sentence, other formats only its tokens."""
    sentences = alignment.cut(document, target.splitter)
    with_text = 'fields' in FORMATS[target.format].holds
    return document.text != '\n'.join(
        document.text_at(sentence.offsets[0][0], sentence.offsets[-1][1]) if with_text else ' '.join(sentence.tokens)
        for sentence in sentences)
