"""The tagger as one cell: embedding, BiLSTM, projection, CRF."""

from collections.abc import Sequence

from ms_crf.base.memory import check_memory
from ms_crf.crf.inputs import describe
from ms_crf.crf.layer import CRF
from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.crf.shapes import INTEGERS, Described, check_lengths_argument
from ms_crf.crf.validation import check_count, check_table_of_tags
from ms_crf.nn.bilstm import BiLSTM

import numpy as np
from mindspore import Tensor, nn, ops


@ops.constexpr(check=False)
def _check(inputs: Described, seq_length: Described) -> None:
    dtype, shape = str(inputs[0]), inputs[1]
    if dtype not in INTEGERS:
        raise TypeError(f'inputs must be a tensor of integers, got {dtype}')
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f'inputs must be (batch, length) with no empty axis, got shape {shape}')
    check_lengths_argument(seq_length, shape[0])


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
        check_count('vocab_size', vocab_size)
        check_count('embedding_dim', embedding_dim)
        check_memory(4 * int(vocab_size) * int(embedding_dim),
                     f'a table of vectors for vocab_size = {vocab_size} and embedding_dim = {embedding_dim}')
        check_table_of_tags(num_tags)                                # before a projection of that width is made
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
        _check(describe('inputs', inputs), describe('seq_length', seq_length))
        vectors = ops.transpose(self.embedding(inputs), (1, 0, 2))   # (length, batch, embedding_dim)
        hidden = self.lstm(vectors, seq_length)                      # (length, batch, hidden_dim)
        return self.hidden2tag(ops.transpose(hidden, (1, 0, 2)))
