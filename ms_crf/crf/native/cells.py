"""The operators as cells with gradients.

Shapes: L length, B batch, K tags. A result is one flat tensor: a cell with its own `bprop` that returns several can't
always be compiled by MindSpore 2.10. All cells take the same first arguments:

    emissions: (L, B, K), or (B, L, K) with batch_first, float32, as the caller has them.
    lengths: (B,), any integers.
    transitions, start, end: (K, K), (K,), (K,) float32, as they are; entry (i, j) scores tag j after tag i.

What is differentiated a second time, and posteriors the first time, are the plain operators of `reference`.
"""

from typing import Any

from ms_crf.crf.constraints import Constraints
from ms_crf.crf.curvature import copied
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.native import operators, reference

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

_zeros, _reshape, _slice = ops.ZerosLike(), ops.Reshape(), ops.Slice()
_reference = copied(reference)
# Of the module: cells with these cannot be copied.
_differentiate = ops.GradOperation(get_all=True)
_differentiate_times = ops.GradOperation(get_all=True, sens_param=True)


def _parts(flat: Tensor, emissions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients by emissions, transitions, start and end, from what the operators give.

    Times 1, which a graph leaves out: in PyNative mode, a second derivative of two terms is lost where what `bprop`
    returns are mere views.
    """
    one, other, num_tags = emissions.shape
    count, squared = one * other * num_tags, num_tags * num_tags
    return (_reshape(_slice(flat, (0,), (count,)), (one, other, num_tags)) * 1.0,
            _reshape(_slice(flat, (count,), (squared,)), (num_tags, num_tags)) * 1.0,
            _slice(flat, (count + squared,), (num_tags,)) * 1.0,
            _slice(flat, (count + squared + num_tags,), (num_tags,)) * 1.0)


class _Native(InFloat32, nn.Cell):
    """What the cells share: settings, and what constraints allow.

    Args:
        batch_first: layout of emissions and tags.
        constraints: bool arrays, or None.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.settings = Tensor([int(batch_first)], ms.int32)
        self.allowed = Tensor([True])
        self.open = None
        if constraints is not None:
            self.allowed = Tensor(np.concatenate([array.reshape(-1) for array in constraints]))
            self.open = Tensor(self.allowed.asnumpy().astype(np.int32))


class _Pair(_Native):
    """`reference.pair`, with tags or, of the normaliser, without."""

    def __init__(self, batch_first: bool, constraints: Constraints | None, with_tags: bool) -> None:
        super().__init__(batch_first, constraints)
        self.with_tags = with_tags

    def construct(self, emissions, transitions, start, end, factors, lengths, tags):
        known = None
        if self.with_tags:
            known = ops.stop_gradient(tags)
        return _reference.pair(factors, emissions, ops.stop_gradient(lengths), known, transitions, start, end,
                               self.open, self.batch_first)


class _WithDerivative(_Native):
    """A packed result as it is, with the derivative of the gradients in it."""

    def __init__(self, batch_first: bool, constraints: Constraints | None, with_tags: bool) -> None:
        super().__init__(batch_first, constraints)
        self.pair = _Pair(batch_first, constraints, with_tags)

    def construct(self, emissions, lengths, transitions, start, end, tags, packed):
        return packed

    def bprop(self, emissions, lengths, transitions, start, end, tags, packed, out, dout):
        gradients = _differentiate(self.pair)(emissions, transitions, start, end, dout, lengths, tags)
        return gradients[0], _zeros(lengths), gradients[1], gradients[2], gradients[3], _zeros(tags), _zeros(packed)


class _GradientsByGraph(_Native):
    def construct(self, packed, factors, emissions, lengths, transitions, start, end):
        return _reference.gradients(packed, factors, ops.stop_gradient(emissions), ops.stop_gradient(lengths),
                                    ops.stop_gradient(transitions), ops.stop_gradient(start), ops.stop_gradient(end),
                                    self.open, self.batch_first)


class _Gradients(_Native):
    """Gradients by emissions, transitions, start and end from a packed result and the factors of its values (B,)."""

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.by_graph = _GradientsByGraph(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end, packed, factors):
        return operators.gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings, packed,
                                   factors)

    def bprop(self, emissions, lengths, transitions, start, end, packed, factors, out, dout):
        gradients = _differentiate_times(self.by_graph)(packed, factors, emissions, lengths, transitions, start, end,
                                                      dout)
        return (_zeros(emissions), _zeros(lengths), _zeros(transitions), _zeros(start), _zeros(end), gradients[0],
                gradients[1])


