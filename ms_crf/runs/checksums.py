"""checksums.json of a run directory: what its files may hold, so that a damaged or edited one is noticed.

For each file the record lists the SHA-256 of its contents, and before that the one of its previous contents if there
were any. For config.json it is the SHA-256 not of the bytes but of the parsed contents, without the names of files and
folders, which may be moved. A run without this record, as earlier versions made it, is read unchecked.
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
            raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    return digest.hexdigest()


def file_digest(path: PathLike, name: str | None = None) -> str:
    """The digest under which the record lists a file; for a draft, `name` is the name of the file that it becomes."""
    path = Path(path)
    if (name or path.name) != CONFIG:
        return checksum([path])
    return config_digest(read_json(path, 'training', NO_RUN))


def config_digest(record: object) -> str:
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
        while self.listed is not None and not self._lists(name, file_digest(self.folder / name)):
            pass

    def read(self, name: str) -> bytes:
        """The contents of a file; raises CorpusError unless the record lists them."""
        path = self.folder / name
        while True:
            data = read_whole(path, NO_RUN)
            self.digests[name] = (config_digest(parse_json(path, data, 'training')) if name == CONFIG
                                  else hashlib.sha256(data).hexdigest())
            if self._lists(name, self.digests[name]):
                return data

    def json(self, name: str) -> Any:
        """What a JSON file holds; raises CorpusError unless the record lists it."""
        return parse_json(self.folder / name, self.read(name), 'training')

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


CORPORA = 'corpus_sha256'      # in config.json
PARTS = ('train', 'dev', 'test')
CHANGED = 'is another file than in the training'


def corpora_digests(options: Options) -> dict[str, str]:
    """What config.json holds under `CORPORA`: the SHA-256 of each corpus that can be read again; a pipe has none."""
    return {part: digest for part in PARTS
            if (path := getattr(options, part)) and (digest := corpus_digest(path)) is not None}


def corpus_digest(path: PathLike) -> str | None:
    """The SHA-256 of a file, or of all files of a corpus in brat; None if that is no file, or not there."""
    name = os.fspath(path)
    paths = [name]
    if os.path.isdir(name):
        paths = [os.path.join(name, entry) for entry in sorted(os.listdir(name)) if entry.endswith((TEXT, NOTES))]
    elif is_brat(name):
        paths = [os.path.splitext(name)[0] + ending for ending in (TEXT, NOTES)]
    return checksum(paths) if paths and all(map(os.path.isfile, paths)) else None


def corpus_fault(config: Mapping[str, Any], options: Options, part: str) -> str | None:
    """Why a corpus that only config.json names must not be opened, such as 'is not there'; None if it may be.

    Args:
        config: what config.json holds; in runs of earlier versions it has no checksums.
        options: of the run.
        part: 'train', 'dev' or 'test'.
    """
    path, digests = getattr(options, part), config.get(CORPORA)
    if not os.path.exists(path):
        return 'is not there'
    if not isinstance(digests, dict) or not isinstance(digests.get(part), str):
        return 'has no checksum there, so that it may be any file'
    return None if corpus_digest(path) == digests[part] else CHANGED
