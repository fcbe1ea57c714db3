"""The cells that a `bprop` differentiates, and the cell that gives a packed gradient its derivative.

Shapes: L length, B batch, K tags. All cells take emissions, lengths, transitions, start and end of the chain. Cells of
the operators in C++ take them as the operators do, other cells as `inference.posteriors` does.
"""

from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.potentials import Masks
from ms_crf.crf.second_order import functions
from ms_crf.crf.second_order.copies import check_gradients, copied

from mindspore import nn, ops

_functions = copied(functions)
_zeros = ops.ZerosLike()
# Of the module: a cell with these cannot be copied. The second one takes what arrives at the result as its last input.
_differentiate, differentiate = ops.GradOperation(get_all=True), ops.GradOperation(get_all=True, sens_param=True)


class Pair(InFloat32, nn.Cell):
    """`functions.pair` of the loss if `with_tags`, else of the normaliser, which takes any integers as tags."""

    def __init__(self, with_tags: bool) -> None:
        super().__init__()
        self.with_tags = with_tags

    def construct(self, emissions, transitions, start, end, factors, tags, lengths):
        known = None
        if self.with_tags:
            known = ops.stop_gradient(tags)
        return _functions.pair(factors, emissions, known, ops.stop_gradient(lengths), transitions, start, end)


class OfOperators(InFloat32, nn.Cell):
    """A cell in the place of an operator in C++.

    Args:
        batch_first: layout of emissions and tags.
        masks: as `potentials.masks_of` returns them.
        with_tags: whether the last input is tags or paths, or any integers that have no part in the result.
    """

    def __init__(self, batch_first: bool, masks: Masks, with_tags: bool = False) -> None:
        super().__init__()
        self.batch_first, self.masks, self.with_tags = batch_first, masks, with_tags


class PairOfOperators(OfOperators):
    """`Pair` of a flat result."""

    def construct(self, emissions, transitions, start, end, factors, tags, lengths):
        known = None
        if self.with_tags:
            known = ops.stop_gradient(tags)
        return _functions.pair_of_flat(factors, emissions, known, ops.stop_gradient(lengths), transitions, start, end,
                                       self.masks, self.batch_first)


class GradientsOfOperators(OfOperators):
    """`functions.gradients`, with derivatives by a packed result and by factors alone."""

    def construct(self, packed, factors, emissions, lengths, transitions, start, end):
        return _functions.gradients(packed, factors, ops.stop_gradient(emissions), ops.stop_gradient(lengths),
                                    ops.stop_gradient(transitions), ops.stop_gradient(start), ops.stop_gradient(end),
                                    self.masks, self.batch_first)


class PosteriorsOfOperators(OfOperators):
    """`functions.path_posteriors` if `with_tags`, else `functions.marginals`."""

    def construct(self, emissions, transitions, start, end, lengths, paths):
        if self.with_tags:
            return _functions.path_posteriors(emissions, ops.stop_gradient(lengths), transitions, start, end,
                                              ops.stop_gradient(paths), self.masks, self.batch_first)
        return _functions.marginals(emissions, ops.stop_gradient(lengths), transitions, start, end, self.masks,
                                    self.batch_first)


class WithDerivative(InFloat32, nn.Cell):
    """A packed gradient as it is, with its derivative.

    The derivative is one more pass through the recursions, forward and backward. It is compiled and computed only where
    a gradient is differentiated. A graph refuses to compile a third derivative.

    Args:
        pair: a `Pair` or a `PairOfOperators`.
    """

    def __init__(self, pair: nn.Cell) -> None:
        super().__init__()
        self.pair = pair

    def construct(self, emissions, lengths, transitions, start, end, tags, packed):
        return packed

    def bprop(self, emissions, lengths, transitions, start, end, tags, packed, out, dout):
        gradients = _differentiate(self.pair)(emissions, transitions, start, end, dout, tags, lengths)
        # Graphs have no gradients for integers, PyNative mode has: the first ones are meant in both.
        check_gradients((gradients[0].shape, gradients[1].shape, gradients[2].shape, gradients[3].shape),
                        (emissions.shape, transitions.shape, start.shape, end.shape))
        return gradients[0], _zeros(lengths), gradients[1], gradients[2], gradients[3], _zeros(tags), _zeros(packed)
