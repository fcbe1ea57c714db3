"""Rows of shards: reading ids, texts and tokens from JSON lines, Parquet or text, and writing tagged records."""

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief, not_installed
from ms_crf.base.files import faults_named, text_writer, whole
from ms_crf.bulk.shards import PARQUET, TXT, Shard
from ms_crf.formats.json_lines import json_object
from ms_crf.formats.lines import byte_lines, cut, decode, half_of_pair, unreadable
from ms_crf.formats.raw import sentence_of_text, sentence_of_tokens
from ms_crf.render.tagged import Writer
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import BLANKS, Splitter

ID = 'id'
BATCH = 1024                   # rows of a Parquet file that are read together


class Fields(NamedTuple):
    """Names of the fields to read from a row.

    Attributes:
        id: field of the id, which each row must have. None: the field "id", or file and line for rows without it.
        text, tokens: fields of the text and of the tokens. If a row has both, the tokens are used.
    """

    id: str | None = None
    text: str = 'text'
    tokens: str = 'tokens'


class ShardRow(NamedTuple):
    """A row of a shard."""

    id: str | int
    text: str
    items: list[Sentence]          # one sentence, or the sentences of raw text


def arrow(what: str) -> Any:
    """Imports and returns pyarrow, which reads Parquet and zstd files.

    Raises OptionError if pyarrow is not installed; the message begins with `what`, the file or feature that needs it.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise not_installed(what, 'pyarrow', 'bulk') from None
    return pyarrow


def rows(shard: Shard, fields: Fields, characters: bool = False,
         splitter: Splitter | None = None) -> Iterator[ShardRow]:
    """Yields the rows of a shard in their order, in constant memory. Empty lines in JSON lines are skipped.

    Args:
        shard: the shard to read.
        fields: names of the fields.
        characters: whether each character of a text is a token; otherwise spaces separate tokens.
        splitter: splits each text into sentences and tokens. None: each text is one sentence.

    Raises:
        CorpusError: the shard cannot be read, or a row is invalid.
    """
    return (_row(shard, fields, characters, splitter, line, record) for line, record in _records_of(shard, fields))


def _records_of(shard: Shard, fields: Fields) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the number of each row, from 1, and its fields or columns."""
    if shard.kind == PARQUET:
        yield from enumerate(_of_parquet(shard.source, fields), 1)
        return
    for number, line in enumerate(_lines(shard.source), 1):
        text = decode(shard.source, number, line)
        if shard.kind == TXT:
            yield number, {fields.text: text}
        elif text.strip(BLANKS):
            yield number, json_object(shard.source, number, text)


def _row(shard: Shard, fields: Fields, characters: bool, splitter: Splitter | None, line: int,
         record: Mapping[str, Any]) -> ShardRow:
    """Returns the row of a record; raises CorpusError if the record is invalid."""
    field, wrong = fields.id or ID, ''
    values: list[Any] = [record.get(column) for column in (field, fields.text, fields.tokens)]
    name, text, tokens = values
    if shard.kind == TXT or (fields.id is None and field not in record):
        name = f'{shard.name}:{line}'
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        wrong = (f'expected the id "{field}" to be a string or an integer, got '
                 f'{_json(name) if field in record else "none"}')
    elif text is not None and not isinstance(text, str):
        wrong = f'expected "{fields.text}" to be a string, got {brief(text)}'
    elif splitter is not None and text is None:
        wrong = f'expected "{fields.text}", a string, got none'
    elif splitter is None and tokens is not None and not (
            isinstance(tokens, list) and all(isinstance(token, str) and token for token in tokens)):
        wrong = f'expected "{fields.tokens}" to be a list of strings that are not empty, got {_json(tokens)}'
    elif tokens is None and text is None:
        wrong = f'expected "{fields.tokens}", a list of strings, or "{fields.text}", a string, got neither'
    if wrong:
        raise CorpusError(shard.source, line, wrong)
    if splitter is not None:
        items = splitter.split(text)
        for item in items:
            item.line = line
        return ShardRow(name, text, items)
    item = (sentence_of_text(text, characters, line=line) if tokens is None else
            sentence_of_tokens(tokens, text, line=line))
    return ShardRow(name, item.text, [item])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)[:40]


def _lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a text file, which may be compressed."""
    if not path.endswith('.zst'):
        yield from byte_lines(path)
        return
    with _reading(path, 'expected a zstd file, got a damaged file; download or create it again') as library, \
            library.input_stream(path, compression='zstd') as file:
        for line in io.BufferedReader(file):
            yield from cut(line)


def _of_parquet(path: str, fields: Fields) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file as dicts with the columns of `fields`."""
    with _reading(path) as library, library.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        used = {fields.id or ID, fields.text, fields.tokens}
        columns = [name for name in file.schema_arrow.names if name in used]
        for batch in file.iter_batches(BATCH, columns=columns, use_threads=False):
            yield from batch.to_pylist()


