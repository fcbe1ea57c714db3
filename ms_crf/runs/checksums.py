"""checksums.json of a run directory: what its files may hold, so that a damaged or edited one is noticed.

For each file the record lists the SHA-256 of its contents, and before that the one of its previous contents if there
were any. For config.json it is the SHA-256 not of the bytes but of the parsed contents, without the names of files and
folders, which may be moved. A run without this record, as earlier versions made it, is read unchecked.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ms_crf.base import files
from ms_crf.base.arguments import DIR, FILE
from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import checked, load_record, parse_json, read_json, read_whole
from ms_crf.base.files import PathLike
from ms_crf.runs.options import Options

RECORD, CONFIG = 'checksums.json', 'config.json'
FORMAT = 1
NO_RUN = 'no such file; expected a run made by training'
T = TypeVar('T')
_MOVED = [entry.name for entry in fields(Options) if entry.metadata['metavar'] in (FILE, DIR)]


@dataclass(kw_only=True)
class Checksums:
    """What checksums.json holds: the SHA-256 of each file's contents, and that of this list."""

    format: int = checked(choices=(FORMAT,))
    files: dict[str, list[str]]
    sha256: str


def checksum(paths: Iterable[PathLike]) -> str:
    """SHA-256 of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, 'rb') as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise CorpusError(path, None, f'can not be read: {error.strerror}') from None
    return digest.hexdigest()


def digest_of(path: PathLike, name: str | None = None) -> str:
    """The digest under which the record lists a file; for a draft, `name` is the name of the file that it becomes."""
    path = Path(path)
    if (name or path.name) != CONFIG:
        return checksum([path])
    return digest_of_config(read_json(path, 'training', NO_RUN))


def digest_of_config(record: object) -> str:
    """The digest of the contents of config.json."""
    if isinstance(record, dict):
        record = dict(record)
        for key, moved in (('options', _MOVED), ('encoder', ['folder'])):
            if isinstance(record.get(key), dict):
                record[key] = {name: value for name, value in record[key].items() if name not in moved}
    return digest(record)


def digest(record: object) -> str:
    """SHA-256 of what JSON can say."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(',', ':')).encode()).hexdigest()


def read(folder: PathLike) -> dict[str, list[str]] | None:
    """For each file's name the list of its digests, the latest last; None if there is no record."""
    path = Path(folder) / RECORD
    if not path.exists():
        return None
    says = read_json(path, 'training')
    with contextlib.suppress(ValueError):
        record = load_record(Checksums, says)
        if record.sha256 == digest(record.files):
            return record.files
    raise CorpusError(path, None, f'expected the checksums that training wrote, "format": {FORMAT}, got edited or '
                                  'damaged ones; restore the run, or delete this file to use the others as they are')


def write(folder: PathLike, listed: Mapping[str, list[str]]) -> None:
    """Replaces the record by one that lists these digests by file, as `read` returns them."""
    record = {'format': FORMAT, 'files': listed, 'sha256': digest(listed)}
    path = Path(folder) / RECORD
    files.write_json(path, record, path.with_name(f'.{RECORD}'))


class Verified:
    """The files of a run directory, compared with its record, which is read once.

    A training may replace a file in the meantime. So a record that does not list what a file holds is read again, and
    with it the file.

    Args:
        folder: the run directory.

    Attributes:
        digests: of the files that were read so far, by name.
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self.digests: dict[str, str] = {}

    @cached_property
    def listed(self) -> dict[str, list[str]] | None:
        """What `read` returned last."""
        return read(self.folder)

    def check(self, name: str) -> None:
        """Raises CorpusError unless the record lists what the file holds."""
        while self.listed is not None and not self._lists(name, digest_of(self.folder / name)):
            pass

    def read(self, name: str) -> bytes:
        """The contents of a file; raises CorpusError unless the record lists them."""
        return self._read(name, lambda data: data, lambda data: hashlib.sha256(data).hexdigest())

    def json(self, name: str) -> Any:
        """What a JSON file holds; raises CorpusError unless the record lists it."""
        path = self.folder / name
        if name == CONFIG:
            return self._read(name, lambda data: parse_json(path, data, 'training'), digest_of_config)
        return parse_json(path, self.read(name), 'training')

    def _read(self, name: str, parse: Callable[[bytes], T], digest_of: Callable[[T], str]) -> T:
        while True:
            contents = parse(read_whole(self.folder / name, NO_RUN))
            self.digests[name] = digest_of(contents)
            if self._lists(name, self.digests[name]):
                return contents

    def _lists(self, name: str, digest: str) -> bool:
        """Whether the record lists a digest; False, with the record read again, if the record has changed since."""
        before = self.listed
        if before is None or digest in before.get(name, []):
            return True
        self.listed = read(self.folder)
        if self.listed == before:
            raise CorpusError(self.folder / name, None, 'expected the file that training wrote, got an edited or '
                                                        f'damaged one; restore it, train again, or delete {RECORD} '
                                                        'beside it to use it as it is')
        return False
