"""What a worker does: it loads the model once, and tags one shard after the other, piece by piece."""

import itertools
import os
import socket
import sys
from typing import Any, NamedTuple

from ms_crf.base.environment import VERSION
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.bulk import rows
from ms_crf.bulk.rows import Fields, Row
from ms_crf.bulk.shards import PARQUET, Shard
from ms_crf.formats.lines import chunks
from ms_crf.formats.registry import JSON
from ms_crf.models.base import SentenceError
from ms_crf.models.opening import device_for, run_plugin
from ms_crf.render.tagged import Writer
from ms_crf.runs.run import SavedRun
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.splitting import splitter_named


class Order(NamedTuple):
    """What all workers are to do; paths are absolute.

    Attributes:
        model: the digest that the model must have for each worker.
        splitter: the name of what finds sentences in raw text; None for the splitter of the model.
    """

    run: str
    model: str
    fields: Fields
    kind: str
    raw: bool = False
    confidence: bool = False
    splitter: str | None = None
    device: str = 'auto'
    plugin: str | None = None

    def made_with(self) -> dict[str, Any]:
        """What decides on the content of the files that are written."""
        return {'model': self.model, 'format': self.kind, 'confidence': self.confidence, 'raw': self.raw,
                'splitter': self.splitter,
                **{f'{name} field': value for name, value in self.fields._asdict().items()}}


class Began(NamedTuple):
    """What a worker says once it has its model: what is wrong, or None; and what it has."""

    fault: str | None
    version: str
    model: str


class Done(NamedTuple):
    """What a worker says of a shard: what is wrong with it, or None; and what it has cost."""

    fault: str | None
    lines: int = 0
    entities: int = 0
    worker: str = ''           # its machine and process
    peak: int = 0              # bytes of memory that the worker has had at most so far; 0 if the system does not say


class Worker:
    """Tags shards; lives in a process of its own.

    Args:
        order: what is to be done.
    """

    def __init__(self, order: Order) -> None:
        self.order = order

    def begin(self) -> Began:
        """Loads the model."""
        order = self.order
        try:
            if order.plugin:
                run_plugin(order.plugin)
            run = SavedRun.open(order.run)
            device_for(order.device, run)
            self.tagger = Tagger.load(run)
            self.tagger.check(order.confidence, 0)
            self.splitter = splitter_named(order.splitter or self.tagger.splitter) if order.raw else None
            self.writer = Writer(JSON, self.tagger.scheme, self.tagger.tags)
            return Began(None, VERSION, run.digest)
        except (OptionError, CorpusError) as error:
            return Began(getattr(error, 'message', str(error)), VERSION, '')

    def tag(self, shard: Shard, draft: str) -> Done:
        """Tags a shard, whose file is there afterwards unless something is wrong.

        Args:
            shard: which.
            draft: the name of the file until it is whole.
        """
        order, lines, entities, fault = self.order, 0, 0, None
        try:
            id_type = rows.id_type(shard, order.fields) if order.kind == PARQUET else None
            found = rows.rows(shard, order.fields, self.tagger.of_characters, self.splitter)
            with rows.writing(shard.target, draft, order.kind, order.raw, order.confidence, id_type) as write:
                for chunk in chunks(found, lambda row: sum(len(item.tokens) for item in row.items)):
                    tagged = self._tagged(shard, chunk)
                    write(tagged)
                    lines += len(tagged)
                    entities += sum(len(record['entities']) for record in tagged)
        except (CorpusError, OptionError) as error:
            fault = str(error).replace(shard.source, shard.shown, 1)             # as the user has named it
        except MemoryError:
            fault = f'{shard.shown}: not enough memory; use fewer workers or a smaller model'
        return Done(fault, lines, entities, f'{socket.gethostname()}:{os.getpid()}', _peak())

    def _tagged(self, shard: Shard, chunk: list[Row]) -> list[rows.Record]:
        """The records of some rows, whose sentences are tagged together."""
        items = [item for row in chunk for item in row.items]
        try:
            tagged = iter(self.tagger.tag([item.tokens for item in items], self.order.confidence))
        except SentenceError as error:
            raise CorpusError(shard.source, items[error.index].line, error.reason) from None
        return [rows.record_of(row, list(itertools.islice(tagged, len(row.items))), self.writer, self.order.raw)
                for row in chunk]


def _peak() -> int:
    try:
        import resource
    except ImportError:          # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024)
