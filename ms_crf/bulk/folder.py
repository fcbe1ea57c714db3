"""The folder that a bulk tagging writes to: its lock, the record of what it is written with, drafts that were left."""

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ms_crf.base import files
from ms_crf.base.errors import OptionError, argument, brief
from ms_crf.base.fields import read_json
from ms_crf.base.files import remove
from ms_crf.bulk.shards import Shard
from ms_crf.runs.directory import Lock

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


class Folder:
    """The folder, locked until `release`.

    Args:
        path: it is made if it is not there.
        made_with: what its files are made with; a folder that was begun with anything else is refused.

    Raises:
        CorpusError: it can't be written to, or another process writes there.
        OptionError: it was begun with another model or other options.
    """

    def __init__(self, path: str, made_with: Mapping[str, Any]) -> None:
        self.path = path
        with files.faults_named(path, ''):
            os.makedirs(path, exist_ok=True)
        self._lock = Lock(path, LOCK, 'a tagging')
        record = os.path.join(path, RECORD)
        if not os.path.lexists(record):
            files.write_json(record, made_with)
            return
        before = read_json(record, 'ms-crf tag-many')
        before = before if isinstance(before, dict) else {}
        for name, value in made_with.items():
            if before.get(name) != value:
                self.release()
                what = 'another model' if name == 'model' else f'{name} {brief(before.get(name))}, not {brief(value)}'
                raise OptionError(f'{argument("output")} {path} was begun with {what}; name another folder')

    def prepare(self, shards: Iterable[Shard]) -> None:
        """Makes the folders of these shards, and removes drafts that a killed command has left there."""
        for folder in sorted({os.path.dirname(shard.target) for shard in shards}):
            with files.faults_named(folder, ''):
                os.makedirs(folder, exist_ok=True)
            for draft in glob.glob(os.path.join(glob.escape(folder), f'.*{_DRAFT}')):
                remove(draft)

    def release(self) -> None:
        remove(os.path.join(self.path, LOCK))
        self._lock.release()
