"""The function `tag_many`, which tags many files with several processes or machines, and its arguments."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ms_crf.base.arguments import DIR, FILE, option
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.base.files import PathLike, check_writable, write_json
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.bulk import engine as ray_engine
from ms_crf.bulk.rows import Fields, arrow
from ms_crf.bulk.shards import JSONL, PARQUET, Shard, locked, shards_of
from ms_crf.bulk.worker import WorkerSettings
from ms_crf.runs.arguments import CommonArguments
from ms_crf.runs.records import check_output, newest
from ms_crf.runs.run import SavedRun
from ms_crf.text.splitting import CHOICES, check_name

RAY = 'ray'
MOST_WORKERS = 10_000


@dataclass
class TagManyArguments(CommonArguments):
    """Arguments of `tag_many`."""

    run: str = option(None, 'Input', 'run directory (default: the newest in runs/)', DIR)
    input: list = option(None, 'Input', 'files, folders or patterns like "shards/*.jsonl.zst": JSON lines (.jsonl, '
                         '.json) or one text per line (.txt), also with .gz or .zst, and Parquet (.parquet)', FILE,
                         required=True, several=True)
    id_field: str = option(None, 'Input', 'field or column of the id (default: the field id; rows without an id get '
                           'file and line)', 'NAME')
    text_field: str = option('text', 'Input', 'field or column of the text', 'NAME')
    tokens_field: str = option('tokens', 'Input', 'field or column of the tokens; used if a row has tokens and text',
                               'NAME')
    raw: bool = option(False, 'Input', 'split raw text into sentences and tokens')
    splitter: str = option(None, 'Input', f'splitter for raw text: {CHOICES} (default: the splitter of the model)',
                           'NAME', needs={'raw': True})
    output: str = option(None, 'Output', 'folder for the tagged files, which keep their names', DIR, required=True)
    format: str = option(JSONL, 'Output', 'format of the tagged files', choices=(JSONL, PARQUET))
    confidence: bool = option(False, 'Output', 'write posteriors of tags, entities and sentences')
    json: str = option(None, 'Output', 'file for the summary', FILE)
    workers: int = option(None, 'Computing', 'number of processes, each with its own copy of the model (default: the '
                          'number of processors)', 'N', least=1, most=MOST_WORKERS)
    engine: str = option(RAY, 'Computing', 'library that runs the workers', choices=(RAY,))
    address: str = option(None, 'Computing', "address of a running cluster, or 'auto' for the cluster of this machine "
                          '(default: start processes on this machine)', 'HOST:PORT')

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        if self.splitter is not None and self.raw:
            check_name(self.splitter, argument('splitter'))
        for name in self.input:
            if '://' in name:
                raise OptionError(f'{argument("input")} must be file names that are valid on all machines, got '
                                  f'{brief(name)}')
        if self.json:
            check_output(self.json)


MOST_FAULTS = 10


@dataclass
class WorkerCounts:
    """Counts of one worker; `peak_bytes` is 0 if the system does not report memory."""

    worker: str                # host and process id
    lines: int = 0
    peak_bytes: int = 0


@dataclass
class TaggedShards:
    """The result of `tag_many`.

    Attributes:
        run: path of the run.
        output: folder of the tagged files.
        shards, lines, entities: numbers of tagged shards, lines and entities.
        skipped: number of shards that were already in the output folder.
        faults: one message for each shard that could not be tagged.
        retries: number of times that a shard went to another worker because its worker died.
        seconds: duration of the call.
        workers: counts of each worker, sorted by name.
    """

    run: str
    output: str
    shards: int = 0
    lines: int = 0
    entities: int = 0
    skipped: int = 0
    faults: list[str] = field(default_factory=list)
    retries: int = 0
    seconds: float = 0.0
    workers: list[WorkerCounts] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the result as a dict for JSON."""
        return asdict(self)


