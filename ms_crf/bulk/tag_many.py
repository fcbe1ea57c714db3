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
from ms_crf.bulk.worker import Order
from ms_crf.runs.arguments import CommonArguments
from ms_crf.runs.records import check_output, newest
from ms_crf.runs.run import SavedRun
from ms_crf.text.splitting import CHOICES, check_name

RAY = 'ray'
MOST_WORKERS = 10_000


@dataclass
class TagManyArguments(CommonArguments):
    """What `tag_many` takes."""

    run: str = option(None, 'Input', 'run directory (default: the newest in runs/)', DIR)
    input: list = option(None, 'Input', 'files, folders or patterns like "shards/*.jsonl.zst": JSON lines (.jsonl, '
                         '.json), a text a line (.txt), these also with .gz or .zst, and .parquet', FILE,
                         required=True, several=True)
    id_field: str = option(None, 'Input', 'field or column of the id (default: id where a row has it, otherwise file '
                           'and line)', 'NAME')
    text_field: str = option('text', 'Input', 'field or column of the text', 'NAME')
    tokens_field: str = option('tokens', 'Input', 'field or column of the tokens, taken where a row has both', 'NAME')
    raw: bool = option(False, 'Input', 'find sentences and tokens in each text')
    splitter: str = option(None, 'Input', f'what finds them: {CHOICES} (default: as the model was trained)', 'NAME',
                           needs={'raw': True})
    output: str = option(None, 'Output', 'folder for the tagged files, of the same names', DIR, required=True)
    format: str = option(JSONL, 'Output', 'of the tagged files', choices=(JSONL, PARQUET))
    confidence: bool = option(False, 'Output', 'posteriors of tags, entities and sentences')
    json: str = option(None, 'Output', 'write the summary there', FILE)
    workers: int = option(None, 'Computing', 'processes, each with the model (default: as many as this machine has '
                          'processors)', 'N', least=1, most=MOST_WORKERS)
    engine: str = option(RAY, 'Computing', 'what runs the workers', choices=(RAY,))
    address: str = option(None, 'Computing', "of a cluster that is there, or 'auto' for the cluster that this machine "
                          'belongs to (default: processes of this machine)', 'HOST:PORT')

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        if self.splitter is not None and self.raw:
            check_name(self.splitter, argument('splitter'))
        for name in self.input:
            if '://' in name:
                raise OptionError(f'{argument("input")} must be files that all machines see by their names, got '
                                  f'{brief(name)}')
        if self.json:
            check_output(self.json)


MOST_FAULTS = 10


@dataclass
class WorkerCounts:
    """What one worker has tagged; `peak_bytes` is 0 if the system does not report memory."""

    worker: str                # its machine and process
    lines: int = 0
    peak_bytes: int = 0


