"""A bidirectional LSTM over padded sentences, and `BiLSTM_CRF`: embedding, BiLSTM, projection and CRF in one cell.

The BiLSTM consists of two fused LSTMs, one for each direction; on CPU it is one C++ operator. It does not use
`nn.LSTM(bidirectional)(x, seq_length=...)`, which runs and compiles far more slowly on CPU, and whose seq_length
MindSpore has announced to remove.
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


# The name must be unique in the package: mixed precision writes the functions of several modules into one module.
@ops.constexpr(check=False)
def _check_bilstm(inputs: tuple, seq_length: tuple, units: int, *weights: tuple) -> None:
    """Raises ValueError unless shapes of inputs and weights fit; MindSpore's operator reads out of bounds otherwise.

    Args:
        inputs, seq_length: shapes.
        units: hidden units of each direction.
        weights: shapes of the weights of both directions.
    """
    if len(inputs) != 3:
        raise ValueError(f'inputs must be (length, batch, input_size), got shape {inputs}')
    validation.check_lengths_argument(('Int32', seq_length), inputs[1])
    gates, width = 4 * units, inputs[2]
    expected = ((gates, width), (gates, units), (gates,), (gates,)) * 2
    for shape, size in zip(weights, expected):
        if shape != size and width not in (None, -1):
            raise ValueError(f'the weights of a BiLSTM with {units} units in each direction must fit inputs '
                             f'{inputs}: expected shape {size}, got {shape}')


class FullLSTM(InFloat32, nn.LSTM):
    """LSTM in float32 under every level of mixed precision.

    In 16 bits, MindSpore 2.10 computes gradients of 0 for all weights of an LSTM on CPU, without a warning.
    """


class BiLSTM(CompilableMethods, nn.Cell):
    """Concatenated hidden states of a forward and a backward LSTM; padding has no influence.

    Args:
        input_size: width of the input.
        hidden_size: width of the output, half for each direction; even.
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
        """Returns the hidden states (length, batch, hidden_size).

        Args:
            inputs: (length, batch, input_size).
            seq_length: (batch,) integers, clipped to 0 to length.

        Returns:
            (length, batch, hidden_size); undefined on padding.
        """
        weights = self._weights(self.forward_lstm) + self._weights(self.backward_lstm)
        _check_bilstm(inputs.shape, seq_length.shape, self.units, *[weight.shape for weight in weights])
        if custom.in_use():
            return self.native(inputs, seq_length, *weights)
        span = in_range(seq_length, 1, inputs.shape[0])          # ReverseSequence does not accept 0
        forward, _ = self.forward_lstm(inputs)
        backward, _ = self.backward_lstm(self.reverse(inputs, span))
        return ops.concat((forward, self.reverse(backward, span)), 2)

    def gates(self, vectors, count):
        """Returns the part of the gates that depends only on the input vector; C++ on CPU, without gradients.

        For distinct word forms it can be computed once, before the positions of the forms are known.

        Args:
            vectors: (forms, input_size) float32.
            count: (1,) int32, the number of valid rows of `vectors`; results of other rows are undefined.

        Returns:
            (forms, 4 * hidden_size), the argument of `scores_of_gates`.
        """
        by_input, _, bias, other_bias = self._weights(self.forward_lstm)
        by_input_2, _, bias_2, other_bias_2 = self._weights(self.backward_lstm)
        flat = operators.gates_of_forms(vectors, count, by_input, bias, other_bias, by_input_2, bias_2, other_bias_2)
        return ops.reshape(flat, (vectors.shape[0], 2 * by_input.shape[0]))

    def scores_of_gates(self, gates, indices, seq_length, projection):
        """Returns a projection of the hidden states for the inputs `vectors[indices]`; C++ on CPU, without gradients.

        Args:
            gates: (forms, 4 * hidden_size), the result of `gates(vectors, ...)`.
            indices: (length, batch) int32, index of the form at each position; ignored on padding.
            seq_length: (batch,) integers.
            projection: an `nn.Dense` with a bias.

        Returns:
            (length, batch, width of the projection), 0 on padding.
        """
        flat = operators.scores_of_forms(gates, seq_length, self.forward_lstm.w_hh_list[0],
                                         self.backward_lstm.w_hh_list[0], indices, projection.weight, projection.bias)
        return ops.reshape(flat, (*indices.shape, projection.weight.shape[0]))

    def _weights(self, lstm):
        """Input weights, state weights and both biases of one direction."""
        return lstm.w_ih_list[0], lstm.w_hh_list[0], lstm.b_ih_list[0], lstm.b_hh_list[0]


