"""Writes JSON: tokens with tags, and texts with spans as doccano, Label Studio, Prodigy and spaCy take them.

What a model has tagged is marked as a prediction where the tool has a place for that. Other fields of records, such as
ids and metadata, are kept.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ms_crf.formats.document import DEFAULT, Document, Look, Marked, Names, Prediction, Tagged, Target
from ms_crf.formats.json_lines import ANNOTATIONS, ANSWERED, CONFIDENCE, MODEL, OF_TAGGER, flat, is_task, region_of
from ms_crf.text.partial import as_json
from ms_crf.text.sentence import Sentence


def _line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False) + '\n'


def record_of(sentence: Sentence, model: str = '') -> dict[str, Any]:
    """A tagged sentence as an object: what the input says of it, then what is known of it, and the model if named."""
    record = dict(sentence.record or {})
    if isinstance(record.get(MODEL), str):       # without what an earlier tagger said of itself
        record = {name: value for name, value in record.items() if name not in (
            MODEL, CONFIDENCE, 'confidences', 'alternatives')}
    if 'tags' in record:
        record['gold'] = record['tags']
    return {**record, **sentence.to_dict(), **({MODEL: model} if model else {})}


def line(sentence: Sentence, look: Look) -> str:
    """The line of a tagged sentence."""
    if sentence.raw and not sentence.tokens:
        return ''                                # blanks between paragraphs
    return _line(record_of(sentence, look.model))


def tokens(documents: Iterable[Tagged], target: Target) -> Iterator[str]:
    """A line for each sentence: "tokens", "tags" and, where the file has a text, the sentence's "text"; null as a tag
    where nobody has judged, and the mark in those that are judged in part."""
    for document, sentences in documents:
        for sentence in sentences:
            own = {'text': document.text[sentence.offsets[0][0]:sentence.offsets[-1][1]]} if document.has_text else {}
            yield _line({**_others(document), **own, 'tokens': sentence.tokens,
                         'tags': as_json(sentence.tags, target.mark), **_of_model(document.prediction)})


def _judged(document: Document) -> dict[str, Any]:
    """The parts of a text that were looked at, if that is not all of it."""
    return {} if document.judged is None else {'judged': document.judged}


def _others(document: Document, of_prodigy: bool = False) -> dict[str, Any]:
    """The other fields of a document's record: fields that begin with _ are for Prodigy alone, and fields that show
    that people have annotated it are not for a prediction."""
    return {name: value for name, value in flat(document.record).items()
            if (of_prodigy or not name.startswith('_')) and (document.prediction is None or name not in ANSWERED)}


def _of_model(prediction: Prediction | None, confidence: str = CONFIDENCE) -> dict[str, Any]:
    """The fields of a prediction; none if the tags are not a model's."""
    values = {} if prediction is None else {confidence: prediction.confidence, MODEL: prediction.model or None}
    return {name: value for name, value in values.items() if value is not None}


def doccano(documents: Iterable[Marked], target: Target) -> Iterator[str]:
    """A line for each text, its spans as lists under "label"; of other fields the tool makes metadata."""
    for document, spans in documents:
        yield _line({**_others(document), 'text': document.text,
                     'label': [[span.start, span.end, span.type] for span in spans],
                     **_judged(document), **_of_model(document.prediction)})


def spacy(documents: Iterable[Marked], target: Target) -> Iterator[str]:
    """A line for each text: [text, {"entities": [[start, end, type]]}]."""
    for document, spans in documents:
        yield _line([document.text, {'entities': [[span.start, span.end, span.type] for span in spans],
                                     **_judged(document)}])


def prodigy(documents: Iterable[Marked], target: Target) -> Iterator[str]:
    """A line for each text, with its tokens if it has some, and which of them each span holds.

    What people have annotated is accepted; what a model has tagged has no answer yet.
    """
    for document, spans in documents:
        record: dict[str, Any] = {**_others(document, True), 'text': document.text}
        offsets = document.tokens
        if document.sentences is not None:
            offsets = [place for sentence in document.sentences for place in sentence.offsets]
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
        yield _line({**record, **_judged(document)})


def label_studio(documents: Iterable[Marked], target: Target) -> Iterator[str]:
    """One array of tasks with an annotation each, or a prediction where a model has tagged the text.

    Names of the labelling interface that the target does not have are copied from a document's own task, or from the
    first task that has some.
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
    """A task of Label Studio with the results of a tagger; it keeps its own annotations and predictions.

    What is not from Label Studio goes into "data", which the tool keeps; it gives "id" anew.

    Args:
        document: a text.
        results: the spans of the text.
        number: the "id" of the task if the document's record has no number of its own.
    """
    record, entry = document.record, {}
    if record is not None and is_task(record):
        task = {name: value for name, value in record.items() if name not in OF_TAGGER}
    else:
        others = flat(record)
        meta = {'meta': others.pop('meta')} if isinstance(others.get('meta'), dict) else {}
        own = others.get('id')
        task = {'id': own if type(own) is int else number, 'data': {'text': document.text, **others}, **meta}
    lists = [task.pop(name, None) for name in ANNOTATIONS]
    annotated = [entry for entries in lists if isinstance(entries, list) for entry in entries]
    if document.sentences is None and is_task(record):
        # The results are those of the first annotation that was not cancelled.
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
    """The names in the first result of a task that is a span; all None if there is none."""
    for result in _results(record) if record is not None and is_task(record) else ():
        if region := region_of(result):
            own = (result.get('from_name'), result.get('to_name'), region[0])
            return Names(*(name if isinstance(name, str) else None for name in own))
    return Names()


def _results(task: dict[str, Any]) -> Iterator[Any]:
    for name in (*ANNOTATIONS, 'predictions'):
        for entry in task[name] if isinstance(task.get(name), list) else ():
            if isinstance(entry, dict) and isinstance(entry.get('result'), list):
                yield from entry['result']
