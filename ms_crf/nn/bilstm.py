"""A bidirectional LSTM over padded sentences, and the tagger with it as one cell: embedding, BiLSTM, projection, CRF.

The BiLSTM is made of two fused LSTMs of one direction; on CPU it is an operator in C++.

`nn.LSTM(bidirectional)(x, seq_length=...)` is far slower on CPU, in running as in compiling, and its
seq_length is announced to go.
"""

from collections.abc import Sequence

from ms_crf.base.memory import check_memory
from ms_crf.crf import validation
from ms_crf.crf.inputs import describe, in_range
from ms_crf.crf.layer import CRF
from ms_crf.crf.mindspore_fixes import CompilableMethods, InFloat32
from ms_crf.native import custom
from ms_crf.nn.operators import TwoDirections, operators

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


# A name that no other module has: mixed precision writes the functions of several modules into one.
@ops.constexpr(check=False)
def _check_bilstm(inputs: tuple, seq_length: tuple, units: int, *weights: tuple) -> None:
    """Shapes of the arguments and of the weights of both directions: MindSpore's operator reads beyond wrong ones."""
    if len(inputs) != 3:
        raise ValueError(f'inputs must be (length, batch, input_size), got shape {inputs}')
    validation.check_lengths_argument(('Int32', seq_length), inputs[1])
    gates, width = 4 * units, inputs[2]
    expected = ((gates, width), (gates, units), (gates,), (gates,)) * 2
    for shape, size in zip(weights, expected):
        if shape != size and width not in (None, -1):
            raise ValueError(f'the weights of a BiLSTM with {units} units in each direction must fit inputs '
                             f'{inputs}: one must have shape {size}, got {shape}')


class FullLSTM(InFloat32, nn.LSTM):
    """In float32: in 16 bits, MindSpore 2.10 gives all weights of an LSTM gradients of 0 on CPU, and says nothing."""


