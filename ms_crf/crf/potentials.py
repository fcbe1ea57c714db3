"""The potentials of a chain: the scores of a layer and of a caller, as the recursions take them.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf.constraints import Constraints, usable_tags
from ms_crf.crf.inputs import check_values, prepare, prepare_steps, prepare_temperature
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

from mindspore import Tensor, ops

Masks = tuple[Tensor, ...] | None   # which transitions (K, K), starts (K,) and ends (K,) are allowed
Scores = tuple[Tensor, Tensor, Tensor]   # transitions (K, K), start (K,) and end (K,) in float32
Potentials = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def masks_of(allowed: Constraints | None) -> Masks:
    """Constraints as bool tensors, None without."""
    return None if allowed is None else tuple(Tensor(array) for array in allowed)


def usable_of(allowed: Constraints | None) -> Tensor | None:
    """The tags that some allowed path goes through (K,) bool, None without constraints."""
    return None if allowed is None else Tensor(usable_tags(allowed))


def constrained(transitions: Tensor, start: Tensor, end: Tensor, masks: Masks) -> Scores:
    """Scores in which everything that they or the constraints forbid is FORBIDDEN."""
    transitions, start, end = forbid(transitions), forbid(start), forbid(end)
    if masks is not None:
        transitions = ops.select(masks[0], transitions, FORBIDDEN * ones_like(transitions))
        start = ops.select(masks[1], start, FORBIDDEN * ones_like(start))
        end = ops.select(masks[2], end, FORBIDDEN * ones_like(end))
    return transitions, start, end


def _divided(scores: Tensor, divisor: Tensor) -> Tensor:
    """What is forbidden stays so."""
    return ops.masked_fill(scores / divisor, scores < LEAST, FORBIDDEN)


def potentials_of(transitions: Tensor, start: Tensor, end: Tensor, emissions: Tensor, seq_length: Tensor | None,
                  pair_emissions: Tensor | None, temperature: float | Tensor | None, tags: Tensor | None,
                  batch_first: bool, looked_at: bool, clear: bool, by_step: bool) -> Potentials:
    """What the recursions take.

    Args:
        transitions, start, end: what `constrained` returns.
        emissions, seq_length, pair_emissions, tags: as they came from the caller.
        temperature: what all scores are divided by; None for 1.
        batch_first: the layout of what came from the caller.
        looked_at: whether values that can't be raise ValueError in PyNative mode.
        clear: whether emissions are 0 on padding.
        by_step: whether there are transitions of each step in any case.

    Returns:
        emissions (L, B, K) in float32; lengths (B,) int32; transitions (K, K), with pair_emissions or by_step
        (L, B, K, K), those of the step after each position; start (K,), end (K,); and what is added to the values
        of each row (B,): nan, or 0. All real emissions of a row with nan or +inf in its emissions or scores are
        nan, and so is what is added, if transitions are by step, or not `clear`.
    """
    caller_emissions = emissions
    emissions, lengths, void = prepare(emissions, seq_length, start.shape[0], batch_first)
    if looked_at:
        check_values(emissions, tags, seq_length, start.shape[0], batch_first)
    by_step = by_step or pair_emissions is not None
    if by_step:
        transitions = prepare_steps(transitions, caller_emissions, pair_emissions, lengths, batch_first, looked_at)
    faulty = nan_in_rows(emissions, lengths) + nan_in_scores(transitions, start, end)       # (B,)
    faulty = ops.select(lengths > 0, faulty, zeros_like(faulty))
    emissions = emissions + faulty.reshape(1, -1, 1)
    if clear:
        emissions = clear_padding(emissions, lengths)
    if by_step or not clear:
        void = void + faulty
    if temperature is not None:
        divisor = prepare_temperature(temperature)
        if not clear:                            # nan on padding would reach the gradient by the divisor
            emissions = clear_padding(emissions, lengths)
        emissions, transitions = _divided(emissions, divisor), _divided(transitions, divisor)
        start, end = _divided(start, divisor), _divided(end, divisor)
        void = void + divisor * 0.0
    return emissions, lengths, transitions, start, end, void
