"""A vector for each word from its characters: by a convolution, or by a bidirectional LSTM."""

from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.native import custom
from ms_crf.nn.bilstm import BiLSTM
from ms_crf.nn.operators import CharacterWords

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Uniform, initializer

PADDING = 0


class CharacterTable(CompilableMethods, nn.Cell):
    """Vectors of characters; the vector of padding is always zero.

    Args:
        num_characters: number of character ids; 0 is padding.
        dim: width of the vector of a character.
    """

    def __init__(self, num_characters: int, dim: int) -> None:
        super().__init__()
        self.weight = Parameter(initializer(Uniform((3 / dim) ** 0.5), (num_characters, dim)), name='weight')
        self.real = Tensor((np.arange(num_characters) != PADDING).astype(np.float32)[:, None])

    def construct(self, spellings):
        """Returns vectors (characters, words, dim) for ids (words, characters)."""
        return ops.gather(self.weight * self.real, ops.transpose(spellings, (1, 0)), 0)


class CharacterCNN(CompilableMethods, nn.Cell):
    """Convolution of width 3 over the characters of a word, then the maximum of each filter.

    The windows reach one position beyond both ends of the word. The convolution is computed as one matrix product over
    three shifted copies, on CPU by a C++ operator. Both are many times faster than `nn.Conv1d`. The amount of padding
    has no effect.

    Args:
        num_characters: number of character ids; 0 is padding.
        dim: width of the vector of a character.
        width: number of filters, the width of the vector of a word.
    """

    def __init__(self, num_characters: int, dim: int, width: int) -> None:
        super().__init__()
        self.dim = dim
        self.table = CharacterTable(num_characters, dim)
        self.filters = nn.Dense(3 * dim, width, 'xavier_uniform', has_bias=False)
        self.choose = ops.ArgMaxWithValue(0)
        self.native = CharacterWords()

    def construct(self, spellings):
        """Returns vectors (words, width) for ids (words, characters); zeros for a word without characters."""
        if custom.in_use():
            return self.native(self.table.weight, self.filters.weight, spellings)
        vectors = self.table(spellings)                                             # (C, W, dim)
        one = ops.zeros((1, spellings.shape[0], self.dim), ms.float32)
        before = ops.concat((one, one, vectors), 0)                                 # (C + 2, W, dim)
        here = ops.concat((one, vectors, one), 0)
        after = ops.concat((vectors, one, one), 0)
        filtered = self.filters(ops.concat((before, here, after), 2))               # (C + 2, W, width)
        return ops.relu(self._largest(filtered))

    def _largest(self, values: Tensor) -> Tensor:
        """The maximum over the first axis.

        On CPU `ReduceMax` takes five times as long as a chain of `Maximum`. The gradient of `Maximum` takes longer than
        the gradient of `ArgMaxWithValue`, which is used in training.
        """
        if self.training:
            _, largest = self.choose(values)
        else:
            positions = ops.unstack(values, 0)
            largest = positions[0]
            for other in positions[1:]:
                largest = ops.maximum(largest, other)
        return largest


class CharacterLSTM(CompilableMethods, nn.Cell):
    """The last state of a forward LSTM and the last state of a backward LSTM over the characters of a word.

    Args:
        num_characters: number of character ids; 0 is padding.
        dim: width of the vector of a character.
        width: width of the vector of a word, half for each direction; even.
    """

    def __init__(self, num_characters: int, dim: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.table = CharacterTable(num_characters, dim)
        self.lstm = BiLSTM(dim, width)

    def construct(self, spellings):
        """Returns vectors (words, width) for ids (words, characters); zeros for a word without characters."""
        words, length = spellings.shape
        lengths = (spellings != PADDING).astype(ms.int32).sum(1)                    # (W,)
        states = self.lstm(self.table(spellings), lengths)                          # (C, W, width)
        rows = ops.maximum(lengths - 1, 0) * words + ops.arange(words).astype(ms.int32)
        last = ops.gather(ops.reshape(states, (length * words, self.width)), rows, 0)
        half = self.width // 2
        both = ops.concat((last[:, :half], states[0][:, half:]), 1)                 # (W, width)
        return both * ops.minimum(lengths, 1).astype(ms.float32).expand_dims(1)