@dataclass
class TaggedShards:
    """The result of `tag_many`.

    Attributes:
        run: the model.
        output: folder of the tagged files.
        shards, lines, entities: numbers of what was tagged.
        skipped: number of shards that were tagged before.
        faults: a line for each shard that could not be tagged.
        retries: how often a shard was given to another worker, because its worker died.
        seconds: of the call.
        workers: the workers, by their names.
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
        """The result as JSON has it."""
        return asdict(self)


def tag_many(input: PathLike | Sequence[PathLike], output: PathLike, *, run: PathLike | None = None,
             id_field: str | None = None, text_field: str = 'text', tokens_field: str = 'tokens', raw: bool = False,
             splitter: str | None = None, format: str = JSONL, confidence: bool = False, json: PathLike | None = None,
             workers: int | None = None, engine: str = RAY, address: str | None = None,
             plugin: PathLike | None = None, device: str = 'auto', watcher: Watcher = SILENT) -> TaggedShards:
    """Tags many files: each file is written whole or not at all, and files that are in the output already stay.

    Args:
        input: files, folders or patterns: JSON lines, a text a line, or Parquet.
        output: folder for the tagged files, of the same names.
        run: run directory; by default the newest in runs/.
        id_field: field or column of the id; by default id where a row has it, otherwise file and line.
        text_field, tokens_field: fields or columns of the text and of the tokens.
        raw: whether to find sentences and tokens in each text.
        splitter: what finds them; by default as the model was trained.
        format: 'jsonl' or 'parquet'.
        confidence: whether to write posteriors of tags, entities and sentences.
        json: file for the result.
        workers: number of processes; by default as many as this machine has processors.
        engine: 'ray'.
        address: HOST:PORT of a Ray cluster, or 'auto'; by default processes of this machine.
        plugin: Python file that registers kinds of model.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: is told faults of shards, and how many shards are done.

    Returns:
        Counts of what was tagged, faults, retries, seconds and workers.

    Raises:
        OptionError: an argument can't be, or a library is missing.
        CorpusError: a file has a fault.
        KeyboardInterrupt: after an interruption, when all workers have ended; the same call continues.

    Example:
        >>> from ms_crf.api import tag_many
        >>> tag_many('shards/*.jsonl', 'tagged', run='runs/sample', workers=2).lines  # doctest: +SKIP
    """
    inputs = [input] if isinstance(input, (str, os.PathLike)) else input
    return _tag_many(TagManyArguments.from_call({**locals(), 'input': [os.fspath(name) for name in inputs]}), watcher)


def _tag_many(given: TagManyArguments, watcher: Watcher) -> TaggedShards:
    began = time.monotonic()
    shards = shards_of(given.input, given.output, given.format)
    if given.json:
        check_writable(given.json, *(path for shard in shards for path in (shard.source, shard.target)))
    order = _order(given)
    if any(shard.needs_arrow for shard in shards):
        arrow('Parquet and .zst')
    result = TaggedShards(order.run, given.output)
    waiting = _untagged(shards)
    if given.address is not None and waiting:
        ray_engine.check_address(given.address)
    try:
        with locked(given.output, order.made_with(), shards):
            waiting = _untagged(shards)          # before the lock, another process may have written some
            result.skipped = len(shards) - len(waiting)
            if waiting:
                _tag(given, order, waiting, result, watcher)
    except KeyboardInterrupt:
        watcher.warn(f'stopped; {len(shards) - len(_untagged(shards)):,} of {len(shards):,} shards are done; the same '
                     'command goes on')
        raise
    result.seconds = round(time.monotonic() - began, 3)
    if given.json:
        write_json(given.json, result.to_json())
    return result


def _untagged(shards: Sequence[Shard]) -> list[Shard]:
    return [shard for shard in shards if not os.path.isfile(shard.target)]


def _order(given: TagManyArguments) -> Order:
    """What workers are to do."""
    run = os.path.abspath(given.run or newest('runs'))
    return Order(run, SavedRun.open(run).digest, Fields(given.id_field, given.text_field, given.tokens_field),
                 given.format, given.raw, given.confidence, given.splitter, given.device,
                 given.plugin and os.path.abspath(given.plugin))


def _tag(given: TagManyArguments, order: Order, waiting: list[Shard], result: TaggedShards, watcher: Watcher) -> None:
    """Tags shards, and counts them in the result."""
    count = min(given.workers or os.cpu_count() or 1, len(waiting))
    counts: dict[str, WorkerCounts] = {}
    stop = ray_engine.Stop()
    with (watcher.progress('', len(waiting), 'shards') as progress,
          ray_engine.running(stop, given.address, count, given.device) as ray):
        pool = ray_engine.Pool(ray, stop, order, count, watcher.say)
        for done in pool.tag(waiting):
            if done is None:
                progress(0)                      # shows that time passes
                continue
            result.retries = pool.retries
            if done.worker:
                one = counts.setdefault(done.worker, WorkerCounts(done.worker))
                one.lines += done.lines
                one.peak_bytes = max(one.peak_bytes, done.peak)
            if done.fault is None:
                result.shards += 1
                result.lines += done.lines
                result.entities += done.entities
            else:
                result.faults.append(done.fault)
                if len(result.faults) >= MOST_FAULTS:
                    raise OptionError(f'{done.fault}; this is the {MOST_FAULTS}th shard with a fault, the others are '
                                      'left')
                watcher.warn(done.fault)
            progress(1)
    result.workers = [one for _, one in sorted(counts.items())]
