"""The worker of `tag-many`: it loads the model once and then tags shards, each in constant memory."""

import itertools
import os
import socket
import sys
from typing import Any, NamedTuple

from ms_crf.base.environment import VERSION
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.bulk import rows
from ms_crf.bulk.rows import Fields, ShardRow
from ms_crf.bulk.shards import PARQUET, Shard
from ms_crf.formats.lines import chunks
from ms_crf.formats.registry import JSON
from ms_crf.models.base import SentenceError
from ms_crf.models.opening import device_for, run_plugin
from ms_crf.render.tagged import Writer
from ms_crf.runs.run import SavedRun
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.splitting import splitter_named


class WorkerSettings(NamedTuple):
    """The settings of all workers; paths are absolute.

    Attributes:
        run: path of the run.
        model: digest of the model, which each worker compares with its own model.
        fields: names of the input fields.
        kind: output format, 'jsonl' or 'parquet'.
        raw: whether texts are raw text.
        confidence: whether to write confidences.
        splitter: name of the splitter for raw text; None for the splitter of the model.
        device: device of the model.
        plugin: Python file that registers model types.
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

    def output_settings(self) -> dict[str, Any]:
        """Returns the settings that determine the content of the output files, for the record of the folder."""
        return {'model': self.model, 'format': self.kind, 'confidence': self.confidence, 'raw': self.raw,
                'splitter': self.splitter,
                **{f'{name} field': value for name, value in self.fields._asdict().items()}}


class LoadResult(NamedTuple):
    """The answer of a worker after loading the model."""

    fault: str | None          # message if loading failed, otherwise None
    version: str               # version of ms_crf
    model: str                 # digest of the model


class ShardResult(NamedTuple):
    """The answer of a worker after tagging a shard."""

    fault: str | None          # message if tagging failed, otherwise None
    lines: int = 0
    entities: int = 0
    worker: str = ''           # host and process id of the worker
    peak: int = 0              # peak memory of the worker so far, in bytes; 0 if the system does not report it


class Worker:
    """Tags shards; runs in its own process.

    Args:
        settings: the settings of all workers.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings

    def begin(self) -> LoadResult:
        """Loads the model."""
        settings = self.settings
        try:
            if settings.plugin:
                run_plugin(settings.plugin)
            run = SavedRun.open(settings.run)
            device_for(settings.device, run)
            self.tagger = Tagger.load(run)
            self.tagger.check(settings.confidence, 0)
            self.splitter = splitter_named(settings.splitter or self.tagger.splitter) if settings.raw else None
            self.writer = Writer(JSON, self.tagger.scheme, self.tagger.tags)
            return LoadResult(None, VERSION, run.digest)
        except (OptionError, CorpusError) as error:
            return LoadResult(getattr(error, 'message', str(error)), VERSION, '')

    def tag(self, shard: Shard, draft: str) -> ShardResult:
        """Tags a shard and writes its output file. If tagging fails, no file is written.

        Args:
            shard: the shard.
            draft: name of the output file until it is complete.
        """
        settings, lines, entities, fault = self.settings, 0, 0, None
        try:
            id_type = rows.id_type(shard, settings.fields) if settings.kind == PARQUET else None
            shard_rows = rows.rows(shard, settings.fields, self.tagger.of_characters, self.splitter)
            with rows.writing(shard.target, draft, settings.kind, settings.raw, settings.confidence, id_type) as write:
                for chunk in chunks(shard_rows, lambda row: sum(len(item.tokens) for item in row.items)):
                    tagged = self._tagged(shard, chunk)
                    write(tagged)
                    lines += len(tagged)
                    entities += sum(len(record['entities']) for record in tagged)
        except (CorpusError, OptionError) as error:
            fault = str(error).replace(shard.source, shard.shown, 1)             # the name that the user gave
        except MemoryError:
            fault = f'{shard.shown}: not enough memory; use fewer workers or a smaller model'
        return ShardResult(fault, lines, entities, f'{socket.gethostname()}:{os.getpid()}', _peak())

    def _tagged(self, shard: Shard, chunk: list[ShardRow]) -> list[rows.Record]:
        """Tags the sentences of several rows together and returns the records of the rows."""
        items = [item for row in chunk for item in row.items]
        try:
            tagged = iter(self.tagger.tag([item.tokens for item in items], self.settings.confidence))
        except SentenceError as error:
            raise CorpusError(shard.source, items[error.index].line, error.reason) from None
        return [rows.record_of(row, list(itertools.islice(tagged, len(row.items))), self.writer, self.settings.raw)
                for row in chunk]


def _peak() -> int:
    """Returns the peak memory of this process in bytes; 0 on Windows."""
    try:
        import resource
    except ImportError:          # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024)
