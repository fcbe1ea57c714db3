"""Rows of shards: reads ids, texts and tokens from JSON lines, Parquet or text; writes records of tagged rows."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError, brief, not_installed
from ms_crf.base.files import faults_named, text_writer, whole
from ms_crf.bulk.shards import JSONL, PARQUET, Shard
from ms_crf.formats.json_lines import json_object
from ms_crf.formats.lines import byte_lines, cut, decode, unreadable
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

    line: int                  # its number, from 1
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
    make = _Maker(shard, fields, characters, splitter)
    if shard.kind == PARQUET:
        for number, record in enumerate(_of_parquet(shard.source, fields), 1):
            yield make.row(number, record)
        return
    for number, line in enumerate(_lines(shard.source), 1):
        text = decode(shard.source, number, line)
        if shard.kind != JSONL:
            yield make.row(number, {fields.text: text}, True)
        elif text.strip(BLANKS):
            yield make.row(number, json_object(shard.source, number, text))


class _Maker:
    """Makes rows of records; the arguments are those of `rows`."""

    def __init__(self, shard: Shard, fields: Fields, characters: bool, splitter: Splitter | None) -> None:
        self.shard, self.fields, self.characters, self.splitter = shard, fields, characters, splitter

    def row(self, line: int, record: Mapping[str, Any], by_place: bool = False) -> Row:
        """The row of a record; `by_place` if its id is file and line."""
        text, tokens = record.get(self.fields.text), record.get(self.fields.tokens)
        name = f'{self.shard.name}:{line}' if by_place else self._id(line, record)
        if text is not None and not isinstance(text, str):
            raise self._fault(line, f'expected "{self.fields.text}" to be text, got {brief(text)}')
        if self.splitter is not None:
            if text is None:
                raise self._fault(line, f'expected "{self.fields.text}", a string, got none')
            found = self.splitter.split(text)
            for sentence in found:
                sentence.line = line
            return Row(line, name, text, found)
        if tokens is not None:
            if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
                raise self._fault(line, f'expected "{self.fields.tokens}" to be a list of strings that are not empty, '
                                        f'got {_json(tokens)}')
            item = sentence_of_tokens(tokens, text, line=line)
        elif text is not None:
            item = sentence_of_text(text, self.characters, line=line)
        else:
            raise self._fault(line, f'expected "{self.fields.tokens}", a list of strings, or "{self.fields.text}", '
                                    'a string, got neither')
        return Row(line, name, item.text, [item])

    def _id(self, line: int, record: Mapping[str, Any]) -> str | int:
        field = self.fields.id or ID
        if field not in record and self.fields.id is None:
            return f'{self.shard.name}:{line}'
        value = record.get(field)
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self._fault(line, f'expected "{field}", the id, to be text or a whole number, got '
                                    f'{_json(value) if field in record else "none"}')
        return value

    def _fault(self, line: int, message: str) -> CorpusError:
        return CorpusError(self.shard.source, line, message)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)[:40]


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a text file, also compressed."""
    if not path.endswith('.zst'):
        yield from byte_lines(path)
        return
    import io
    try:
        with arrow(path).input_stream(path, compression='zstd') as file:
            for line in io.BufferedReader(file):
                yield from cut(line)
    except OSError as error:
        if error.errno is not None:
            raise unreadable(path, error) from None
        raise CorpusError(path, None, 'expected a zstd file, got a damaged one; fetch it again') from None


