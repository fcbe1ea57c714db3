"""The potentials of a chain: a layer's scores and a caller's, as recursions and operators take them."""

from ms_crf.crf.inputs import check_scores, check_values, prepare, prepare_raw, prepare_steps, prepare_temperature
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.tensors import (
    FORBIDDEN,
    LEAST,
    clear_padding,
    forbid,
    nan_in_rows,
    nan_in_scores,
    ones_like,
    zeros_like,
)

import mindspore as ms
from mindspore import Parameter, Tensor, ops


def _divided(scores: Tensor, divisor: Tensor) -> Tensor:
    """What is forbidden stays so."""
    return ops.masked_fill(scores / divisor, scores < LEAST, FORBIDDEN)


class Potentials(InFloat32):
    """A cell with the scores of a chain."""

    num_tags: int
    batch_first: bool
    check_values: bool
    constrained: bool
    transitions: Parameter
    start_transitions: Parameter
    end_transitions: Parameter

    def _raw(self, emissions: Tensor, seq_length: Tensor | None,
             tags: Tensor | None) -> tuple[Tensor, Tensor, int, int]:
        """What the operators take: emissions in float32, lengths as they are; and the padded length and the batch."""
        emissions, lengths = prepare_raw(emissions, tags, seq_length, self.num_tags, self.batch_first)
        length, batch = emissions.shape[0], emissions.shape[1]
        if self.batch_first:
            length, batch = batch, length
        if self.check_values:
            time_first = emissions
            if self.batch_first:
                time_first = ops.transpose(emissions, (1, 0, 2))
            check_values(time_first, tags, seq_length, self.num_tags, self.batch_first)
        return emissions, lengths, length, batch

    def _parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions (K, K), start (K,) and end (K,) in float32."""
        check_scores(self.num_tags, self.transitions.shape, self.start_transitions.shape, self.end_transitions.shape)
        return (self.transitions.astype(ms.float32), self.start_transitions.astype(ms.float32),
                self.end_transitions.astype(ms.float32))

    def _prepare(self, emissions: Tensor, seq_length: Tensor | None, tags: Tensor | None = None,
                 clear: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Emissions (L, B, K) in float32, 0 on padding if `clear`, and what else `prepare` returns."""
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        if self.check_values:
            check_values(emissions, tags, seq_length, self.num_tags, self.batch_first)
        if clear:
            emissions = clear_padding(emissions, lengths)
        return emissions, lengths, void

    def _potentials(self, emissions: Tensor, seq_length: Tensor | None, pair_emissions: Tensor | None,
                    tags: Tensor | None = None, clear: bool = True, by_step: bool = False,
                    temperature: float | Tensor | None = None) -> tuple[Tensor, ...]:
        """What the recursions take.

        Args:
            emissions, seq_length, pair_emissions, tags: as they came from the caller.
            clear: whether emissions are 0 on padding.
            by_step: whether there are transitions of each step in any case.
            temperature: what all scores are divided by; None for 1.

        Returns:
            emissions (L, B, K) in float32; lengths (B,) int32; transitions (K, K), with pair_emissions or by_step
            (L, B, K, K), those of the step after each position; start (K,), end (K,); and what is added to the values
            of each row (B,): nan, or 0. All real emissions of a row with nan or +inf in its emissions or scores are
            nan, and so is what is added, if transitions are by step, or not `clear`.
        """
        given = emissions
        emissions, lengths, void = self._prepare(given, seq_length, tags, False)
        transitions, start, end = self._scores()
        by_step = by_step or pair_emissions is not None
        if by_step:
            transitions = prepare_steps(transitions, given, pair_emissions, lengths, self.batch_first,
                                        self.check_values)
        faulty = nan_in_rows(emissions, lengths) + nan_in_scores(transitions, start, end)       # (B,)
        faulty = ops.select(lengths > 0, faulty, zeros_like(faulty))
        emissions = emissions + faulty.reshape(1, -1, 1)
        if clear:
            emissions = clear_padding(emissions, lengths)
        if by_step or not clear:
            void = void + faulty
        if temperature is not None:
            divisor = prepare_temperature(temperature)
            if not clear:                        # nan on padding would reach the gradient by the divisor
                emissions = clear_padding(emissions, lengths)
            emissions, transitions = _divided(emissions, divisor), _divided(transitions, divisor)
            start, end = _divided(start, divisor), _divided(end, divisor)
            void = void + divisor * 0.0
        return emissions, lengths, transitions, start, end, void

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions (K, K), start (K,) and end (K,) in float32, with what constraints forbid."""
        transitions, start, end = self._parameters()
        transitions, start, end = forbid(transitions), forbid(start), forbid(end)
        if self.constrained:
            transitions = ops.select(self._allowed, transitions, FORBIDDEN * ones_like(transitions))
            start = ops.select(self._allowed_start, start, FORBIDDEN * ones_like(start))
            end = ops.select(self._allowed_end, end, FORBIDDEN * ones_like(end))
        return transitions, start, end
