"""Brings a caller's tensors into the form of the recursions: length first, float32, int32."""

from ms_crf.crf.mindspore_fixes import check_not_traced
from ms_crf.crf.validation import check_shapes, check_types

import mindspore as ms
from mindspore import Tensor, ops


@ops.constexpr(check=False)
def _check(num_tags, batch_first, emissions, tags, seq_length):
    """Each of emissions, tags and seq_length as (dtype, shape), or None."""
    check_not_traced()
    given = [None if argument is None else str(argument[0]) for argument in (emissions, tags, seq_length)]
    check_types(*given)
    check_shapes(num_tags, batch_first, emissions[1], tags and tags[1], seq_length and seq_length[1])


@ops.constexpr(check=False)
def _refuse(name, argument):
    raise TypeError(f'{name} must be a Tensor, got {type(argument).__name__}')


def describe(name, argument):
    """(dtype, shape) of a tensor."""
    if not isinstance(argument, Tensor):
        _refuse(name, argument)
    return argument.dtype, argument.shape


def _describe_given(name, argument):
    """(dtype, shape) of a tensor, None of None."""
    if argument is None:
        return None
    return describe(name, argument)


def prepare(emissions, seq_length, num_tags, batch_first):
    """Emissions (L, B, K) in float32, lengths (B,) int32."""
    _check(num_tags, batch_first, describe('emissions', emissions), None, _describe_given('seq_length', seq_length))
    emissions = emissions.astype(ms.float32)
    if batch_first:
        emissions = ops.transpose(emissions, (1, 0, 2))
    length, batch, _ = emissions.shape
    if seq_length is None:
        lengths = ops.full((batch,), length, dtype=ms.int32)
    else:
        lengths = seq_length.astype(ms.int32)
    return emissions, lengths


def prepare_tags(emissions, tags, num_tags, batch_first):
    """Tags (L, B) int32."""
    _check(num_tags, batch_first, describe('emissions', emissions), describe('tags', tags), None)
    tags = tags.astype(ms.int32)
    if batch_first:
        tags = ops.transpose(tags, (1, 0))
    return tags
