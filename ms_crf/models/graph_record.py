"""The JSON record of an exported graph: writing graph and record together, reading the record, and checking both."""

import json
import math
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_crf.base import files
from ms_crf.base.errors import CorpusError, OptionError, argument, brief
from ms_crf.base.fields import Fault, checked, errors_in, json_of, load_record, read_json, wrong
from ms_crf.base.files import PathLike
from ms_crf.base.memory import check_memory
from ms_crf.models.base import CONFIDENCES, EMISSIONS, PATHS, kind_of_graph
from ms_crf.runs.checksums import checksum, digest
from ms_crf.runs.records import CHECKSUMS, CONFIG, SCORES, VOCABULARY
from ms_crf.text.partial import MARK
from ms_crf.text.schemes import PLAIN, SCHEMES, allowed_transitions
from ms_crf.text.splitting import splitter_fault

if TYPE_CHECKING:                                # at run time this import would start MindSpore
    from ms_crf.models.graphs import GraphInput, Static

FORMAT = 1
_CHECKSUM, _NEXT = 'record_sha256', 'next'       # keys of the record's own checksum, and of the record of a new graph


def record_of(path: PathLike) -> Path:
    """The path of the record of a graph."""
    return Path(path).with_suffix('.json')


def tensors_of(graph_input: 'GraphInput', output: str, static: 'Static') -> dict[str, list[dict]]:
    """The fields "inputs" and "outputs" of a record: lists of names, types and shapes."""
    batch, length = static or (None, None)
    before, tags = length and length - 1, len(graph_input.vocabulary.tags)
    paths = [('paths', 'int32', (batch, length)), ('scores', 'float32', (batch,))]
    outputs: dict[str, list[tuple[str, str, tuple]]] = {
        PATHS: paths,
        CONFIDENCES: [*paths, ('posteriors', 'float32', (batch, length)),
                      ('given_before', 'float32', (batch, length, tags))],
        EMISSIONS: [('score', 'float32', (batch, tags)), ('history', 'int64', (before, batch, tags))]}
    inputs = [(name, 'int32', shape) for name, shape in graph_input.inputs(static).items()]
    return {key: [{'name': name, 'type': kind, 'shape': list(shape)} for name, kind, shape in tensors]
            for key, tensors in (('inputs', inputs), ('outputs', outputs[output]))}


def record_digest(record: dict) -> str:
    """SHA-256 of the content of a record; it does not depend on the layout of the JSON file."""
    return digest({key: value for key, value in record.items() if key not in (_CHECKSUM, _NEXT)})


# Writing

def check_target(path: PathLike) -> None:
    """Checks that a graph and its record can be written under this name without replacing other files.

    Raises:
        CorpusError: a file cannot be written, or is neither a graph nor the record of an earlier export.
    """
    for target in (Path(path), record_of(path)):
        files.check_writable(target)
        if files.is_written_through(target):
            raise CorpusError(target, None, 'expected a regular file, since graph and record are replaced together, '
                                            'got a device or pipe; choose another name')
    name = record_of(path)
    if name.exists() and _any_record(name) is None:
        raise CorpusError(name, None, 'expected nothing, or the record of an earlier export, got another file, which '
                                      'would be overwritten; choose another name')
    if name.name in (CONFIG, VOCABULARY, SCORES, CHECKSUMS) and (name.parent / CONFIG).exists() \
            and _any_record(name.parent / CONFIG) is None:
        raise CorpusError(name, None, f'expected a name that is not used in run directories, got {name.name} next to '
                                      f'{CONFIG}; choose another name')


def _any_record(path: Path) -> dict | None:
    """The content of a file if it is the record of a graph of any version, otherwise None."""
    try:
        record = json_of(path.read_bytes())
    except (OSError, ValueError):
        return None
    keys = ('format', 'graph', 'sha256', 'inputs', 'outputs')
    return record if isinstance(record, dict) and all(key in record for key in keys) else None


