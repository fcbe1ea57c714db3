"""Normaliser and loss as a cell whose gradient comes with its value: no recursion is differentiated step by step.

Shapes: L length, B batch, K tags. Value and gradient leave the cell as one tensor, see `inference.pack`: a cell with
its own `bprop` that returns several tensors, or calls functions that are written in Python, can't always be compiled
by MindSpore 2.10 ("The func graph is empty").
"""

from ms_crf.crf.inference import losses, pack, posteriors
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.second_order.cells import Pair, WithDerivative

from mindspore import Tensor, nn, ops

_slice, _multiply, _zeros, _reshape, _sum = ops.Slice(), ops.Mul(), ops.ZerosLike(), ops.Reshape(), ops.ReduceSum()


class PackedSum(InFloat32, nn.Cell):
    """Log of the sum over all paths or, `with_tags`, minus log probability of the known tags; with the gradient.

    Args:
        with_tags: whether it is the loss.
        usable: (K,) bool tensor, False for tags that constraints leave no way to; None if all can be.
    """

    def __init__(self, with_tags: bool, usable: Tensor | None = None) -> None:
        super().__init__()
        self.with_tags, self.usable = with_tags, usable
        self.with_derivative = WithDerivative(Pair(with_tags))

    def construct(self, emissions, lengths, transitions, start, end, tags):
        """What `inference.pack` returns: `value_of` takes the value out.

        Args:
            emissions: (L, B, K) float32, 0 on padding.
            lengths: (B,) int32.
            transitions: (K, K) float32, entry (i, j) scores tag j after tag i; or (L, B, K, K), those of the step after
                each position, 0 on padding.
            start, end: (K,) float32.
            tags: (L, B) int32, negative where not known; without `with_tags` any integers.
        """
        if self.with_tags:
            value, by_emissions, by_transitions = losses(emissions, tags, lengths, transitions, start, end, self.usable)
        else:
            value, by_emissions, by_transitions = posteriors(emissions, lengths, transitions, start, end, self.usable)
        return pack(value, by_emissions, by_transitions, lengths)

    def bprop(self, emissions, lengths, transitions, start, end, tags, out, dout):
        packed = self.with_derivative(emissions, lengths, transitions, start, end, tags, out)
        length, batch, num_tags = emissions.shape
        weight = _slice(dout, (0, 0, 0), (1, batch, 1))
        by_emissions = _multiply(_slice(packed, (2, 0, 0), (length, batch, num_tags)), weight)
        pairs = _slice(packed, (2 + length, 0, 0), (packed.shape[0] - 2 - length, batch, num_tags))
        if len(transitions.shape) == 2:
            by_transitions = _multiply(_reshape(pairs, (batch, num_tags, num_tags)), _reshape(weight, (batch, 1, 1)))
            by_transitions = _sum(by_transitions, 0)
        else:
            by_transitions = _multiply(_reshape(pairs, (length, batch, num_tags, num_tags)),
                                       _reshape(weight, (1, batch, 1, 1)))
        by_start = _sum(_slice(by_emissions, (0, 0, 0), (1, batch, num_tags)), (0, 1))
        by_end = _sum(_multiply(_slice(packed, (1, 0, 0), (1, batch, num_tags)), weight), (0, 1))
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end, _zeros(tags)


def value_of(packed: Tensor) -> Tensor:
    """(B,) from what the cell returns."""
    return packed[0, :, 0]
