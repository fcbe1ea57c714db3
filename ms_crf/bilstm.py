"""A bidirectional LSTM over padded sentences, from two fused LSTMs of one direction.

`nn.LSTM(bidirectional)(x, seq_length=...)` is far slower on CPU, in running as in compiling, and its
seq_length is announced to go.
"""

import mindspore as ms
from mindspore import nn, ops


class BiLSTM(nn.Cell):
    """Forward and backward hidden states side by side; padding is not seen by either.

    Args:
        input_size: width of the input.
        hidden_size: width of the output, half of it for each direction; even.
    """

    def __init__(self, input_size, hidden_size):
        super().__init__()
        if not isinstance(hidden_size, int) or isinstance(hidden_size, bool):
            raise TypeError(f'hidden_size must be an int, got {type(hidden_size).__name__}')
        if hidden_size < 2 or hidden_size % 2:
            raise ValueError(f'hidden_size must be even and at least 2, half for each direction, got {hidden_size}')
        self.forward_lstm = nn.LSTM(input_size, hidden_size // 2)
        self.backward_lstm = nn.LSTM(input_size, hidden_size // 2)
        self.reverse = ops.ReverseSequence(0, 1)

    def construct(self, inputs, seq_length):
        """(length, batch, input_size) and (batch,) to (length, batch, hidden_size)."""
        span = ops.maximum(seq_length.astype(ms.int32), 1)       # ReverseSequence takes no 0
        forward, _ = self.forward_lstm(inputs)
        backward, _ = self.backward_lstm(self.reverse(inputs, span))
        return ops.concat((forward, self.reverse(backward, span)), 2)
