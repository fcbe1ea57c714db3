"""Shards (the input files of `tag-many`) and the output folder with its lock, its settings and leftover drafts."""

import contextlib
import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ms_crf.base import files
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.base.fields import read_json
from ms_crf.base.files import PathLike, remove
from ms_crf.formats.lines import are_many, check_readable, files_of, pair_files
from ms_crf.formats.registry import FORMATS, JSON, TEXT
from ms_crf.runs.directory import Lock

JSONL, PARQUET, TXT = 'jsonl', 'parquet', 'txt'
PACKED = ('.gz', '.zst')
_KINDS = {**dict.fromkeys(FORMATS[JSON].endings, JSONL), **dict.fromkeys(FORMATS[TEXT].endings, TXT),
          '.parquet': PARQUET}
_EXPECTED = 'names that end in .jsonl, .json or .txt, with or without .gz or .zst, or in .parquet'


class Shard(NamedTuple):
    """An input file and its output file."""

    shown: str                 # input file as the user named it, for messages
    source: str                # absolute path of the input file
    name: str                  # path of the input file within the input folder, for ids
    target: str                # absolute path of the output file
    kind: str                  # format of the input: 'jsonl', 'parquet' or 'txt'
    size: int                  # size of the input file in bytes

    @property
    def needs_arrow(self) -> bool:
        """Whether reading or writing the shard needs pyarrow."""
        return self.source.endswith('.zst') or PARQUET in (self.kind, kind_of(self.target))


def _unpacked(name: str) -> tuple[str, str]:
    """Splits a file name into the name without .gz or .zst, and this ending ('' if the file is not compressed)."""
    return os.path.splitext(name) if name.endswith(PACKED) else (name, '')


def kind_of(name: str) -> str | None:
    """Returns the format of a file according to the ending of its name; None if the ending is unknown."""
    plain, packed = _unpacked(name)
    kind = _KINDS.get(os.path.splitext(plain)[1])
    return None if packed and kind == PARQUET else kind


def _named(name: str, kind: str) -> str:
    """Returns the name of the output file: the name of the input, with the ending of `kind` appended if it differs."""
    plain, packed = _unpacked(name)
    ending = '' if kind_of(plain) == kind else f'.{kind}'
    return plain + ending + (packed if kind == JSONL else '')


def shards_of(inputs: Iterable[str], output: PathLike, kind: str) -> list[Shard]:
    """Returns the shards for files, folders and patterns. The files of a folder or pattern are sorted by name.

    Args:
        inputs: files, folders and patterns. A file that several inputs match is read once.
        output: folder of the output files; need not exist.
        kind: format of the output files, 'jsonl' or 'parquet'.

    Raises:
        CorpusError: a file does not exist.
        OptionError: the format of a file is unknown, or two outputs, or an output and an input, would be the same file.
    """
    names: dict[str, str] = {}                   # path within the input folder, by source
    seen: set[str] = set()
    for name in inputs:
        base, sources = files_of(name) if are_many(name) else (os.path.dirname(name) or os.curdir, [name])
        for source in sources:
            check_readable(source)
            if kind_of(source) is None:
                raise OptionError(f'expected {_EXPECTED}, got {source}; use a pattern to select files')
            if os.path.realpath(source) not in seen:
                seen.add(os.path.realpath(source))
                names[source] = os.path.relpath(source, base)
    jobs = pair_files({source: _named(name, kind) for source, name in names.items()}, output)
    return [Shard(job.source, os.path.abspath(job.source), names[job.source], os.path.abspath(str(job.target)),
                  str(kind_of(job.source)), os.path.getsize(job.source)) for job in jobs]


RECORD, LOCK = '.tag-many.json', '.tag-many.lock'
_DRAFT = '.draft'


def draft_of(shard: Shard, attempt: str) -> str:
    """Returns the hidden name of an output file until it is complete.

    Args:
        shard: the shard.
        attempt: unique text for each attempt, so that a worker that was given up but still runs cannot disturb a later
            worker.
    """
    folder, name = os.path.split(shard.target)
    return os.path.join(folder, os.fsdecode(os.fsencode(f'.{attempt}.{name}')[:200]) + _DRAFT)


@contextlib.contextmanager
def locked(folder: str, settings: Mapping[str, Any], shards: Iterable[Shard]) -> Iterator[None]:
    """A context that locks the output folder, and removes drafts that a killed command has left in it.

    Args:
        folder: output folder; it and the folders of the shards are created if they are missing.
        settings: the model and options that determine the output. They must be equal to the stored settings of an
            existing folder.
        shards: the shards that will be written.

    Raises:
        CorpusError: the folder is not writable, or another process writes to it.
        OptionError: the folder was started with another model or other options.
    """
    with files.faults_named(folder, ''):
        os.makedirs(folder, exist_ok=True)
    lock, record = Lock(folder, LOCK, 'a tagging'), os.path.join(folder, RECORD)
    try:
        if not os.path.lexists(record):
            files.write_json(record, settings)
        else:
            _check_record(folder, read_json(record, 'ms-crf tag-many'), settings)
        for target in sorted({os.path.dirname(shard.target) for shard in shards}):
            with files.faults_named(target, ''):
                os.makedirs(target, exist_ok=True)
            for draft in glob.glob(os.path.join(glob.escape(target), f'.*{_DRAFT}')):
                remove(draft)
        yield
    finally:
        remove(os.path.join(folder, LOCK))
        lock.release()


def _check_record(folder: str, before: object, settings: Mapping[str, Any]) -> None:
    record = before if isinstance(before, dict) else {}
    for name, value in settings.items():
        if record.get(name) != value:
            what = 'another model' if name == 'model' else f'{name} {brief(record.get(name))}, not {brief(value)}'
            raise OptionError(f'{argument("output")} {folder} was started with {what}; use another folder')
