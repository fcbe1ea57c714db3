"""The records of JSON: a line each or in arrays, and their fields: ids, metadata, marks of predictions, Label Studio's.

Text, tags and spans of records are read by `json_records` and written by `json_exports`.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.formats.document import Lines, Prediction
from ms_crf.text.splitting import BLANKS

SPANS = ('entities', 'spans', 'label', 'labels')       # names under which records have their spans
ANNOTATIONS = ('annotations', 'completions')           # names under which Label Studio has what people have annotated
MODEL, CONFIDENCE = 'model_version', 'confidence'      # of a prediction
OF_TAGGER = ('text', 'tokens', 'tags', 'gold', 'offsets', 'entities', 'confidences', 'alternatives', CONFIDENCE, MODEL)
_CONTENT = ('text', 'tokens', 'judged', 'answer', 'relations')
ANSWERED = ('answer', 'Comments', 'annotation_id')     # in what people have annotated with Prodigy, doccano, JSON-MIN


# Where records are

def records(path: object, lines: Lines) -> Iterator[tuple[int, Any] | None]:
    """(line, value) of each record, None for a blank line's value; a None among the lines is passed on."""
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
        if value is None:                        # an array of records, or one that goes on behind the line
            following = [text, *(other[1] for other in rest if other is not None)]
            yield from _values(path, '\n'.join(following), number, record)
            return
        if array and not is_pair(value):
            raise CorpusError(path, number, f'expected a JSON object, got {text[:40]!r}')
        record += 1
        yield number, value


def _opens_a_list(text: str, at: int) -> bool:
    """Whether the array that begins at a place of a text is one of records, and not a record itself."""
    inner = text[at + 1:at + 1000].lstrip(BLANKS)[:1]
    return inner in ('{', '[', ']')


class RecordLine(int):
    """The number of a line of a file that holds an array, which is shown with the number of a record, from 1.

    Args:
        line: on which the record begins; an array may be one long line.
        record: its number in the file.
    """

    record: int

    def __new__(cls, line: int, record: int = 0) -> 'RecordLine':        # pickle passes the line alone
        made = super().__new__(cls, line)
        made.record = record
        return made

    def __format__(self, form: str) -> str:
        return format(int(self), form) if form else f'{int(self)}, record {self.record}'


def _values(path: object, text: str, line: int, record: int) -> Iterator[tuple[int, Any]]:
    """The records of a text that begins with an array: its items, and what comes after it.

    Args:
        path: of the file, for messages.
        text: all that is left of it.
        line: on which the text begins.
        record: how many records come before it.
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
    """The place of the next character that is not blank, or the end of the text."""
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def _value(path: object, text: str, begin: int, line: RecordLine) -> tuple[Any, int]:
    """The record that begins at a place of a text, and where it ends."""
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
    except ValueError as error:                  # a number of thousands of digits
        fault = f': {str(error).partition(";")[0]}'
    raise CorpusError(path, where, f'expected a JSON object{fault}')


def is_pair(value: Any) -> bool:
    """Whether a value is [text, annotations], as spaCy's training data had it."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def as_object(record: Any) -> dict[str, Any]:
    """A record as an object, also if it is [text, annotations]."""
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
    """Whether a record is a task of Label Studio: "data", and annotations or predictions."""
    return isinstance(record, dict) and isinstance(record.get('data'), dict) and any(
        isinstance(record.get(name), list) for name in (*ANNOTATIONS, 'predictions'))


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
    return value if type(value) in (int, float) else None


def _has_entities_of_tagger(record: dict[str, Any]) -> bool:
    """Whether the entities of a text are objects with the indices of their tokens, as only taggers write them."""
    entities = record.get('entities')
    return 'text' in record and isinstance(entities, list) and all(
        isinstance(entity, dict) and {'first', 'last', 'start', 'end'} <= entity.keys() for entity in entities)


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
            and not (tagged and name in OF_TAGGER)}
