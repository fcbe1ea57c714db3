"""Writes JSON: tokens with tags, and texts with spans in the formats of doccano, Label Studio, Prodigy and spaCy.

Predictions of a model are marked as predictions if the format can mark them. Other fields of records, such as ids and
metadata, are kept.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ms_crf.formats.document import (
    DEFAULT,
    Document,
    Names,
    OutputStyle,
    Prediction,
    SpanDocument,
    TaggedDocument,
    Target,
)
from ms_crf.formats.json_lines import ANNOTATIONS, ANSWERED, CONFIDENCE, MODEL, OF_TAGGER, flat, is_task, region_of
from ms_crf.text.partial import as_json
from ms_crf.text.sentence import Sentence


def _line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False) + '\n'


def record_of(sentence: Sentence, model: str = '') -> dict[str, Any]:
    """A tagged sentence as an object: the fields of the input record, the tags, and the name of the model if given."""
    record = dict(sentence.record or {})
    if isinstance(record.get(MODEL), str):       # remove the fields of an earlier prediction
        record = {name: value for name, value in record.items() if name not in (
            MODEL, CONFIDENCE, 'confidences', 'alternatives')}
    if 'tags' in record:
        record['gold'] = record['tags']
    return {**record, **sentence.to_dict(), **({MODEL: model} if model else {})}


def line(sentence: Sentence, style: OutputStyle) -> str:
    """The JSON line of a tagged sentence."""
    if sentence.raw and not sentence.tokens:
        return ''                                # white space between paragraphs
    return _line(record_of(sentence, style.model))


def tokens(documents: Iterable[TaggedDocument], target: Target) -> Iterator[str]:
    """Writes a line for each sentence, with "tokens", "tags" and, if the file has a text, "text".

    An unknown tag is null. A partly unknown tag has the mark, such as ?-PER.
    """
    for document, sentences in documents:
        for sentence in sentences:
            offsets = sentence.offsets
            text = {'text': document.text[offsets[0][0]:offsets[-1][1]]} if document.has_text else {}
            yield _line({**_others(document), **text, 'tokens': sentence.tokens,
                         'tags': as_json(sentence.tags, target.mark), **_of_model(document.prediction)})


def _annotated_parts(document: Document) -> dict[str, Any]:
    """The key "judged" with the annotated parts of a text; empty if the whole text is annotated."""
    return {} if document.annotated is None else {'judged': document.annotated}


def _others(document: Document, of_prodigy: bool = False) -> dict[str, Any]:
    """Other fields of a record to keep. Fields that begin with _ are kept for Prodigy only. Fields that only annotated
    records have are dropped from predictions."""
    return {name: value for name, value in flat(document.record).items()
            if (of_prodigy or not name.startswith('_')) and (document.prediction is None or name not in ANSWERED)}


def _of_model(prediction: Prediction | None, confidence: str = CONFIDENCE) -> dict[str, Any]:
    """The fields that mark a prediction: confidence and model; empty for annotations."""
    values = {} if prediction is None else {confidence: prediction.confidence, MODEL: prediction.model or None}
    return {name: value for name, value in values.items() if value is not None}


def doccano(documents: Iterable[SpanDocument], target: Target) -> Iterator[str]:
    """Writes a line for each text, with spans as lists under "label". doccano shows other fields as metadata."""
    for document, spans in documents:
        yield _line({**_others(document), 'text': document.text,
                     'label': [[span.start, span.end, span.type] for span in spans],
                     **_annotated_parts(document), **_of_model(document.prediction)})


def spacy(documents: Iterable[SpanDocument], target: Target) -> Iterator[str]:
    """Writes a line for each text: [text, {"entities": [[start, end, type]]}]."""
    for document, spans in documents:
        yield _line([document.text, {'entities': [[span.start, span.end, span.type] for span in spans],
                                     **_annotated_parts(document)}])


def prodigy(documents: Iterable[SpanDocument], target: Target) -> Iterator[str]:
    """Writes a line for each text, with its tokens if it has any, and with the token indices of spans.

    Annotations have the answer "accept"; predictions have no answer.
    """
    for document, spans in documents:
        record: dict[str, Any] = {**_others(document, True), 'text': document.text}
        offsets = document.tokens
        if document.sentences is not None:
            offsets = [pair for sentence in document.sentences for pair in sentence.offsets]
        if offsets is not None and all(before[1] <= after[0] for before, after in zip(offsets, offsets[1:])):
            ends = [*(start for start, _ in offsets[1:]), len(document.text)]
            record['tokens'] = [{'text': document.text[start:end], 'start': start, 'end': end, 'id': index,
                                 'ws': after > end} for index, ((start, end), after) in enumerate(zip(offsets, ends))]
        first, last = ({token[side]: token['id'] for token in record.get('tokens', ())} for side in ('start', 'end'))
        record['spans'] = []
        for span in spans:
            within = {'token_start': first[span.start], 'token_end': last[span.end]} if (
                span.start in first and span.end in last) else {}
            record['spans'].append({'start': span.start, 'end': span.end, **within, 'label': span.type})
        if document.prediction is None:
            record['answer'] = 'accept'
        else:
            meta = record.get('meta')
            record['meta'] = {**(meta if isinstance(meta, dict) else {}), **_of_model(document.prediction, 'score')}
        yield _line({**record, **_annotated_parts(document)})


def label_studio(documents: Iterable[SpanDocument], target: Target) -> Iterator[str]:
    """Writes one array of tasks, each with an annotation or, if a model tagged the text, a prediction.

    Names of the labelling interface that the target does not set are copied from the task itself, or from the first
    task that has names.
    """
    documents = list(documents)
    in_source = next(filter(any, (names_in(document.record) for document, _ in documents)), DEFAULT)
    before = '[\n'
    for number, (document, spans) in enumerate(documents, 1):
        from_name, to_name, label_type = (next(filter(None, names)) for names in zip(
            target.names, names_in(document.record), in_source, DEFAULT))
        shared = {'from_name': from_name, 'to_name': to_name, 'type': label_type}
        results = [{'id': f'{number}-{index}', **shared,
                    'value': {'start': span.start, 'end': span.end, 'text': document.text_at(span.start, span.end),
                              label_type: [span.type]}} for index, span in enumerate(spans, 1)]
        yield before + json.dumps(_task(document, results, number), ensure_ascii=False)
        before = ',\n'
    yield '[]\n' if before == '[\n' else '\n]\n'


def _task(document: Document, results: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """A task of Label Studio with new results. The task keeps its own annotations and predictions.

    Fields of other formats go into "data", which Label Studio keeps; it assigns its own "id" at import.

    Args:
        document: a text.
        results: the spans of the text as Label Studio results.
        number: the "id" of the task if the record has no integer "id".
    """
    record, entry = document.record, {}
    if record is not None and is_task(record):
        task = {name: value for name, value in record.items() if name not in OF_TAGGER}
    else:
        others = flat(record)
        meta = {'meta': others.pop('meta')} if isinstance(others.get('meta'), dict) else {}
        own_id = others.get('id')
        task = {'id': own_id if type(own_id) is int else number, 'data': {'text': document.text, **others}, **meta}
    lists = [task.pop(name, None) for name in ANNOTATIONS]
    annotated = [entry for entries in lists if isinstance(entries, list) for entry in entries]
    if document.sentences is None and is_task(record):
        # The spans were read from the first annotation that is not cancelled: its results are replaced.
        entry = next(entry for entry in annotated if not entry.get('was_cancelled'))
        annotated = []
    if document.prediction is None:
        return {**task, ANNOTATIONS[0]: [*annotated, {**entry, 'result': results}]}
    model, predicted = document.prediction.model, task.get('predictions')
    earlier = [entry for entry in (predicted if isinstance(predicted, list) else ())
               if not (model and isinstance(entry, dict) and entry.get(MODEL) == model)]
    kept = {ANNOTATIONS[0]: annotated} if any(isinstance(entries, list) for entries in lists) else {}
    return {**task, **kept, 'predictions': [*earlier, {'result': results, **_of_model(document.prediction, 'score')}]}


def names_in(record: dict[str, Any] | None) -> Names:
    """The names of the labelling interface in the first span of a task; all None if the task has no span."""
    for result in _results(record) if record is not None and is_task(record) else ():
        if region := region_of(result):
            names = (result.get('from_name'), result.get('to_name'), region[0])
            return Names(*(name if isinstance(name, str) else None for name in names))
    return Names()


def _results(task: dict[str, Any]) -> Iterator[Any]:
    for name in (*ANNOTATIONS, 'predictions'):
        for entry in task[name] if isinstance(task.get(name), list) else ():
            if isinstance(entry, dict) and isinstance(entry.get('result'), list):
                yield from entry['result']
