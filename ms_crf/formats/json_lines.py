"""Finds the records in JSON files and reads their common fields: ids, metadata, predictions, Label Studio results.

`json_records` reads the text, tags and spans of records, and `json_exports` writes them.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.formats.document import Lines, Prediction
from ms_crf.text.splitting import BLANKS

SPANS = ('entities', 'spans', 'label', 'labels')       # keys of spans
ANNOTATIONS = ('annotations', 'completions')           # keys of annotations in Label Studio tasks
MODEL, CONFIDENCE = 'model_version', 'confidence'      # keys of predictions
OF_TAGGER = ('text', 'tokens', 'tags', 'gold', 'offsets', 'entities', 'confidences', 'alternatives', CONFIDENCE, MODEL)
_CONTENT = ('text', 'tokens', 'judged', 'answer', 'relations')
ANSWERED = ('answer', 'Comments', 'annotation_id')     # keys that mark annotations of Prodigy, doccano and JSON-MIN


# Finding records

def records(path: object, lines: Lines) -> Iterator[tuple[int, Any] | None]:
    """(line, value) of each record; the value of an empty line is None. None among the lines is yielded unchanged."""
    record, rest = 0, iter(lines)
    for line in rest:
        if line is None:
            yield None
            continue
        number, text = line
        if not text.strip(BLANKS):
            yield number, None
            continue
        array, value = text.lstrip(BLANKS).startswith('['), None
        if not array:
            value = json_object(path, number, text)
        elif not _opens_a_list(text, text.index('[')):
            with contextlib.suppress(JSONFault):
                value = json_of(text, None)
        if value is None:                        # an array of records, or an array over several lines
            following = [text, *(other[1] for other in rest if other is not None)]
            yield from _values(path, '\n'.join(following), number, record)
            return
        if array and not is_pair(value):
            raise CorpusError(path, number, f'expected a JSON object, got {text[:40]!r}')
        record += 1
        yield number, value


def _opens_a_list(text: str, at: int) -> bool:
    """Whether the array at an index of a text contains records, and is not itself a record."""
    inner = text[at + 1:at + 1000].lstrip(BLANKS)[:1]
    return inner in ('{', '[', ']')


class RecordLine(int):
    """A line number with a record number, for messages about files with arrays.

    Args:
        line: number of the line on which the record begins; an array may be a single long line.
        record: number of the record in the file, from 1.
    """

    record: int

    def __new__(cls, line: int, record: int = 0) -> 'RecordLine':        # pickle passes only the line
        instance = super().__new__(cls, line)
        instance.record = record
        return instance

    def __format__(self, form: str) -> str:
        return format(int(self), form) if form else f'{int(self)}, record {self.record}'


def _values(path: object, text: str, line: int, record: int) -> Iterator[tuple[int, Any]]:
    """The records of a text that begins with an array: the items of the array, and everything after the array.

    Args:
        path: path of the file, for messages.
        text: the rest of the file.
        line: number of the line on which the text begins.
        record: number of records before the text.
    """
    at, counted, in_list = _visible(text, 0), 0, False
    while in_list or at < len(text):
        if not in_list and text[at] == '[' and _opens_a_list(text, at):
            at = _visible(text, at + 1)
            if text.startswith(']', at):
                at = _visible(text, at + 1)
            else:
                in_list = True
            continue
        record, line, counted = record + 1, line + text.count('\n', counted, at), at
        value, at = _value(path, text, at, RecordLine(line, record))
        yield RecordLine(line, record), value
        at = _visible(text, at)
        if in_list:
            if not text.startswith((',', ']'), at):
                raise CorpusError(path, RecordLine(line + text.count('\n', counted, at), record),
                                  f'expected a comma or ] after a record, got {text[at:at + 40]!r}')
            in_list = text[at] == ','
            at = _visible(text, at + 1)


def _visible(text: str, at: int) -> int:
    """The index of the next visible character, or the length of the text."""
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def _value(path: object, text: str, begin: int, line: RecordLine) -> tuple[Any, int]:
    """The record that begins at an index of a text, and the index after its end."""
    where: int = line
    try:
        end = json.JSONDecoder().raw_decode(text, begin)[1]
        value = json_of(text[begin:end], None)
        if isinstance(value, dict) or is_pair(value):
            return value, end
        fault = f', got {text[begin:end][:40]!r}'
    except RecursionError:
        fault = ': it is nested too deeply'
    except json.JSONDecodeError as error:
        column = error.pos - text.rfind('\n', 0, error.pos)
        where = RecordLine(line + text.count('\n', begin, error.pos), line.record)
        fault = f': {error.msg} at column {column}'
    except JSONFault as error:
        fault = f': {error}'
    except ValueError as error:                  # a number with thousands of digits
        fault = f': {str(error).partition(";")[0]}'
    raise CorpusError(path, where, f'expected a JSON object{fault}')


def is_pair(value: Any) -> bool:
    """Whether a value is [text, annotations], a format of spaCy's training data."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def as_object(record: Any) -> dict[str, Any]:
    """A record as an object; [text, annotations] is converted."""
    return {**record[1], 'text': record[0]} if is_pair(record) else record


