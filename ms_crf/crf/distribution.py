"""The distribution of a chain over its paths: posteriors of pairs of tags."""

from ms_crf.crf.inference import posteriors
from ms_crf.crf.potentials import Potentials

from mindspore import Tensor, ops


class Distribution(Potentials):
    """What a CRF knows of its paths beyond single tags. Plain operators compute it in the log domain, on CPU too."""

    def edge_marginals(self, emissions: Tensor, seq_length: Tensor | None = None,
                       pair_emissions: Tensor | None = None) -> Tensor:
        """Posterior p(tag i at t, tag j at t + 1 | emissions) of each pair of tags at each step, differentiable.

        Returns:
            (length - 1, batch, num_tags, num_tags), or batch first, as pair_emissions; 0 on padding.
        """
        emissions, lengths, steps, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, by_step=True)
        _, _, pairs = posteriors(emissions, lengths, steps, start, end, None)
        pairs = (pairs + void.reshape(1, -1, 1, 1))[:-1]
        if self.batch_first:
            pairs = ops.transpose(pairs, (1, 0, 2, 3))
        return pairs
