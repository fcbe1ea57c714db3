"""Rows of shards: reads ids, texts and tokens from JSON lines, Parquet or text; writes records of tagged rows."""

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
BATCH = 1024                   # rows of Parquet that are read at once


class Fields(NamedTuple):
    """What to read of a row.

    Attributes:
        id: the name of the field, or None for "id" where a row has it and otherwise file and line.
        text, tokens: names of the fields; tokens are taken where a row has both.
    """

    id: str | None = None
    text: str = 'text'
    tokens: str = 'tokens'


class Row(NamedTuple):
    """A row of a shard."""

    id: str | int
    text: str
    items: list[Sentence]          # its sentences: a single one, or those that were found in raw text


def arrow(what: str) -> Any:
    """The library that reads Parquet and zstd; raises OptionError, which begins with what needs it, without it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise not_installed(what, 'pyarrow', 'bulk') from None
    return pyarrow


def rows(shard: Shard, fields: Fields, characters: bool = False, splitter: Splitter | None = None) -> Iterator[Row]:
    """The rows of a shard, in their order; blank lines of JSON lines are no rows.

    Args:
        shard: which is read piece by piece.
        fields: their names.
        characters: whether each character of a text is a token; otherwise each word is one.
        splitter: finds sentences and tokens in texts; None where blanks separate the tokens of a single sentence.

    Raises:
        CorpusError: the shard can't be read, or a row is no such row.
    """
    return (_row(shard, fields, characters, splitter, line, record) for line, record in _records_of(shard, fields))


def _records_of(shard: Shard, fields: Fields) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(number from 1, columns or fields) of each row."""
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
         record: Mapping[str, Any]) -> Row:
    """The row of a record; raises CorpusError if it is no such row."""
    field, wrong = fields.id or ID, ''
    values: list[Any] = [record.get(column) for column in (field, fields.text, fields.tokens)]
    name, text, tokens = values
    if shard.kind == TXT or (fields.id is None and field not in record):
        name = f'{shard.name}:{line}'
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        wrong = (f'expected "{field}", the id, to be text or a whole number, got '
                 f'{_json(name) if field in record else "none"}')
    elif text is not None and not isinstance(text, str):
        wrong = f'expected "{fields.text}" to be text, got {brief(text)}'
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
        return Row(name, text, items)
    item = (sentence_of_text(text, characters, line=line) if tokens is None else
            sentence_of_tokens(tokens, text, line=line))
    return Row(name, item.text, [item])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)[:40]


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a text file, also compressed."""
    if not path.endswith('.zst'):
        yield from byte_lines(path)
        return
    with _reading(path, 'expected a zstd file, got a damaged one; fetch it again') as library, \
            library.input_stream(path, compression='zstd') as file:
        for line in io.BufferedReader(file):
            yield from cut(line)


def _of_parquet(path: str, fields: Fields) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file as dicts of the columns that count."""
    with _reading(path) as library, library.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        wanted = {fields.id or ID, fields.text, fields.tokens}
        columns = [name for name in file.schema_arrow.names if name in wanted]
        for batch in file.iter_batches(BATCH, columns=columns, use_threads=False):
            yield from batch.to_pylist()


@contextlib.contextmanager
def _reading(path: str, damaged: str = 'expected a Parquet file, got another or a damaged one: {}') -> Iterator[Any]:
    """The library that reads a file within the block; an error that it raises becomes a CorpusError."""
    library = arrow(path)
    try:
        yield library
    except (OSError, library.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from None
        raise CorpusError(path, None, damaged.format(error)) from None


def id_type(shard: Shard, fields: Fields) -> Any:
    """The type that ids have in Parquet: that of a column of whole numbers, otherwise text."""
    if shard.kind == PARQUET:
        with _reading(shard.source) as library:
            schema = library.parquet.read_schema(shard.source)
        name = fields.id or ID
        if name in schema.names and library.types.is_integer(schema.field(name).type):
            return schema.field(name).type
    return arrow(shard.source).string()


GROUP = 16384                  # rows of a Parquet file that lie together
Record = dict[str, Any]
Write = Callable[[Sequence[Record]], None]


def record_of(row: Row, tagged: Sequence[Sentence], writer: Writer, raw: bool) -> Record:
    """The record of a row: id, text, then tokens, tags, entities and confidences as `infer` writes them in JSON.

    Of raw text "sentences" has places, tokens and tags; its entities, with the index of their sentence, stand together.

    Args:
        row: of the shard.
        tagged: its sentences with their tags.
        writer: of JSON.
        raw: whether sentences were found in the text.
    """
    found = [writer.record(item.predicted(sentence.prediction)) for item, sentence in zip(row.items, tagged)]
    if not raw:
        return {'id': row.id, **found[0]}
    entities = [{**entity, 'sentence': index} for index, one in enumerate(found) for entity in one['entities']]
    sentences = [{name: value for name, value in one.items() if name not in ('text', 'entities')} for one in found]
    return {'id': row.id, 'text': row.text, 'sentences': sentences, 'entities': entities}


@contextlib.contextmanager
def writing(target: str, draft: str, kind: str, raw: bool, confidence: bool, id_type: Any = None) -> Iterator[Write]:
    """A function that writes records to a file, which is there when the block ends without an error.

    Args:
        target: of the file; JSON lines are compressed if its name ends in .gz or .zst.
        draft: the name that it has until then.
        kind: its format.
        raw: whether records hold the sentences of raw texts.
        confidence: whether records hold confidences.
        id_type: of ids in Parquet.
    """
    if kind == PARQUET:
        with _parquet(target, draft, _schema(arrow(target), raw, confidence, id_type)) as write_rows:
            yield write_rows
        return
    with _packed(target, draft) if target.endswith('.zst') else text_writer(target, draft) as write:
        yield lambda records: write(''.join(json.dumps(record, ensure_ascii=False) + '\n' for record in records))


@contextlib.contextmanager
def _opened(target: str, draft: str, opened: Callable[[str], Any]) -> Iterator[Any]:
    """A file that a function opens by its name: `target` when the block ends without an error, `draft` until then."""
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
            raise CorpusError(target, None, 'expected text that Parquet can hold, got half of a pair of surrogates in '
                                            f'the row {wrong!a}; JSON lines can hold it') from None
        if sum(batch.num_rows for batch in waiting) >= GROUP:
            flush()

    with _opened(target, draft, lambda name: library.parquet.ParquetWriter(name, schema, compression='zstd')) as file:
        yield write
        flush()


def _schema(library: Any, raw: bool, confidence: bool, id_type: Any) -> Any:
    """The columns of a Parquet file."""
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
