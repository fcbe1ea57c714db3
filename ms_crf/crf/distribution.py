"""Probabilities of a linear chain: normalizer, posteriors, entropy, divergence and samples, as methods of `CRF`."""

from ms_crf.crf import markov
from ms_crf.crf.inference import posteriors
from ms_crf.crf.inputs import check_comparable
from ms_crf.crf.parameters import ChainParameters
from ms_crf.crf.tensors import turned

from mindspore import Tensor


class ChainDistribution(ChainParameters):
    """The distribution over paths of a `CRF`: p(path) = exp(score - normalizer).

    The docstring of `CRF` describes the arguments and the effect of -inf, nan and invalid lengths.
    """

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                   temperature: float | Tensor | None = None) -> Tensor:
        """Returns the log partition function (batch,): the log of the sum of exp(score) over all paths.

        It is 0 for rows of length 0. If all paths of a row are forbidden, the sum is over the paths with the fewest
        violations, and each violation adds about -10,000.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.backends.backend_for(pair_emissions, temperature).normalizer(
            self._scores(), emissions, seq_length, pair_emissions, temperature)

    def log_prob(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None,
                 pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Returns the log probability (batch,) of tags, or of all paths through the known tags.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            tags: (length, batch), or (batch, length) with batch_first; a negative tag is unknown. Or bool, in the shape
                of emissions: the tags that each token may have.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        by_row, _ = self._losses(emissions, tags, seq_length, pair_emissions, temperature)
        return -by_row

    def marginals(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                  temperature: float | Tensor | None = None) -> Tensor:
        """Returns the posterior p(tag at the position | emissions) of each tag at each position.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            Probabilities in the shape of emissions, 0 on padding; differentiable.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.backends.backend_for(pair_emissions, temperature).marginals(
            self._scores(), emissions, seq_length, pair_emissions, temperature)

    def edge_marginals(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                       temperature: float | Tensor | None = None) -> Tensor:
        """Returns the posterior p(tag i at t, tag j at t + 1 | emissions) of each tag pair at each step.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            Probabilities (length - 1, batch, num_tags, num_tags), or (batch, length - 1, num_tags, num_tags) with
            batch_first, 0 on padding; differentiable.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        emissions, lengths, steps, start, end, void = self._steps(emissions, seq_length, pair_emissions, temperature)
        _, _, pairs = posteriors(emissions, lengths, steps, start, end, None)
        pairs = (pairs + void.reshape(1, -1, 1, 1))[:-1]
        return turned(pairs, self.batch_first)

    def path_posteriors(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None,
                        pair_emissions: Tensor | None = None,
                        temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the posteriors of the tags of paths, and the posteriors of all tags given the previous tag.

        The product of the conditional probabilities of the tags of a path is the posterior of the path. For a part of a
        path, take the factor of its first tag from the first result.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            paths: (batch, length) integers, as `decode` returns them, for both values of batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            posteriors: p(tag of the path | emissions) at each position, (batch, length), 0 on padding.
            conditional: p(tag | tag of the path at the previous position, emissions) for every tag at each position,
                (batch, length, num_tags), 0 on padding.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        backend = self.backends.backend_for(pair_emissions, temperature)
        return backend.path_posteriors(self._scores(), emissions, paths, seq_length, pair_emissions, temperature)

    def along(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Deprecated alias of `path_posteriors`, which will be removed in the next version."""
        return self.path_posteriors(emissions, paths, seq_length)

    def entropy(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                temperature: float | Tensor | None = None) -> Tensor:
        """Returns the entropy of the distribution over paths in nats, (batch,); 0 for rows of length 0; differentiable.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return markov.entropy(*self._steps(emissions, seq_length, pair_emissions, temperature))

    def kl(self, other: 'ChainDistribution', emissions: Tensor, seq_length: Tensor | None = None,
           other_emissions: Tensor | None = None, pair_emissions: Tensor | None = None,
           other_pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Returns the Kullback-Leibler divergence KL(p || q) in nats, (batch,), of this layer (p) from another (q).

        The divergence is differentiable. It is 0 for rows of length 0. It is inf, without gradient, where the other
        layer forbids a path that this layer allows.

        Args:
            other: a layer with the same number of tags and the same layout. In a graph, parameter names must differ:
                call `other.update_parameters_name('other.')` first if the layers are not parts of one network.
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            other_emissions: emissions of the other layer. None if both layers read the same emissions.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            other_pair_emissions: pair emissions of the other layer. None if both layers read the same.
            temperature: a number above 0, or a scalar tensor, that divides all scores of both layers. None for 1.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        check_comparable(self.num_tags, self.batch_first, other.num_tags, other.batch_first)
        theirs = emissions if other_emissions is None else other_emissions
        their_pairs = pair_emissions if other_pair_emissions is None else other_pair_emissions
        return markov.divergence(*self._steps(emissions, seq_length, pair_emissions, temperature),
                                 *other._steps(theirs, seq_length, their_pairs, temperature))

    def sample(self, emissions: Tensor, n: int, seq_length: Tensor | None = None, seed: int | Tensor = 0,
               pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Returns n random paths of each row, drawn independently from the distribution over paths.

        The same seed gives the same paths in graphs and in PyNative mode.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            n: number of paths, an int.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            seed: an int from 0 to 2**63 - 1, or a scalar tensor of integers. A tensor can change without a new
                compilation.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            Paths (batch, n, length) int32, 0 on padding, without gradient. Rows with nan get arbitrary paths.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return markov.sampled_paths(n, seed, *self._steps(emissions, seq_length, pair_emissions, temperature))
