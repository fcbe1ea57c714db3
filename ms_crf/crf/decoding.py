"""Other ways to decode: the tagging with the fewest wrong tags to be expected, and the n best sets of spans."""

from typing import Any

from ms_crf.crf.gradients import value_of
from ms_crf.crf.nbest import LOWEST, checked_n
from ms_crf.crf.nbest_spans import best_spans, masked_chain, of_each_step, table_of
from ms_crf.crf.potentials import Potentials
from ms_crf.crf.tensors import FORBIDDEN, LEAST, largest_of, real, zeros_like
from ms_crf.crf.validation import check_flag
from ms_crf.crf.viterbi import best_paths_of
from ms_crf.native import custom

import mindspore as ms
from mindspore import Tensor, ops


@ops.constexpr(check=False)
def check_constrained(constrained: bool) -> None:
    check_flag('constrained', constrained)


def only_forbidding(scores: Tensor, others: Tensor | float) -> Tensor:
    """FORBIDDEN where scores forbid, else the others."""
    return ops.masked_fill(ops.zeros_like(scores) + others, scores < LEAST, FORBIDDEN)


class OtherDecoding(Potentials):
    """What `CRF` has besides `decode` and `nbest`."""

    def mbr_decode(self, emissions: Tensor, seq_length: Tensor | None = None,
                   pair_emissions: Tensor | None = None, constrained: bool = True,
                   temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The tagging with the fewest wrong tags to be expected: minimum Bayes risk under the Hamming loss.

        Args:
            emissions: (length, batch, num_tags), or batch first.
            seq_length: (batch,).
            pair_emissions: see the class.
            constrained: whether only paths are chosen that constraints and scores of -inf allow; else the likeliest tag
                at each position is, whatever stands before it.
            temperature: of the marginals; see the class.

        Returns:
            paths (batch, length) int32, 0 on padding, and the number of right tags to be expected (batch,), the sum of
            their marginals, differentiable.
        """
        check_constrained(constrained)
        marginals = self.marginals(emissions, seq_length, pair_emissions, temperature)
        if self.batch_first:
            marginals = ops.transpose(marginals, (1, 0, 2))      # (L, B, K)
        paths = self._likeliest(emissions, seq_length, ops.stop_gradient(marginals), constrained, pair_emissions)
        expected = ops.gather_elements(marginals, 2, paths.expand_dims(2)).squeeze(2).sum(0)
        return ops.transpose(paths, (1, 0)), expected

    def _likeliest(self, emissions: Tensor, seq_length: Tensor | None, marginals: Tensor, constrained: bool,
                   pair_emissions: Tensor | None) -> Tensor:
        """Paths (L, B) int32, 0 on padding, with the largest sums of marginals (L, B, K)."""
        if constrained and custom.in_use() and pair_emissions is None:
            emissions, lengths, length, batch = self._raw(emissions, seq_length, None)
            if self.batch_first:
                marginals = ops.transpose(marginals, (1, 0, 2))
            scores = only_forbidding(emissions, marginals)
            transitions, start, end = self._parameters()
            flat = self.native.decode(scores, lengths, only_forbidding(transitions, 0.0), only_forbidding(start, 0.0),
                                      only_forbidding(end, 0.0))
            paths = ops.stop_gradient(flat[batch:]).astype(ms.int32).reshape(batch, length)
            return ops.transpose(paths, (1, 0))
        emissions, lengths, transitions, start, end, _ = self._potentials(emissions, seq_length, pair_emissions)
        if constrained:
            paths, _ = best_paths_of(only_forbidding(emissions, marginals), lengths, only_forbidding(transitions, 0.0),
                                     only_forbidding(start, 0.0), only_forbidding(end, 0.0))
            return paths
        paths, _ = ops.ArgMaxWithValue(2)(marginals)
        paths = paths.astype(ms.int32)
        return ops.select(real(lengths, paths.shape[0]), paths, zeros_like(paths))

    def nbest_spans(self, emissions: Tensor, n: int, spans: Any, seq_length: Tensor | None = None,
                    pair_emissions: Tensor | None = None,
                    temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The n best sets of spans, best first: as `nbest`, but taggings that stand for the same spans count once.

        Sets are in the order of the scores of their best taggings. Where a row has fewer than n sets, the rest are
        zeros with the lowest float32 as score and log probability.

        Args:
            emissions: (length, batch, num_tags), or batch first, of a known shape.
            n: how many.
            spans: what `span_steps(tags)` returns, or another table (num_tags + 1, num_tags + 1) of integers from 0
                to (num_tags + 1) ** 2 - 1: entry (i, j) is the number of the step from tag i to tag j, the last row
                is for the beginning and the last column for the end. Two taggings count as the same where the numbers
                of all their steps are the same.
            seq_length: (batch,).
            pair_emissions: see the class.
            temperature: see the class; it changes the numbers, not which sets they are.

        Returns:
            paths (batch, n, length) int32, the best tagging of each set, 0 on padding; scores (batch, n) of these
            taggings, divided by the temperature; and log probabilities (batch, n) of the sets, each summed over all its
            taggings.
        """
        n = checked_n(n, emissions.shape)
        table = table_of(spans, self.num_tags)
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, temperature=temperature)
        paths, scores = best_spans(emissions, lengths, transitions, start, end, table, n)
        emissions = emissions - largest_of(emissions)            # less to round
        masked, several, steps = masked_chain(paths, emissions, lengths, transitions, table)
        log_probs = value_of(self.log_normalizer_of_steps(masked, several, steps, start, end)).reshape(-1, n)
        # In the same way as of the sets, so that both are rounded alike.
        steps = of_each_step(transitions, lengths, emissions.shape[0])
        every = value_of(self.log_normalizer_of_steps(emissions, lengths, steps, start, end))
        log_probs = log_probs - every.expand_dims(-1)
        log_probs = ops.select(ops.equal(scores, LOWEST), scores, log_probs)
        return paths, scores + void.expand_dims(-1), log_probs + void.expand_dims(-1)