def _of_parquet(path: str, fields: Fields) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file as dicts of the columns that count."""
    library = arrow(path)
    try:
        with library.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            wanted = {fields.id or ID, fields.text, fields.tokens}
            columns = [name for name in file.schema_arrow.names if name in wanted]
            for batch in file.iter_batches(BATCH, columns=columns, use_threads=False):
                yield from _dicts(columns, batch)
    except OSError as error:
        if error.errno is not None:
            raise unreadable(path, error) from None
        raise _damaged(path, error) from None
    except library.ArrowException as error:
        raise _damaged(path, error) from None


def _dicts(columns: Iterable[str], batch: Any) -> Iterator[dict[str, Any]]:
    values = {name: batch.column(name).to_pylist() for name in columns}
    for index in range(batch.num_rows):
        yield {name: column[index] for name, column in values.items()}


def _damaged(path: str, error: Exception) -> CorpusError:
    return CorpusError(path, None, f'expected a Parquet file, got another or a damaged one: {error}')


def id_type(shard: Shard, fields: Fields) -> Any:
    """The type that ids have in Parquet: that of a column of whole numbers, otherwise text."""
    library = arrow(shard.source)
    if shard.kind == PARQUET:
        try:
            schema = library.parquet.read_schema(shard.source)
        except (OSError, library.ArrowException) as error:
            raise _damaged(shard.source, error) from None
        name = fields.id or ID
        if name in schema.names and library.types.is_integer(schema.field(name).type):
            return schema.field(name).type
    return library.string()


GROUP = 16384                  # rows of a Parquet file that lie together
Record = dict[str, Any]
Write = Callable[[Sequence[Record]], None]


class Made(NamedTuple):
    """What the records hold: the sentences of raw texts, and confidences."""

    raw: bool
    confidence: bool


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
def writing(target: str, draft: str, kind: str, made: Made, id_type: Any = None) -> Iterator[Write]:
    """A function that writes records to a file, which is there when the block ends without an error.

    Args:
        target: of the file; JSON lines are compressed if its name ends in .gz or .zst.
        draft: the name that it has until then.
        kind: its format.
        made: what the records hold.
        id_type: of ids in Parquet.
    """
    if kind == PARQUET:
        with _parquet(target, draft, made, id_type) as write_rows:
            yield write_rows
        return
    with _packed(target, draft) if target.endswith('.zst') else text_writer(target, draft) as write:

        def write_lines(records: Sequence[Record]) -> None:
            write(''.join(json.dumps(record, ensure_ascii=False) + '\n' for record in records))

        yield write_lines


@contextlib.contextmanager
def _packed(target: str, draft: str) -> Iterator[Callable[[str], None]]:
    library = arrow(target)
    with whole(target, draft) as name, contextlib.ExitStack() as stack:
        with faults_named(target):
            file = stack.enter_context(library.CompressedOutputStream(name, 'zstd'))

        def write(text: str) -> None:
            with faults_named(target):
                file.write(text.encode('utf-8', 'backslashreplace'))

        yield write
        with faults_named(target):
            file.close()


@contextlib.contextmanager
def _parquet(target: str, draft: str, made: Made, id_type: Any) -> Iterator[Write]:
    library = arrow(target)
    schema = _schema(library, made, id_type)
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
            wrong = next(record['id'] for record in records if not _encodes(record))
            raise CorpusError(target, None, 'expected text that Parquet can hold, got half of a pair of surrogates in '
                                            f'the row {wrong!a}; JSON lines can hold it') from None
        if sum(batch.num_rows for batch in waiting) >= GROUP:
            flush()

    with whole(target, draft) as name, contextlib.ExitStack() as stack:
        with faults_named(target):
            file = stack.enter_context(library.parquet.ParquetWriter(name, schema, compression='zstd'))
        yield write
        flush()
        with faults_named(target):
            file.close()


def _encodes(record: Record) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _schema(library: Any, made: Made, id_type: Any) -> Any:
    """The columns of a Parquet file."""
    text, number, real = library.string(), library.int32(), library.float64()
    entity = {'type': text, 'text': text, 'first': number, 'last': number, 'start': number, 'end': number}
    tagged = {'tokens': library.list_(text), 'tags': library.list_(text)}
    certain = {'confidences': library.list_(real), 'confidence': real}
    if made.confidence:
        tagged |= certain
        entity['confidence'] = real
    if made.raw:
        offsets = library.list_(library.list_(number))
        sentence = {'start': number, 'end': number, 'offsets': offsets, **tagged}
        tagged = {'sentences': library.list_(library.struct(list(sentence.items())))}
        entity['sentence'] = number
    entities = library.list_(library.struct(list(entity.items())))
    return library.schema([('id', id_type), ('text', text), *tagged.items(), ('entities', entities)])
