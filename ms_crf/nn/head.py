"""What a head offers: the last cell of a network, that makes tags of scores. `CRF` is one, `Softmax` another."""

from typing import Any, Protocol


class Head(Protocol):
    """A cell over scores of tags (length, batch, num_tags), length first, that runs in static graphs.

    All calls take seq_length (batch,), the number of real positions of each row, and give 0 on padding.
    """

    def __call__(self, emissions: Any, tags: Any = None, seq_length: Any | None = None) -> Any:
        """The loss, mean of the rows, a scalar; tags are (length, batch)."""

    def decode(self, emissions: Any, seq_length: Any | None = None) -> Any:
        """Best paths (batch, length) int32, and their scores (batch,)."""

    def nbest(self, emissions: Any, n: int, seq_length: Any | None = None) -> Any:
        """The n best paths (batch, n, length), best first, and their scores (batch, n)."""

    def along(self, emissions: Any, paths: Any, seq_length: Any | None = None) -> Any:
        """Of paths (batch, length): posterior of each of their tags (batch, length), and of every tag given the path's
        tag before it (batch, length, num_tags)."""

    def normalizer(self, emissions: Any, seq_length: Any | None = None) -> Any:
        """(batch,): exp(score - normalizer) is the posterior of a path of that score."""
