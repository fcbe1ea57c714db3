"""A trained network as a MindIR graph: written with what a program needs to run it, and run from these two files."""

import os
from pathlib import Path

from ms_crf.crf.post_decode import post_decode
from ms_crf.environment import quiet
from ms_crf.errors import CorpusError, OptionError
from ms_crf.files import draft_of, faults_named, temporary
from ms_crf.models.base import CONFIDENCES, EMISSIONS, PATHS, SentenceError, read_run
from ms_crf.models.graph_calls import graph_call
from ms_crf.models.graph_record import (
    FORMAT,
    check_against,
    check_room,
    check_target,
    outputs_of,
    read_record,
    record_of,
    replace_pair,
)

import mindspore as ms
import numpy as np
from mindspore import nn

LARGEST = 1 << 30              # bytes of weights that MindSpore puts into one file


def _placeholders(inputs):
    return [ms.Tensor(np.zeros(shape, np.int32)) if None not in shape else ms.Tensor(shape=list(shape), dtype=ms.int32)
            for shape in inputs.values()]


def export(folder, path, output=PATHS, static=None):
    """Writes the graph of a run, and a record of the same name that ends in .json.

    Args:
        folder: the run directory.
        path: of the graph; ends in .mindir.
        output: 'paths', 'confidences' or 'emissions'; see `Served`.
        static: (batch, length) for a graph of these alone, or None for any.

    Raises:
        CorpusError: the run is damaged, or the files can't be written; what was there before stays.
    """
    check_target(path)
    kind, config = read_run(folder)
    given, cell = kind.exported(folder, config, output)
    size = sum(4 * parameter.size for parameter in cell.get_parameters())
    if size > LARGEST:
        raise CorpusError(folder, None, f'expected a network of at most {LARGEST:,} bytes of weights, which MindSpore '
                                        f'writes into one graph, got one of {size:,}; tag with the run itself')
    if static:
        try:
            check_room(given, static, f'--static {" ".join(map(str, static))}')
        except ValueError as error:
            raise OptionError(str(error)) from None
    inputs, outputs = given.inputs(static), outputs_of(output, len(given.vocabulary.tags), static)
    record = {
        'format': FORMAT, 'model': kind.name, 'graph': Path(path).name, 'output': output, 'static': static,
        'set_inputs': static is None,
        'inputs': [{'name': name, 'type': 'int32', 'shape': shape} for name, shape in inputs.items()],
        'outputs': [{'name': name, 'type': kind, 'shape': shape} for name, (kind, shape) in outputs.items()],
        'scheme': config['scheme'], 'found_scheme': config['found_scheme'], **given.to_json()}
    # A name of its own: MindSpore writes elsewhere if it does not end in .mindir, as a long one that is cut does not.
    with temporary(draft_of(Path(os.path.realpath(path)).with_name('graph.mindir'))) as draft:
        with faults_named(path):
            try:
                ms.export(cell, *_placeholders(inputs), file_name=draft, file_format='MINDIR')
            except RuntimeError as error:                        # what MindSpore makes of a full disk
                raise CorpusError(path, None, f'can not be written: {_first_line(error)}') from None
        replace_pair(path, draft, record)


def _first_line(error):
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class MindIRDecoder:
    """Tags encoded sentences with an exported graph, as `Decoder` does with a network.

    Args:
        graph: takes tensors, in the order of the inputs.
        given: a `GraphInput`, that makes them.
        output: 'paths', 'confidences' or 'emissions'.
        static: (batch, length) that the graph takes, or None for any.
    """

    runs_graphs = True

    def __init__(self, graph, given, output, static):
        self.graph, self.given, self.output, self.static = graph, given, output, static
        self.vocabulary, self.encode = given.vocabulary, given.encode
        self.tasks = frozenset((PATHS, CONFIDENCES) if output == CONFIDENCES else (PATHS,))

    @classmethod
    def load(cls, path):
        """(decoder, scheme, found_scheme) from a graph and its record."""
        record, given = read_record(path)
        try:
            with quiet():
                graph = nn.GraphCell(ms.load(str(path)))
        except (RuntimeError, ValueError, TypeError) as error:
            raise CorpusError(path, None, 'expected a MindIR graph that MindSpore can load: '
                                          f'{_first_line(error)}') from None
        shapes = {name: parameter.shape for name, parameter in graph.parameters_dict().items()}
        check_against(record_of(path), given, shapes, record['scheme'])
        if record['static'] is None:
            graph.set_inputs(*_placeholders(given.inputs()))
        decoder = cls(graph, given, record['output'], record['static'])
        return decoder, record['scheme'], record['found_scheme']

    def run(self, encoded, task=PATHS, count=1):
        """As `Decoder.run`, for 'paths' and, if the graph gives them, 'confidences'."""
        names = list(self.given.inputs())
        for numbers in self._batches(self.given.sizes(encoded)):
            lengths = encoded.lengths[numbers]
            inputs = self.given.arrays(encoded, numbers, self.static)
            with graph_call():
                arrays = [tensor.asnumpy() for tensor in self.graph(*(ms.Tensor(inputs[name]) for name in names))]
            if self.output == EMISSIONS:
                score, history = arrays
                paths = post_decode(score[:len(numbers)], history[:, :len(numbers)], lengths)
                padded = np.zeros((len(numbers), lengths.max()), np.int32)
                padded[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(paths)
                arrays = [padded, score[:len(numbers)].max(1)]
            yield numbers, arrays if task == CONFIDENCES else arrays[:2]

    def _batches(self, sizes):
        """Numbers of sentences of similar sizes."""
        rows, longest = self.static or (self.given.rows, None)
        if longest is not None and sizes.max() > longest:
            number = int(np.argmax(sizes > longest))
            raise SentenceError(number, f'the graph takes sentences of up to {longest} {self.given.unit}, got one of '
                                        f'{sizes[number]}; export one without --static, or with a greater length')
        order, batch = np.argsort(sizes, kind='stable'), []
        for number in order:
            # The next is at least as long as all before it.
            too_many = longest is None and sizes[number] * (len(batch) + 1) > self.given.tokens
            if batch and (too_many or len(batch) == rows):
                yield np.array(batch)
                batch = []
            batch.append(number)
        yield np.array(batch)
