"""A bidirectional LSTM by the operators, as a cell with a gradient.

Shapes: L length, B batch, D width of the input, H units of each direction. What the operators take:

    lengths: (B,), any integers.
    first_weights, second_weights: (4H, H) float32, by the state before; gates in the order input, forget, candidate,
        output. The second direction reads each sentence from its end.
    first_bias, second_bias: (4H,) float32.
    first, second: (L, B, 4H) float32, products of the input with the weights of each direction.

The products with large matrices are MindSpore's: the operators do what goes from step to step.
"""

from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.nn.native import operators

import mindspore as ms
from mindspore import nn, ops

_zeros, _reshape, _slice = ops.ZerosLike(), ops.Reshape(), ops.Slice()
_concat = ops.Concat(0)
_product, _product_of_transposed = ops.MatMul(), ops.MatMul(transpose_a=True)
_product_by_transposed = ops.MatMul(transpose_b=True)


class Recurrence(InFloat32, nn.Cell):
    """One flat tensor that begins with the states (L, B, 2H), 0 on padding; in training what the gradient needs follows,
    so that it is not computed again."""

    def construct(self, lengths, first_weights, second_weights, first_bias, second_bias, first, second):
        if self.training:
            return operators.states_and_kept(lengths, first_weights, second_weights, first_bias, second_bias, first,
                                             second)
        return operators.states(lengths, first_weights, second_weights, first_bias, second_bias, first, second)

    def bprop(self, lengths, first_weights, second_weights, first_bias, second_bias, first, second, out, dout):
        length, batch, gates = first.shape
        places, units = length * batch, gates // 4
        size = places * 2 * units
        kept = out
        if not self.training:
            kept = operators.states_and_kept(lengths, first_weights, second_weights, first_bias, second_bias, first,
                                             second)
        flat = operators.gradients(lengths, first_weights, second_weights, first_bias, second_bias, first, second, kept,
                                   _slice(dout, (0,), (size,)))
        by_first = _reshape(_slice(flat, (0,), (places * gates,)), (places, gates))
        by_second = _reshape(_slice(flat, (places * gates,), (places * gates,)), (places, gates))
        states = _reshape(_slice(kept, (0,), (size,)), (places, 2 * units))
        # The states before, of the second direction those behind; 0 where there are none, as behind each sentence.
        nothing, count = ops.zeros((batch, units), ms.float32), places - batch
        before = _concat((nothing, _slice(states, (0, 0), (count, units))))
        behind = _concat((_slice(states, (batch, units), (count, units)), nothing))
        ones = ops.ones((1, places), ms.float32)
        return (_zeros(lengths), _product_of_transposed(by_first, before), _product_of_transposed(by_second, behind),
                _reshape(_product(ones, by_first), (gates,)), _reshape(_product(ones, by_second), (gates,)),
                _reshape(by_first, (length, batch, gates)), _reshape(by_second, (length, batch, gates)))


class TwoDirections(InFloat32, nn.Cell):
    """The states of both directions side by side, 0 on padding, from an input (L, B, D) and lengths (B,).

    Of each direction it is given weights by the input (4H, D) and by the state before (4H, H), and the bias of each.
    """

    def __init__(self):
        super().__init__(auto_prefix=False)
        self.recurrence = Recurrence()

    def construct(self, inputs, lengths, first_by_input, first_by_state, first_bias, first_other_bias, second_by_input,
                  second_by_state, second_bias, second_other_bias):
        length, batch, width = inputs.shape
        gates, units = first_by_state.shape
        rows = _reshape(inputs.astype(ms.float32), (length * batch, width))
        first = _reshape(_product_by_transposed(rows, first_by_input), (length, batch, gates))
        second = _reshape(_product_by_transposed(rows, second_by_input), (length, batch, gates))
        flat = self.recurrence(ops.stop_gradient(lengths), first_by_state, second_by_state,
                               first_bias + first_other_bias, second_bias + second_other_bias, first, second)
        return _reshape(_slice(flat, (0,), (length * batch * 2 * units,)), (length, batch, 2 * units))
