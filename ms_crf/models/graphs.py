"""Tagging with a network in graphs: compiled here for batches of fixed shapes, or exported for other programs."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from ms_crf.base.environment import graph_call
from ms_crf.base.errors import OptionError
from ms_crf.crf.layer import CRF
from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.models.base import CONFIDENCES, EMISSIONS, NBEST, PATHS, Encoded
from ms_crf.models.bucketing import TaggingShapes
from ms_crf.models.chains import NOTHING, SCORES, Chain
from ms_crf.models.labels import Tags
from ms_crf.native import custom
from ms_crf.nn.softmax import Softmax
from ms_crf.runs import records

import mindspore as ms
import numpy as np
from mindspore import nn

ROWS = 256                 # sentences of a batch,
PLAIN_ROWS = 64            # or of plain operators on CPU; with more, what LSTMs work on leaves the processor's cache
FEW = 8                    # best paths of each sentence for which a batch has that many

# (batch, length) of a graph for that shape alone; None for one of any shape.
Static = tuple[int, int] | None


def _tagging(head: Any, scores_of: Callable, task: str, count: int, temperature: float) -> Callable:
    """The compiled function of a task, from lengths (B,) and what `scores_of` takes to what a decoder yields.

    Args:
        head: a `Head`.
        scores_of: gives scores of tags (L, B, K).
        task: 'paths', 'confidences' or 'nbest'.
        count: how many best paths.
        temperature: what these scores are divided by.
    """
    emissions_of = scores_of
    if temperature != 1:
        def emissions_of(*inputs):
            return scores_of(*inputs) / temperature

    @ms.jit
    def paths(lengths, *inputs):
        return head.decode(emissions_of(*inputs), lengths)

    @ms.jit
    def confidences(lengths, *inputs):
        emissions = emissions_of(*inputs)
        best, scores = head.decode(emissions, lengths)
        chosen, given_before = head.path_posteriors(emissions, best, lengths)
        return best, scores, chosen, given_before

    @ms.jit
    def nbest(lengths, *inputs):
        emissions = emissions_of(*inputs)
        best, scores = head.nbest(emissions, count, lengths)
        chosen, given_before = head.path_posteriors(emissions, best[:, 0], lengths)
        return best, scores, chosen, given_before, head.normalizer(emissions, lengths)

    return {PATHS: paths, CONFIDENCES: confidences, NBEST: nbest}[task]


class GraphDecoder:
    """Tags with a network in compiled graphs; to be inherited by what writes `encode` and `inputs`.

    Args:
        network: a cell with a `head`, and `emissions_of`, which gives scores of tags (L, B, K), length first.
        vocabulary: its tags.
        compiled: is called with length, rows and seconds after a graph was compiled.
    """

    tasks = frozenset((PATHS, CONFIDENCES, NBEST))
    runs_graphs = True
    vocabulary: Any

    def __init__(self, network: Any, vocabulary: Tags,
                 compiled: Callable[[int, int, float], None] | None = None) -> None:
        self.network, self.vocabulary, self.compiled = network, vocabulary, compiled
        self._functions: dict[tuple[Callable, str, int], Callable] = {}
        self._seen: set[tuple[Callable, str, int, int]] = set()
        self._shapes: dict[int, TaggingShapes] = {}
        self.temperature = 1.0

    def encode(self, sentences: list) -> Any:
        """Lists of tokens, none of them empty, as `inputs` and `run` take them."""
        raise NotImplementedError

    def method(self, encoded: Any) -> Callable:
        """What makes scores of tags (L, B, K) of these sentences, from what `inputs` gives."""
        return self.network.emissions_of

    def inputs(self, encoded: Any, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """The batches of sentences, each of at most so many.

        Yields:
            (length, rows) of the batch, indices of its sentences, and arrays: their lengths (rows,), then what
            `method(encoded)` takes.
        """
        raise NotImplementedError

    def run(self, encoded: Any, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list]]:
        """Tags sentences, batch by batch.

        Args:
            encoded: sentences as `encode` gives them.
            task: 'paths', 'confidences' or 'nbest'.
            count: how many best paths; fewer come where the longest sentence of a batch has fewer.

        Yields:
            indices of the sentences of a batch, and arrays, whose first rows are these sentences: of 'paths' the
            best paths (B, L) and their scores (B,); of 'confidences' also the posterior of each tag of the paths
            (B, L), and that of every tag given the path's tag before it (B, L, K); of 'nbest' paths (B, n, L) and
            scores (B, n), these two of the first path, and the normaliser (B,).
        """
        rows = PLAIN_ROWS if ms.get_context('device_target') == 'CPU' and not custom.in_use() else ROWS
        method = self.method(encoded)
        at_most = max(1, min(rows, rows * FEW // count))          # the more paths, the fewer sentences at a time
        for (length, rows), indices, inputs in self.inputs(encoded, at_most):
            with graph_call():
                began = time.perf_counter()
                most = min(count, len(self.vocabulary.tags) ** length)
                function = self._functions.get((method, task, most))
                if function is None:
                    function = _tagging(self.network.head, method, task, most, self.temperature)
                    self._functions[method, task, most] = function
                arrays = [tensor.asnumpy() for tensor in function(*map(ms.from_numpy, inputs))]   # without copying
                new, seconds = (method, task, most, length) not in self._seen, time.perf_counter() - began
                self._seen.add((method, task, most, length))
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

    def emissions(self, encoded: Any) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Scores of each tag at each position, computed without compiling; see `ChainDecoder`."""
        method = self.method(encoded)
        for _, indices, inputs in self.inputs(encoded, PLAIN_ROWS):
            with graph_call():
                scores = method(*map(ms.from_numpy, inputs[1:])).asnumpy() / self.temperature    # (L, B, K)
            yield indices, [scores[:length, row].copy()
                            for row, length in enumerate(encoded.lengths[indices].tolist())]

    def plan(self, lengths: np.ndarray, rows: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
        """((length, rows), indices of sentences) of batches of at most so many rows, the shortest sentences first."""
        return self._shapes.setdefault(rows, TaggingShapes(rows)).plan(lengths)


def read_weights(folder: Any, parameters: dict[str, Any]) -> list[tuple[Any, ms.Tensor]]:
    """The weights of a run's best epoch, each beside its parameter; raises as `load_weights`.

    Args:
        folder: the run directory.
        parameters: by their names in the file.
    """
    path = Path(folder) / records.WEIGHTS
    arrays = records.read_tensors(path)
    records.check_fit(path, arrays, {name: parameter.shape for name, parameter in parameters.items()})
    return [(parameter, ms.Tensor(arrays[name])) for name, parameter in parameters.items()]


def load_weights(folder: Any, network: Any) -> None:
    """Puts the weights of a run's best epoch into a network; raises CorpusError if they are damaged or don't fit."""
    for parameter, weight in read_weights(folder, {one.name: one for one in network.trainable_params()}):
        parameter.set_data(weight)


class GraphInput(Protocol):
    """What an exported graph is given: made of sentences, described by the record beside the graph."""

    @property
    def vocabulary(self) -> Tags:
        """The tags."""

    @property
    def rows(self) -> int:
        """Sentences of a batch at most, where the graph takes any number."""

    @property
    def tokens(self) -> int:
        """What `sizes` may add up to in a batch, filled up to the longest, where the graph takes any length."""

    @property
    def unit(self) -> str:
        """What `sizes` counts, for messages."""

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs, all int32; None is an axis of any size.

        Args:
            static: (batch, length), or None for any.
        """

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """Of the graph's parameters whose size follows from the record: (end of the name, what, how many, exactly).

        `what` names the rows in a message; where the number is not exact, there may be more rows.
        """

    def to_json(self) -> dict:
        """What another program needs to make inputs of sentences, and tags of what comes out."""

    def encode(self, sentences: list) -> Encoded:
        """Lists of tokens, none of them empty, as `sizes` and `arrays` take them."""

    def sizes(self, encoded: Any) -> np.ndarray:
        """(sentences,): the length that each needs in a batch."""

    def arrays(self, encoded: Any, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""


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

    def __init__(self, network: Any, output: str = PATHS) -> None:
        super().__init__()
        self.network, self.output = network, output

    def tag(self, emissions, lengths):
        """What `construct` returns, from emissions (length, batch, tags)."""
        head = self.network.head
        if self.output == EMISSIONS:
            return head(emissions, None, lengths)
        paths, scores = head.decode(emissions, lengths)
        if self.output == PATHS:
            return paths, scores
        chosen, given_before = head.path_posteriors(emissions, paths, lengths)
        return paths, scores, chosen, given_before
