"""The records that are written for tagged rows, as JSON lines or Parquet, a file whole or not at all."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import faults_named, text_writer, whole
from ms_crf.bulk.rows import Row, arrow
from ms_crf.bulk.shards import PARQUET
from ms_crf.render.tagged import Writer
from ms_crf.text.sentence import Sentence

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