def tag_many(input: PathLike | Sequence[PathLike], output: PathLike, *, run: PathLike | None = None,
             id_field: str | None = None, text_field: str = 'text', tokens_field: str = 'tokens', raw: bool = False,
             splitter: str | None = None, format: str = JSONL, confidence: bool = False, json: PathLike | None = None,
             workers: int | None = None, engine: str = RAY, address: str | None = None,
             plugin: PathLike | None = None, device: str = 'auto', watcher: Watcher = SILENT) -> TaggedShards:
    """Tags many files in parallel. Files are written completely or not at all; existing output files are skipped.

    Args:
        input: files, folders or patterns: JSON lines, text with one text per line, or Parquet.
        output: folder for the tagged files, which keep their names.
        run: run directory; by default the newest in runs/.
        id_field: field or column of the id; by default the field "id", or file and line for rows without an id.
        text_field, tokens_field: fields or columns of the text and of the tokens.
        raw: whether to split raw text into sentences and tokens.
        splitter: splitter for raw text; by default the splitter of the model.
        format: output format, 'jsonl' or 'parquet'.
        confidence: whether to write posteriors of tags, entities and sentences.
        json: file for the result.
        workers: number of processes; by default the number of processors.
        engine: 'ray'.
        address: HOST:PORT of a Ray cluster, or 'auto'; by default processes are started on this machine.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives errors of shards, and the progress in shards.

    Returns:
        Numbers of shards, lines and entities, faults, retries, seconds and workers.

    Raises:
        OptionError: an argument is invalid, or a library is missing.
        CorpusError: a file is invalid.
        KeyboardInterrupt: the call was interrupted; all workers have ended. The same call continues.

    Example:
        >>> from ms_crf.api import tag_many
        >>> tag_many('shards/*.jsonl', 'tagged', run='runs/sample', workers=2).lines  # doctest: +SKIP
    """
    inputs = [input] if isinstance(input, (str, os.PathLike)) else input
    return _tag_many(TagManyArguments.from_call({**locals(), 'input': [os.fspath(name) for name in inputs]}), watcher)


def _tag_many(arguments: TagManyArguments, watcher: Watcher) -> TaggedShards:
    began = time.monotonic()
    shards = shards_of(arguments.input, arguments.output, arguments.format)
    if arguments.json:
        check_writable(arguments.json, *(path for shard in shards for path in (shard.source, shard.target)))
    settings = _worker_settings(arguments)
    if any(shard.needs_arrow for shard in shards):
        arrow('Parquet and .zst')
    result = TaggedShards(settings.run, arguments.output)
    waiting = _untagged(shards)
    if arguments.address is not None and waiting:
        ray_engine.check_address(arguments.address)
    try:
        with locked(arguments.output, settings.output_settings(), shards):
            waiting = _untagged(shards)          # another process may have written files before the lock
            result.skipped = len(shards) - len(waiting)
            if waiting:
                _tag(arguments, settings, waiting, result, watcher)
    except KeyboardInterrupt:
        watcher.warn(f'stopped; {len(shards) - len(_untagged(shards)):,} of {len(shards):,} shards are done; run the '
                     'same command again to continue')
        raise
    result.seconds = round(time.monotonic() - began, 3)
    if arguments.json:
        write_json(arguments.json, result.to_json())
    return result


def _untagged(shards: Sequence[Shard]) -> list[Shard]:
    return [shard for shard in shards if not os.path.isfile(shard.target)]


def _worker_settings(arguments: TagManyArguments) -> WorkerSettings:
    run = os.path.abspath(arguments.run or newest('runs'))
    fields = Fields(arguments.id_field, arguments.text_field, arguments.tokens_field)
    return WorkerSettings(run, SavedRun.open(run).digest, fields, arguments.format, arguments.raw, arguments.confidence,
                          arguments.splitter, arguments.device, arguments.plugin and os.path.abspath(arguments.plugin))


def _tag(arguments: TagManyArguments, settings: WorkerSettings, waiting: list[Shard], result: TaggedShards,
         watcher: Watcher) -> None:
    """Tags shards and adds their counts to `result`."""
    count = min(arguments.workers or os.cpu_count() or 1, len(waiting))
    counts: dict[str, WorkerCounts] = {}
    stop = ray_engine.Stop()
    with (watcher.progress('', len(waiting), 'shards') as progress,
          ray_engine.ray_session(stop, arguments.address, count, arguments.device) as ray):
        pool = ray_engine.WorkerPool(ray, stop, settings, count, watcher.say)
        for outcome in pool.tag(waiting):
            if outcome is None:
                progress(0)                      # updates the elapsed time
                continue
            result.retries = pool.retries
            if outcome.worker:
                worker = counts.setdefault(outcome.worker, WorkerCounts(outcome.worker))
                worker.lines += outcome.lines
                worker.peak_bytes = max(worker.peak_bytes, outcome.peak)
            if outcome.fault is None:
                result.shards += 1
                result.lines += outcome.lines
                result.entities += outcome.entities
            else:
                result.faults.append(outcome.fault)
                if len(result.faults) >= MOST_FAULTS:
                    raise OptionError(f'{outcome.fault}; stopped after {MOST_FAULTS} invalid shards')
                watcher.warn(outcome.fault)
            progress(1)
    result.workers = [worker for _, worker in sorted(counts.items())]
