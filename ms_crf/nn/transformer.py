"""A transformer encoder like BERT and RoBERTa: from ids of subwords to a vector for each subword.

It is used with pretrained weights: all parameters are 0 until weights are loaded.
"""

from ms_crf.crf.mindspore_fixes import CompilableMethods

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

HIDDEN = -1e9              # added to the attention score of hidden subwords

# Coefficients of p such that x / (1 + exp(-x * p(x * x))) is x times the normal distribution function, with an error of
# 7e-8. They are a weighted least squares fit on 0 to 6.2 that minimizes the largest error. The last coefficient is
# positive, so the approximation also holds above 6.2.
_NORMAL = tuple(2 * coefficient for coefficient in (
    0.7978842684073337, 0.03633414911899595, -3.3026702047400566e-05, -5.527338649793018e-05, 3.97407072166089e-06,
    -1.3378319613616753e-07, 1.8139271947901993e-09))


# In the module, because cells with operators cannot be pickled.
_product, _scores, _take = ops.MatMul(False, True), ops.BatchMatMul(False, True), ops.BatchMatMul()


def exact_gelu(values: Tensor) -> Tensor:
    """x times the normal distribution function, computed with the error function."""
    return ops.gelu(values, 'none')


def fast_gelu(values: Tensor) -> Tensor:
    """x times the normal distribution function, approximated for CPU with an error below 1e-7.

    MindSpore's error function on CPU takes three times as long as the matrix product before it. Its tanh is fast, but
    has errors of 1e-4 for results close to 1; its sigmoid has errors of 1e-6.
    """
    square = values * values
    slope = _NORMAL[6] * square + _NORMAL[5]
    for coefficient in _NORMAL[4::-1]:
        slope = slope * square + coefficient
    return values * ops.sigmoid(values * slope)


def gelu_tanh(values: Tensor) -> Tensor:
    """The approximation of gelu with tanh, with which some models were trained."""
    slope = 1.5957691216057308 + 0.07135481627260025 * values * values
    return values * ops.sigmoid(values * slope)


class Linear(CompilableMethods, nn.Cell):
    """Linear layer: product with a matrix (outputs, inputs), plus a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = Parameter(initializer('zeros', (outputs, inputs)), name='weight')
        self.bias = Parameter(initializer('zeros', (outputs,)), name='bias')

    def construct(self, values):
        """Returns (rows, outputs) for values (rows, inputs)."""
        return ops.bias_add(_product(values, self.weight), self.bias)


class Attention(CompilableMethods, nn.Cell):
    """Multi-head self-attention among the subwords of a row.

    Args:
        width: width of the vector of a subword.
        heads: number of attention heads; it divides the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.part = heads, width // heads
        self.inputs = Linear(width, 3 * width)
        self.output = Linear(width, width)

    def construct(self, values, mask, shape):
        """Returns the attended values (rows * length, width).

        Args:
            values: (rows * length, width).
            mask: (rows, 1, 1 or length, length), added to the attention scores.
            shape: (rows, length).
        """
        query, key, value = ops.split(self.inputs(values), self.heads * self.part, 1)
        # Three tensors: indexing one tensor that contains all three takes ten times as long on CPU.
        query, key = self._split_heads(query, shape), self._split_heads(key, shape)
        value = self._split_heads(value, shape)
        scores = _scores(query * self.part ** -0.5, key) + mask                 # (rows, heads, length, length)
        attended = _take(ops.softmax(scores, -1), value)                        # (rows, heads, length, part)
        attended = ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (shape[0] * shape[1], self.heads * self.part))
        return self.output(attended)

    def _split_heads(self, values: Tensor, shape: tuple[int, int]) -> Tensor:
        """Values (rows * length, width) as (rows, heads, length, width of a head)."""
        return ops.transpose(ops.reshape(values, (shape[0], shape[1], self.heads, self.part)), (0, 2, 1, 3))