@contextlib.contextmanager
def _reading(path: str, damaged: str = 'expected a Parquet file, got another format or a damaged file: {}'
             ) -> Iterator[Any]:
    """A context with pyarrow for reading a file. Errors of pyarrow become CorpusError with the message `damaged`."""
    library = arrow(path)
    try:
        yield library
    except (OSError, library.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from None
        raise CorpusError(path, None, damaged.format(error)) from None


def id_type(shard: Shard, fields: Fields) -> Any:
    """Returns the Parquet type for ids: the type of the input column if it has integers, otherwise string."""
    if shard.kind == PARQUET:
        with _reading(shard.source) as library:
            schema = library.parquet.read_schema(shard.source)
        name = fields.id or ID
        if name in schema.names and library.types.is_integer(schema.field(name).type):
            return schema.field(name).type
    return arrow(shard.source).string()


GROUP = 16384                  # rows of a row group in Parquet output
Record = dict[str, Any]
Write = Callable[[Sequence[Record]], None]


def record_of(row: ShardRow, tagged: Sequence[Sentence], writer: Writer, raw: bool) -> Record:
    """Returns the record of a row: id and text, then tokens, tags, entities and confidences as in `infer` with JSON.

    The record of raw text has "sentences" with offsets, tokens and tags. It has one list of entities for the whole
    text, each with the index of its sentence.

    Args:
        row: the row.
        tagged: the tagged sentences of the row.
        writer: writer of JSON records.
        raw: whether the row is raw text.
    """
    records = [writer.record(item.predicted(sentence.prediction)) for item, sentence in zip(row.items, tagged)]
    if not raw:
        return {'id': row.id, **records[0]}
    entities = [{**entity, 'sentence': index} for index, record in enumerate(records) for entity in record['entities']]
    sentences = [{name: value for name, value in record.items() if name not in ('text', 'entities')}
                 for record in records]
    return {'id': row.id, 'text': row.text, 'sentences': sentences, 'entities': entities}


@contextlib.contextmanager
def writing(target: str, draft: str, kind: str, raw: bool, confidence: bool, id_type: Any = None) -> Iterator[Write]:
    """A context with a function that writes records. The file appears when the block ends without an error.

    Args:
        target: name of the file; JSON lines are compressed if the name ends in .gz or .zst.
        draft: name of the file until it is complete.
        kind: format of the file, 'jsonl' or 'parquet'.
        raw: whether records have the sentences of raw texts.
        confidence: whether records have confidences.
        id_type: type of the ids in Parquet.
    """
    if kind == PARQUET:
        with _parquet(target, draft, _schema(arrow(target), raw, confidence, id_type)) as write_rows:
            yield write_rows
        return
    with _packed(target, draft) if target.endswith('.zst') else text_writer(target, draft) as write:
        yield lambda records: write(''.join(json.dumps(record, ensure_ascii=False) + '\n' for record in records))


@contextlib.contextmanager
def _opened(target: str, draft: str, opened: Callable[[str], Any]) -> Iterator[Any]:
    """A context with a file from `opened(draft)`, which is renamed to `target` when the block ends without an error."""
    with whole(target, draft) as name, contextlib.ExitStack() as stack:
        with faults_named(target):
            file = stack.enter_context(opened(name))
        yield file
        with faults_named(target):
            file.close()


@contextlib.contextmanager
def _packed(target: str, draft: str) -> Iterator[Callable[[str], None]]:
    library = arrow(target)
    with _opened(target, draft, lambda name: library.CompressedOutputStream(name, 'zstd')) as file:

        def write(text: str) -> None:
            with faults_named(target):
                file.write(text.encode('utf-8', 'backslashreplace'))

        yield write


@contextlib.contextmanager
def _parquet(target: str, draft: str, schema: Any) -> Iterator[Write]:
    library = arrow(target)
    waiting: list[Any] = []

    def flush() -> None:
        with faults_named(target):
            file.write_table(library.Table.from_batches(waiting, schema))
        waiting.clear()

    def write(records: Sequence[Record]) -> None:
        if schema.field('id').type == library.string():
            records = [{**record, 'id': str(record['id'])} for record in records]
        try:
            waiting.append(library.RecordBatch.from_pylist(list(records), schema))
        except UnicodeEncodeError:
            wrong = next(record['id'] for record in records if half_of_pair([json.dumps(record, ensure_ascii=False)]))
            raise CorpusError(target, None, 'expected text that Parquet can store, got a single surrogate in the row '
                                            f'{wrong!a}; use JSON lines for such text') from None
        if sum(batch.num_rows for batch in waiting) >= GROUP:
            flush()

    with _opened(target, draft, lambda name: library.parquet.ParquetWriter(name, schema, compression='zstd')) as file:
        yield write
        flush()


def _schema(library: Any, raw: bool, confidence: bool, id_type: Any) -> Any:
    """Returns the schema of Parquet output."""
    text, number, real = library.string(), library.int32(), library.float64()
    entity = {'type': text, 'text': text, 'first': number, 'last': number, 'start': number, 'end': number}
    tagged = {'tokens': library.list_(text), 'tags': library.list_(text)}
    certain = {'confidences': library.list_(real), 'confidence': real}
    if confidence:
        tagged |= certain
        entity['confidence'] = real
    if raw:
        offsets = library.list_(library.list_(number))
        sentence = {'start': number, 'end': number, 'offsets': offsets, **tagged}
        tagged = {'sentences': library.list_(library.struct(list(sentence.items())))}
        entity['sentence'] = number
    entities = library.list_(library.struct(list(entity.items())))
    return library.schema([('id', id_type), ('text', text), *tagged.items(), ('entities', entities)])
