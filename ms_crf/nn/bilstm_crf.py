"""The tagger as one cell: embedding, BiLSTM, projection, CRF."""

from collections.abc import Sequence

from ms_crf.crf.inputs import describe
from ms_crf.crf.layer import CRF
from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.crf.validation import INTEGERS, check_lengths_argument
from ms_crf.nn.bilstm import BiLSTM

import numpy as np
from mindspore import Tensor, nn, ops


@ops.constexpr(check=False)
def _check(inputs: tuple, seq_length: tuple) -> None:
    """Arguments as (dtype, shape)."""
    dtype, shape = str(inputs[0]), inputs[1]
    if dtype not in INTEGERS:
        raise TypeError(f'inputs must be a tensor of integers, got {dtype}')
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f'inputs must be (batch, length) with no empty axis, got shape {shape}')
    check_lengths_argument(str(seq_length[0]), seq_length[1], shape[0])


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
    """

    def __init__(self, vocab_size: int, embedding_dim: int, hidden_dim: int, num_tags: int, padding_idx: int = 0,
                 reduction: str = 'sum', constraints: Sequence[np.ndarray] | None = None,
                 check_values: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=padding_idx)
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
        _check(describe('inputs', inputs), describe('seq_length', seq_length))
        vectors = ops.transpose(self.embedding(inputs), (1, 0, 2))   # (length, batch, embedding_dim)
        hidden = self.lstm(vectors, seq_length)                      # (length, batch, hidden_dim)
        return self.hidden2tag(ops.transpose(hidden, (1, 0, 2)))