class Normalizer(_Native):
    """Packed: log of the sum over all paths (B,), marginals as emissions, expected transitions (B, K, K)."""

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.with_derivative = _WithDerivative(batch_first, constraints, False)
        self.gradients = _Gradients(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end):
        return operators.normalizer(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        packed = self.with_derivative(emissions, lengths, transitions, start, end, lengths, out)
        factors = _slice(dout, (0,), (lengths.shape[0],))
        flat = self.gradients(emissions, lengths, transitions, start, end, packed, factors)
        by_emissions, by_transitions, by_start, by_end = _parts(flat, emissions)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end


class Loss(_Native):
    """Packed: minus log probability of the known tags (B,), and its gradients: by emissions, by transitions (B, K, K).

    Tags are (L, B), or (B, L) with batch_first, any integers, negative where not known.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.with_derivative = _WithDerivative(batch_first, constraints, True)
        self.gradients = _Gradients(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end, tags):
        return operators.loss(emissions, lengths, transitions, start, end, self.allowed, self.settings, tags)

    def bprop(self, emissions, lengths, transitions, start, end, tags, out, dout):
        packed = self.with_derivative(emissions, lengths, transitions, start, end, tags, out)
        factors = _slice(dout, (0,), (lengths.shape[0],))
        flat = self.gradients(emissions, lengths, transitions, start, end, packed, factors)
        by_emissions, by_transitions, by_start, by_end = _parts(flat, emissions)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end, _zeros(tags)


class _MarginalsByGraph(_Native):
    def construct(self, emissions, transitions, start, end, lengths):
        return _reference.marginals(emissions, ops.stop_gradient(lengths), transitions, start, end, self.open,
                                    self.batch_first)


class Marginals(_Native):
    """Posteriors, as emissions."""

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.by_graph = _MarginalsByGraph(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end):
        return operators.marginals(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        gradients = _differentiate_times(self.by_graph)(emissions, transitions, start, end, lengths, dout)
        return gradients[0], _zeros(lengths), gradients[1], gradients[2], gradients[3]


class _PathPosteriorsByGraph(_Native):
    def construct(self, emissions, transitions, start, end, lengths, paths):
        return _reference.path_posteriors(emissions, ops.stop_gradient(lengths), transitions, start, end,
                                          ops.stop_gradient(paths), self.open, self.batch_first)


class PathPosteriors(_Native):
    """Of paths (B, L): posteriors of their tags (B, L), and of every tag after the path's tag before it (B, L, K)."""

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.by_graph = _PathPosteriorsByGraph(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end, paths):
        return operators.path_posteriors(emissions, lengths, transitions, start, end, self.allowed, self.settings,
                                         paths)

    def bprop(self, emissions, lengths, transitions, start, end, paths, out, dout):
        gradients = _differentiate_times(self.by_graph)(emissions, transitions, start, end, lengths, paths, dout)
        return gradients[0], _zeros(lengths), gradients[1], gradients[2], gradients[3], _zeros(paths)


class Decode(_Native):
    """Scores (B,) of the best paths, and the paths (B, L)."""

    def construct(self, emissions, lengths, transitions, start, end):
        return operators.decode(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        factors = _slice(dout, (0,), (lengths.shape[0],))
        flat = operators.path_gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings, out,
                                        factors)
        by_emissions, by_transitions, by_start, by_end = _parts(flat, emissions)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end


class Viterbi(_Native):
    """Scores (B, K) of the best path to each tag, and the tags before (L - 1, B, K)."""

    def construct(self, emissions, lengths, transitions, start, end):
        return operators.viterbi(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        factors = _slice(dout, (0,), (lengths.shape[0] * start.shape[0],))
        flat = operators.viterbi_gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings,
                                           out, factors)
        by_emissions, by_transitions, by_start, by_end = _parts(flat, emissions)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end


class NBest(_Native):
    """Scores (B, n) of the n best paths, and the paths (B, n, L); n is the size of the last argument."""

    def construct(self, emissions, lengths, transitions, start, end, several):
        return operators.n_best(emissions, lengths, transitions, start, end, self.allowed, self.settings, several)

    def bprop(self, emissions, lengths, transitions, start, end, several, out, dout):
        factors = _slice(dout, (0,), (lengths.shape[0] * several.shape[0],))
        flat = operators.path_gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings, out,
                                        factors)
        by_emissions, by_transitions, by_start, by_end = _parts(flat, emissions)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end, _zeros(several)


class Chain(nn.Cell):
    """All of them, for one layer.

    Args:
        batch_first: layout of emissions and tags.
        constraints: bool arrays, or None.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None = None) -> None:
        super().__init__(auto_prefix=False)
        self.loss, self.normalizer = Loss(batch_first, constraints), Normalizer(batch_first, constraints)
        self.marginals = Marginals(batch_first, constraints)
        self.path_posteriors = PathPosteriors(batch_first, constraints)
        self.decode, self.viterbi = Decode(batch_first, constraints), Viterbi(batch_first, constraints)
        self.n_best = NBest(batch_first, constraints)


def scores_and_history(flat: Tensor, length: int, batch: int, num_tags: int) -> tuple[Tensor, Any]:
    """From what `Viterbi` gives: scores (B, K), and the tags before (L - 1, B, K), an empty tuple if L is 1."""
    count = batch * num_tags
    history = ()
    if length > 1:
        history = ops.stop_gradient(flat[count:]).astype(ms.int64).reshape(length - 1, batch, num_tags)
    return flat[:count].reshape(batch, num_tags), history


def scores_and_paths(flat: Tensor, length: int, batch: int, n: int) -> tuple[Tensor, Tensor]:
    """From what `NBest` gives: scores (B, n), and paths (B, n, L) int32."""
    count = batch * n
    return flat[:count].reshape(batch, n), ops.stop_gradient(flat[count:]).astype(ms.int32).reshape(batch, n, length)
