"""Reads JSON: tokens with tags, and texts with spans in the formats of doccano, Label Studio, Prodigy and spaCy.

The keys of each record show its format. `json_lines` finds the records in a file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment, json_lines
from ms_crf.formats.document import Document, Lines, ReadOptions, Remark, Report, check_span, offsets_in
from ms_crf.formats.json_lines import SPANS, as_object, is_pair, is_task, prediction_in, region_of, text_key, text_of
from ms_crf.formats.lines import half_of_pair, numbered_lines
from ms_crf.formats.raw import sentence_of_text, sentence_of_tokens
from ms_crf.text.partial import check_tag
from ms_crf.text.schemes import OPEN
from ms_crf.text.sentence import Offsets, Sentence, Span


def read(path: PathLike, options: ReadOptions) -> Iterator[Document]:
    """Reads the documents of a file of JSON lines or of JSON arrays."""
    for entry in json_lines.records(path, numbered_lines(path)):
        if entry is not None and entry[1] is not None:
            document = document_of(path, *entry, options.report)
            if document is not None:
                yield document


def sentences(lines: Lines, name: object, options: ReadOptions) -> Iterator[Sentence | None]:
    """Reads the sentences of records as they arrive; an empty line is an empty sentence. With gold tags, a text with
    spans is split into sentences with BIO tags."""
    for entry in json_lines.records(name, lines):
        if entry is None:
            yield None
        elif entry[1] is None:
            yield Sentence([], [] if options.with_gold else None, text='', line=entry[0])
        elif not options.with_gold:
            yield _untagged(name, *entry, options.characters)
        elif has_spans(entry[1]):
            document = document_of(name, *entry, options.report)
            yield from alignment.sentences_of([document] if document else [], options)
        else:
            line, record = entry
            tokens, tags = tokens_and_tags(name, line, record)
            yield sentence_of_tokens(tokens, record.get('text'), tags=tags, line=line, record=record)


def _untagged(name: object, line: int, record: Any, characters: bool) -> Sentence:
    """The sentence of a record without its tags: its tokens, or the words or characters of its text."""
    record = as_object(record)
    text, tokens, others = text_of(record), record.get('tokens'), {'line': line, 'record': record}
    if text is not None and isinstance(tokens, list) and tokens and all(isinstance(token, dict) for token in tokens):
        offsets = offsets_of(Document(text, str(name), line), tokens)
        return Sentence([text[start:end] for start, end in offsets], text=text, offsets=offsets, **others)
    if 'tokens' in record:
        return sentence_of_tokens(strings_of(name, line, record, 'tokens'), record.get('text'), **others)
    if text is not None:
        return sentence_of_text(text, characters, **others)
    raise CorpusError(name, line, 'expected "tokens", a list of strings, or "text", a string, got neither')


def strings_of(path: object, line_number: int, record: Mapping[str, Any], name: str, or_null: bool = False) -> list:
    """A list of strings from an object; raises CorpusError for empty strings, and for null unless `or_null`."""
    values = record.get(name)
    if isinstance(values, list) and all((isinstance(item, str) and item) or (or_null and item is None)
                                        for item in values):
        return values
    raise CorpusError(path, line_number, f'expected "{name}" to be a list of strings that are not empty, '
                                         f'got {json.dumps(values, ensure_ascii=False)[:40]}')


def check_tags(path: object, line_number: int, tags: Iterable[str]) -> None:
    """Raises CorpusError if a tag has an unpaired surrogate, which UTF-8 files cannot hold."""
    if (odd := half_of_pair(tags)) is not None:
        raise CorpusError(path, line_number, f'expected tags that UTF-8 can hold, got an unpaired surrogate in {odd!a}')


def tokens_and_tags(path: object, line_number: int, record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The lists "tokens" and "tags" of an object after checking them; the tag null becomes OPEN."""
    tokens = strings_of(path, line_number, record, 'tokens')
    tags = strings_of(path, line_number, record, 'tags', True)
    if len(tokens) != len(tags):
        raise CorpusError(path, line_number, f'expected a tag for each token, got {len(tokens)} tokens and '
                                             f'{len(tags)} tags')
    tags = [OPEN if tag is None else check_tag(path, line_number, tag) for tag in tags]
    check_tags(path, line_number, tags)
    return tokens, tags


