"""The files of a bulk tagging, its shards, and the folder that it writes to: lock, record, drafts that were left."""

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
_EXPECTED = 'shards whose names end in .jsonl, .json or .txt, also with .gz or .zst behind it, or in .parquet'


class Shard(NamedTuple):
    """A file to read and the file to write."""

    shown: str                 # the file to read as it was named, for messages
    source: str                # the same, absolute
    name: str                  # its path below the folder of the input, for ids
    target: str                # absolute
    kind: str                  # 'jsonl', 'parquet' or 'txt'
    size: int                  # of the source, in bytes

    @property
    def needs_arrow(self) -> bool:
        """Whether it takes pyarrow to read or write it."""
        return self.source.endswith('.zst') or PARQUET in (self.kind, kind_of(self.target))


def _unpacked(name: str) -> tuple[str, str]:
    """A name without its ending that says how the file is compressed, and this ending."""
    return os.path.splitext(name) if name.endswith(PACKED) else (name, '')


def kind_of(name: str) -> str | None:
    """The format of a file by the ending of its name; None for any other ending."""
    plain, packed = _unpacked(name)
    kind = _KINDS.get(os.path.splitext(plain)[1])
    return None if packed and kind == PARQUET else kind


def _named(name: str, kind: str) -> str:
    """The name of what is written for a file: its own where that says this format, otherwise a longer one."""
    plain, packed = _unpacked(name)
    ending = '' if kind_of(plain) == kind else f'.{kind}'
    return plain + ending + (packed if kind == JSONL else '')


def shards_of(inputs: Iterable[str], output: PathLike, kind: str) -> list[Shard]:
    """The shards that files, folders and patterns stand for, in the order of their names within each.

    Args:
        inputs: names; a file that several of them stand for is read once.
        output: the folder to write to; it need not be there.
        kind: the format that is written, 'jsonl' or 'parquet'.

    Raises:
        CorpusError: there is no such file.
        OptionError: a file is of no known format, or outputs can't be told from each other or from the inputs.
    """
    names: dict[str, str] = {}                   # paths below the folder of the input, by source
    seen: set[str] = set()
    for given in inputs:
        base, found = files_of(given) if are_many(given) else (os.path.dirname(given) or os.curdir, [given])
        for source in found:
            check_readable(source)
            if kind_of(source) is None:
                raise OptionError(f'expected {_EXPECTED}, got {source}; name them by a pattern')
            if os.path.realpath(source) not in seen:
                seen.add(os.path.realpath(source))
                names[source] = os.path.relpath(source, base)
    jobs = pair_files({source: _named(name, kind) for source, name in names.items()}, output)
    return [Shard(job.source, os.path.abspath(job.source), names[job.source], os.path.abspath(str(job.target)),
                  str(kind_of(job.source)), os.path.getsize(job.source)) for job in jobs]


RECORD, LOCK = '.tag-many.json', '.tag-many.lock'
_DRAFT = '.draft'


def draft_of(shard: Shard, attempt: str) -> str:
    """The hidden name of the file of a shard until it is whole.

    Args:
        shard: which.
        attempt: is never the same, so that a worker that was given up and goes on all the same harms no other.
    """
    folder, name = os.path.split(shard.target)
    return os.path.join(folder, os.fsdecode(os.fsencode(f'.{attempt}.{name}')[:200]) + _DRAFT)


@contextlib.contextmanager
def locked(folder: str, made_with: Mapping[str, Any], shards: Iterable[Shard]) -> Iterator[None]:
    """Locks the folder of a bulk tagging within the block; drafts that a killed command has left there are removed.

    Args:
        folder: is made if it is not there, as are the folders of the shards.
        made_with: what its files are made with; a folder that was begun with anything else is refused.
        shards: that the folder will have.

    Raises:
        CorpusError: the folder can't be written to, or another process writes there.
        OptionError: it was begun with another model or other options.
    """
    with files.faults_named(folder, ''):
        os.makedirs(folder, exist_ok=True)
    lock, record = Lock(folder, LOCK, 'a tagging'), os.path.join(folder, RECORD)
    try:
        if not os.path.lexists(record):
            files.write_json(record, made_with)
        else:
            _check_record(folder, read_json(record, 'ms-crf tag-many'), made_with)
        for target in sorted({os.path.dirname(shard.target) for shard in shards}):
            with files.faults_named(target, ''):
                os.makedirs(target, exist_ok=True)
            for draft in glob.glob(os.path.join(glob.escape(target), f'.*{_DRAFT}')):
                remove(draft)
        yield
    finally:
        remove(os.path.join(folder, LOCK))
        lock.release()


def _check_record(folder: str, before: object, made_with: Mapping[str, Any]) -> None:
    record = before if isinstance(before, dict) else {}
    for name, value in made_with.items():
        if record.get(name) != value:
            what = 'another model' if name == 'model' else f'{name} {brief(record.get(name))}, not {brief(value)}'
            raise OptionError(f'{argument("output")} {folder} was begun with {what}; name another folder')