def replace_pair(path: PathLike, draft: PathLike, record: dict) -> None:
    """Renames a new graph and writes its record, so that both files belong together even after a crash at any moment.

    If a graph and its record exist already, the new record is first stored in the old one, under "next". So
    `read_record` finds the right record for either graph.

    Args:
        path: path of the graph.
        draft: the file with the new graph.
        record: the record without checksums.
    """
    name = record_of(path)
    record = json.loads(json.dumps({**record, 'sha256': checksum([draft])}))     # converts tuples to lists
    record[_CHECKSUM] = record_digest(record)
    earlier = _any_record(name) if Path(path).exists() else None
    if earlier is not None:
        earlier = _matching(earlier, checksum([path]))
    files.write_json(name, record if earlier is None else {**earlier, _NEXT: record})
    # Without the ending .whole, the two drafts of graph.mindir would have the same name.
    with files.whole(path, f'{os.fspath(draft)}.whole') as whole_draft, files.faults_named(path):
        os.replace(draft, whole_draft)
    if earlier is not None:
        files.write_json(name, record)


def _matching(record: dict, digest: str) -> dict | None:
    """The record that was written with the graph of this checksum: `record` or its "next" record; None if neither."""
    for part in (record, record.get(_NEXT)):
        if isinstance(part, dict) and part.get('sha256') == digest:
            return {key: value for key, value in part.items() if key != _NEXT}
    return None


# Reading

