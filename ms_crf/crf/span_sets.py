"""Sets of spans: what steps say about them, and the chain of all paths that stand for the same spans.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import tensors
from ms_crf.crf.inputs import has_values
from ms_crf.crf.tensors import FORBIDDEN
from ms_crf.crf.validation import check_spans

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from numpy.typing import ArrayLike


@ops.constexpr(check=False)
def _constant_table(spans: ArrayLike | Tensor, num_tags: int) -> Tensor:
    return Tensor(check_spans(spans, num_tags).astype(np.int64))


def table_of(spans: ArrayLike | Tensor, num_tags: int) -> Tensor:
    """What steps say about spans (K + 1, K + 1) int64, from an array, or from a tensor."""
    if isinstance(spans, Tensor) and not has_values(spans):
        return spans.astype(ms.int64)
    return _constant_table(spans, num_tags)


def masked_chain(paths: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor,
                 spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each path a row of a batch in which all taggings are forbidden but those that stand for the same spans.

    Args:
        paths: (B, n, L) int32.
        emissions, lengths, transitions, spans: as of `nbest.best_paths`.

    Returns:
        emissions (L, B * n, K), lengths (B * n,) and transitions of each step (L, B * n, K, K).
    """
    batch, n, length = paths.shape
    num_tags, rows = emissions.shape[2], batch * n
    tags = ops.transpose(paths.reshape(rows, length), (1, 0)).astype(ms.int64)           # (L, B * n)
    several = ops.broadcast_to(lengths.expand_dims(1), (batch, n)).reshape(rows)
    emissions = ops.broadcast_to(emissions.expand_dims(2), (length, batch, n, num_tags)).reshape(length, rows, num_tags)

    # What the path says of its first tag must be said of a tag there, and what it says at its end, of one at the end.
    begins, ends = spans[num_tags, :num_tags], spans[:num_tags, num_tags]                 # (K,)
    at_begin = _said_otherwise(begins, tags).astype(ms.float32)                           # (L, B * n, K)
    at_end = _said_otherwise(ends, tags).astype(ms.float32)
    position = ops.arange(length).astype(ms.int32).reshape(length, 1, 1)
    first = ops.equal(position, 0).astype(ms.float32)
    last = ops.equal(position, several.reshape(1, rows, 1) - 1).astype(ms.float32)
    emissions = ops.masked_fill(emissions, at_begin * first + at_end * last > 0.0, FORBIDDEN)

    following = ops.concat((tags[1:], tags[:1]), 0)
    said = ops.gather(spans[:num_tags, :num_tags].reshape(-1), tags * num_tags + following, 0)   # (L, B * n)
    others = ops.not_equal(spans[:num_tags, :num_tags], said.expand_dims(2).expand_dims(3))      # (L, B * n, K, K)
    if len(transitions.shape) == 4:
        transitions = ops.broadcast_to(transitions.expand_dims(2), (length, batch, n, num_tags, num_tags))
        transitions = transitions.reshape(length, rows, num_tags, num_tags)
    else:
        transitions = ops.broadcast_to(transitions, others.shape)
    return emissions, several, of_each_step(ops.masked_fill(transitions, others, FORBIDDEN), several, length)


def of_each_step(transitions: Tensor, lengths: Tensor, length: int) -> Tensor:
    """Transitions (K, K) or (L, B, K, K) as (L, B, K, K), 0 where no real position follows."""
    followed = tensors.continued(lengths, length).expand_dims(2).expand_dims(3)
    num_tags = transitions.shape[-1]
    steps = ops.broadcast_to(transitions, (length, lengths.shape[0], num_tags, num_tags))
    return ops.select(followed, steps, ops.zeros_like(steps))


def _said_otherwise(said: Tensor, tags: Tensor) -> Tensor:
    """Whether what is said of each tag (K,) differs from what is said of these tags (L, B): bool (L, B, K)."""
    return ops.not_equal(said, ops.gather(said, tags, 0).expand_dims(-1))
