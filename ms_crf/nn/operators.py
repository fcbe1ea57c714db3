"""C++ operators for MindSpore on CPU, as cells with gradients: a bidirectional LSTM and a convolution over characters.

The C++ sources are in the folder `native`. They depend on MindSpore only in the form of a call. lstm.cpp and
characters.cpp describe inputs and results. Each result is one flat float32 tensor.

Shapes: L length, B batch, D width of the input, H units of each direction. Inputs of the LSTM operators:

    inputs: (L, B, D) float32.
    lengths: (B,), any integers.
    weights, for each direction: input weights (4H, D), state weights (4H, H) and two biases (4H,), all float32. The
        order of the gates is input, forget, candidate, output. The second direction reads each sentence from its end.
"""

from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.native.custom import FLOATS, INT32, INTEGERS, Operators

import mindspore as ms
from mindspore import nn, ops

_zeros, _reshape, _slice = ops.ZerosLike(), ops.Reshape(), ops.Slice()
_OF_LSTM = [FLOATS, INTEGERS, *[FLOATS] * 8]
_OF_CHARACTERS = [FLOATS, FLOATS, INT32]
operators = Operators(f'{__name__}.in_library', {
    'states': ('LstmStates', _OF_LSTM),
    'gates_of_forms': ('LstmGatesOfForms', [FLOATS, INT32, *[FLOATS] * 6]),
    'scores_of_forms': ('LstmScoresOfForms', [FLOATS, INTEGERS, FLOATS, FLOATS, INT32, FLOATS, FLOATS]),
    'states_and_kept': ('LstmStatesAndKept', _OF_LSTM),
    'lstm_gradients': ('LstmGradients', [*_OF_LSTM, FLOATS, FLOATS]),
    'words_of_characters': ('CharactersWords', _OF_CHARACTERS),
    'character_gradients': ('CharactersGradients', [*_OF_CHARACTERS, FLOATS]),
})


def _part(flat, first, shape):
    """A matrix of this shape from a flat tensor, beginning at index `first`."""
    return _reshape(_slice(flat, (first,), (shape[0] * shape[1],)), shape)


def _gradients(flat, shape, by_state):
    """Gradients by the inputs and by the weights of both directions, from the flat result of the operator.

    Args:
        flat: the result.
        shape: shape of the inputs (L, B, D).
        by_state: shape of the state weights (4H, H).
    """
    length, batch, width = shape
    gates, units = by_state
    begin, size = length * batch * width, gates * (width + units + 1)
    first, second = _slice(flat, (begin,), (size,)), _slice(flat, (begin + size,), (size,))
    bias, other_bias = _slice(first, (size - gates,), (gates,)), _slice(second, (size - gates,), (gates,))
    return (_reshape(_slice(flat, (0,), (begin,)), (length, batch, width)),
            _part(first, 0, (gates, width)), _part(first, gates * width, (gates, units)), bias, bias,
            _part(second, 0, (gates, width)), _part(second, gates * width, (gates, units)), other_bias, other_bias)


class _Flat(InFloat32, nn.Cell):
    """The hidden states of the LSTM in a flat tensor.

    In training, values for the gradient follow the states in the tensor, so that the gradient need not compute them
    again.
    """

    def construct(self, inputs, lengths, by_input, by_state, bias, bias_b, by_input_2, by_state_2, bias_2, bias_2b):
        weights = by_input, by_state, bias, bias_b, by_input_2, by_state_2, bias_2, bias_2b
        if self.training:
            return operators.states_and_kept(inputs, lengths, *weights)
        return operators.states(inputs, lengths, *weights)

    def bprop(self, inputs, lengths, by_input, by_state, bias, bias_b, by_input_2, by_state_2, bias_2, bias_2b, out,
              dout):
        weights = by_input, by_state, bias, bias_b, by_input_2, by_state_2, bias_2, bias_2b
        kept = out if self.training else operators.states_and_kept(inputs, lengths, *weights)
        flat = operators.lstm_gradients(inputs, lengths, *weights, kept, dout)
        by_inputs, *by_weights = _gradients(flat, inputs.shape, by_state.shape)
        return (by_inputs, _zeros(lengths), *by_weights)


class TwoDirections(InFloat32, nn.Cell):
    """Concatenated hidden states of both directions (L, B, 2H), 0 on padding."""

    def __init__(self):
        super().__init__(auto_prefix=False)
        self.flat = _Flat()

    def construct(self, inputs, lengths, *weights):
        length, batch, _ = inputs.shape
        flat = self.flat(inputs.astype(ms.float32), ops.stop_gradient(lengths), *weights)
        width = 2 * weights[1].shape[1]
        if self.training:
            flat = _slice(flat, (0,), (length * batch * width,))
        return _reshape(flat, (length, batch, width))


class _FlatWords(InFloat32, nn.Cell):
    """The result of `CharacterWords` as a flat tensor."""

    def construct(self, table, filters, spellings):
        return operators.words_of_characters(table, filters, spellings)

    def bprop(self, table, filters, spellings, out, dout):
        flat = operators.character_gradients(table, filters, spellings, dout)
        return (_part(flat, 0, table.shape), _part(flat, table.shape[0] * table.shape[1], filters.shape),
                _zeros(spellings))


class CharacterWords(InFloat32, nn.Cell):
    """A convolution of width 3 over the characters of words, then the maximum of each filter and 0."""

    def __init__(self):
        super().__init__(auto_prefix=False)
        self.flat = _FlatWords()

    def construct(self, table, filters, spellings):
        """Returns the vectors of words (words, F).

        Args:
            table: vectors of characters (characters, D); the first one counts as 0.
            filters: (F, 3D).
            spellings: ids of characters (words, length).
        """
        flat = self.flat(table, filters, ops.stop_gradient(spellings).astype(ms.int32))
        return _reshape(flat, (spellings.shape[0], filters.shape[0]))
