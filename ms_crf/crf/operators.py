"""The C++ operators of the chain for MindSpore on CPU, as cells with gradients.

The C++ sources are in the folder `native`. They depend on MindSpore only in the form of a call.

Shapes: L length, B batch, K tags. Each operator returns one flat tensor: MindSpore 2.10 cannot always compile a cell
that has its own `bprop` and returns several tensors. The first arguments of all cells are:

    emissions: (L, B, K), or (B, L, K) with batch_first, float32, as passed by the caller.
    lengths: (B,), any integer type, as passed by the caller.
    transitions, start, end: (K, K), (K,), (K,) float32, without constraints; entry (i, j) scores tag j after tag i.

Further inputs follow; operators.cpp describes them. Second derivatives, and first derivatives of posteriors, are
computed by the plain operators in `gradients`.
"""

from ms_crf.crf import gradients
from ms_crf.crf.constraints import Constraints
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.potentials import masks_of
from ms_crf.native.custom import BOOL, FLOATS, INT32, INTEGERS, Operators

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

_zeros, _reshape, _slice = ops.ZerosLike(), ops.Reshape(), ops.Slice()
_SHARED = [FLOATS, INTEGERS, FLOATS, FLOATS, FLOATS, BOOL, INT32]
operators = Operators(f'{__name__}.in_library', {
    'normalizer': ('ChainNormalizer', _SHARED),
    'loss': ('ChainLoss', [*_SHARED, INTEGERS]),
    'gradients': ('ChainGradients', [*_SHARED, FLOATS, FLOATS]),
    'marginals': ('ChainMarginals', _SHARED),
    'path_posteriors': ('ChainPathPosteriors', [*_SHARED, INTEGERS]),
    'decode': ('ChainDecode', _SHARED),
    'viterbi': ('ChainViterbi', _SHARED),
    'n_best': ('ChainNBest', [*_SHARED, INT32]),
    'path_gradients': ('ChainPathGradients', [*_SHARED, FLOATS, FLOATS]),
    'viterbi_gradients': ('ChainViterbiGradients', [*_SHARED, FLOATS, FLOATS]),
})


def _parts(flat: Tensor, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients by emissions, lengths, transitions, start and end, from the flat result of an operator.

    The factor 1 has no cost in a graph. In PyNative mode, a second derivative loses one of two terms if `bprop` returns
    views.
    """
    one, other, num_tags = emissions.shape
    count, squared = one * other * num_tags, num_tags * num_tags
    return (_reshape(_slice(flat, (0,), (count,)), (one, other, num_tags)) * 1.0, _zeros(lengths),
            _reshape(_slice(flat, (count,), (squared,)), (num_tags, num_tags)) * 1.0,
            _slice(flat, (count + squared,), (num_tags,)) * 1.0,
            _slice(flat, (count + squared + num_tags,), (num_tags,)) * 1.0)


class _Native(InFloat32, nn.Cell):
    """Base class of the cells: the settings and the constraints, as tensors for the operators.

    Args:
        batch_first: layout of emissions and tags.
        constraints: bool arrays, or None.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__()
        self.settings = Tensor([int(batch_first)], ms.int32)
        self.allowed = Tensor([True])
        if constraints is not None:
            self.allowed = Tensor(np.concatenate([array.reshape(-1) for array in constraints]))


class _Gradients(_Native):
    """Flat gradients by emissions, transitions, start and end, from a packed result and a factor for each row (B,)."""

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.by_graph = gradients.FlatGradients(batch_first, masks_of(constraints))

    def construct(self, emissions, lengths, transitions, start, end, packed, factors):
        return operators.gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings, packed,
                                   factors)

    def bprop(self, emissions, lengths, transitions, start, end, packed, factors, out, dout):
        derived = gradients.differentiate(self.by_graph)(packed, factors, emissions, lengths, transitions, start, end,
                                                         dout)
        return (_zeros(emissions), _zeros(lengths), _zeros(transitions), _zeros(start), _zeros(end), derived[0],
                derived[1])


