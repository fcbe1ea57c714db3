"""The record beside an exported graph: the pair is found to belong together, and replaced together."""

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

if TYPE_CHECKING:                                # at run time it would start MindSpore
    from ms_crf.models.graphs import GraphInput, Static

FORMAT = 1
_OWN, _NEXT = 'record_sha256', 'next'            # of what is in the record; the record of the graph that comes next


def record_of(path: PathLike) -> Path:
    """Name of the record beside a graph."""
    return Path(path).with_suffix('.json')


def tensors_of(graph_input: 'GraphInput', output: str, static: 'Static') -> dict[str, list[dict]]:
    """The "inputs" and "outputs" of a record: names, types and shapes."""
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


def digest_of(record: dict) -> str:
    """SHA-256 of a record's contents, however they are laid out in the file."""
    return digest({key: value for key, value in record.items() if key not in (_OWN, _NEXT)})


# Writing

def check_target(path: PathLike) -> None:
    """Raises CorpusError unless a graph of this name and its record could be written, over others of theirs at most."""
    for target in (Path(path), record_of(path)):
        files.check_writable(target)
        if files.is_written_through(target):
            raise CorpusError(target, None, 'expected the name of a file to write, got something else, which a graph '
                                            'and its record can not be; choose another name')
    name = record_of(path)
    if name.exists() and _any_record(name) is None:
        raise CorpusError(name, None, 'expected nothing, or the record of an earlier export, got another file, which '
                                      'would be overwritten; choose another name')
    if name.name in (CONFIG, VOCABULARY, SCORES, CHECKSUMS) and (name.parent / CONFIG).exists() \
            and _any_record(name.parent / CONFIG) is None:
        raise CorpusError(name, None, f'expected a name that no file of a run has, got one beside {CONFIG}; choose '
                                      'another name')


def _any_record(path: Path) -> dict | None:
    """What is in a file if it is the record of a graph, of whatever version; None otherwise."""
    try:
        record = json_of(path.read_bytes())
    except (OSError, ValueError):
        return None
    keys = ('format', 'graph', 'sha256', 'inputs', 'outputs')
    return record if isinstance(record, dict) and all(key in record for key in keys) else None


def replace_pair(path: PathLike, draft: PathLike, record: dict) -> None:
    """Gives a new graph and its record their names, so that after a crash at any moment the two belong together.

    Where there is a pair already, its record first gets the new one into it, under "next"; whichever graph is found
    then, `read_record` knows it.

    Args:
        path: of the graph.
        draft: the file with the new graph.
        record: everything but the checksums.
    """
    name = record_of(path)
    record = json.loads(json.dumps({**record, 'sha256': checksum([draft])}))     # tuples become lists
    record[_OWN] = digest_of(record)
    former = _any_record(name) if Path(path).exists() else None
    if former is not None:
        former = _belonging(former, checksum([path]))
    files.write_json(name, record if former is None else {**former, _NEXT: record})
    # The name by itself might be that of the draft: of graph.mindir it is.
    with files.whole(path, f'{os.fspath(draft)}.whole') as place, files.faults_named(path):
        os.replace(draft, place)
    if former is not None:
        files.write_json(name, record)


def _belonging(record: dict, digest: str) -> dict | None:
    """Of a record and the one in it, that which the graph of this checksum was written with, by itself, or None."""
    for part in (record, record.get(_NEXT)):
        if isinstance(part, dict) and part.get('sha256') == digest:
            return {key: value for key, value in part.items() if key != _NEXT}
    return None


# Reading

