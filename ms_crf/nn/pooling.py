"""From pieces of words to words."""

import mindspore as ms
from mindspore import ops


def pool_words(vectors, words, counts):
    """The mean of each word's pieces.

    Args:
        vectors: (pieces, batch, width).
        words: (pieces, batch) int32, to which word of its row a piece belongs; `length` for those that belong to none.
        counts: (length, batch) int32, how many pieces each word has.

    Returns:
        (length, batch, width); zeros for a word without pieces.
    """
    pieces, batch, width = vectors.shape
    length = counts.shape[0]
    segments = ops.reshape(words * batch + ops.arange(batch).astype(ms.int32), (pieces * batch, 1))
    sums = ops.zeros(((length + 1) * batch, width), ms.float32)          # the last of each row: of no word
    sums = ops.tensor_scatter_add(sums, segments, ops.reshape(vectors, (pieces * batch, width)))
    sums = ops.reshape(sums[:length * batch], (length, batch, width))
    return sums / ops.expand_dims(ops.maximum(counts, 1).astype(ms.float32), 2)
