"""Tagging with compiled graphs of fixed shapes, and the parts of exported graphs that all model types share."""

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

ROWS = 256                 # sentences in a batch
PLAIN_ROWS = 64            # the same with MindSpore's operators on CPU; more do not fit into the processor's cache
FEW = 8                    # with more best paths of each sentence than this, a batch has fewer sentences

# (batch, length) of a graph with a fixed shape; None for a graph that takes any shape.
Static = tuple[int, int] | None


def answer(head, task, count, emissions, lengths):
    """The result of a task, computed in a graph: the arrays that a decoder yields, or the input of `post_decode`.

    Args:
        head: a `Head`.
        task: 'paths', 'confidences', 'nbest' or 'emissions'.
        count: number of best paths, for 'nbest'.
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
    """The compiled function of a task: it takes lengths (B,) and the arguments of `scores_of`.

    Args:
        head: head of the network.
        scores_of: function that returns scores of tags (L, B, K).
        task: 'paths', 'confidences' or 'nbest'.
        count: number of best paths, for 'nbest'.
        temperature: divisor of the scores.
    """
    @ms.jit
    def tagged(lengths, *inputs):
        emissions = scores_of(*inputs)
        if temperature != 1:
            emissions = emissions / temperature
        return answer(head, task, count, emissions, lengths)

    return tagged


class GraphDecoder(Generic[E]):
    """Base class of decoders that run compiled graphs; subclasses write `inputs`.

    Args:
        network: a cell with a `head`, and with `emissions_of`, which returns scores of tags (L, B, K), length first.
        vocabulary: the tags.
        encode: converts non-empty lists of tokens to the input of `inputs` and `run`.
        compiled: is called with length, rows and seconds after each compilation of a graph.
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
        """The function that computes scores of tags (L, B, K) for these sentences from the arrays of `inputs`."""
        return self.network.emissions_of

    def inputs(self, encoded: E, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """The batches of encoded sentences, each with `at_most` sentences or fewer.

        Yields:
            (length, rows) of the batch, indices of its sentences, and a tuple of arrays: the lengths (rows,), then
            the arguments of `method(encoded)`.
        """
        raise NotImplementedError

    def run(self, encoded: E, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences in batches; see `Decoder.run`."""
        rows = PLAIN_ROWS if ms.get_context('device_target') == 'CPU' and not custom.in_use() else ROWS
        method = self.method(encoded)
        at_most = max(1, min(rows, rows * FEW // count))          # bounds the memory of many paths
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
        """Divides all scores by a temperature, before the first call of `run`: best paths stay, posteriors change.

        Raises:
            OptionError: the head is neither a `CRF` nor a `Softmax`.
        """
        head = self.network.head
        if not isinstance(head, (CRF, Softmax)):
            raise OptionError(f'temperature must be 1 for a model with a custom head, got {temperature:g}')
        self.temperature = temperature
        for parameter in head.trainable_params():
            parameter.set_data(parameter / temperature)

    def chain(self) -> Chain | None:
        """The scores of the head; None if the head is neither a `CRF` nor a `Softmax`."""
        head = self.network.head
        if isinstance(head, Softmax):
            nothing = np.zeros(head.num_tags, np.float32)
            return Chain(np.zeros((head.num_tags,) * 2, np.float32), nothing, nothing, None, NOTHING)
        if not isinstance(head, CRF):
            return None
        return Chain(head.transitions.asnumpy(), head.start_transitions.asnumpy(), head.end_transitions.asnumpy(),
                     head.constraints, SCORES)

    def emissions(self, encoded: E) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """The score of each tag at each position, computed without compiling a graph; see `ChainDecoder`."""
        method = self.method(encoded)
        for _, indices, inputs in self.inputs(encoded, PLAIN_ROWS):
            with graph_call():
                scores = method(*map(ms.from_numpy, inputs[1:])).asnumpy() / self.temperature    # (L, B, K)
            yield indices, [scores[:length, row].copy() for row, length in enumerate(encoded.lengths[indices].tolist())]

    def plan(self, lengths: np.ndarray, rows: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """((length, rows), indices of sentences) of batches of at most `rows` rows, shortest sentences first."""
        return self._shapes.setdefault(rows, TaggingShapes(rows)).plan(lengths)


def constraints_of(options: Options, scheme: str, tags: Sequence[str]) -> Constraints | None:
    """The constraints of the `CRF` of a training: the transitions that the tag scheme allows, or None for all."""
    if options.head == 'crf' and options.constraints and scheme != PLAIN:
        return allowed_transitions(scheme, tags)
    return None


def read_weights(run: SavedRun, parameters: Mapping[str, Parameter]) -> list[tuple[Parameter, ms.Tensor]]:
    """The weights of the best epoch, each with its parameter.

    Args:
        run: the run.
        parameters: the parameters by their names in the file.

    Raises:
        CorpusError: the weights are damaged or have other shapes.
    """
    arrays = run.tensors()
    records.check_fit(run.path / records.WEIGHTS, arrays,
                      {name: parameter.shape for name, parameter in parameters.items()})
    return [(parameter, ms.Tensor(arrays[name])) for name, parameter in parameters.items()]


def load_weights(run: SavedRun, network: nn.Cell) -> None:
    """Loads the weights of the best epoch into a network; raises CorpusError if they are damaged or do not fit."""
    for parameter, weight in read_weights(run, {each.name: each for each in network.trainable_params()}):
        parameter.set_data(weight)


class GraphInput(Generic[E]):
    """Base class of objects that convert sentences to the inputs of an exported graph.

    Args:
        vocabulary: the tags.
        encode: converts non-empty lists of tokens to the input of `sizes` and `arrays`.

    Attributes:
        rows: largest number of sentences in a batch, if the graph takes any number.
        tokens: largest number of positions in a batch with padding, if the graph takes any length.
        unit: the unit of `sizes`, for messages.
    """

    rows: ClassVar[int] = 512
    tokens: ClassVar[int] = 16384
    unit: ClassVar[str] = 'tokens'

    def __init__(self, vocabulary: Tags, encode: Callable[[Sequence[list[str]]], E]) -> None:
        self.vocabulary, self.encode = vocabulary, encode

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs, all int32; an axis of any size is None.

        Args:
            static: (batch, length), or None for any shape.
        """
        raise NotImplementedError

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """The parameters of the graph whose number of rows follows from the record.

        Returns:
            A list of (end of the parameter's name, description of a row for messages, number of rows, exact). If
            `exact` is false, the parameter may have more rows.
        """
        return []

    def to_json(self) -> dict[str, Any]:
        """The data that another program needs to compute inputs from sentences, and tags from outputs."""
        return self.vocabulary.to_json()

    def sizes(self, encoded: E) -> np.ndarray:
        """The length that each sentence needs in a batch: (sentences,)."""
        return encoded.lengths

    def arrays(self, encoded: E, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, for the sentences with the indices `indices`."""
        raise NotImplementedError

    def shape(self, encoded: E, indices: np.ndarray, static: Static) -> tuple[int, int]:
        """(length, rows) of a batch: the static shape of the graph, or the size that the sentences need."""
        rows, length = static or (len(indices), int(self.sizes(encoded)[indices].max()))
        return length, rows


class ExportCell(CompilableMethods, nn.Cell):
    """Base class of the cell of an exported graph: a trained network without the parts for training.

    Args:
        network: a cell with a `head`, a `Head`; subclasses compute emissions with the network in `construct`.
        output: 'paths', 'confidences' or 'emissions'.

    `construct` returns, depending on `output`:
        'paths': best paths (batch, length) int32, 0 on padding, and their scores (batch,).
        'confidences': also the posterior of each tag of the paths (batch, length), and the posterior of every tag
            given the previous tag of the path (batch, length, tags).
        'emissions': the input of `post_decode`: score (batch, tags) and history (length - 1, batch, tags).
    """

    def __init__(self, network: nn.Cell, output: str = PATHS) -> None:
        super().__init__()
        self.network, self.output = network, output

    def tag(self, emissions, lengths):
        """The result of `construct`, from emissions (length, batch, tags)."""
        return answer(self.network.head, self.output, 1, emissions, lengths)
