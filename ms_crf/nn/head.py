"""What a head offers: the last cell of a network, that makes tags of scores. `CRF` is one, `Softmax` another."""

from typing import Protocol

from mindspore import Tensor


class Head(Protocol):
    """A cell over scores of tags (length, batch, num_tags), length first, that runs in static graphs.

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
