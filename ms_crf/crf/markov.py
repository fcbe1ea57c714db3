"""Entropy, divergence and samples of a chain, from its posterior as a Markov chain p(y_1) p(y_2 | y_1) p(y_3 | y_2) ...

Entropy and divergence are sums over steps of small numbers. The other formula, log Z minus the mean score, would be a
difference of large numbers. In a sample each tag is drawn given the previous tag, with Gumbel noise that is a function
of the seed. The noise is computed by mixing integers, not by a generator with a state. So the same seed gives the same
paths in graphs and in PyNative mode, and a seed in a tensor can change without a new graph.

Shapes: L length, B batch, K tags, n samples of each row.
"""

from ms_crf.crf import log_domain, tensors
from ms_crf.crf.inputs import clipped_lengths, prepare_seed
from ms_crf.crf.validation import check_count

import mindspore as ms
from mindspore import Tensor, ops

_WORD = 2 ** 32
_NEARLY_ONE = 1.0 - 2.0 ** -24
_SMALL = 2.0 ** -6


def _log_softmax(scores: Tensor) -> Tensor:
    """Logarithm of the softmax over the last axis."""
    lowered = scores - tensors.largest_of(scores)
    return lowered - tensors.log(tensors.sum_of(ops.exp(lowered)))


def markov_chain(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                 end: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The posterior of the chain as a Markov chain.

    Args:
        emissions, lengths, transitions, start, end: as `potentials_of` returns them, with transitions of each step.

    Returns:
        log p(y_1) (B, K); log p(y_{t + 1} = j | y_t = i) (L, B, K, K), whose last entry has no meaning; p(y_1) (B, K);
        and p(y_t = i, y_{t + 1} = j) (L, B, K, K), 0 where no real position follows.
    """
    lowered = emissions - tensors.largest_of(emissions)
    _, marginals, pairs, onward = log_domain.forward_backward(lowered, lengths, transitions, start, end)
    following = ops.concat((onward[1:], onward[:1]), 0).expand_dims(2)           # (L, B, 1, K)
    return _log_softmax(onward[0] + start), _log_softmax(transitions + following), marginals[0], pairs


def expected(weights: Tensor, pairs: Tensor, of_first: Tensor, of_pairs: Tensor) -> Tensor:
    """Expected sum (B,) over a path of values of its first tag and values of its tag pairs.

    Args:
        weights: p(y_1) (B, K).
        pairs: p(y_t = i, y_{t + 1} = j) (L, B, K, K).
        of_first: (B, K), values of the first tag; ignored where the probability is 0.
        of_pairs: (L, B, K, K), values of tag pairs; ignored where the probability is 0.
    """
    of_first = ops.select(weights > 0.0, of_first, tensors.zeros_like(of_first))
    of_pairs = ops.select(pairs > 0.0, of_pairs, tensors.zeros_like(of_pairs))
    return (weights * of_first).sum(1) + (pairs * of_pairs).sum((0, 2, 3))


def entropy(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
            void: Tensor) -> Tensor:
    """Entropy (B,) of the distribution over paths, in nats; arguments as `potentials_of` returns them, with steps."""
    first, following, weights, pairs = markov_chain(emissions, lengths, transitions, start, end)
    return void - expected(weights, pairs, first, following)


def divergence(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, void: Tensor,
               other_emissions: Tensor, other_lengths: Tensor, other_transitions: Tensor, other_start: Tensor,
               other_end: Tensor, other_void: Tensor) -> Tensor:
    """Kullback-Leibler divergence (B,) of one chain from another, in nats.

    It is inf where only the other chain forbids a path.

    Args:
        emissions, ..., void: of the first chain, as `potentials_of` returns them, with transitions of each step.
        other_emissions, ..., other_void: of the other chain.
    """
    first, following, weights, pairs = markov_chain(emissions, lengths, transitions, start, end)
    other_first, other_following, _, _ = markov_chain(other_emissions, other_lengths, other_transitions, other_start,
                                                      other_end)
    result = expected(weights, pairs, first - other_first, following - other_following)
    # Whether the other chain forbids something that has a probability in this chain.
    at_first = ops.logical_and(weights > 0.0, other_first < tensors.FORBIDDEN / 2).astype(ms.float32)
    later = ops.logical_and(pairs > 0.0, other_following < tensors.FORBIDDEN / 2).astype(ms.float32)
    infinite = at_first.sum(1) + later.sum((0, 2, 3)) > 0.0
    return ops.masked_fill(result, infinite, float('inf')) + void + other_void


def likeliest(marginals: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """The most probable tag at each position (B, L) int32, 0 on padding.

    Args:
        marginals: (L, B, K), or (B, L, K) with batch_first.
        seq_length: (B,), argument of the caller, or None.
        batch_first: layout of the marginals.
    """
    lengths = clipped_lengths(marginals, seq_length, batch_first)
    marginals = tensors.turned(marginals, batch_first)
    paths, _ = ops.ArgMaxWithValue(2)(ops.stop_gradient(marginals))
    return tensors.turned(paths.astype(ms.int32) * tensors.real(lengths, marginals.shape[0]).astype(ms.int32))


def expected_hits(marginals: Tensor, paths: Tensor, batch_first: bool) -> Tensor:
    """Expected number of correct tags (B,): the sum of the marginals of the tags of paths.

    Args:
        marginals: (L, B, K), or (B, L, K) with batch_first.
        paths: (B, L).
        batch_first: layout of the marginals.
    """
    marginals = tensors.turned(marginals, not batch_first)
    return ops.gather_elements(marginals, 2, paths.expand_dims(2)).squeeze(2).sum(1)


@ops.constexpr(check=False)
def _checked(n: int) -> int:
    """The number of samples as an int; raises TypeError or ValueError if it is invalid."""
    check_count('n', n)
    return int(n)


def _low(words: Tensor) -> Tensor:
    """The lower 32 bits. `%` would compute in floats."""
    return ops.bitwise_and(words, _WORD - 1)


def _mixed_with_shifted(words: Tensor, bits: int) -> Tensor:
    """Words XOR words shifted right by some bits."""
    return ops.bitwise_xor(words, ops.bitwise_right_shift(words, bits))


def _times(words: Tensor, factor: int) -> Tensor:
    """Words times a factor, modulo 2**32; in two parts, so that no intermediate result exceeds 63 bits."""
    return _low(_low(words * (factor // 2)) * 2 + words * (factor % 2))


def mixed(words: Tensor) -> Tensor:
    """A permutation of the integers below 2**32 (int64) in which each output bit depends on all input bits.

    This is the finalizer of MurmurHash3.
    """
    words = _times(_mixed_with_shifted(words, 16), 0x85EBCA6B)
    words = _times(_mixed_with_shifted(words, 13), 0xC2B2AE35)
    return _mixed_with_shifted(words, 16)


def _counted(count: int) -> Tensor:
    """0, 1, ... count - 1 as int64."""
    return ops.arange(count).astype(ms.int64)


def stream_of_rows(seed: Tensor, batch: int, n: int) -> Tensor:
    """A pseudo-random number for each sample of each row, (B, n) int64 below 2**32.

    Args:
        seed: a scalar, int64.
        batch: B.
        n: samples of each row.
    """
    key = mixed(ops.bitwise_xor(mixed(_low(seed)), _low(ops.bitwise_right_shift(seed, 32))))
    rows = mixed(ops.bitwise_xor(key, _counted(batch))).expand_dims(1)        # (B, 1)
    return mixed(ops.bitwise_xor(rows, _counted(n).expand_dims(0)))


def gumbel(streams: Tensor, position: Tensor, num_tags: int) -> Tensor:
    """Gumbel noise (B, n, K) of a position.

    Args:
        streams: (B, n) int64, as `stream_of_rows` returns them.
        position: a scalar, int64.
        num_tags: K.
    """
    at_position = mixed(ops.bitwise_xor(streams, position + 1))
    words = mixed(ops.bitwise_xor(at_position.expand_dims(2), _counted(num_tags)))
    # Small numbers keep all their bits, since they decide about rare tags: -log(1 - u) is computed as a series.
    uniform = ops.minimum((words.astype(ms.float32) + 0.5) * (1.0 / _WORD), _NEARLY_ONE)
    series = uniform * (1.0 + uniform * (0.5 + uniform / 3.0))
    return -tensors.log(ops.select(uniform < _SMALL, series, -tensors.log(1.0 - uniform)))


def sampled_paths(n: int, seed: int | Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                  end: Tensor, void: Tensor) -> Tensor:
    """Random paths (B, n, L) int32, 0 on padding, without gradient.

    Args:
        n: number of paths of each row.
        seed: an int, or a scalar tensor of integers.
        emissions, lengths, transitions, start, end, void: as `potentials_of` returns them, with transitions of each
        step;
            void is not used.
    """
    n, seed = _checked(n), prepare_seed(seed)
    first, following, _, _ = markov_chain(emissions, lengths, transitions, start, end)    # (B, K), (L, B, K, K)
    length, batch, num_tags, _ = following.shape
    blocks = (length + tensors.SMALL_BLOCK - 1) // tensors.SMALL_BLOCK
    following = tensors.pad_time(following, blocks * tensors.SMALL_BLOCK)
    following = following.reshape(blocks, tensors.SMALL_BLOCK, batch, num_tags, num_tags)
    streams = stream_of_rows(seed, batch, n)
    position = seed * 0
    highest = ops.ArgMaxWithValue(2)
    state, _ = highest(first.expand_dims(1) + gumbel(streams, position, num_tags))        # (B, n)
    paths = ops.zeros((blocks, tensors.SMALL_BLOCK, batch, n), ms.int32)
    index = tensors.first_block()
    while index < blocks:
        block = ops.gather(following, index, 0)
        states = []
        for step in range(tensors.SMALL_BLOCK):
            states.append(state.astype(ms.int32))
            position = position + 1
            chosen = ops.broadcast_to(state.expand_dims(2), (batch, n, num_tags))
            scores = ops.gather_elements(block[step], 1, chosen)                 # (B, n, K)
            state, _ = highest(scores + gumbel(streams, position, num_tags))
        paths = tensors.put_block(paths, index, ops.stack(states, 0))
        index = index + 1
    paths = paths.reshape(blocks * tensors.SMALL_BLOCK, batch, n)[:length]
    live = tensors.real(lengths, length).expand_dims(-1)   # (L, B, 1)
    return ops.stop_gradient(ops.transpose(paths * live.astype(ms.int32), (1, 2, 0)))
