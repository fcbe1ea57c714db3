"""The corpora that a run was trained on, by their checksums in config.json.

A run may come from somebody else, and config.json may then name any file of this machine. So a command opens a file
that only config.json names if it is the file of the training, and never shows anything of another one.
"""

import os

from ms_crf.base.files import PathLike
from ms_crf.formats.brat import NOTES, TEXT, is_brat
from ms_crf.runs.checksums import checksum
from ms_crf.runs.options import Options
from ms_crf.runs.run import Run

NAME = 'corpus_sha256'         # in config.json
PARTS = ('train', 'dev', 'test')
CHANGED = 'is another file than in the training'


def digests_of(options: Options) -> dict[str, str]:
    """What config.json holds under `NAME`: the SHA-256 of each corpus that can be read again; a pipe has none."""
    digests = {part: digest_of(path) for part in PARTS if (path := getattr(options, part))}
    return {part: digest for part, digest in digests.items() if digest is not None}


def digest_of(path: PathLike) -> str | None:
    """The SHA-256 of a file, or of all files of a corpus in brat; None if that is no file, or not there."""
    name = os.fspath(path)
    paths = [name]
    if os.path.isdir(name):
        paths = [os.path.join(name, entry) for entry in sorted(os.listdir(name)) if entry.endswith((TEXT, NOTES))]
    elif is_brat(name):
        paths = [os.path.splitext(name)[0] + ending for ending in (TEXT, NOTES)]
    return checksum(paths) if paths and all(map(os.path.isfile, paths)) else None


def fault_of(run: Run, options: Options, part: str) -> str | None:
    """Why a corpus that only config.json names must not be opened, such as 'is not there'; None if it may be.

    Args:
        run: whose config.json it is; that of an earlier version has no checksums.
        options: of the run.
        part: 'train', 'dev' or 'test'.
    """
    path, digests = getattr(options, part), run.config.get(NAME)
    if not os.path.exists(path):
        return 'is not there'
    if not isinstance(digests, dict) or not isinstance(digests.get(part), str):
        return 'has no checksum there, so that it may be any file'
    return None if digest_of(path) == digests[part] else CHANGED