class Graph:
    """An exported graph and the record next to it, which is read when it is first asked for.

    Args:
        path: of the graph; its name ends in .mindir.
    """

    kind_name, uses_mindspore = 'exported graph', True

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    @cached_property
    def _opened(self) -> tuple[dict[str, Any], 'GraphInput']:
        return read_record(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """What the record holds."""
        return self._opened[0]

    @property
    def graph_input(self) -> 'GraphInput':
        """What makes its inputs of sentences."""
        return self._opened[1]

    #: of the training, of its files, and of the tags that are returned: None in earlier records, for that of training
    scheme = property(lambda self: self.record['scheme'])
    file_scheme = property(lambda self: self.record['found_scheme'])
    written_scheme = property(lambda self: self.record.get('written_scheme'))
    #: the name of the splitter of raw text; None in earlier records
    splitter = property(lambda self: self.record.get('splitter'))

    @property
    def unknown_tag(self) -> str:
        """What stands in place of a tag that nobody has judged: '?', or '' if that is one of its tags."""
        return '' if MARK in self.graph_input.vocabulary.tags else MARK

    @property
    def version(self) -> str:
        """Its name, and the beginning of its checksum, such as 'mine.mindir@0123456789ab'."""
        return f'{os.path.basename(os.path.abspath(self.path))}@{self.record["sha256"][:12]}'


def read_record(path: PathLike) -> tuple[dict, 'GraphInput']:
    """The record of a graph, and what makes its inputs of sentences; raises CorpusError if anything of it is wrong."""
    name = record_of(path)
    record = _read(name, Path(path).name)
    kind = _kind_of(path)
    if kind != 'a file':
        raise CorpusError(path, None, f'expected a graph made by ms_crf.export, got {kind}' if kind
                          else 'no such file; expected a graph made by ms_crf.export')
    own = _belonging(record, checksum([path]))
    graph_input = _check(name, own or record)
    if own is None:
        raise CorpusError(path, None, f'expected the graph that {name} was written with, got another or a damaged one; '
                                      'copy both files again, or export again')
    return own, graph_input


def _kind_of(path: PathLike) -> str | None:
    """'a file', 'a folder' or 'no file'; None if there is nothing."""
    try:
        mode = os.stat(path).st_mode
    except PermissionError as error:
        raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    except (OSError, ValueError):
        return None
    return 'a file' if stat.S_ISREG(mode) else 'a folder' if stat.S_ISDIR(mode) else 'what is no file'


def _read(name: Path, graph: str) -> dict:
    """The record as it is, once it is certain that it is as it was written; earlier ones can't tell."""
    kind = _kind_of(name)
    if kind is None:
        raise CorpusError(name, None, f'no such file; expected the record beside {graph}; copy both files, or export '
                                      'again')
    if kind != 'a file':
        raise CorpusError(name, None, f'expected JSON as ms_crf.export writes it: this is {kind}')
    record = read_json(name, 'ms_crf.export')
    parts = (record, record.get(_NEXT, {})) if isinstance(record, dict) else ()
    if not parts or not all(isinstance(part, dict) and (_OWN not in part or part[_OWN] == digest_of(part))
                            for part in parts):
        raise CorpusError(name, None, 'expected the record as ms_crf.export wrote it, got an edited or damaged one; '
                                      'copy it again, or export again')
    return record


def _static(value: object) -> Fault | None:
    right = value is None or (isinstance(value, list) and len(value) == 2
                              and all(type(size) is int and size > 0 for size in value))
    return None if right else ('batch and length or null', brief(value))


@dataclass(kw_only=True)
class GraphRecord:
    """What the record of every graph holds, whatever its kind of model puts there."""

    format: int = checked(choices=(FORMAT,), advice='another version of this program made it, export again')
    scheme: str = checked(choices=SCHEMES)
    found_scheme: str = checked(choices=SCHEMES)
    written_scheme: str = checked(None, choices=SCHEMES)
    splitter: str = checked(None, must=splitter_fault)
    output: str = checked(choices=(PATHS, CONFIDENCES, EMISSIONS))
    static: Any = checked(must=_static)
    inputs: list
    outputs: list


def _check(name: Path, record: dict) -> 'GraphInput':
    """What makes inputs as a record says; raises CorpusError if anything of the record can't be."""
    with errors_in(name):
        loaded = load_record(GraphRecord, record)
        kind = kind_of_graph(record)
        if kind is None:
            raise wrong('model', 'a kind of model that is known here', brief(record['model']),
                        'if it is one of your own, load the program that registers it as a plugin '
                        f'({argument("plugin")})')
        graph_input = kind.graph_input(record)
        static = f'"static" {loaded.static}' if loaded.static else 'one row'
        check_room(graph_input, loaded.static, f'a batch of {static}')
        for key, tensors in tensors_of(graph_input, loaded.output, loaded.static).items():
            if record[key] != tensors:
                expected, got = next(pair for pair in zip_longest(tensors, record[key]) if pair[0] != pair[1])
                first = '{name} to be {type} of shape {shape}'.format_map(expected) if expected else 'nothing more'
                names = ', '.join(tensor['name'] for tensor in tensors)
                raise wrong(key, f'{names}, and {first}', brief(got) if got else 'none')
    return graph_input


def check_room(graph_input: 'GraphInput', static: 'Static', what: str) -> None:
    """Raises OptionError if a batch has no place in memory.

    Args:
        graph_input: what makes the inputs.
        static: its (batch, length); None for one of any size, which is counted as one row of one token.
        what: the subject of the message.
    """
    shapes = [*graph_input.inputs(static).values(), (*(static or (1, 1)), len(graph_input.vocabulary.tags))]
    check_memory(4 * sum(math.prod(size or 1 for size in shape) for shape in shapes), what, error=OptionError)


def check_against(name: Path, graph_input: 'GraphInput', shapes: dict[str, tuple], scheme: str) -> None:
    """Raises CorpusError unless a record is of a graph with parameters of these shapes.

    Args:
        name: of the record.
        graph_input: what makes the inputs by this record.
        shapes: of the graph's parameters by name.
        scheme: of the tags.
    """
    tables = [('.projection.bias', 'tags', len(graph_input.vocabulary.tags), True), *graph_input.tables()]
    for ending, what, size, exact in tables:
        rows = [shape[0] for parameter, shape in shapes.items() if parameter.endswith(ending) and shape]
        if len(rows) == 1 and (rows[0] != size if exact else rows[0] < size):
            most = '' if exact else 'at most '
            raise CorpusError(name, None, f'expected {most}{rows[0]:,} {what}, as the graph has, got {size:,}; copy '
                                          'both files again, or export again')
    if scheme != PLAIN:
        try:
            allowed_transitions(scheme, graph_input.vocabulary.tags)
        except ValueError as error:
            raise CorpusError(name, None, f'expected "tags" that fit "scheme": {error}') from None
