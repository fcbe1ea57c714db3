"""The potentials of a chain: the scores of a layer and of a caller, as the recursions take them.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import tensors
from ms_crf.crf.constraints import Constraints
from ms_crf.crf.inputs import check_values, prepare, prepare_steps, prepare_temperature

from mindspore import Tensor, ops

Masks = tuple[Tensor, ...] | None   # which transitions (K, K), starts (K,) and ends (K,) are allowed
Scores = tuple[Tensor, Tensor, Tensor]   # transitions (K, K), start (K,) and end (K,) in float32
Potentials = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def masks_of(allowed: Constraints | None) -> Masks:
    """Constraints as bool tensors, None without."""
    return None if allowed is None else tuple(Tensor(array) for array in allowed)


def constrained(transitions: Tensor, start: Tensor, end: Tensor, masks: Masks) -> Scores:
    """Scores in which everything that they or the constraints forbid is FORBIDDEN."""
    transitions, start, end = tensors.forbid(transitions), tensors.forbid(start), tensors.forbid(end)
    if masks is not None:
        transitions = ops.select(masks[0], transitions, tensors.FORBIDDEN * tensors.ones_like(transitions))
        start = ops.select(masks[1], start, tensors.FORBIDDEN * tensors.ones_like(start))
        end = ops.select(masks[2], end, tensors.FORBIDDEN * tensors.ones_like(end))
    return transitions, start, end


def _divided(scores: Tensor, divisor: Tensor) -> Tensor:
    """What is forbidden stays so."""
    return ops.masked_fill(scores / divisor, scores < tensors.LEAST, tensors.FORBIDDEN)


def potentials_of(scores: Scores, emissions: Tensor, seq_length: Tensor | None, pair_emissions: Tensor | None,
                  temperature: float | Tensor | None, tags: Tensor | None, batch_first: bool, looked_at: bool,
                  clear: bool, by_step: bool) -> Potentials:
    """What the recursions take.

    Args:
        scores: what `constrained` returns.
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
    transitions, start, end = scores
    caller_emissions = emissions
    emissions, lengths, void = prepare(emissions, seq_length, start.shape[0], batch_first)
    if looked_at:
        check_values(emissions, tags, seq_length, start.shape[0], batch_first)
    by_step = by_step or pair_emissions is not None
    if by_step:
        transitions = prepare_steps(transitions, caller_emissions, pair_emissions, lengths, batch_first, looked_at)
    faulty = tensors.nan_in_rows(emissions, lengths) + tensors.nan_in_scores(transitions, start, end)  # (B,)
    faulty = ops.select(lengths > 0, faulty, tensors.zeros_like(faulty))
    emissions = emissions + faulty.reshape(1, -1, 1)
    if clear:
        emissions = tensors.clear_padding(emissions, lengths)
    if by_step or not clear:
        void = void + faulty
    if temperature is not None:
        divisor = prepare_temperature(temperature)
        if not clear:                            # nan on padding would reach the gradient by the divisor
            emissions = tensors.clear_padding(emissions, lengths)
        emissions, transitions = _divided(emissions, divisor), _divided(transitions, divisor)
        start, end = _divided(start, divisor), _divided(end, divisor)
        void = void + divisor * 0.0
    return emissions, lengths, transitions, start, end, void
