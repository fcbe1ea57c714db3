"""From one format to another: which format a name stands for, documents read from it, and documents written to it."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment, brat, columns, conllu, json_exports, json_records
from ms_crf.formats.document import Document, Placed, Remark, Report, TextSpan
from ms_crf.formats.json_fields import DEFAULT, Names, Prediction, flat, names_in
from ms_crf.formats.readers import (
    COLUMNS,
    CONLLU_COLUMNS,
    MISC,
    NER,
    attributes,
    columns_of,
    is_conllu,
    is_json,
    numbered_lines,
)
from ms_crf.formats.stream import CONLL, format_of
from ms_crf.text.partial import MARK, is_open, marked, opened, types_in
from ms_crf.text.schemes import PLAIN
from ms_crf.text.splitting import Splitter

JSON, BRAT, CONLLU, CONLL2003, ROWS = 'json', 'brat', 'conllu', 'conll2003', 'columns'
TOKENS, DOCCANO, LABEL_STUDIO, PRODIGY, SPACY = 'tokens', 'doccano', 'label-studio', 'prodigy', 'spacy'
OF_JSON = (TOKENS, DOCCANO, LABEL_STUDIO, PRODIGY, SPACY)        # whose records show which of them they are
OF_COLUMNS = (CONLLU, CONLL2003, ROWS)
TO = (*OF_JSON, BRAT, *OF_COLUMNS)
FROM = (JSON, *TO)
OF_PREDICTIONS = (TOKENS, DOCCANO, LABEL_STUDIO, PRODIGY)        # those that mark what a model has tagged as such
OF_TAGS = (TOKENS, *OF_COLUMNS)                # those that hold sentences, tokens and tags; the others hold spans

_SPAN_WRITERS: dict[str, Callable[[Iterable[tuple[Document, Sequence[TextSpan]]]], Iterator[str]]] = {
    DOCCANO: json_exports.doccano, PRODIGY: json_exports.prodigy, SPACY: json_exports.spacy}


def format_in(path: PathLike) -> str | None:
    """The format of what is to be read by its name, or of JSON by how it begins; None if neither says it."""
    if is_json(path):
        return JSON
    if brat.is_brat(path):
        return BRAT
    if is_conllu(path):
        return CONLLU
    if format_of(path) == CONLL:
        return ROWS
    if os.path.isfile(path):
        begin = next((text.lstrip() for _, text in numbered_lines(path) if text.strip()), '')
        return JSON if begin.startswith(('{', '[')) else None
    return None


def format_out(path: PathLike) -> str | None:
    """The format of a file that is to be written, by its name; None if that leaves a choice."""
    name = os.fspath(path)
    if name.endswith((brat.NOTES, os.sep)) or os.path.isdir(name):
        return BRAT
    return CONLLU if is_conllu(name) else ROWS if format_of(name) == CONLL else None


class Source(NamedTuple):
    """What was read: documents, their format, the scheme of their tags, None if they have spans."""

    documents: list[Document]
    format: str
    scheme: str | None
    columns: tuple[int, ...]               # of token and tag, of a file of columns


def read(path: PathLike, kind: str, report: Report, pair: tuple[int, ...] | None = None, mark: str = MARK) -> Source:
    """The documents of a file or folder.

    Args:
        path: its name.
        kind: its format, one of `FROM`.
        report: is called with a `Remark` on what is not read.
        pair: indices of the columns of token and tag. Without it, tags of CoNLL-U are those in UPOS or, if there are
            none at all, in MISC.
        mark: what stands in place of a tag that nobody has judged; '' for nothing.
    """
    columns_read = columns_of(path, pair or COLUMNS)
    if kind == BRAT:
        documents = list(brat.read(path, report))
    elif kind == CONLLU:
        documents = list(conllu.read(path, report, pair or CONLLU_COLUMNS))
        if pair is None and not conllu.has_parts_of_speech(documents):
            documents, columns_read = [_with_names(document) for document in documents], (conllu.FORM, MISC)
    elif kind in OF_COLUMNS:
        width = columns.WIDTH if kind == CONLL2003 else None
        documents = list(columns.read(path, report, columns_read, width, mark))
    else:
        documents = list(json_records.read(path, report))
    if not documents:
        raise CorpusError(path, None, 'expected annotated text, got none')
    documents = [_opened(document, mark) for document in documents]
    scheme = alignment.scheme_of(documents)
    marked = next((document for document in documents if document.spans), None) if scheme == PLAIN else None
    if marked is not None:
        raise CorpusError(marked.path, marked.line, 'expected plain tags as elsewhere in the file, got spans')
    return Source(documents, kind, scheme, columns_read)


def read_as(source: Source, predictions: bool) -> Source:
    """What was read, as predictions of a model, or as annotations, whatever the records say."""
    documents = [document._replace(prediction=(document.prediction or Prediction()) if predictions else None)
                 for document in source.documents]
    return source._replace(documents=documents)


def _with_names(document: Document) -> Document:
    """A document from CoNLL-U with the tags that are in MISC."""
    def tags(sentence: Placed) -> list[str]:
        return [attributes(''.join(row.cells[MISC:])).get(NER, 'O') for row in sentence.rows if row.cells]
    return document._replace(sentences=[each._replace(tags=tags(each)) for each in document.sentences or ()])


def _opened(document: Document, mark: str) -> Document:
    """A document with tags that nobody has judged as such."""
    sentences = [sentence if sentence.tags is None else sentence._replace(tags=opened(sentence.tags, mark))
                 for sentence in document.sentences or ()]
    return document if document.sentences is None else document._replace(sentences=sentences)


class Target(NamedTuple):
    """What is to be written.

    Args:
        format: one of `TO`.
        splitter: finds sentences and tokens where there are none.
        scheme: of tags of spans; None for that of the source, if it has spans BIO, or BIOES if some of its text is not
            judged. 'plain' makes tags of spans of one token each.
        column: of CoNLL-U, for tags that are not of spans.
        mark: what stands in place of a tag that nobody has judged.
        names: of a labelling interface of Label Studio; those that are None are copied from the source, if it has some.
    """

    format: str
    splitter: Splitter
    scheme: str | None = None
    column: int = conllu.UPOS
    mark: str = MARK
    names: Names = Names()


def check_target(path: PathLike, kind: str) -> None:
    """Raises CorpusError unless a file of this name, or of brat a folder, could be written; nothing is changed."""
    name = os.fspath(path)
    if kind != BRAT or (os.path.splitext(name)[1] in (brat.TEXT, brat.NOTES) and not os.path.isdir(name)):
        files.check_writable(path)
        return
    folder = name.rstrip(os.sep)
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise CorpusError(name, None, 'expected no folder there yet, or an empty one, got something; choose another')


def write(source: Source, target: Target, path: PathLike, report: Report) -> None:
    """Writes documents to a file, or brat's to a pair of files or a folder, whole or not at all.

    Raises:
        CorpusError: the format can't hold something, or the file can't be written.
        OptionError: tags that are not of spans are to be in a scheme of spans.
    """
    if target.format == BRAT:
        _remark(source, target, report)
        marked = list(_judged_all(_marked(source, report), report))
        _write_brat(marked, os.fspath(path), report)
        return
    with files.text_writer(path) as put:
        for text in lines(source, target, report):
            put(text)


def lines(source: Source, target: Target, report: Report) -> Iterator[str]:
    """The text of a file that holds the documents, in any format but brat's; raises as `write`."""
    _remark(source, target, report)
    if target.format in _SPAN_WRITERS:
        return _SPAN_WRITERS[target.format](_marked(source, report))
    if target.format == LABEL_STUDIO:
        in_source = next(filter(any, (names_in(document.record) for document in source.documents)), DEFAULT)
        return json_exports.label_studio(_judged_all(_marked(source, report), report), target.names,
                                         in_source.otherwise(DEFAULT))
    plain = PLAIN in ((source.scheme,) if target.scheme is None else (target.scheme,))
    tagged = _tagged(source, target, report)
    if target.format == TOKENS:
        return json_exports.tokens(tagged, target.mark)
    tagged = _marked_off(tagged, target)
    if target.format == CONLLU:
        return conllu.write(tagged, plain, target.column)
    return columns.write_2003(tagged, plain) if target.format == CONLL2003 else columns.write(tagged)


