"""Sets of tags in place of tags: of each token, which tags it may have; for what is tagged in part.

The probability that a chain gives to all paths through these sets together is the sum over them divided by the sum over
all paths: two normalisers, the first of emissions in which every other tag is forbidden. So whatever computes
normalisers, in C++ or in graphs, computes this and its gradients.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf.inputs import check_sets, describe, in_range
from ms_crf.crf.tensors import FORBIDDEN, lowered, ones_like

import mindspore as ms
from mindspore import Tensor, ops


def are_sets(tags: Tensor | None) -> bool:
    """Whether these are sets, bools, and not tags."""
    return isinstance(tags, Tensor) and tags.dtype == ms.bool_


def free_and_restricted(emissions: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Emissions (..., ..., K) in float32 with 0 as the highest of each position, and the same with FORBIDDEN for the
    tags that are not in the sets: of both the normaliser is lower by as much, and loses less to rounding.

    Args:
        emissions: (L, B, K), or batch first.
        allowed: bool, of the same shape.
    """
    check_sets(describe('emissions', emissions), describe('tags', allowed))
    emissions = lowered(emissions)
    return emissions, ops.select(ops.stop_gradient(allowed), emissions, FORBIDDEN * ones_like(emissions))


def lengths_of(emissions: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """Lengths (B,) int32, those that can't be brought into 0 to L."""
    length, batch = emissions.shape[0], emissions.shape[1]
    if batch_first:
        length, batch = batch, length
    if seq_length is None:
        return ops.full((batch,), length, dtype=ms.int32)
    return in_range(seq_length, 0, length)
