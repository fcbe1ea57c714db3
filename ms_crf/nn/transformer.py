"""A transformer encoder as BERT and RoBERTa are: ids of subwords in, a vector for each out.

It is for weights that were trained elsewhere: its own are zeros until they are loaded.
"""

from ms_crf.crf.mindspore_fixes import CompilableMethods

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

HIDDEN = -1e9              # added to the score of what is not to be looked at

# Coefficients p for which x / (1 + exp(-x * p(x * x))) is x times the normal distribution function, to 7e-8: by least
# squares on 0 to 6.2, weighted until the largest error was least. The last is positive, so it holds beyond that too.
_NORMAL = tuple(2 * coefficient for coefficient in (
    0.7978842684073337, 0.03633414911899595, -3.3026702047400566e-05, -5.527338649793018e-05, 3.97407072166089e-06,
    -1.3378319613616753e-07, 1.8139271947901993e-09))


# Of the module: cells with operators cannot be pickled.
_product, _scores, _take = ops.MatMul(False, True), ops.BatchMatMul(False, True), ops.BatchMatMul()


def exact_gelu(values: Tensor) -> Tensor:
    """x times the normal distribution function, by the error function."""
    return ops.gelu(values, 'none')


def fast_gelu(values: Tensor) -> Tensor:
    """The same on CPU, where MindSpore's error function takes three times as long as the matrix product before it.

    (Its tanh is quick, but wrong by 1e-4 where it is close to 1; its sigmoid is right to 1e-6.)
    """
    square = values * values
    slope = _NORMAL[6] * square + _NORMAL[5]
    for coefficient in _NORMAL[4::-1]:
        slope = slope * square + coefficient
    return values * ops.sigmoid(values * slope)


def gelu_tanh(values: Tensor) -> Tensor:
    """The approximation of it by one tanh, which some models were trained with."""
    slope = 1.5957691216057308 + 0.07135481627260025 * values * values
    return values * ops.sigmoid(values * slope)


class Linear(CompilableMethods, nn.Cell):
    """Product with a matrix (outputs, inputs), and a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = Parameter(initializer('zeros', (outputs, inputs)), name='weight')
        self.bias = Parameter(initializer('zeros', (outputs,)), name='bias')

    def construct(self, values):
        """(rows, inputs) to (rows, outputs)."""
        return ops.bias_add(_product(values, self.weight), self.bias)


class Attention(CompilableMethods, nn.Cell):
    """Each subword takes from all subwords of its row, in each head by its own scores.

    Args:
        width: of a subword's vector.
        heads: number of attention heads; they divide the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.part = heads, width // heads
        self.inputs = Linear(width, 3 * width)
        self.output = Linear(width, width)

    def construct(self, values, mask, shape):
        """One step of the encoder.

        Args:
            values: (rows * length, width).
            mask: (rows, 1, 1 or length, length), added to the scores of what is looked at.
            shape: (rows, length).

        Returns:
            (rows * length, width).
        """
        query, key, value = ops.split(self.inputs(values), self.heads * self.part, 1)
        # Indexing one tensor of all three takes ten times as long on CPU.
        query, key, value = self._cut(query, shape), self._cut(key, shape), self._cut(value, shape)
        scores = _scores(query * self.part ** -0.5, key) + mask                 # (rows, heads, length, length)
        attended = _take(ops.softmax(scores, -1), value)                        # (rows, heads, length, part)
        attended = ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (shape[0] * shape[1], self.heads * self.part))
        return self.output(attended)

    def _cut(self, values: Tensor, shape: tuple[int, int]) -> Tensor:
        """(rows * length, width) to (rows, heads, length, part)."""
        return ops.transpose(ops.reshape(values, (shape[0], shape[1], self.heads, self.part)), (0, 2, 1, 3))


class Layer(CompilableMethods, nn.Cell):
    """Attention and a feed-forward, the norm after each sum.

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
        """As `Attention`."""
        values = self.attention_norm(values + self.attention(values, mask, shape))
        return self.norm(values + self.outer(self.activation(self.inner(values))))


class Encoder(CompilableMethods, nn.Cell):
    """Vectors of subwords in their sentence.

    Args:
        vocabulary: number of subwords.
        width: of a subword's vector.
        layers: their number.
        heads: of the attention; they divide the width.
        inner: width between the two products of a feed-forward.
        positions: rows of the table of positions.
        first_position: the row of the first subword.
        kinds: rows of the table of segment kinds, of which the first is used.
        activation: 'gelu', 'gelu_tanh' or 'relu'.
        epsilon: of layer norm.
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
        """The last hidden state.

        Args:
            subwords: (rows, length) int32 ids, the special ones among them.
            lengths: (rows,), 0 to length; what stands behind them does not matter.

        Returns:
            (rows, length, width).
        """
        positions = ops.arange(subwords.shape[1]).astype(ms.int32)
        hidden = ops.expand_dims(positions >= ops.expand_dims(lengths, 1), 1)       # (rows, 1, length)
        return self._read(subwords, positions, hidden)

    def packed(self, subwords: Tensor, windows: Tensor, positions: Tensor) -> Tensor:
        """The same of rows in which several windows stand side by side, unseen by each other.

        Args:
            subwords: (rows, length) int32 ids.
            windows: (rows, length), the index of each subword's window in its row, and another for what is in none.
            positions: (rows, length) int32, position in the window, from 0.

        Returns:
            (rows, length, width).
        """
        return self._read(subwords, positions, ops.expand_dims(windows, 2) != ops.expand_dims(windows, 1))

    def _read(self, subwords: Tensor, positions: Tensor, hidden: Tensor) -> Tensor:
        """hidden: (rows, 1 or length, length), what each subword does not see."""
        rows, length = subwords.shape
        mask = ops.expand_dims(hidden.astype(ms.float32) * HIDDEN, 1)
        offsets = ops.gather(self.positions, positions + self.first_position, 0) + self.kinds[0]
        values = ops.gather(self.pieces, ops.reshape(subwords, (-1,)), 0)           # (rows * length, width)
        values = ops.reshape(values, (rows, length, self.width)) + offsets
        values = self.norm(ops.reshape(values, (rows * length, self.width)))
        for layer in self.layers:
            values = layer(values, mask, (rows, length))
        return ops.reshape(values, (rows, length, self.width))
