"""A vector for each word from its characters: by convolution, or by an LSTM in both directions."""

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
    """Vectors of characters; that of padding is always zero.

    Args:
        num_characters: number of character ids; 0 is padding.
        dim: width of a character's vector.
    """

    def __init__(self, num_characters: int, dim: int) -> None:
        super().__init__()
        self.weight = Parameter(initializer(Uniform((3 / dim) ** 0.5), (num_characters, dim)), name='weight')
        self.real = Tensor((np.arange(num_characters) != PADDING).astype(np.float32)[:, None])

    def construct(self, spellings):
        """(words, characters) ids to (characters, words, dim)."""
        return ops.gather(self.weight * self.real, ops.transpose(spellings, (1, 0)), 0)


class CharacterCNN(CompilableMethods, nn.Cell):
    """Convolution of width 3 over the characters and one position beyond either end, then each filter's maximum.

    Computed as one matrix product over three shifted copies, on CPU by an operator in C++: either takes a small part
    of the time of `nn.Conv1d`. How far a word is padded does not matter.

    Args:
        num_characters: number of character ids; 0 is padding.
        dim: width of a character's vector.
        width: number of filters, the width of a word's vector.
    """

    def __init__(self, num_characters: int, dim: int, width: int) -> None:
        super().__init__()
        self.dim = dim
        self.table = CharacterTable(num_characters, dim)
        self.filters = nn.Dense(3 * dim, width, 'xavier_uniform', has_bias=False)
        self.choose = ops.ArgMaxWithValue(0)
        self.native = CharacterWords()

    def construct(self, spellings):
        """(words, characters) ids to (words, width); a word without characters gets zeros."""
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

        On CPU `ReduceMax` takes five times as long as a chain of `Maximum`, whose gradient in turn takes longer than
        that of `ArgMaxWithValue`.
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
    """The last states of an LSTM that reads the word forwards and of one that reads it backwards.

    Args:
        num_characters: number of character ids; 0 is padding.
        dim: width of a character's vector.
        width: width of a word's vector, half of it for each direction; even.
    """

    def __init__(self, num_characters: int, dim: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.table = CharacterTable(num_characters, dim)
        self.lstm = BiLSTM(dim, width)

    def construct(self, spellings):
        """(words, characters) ids to (words, width); a word without characters gets zeros."""
        words, length = spellings.shape
        lengths = (spellings != PADDING).astype(ms.int32).sum(1)                    # (W,)
        states = self.lstm(self.table(spellings), lengths)                          # (C, W, width)
        rows = ops.maximum(lengths - 1, 0) * words + ops.arange(words).astype(ms.int32)
        last = ops.gather(ops.reshape(states, (length * words, self.width)), rows, 0)
        half = self.width // 2
        both = ops.concat((last[:, :half], states[0][:, half:]), 1)                 # (W, width)
        return both * ops.minimum(lengths, 1).astype(ms.float32).expand_dims(1)