def has_spans(record: Any) -> bool:
    """Whether a record is a text with spans; otherwise it is a list of tokens with tags."""
    if is_pair(record):
        return True
    tokens = record.get('tokens')
    has_words = isinstance(tokens, list) and any(isinstance(token, str) for token in tokens)
    return 'tags' not in record and ('text' in record or is_task(record)) and not has_words


def document_of(path: object, line: int, record: Any, report: Report) -> Document | None:
    """The document of a record; None if the record is not annotated, or was not accepted by the annotator."""
    if not has_spans(record):
        return _of_tokens(path, line, record)
    record = as_object(record)
    if is_task(record):
        return _of_task(path, line, record, report)
    text = record['text']
    if not isinstance(text, str):
        raise CorpusError(path, line, f'expected "text" to be a string, got {brief(text)}')
    if 'answer' in record and record['answer'] != 'accept':
        report(Remark('rejected', str(path), line, text))
        return None
    document = Document(text, str(path), line, record=record, prediction=prediction_in(record))
    marked = [name for name in SPANS if isinstance(record.get(name), list)]
    filled = [name for name in marked if record[name]]
    if len(filled) > 1:
        raise CorpusError(path, line, f'expected spans under one key, got spans under "{filled[0]}" and "{filled[1]}"')
    if not marked and not {'answer', 'annotation_id'} & set(record):
        known, names = (', '.join(f'"{name}"' for name in names) for names in (SPANS, record))
        raise CorpusError(path, line, f'expected spans under {known}, or "tokens" and "tags", got {names}')
    for _ in record['relations'] if isinstance(record.get('relations'), list) else ():
        report(Remark('ignored', str(path), line, text))
    items = record[filled[0]] if filled else []
    spans = _spans(document, [span for item in items for span in _raw_spans(document, item)])
    tokens = offsets_of(document, record['tokens']) if isinstance(record.get('tokens'), list) else None
    return document._replace(spans=spans, tokens=tokens, annotated=_annotated_parts(document, record))


def _of_tokens(path: object, line: int, record: dict[str, Any]) -> Document:
    """The document of a record with tokens and tags; it has the text of the record if the text matches the tokens."""
    tokens, tags = tokens_and_tags(path, line, record)
    text = record.get('text')
    offsets = offsets_in(tokens, text) if isinstance(text, str) else None
    has_text = isinstance(text, str) and offsets is not None
    sentence = Sentence(tokens, tags, text=text if has_text else None, offsets=offsets, line=line)
    return Document(sentence.text, str(path), line, sentences=[sentence] if tokens else [], has_boundary=False,
                    has_text=has_text, prediction=prediction_in(record), record=record)


def _annotated_parts(document: Document, record: dict[str, Any]) -> list[Offsets] | None:
    """The annotated parts of a text; None if the whole text is annotated.

    Prodigy marks answers about single spans with "_is_binary": then only the spans are annotated.
    """
    parts = record.get('judged')
    if parts is None:
        return [] if record.get('_is_binary') is True else None
    if not isinstance(parts, list) or not all(isinstance(part, list) and len(part) == 2 for part in parts):
        raise CorpusError(document.path, document.line, 'expected "judged" to be a list of [start, end], got '
                                                        f'{brief(parts)}')
    return [check_span(document, start, end, document.line) for start, end in parts]


class _RawSpan(NamedTuple):
    """A span as it is written in a record."""

    start: int
    end: int
    type: str
    text: str | None           # the text of the span, if the record contains it