def _marked(source: Source, report: Report) -> Iterator[tuple[Document, Sequence[TextSpan]]]:
    """Documents with their spans."""
    for document in source.documents:
        judged = alignment.judged_in(document, source.scheme or PLAIN, report)
        spans = alignment.spans_in(document, source.scheme or PLAIN, report)
        yield document._replace(judged=judged), spans


def _judged_all(marked: Iterable[tuple[Document, Sequence[TextSpan]]],
                report: Report) -> Iterator[tuple[Document, Sequence[TextSpan]]]:
    """Says which texts are not judged whole, for a format that has no place for that."""
    for document, spans in marked:
        if document.judged is not None:
            report(Remark('judged', document.path, document.line, document.text.strip()))
        yield document, spans


def _marked_off(tagged: Iterable[tuple[Document, Sequence[Placed]]],
                target: Target) -> Iterator[tuple[Document, Sequence[Placed]]]:
    """Documents with tags as columns have them: those that nobody has judged with the mark in their place."""
    for document, sentences in tagged:
        made = []
        for sentence in sentences:
            tags = sentence.tags or []
            if is_open(tags) and not target.mark:
                raise CorpusError(document.home, sentence.line, 'expected an unknown tag to be named, as nobody has '
                                                                'judged some tokens here and columns must say so')
            made.append(sentence._replace(tags=[marked(tag, target.mark) for tag in tags]))
        yield document, made