class BiLSTM(CompilableMethods, nn.Cell):
    """Forward and backward hidden states side by side; padding is not seen by either.

    Args:
        input_size: width of the input.
        hidden_size: width of the output, half of it for each direction; even.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        validation.check_count('input_size', input_size)
        validation.check_width('hidden_size', hidden_size)
        half = int(hidden_size) // 2
        check_memory(4 * 2 * 4 * half * (int(input_size) + half + 2),       # bytes, directions, gates
                     f'an LSTM with input_size = {input_size} and hidden_size = {hidden_size}')
        self.units = half
        lstm = FullLSTM if ms.get_context('device_target') == 'CPU' else nn.LSTM
        self.forward_lstm = lstm(int(input_size), half)
        self.backward_lstm = lstm(int(input_size), half)
        self.reverse = ops.ReverseSequence(0, 1)
        self.native = TwoDirections()

    def construct(self, inputs, seq_length):
        """(length, batch, input_size) and (batch,) to (length, batch, hidden_size).

        A length below 0 counts as 0, one above the padded length as that. What stands on padding is not to be read.
        """
        weights = self._weights(self.forward_lstm) + self._weights(self.backward_lstm)
        _check_bilstm(inputs.shape, seq_length.shape, self.units, *[weight.shape for weight in weights])
        if custom.in_use():
            return self.native(inputs, seq_length, *weights)
        span = in_range(seq_length, 1, inputs.shape[0])          # ReverseSequence takes no 0
        forward, _ = self.forward_lstm(inputs)
        backward, _ = self.backward_lstm(self.reverse(inputs, span))
        return ops.concat((forward, self.reverse(backward, span)), 2)

    def gates(self, vectors, count):
        """The part of this layer that can be computed before it is known where a form stands, on CPU in C++.

        Args:
            vectors: (forms, input_size) float32.
            count: (1,) int32, how many of them there are; the others may be anything.

        Returns:
            (forms, 4 hidden_size), for `scores_of_gates`; without gradients.
        """
        by_input, _, bias, other_bias = self._weights(self.forward_lstm)
        by_input_2, _, bias_2, other_bias_2 = self._weights(self.backward_lstm)
        flat = operators.gates_of_forms(vectors, count, by_input, bias, other_bias, by_input_2, bias_2, other_bias_2)
        return ops.reshape(flat, (vectors.shape[0], 2 * by_input.shape[0]))

    def scores_of_gates(self, gates, places, seq_length, projection):
        """What a projection makes of what the cell gives for `vectors[places]`; on CPU in C++, without gradients.

        Args:
            gates: (forms, 4 hidden_size), of the vectors.
            places: (length, batch) int32, which form stands there; anything on padding.
            seq_length: (batch,).
            projection: an `nn.Dense` with a bias.

        Returns:
            (length, batch, width of the projection), 0 on padding.
        """
        flat = operators.scores_of_forms(gates, seq_length, self.forward_lstm.w_hh_list[0],
                                         self.backward_lstm.w_hh_list[0], places, projection.weight, projection.bias)
        return ops.reshape(flat, (*places.shape, projection.weight.shape[0]))

    def _weights(self, lstm):
        return lstm.w_ih_list[0], lstm.w_hh_list[0], lstm.b_ih_list[0], lstm.b_hh_list[0]


@ops.constexpr(check=False)
def _check_tagger(inputs: validation.Described, seq_length: validation.Described) -> None:
    dtype, shape = inputs
    validation.check_type('inputs', dtype, 'integers')
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f'inputs must be (batch, length) with no empty axis, got shape {shape}')
    validation.check_lengths_argument(seq_length, shape[0])


class BiLSTM_CRF(CompilableMethods, nn.Cell):
    """Embedding, BiLSTM, a linear layer and a CRF, batch first.

    Args:
        vocab_size: number of token ids.
        embedding_dim: width of a token's vector.
        hidden_dim: width of the BiLSTM's output, half for each direction; even.
        num_tags: number of tags.
        padding_idx: the id whose vector starts as zeros.
        reduction: of the loss, as in `CRF`.
        constraints: as in `CRF`.
        check_values: as in `CRF`.

    It gives a path of tags the probability that its `crf` gives it: exp(score - normalizer) of the `emissions`.

    Example, of two sentences of 4 and 2 tokens:
        >>> import mindspore as ms
        >>> from ms_crf import BiLSTM_CRF
        >>> model = BiLSTM_CRF(vocab_size=50, embedding_dim=8, hidden_dim=16, num_tags=3)
        >>> inputs = ms.Tensor([[7, 12, 3, 41], [5, 12, 0, 0]])
        >>> tags = ms.Tensor([[0, 1, 2, 0], [1, 2, 0, 0]])
        >>> seq_length = ms.Tensor([4, 2])
        >>> loss = model(inputs, seq_length, tags)
        >>> bool(loss > 0)
        True
        >>> paths, scores = model.decode(inputs, seq_length)
        >>> log_normalizer = model.crf.normalizer(model.emissions(inputs, seq_length), seq_length)
        >>> probabilities = ms.ops.exp(scores - log_normalizer)
        >>> paths.shape, probabilities.shape
        ((2, 4), (2,))
    """

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_tags: int, padding_idx: int = 0,
                 reduction: str = 'sum', constraints: Sequence[np.ndarray] | None = None,
                 check_values: bool = False) -> None:
        super().__init__()
        validation.check_count('vocab_size', vocab_size)
        validation.check_count('embedding_dim', embedding_dim)
        check_memory(4 * int(vocab_size) * int(embedding_dim),
                     f'a table of vectors for vocab_size = {vocab_size} and embedding_dim = {embedding_dim}')
        validation.check_table_of_tags(num_tags)                     # before a projection of that width is made
        self.embedding = nn.Embedding(int(vocab_size), int(embedding_dim), padding_idx=padding_idx)
        self.lstm = BiLSTM(embedding_dim, hidden_dim)
        self.hidden2tag = nn.Dense(hidden_dim, num_tags, 'he_uniform')
        self.crf = CRF(num_tags, batch_first=True, reduction=reduction, constraints=constraints,
                       check_values=check_values)

    def construct(self, inputs, seq_length, tags=None):
        """The loss; without tags (score, history) as `post_decode` takes them.

        Args:
            inputs: (batch, length) token ids.
            seq_length: (batch,), 0 to length.
            tags: (batch, length); negative where not known.
        """
        return self.crf(self.emissions(inputs, seq_length), tags, seq_length)

    def decode(self, inputs: Tensor, seq_length: Tensor) -> tuple[Tensor, Tensor]:
        """Best paths (batch, length) int32, 0 on padding, and their scores (batch,)."""
        return self.crf.decode(self.emissions(inputs, seq_length), seq_length)

    def emissions(self, inputs: Tensor, seq_length: Tensor) -> Tensor:
        """Scores of each tag at each position: (batch, length, num_tags)."""
        _check_tagger(describe('inputs', inputs), describe('seq_length', seq_length))
        vectors = ops.transpose(self.embedding(inputs), (1, 0, 2))   # (length, batch, embedding_dim)
        hidden = self.lstm(vectors, seq_length)                      # (length, batch, hidden_dim)
        return self.hidden2tag(ops.transpose(hidden, (1, 0, 2)))