class NativePackedSum(_Native):
    """Log partition function or loss, packed with its gradients.

    Without tags: log of the sum over all paths (B,), marginals in the layout of the emissions, and expected transition
    counts (B, K, K). With tags: negative log probability of the known tags (B,), and its gradients by emissions and by
    transitions (B, K, K). The last input are the tags (L, B), or (B, L) with batch_first, any integers, negative where
    unknown; without tags any integers.

    Args:
        batch_first: layout of emissions and tags.
        constraints: bool arrays, or None.
        with_tags: True for the loss, False for the log partition function.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None, with_tags: bool) -> None:
        super().__init__(batch_first, constraints)
        self.with_tags = with_tags
        product = gradients.FlatGradientProduct(batch_first, masks_of(constraints), with_tags)
        self.with_second_derivative = gradients.WithSecondDerivative(product)
        self.gradients = _Gradients(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end, tags):
        if self.with_tags:
            return operators.loss(emissions, lengths, transitions, start, end, self.allowed, self.settings, tags)
        return operators.normalizer(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, tags, out, dout):
        packed = self.with_second_derivative(emissions, lengths, transitions, start, end, tags, out)
        factors = _slice(dout, (0,), (lengths.shape[0],))
        flat = self.gradients(emissions, lengths, transitions, start, end, packed, factors)
        return (*_parts(flat, emissions, lengths), _zeros(tags))


class Posteriors(_Native):
    """Marginals in the layout of the emissions, or posteriors of paths.

    With paths (B, L), the flat result has the posteriors of the tags of the paths (B, L), then the posterior of every
    tag given the previous tag of the path (B, L, K). Without paths, the last input may be any integers.

    Args:
        batch_first: layout of emissions.
        constraints: bool arrays, or None.
        with_paths: whether the last input are paths.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None, with_paths: bool) -> None:
        super().__init__(batch_first, constraints)
        self.with_paths = with_paths
        self.by_graph = gradients.FlatPosteriors(batch_first, masks_of(constraints), with_paths)

    def construct(self, emissions, lengths, transitions, start, end, paths):
        if self.with_paths:
            return operators.path_posteriors(emissions, lengths, transitions, start, end, self.allowed, self.settings,
                                             paths)
        return operators.marginals(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, paths, out, dout):
        derived = gradients.differentiate(self.by_graph)(emissions, transitions, start, end, lengths, paths, dout)
        return derived[0], _zeros(lengths), derived[1], derived[2], derived[3], _zeros(paths)


class BestPaths(_Native):
    """Scores (B, n) of the n best paths, then the paths (B, n, L), flat; n is the size of the last input.

    Args:
        batch_first: layout of emissions.
        constraints: bool arrays, or None.
        single: whether n is 1. Of paths with equal scores, the path with the lowest last tag is chosen then, and so on.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None, single: bool) -> None:
        super().__init__(batch_first, constraints)
        self.single = single

    def construct(self, emissions, lengths, transitions, start, end, several):
        if self.single:
            return operators.decode(emissions, lengths, transitions, start, end, self.allowed, self.settings)
        return operators.n_best(emissions, lengths, transitions, start, end, self.allowed, self.settings, several)

    def bprop(self, emissions, lengths, transitions, start, end, several, out, dout):
        factors = _slice(dout, (0,), (lengths.shape[0] * several.shape[0],))
        flat = operators.path_gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings, out,
                                        factors)
        return (*_parts(flat, emissions, lengths), _zeros(several))


class Viterbi(_Native):
    """Scores (B, K) of the best path to each tag, then the previous tags (L - 1, B, K), flat."""

    def construct(self, emissions, lengths, transitions, start, end):
        return operators.viterbi(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        factors = _slice(dout, (0,), (lengths.shape[0] * start.shape[0],))
        flat = operators.viterbi_gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings,
                                           out, factors)
        return _parts(flat, emissions, lengths)
