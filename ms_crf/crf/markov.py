"""The posterior of a chain as a Markov chain, p(y) = p(y_1) p(y_2 | y_1) p(y_3 | y_2) ...: what its entropy, its
divergence from another and samples are made of.

Sums over steps of small numbers, where log Z minus the mean score would be a difference of large ones.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import log_domain
from ms_crf.crf.sets import lengths_of
from ms_crf.crf.tensors import FORBIDDEN, largest_of, log, real, sum_of, zeros_like

import mindspore as ms
from mindspore import Tensor, ops


def _log_softmax(scores: Tensor) -> Tensor:
    """Over the last axis."""
    lowered = scores - largest_of(scores)
    return lowered - log(sum_of(ops.exp(lowered)))


def conditionals(onward: Tensor, transitions: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """log p(y_1) (B, K), and log p(y_{t + 1} = j | y_t = i) (L, B, K, K), of which the last has no meaning.

    Args:
        onward: (L, B, K), as `log_domain.forward_backward` gives it.
        transitions: (L, B, K, K), those of the step after each position.
        start: (K,).
    """
    following = ops.concat((onward[1:], onward[:1]), 0).expand_dims(2)           # (L, B, 1, K)
    return _log_softmax(onward[0] + start), _log_softmax(transitions + following)


def markov_chain(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
                 end: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `conditionals` gives, p(y_1) (B, K) and p(y_t = i, y_{t + 1} = j) (L, B, K, K), 0 where there is no such
    position.

    Args:
        emissions, lengths, transitions, start, end: what `potentials_of` returns, with transitions of each step.
    """
    lowered = emissions - largest_of(emissions)
    _, marginals, pairs, onward = log_domain.forward_backward(lowered, lengths, transitions, start, end)
    first, following = conditionals(onward, transitions, start)
    return first, following, marginals[0], pairs


def expected(weights: Tensor, pairs: Tensor, of_first: Tensor, of_pairs: Tensor) -> Tensor:
    """Mean (B,) of the sum over a path of values of its first tag and of its pairs.

    Args:
        weights, pairs: p(y_1) (B, K) and p(y_t = i, y_{t + 1} = j) (L, B, K, K); where they are 0, values don't matter.
        of_first, of_pairs: (B, K) and (L, B, K, K).
    """
    of_first = ops.select(weights > 0.0, of_first, zeros_like(of_first))
    of_pairs = ops.select(pairs > 0.0, of_pairs, zeros_like(of_pairs))
    return (weights * of_first).sum(1) + (pairs * of_pairs).sum((0, 2, 3))


def impossible(weights: Tensor, pairs: Tensor, of_first: Tensor, of_pairs: Tensor) -> Tensor:
    """Whether something that has a probability is forbidden by other conditionals (B,); arguments as of `expected`."""
    at_first = ops.logical_and(weights > 0.0, of_first < FORBIDDEN / 2).astype(ms.float32)
    later = ops.logical_and(pairs > 0.0, of_pairs < FORBIDDEN / 2).astype(ms.float32)
    return at_first.sum(1) + later.sum((0, 2, 3)) > 0.0


def entropy(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
            void: Tensor) -> Tensor:
    """Entropy (B,) of the distribution over paths, in nats; arguments are what `potentials_of` returns."""
    first, following, weights, pairs = markov_chain(emissions, lengths, transitions, start, end)
    return void - expected(weights, pairs, first, following)


def divergence(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, void: Tensor,
               other_emissions: Tensor, other_lengths: Tensor, other_transitions: Tensor, other_start: Tensor,
               other_end: Tensor, other_void: Tensor) -> Tensor:
    """Kullback-Leibler divergence (B,) of a chain from another, in nats; inf where only the other forbids a path.

    Args:
        emissions, ..., other_void: what `potentials_of` returns for the one chain and for the other.
    """
    first, following, weights, pairs = markov_chain(emissions, lengths, transitions, start, end)
    other_first, other_following, _, _ = markov_chain(other_emissions, other_lengths, other_transitions, other_start,
                                                      other_end)
    result = expected(weights, pairs, first - other_first, following - other_following)
    infinite = impossible(weights, pairs, other_first, other_following)
    return ops.masked_fill(result, infinite, float('inf')) + void + other_void


def likeliest(marginals: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """The likeliest tag at each position (B, L) int32, 0 on padding.

    Args:
        marginals: (L, B, K), or batch first.
        seq_length: (B,), as it came from the caller.
        batch_first: the layout of the marginals.
    """
    lengths = lengths_of(marginals, seq_length, batch_first)
    if batch_first:
        marginals = ops.transpose(marginals, (1, 0, 2))
    paths, _ = ops.ArgMaxWithValue(2)(ops.stop_gradient(marginals))
    paths = paths.astype(ms.int32) * real(lengths, marginals.shape[0]).astype(ms.int32)
    return ops.transpose(paths, (1, 0))


def expected_hits(marginals: Tensor, paths: Tensor, batch_first: bool) -> Tensor:
    """Sum (B,) of the marginals, in the layout that `likeliest` takes, of the tags of paths (B, L)."""
    if not batch_first:
        marginals = ops.transpose(marginals, (1, 0, 2))
    return ops.gather_elements(marginals, 2, paths.expand_dims(2)).squeeze(2).sum(1)
