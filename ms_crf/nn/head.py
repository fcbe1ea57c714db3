"""What networks have above their input: BiLSTM layers, a projection and a head, and what a head offers."""

from collections.abc import Sequence
from typing import Protocol

from ms_crf.crf.layer import CRF
from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.nn.bilstm import BiLSTM
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn


class Head(Protocol):
    """The last cell of a network, that makes tags of scores: `CRF` is one, `Softmax` another.

    A cell over scores of tags (length, batch, num_tags), length first, that runs in static graphs.

    All calls take seq_length (batch,), the number of real positions of each row, and give 0 on padding.
    """

    def __call__(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """The loss, mean of the rows, a scalar.

        Tags are (length, batch), negative where any may stand; or, if the training text leaves some of them in
        question, (length, batch, num_tags) bool: which each token may have.
        """

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Best paths (batch, length) int32, and their scores (batch,)."""

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The n best paths (batch, n, length), best first, and their scores (batch, n)."""

    def path_posteriors(self, emissions: Tensor, paths: Tensor,
                        seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Of paths (batch, length): posterior of each of their tags (batch, length), and of every tag given the path's
        tag before it (batch, length, num_tags)."""

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """(batch,): exp(score - normalizer) is the posterior of a path of that score."""


class Layers(CompilableMethods, nn.Cell):
    """The upper part of a network, to be inherited; what is dropped out stands between its layers."""

    def add_layers(self, width: int, num_tags: int, hidden_dim: int, num_layers: int, head: str,
                   constraints: Sequence[np.ndarray] | None) -> None:
        """Makes the layers, the projection and the head.

        Args:
            width: of a position's vector in the input.
            num_tags: number of tags.
            hidden_dim: width of a BiLSTM layer's output, half for each direction; even.
            num_layers: number of BiLSTM layers.
            head: 'crf' or 'softmax'.
            constraints: what `allowed_transitions` returns; for the CRF.
        """
        #: widths of what is dropped out: the input, then each layer's output
        self.widths = (width, *[hidden_dim] * num_layers)
        self.layers = nn.CellList([BiLSTM(width, hidden_dim) for width in self.widths[:-1]])
        self.projection = nn.Dense(self.widths[-1], num_tags, 'xavier_uniform', 'zeros')
        if head == 'crf':
            self.head = CRF(num_tags, reduction='mean', constraints=constraints)
        else:
            self.head = Softmax(num_tags, reduction='mean')

    @property
    def tag_bias(self) -> Parameter:
        """What is added to the scores of each tag: (num_tags,)."""
        return self.projection.bias

    def hidden_of(self, hidden: Tensor, seq_length: Tensor, keep: Sequence[Tensor] | None = None) -> Tensor:
        """What the layers make of their input: (length, batch, widths[0]) to (length, batch, widths[-1]).

        `keep` is None, or for training a tensor (length, batch, width) for each of `widths` that values are multiplied
        with.
        """
        if keep is not None:
            hidden = hidden * keep[0]
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, seq_length)                                      # (L, B, hidden_dim)
            if keep is not None:
                hidden = hidden * keep[index + 1]
        return hidden

    def scores_of(self, hidden: Tensor) -> Tensor:
        """(length, batch, widths[-1]) to scores of each tag (length, batch, num_tags)."""
        return self.projection(hidden).astype(ms.float32)
