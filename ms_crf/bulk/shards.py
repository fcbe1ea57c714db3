"""The files of a bulk tagging, its shards: which there are, and what is written for each."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from ms_crf.base.errors import OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import are_many, check_readable, files_of, placed
from ms_crf.formats.registry import FORMATS, JSON, TEXT

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
    packed = next((ending for ending in PACKED if name.endswith(ending)), '')
    return name.removesuffix(packed), packed


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
    jobs = placed({source: _named(name, kind) for source, name in names.items()}, output)
    return [Shard(job.source, os.path.abspath(job.source), names[job.source], os.path.abspath(str(job.target)),
                  str(kind_of(job.source)), os.path.getsize(job.source)) for job in jobs]
