"""The upper part of networks: BiLSTM layers, a projection and a head, and the protocol of a head."""

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
    """The last cell of a network, which computes losses and tags from emissions. Examples are `CRF` and `Softmax`.

    It must work in static graphs. Arguments of all calls:

        emissions: scores of the tags, (length, batch, num_tags).
        seq_length: (batch,), number of real positions of each row, 0 to length. Results are 0 on padding.
    """

    def __call__(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """Returns the loss: the mean over the rows, a scalar.

        Args:
            emissions: (length, batch, num_tags).
            tags: (length, batch), negative where unknown. If the training text narrows down some unknown tags,
                (length, batch, num_tags) bool: the tags that each token may have.
            seq_length: (batch,).
        """

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the best paths (batch, length) int32, and their scores (batch,)."""

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the n best paths (batch, n, length), best first, and their scores (batch, n)."""

    def path_posteriors(self, emissions: Tensor, paths: Tensor,
                        seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the posteriors of the tags of paths, and the posteriors of all tags given the previous tag of the
        path.

        Args:
            emissions: (length, batch, num_tags).
            paths: (batch, length).
            seq_length: (batch,).

        Returns:
            (batch, length) and (batch, length, num_tags), 0 on padding.
        """

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """Returns (batch,): the posterior of a path is exp(score - normalizer)."""


class Layers(CompilableMethods, nn.Cell):
    """Base class of networks: BiLSTM layers, a projection and a head. Subclasses call `add_layers`."""

    def add_layers(self, width: int, num_tags: int, hidden_dim: int, num_layers: int, head: str,
                   constraints: Sequence[np.ndarray] | None) -> None:
        """Adds the layers, the projection and the head.

        Args:
            width: width of the input at each position.
            num_tags: number of tags.
            hidden_dim: width of the output of a BiLSTM layer, half for each direction; even.
            num_layers: number of BiLSTM layers.
            head: 'crf' or 'softmax'.
            constraints: the result of `allowed_transitions`, or None; for the CRF.
        """
        #: widths of the values to which dropout applies: the input, then the output of each layer
        self.widths = (width, *[hidden_dim] * num_layers)
        self.layers = nn.CellList([BiLSTM(width, hidden_dim) for width in self.widths[:-1]])
        self.projection = nn.Dense(self.widths[-1], num_tags, 'xavier_uniform', 'zeros')
        if head == 'crf':
            self.head = CRF(num_tags, reduction='mean', constraints=constraints)
        else:
            self.head = Softmax(num_tags, reduction='mean')

    @property
    def tag_bias(self) -> Parameter:
        """Parameter (num_tags,) that is added to the scores of each tag."""
        return self.projection.bias

    def hidden_of(self, hidden: Tensor, seq_length: Tensor, keep: Sequence[Tensor] | None = None) -> Tensor:
        """Returns the output of the BiLSTM layers, (length, batch, widths[-1]).

        Args:
            hidden: (length, batch, widths[0]).
            seq_length: (batch,).
            keep: dropout masks for training, one tensor (length, batch, width) for each of `widths`; None for no
                dropout.
        """
        if keep is not None:
            hidden = hidden * keep[0]
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, seq_length)                                      # (L, B, hidden_dim)
            if keep is not None:
                hidden = hidden * keep[index + 1]
        return hidden

    def scores_of(self, hidden: Tensor) -> Tensor:
        """Returns scores of the tags (length, batch, num_tags) for hidden states (length, batch, widths[-1])."""
        return self.projection(hidden).astype(ms.float32)
