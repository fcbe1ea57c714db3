"""What records of JSON hold besides text, tags and spans: ids, metadata, marks of predictions, Label Studio's names."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

SPANS = ('entities', 'spans', 'label', 'labels')       # names under which records have their spans
ANNOTATIONS = ('annotations', 'completions')           # names under which Label Studio has what people have annotated
PREDICTIONS = 'predictions'
MODEL, CONFIDENCE = 'model_version', 'confidence'      # of a prediction
_OF_TAGGER = ('text', 'tokens', 'tags', 'gold', 'offsets', 'entities', 'confidences', 'alternatives', CONFIDENCE, MODEL)
_CONTENT = ('text', 'tokens', 'judged', 'answer', 'relations')
ANSWERED = ('answer', 'Comments', 'annotation_id')     # in what people have annotated with Prodigy, doccano, JSON-MIN


class Names(NamedTuple):
    """How a labelling interface of Label Studio names its parts.

    Args:
        from_name: of the tag with the labels.
        to_name: of the tag with the text.
        label_type: the type of the results; also the name under which a result has its labels.
    """

    from_name: str | None = None
    to_name: str | None = None
    label_type: str | None = None

    def otherwise(self, other: 'Names') -> 'Names':
        """These names, and those of another interface for names that are None."""
        return Names(*(own or another for own, another in zip(self, other)))


DEFAULT = Names('label', 'text', 'labels')


class Prediction(NamedTuple):
    """What a record says of the model that has tagged its text.

    Args:
        confidence: of all tags together; None if the record has none.
        model: name and version of the model; '' if the record has none.
    """

    confidence: float | None = None
    model: str = ''


def is_task(record: Any) -> bool:
    """Whether a record is a task of Label Studio: "data", and annotations or predictions."""
    return isinstance(record.get('data'), dict) and any(isinstance(record.get(name), list)
                                                        for name in (*ANNOTATIONS, PREDICTIONS))


def text_key(data: dict[str, Any]) -> str | None:
    """The name under which the "data" of a task has its text: "text", or that of its only string."""
    strings = [name for name, value in data.items() if isinstance(value, str)]
    return 'text' if 'text' in strings else strings[0] if 'text' not in data and len(strings) == 1 else None


def text_of(record: dict[str, Any]) -> str | None:
    """The text of a record; None if it has none."""
    if 'text' not in record and isinstance(record.get('data'), dict):
        record = {'text': record['data'].get(text_key(record['data']))}
    return record['text'] if isinstance(record.get('text'), str) else None


def region_of(result: Any) -> tuple[str, dict[str, Any]] | None:
    """The type and the value of a result of Label Studio that is a span with labels; None for any other result."""
    value = result.get('value') if isinstance(result, dict) else None
    if not isinstance(value, dict):
        return None
    for name in (result.get('type'), 'labels'):
        if isinstance(name, str) and isinstance(value.get(name), list) and value[name] and 'start' in value:
            return name, value
    return None


def names_in(record: dict[str, Any] | None) -> Names:
    """The names in the first result of a task that is a span; all None if there is none."""
    if record is None or not is_task(record):
        return Names()
    for result in _results(record):
        region = region_of(result)
        if region is not None:
            own = (result.get('from_name'), result.get('to_name'), region[0])
            return Names(*(name if isinstance(name, str) else None for name in own))
    return Names()


def _results(task: dict[str, Any]) -> Iterator[Any]:
    for name in (*ANNOTATIONS, PREDICTIONS):
        for entry in task[name] if isinstance(task.get(name), list) else ():
            if isinstance(entry, dict) and isinstance(entry.get('result'), list):
                yield from entry['result']


def prediction_in(record: dict[str, Any]) -> Prediction | None:
    """What a record says of the model that has tagged it; None for a record that people have annotated.

    A tagger names its model under "model_version", or writes confidences or the tokens of entities next to tags. The
    spans of a record that somebody has answered are annotations.
    """
    tagged, meta = 'tags' in record, record.get('meta')
    if not tagged and (is_task(record) or any(name in record for name in ANSWERED)):
        return None
    meta = meta if isinstance(meta, dict) and not tagged else {}
    model = next((value for value in (record.get(MODEL), meta.get(MODEL)) if isinstance(value, str) and value), '')
    confidence = _number(record.get(CONFIDENCE))
    if not model and not (tagged and (confidence is not None or _has_entities_of_tagger(record))):
        return None
    return Prediction(_number(meta.get('score')) if confidence is None else confidence, model)


def _number(value: Any) -> float | None:
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if right else None


def _has_entities_of_tagger(record: dict[str, Any]) -> bool:
    """Whether the entities of a text are objects with the indices of their tokens, as only taggers write them."""
    entities = record.get('entities')
    return 'text' in record and isinstance(entities, list) and all(
        isinstance(entity, dict) and {'first', 'last', 'start', 'end'} <= entity.keys() for entity in entities)


def without_prediction(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what an earlier tagger said of itself, if one did."""
    if not isinstance(record.get(MODEL), str):
        return dict(record)
    return {name: value for name, value in record.items() if name not in (
        MODEL, CONFIDENCE, 'confidences', 'alternatives')}


def flat(record: dict[str, Any] | None) -> dict[str, Any]:
    """The fields of a record that are no part of its text, tags and spans, such as "id" and "meta".

    Of a task of Label Studio these are its "id", its "meta" and all else that is in its "data".
    """
    if record is None:
        return {}
    if is_task(record):
        data, key = record['data'], text_key(record['data'])
        record = {**{name: record[name] for name in ('id', 'meta') if record.get(name) not in (None, {})},
                  **{name: value for name, value in data.items() if name != key}}
    tagged = 'tags' in record or isinstance(record.get(MODEL), str)
    return {name: value for name, value in record.items()
            if name not in _CONTENT and not (name in SPANS and isinstance(value, list))
            and not (tagged and name in _OF_TAGGER)}


def task_of(record: dict[str, Any] | None, text: str, number: int) -> dict[str, Any]:
    """A task of Label Studio with the fields of a record, without what people or models have marked in its text.

    What is not from Label Studio goes into "data", which the tool keeps; it gives "id" anew.

    Args:
        record: None if the text is not from JSON.
        text: of the task.
        number: its "id" if the record has no number of its own.
    """
    if record is not None and is_task(record):
        return {name: value for name, value in record.items() if name not in _OF_TAGGER}
    others = flat(record)
    meta = {'meta': others.pop('meta')} if isinstance(others.get('meta'), dict) else {}
    own = others.get('id')
    return {'id': own if type(own) is int else number, 'data': {'text': text, **others}, **meta}