class Graph:
    """An exported graph; its record is read on first use.

    Args:
        path: path of the graph; its name ends in .mindir.
    """

    kind_name, uses_mindspore = 'exported graph', True

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    @cached_property
    def _opened(self) -> tuple[dict[str, Any], 'GraphInput']:
        return read_record(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """The content of the record."""
        return self._opened[0]

    @property
    def graph_input(self) -> 'GraphInput':
        """The object that converts sentences to the inputs of the graph."""
        return self._opened[1]

    #: tag schemes of the training, of its files and of the returned tags; older records have no `written_scheme`, which
    #: means the scheme of the training
    scheme = property(lambda self: self.record['scheme'])
    file_scheme = property(lambda self: self.record['found_scheme'])
    written_scheme = property(lambda self: self.record.get('written_scheme'))
    #: name of the splitter for raw text; None in older records
    splitter = property(lambda self: self.record.get('splitter'))

    @property
    def unknown_tag(self) -> str:
        """The mark of an unknown tag, '?'; '' if the model has a tag '?'."""
        return '' if MARK in self.graph_input.vocabulary.tags else MARK

    @property
    def version(self) -> str:
        """The file name and the first characters of the checksum, such as 'mine.mindir@0123456789ab'."""
        return f'{os.path.basename(os.path.abspath(self.path))}@{self.record["sha256"][:12]}'


def read_record(path: PathLike) -> tuple[dict, 'GraphInput']:
    """The record of a graph, and the object that converts sentences to the inputs of the graph.

    Raises:
        CorpusError: graph or record is missing or damaged, or the two do not belong together.
    """
    name = record_of(path)
    record = _read(name, Path(path).name)
    file_type = _file_type(path)
    if file_type != 'a file':
        raise CorpusError(path, None, f'expected a graph written by ms_crf.export, got {file_type}' if file_type
                          else 'no such file; expected a graph written by ms_crf.export')
    matching = _matching(record, checksum([path]))
    graph_input = _check(name, matching or record)
    if matching is None:
        raise CorpusError(path, None, f'expected the graph that belongs to {name}, got another or a damaged graph; '
                                      'copy both files again, or export again')
    return matching, graph_input


def _file_type(path: PathLike) -> str | None:
    """'a file', 'a folder' or 'a device or pipe'; None if nothing exists under this path."""
    try:
        mode = os.stat(path).st_mode
    except PermissionError as error:
        raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    except (OSError, ValueError):
        return None
    return 'a file' if stat.S_ISREG(mode) else 'a folder' if stat.S_ISDIR(mode) else 'a device or pipe'


def _read(name: Path, graph: str) -> dict:
    """The record from its file, after comparing it with its own checksum; older records have none."""
    file_type = _file_type(name)
    if file_type is None:
        raise CorpusError(name, None, f'no such file; expected the record of {graph}; copy both files, or export again')
    if file_type != 'a file':
        raise CorpusError(name, None, f'expected JSON written by ms_crf.export, got {file_type}')
    record = read_json(name, 'ms_crf.export')
    parts = (record, record.get(_NEXT, {})) if isinstance(record, dict) else ()
    if not parts or not all(isinstance(part, dict) and (_CHECKSUM not in part or part[_CHECKSUM] == record_digest(part))
                            for part in parts):
        raise CorpusError(name, None, 'expected the record as ms_crf.export wrote it, got an edited or damaged record; '
                                      'copy it again, or export again')
    return record


def _static(value: object) -> Fault | None:
    valid = value is None or (isinstance(value, list) and len(value) == 2
                              and all(type(size) is int and size > 0 for size in value))
    return None if valid else ('batch and length or null', brief(value))


@dataclass(kw_only=True)
class GraphRecord:
    """The fields of the record of every graph; each model type adds its own."""

    format: int = checked(choices=(FORMAT,), advice='it was written by another version of ms_crf, export again')
    scheme: str = checked(choices=SCHEMES)
    found_scheme: str = checked(choices=SCHEMES)
    written_scheme: str = checked(None, choices=SCHEMES)
    splitter: str = checked(None, must=splitter_fault)
    output: str = checked(choices=(PATHS, CONFIDENCES, EMISSIONS))
    static: Any = checked(must=_static)
    inputs: list
    outputs: list


def _check(name: Path, record: dict) -> 'GraphInput':
    """Checks the fields of a record, and creates the object that converts sentences to the inputs of the graph.

    Raises:
        CorpusError: a field is invalid.
    """
    with errors_in(name):
        loaded = load_record(GraphRecord, record)
        kind = kind_of_graph(record)
        if kind is None:
            raise wrong('model', 'a known model type', brief(record['model']),
                        f'for a custom model type name its Python file with {argument("plugin")}')
        graph_input = kind.graph_input(record)
        static = f'"static" {loaded.static}' if loaded.static else 'one row'
        check_batch_memory(graph_input, loaded.static, f'a batch of {static}')
        for key, tensors in tensors_of(graph_input, loaded.output, loaded.static).items():
            if record[key] != tensors:
                expected, got = next(pair for pair in zip_longest(tensors, record[key]) if pair[0] != pair[1])
                first = '{name} to be {type} of shape {shape}'.format_map(expected) if expected else 'no further tensor'
                names = ', '.join(tensor['name'] for tensor in tensors)
                raise wrong(key, f'{names}, and {first}', brief(got) if got else 'none')
    return graph_input


def check_batch_memory(graph_input: 'GraphInput', static: 'Static', subject: str) -> None:
    """Raises OptionError if a batch does not fit into memory.

    Args:
        graph_input: object that converts sentences to the inputs of the graph.
        static: (batch, length); None for any shape, which counts as one row of one token.
        subject: subject of the message.
    """
    shapes = [*graph_input.inputs(static).values(), (*(static or (1, 1)), len(graph_input.vocabulary.tags))]
    check_memory(4 * sum(math.prod(size or 1 for size in shape) for shape in shapes), subject, error=OptionError)


def check_against(name: Path, graph_input: 'GraphInput', shapes: dict[str, tuple], scheme: str) -> None:
    """Compares a record with the parameters of its graph.

    Args:
        name: path of the record, for messages.
        graph_input: object that was created from this record.
        shapes: shapes of the graph's parameters by name.
        scheme: the tag scheme.

    Raises:
        CorpusError: the record has another number of tags, words or characters than the graph, or invalid tags.
    """
    tables = [('.projection.bias', 'tags', len(graph_input.vocabulary.tags), True), *graph_input.tables()]
    for ending, unit, size, exact in tables:
        rows = [shape[0] for parameter, shape in shapes.items() if parameter.endswith(ending) and shape]
        if len(rows) == 1 and (rows[0] != size if exact else rows[0] < size):
            most = '' if exact else 'at most '
            raise CorpusError(name, None, f'expected {most}{rows[0]:,} {unit}, as in the graph, got {size:,}; copy '
                                          'both files again, or export again')
    if scheme != PLAIN:
        try:
            allowed_transitions(scheme, graph_input.vocabulary.tags)
        except ValueError as error:
            raise CorpusError(name, None, f'expected "tags" that fit "scheme": {error}') from None
