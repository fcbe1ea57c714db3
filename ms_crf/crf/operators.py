"""The chain in C++: operators for MindSpore on CPU, as cells with gradients.

The C++ is in the folder `native`. It knows nothing of MindSpore but the form of a call.

Shapes: L length, B batch, K tags. A result is one flat tensor: a cell with its own `bprop` that returns several can't
always be compiled by MindSpore 2.10. All cells take the same first arguments:

    emissions: (L, B, K), or (B, L, K) with batch_first, float32, as the caller has them.
    lengths: (B,), any integers.
    transitions, start, end: (K, K), (K,), (K,) float32, as they are; entry (i, j) scores tag j after tag i.

Then follow inputs of their own, as operators.cpp says. What is differentiated a second time, and posteriors the first
time, are the plain operators of `gradients`.
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
    """Gradients by emissions, lengths, transitions, start and end, from what the operators give.

    Times 1, which a graph leaves out: in PyNative mode, a second derivative of two terms is lost where what `bprop`
    returns are mere views.
    """
    one, other, num_tags = emissions.shape
    count, squared = one * other * num_tags, num_tags * num_tags
    return (_reshape(_slice(flat, (0,), (count,)), (one, other, num_tags)) * 1.0, _zeros(lengths),
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
        self.settings = Tensor([int(batch_first)], ms.int32)
        self.allowed = Tensor([True])
        if constraints is not None:
            self.allowed = Tensor(np.concatenate([array.reshape(-1) for array in constraints]))


class _Gradients(_Native):
    """Gradients by emissions, transitions, start and end from a packed result and the factors of its values (B,)."""

    def __init__(self, batch_first: bool, constraints: Constraints | None) -> None:
        super().__init__(batch_first, constraints)
        self.by_graph = gradients.GradientsOfOperators(batch_first, masks_of(constraints))

    def construct(self, emissions, lengths, transitions, start, end, packed, factors):
        return operators.gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings, packed,
                                   factors)

    def bprop(self, emissions, lengths, transitions, start, end, packed, factors, out, dout):
        derived = gradients.differentiate(self.by_graph)(packed, factors, emissions, lengths, transitions, start, end,
                                                         dout)
        return (_zeros(emissions), _zeros(lengths), _zeros(transitions), _zeros(start), _zeros(end), derived[0],
                derived[1])


class PackedSum(_Native):
    """Packed: log of the sum over all paths (B,), marginals as emissions, expected transitions (B, K, K).

    With tags: minus log probability of the known tags (B,), and its gradients by emissions and transitions (B, K, K).
    Tags are (L, B), or (B, L) with batch_first, any integers, negative where not known; without tags any integers.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None, with_tags: bool) -> None:
        super().__init__(batch_first, constraints)
        self.with_tags = with_tags
        pair = gradients.PairOfOperators(batch_first, masks_of(constraints), with_tags)
        self.with_derivative = gradients.WithDerivative(pair)
        self.gradients = _Gradients(batch_first, constraints)

    def construct(self, emissions, lengths, transitions, start, end, tags):
        if self.with_tags:
            return operators.loss(emissions, lengths, transitions, start, end, self.allowed, self.settings, tags)
        return operators.normalizer(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, tags, out, dout):
        packed = self.with_derivative(emissions, lengths, transitions, start, end, tags, out)
        factors = _slice(dout, (0,), (lengths.shape[0],))
        flat = self.gradients(emissions, lengths, transitions, start, end, packed, factors)
        return (*_parts(flat, emissions, lengths), _zeros(tags))


class Posteriors(_Native):
    """Marginals in the layout of the emissions.

    With paths (B, L): posteriors of their tags (B, L), and of every tag after the path's tag before it (B, L, K), flat.
    Without paths the last argument may be any integers.
    """

    def __init__(self, batch_first: bool, constraints: Constraints | None, with_paths: bool) -> None:
        super().__init__(batch_first, constraints)
        self.with_paths = with_paths
        self.by_graph = gradients.PosteriorsOfOperators(batch_first, masks_of(constraints), with_paths)

    def construct(self, emissions, lengths, transitions, start, end, paths):
        if self.with_paths:
            return operators.path_posteriors(emissions, lengths, transitions, start, end, self.allowed, self.settings,
                                             paths)
        return operators.marginals(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, paths, out, dout):
        derived = gradients.differentiate(self.by_graph)(emissions, transitions, start, end, lengths, paths, dout)
        return derived[0], _zeros(lengths), derived[1], derived[2], derived[3], _zeros(paths)


class BestPaths(_Native):
    """Scores (B, n) of the n best paths, and the paths (B, n, L); n is the size of the last argument.

    With `single`, n is 1 and the best path is the lowest of equals from the end on.
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
    """Scores (B, K) of the best path to each tag, and the tags before (L - 1, B, K)."""

    def construct(self, emissions, lengths, transitions, start, end):
        return operators.viterbi(emissions, lengths, transitions, start, end, self.allowed, self.settings)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        factors = _slice(dout, (0,), (lengths.shape[0] * start.shape[0],))
        flat = operators.viterbi_gradients(emissions, lengths, transitions, start, end, self.allowed, self.settings,
                                           out, factors)
        return _parts(flat, emissions, lengths)
