"""Random paths from the posterior: each tag is drawn given the one before it, by Gumbel noise that is a function of a
seed.

The noise comes from integers that are mixed, not from a generator with a state: the same seed gives the same paths in
graphs and in PyNative mode, and a seed that is a tensor changes without a new graph.

Shapes: L length, B batch, K tags, n samples of each row.
"""

from ms_crf.crf import tensors
from ms_crf.crf.inputs import prepare_seed
from ms_crf.crf.markov import markov_chain
from ms_crf.crf.tensors import SMALL_BLOCK, first_block, log, pad_time, put_block
from ms_crf.crf.validation import check_count

import mindspore as ms
from mindspore import Tensor, ops

_WORD = 2 ** 32
_NEARLY_ONE = 1.0 - 2.0 ** -24
_SMALL = 2.0 ** -6


@ops.constexpr(check=False)
def _checked(n: int) -> int:
    check_count('n', n)
    return int(n)


def _low(words: Tensor) -> Tensor:
    """The lower 32 bits; `%` goes through floats."""
    return ops.bitwise_and(words, _WORD - 1)


def _mixed_with_shifted(words: Tensor, bits: int) -> Tensor:
    return ops.bitwise_xor(words, ops.bitwise_right_shift(words, bits))


def _times(words: Tensor, factor: int) -> Tensor:
    """Modulo 2**32; in two parts, neither of which leaves 63 bits."""
    return _low(_low(words * (factor // 2)) * 2 + words * (factor % 2))


def mixed(words: Tensor) -> Tensor:
    """Integers below 2**32 (int64), one to one to others in which each bit depends on all, as MurmurHash3 ends."""
    words = _times(_mixed_with_shifted(words, 16), 0x85EBCA6B)
    words = _times(_mixed_with_shifted(words, 13), 0xC2B2AE35)
    return _mixed_with_shifted(words, 16)


def _counted(count: int) -> Tensor:
    return ops.arange(count).astype(ms.int64)


def stream_of_rows(seed: Tensor, batch: int, n: int) -> Tensor:
    """(B, n) int64 below 2**32, another one for each sample of a row.

    Args:
        seed: a scalar, int64.
    """
    key = mixed(ops.bitwise_xor(mixed(_low(seed)), _low(ops.bitwise_right_shift(seed, 32))))
    rows = mixed(ops.bitwise_xor(key, _counted(batch))).expand_dims(1)        # (B, 1)
    return mixed(ops.bitwise_xor(rows, _counted(n).expand_dims(0)))


def gumbel(streams: Tensor, position: Tensor, num_tags: int) -> Tensor:
    """Gumbel noise (B, n, K) of a position.

    Args:
        streams: (B, n) int64, as `stream_of_rows` gives them.
        position: a scalar, int64.
        num_tags: K.
    """
    at_position = mixed(ops.bitwise_xor(streams, position + 1))
    words = mixed(ops.bitwise_xor(at_position.expand_dims(2), _counted(num_tags)))
    # Small numbers keep all their bits: they decide about what is rare. -log(1 - u) of them is their series.
    uniform = ops.minimum((words.astype(ms.float32) + 0.5) * (1.0 / _WORD), _NEARLY_ONE)
    series = uniform * (1.0 + uniform * (0.5 + uniform / 3.0))
    return -log(ops.select(uniform < _SMALL, series, -log(1.0 - uniform)))


def sampled_paths(n: int, seed: int | Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                  end: Tensor, void: Tensor) -> Tensor:
    """Paths (B, n, L) int32, 0 on padding, without gradient.

    Args:
        n: number of paths of each row.
        seed: an int, or a tensor of integers without axes.
        emissions, lengths, transitions, start, end, void: what `potentials_of` returns, with transitions of each step;
            void is not looked at.
    """
    n, seed = _checked(n), prepare_seed(seed)
    first, following, _, _ = markov_chain(emissions, lengths, transitions, start, end)    # (B, K), (L, B, K, K)
    length, batch, num_tags, _ = following.shape
    blocks = (length + SMALL_BLOCK - 1) // SMALL_BLOCK
    following = pad_time(following, blocks * SMALL_BLOCK)
    following = following.reshape(blocks, SMALL_BLOCK, batch, num_tags, num_tags)
    streams = stream_of_rows(seed, batch, n)
    position = seed * 0
    highest = ops.ArgMaxWithValue(2)
    state, _ = highest(first.expand_dims(1) + gumbel(streams, position, num_tags))        # (B, n)
    paths = ops.zeros((blocks, SMALL_BLOCK, batch, n), ms.int32)
    index = first_block()
    while index < blocks:
        block = ops.gather(following, index, 0)
        states = []
        for step in range(SMALL_BLOCK):
            states.append(state.astype(ms.int32))
            position = position + 1
            chosen = ops.broadcast_to(state.expand_dims(2), (batch, n, num_tags))
            scores = ops.gather_elements(block[step], 1, chosen)                 # (B, n, K)
            state, _ = highest(scores + gumbel(streams, position, num_tags))
        paths = put_block(paths, index, ops.stack(states, 0))
        index = index + 1
    paths = paths.reshape(blocks * SMALL_BLOCK, batch, n)[:length]
    live = tensors.real(lengths, length).expand_dims(-1)           # (L, B, 1)
    return ops.stop_gradient(ops.transpose(paths * live.astype(ms.int32), (1, 2, 0)))
