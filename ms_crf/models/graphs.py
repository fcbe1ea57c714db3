"""Tagging with a network in graphs: compiled here for batches of fixed shapes, or exported for other programs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic

from ms_crf.base.environment import graph_call
from ms_crf.base.errors import OptionError
from ms_crf.crf.constraints import Constraints
from ms_crf.crf.layer import CRF
from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.models.base import CONFIDENCES, EMISSIONS, NBEST, PATHS, Compiled, E, Tags
from ms_crf.models.bucketing import TaggingShapes
from ms_crf.models.chains import NOTHING, SCORES, Chain
from ms_crf.native import custom
from ms_crf.nn.head import Head
from ms_crf.nn.softmax import Softmax
from ms_crf.runs import records
from ms_crf.runs.options import Options
from ms_crf.runs.run import SavedRun
from ms_crf.text.schemes import PLAIN, allowed_transitions

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn

ROWS = 256                 # sentences of a batch,
PLAIN_ROWS = 64            # or of plain operators on CPU; with more, what LSTMs work on leaves the processor's cache
FEW = 8                    # best paths of each sentence for which a batch has that many

# (batch, length) of a graph for that shape alone; None for one of any shape.
Static = tuple[int, int] | None


def answer(head, task, count, emissions, lengths):
    """What is asked of a head, in a graph: for 'emissions' what `post_decode` takes, for others what a decoder yields.

    Args:
        head: a `Head`.
        task: 'paths', 'confidences', 'nbest' or 'emissions'.
        count: how many best paths.
        emissions: scores of tags (length, batch, tags).
        lengths: (batch,).
    """
    if task == EMISSIONS:
        return head(emissions, None, lengths)
    if task == NBEST:
        paths, scores = head.nbest(emissions, count, lengths)
        chosen, given_before = head.path_posteriors(emissions, paths[:, 0], lengths)
        return paths, scores, chosen, given_before, head.normalizer(emissions, lengths)
    paths, scores = head.decode(emissions, lengths)
    if task == PATHS:
        return paths, scores
    chosen, given_before = head.path_posteriors(emissions, paths, lengths)
    return paths, scores, chosen, given_before


def _tagging(head: Head, scores_of: Callable, task: str, count: int, temperature: float) -> Callable:
    """The compiled function of a task, from lengths (B,) and what `scores_of` takes to what a decoder yields.

    Args:
        head: of the network.
        scores_of: gives scores of tags (L, B, K).
        task: 'paths', 'confidences' or 'nbest'.
        count: how many best paths.
        temperature: what these scores are divided by.
    """
    @ms.jit
    def tagged(lengths, *inputs):
        emissions = scores_of(*inputs)
        if temperature != 1:
            emissions = emissions / temperature
        return answer(head, task, count, emissions, lengths)

    return tagged


class GraphDecoder(Generic[E]):
    """Tags with a network in compiled graphs; to be inherited by what writes `inputs`.

    Args:
        network: a cell with a `head`, and `emissions_of`, which gives scores of tags (L, B, K), length first.
        vocabulary: its tags.
        encode: makes what `inputs` and `run` take of lists of tokens, none of them empty.
        compiled: is called with length, rows and seconds after a graph was compiled.
    """

    tasks = frozenset((PATHS, CONFIDENCES, NBEST))
    runs_graphs = True
    def __init__(self, network: nn.Cell, vocabulary: Tags, encode: Callable[[Sequence[list[str]]], E],
                 compiled: Compiled | None = None) -> None:
        self.network, self.vocabulary, self.encode, self.compiled = network, vocabulary, encode, compiled
        self._functions: dict[tuple[Callable, str, int], Callable] = {}
        self._seen: set[tuple[Callable, str, int, int]] = set()
        self._shapes: dict[int, TaggingShapes] = {}
        self.temperature = 1.0

    def method(self, encoded: E) -> Callable:
        """What makes scores of tags (L, B, K) of these sentences, from what `inputs` gives."""
        return self.network.emissions_of

    def inputs(self, encoded: E, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """The batches of sentences, each of at most so many.

        Yields:
            (length, rows) of the batch, indices of its sentences, and arrays: their lengths (rows,), then what
            `method(encoded)` takes.
        """
        raise NotImplementedError

    def run(self, encoded: E, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences, batch by batch; see `Decoder.run`."""
        rows = PLAIN_ROWS if ms.get_context('device_target') == 'CPU' and not custom.in_use() else ROWS
        method = self.method(encoded)
        at_most = max(1, min(rows, rows * FEW // count))          # the more paths, the fewer sentences at a time
        for (length, rows), indices, inputs in self.inputs(encoded, at_most):
            with graph_call():
                began = time.perf_counter()
                most = min(count, len(self.vocabulary.tags) ** length)
                key = method, task, most
                if key not in self._functions:
                    self._functions[key] = _tagging(self.network.head, *key, self.temperature)
                arrays = [tensor.asnumpy() for tensor in self._functions[key](*map(ms.from_numpy, inputs))]  # no copies
                new, seconds = (*key, length) not in self._seen, time.perf_counter() - began
                self._seen.add((*key, length))
            if new and self.compiled is not None:
                self.compiled(length, rows, seconds)
            yield indices, arrays

    def temper(self, temperature: float) -> None:
        """Divides all scores by a temperature, before anything is tagged: the best tags stay, posteriors change.

        Raises:
            OptionError: the head is neither a `CRF` nor a `Softmax`.
        """
        head = self.network.head
        if not isinstance(head, (CRF, Softmax)):
            raise OptionError(f'temperature must be 1 for a model with a head of its own, got {temperature:g}')
        self.temperature = temperature
        for parameter in head.trainable_params():
            parameter.set_data(parameter / temperature)

    def chain(self) -> Chain | None:
        """What its head adds to the scores of tags; None of a head that is neither a `CRF` nor a `Softmax`."""
        head = self.network.head
        if isinstance(head, Softmax):
            nothing = np.zeros(head.num_tags, np.float32)
            return Chain(np.zeros((head.num_tags,) * 2, np.float32), nothing, nothing, None, NOTHING)
        if not isinstance(head, CRF):
            return None
        return Chain(head.transitions.asnumpy(), head.start_transitions.asnumpy(), head.end_transitions.asnumpy(),
                     head.constraints, SCORES)

    def emissions(self, encoded: E) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Scores of each tag at each position, computed without compiling; see `ChainDecoder`."""
        method = self.method(encoded)
        for _, indices, inputs in self.inputs(encoded, PLAIN_ROWS):
            with graph_call():
                scores = method(*map(ms.from_numpy, inputs[1:])).asnumpy() / self.temperature    # (L, B, K)
            yield indices, [scores[:length, row].copy() for row, length in enumerate(encoded.lengths[indices].tolist())]

    def plan(self, lengths: np.ndarray, rows: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """((length, rows), indices of sentences) of batches of at most so many rows, the shortest sentences first."""
        return self._shapes.setdefault(rows, TaggingShapes(rows)).plan(lengths)


def constraints_of(options: Options, scheme: str, tags: Sequence[str]) -> Constraints | None:
    """What the `CRF` of a training takes as constraints: what the scheme allows, or None for everything."""
    if options.head == 'crf' and options.constraints and scheme != PLAIN:
        return allowed_transitions(scheme, tags)
    return None


def read_weights(run: SavedRun, parameters: Mapping[str, Parameter]) -> list[tuple[Parameter, ms.Tensor]]:
    """The weights of the best epoch, each with its parameter; raises as `load_weights`.

    Args:
        run: of the weights.
        parameters: by their names in the file.
    """
    arrays = run.tensors()
    records.check_fit(run.path / records.WEIGHTS, arrays,
                      {name: parameter.shape for name, parameter in parameters.items()})
    return [(parameter, ms.Tensor(arrays[name])) for name, parameter in parameters.items()]


def load_weights(run: SavedRun, network: nn.Cell) -> None:
    """Puts the weights of the best epoch into a network; raises CorpusError if they are damaged or do not fit."""
    for parameter, weight in read_weights(run, {one.name: one for one in network.trainable_params()}):
        parameter.set_data(weight)


class GraphInput(Generic[E]):
    """What makes the inputs of an exported graph from sentences; to be inherited.

    Args:
        vocabulary: the tags.
        encode: makes what `sizes` and `arrays` take of lists of tokens, none of them empty.

    Attributes:
        rows: sentences of a batch at most, where the graph takes any number.
        tokens: what `sizes` may add up to in a batch, filled up to the longest, where the graph takes any length.
        unit: what `sizes` counts, for messages.
    """

    rows: ClassVar[int] = 512
    tokens: ClassVar[int] = 16384
    unit: ClassVar[str] = 'tokens'

    def __init__(self, vocabulary: Tags, encode: Callable[[Sequence[list[str]]], E]) -> None:
        self.vocabulary, self.encode = vocabulary, encode

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs, all int32; None is an axis of any size.

        Args:
            static: (batch, length), or None for any.
        """
        raise NotImplementedError

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """Of the graph's parameters whose size follows from the record: (end of the name, what, how many, exactly).

        `what` names the rows in a message; where the number is not exact, there may be more rows.
        """
        return []

    def to_json(self) -> dict[str, Any]:
        """What another program needs to make inputs of sentences, and tags of outputs."""
        return self.vocabulary.to_json()

    def sizes(self, encoded: E) -> np.ndarray:
        """(sentences,): the length that each needs in a batch."""
        return encoded.lengths

    def arrays(self, encoded: E, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""
        raise NotImplementedError

    def shape(self, encoded: E, indices: np.ndarray, static: Static) -> tuple[int, int]:
        """(length, rows) of the batch of some sentences: as the graph takes it, or as large as they need."""
        rows, length = static or (len(indices), int(self.sizes(encoded)[indices].max()))
        return length, rows


class Served(CompilableMethods, nn.Cell):
    """A trained network without what only training needs.

    Args:
        network: a cell with a `head`, a `Head`; what inherits this makes emissions with it in `construct`.
        output: 'paths', 'confidences' or 'emissions'.

    `construct` returns of
        'paths': best paths (batch, length) int32, 0 on padding, and their scores (batch,).
        'confidences': these, the posterior of each tag of the paths (batch, length), and that of every tag given the
            path's tag before it (batch, length, tags).
        'emissions': what `post_decode` takes: score (batch, tags) and history (length - 1, batch, tags).
    """

    def __init__(self, network: nn.Cell, output: str = PATHS) -> None:
        super().__init__()
        self.network, self.output = network, output

    def tag(self, emissions, lengths):
        """What `construct` returns, from emissions (length, batch, tags)."""
        return answer(self.network.head, self.output, 1, emissions, lengths)
