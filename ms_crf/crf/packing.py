"""The gradients of normaliser and loss in one tensor, and their derivative as one more function to differentiate.

Shapes: L length, B batch, K tags. Packed are (2 + L + K, B, K): the value (the same for all tags), the gradients by
end scores, emissions (L rows) and transitions (K rows, L * K of transitions of each step), each row of the batch for
itself.
"""

from ms_crf.crf import log_domain, tensors
from ms_crf.crf.tensors import MISMATCH, largest_of, ones_like, zeros_like

import mindspore as ms
from mindspore import Tensor, ops

_mark = ops.OneHot()
_ONE, _ZERO = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)


def pack(value: Tensor, by_emissions: Tensor, by_transitions: Tensor, lengths: Tensor) -> Tensor:
    """(B,), (L, B, K), (B, K, K) or (L, B, K, K), and the gradient for the end scores as rows (2 + L + K, B, K) or
    (2 + L + L * K, B, K)."""
    _, batch, num_tags = by_emissions.shape
    value = ops.broadcast_to(value.reshape(1, batch, 1), (1, batch, num_tags))
    by_end = tensors.at_last(by_emissions, lengths).expand_dims(0)
    return ops.concat((value, by_end, by_emissions, by_transitions.reshape(-1, batch, num_tags)), 0)


def pair(factors: Tensor, emissions: Tensor, tags: Tensor | None, lengths: Tensor, transitions: Tensor, start: Tensor,
         end: Tensor) -> Tensor:
    """Sum of the packed gradients times factors, a scalar; of the values nothing.

    Differentiated, it is the second derivative of normaliser or loss, applied to the factors. Counts of known tags
    don't change with the scores and are left out. All in the log domain, which has finite derivatives for any scores.

    Args:
        factors: (2 + L + K, B, K).
        tags: (L, B) int32, negative where not known; None for the normaliser.
        emissions, lengths, transitions, start, end: as of `posteriors`.
    """
    emissions = emissions - largest_of(emissions)
    value, marginals, pairs, _ = log_domain.forward_backward(emissions, lengths, transitions, start, end)
    nothing = ops.stop_gradient(zeros_like(value))
    total = (pack(nothing, marginals, pairs, lengths) * factors).sum()
    if tags is not None:
        length, _, num_tags = emissions.shape
        live = tensors.real(lengths, length).astype(ms.float32)                # (L, B)
        unknown = live * (tags < 0).astype(ms.float32)
        if largest_of(unknown.reshape(-1)) > 0.0:
            # The paths through the known tags, as in `losses`.
            free = ops.maximum(unknown.expand_dims(-1), _mark(tags, num_tags, _ONE, _ZERO))  # (L, B, K)
            restricted = ops.select(free > 0.0, emissions, MISMATCH * ones_like(emissions))
            _, marginals, pairs, _ = log_domain.forward_backward(
                tensors.clear_padding(restricted, lengths), lengths, transitions, start, end)
            total = total - (pack(nothing, marginals, pairs, lengths) * factors).sum()
    return total