def json_object(path: object, line_number: int, text: str) -> dict[str, Any]:
    """Parses the JSON object on a line."""
    try:
        record = json_of(text, None)
    except JSONFault as error:
        raise CorpusError(path, line_number, f'expected a JSON object: {error}') from None
    if not isinstance(record, dict):
        raise CorpusError(path, line_number, f'expected a JSON object, got {text[:40]!r}')
    return record


# Fields of records

def is_task(record: Any) -> bool:
    """Whether a record is a Label Studio task: it has "data", and annotations or predictions."""
    return isinstance(record, dict) and isinstance(record.get('data'), dict) and any(
        isinstance(record.get(name), list) for name in (*ANNOTATIONS, 'predictions'))


def text_key(data: dict[str, Any]) -> str | None:
    """The key of the text in the "data" of a task: "text", or the key of its only string; None if it is ambiguous."""
    strings = [name for name, value in data.items() if isinstance(value, str)]
    return 'text' if 'text' in strings else strings[0] if 'text' not in data and len(strings) == 1 else None


def text_of(record: dict[str, Any]) -> str | None:
    """The text of a record; None if it has none."""
    if 'text' not in record and isinstance(record.get('data'), dict):
        record = {'text': record['data'].get(text_key(record['data']))}
    return record['text'] if isinstance(record.get('text'), str) else None


def region_of(result: Any) -> tuple[str, dict[str, Any]] | None:
    """Type and value of a Label Studio result that is a span with labels; None for any other result."""
    value = result.get('value') if isinstance(result, dict) else None
    if not isinstance(value, dict):
        return None
    for name in (result.get('type'), 'labels'):
        if isinstance(name, str) and isinstance(value.get(name), list) and value[name] and 'start' in value:
            return name, value
    return None


def prediction_in(record: dict[str, Any]) -> Prediction | None:
    """The fields of a record that describe a model's prediction; None if people annotated the record.

    A record is a prediction if it has "model_version", or if it has "tags" with a confidence or with entities with
    token indices. A record without tags that has an answer of an annotator is an annotation.
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
    return value if type(value) in (int, float) else None


def _has_entities_of_tagger(record: dict[str, Any]) -> bool:
    """Whether all entities have token indices; only taggers write these."""
    entities = record.get('entities')
    return 'text' in record and isinstance(entities, list) and all(
        isinstance(entity, dict) and {'first', 'last', 'start', 'end'} <= entity.keys() for entity in entities)


def flat(record: dict[str, Any] | None) -> dict[str, Any]:
    """All fields of a record except its text, tags and spans, such as "id" and "meta".

    For a Label Studio task: "id", "meta" and all other fields of "data".
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
            and not (tagged and name in OF_TAGGER)}
