"""Many inputs at once: the files of a folder or of a pattern, and the file that is written for each of them."""

import glob
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats.registry import FORMATS, TEXT, of_stream


class Job(NamedTuple):
    """A file to read, and the file to write, or None."""

    source: str
    target: str | None


def are_many(name: str) -> bool:
    """Whether a name stands for many files: it is a folder, or a pattern and no file."""
    return os.path.isdir(name) or (glob.has_magic(name) and not os.path.lexists(name))


def jobs(name: str, output: PathLike | None, kind: str) -> list[Job]:
    """The files that a name stands for, by their names, and what is written for each: the same path in another folder.

    Files and folders whose names begin with a dot are left out.

    Args:
        name: of a folder, of which all files are read, those of the folders in it too; or a pattern, in which * and ?
            stand for any characters and ** for folders.
        output: the folder to write to; it need not be there. None if nothing is written.
        kind: the format that is written. Where the name of the input says another one, that of the output is longer.

    Raises:
        CorpusError: there is no file of that name.
        OptionError: the outputs can't be told from each other or from the inputs.
    """
    base, found = files_of(name)
    if output is None:
        return [Job(path, None) for path in found]
    return placed({path: os.path.relpath(path, base).removesuffix('.gz') + _ending(path, kind) for path in found},
                  output)


def files_of(name: str) -> tuple[str, list[str]]:
    """The folder that a name stands for, or in which its pattern begins, and the files, by their names.

    Raises:
        CorpusError: there is no file of that name.
    """
    base = name if os.path.isdir(name) else _fixed_part(name)
    found = sorted(_below(name) if os.path.isdir(name) else
                   (path for path in glob.glob(name, recursive=True) if os.path.isfile(path)))
    if not found:
        what = 'folder' if os.path.isdir(name) else 'pattern'
        raise CorpusError(name, None, f'expected a {what} of files to tag, got one without any')
    return base, found


def placed(names: Mapping[str, str], output: PathLike) -> list[Job]:
    """The files to read, each with the one to write.

    Args:
        names: for each file to read the path of the one to write, within the folder of the output.
        output: this folder; it need not be there.

    Raises:
        OptionError: the outputs can't be told from each other or from the inputs.
    """
    if os.path.lexists(output) and not os.path.isdir(output):
        raise OptionError(f'the output must be a folder where the input is many files, got the file {output}')
    sources = {os.path.realpath(path) for path in names}
    made: dict[str, str] = {}
    for path, within in names.items():
        target = os.path.join(output, within)
        if os.path.realpath(target) in sources:
            raise OptionError(f'the output must be in another folder than the input, got {output}, where {path} would '
                              'be overwritten')
        if target in made:
            raise OptionError(f'{made[target]} and {path} would both become {target}; tag them one after the other')
        made[target] = path
    return [Job(path, target) for target, path in made.items()]


def _below(folder: str) -> Iterator[str]:
    """Names of the files in a folder and in those within it."""
    def fault(error: OSError) -> None:
        raise CorpusError(error.filename or folder, None, f'can not be read: {error.strerror}') from None

    for place, folders, names in os.walk(folder, onerror=fault):
        folders[:] = [name for name in folders if not name.startswith('.')]
        for name in names:
            path = os.path.join(place, name)
            if not name.startswith('.') and os.path.isfile(path):
                yield path


def _fixed_part(pattern: str) -> str:
    """The folder before the first part of a pattern that stands for several names."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern or os.curdir


def _ending(path: str, kind: str) -> str:
    """What is put behind the name of an input, so that its format is seen in the name of the output."""
    if of_stream(path).stream == kind or kind == TEXT:
        return ''
    return next(row.endings[0] for row in reversed(FORMATS.values()) if row.stream == kind)
