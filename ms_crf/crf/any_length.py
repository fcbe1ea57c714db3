"""The best path where the compiler knows neither length nor batch: one graph for all of them.

Shapes: L length, B batch, K tags, T steps: L rounded up to whole blocks.
"""

from ms_crf.crf import masks
from ms_crf.crf.blocks import SMALL_BLOCK, first_block, pad_time, put_block
from ms_crf.crf.scores import largest_of, zeros_like
from ms_crf.crf.viterbi import steps_in_blocks

import mindspore as ms
from mindspore import ops


def viterbi(emissions, lengths, transitions, start, end):
    """Scores (B, K) of the best path that ends in each tag, and its history (T, B, K), as `viterbi.viterbi`.

    Args:
        emissions: (L, B, K) float32; padding is not looked at.
        lengths: (B,) int32.
        transitions, start, end: (K, K), (K,), (K,) float32.
    """
    length, batch, num_tags = emissions.shape
    peaks = largest_of(emissions)                                # (L, B, 1)
    live = masks.real(lengths, length).expand_dims(-1)           # (L, B, 1)
    total = ops.select(live, peaks, zeros_like(peaks)).sum(0) + end          # (B, K)
    emissions = masks.clear_padding(emissions - peaks, lengths)
    first = start + emissions[0]                                 # (B, K)

    # One step more than there are, so that there is one in a sentence of one token.
    blocks = (length + SMALL_BLOCK - 1) // SMALL_BLOCK
    later = pad_time(emissions, blocks * SMALL_BLOCK + 1)[1:].reshape(blocks, SMALL_BLOCK, batch, num_tags)
    scores, history = steps_in_blocks(first, later, transitions)
    places = ops.broadcast_to(ops.maximum(lengths - 2, 0).reshape(1, -1, 1), first.expand_dims(0).shape)
    scores = ops.gather_elements(scores, 0, places)[0]             # at each row's end
    longer = ops.broadcast_to((lengths > 1).expand_dims(-1), first.shape)
    return ops.select(longer, scores, first) + total, history


def best_path(scores, history, lengths, length):
    """Paths (L, B) int32, 0 on padding, and their scores (B,) from what `viterbi` returns."""
    last, score = ops.ArgMaxWithValue(1, True)(scores)           # (B, 1)
    steps, batch, num_tags = history.shape
    stay = ops.arange(num_tags).astype(ms.int32)
    moves = ops.broadcast_to(masks.continued(lengths, steps).expand_dims(-1), history.shape)
    maps = ops.select(moves, history.astype(ms.int32), ops.broadcast_to(stay, history.shape))   # t + 1 to t
    blocks = steps // SMALL_BLOCK
    maps = maps.reshape(blocks, SMALL_BLOCK, batch, num_tags)
    paths = ops.zeros((blocks, SMALL_BLOCK, batch, 1), ms.int32)
    state = last.astype(ms.int32)                                # (B, 1)
    done = first_block()
    while done < blocks:
        index = blocks - 1 - done
        block = ops.gather(maps, index, 0)                       # (C, B, K)
        found = []
        for step in range(SMALL_BLOCK):
            state = ops.gather_elements(block[SMALL_BLOCK - 1 - step], 1, state)
            found.append(state)
        paths = put_block(paths, index, ops.stack(found[::-1], 0))
        done = done + 1
    paths = paths.reshape(blocks * SMALL_BLOCK, batch)[:length]
    paths = ops.select(masks.real(lengths, length), paths, zeros_like(paths))
    score = score[:, 0]
    return paths, ops.select(lengths > 0, score, zeros_like(score))