def _tagged(source: Source, target: Target, report: Report) -> Iterator[tuple[Document, Sequence[Placed]]]:
    """Documents with their sentences, which have tags; those without a sentence are left out."""
    types = types_in({tag for document in source.documents for sentence in document.sentences or ()
                      for tag in sentence.tags or ()})
    # Where the token behind a span is not judged, only tags that mark ends say that it ends there.
    of_spans = 'BIOES' if any(document.judged is not None for document in source.documents) else 'BIO'
    for document in source.documents:
        sentences = alignment.tagged(document, target.splitter, report, target.scheme or source.scheme or of_spans)
        if target.scheme is not None and target.scheme != source.scheme and document.sentences is not None:
            for sentence in sentences:
                alignment.check_scheme(document, sentence, source.scheme or PLAIN, report)
            sentences = [alignment.retagged(sentence, document.home, target.scheme, source.scheme or PLAIN, types)
                         for sentence in sentences]
        if sentences:
            yield document, sentences


def _remark(source: Source, target: Target, report: Report) -> None:
    if target.scheme not in (None, PLAIN) and source.scheme == PLAIN:
        raise OptionError(f'the scheme {target.scheme} is for tags of spans, got plain tags; leave the scheme away')
    for document in source.documents:
        _remark_on_text(document, source, target, report)


def _remark_on_text(document: Document, source: Source, target: Target, report: Report) -> None:
    """Says what of a document's text and tokens the target has no place for."""
    kinds = []
    sentences = document.sentences
    if target.format not in OF_TAGS and (sentences is not None or document.tokens is not None):
        own = [sentence.places for sentence in alignment.cut(document, target.splitter)]
        found = [sentence.places for sentence in
                 alignment.cut(document._replace(sentences=None, tokens=None), target.splitter)]
        if target.format != PRODIGY and own != found:
            kinds.append('tokens')
        elif own != found and len(own) > 1:
            kinds.append('sentences')
    if not document.has_text and target.format not in (CONLL2003, ROWS, TOKENS):
        kinds.append('no text')
    if document.has_text and _loses_space(document, target):
        kinds.append('text')
    if source.format == CONLLU != target.format and any(conllu.has_more(each, source.columns) for each in
                                                        sentences or ()):
        kinds.append('columns')
    if document.name and target.format not in (BRAT, CONLLU):
        kinds.append('name')
    if target.format not in OF_PREDICTIONS and flat(document.record):
        kinds.append('fields')
    if target.format not in OF_PREDICTIONS and document.prediction is not None:
        kinds.append('predicted')
    for kind in kinds:
        report(Remark(kind, document.path, document.line, document.text.strip()))


def _loses_space(document: Document, target: Target) -> bool:
    """Whether a text is another one than its tokens joined by blanks, and its sentences by line ends."""
    if target.format == CONLLU or target.format not in OF_TAGS:
        return False
    sentences = alignment.cut(document, target.splitter)
    own = '\n'.join(document.text[sentence.places[0][0]:sentence.places[-1][1]] for sentence in sentences)
    return document.text != (own if target.format == TOKENS else '\n'.join(
        ' '.join(sentence.tokens) for sentence in sentences))


def _write_brat(marked: Sequence[tuple[Document, Sequence[TextSpan]]], name: str, report: Report) -> None:
    """Writes a pair of files, of one text, if the name ends as one of them; otherwise a folder of pairs."""
    stem, ending = os.path.splitext(name)
    if ending in (brat.TEXT, brat.NOTES) and not os.path.isdir(name):
        _write_pair(*_as_one(marked, report), stem)
        return
    check_target(name, BRAT)
    folder = name.rstrip(os.sep)
    with files.temporary(files.draft_of(folder)) as draft, files.faults_named(name):
        os.mkdir(draft)
        for own, (document, spans) in zip(brat.names(document for document, _ in marked), marked):
            _write_pair(document, spans, os.path.join(draft, own))
        os.rename(draft, folder)


def _as_one(marked: Sequence[tuple[Document, Sequence[TextSpan]]], report: Report
            ) -> tuple[Document, Sequence[TextSpan]]:
    """Several documents as one, with line ends between them."""
    if len(marked) == 1:
        return marked[0]
    spans, offset = [], 0
    for document, own in marked:
        if offset and document.bordered:
            report(Remark('borders', document.path, document.line, document.text.strip()))
        spans += [span._replace(start=span.start + offset, end=span.end + offset) for span in own]
        offset += len(document.text) + 1
    return marked[0][0]._replace(text='\n'.join(document.text for document, _ in marked)), spans


def _write_pair(document: Document, spans: Sequence[TextSpan], stem: str) -> None:
    notes = brat.notes(document, spans)
    with files.text_writer(stem + brat.TEXT) as put_text, files.text_writer(stem + brat.NOTES) as put_notes:
        put_text(document.text)
        put_notes(notes)
