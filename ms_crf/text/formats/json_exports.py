"""Writes JSON: tokens with tags, and texts with spans as doccano, Label Studio, Prodigy and spaCy take them.

What a model has tagged, and nobody has judged yet, is marked as such where the tool has a place for that.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ms_crf.text.formats.document import Document, Placed, TextSpan
from ms_crf.text.partial import MARK, as_json

Marked = tuple[Document, Sequence[TextSpan]]


def _line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False) + '\n'


def tokens(documents: Iterable[tuple[Document, Sequence[Placed]]], mark: str = MARK) -> Iterator[str]:
    """A line for each sentence: "tokens", "tags" and, where the file has a text, the sentence's "text"; null as a tag
    where nobody has judged, and the mark in those that are judged in part."""
    for document, sentences in documents:
        for sentence in sentences:
            record: dict[str, Any] = {'tokens': sentence.tokens, 'tags': as_json(sentence.tags or [], mark)}
            if document.has_text:
                record = {'text': document.text[sentence.places[0][0]:sentence.places[-1][1]], **record}
            if document.confidence is not None:
                record['confidence'] = document.confidence
            yield _line(record)


def _judged(document: Document) -> dict[str, Any]:
    """The parts of a text that were looked at, if that is not all of it."""
    return {} if document.judged is None else {'judged': document.judged}


def doccano(documents: Iterable[Marked]) -> Iterator[str]:
    """A line for each text, its spans as lists under "label"."""
    for document, spans in documents:
        yield _line({'text': document.text, 'label': [[span.start, span.end, span.type] for span in spans],
                     **_judged(document)})


def spacy(documents: Iterable[Marked]) -> Iterator[str]:
    """A line for each text: [text, {"entities": [[start, end, type]]}]."""
    for document, spans in documents:
        yield _line([document.text, {'entities': [[span.start, span.end, span.type] for span in spans],
                                     **_judged(document)}])


def prodigy(documents: Iterable[Marked]) -> Iterator[str]:
    """A line for each text, with its tokens if it has some, and which of them each span holds."""
    for document, spans in documents:
        record: dict[str, Any] = {'text': document.text}
        places = document.tokens
        if document.sentences is not None:
            places = [place for sentence in document.sentences for place in sentence.places]
        if places is not None and all(before[1] <= after[0] for before, after in zip(places, places[1:])):
            ends = [*(start for start, _ in places[1:]), len(document.text)]
            record['tokens'] = [{'text': document.text[start:end], 'start': start, 'end': end, 'id': index,
                                 'ws': after > end} for index, ((start, end), after) in enumerate(zip(places, ends))]
        first, last = ({token[side]: token['id'] for token in record.get('tokens', ())} for side in ('start', 'end'))
        record['spans'] = []
        for span in spans:
            within = {'token_start': first[span.start], 'token_end': last[span.end]} if (
                span.start in first and span.end in last) else {}
            record['spans'].append({'start': span.start, 'end': span.end, **within, 'label': span.type})
        answer: dict[str, Any] = {'answer': 'accept'}
        if document.confidence is not None:
            answer = {'meta': {'confidence': document.confidence}}
        yield _line({**record, **_judged(document), **answer})


def label_studio(documents: Iterable[Marked]) -> Iterator[str]:
    """One array of tasks with an annotation each, for a labelling interface of "label" on "text".

    What a model has tagged is a prediction, which the tool shows and people make an annotation of.
    """
    before = '[\n'
    for number, (document, spans) in enumerate(documents, 1):
        results = [{'id': f'{number}-{index}', 'from_name': 'label', 'to_name': 'text', 'type': 'labels',
                    'value': {'start': span.start, 'end': span.end, 'text': document.text[span.start:span.end],
                              'labels': [span.type]}} for index, span in enumerate(spans, 1)]
        entry: dict[str, Any] = {'annotations': [{'result': results}]}
        if document.confidence is not None:
            entry = {'predictions': [{'result': results, 'score': document.confidence, 'model_version': 'ms_crf'}]}
        yield before + json.dumps({'id': number, 'data': {'text': document.text}, **entry}, ensure_ascii=False)
        before = ',\n'
    yield '[]\n' if before == '[\n' else '\n]\n'
