"""checksums.json of a run directory, by which damaged and edited files are detected.

For each file the record lists the SHA-256 of its contents, preceded by the SHA-256 of its previous contents, if any.
The SHA-256 of config.json is computed from the parsed contents without the paths of files and folders, which may
change. A run without this record, written by an earlier version, is read without checks.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ms_crf.base import files
from ms_crf.base.arguments import DIR, FILE
from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import checked, load_record, parse_json, read_json, read_whole
from ms_crf.base.files import PathLike
from ms_crf.formats.brat import NOTES, TEXT, is_brat
from ms_crf.runs.options import Options

RECORD, CONFIG = 'checksums.json', 'config.json'
FORMAT = 1
NO_RUN = 'no such file; expected a run made by training'
_MOVED = [entry.name for entry in fields(Options) if entry.metadata['metavar'] in (FILE, DIR)]


@dataclass(kw_only=True)
class Checksums:
    """The contents of checksums.json: digests by file, and `sha256`, the digest of this list."""

    format: int = checked(choices=(FORMAT,))
    files: dict[str, list[str]]
    sha256: str


def checksum(paths: Iterable[PathLike]) -> str:
    """Returns the SHA-256 of the concatenated contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, 'rb') as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    return digest.hexdigest()


def file_digest(path: PathLike, name: str | None = None) -> str:
    """Returns the digest of a file for the record; `name` is the final name of the file if `path` is a draft."""
    path = Path(path)
    if (name or path.name) != CONFIG:
        return checksum([path])
    return config_digest(read_json(path, 'training', NO_RUN))


def config_digest(record: object) -> str:
    """Returns the digest of the parsed contents of config.json."""
    if isinstance(record, dict):
        record = dict(record)
        for key, moved in (('options', _MOVED), ('encoder', ['folder'])):
            if isinstance(record.get(key), dict):
                record[key] = {name: value for name, value in record[key].items() if name not in moved}
    return digest(record)


def digest(record: object) -> str:
    """Returns the SHA-256 of a value as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(',', ':')).encode()).hexdigest()


def read(folder: PathLike) -> dict[str, list[str]] | None:
    """Returns the list of digests of each file, the latest last; None if there is no record."""
    path = Path(folder) / RECORD
    if not path.exists():
        return None
    contents = read_json(path, 'training')
    with contextlib.suppress(ValueError):
        record = load_record(Checksums, contents)
        if record.sha256 == digest(record.files):
            return record.files
    raise CorpusError(path, None, f'expected the checksums that training wrote, "format": {FORMAT}, got edited or '
                                  'damaged ones; restore the run, or delete this file to use the run unchecked')


def write(folder: PathLike, listed: Mapping[str, list[str]]) -> None:
    """Replaces the record; `listed` has the form that `read` returns."""
    record = {'format': FORMAT, 'files': listed, 'sha256': digest(listed)}
    path = Path(folder) / RECORD
    files.write_json(path, record, path.with_name(f'.{RECORD}'))


class Verified:
    """Reads files of a run directory and compares them with its record, which is read once.

    A running training may replace a file in between. So if the record does not list the contents of a file, both are
    read again before an error is raised.

    Args:
        folder: the run directory.

    Attributes:
        digests: digests of the files that have been read, by name.
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self.digests: dict[str, str] = {}

    @cached_property
    def listed(self) -> dict[str, list[str]] | None:
        """The digests by file as `read` returned them, or None if there is no record."""
        return read(self.folder)

    def check(self, name: str) -> None:
        """Raises CorpusError if the record does not list the contents of a file."""
        while self.listed is not None and not self._lists(name, file_digest(self.folder / name)):
            pass

    def read(self, name: str) -> bytes:
        """Returns the contents of a file; raises CorpusError if the record does not list them."""
        path = self.folder / name
        while True:
            data = read_whole(path, NO_RUN)
            self.digests[name] = (config_digest(parse_json(path, data, 'training')) if name == CONFIG
                                  else hashlib.sha256(data).hexdigest())
            if self._lists(name, self.digests[name]):
                return data

    def json(self, name: str) -> Any:
        """Returns the parsed contents of a JSON file; raises CorpusError if the record does not list them."""
        return parse_json(self.folder / name, self.read(name), 'training')

    def _lists(self, name: str, digest: str) -> bool:
        """Whether the record lists a digest; False if the record has changed since it was read, and was read again."""
        before = self.listed
        if before is None or digest in before.get(name, []):
            return True
        self.listed = read(self.folder)
        if self.listed == before:
            raise CorpusError(self.folder / name, None, 'expected the file that training wrote, got an edited or '
                                                        f'damaged one; restore it, train again, or delete {RECORD} '
                                                        'to use the run unchecked')
        return False


CORPORA = 'corpus_sha256'      # key in config.json
PARTS = ('train', 'dev', 'test')
CHANGED = 'has changed since the training'


def corpora_digests(options: Options) -> dict[str, str]:
    """Returns the value of `CORPORA` in config.json: the SHA-256 of each corpus; pipes are left out."""
    return {part: digest for part in PARTS
            if (path := getattr(options, part)) and (digest := corpus_digest(path)) is not None}


def corpus_digest(path: PathLike) -> str | None:
    """Returns the SHA-256 of a file, or of all files of a brat corpus; None if a file is missing or not regular."""
    name = os.fspath(path)
    paths = [name]
    if os.path.isdir(name):
        paths = [os.path.join(name, entry) for entry in sorted(os.listdir(name)) if entry.endswith((TEXT, NOTES))]
    elif is_brat(name):
        paths = [os.path.splitext(name)[0] + ending for ending in (TEXT, NOTES)]
    return checksum(paths) if paths and all(map(os.path.isfile, paths)) else None


def corpus_fault(config: Mapping[str, Any], options: Options, part: str) -> str | None:
    """Returns why a corpus that only config.json names must not be opened, such as 'is missing'; None if it may be.

    Args:
        config: contents of config.json; runs of earlier versions have no checksums.
        options: options of the run.
        part: 'train', 'dev' or 'test'.
    """
    path, digests = getattr(options, part), config.get(CORPORA)
    if not os.path.exists(path):
        return 'is missing'
    if not isinstance(digests, dict) or not isinstance(digests.get(part), str):
        return 'has no checksum in config.json, and could be any file'
    return None if corpus_digest(path) == digests[part] else CHANGED
