"""The probability of each known tag after the known ones before it: the factors of a path's probability, one by one.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import log_domain, tensors
from ms_crf.crf.inference import mark_tags
from ms_crf.crf.tensors import MISMATCH, largest_of, log, ones_like, pad_time, soften, sum_of

import mindspore as ms
from mindspore import Tensor, ops


def log_conditionals(emissions: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                     end: Tensor) -> Tensor:
    """log p(tag | known tags before it, emissions) (L, B), of which the sum is the log probability of the known tags.

    0 where the tag is not known and on padding; about -VIOLATION for a step that is forbidden; nan if a tag is not
    below K. Everything in the log domain.

    Args:
        emissions: (L, B, K) float32, 0 on padding.
        tags: (L, B) int32, negative where not known.
        lengths: (B,) int32.
        transitions: (K, K) float32, or (L, B, K, K), those of the step after each position.
        start, end: (K,) float32.
    """
    length, _, num_tags = emissions.shape
    emissions = emissions - largest_of(emissions)                # less to round
    live = tensors.real(lengths, length)                         # (L, B)
    unknown = (tags < 0).astype(ms.float32).expand_dims(-1)
    free = unknown + mark_tags(ops.minimum(tags, num_tags - 1), num_tags) > 0.0           # (L, B, K)
    restricted = tensors.clear_padding(ops.select(free, emissions, MISMATCH * ones_like(emissions)), lengths)
    padded = log_domain.whole_blocks(length)
    before, after, _ = log_domain.messages(pad_time(restricted, padded), pad_time(emissions, padded), lengths,
                                           transitions, start, end)
    # Of each tag with all that may follow it, after the known tags before it.
    joint = before[:length] + emissions + after[:length]         # (L, B, K)
    joint = joint - largest_of(joint)
    every = log(sum_of(ops.exp(joint)))                          # (L, B, 1)
    among = ops.select(free, joint, MISMATCH * ones_like(joint))
    largest = largest_of(among)
    known = soften(largest) + log(sum_of(ops.exp(among - largest)))
    counted = ops.logical_and(live, tags >= 0)
    result = ops.select(counted, (known - every).squeeze(-1), ops.zeros_like(emissions[:, :, 0]))
    return result + tensors.nan_where(ops.logical_and(live, tags >= num_tags))
