"""Normaliser and loss as cells whose gradient comes with their value: no recursion is differentiated step by step.

Shapes: L length, B batch, K tags. Value and gradient leave a cell as one tensor (2 + L + K, B, K): a cell with its
own `bprop` that returns several tensors, or calls functions that are written in Python, can't always be compiled
by MindSpore 2.10 ("The func graph is empty").
"""

from ms_crf.crf.curvature import WithDerivative
from ms_crf.crf.inference import losses, losses_of_steps, posteriors
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.packing import pack

from mindspore import Tensor, nn, ops

_slice, _multiply, _zeros, _reshape, _sum = ops.Slice(), ops.Mul(), ops.ZerosLike(), ops.Reshape(), ops.ReduceSum()


def _gradients(packed: Tensor, dout: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients for emissions, transitions, start and end from what `pack` put away and what arrives at the values."""
    rows, batch, num_tags = packed.shape
    length = rows - 2 - num_tags
    weight = _slice(dout, (0, 0, 0), (1, batch, 1))
    by_emissions = _multiply(_slice(packed, (2, 0, 0), (length, batch, num_tags)), weight)
    by_transitions = _slice(packed, (2 + length, 0, 0), (num_tags, batch, num_tags))
    by_transitions = _reshape(by_transitions, (batch, num_tags, num_tags))
    by_transitions = _sum(_multiply(by_transitions, _reshape(weight, (batch, 1, 1))), 0)
    by_start = _sum(_slice(by_emissions, (0, 0, 0), (1, batch, num_tags)), (0, 1))
    by_end = _sum(_multiply(_slice(packed, (1, 0, 0), (1, batch, num_tags)), weight), (0, 1))
    return by_emissions, by_transitions, by_start, by_end


def _gradients_of_steps(packed: Tensor, dout: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`_gradients` where transitions are of each step: (L, B, K, K)."""
    rows, batch, num_tags = packed.shape
    length = (rows - 2) // (num_tags + 1)
    weight = _slice(dout, (0, 0, 0), (1, batch, 1))
    by_emissions = _multiply(_slice(packed, (2, 0, 0), (length, batch, num_tags)), weight)
    by_transitions = _slice(packed, (2 + length, 0, 0), (length * num_tags, batch, num_tags))
    by_transitions = _reshape(by_transitions, (length, batch, num_tags, num_tags))
    by_transitions = _multiply(by_transitions, _reshape(weight, (1, batch, 1, 1)))
    by_start = _sum(_slice(by_emissions, (0, 0, 0), (1, batch, num_tags)), (0, 1))
    by_end = _sum(_multiply(_slice(packed, (1, 0, 0), (1, batch, num_tags)), weight), (0, 1))
    return by_emissions, by_transitions, by_start, by_end


class LogNormalizer(InFloat32, nn.Cell):
    """Log of the sum over all paths; its gradient is the posteriors.

    Args:
        usable: (K,) bool tensor, False for tags that constraints leave no way to; None if all can be.
    """

    def __init__(self, usable: Tensor | None = None) -> None:
        super().__init__()
        self.usable = usable
        self.with_derivative = WithDerivative(False)

    def construct(self, emissions, lengths, transitions, start, end):
        """Rows of which the first is the value: `value_of` takes it out.

        Args:
            emissions: (L, B, K) float32, 0 on padding.
            lengths: (B,) int32.
            transitions, start, end: (K, K), (K,), (K,) float32; entry (i, j) scores tag j after tag i.
        """
        value, marginals, pairs = posteriors(emissions, lengths, transitions, start, end, self.usable)
        return pack(value, marginals, pairs, lengths)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        packed = self.with_derivative(emissions, lengths, lengths, transitions, start, end, out)
        by_emissions, by_transitions, by_start, by_end = _gradients(packed, dout)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end


class NegativeLogLikelihood(InFloat32, nn.Cell):
    """Minus log probability of the known tags; its gradient is posteriors minus counts.

    Args:
        usable: as in `LogNormalizer`.
    """

    def __init__(self, usable: Tensor | None = None) -> None:
        super().__init__()
        self.usable = usable
        self.with_derivative = WithDerivative(True)

    def construct(self, emissions, tags, lengths, transitions, start, end):
        """As in `LogNormalizer`, with tags (L, B) int32, negative where not known."""
        value, by_emissions, by_transitions = losses(emissions, tags, lengths, transitions, start, end, self.usable)
        return pack(value, by_emissions, by_transitions, lengths)

    def bprop(self, emissions, tags, lengths, transitions, start, end, out, dout):
        packed = self.with_derivative(emissions, tags, lengths, transitions, start, end, out)
        by_emissions, by_transitions, by_start, by_end = _gradients(packed, dout)
        return by_emissions, _zeros(tags), _zeros(lengths), by_transitions, by_start, by_end


class LogNormalizerOfSteps(InFloat32, nn.Cell):
    """`LogNormalizer` with transitions (L, B, K, K), those of the step after each position, 0 on padding."""

    def __init__(self) -> None:
        super().__init__()
        self.with_derivative = WithDerivative(False)

    def construct(self, emissions, lengths, transitions, start, end):
        value, marginals, pairs = posteriors(emissions, lengths, transitions, start, end, None)
        return pack(value, marginals, pairs, lengths)

    def bprop(self, emissions, lengths, transitions, start, end, out, dout):
        packed = self.with_derivative(emissions, lengths, lengths, transitions, start, end, out)
        by_emissions, by_transitions, by_start, by_end = _gradients_of_steps(packed, dout)
        return by_emissions, _zeros(lengths), by_transitions, by_start, by_end


class NegativeLogLikelihoodOfSteps(InFloat32, nn.Cell):
    """`NegativeLogLikelihood` with transitions as in `LogNormalizerOfSteps`."""

    def __init__(self) -> None:
        super().__init__()
        self.with_derivative = WithDerivative(True)

    def construct(self, emissions, tags, lengths, transitions, start, end):
        value, by_emissions, by_transitions = losses_of_steps(emissions, tags, lengths, transitions, start, end)
        return pack(value, by_emissions, by_transitions, lengths)

    def bprop(self, emissions, tags, lengths, transitions, start, end, out, dout):
        packed = self.with_derivative(emissions, tags, lengths, transitions, start, end, out)
        by_emissions, by_transitions, by_start, by_end = _gradients_of_steps(packed, dout)
        return by_emissions, _zeros(tags), _zeros(lengths), by_transitions, by_start, by_end


def value_of(rows: Tensor) -> Tensor:
    """(B,) from what the cells return."""
    return rows[0, :, 0]
