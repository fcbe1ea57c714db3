"""The distribution of a chain over its paths: posteriors of pairs of tags, entropy, divergence, samples."""

from ms_crf.crf.inference import posteriors
from ms_crf.crf.inputs import check_comparable
from ms_crf.crf.markov import expected, impossible, markov_chain
from ms_crf.crf.potentials import Potentials
from ms_crf.crf.sampling import prepare_sampling, sampled_paths

from mindspore import Tensor, ops


class Distribution(Potentials):
    """What a CRF knows of its paths beyond single tags. Plain operators compute it in the log domain, on CPU too.

    All methods divide all scores by `temperature`, a number above 0 or a tensor without axes, if it is not None: above
    1 the distribution is less sure, below 1 surer. A tensor may change without a new graph, and has a gradient.
    """

    def edge_marginals(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                       temperature: float | Tensor | None = None) -> Tensor:
        """Posterior p(tag i at t, tag j at t + 1 | emissions) of each pair of tags at each step, differentiable.

        Returns:
            (length - 1, batch, num_tags, num_tags), or batch first, as pair_emissions; 0 on padding.
        """
        emissions, lengths, steps, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, by_step=True, temperature=temperature)
        _, _, pairs = posteriors(emissions, lengths, steps, start, end, None)
        pairs = (pairs + void.reshape(1, -1, 1, 1))[:-1]
        if self.batch_first:
            pairs = ops.transpose(pairs, (1, 0, 2, 3))
        return pairs

    def entropy(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                temperature: float | Tensor | None = None) -> Tensor:
        """Entropy (batch,) of the distribution over paths, in nats, differentiable; 0 for rows of length 0."""
        emissions, lengths, steps, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, by_step=True, temperature=temperature)
        first, following, weights, pairs = markov_chain(emissions, lengths, steps, start, end)
        return void - expected(weights, pairs, first, following)

    def kl(self, other: 'Distribution', emissions: Tensor, seq_length: Tensor | None = None,
           other_emissions: Tensor | None = None, pair_emissions: Tensor | None = None,
           other_pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Kullback-Leibler divergence (batch,) of this layer's distribution from another's, in nats, differentiable.

        Args:
            other: a layer with as many tags and the same layout. In a graph, two parameters must not have the same
                name: layers that are not parts of one network need `other.update_parameters_name('other.')` first.
            emissions, seq_length, pair_emissions: of this layer; the lengths are of both.
            other_emissions, other_pair_emissions: of the other one; None if they are the same.
            temperature: of both.

        Returns:
            (batch,), inf, without gradient, where the other layer forbids a path that this one does not; 0 for rows of
            length 0.
        """
        check_comparable(self.num_tags, self.batch_first, other.num_tags, other.batch_first)
        theirs = emissions if other_emissions is None else other_emissions
        their_pairs = pair_emissions if other_pair_emissions is None else other_pair_emissions
        emissions, lengths, steps, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, by_step=True, temperature=temperature)
        first, following, weights, pairs = markov_chain(emissions, lengths, steps, start, end)
        theirs, lengths, steps, start, end, also_void = other._potentials(
            theirs, seq_length, their_pairs, by_step=True, temperature=temperature)
        other_first, other_following, _, _ = markov_chain(theirs, lengths, steps, start, end)
        divergence = expected(weights, pairs, first - other_first, following - other_following)
        infinite = impossible(weights, pairs, other_first, other_following)
        return ops.masked_fill(divergence, infinite, float('inf')) + void + also_void

    def sample(self, emissions: Tensor, n: int, seq_length: Tensor | None = None, seed: int | Tensor = 0,
               pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """n random paths of each row, drawn one independently of the other from the distribution over paths.

        Args:
            emissions: as ever.
            n: how many.
            seq_length: (batch,).
            seed: an int from 0 to 2**63 - 1, or a tensor of integers without axes, which may change without a new
                graph. The same seed gives the same paths, in graphs and in PyNative mode; 0 if none is given.
            pair_emissions: as ever.
            temperature: see the class.

        Returns:
            paths (batch, n, length) int32, 0 on padding, without gradient; of a row whose values are nan, some paths.
        """
        n, seed = prepare_sampling(n, seed)
        emissions, lengths, steps, start, end, _ = self._potentials(
            emissions, seq_length, pair_emissions, by_step=True, temperature=temperature)
        first, following, _, _ = markov_chain(emissions, lengths, steps, start, end)
        return ops.stop_gradient(sampled_paths(first, following, lengths, seed, n))