def _raw_spans(document: Document, item: Any) -> list[_RawSpan]:
    """The spans of one item in a list of spans: one span for each label of the item."""
    start = end = labels = text = None
    if isinstance(item, list) and len(item) == 3:
        start, end, labels = item
    elif isinstance(item, dict):
        start, end = (item.get(name, item.get(f'{name}_offset')) for name in ('start', 'end'))
        labels = next((item[name] for name in ('label', 'labels', 'type') if name in item), None)
        text = item.get('text') if isinstance(item.get('text'), str) else None
    labels = labels if isinstance(labels, list) and labels else [labels]
    if type(start) is not int or type(end) is not int or not all(isinstance(label, str) for label in labels):
        raise CorpusError(document.path, document.line, 'expected a span as [start, end, type] or as an object with '
                                                        f'"start", "end" and "label", got {brief(item)}')
    check_tags(document.path, document.line, labels)
    return [_RawSpan(start, end, label, text) for label in labels]


def _spans(document: Document, spans: Sequence[_RawSpan]) -> list[Span]:
    """Spans with offsets in characters. Offsets in UTF-16 units are recognised by the texts of the spans."""
    text, chosen = document.text, [(span.start, span.end) for span in spans]
    if not all(_holds(text, span, *pair, True) for span, pair in zip(spans, chosen)):
        in_utf16 = accumulate((1 + (character > '\uffff') for character in text), initial=0)
        units = {unit: index for index, unit in enumerate(in_utf16)}
        in_units = [(units.get(span.start, -1), units.get(span.end, -1)) for span in spans]
        chosen = next((offsets for exactly in (True, False) for offsets in (chosen, in_units)
                       if all(_holds(text, span, *pair, exactly) for span, pair in zip(spans, offsets))), chosen)
    for span, (start, end) in zip(spans, chosen):
        check_span(document, start, end, document.line)
        if not _holds(text, span, start, end):
            raise CorpusError(document.path, document.line, f'expected {brief(span.text)} at {start} to {end}, the '
                                                            f'text of the span, got {brief(text[start:end])}')
    return [Span(span.type, start, end, line=document.line, source=document)
            for span, (start, end) in zip(spans, chosen)]


def _holds(text: str, span: _RawSpan, start: int, end: int, exactly: bool = False) -> bool:
    """Whether the text at two offsets is the text of the span; white space may differ unless `exactly`."""
    if span.text is None:
        return True
    expected, actual = span.text, text[start:end]
    same = expected == actual if exactly else _words(expected) == _words(actual)
    return 0 <= start <= end <= len(text) and same


def _words(text: str) -> list[str]:
    """The words of a text, in which the two characters \\n may stand for a line end."""
    return text.replace('\\n', '\n').split()


def offsets_of(document: Document, items: Sequence[Any]) -> list[Offsets]:
    """Offsets of Prodigy's token objects, without tokens of white space."""
    offsets, before = [], 0
    for item in items:
        record = item if isinstance(item, dict) else {}
        start, end = check_span(document, record.get('start'), record.get('end'), document.line)
        if start < before:
            raise CorpusError(document.path, document.line, f'expected tokens in the order of the text, got {start} to '
                                                            f'{end} after a token that ends at {before}')
        if document.text[start:end].strip():
            offsets.append((start, end))
            before = end
    return offsets


def _of_task(path: object, line: int, task: dict[str, Any], report: Report) -> Document | None:
    """The document of a Label Studio task, from its first annotation that is not cancelled; None without annotation."""
    text = task['data'].get(text_key(task['data']))
    if not isinstance(text, str):
        raise CorpusError(path, line, f'expected "text", a string, in "data", got {brief(task["data"])}')
    annotations = task.get('annotations', task.get('completions')) or []
    if not isinstance(annotations, list) or not all(
            isinstance(entry, dict) and isinstance(entry.get('result'), list) for entry in annotations):
        raise CorpusError(path, line, f'expected annotations with a "result" each, got {brief(annotations)}')
    finished = [entry for entry in annotations if not entry.get('was_cancelled')]
    if not finished:
        report(Remark('rejected' if annotations else 'unlabelled', str(path), line, text))
        return None
    for _ in finished[1:]:
        report(Remark('second', str(path), line, text))
    document = Document(text, str(path), line, record=task)
    spans: list[_RawSpan] = []
    for item in finished[0]['result']:
        region = region_of(item)
        if region is not None:
            name, value = region
            spans += _raw_spans(document, {**value, 'label': value[name]})
        else:
            report(Remark('ignored', str(path), line, text))
    return document._replace(spans=_spans(document, spans))