@ops.constexpr(check=False)
def _check_tagger(inputs: validation.Described, seq_length: validation.Described) -> None:
    """Raises TypeError or ValueError unless types and shapes of the arguments fit."""
    dtype, shape = inputs
    validation.check_type('inputs', dtype, 'integers')
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f'inputs must be (batch, length) with no empty axis, got shape {shape}')
    validation.check_lengths_argument(seq_length, shape[0])


class BiLSTM_CRF(CompilableMethods, nn.Cell):
    """Embedding, BiLSTM, linear layer and CRF, batch first.

    The probability of a path is exp(score - normalizer) of the `emissions`, as in the layer `crf`.

    Args:
        vocab_size: number of token ids.
        embedding_dim: width of the vector of a token.
        hidden_dim: width of the output of the BiLSTM, half for each direction; even.
        num_tags: number of tags.
        padding_idx: id whose vector is initialized with zeros.
        reduction: reduction of the loss: 'none', 'sum', 'mean' over rows that are not empty, or 'token_mean'.
        constraints: the result of `allowed_transitions`, or None.
        check_values: whether to raise ValueError for invalid tags, lengths and emissions in PyNative mode.

    Example with two sentences of 4 and 2 tokens:
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
        validation.check_table_of_tags(num_tags)                     # before the projection is created
        self.embedding = nn.Embedding(int(vocab_size), int(embedding_dim), padding_idx=padding_idx)
        self.lstm = BiLSTM(embedding_dim, hidden_dim)
        self.hidden2tag = nn.Dense(hidden_dim, num_tags, 'he_uniform')
        self.crf = CRF(num_tags, batch_first=True, reduction=reduction, constraints=constraints,
                       check_values=check_values)

    def construct(self, inputs, seq_length, tags=None):
        """Returns the loss; without tags, score and history for `post_decode`.

        Args:
            inputs: (batch, length) token ids.
            seq_length: (batch,), number of real tokens of each row, 0 to length.
            tags: (batch, length), negative where unknown; or (batch, length, num_tags) bool, the tags that each
                token may have.

        Returns:
            The negative log likelihood, reduced. Without tags, scores (batch, num_tags) and history (length - 1, batch,
            num_tags).

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.crf(self.emissions(inputs, seq_length), tags, seq_length)

    def decode(self, inputs: Tensor, seq_length: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the best path of each row and its score.

        Args:
            inputs: (batch, length) token ids.
            seq_length: (batch,), number of real tokens of each row, 0 to length.

        Returns:
            Paths (batch, length) int32, 0 on padding, and scores (batch,).

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.crf.decode(self.emissions(inputs, seq_length), seq_length)

    def emissions(self, inputs: Tensor, seq_length: Tensor) -> Tensor:
        """Returns the score of each tag at each position, (batch, length, num_tags).

        Args:
            inputs: (batch, length) token ids.
            seq_length: (batch,), number of real tokens of each row, 0 to length.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        _check_tagger(describe('inputs', inputs), describe('seq_length', seq_length))
        vectors = ops.transpose(self.embedding(inputs), (1, 0, 2))   # (length, batch, embedding_dim)
        hidden = self.lstm(vectors, seq_length)                      # (length, batch, hidden_dim)
        return self.hidden2tag(ops.transpose(hidden, (1, 0, 2)))