class Layer(CompilableMethods, nn.Cell):
    """Attention and a feed-forward network, with layer normalization after each sum.

    Args:
        width, heads, inner, activation, epsilon: as in `Encoder`.
    """

    def __init__(self, width: int, heads: int, inner: int, activation: str, epsilon: float) -> None:
        super().__init__()
        gelu = fast_gelu if ms.get_context('device_target') == 'CPU' else exact_gelu
        self.attention = Attention(width, heads)
        self.attention_norm = nn.LayerNorm((width,), epsilon=epsilon)
        self.inner = Linear(width, inner)
        self.activation = {'gelu': gelu, 'gelu_tanh': gelu_tanh, 'relu': ops.relu}[activation]
        self.outer = Linear(inner, width)
        self.norm = nn.LayerNorm((width,), epsilon=epsilon)

    def construct(self, values, mask, shape):
        """Returns (rows * length, width); the arguments are described in `Attention.construct`."""
        values = self.attention_norm(values + self.attention(values, mask, shape))
        return self.norm(values + self.outer(self.activation(self.inner(values))))


class Encoder(CompilableMethods, nn.Cell):
    """Vectors of subwords in their context.

    Args:
        vocabulary: number of subwords.
        width: width of the vector of a subword.
        layers: number of layers.
        heads: number of attention heads; it divides the width.
        inner: inner width of the feed-forward network.
        positions: rows of the table of position vectors.
        first_position: row of the first subword in this table.
        kinds: rows of the table of segment vectors, of which only the first is used.
        activation: 'gelu', 'gelu_tanh' or 'relu'.
        epsilon: epsilon of layer normalization.
    """

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, inner: int, positions: int,
                 first_position: int, kinds: int, activation: str, epsilon: float) -> None:
        super().__init__()
        self.width, self.first_position = width, first_position
        for name, rows in {'pieces': vocabulary, 'positions': positions, 'kinds': kinds}.items():
            setattr(self, name, Parameter(initializer('zeros', (rows, width)), name=name))
        self.norm = nn.LayerNorm((width,), epsilon=epsilon)
        self.layers = nn.CellList([Layer(width, heads, inner, activation, epsilon) for _ in range(layers)])

    def construct(self, subwords, lengths):
        """Returns the last hidden states (rows, length, width).

        Args:
            subwords: (rows, length) int32 ids, including special subwords.
            lengths: (rows,), 0 to length; ids after these lengths have no effect.
        """
        positions = ops.arange(subwords.shape[1]).astype(ms.int32)
        hidden = ops.expand_dims(positions >= ops.expand_dims(lengths, 1), 1)       # (rows, 1, length)
        return self._read(subwords, positions, hidden)

    def packed(self, subwords: Tensor, windows: Tensor, positions: Tensor) -> Tensor:
        """Returns the last hidden states (rows, length, width) of rows that contain several windows side by side.

        Windows do not attend to each other.

        Args:
            subwords: (rows, length) int32 ids.
            windows: (rows, length), the index in the row of the window of each subword, and another number outside
                of all windows.
            positions: (rows, length) int32, position of each subword in its window, from 0.
        """
        return self._read(subwords, positions, ops.expand_dims(windows, 2) != ops.expand_dims(windows, 1))

    def _read(self, subwords: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        """Last hidden states (rows, length, width).

        Args:
            subwords: (rows, length) int32 ids.
            positions: positions in the window, from 0; (length,) or (rows, length).
            hidden: (rows, 1 or length, length) bool, the subwords to which each subword does not attend.
        """
        rows, length = subwords.shape
        mask = ops.expand_dims(hidden.astype(ms.float32) * HIDDEN, 1)
        offsets = ops.gather(self.positions, positions + self.first_position, 0) + self.kinds[0]
        values = ops.gather(self.pieces, ops.reshape(subwords, (-1,)), 0)           # (rows * length, width)
        values = ops.reshape(values, (rows, length, self.width)) + offsets
        values = self.norm(ops.reshape(values, (rows * length, self.width)))
        for layer in self.layers:
            values = layer(values, mask, (rows, length))
        return ops.reshape(values, (rows, length, self.width))
