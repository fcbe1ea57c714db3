"""A trained network as a MindIR graph: export, checks and tagging.

MindSpore runs every operator that a graph names: an operator can load a library of machine code, run Python, write
files or contact other processes. So only operators that compute tensors from tensors are allowed, including all
operators of the graphs that `ms_crf.export` writes. The list does not depend on the version of MindSpore.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic

from ms_crf.base.environment import graph_call, quiet
from ms_crf.base.errors import CorpusError, OptionError, brief
from ms_crf.base.files import PathLike, draft_of, faults_named, temporary
from ms_crf.crf.post_decode import post_decode
from ms_crf.models import graph_record
from ms_crf.models.base import CONFIDENCES, EMISSIONS, PATHS, E, SentenceError, kind_of_run
from ms_crf.models.graph_record import Graph, check_target, record_of
from ms_crf.models.graphs import GraphInput, Static
from ms_crf.runs.run import SavedRun

import mindspore as ms
import numpy as np
from mindspore import nn

LARGEST = 1 << 30              # largest size of weights, in bytes, that MindSpore writes into one file
_MOST = LARGEST + (64 << 20)   # largest size of a graph with its operators, in bytes
_REFERENCE = 'REF::'            # the prefix of a name in the table of primitives, or of a function
_FIELDS = {'ModelProto': ('graph', 'functions', 'primitives'), 'PrimitiveProto': ('attribute',),
           'GraphProto': ('node', 'parameter', 'attribute'), 'NodeProto': ('attribute', 'node_attr', 'primal_attr'),
           'AttributeProto': ('t', 'tensors', 'g', 'graphs', 'values', 'seq_info'),
           'SeqInfoProto': ('tuple_elem_item',)}
LIST = Path(__file__).with_name('allowed_operators.txt')
ALLOWED = frozenset(name for line in LIST.read_text(encoding='utf-8').splitlines() if not line.startswith('#')
                    for name in line.split())


def check_operators(path: PathLike, draft: PathLike | None = None) -> None:
    """Checks that a file is a MindIR graph in a single file, and that all its operators only compute.

    Args:
        path: path of the graph, for messages.
        draft: the file to read, if the graph is not at `path` yet.

    Raises:
        CorpusError: the file is invalid, or has an operator that is not allowed.
    """
    from mindspore.train.mind_ir_pb2 import ModelProto

    advice = 'get the graph from people you trust, or export it again'
    try:
        size = os.path.getsize(draft or path)
        if size > _MOST:
            raise CorpusError(path, None, f'expected a MindIR graph of at most {_MOST:,} bytes, got {size:,}; {advice}')
        with open(draft or path, 'rb') as file:
            model: Any = ModelProto.FromString(file.read())
    except OSError as error:
        raise CorpusError(path, None, f'cannot be read: {error.strerror}') from None
    except CorpusError:
        raise
    except Exception:                            # the type of the error depends on the version of protobuf
        raise CorpusError(path, None, 'expected a MindIR graph, got a damaged or encrypted file; copy it again, or '
                                      'export again') from None
    for part in _parts(model):
        kind = part.DESCRIPTOR.name
        if kind in ('PrimitiveProto', 'NodeProto') and not part.op_type.startswith(_REFERENCE) \
                and part.op_type not in ALLOWED:
            raise CorpusError(path, None, f'expected operators that only compute, got {brief(part.op_type)}, which is '
                                          f'not in the list {LIST.name}; {advice}')
        if kind == 'TensorProto' and part.HasField('external_data'):
            raise CorpusError(path, None, f'expected a graph with its weights in the same file, got a reference to '
                                          f'another file; {advice}')
        if kind == 'GraphProto' and part.bprop_filepath or kind == 'ModelProto' and part.HasField('preprocessor'):
            raise CorpusError(path, None, f'expected a graph alone, got a graph that reads other files; {advice}')


def _parts(model: Any) -> Iterator[Any]:
    """A model and all its nested parts that can name an operator or a file."""
    waiting = [model]
    while waiting:
        part = waiting.pop()
        yield part
        for field in _FIELDS.get(part.DESCRIPTOR.name, ()):
            inner = getattr(part, field)
            waiting += inner if hasattr(inner, '__len__') else [inner] if part.HasField(field) else []


def _placeholders(inputs: dict[str, tuple]) -> list[ms.Tensor]:
    """A tensor for each input: zeros of its shape, or a tensor without values if an axis is dynamic (None)."""
    return [ms.Tensor(np.zeros(shape, np.int32)) if None not in shape else ms.Tensor(shape=list(shape), dtype=ms.int32)
            for shape in inputs.values()]


def export(run: SavedRun | PathLike, path: PathLike, output: str = PATHS, static: Static = None) -> None:
    """Writes the graph of a run, and a record with the same name that ends in .json.

    Args:
        run: the run to export, or its directory.
        path: path of the graph; ends in .mindir.
        output: output of the graph: 'paths', 'confidences' or 'emissions'.
        static: (batch, length) of a graph with this fixed shape; None for a graph that takes any shape.

    Raises:
        OptionError: the model does not support this output, or a batch does not fit into memory.
        CorpusError: the run is damaged, or the files cannot be written; earlier files stay unchanged.
    """
    check_target(path)
    run = run if isinstance(run, SavedRun) else SavedRun.open(run)
    if output == EMISSIONS and run.options.head != 'crf':
        raise OptionError('emissions can only be exported from a run with the head crf, got softmax, which needs no '
                          'back-trace')
    graph_input, cell = kind_of_run(run).exported(run, output)
    size = sum(4 * parameter.size for parameter in cell.get_parameters())
    if size > LARGEST:
        raise CorpusError(run.path, None, f'expected at most {LARGEST:,} bytes of weights, the limit of MindSpore for '
                                          f'a graph in one file, got {size:,}; tag with the run directory')
    if static:
        graph_record.check_batch_memory(graph_input, static, f'a graph for batches of {static[0]} x {static[1]} tokens')
    record = {
        'format': graph_record.FORMAT, 'model': run.kind_name, 'graph': Path(path).name, 'output': output,
        'static': static, 'set_inputs': static is None, **graph_record.tensors_of(graph_input, output, static),
        'scheme': run.scheme, 'found_scheme': run.file_scheme, 'written_scheme': run.written_scheme or run.scheme,
        'splitter': run.splitter, **graph_input.to_json()}
    # The draft has a short name: MindSpore writes to another file if the name does not end in .mindir, for example
    # because a long name was cut.
    with temporary(draft_of(Path(os.path.realpath(path)).with_name('graph.mindir'))) as draft:
        with faults_named(path):
            try:
                ms.export(cell, *_placeholders(graph_input.inputs(static)), file_name=draft, file_format='MINDIR')
            except RuntimeError as error:                        # MindSpore raises it if the disk is full
                raise CorpusError(path, None, f'cannot be written: {_first_line(error)}') from None
        check_operators(path, draft)
        graph_record.replace_pair(path, draft, record)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class MindIRDecoder(Generic[E]):
    """Tags encoded sentences with an exported graph.

    Args:
        graph: the graph and its record.
    """

    runs_graphs = True

    def __init__(self, graph: Graph) -> None:
        path, record, graph_input = graph.path, graph.record, graph.graph_input
        self.graph_input: GraphInput[E] = graph_input
        self.output: str = record['output']      # 'paths', 'confidences' or 'emissions'
        self.static: Static = record['static']
        self.vocabulary, self.encode = graph_input.vocabulary, graph_input.encode
        self.tasks = frozenset((PATHS, CONFIDENCES) if self.output == CONFIDENCES else (PATHS,))
        check_operators(path)
        try:
            with quiet():
                self.graph = cell = nn.GraphCell(ms.load(str(path)))
        except (RuntimeError, ValueError, TypeError) as error:
            raise CorpusError(path, None, 'expected a MindIR graph that MindSpore can load: '
                                          f'{_first_line(error)}') from None
        shapes = {name: parameter.shape for name, parameter in cell.parameters_dict().items()}
        graph_record.check_against(record_of(path), graph_input, shapes, record['scheme'])
        if self.static is None:
            cell.set_inputs(*_placeholders(graph_input.inputs()))

    def run(self, encoded: E, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences in batches; see `Decoder.run`."""
        names = list(self.graph_input.inputs())
        for indices in self._batches(self.graph_input.sizes(encoded)):
            lengths = encoded.lengths[indices]
            inputs = self.graph_input.arrays(encoded, indices, self.static)
            with graph_call():
                arrays = [tensor.asnumpy() for tensor in self.graph(*(ms.Tensor(inputs[name]) for name in names))]
            if self.output == EMISSIONS:
                score, history = arrays
                paths = post_decode(score[:len(indices)], history[:, :len(indices)], lengths)
                padded = np.zeros((len(indices), lengths.max()), np.int32)
                padded[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(paths)
                arrays = [padded, score[:len(indices)].max(1)]
            yield indices, arrays if task == CONFIDENCES else arrays[:2]

    def _batches(self, sizes: np.ndarray) -> Iterator[np.ndarray]:
        """Indices of sentences of similar sizes, a batch at a time."""
        rows, longest = self.static or (self.graph_input.rows, None)
        if longest is not None and sizes.max() > longest:
            index = int(np.argmax(sizes > longest))
            raise SentenceError(index, f'the graph takes sentences of up to {longest} {self.graph_input.unit}, got '
                                       f'{sizes[index]}; export a graph for any length, or for a greater length')
        batch: list[int] = []
        for index in np.argsort(sizes, kind='stable').tolist():
            # This sentence is at least as long as all previous ones.
            too_many = longest is None and sizes[index] * (len(batch) + 1) > self.graph_input.tokens
            if batch and (too_many or len(batch) == rows):
                yield np.array(batch)
                batch = []
            batch.append(index)
        yield np.array(batch)
