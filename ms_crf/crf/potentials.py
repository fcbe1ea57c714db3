"""The potentials of a chain: the scores of a layer and of a caller in the form that the recursions need.

Shapes: L length, B batch, K tags.
"""

from ms_crf.crf import tensors
from ms_crf.crf.constraints import Constraints
from ms_crf.crf.inputs import check_values, prepare, prepare_steps, prepare_temperature

from mindspore import Tensor, ops

Masks = tuple[Tensor, ...] | None   # allowed transitions (K, K), first tags (K,), last tags (K,)
Scores = tuple[Tensor, Tensor, Tensor]   # transitions (K, K), start (K,) and end (K,) in float32
Potentials = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def masks_of(allowed: Constraints | None) -> Masks:
    """Constraints as three bool tensors, or None if there are no constraints."""
    return None if allowed is None else tuple(Tensor(array) for array in allowed)


def constrained(transitions: Tensor, start: Tensor, end: Tensor, masks: Masks) -> Scores:
    """Transitions, start and end with FORBIDDEN for everything that the scores or the constraints forbid."""
    transitions, start, end = tensors.forbid(transitions), tensors.forbid(start), tensors.forbid(end)
    if masks is not None:
        transitions = ops.select(masks[0], transitions, tensors.FORBIDDEN * tensors.ones_like(transitions))
        start = ops.select(masks[1], start, tensors.FORBIDDEN * tensors.ones_like(start))
        end = ops.select(masks[2], end, tensors.FORBIDDEN * tensors.ones_like(end))
    return transitions, start, end


def _divided(scores: Tensor, divisor: Tensor) -> Tensor:
    """Scores divided by a number; forbidden scores stay FORBIDDEN."""
    return ops.masked_fill(scores / divisor, scores < tensors.LEAST, tensors.FORBIDDEN)


def potentials_of(scores: Scores, emissions: Tensor, seq_length: Tensor | None, pair_emissions: Tensor | None,
                  temperature: float | Tensor | None, tags: Tensor | None, batch_first: bool, validate: bool,
                  clear: bool, by_step: bool) -> Potentials:
    """The inputs of the recursions.

    Args:
        scores: the result of `constrained`.
        emissions, seq_length, pair_emissions, tags: arguments of the caller.
        temperature: divides all scores; None for 1.
        batch_first: layout of the caller's arguments.
        validate: whether invalid values raise ValueError in PyNative mode.
        clear: whether to set emissions on padding to 0.
        by_step: whether to return separate transitions for each step even without pair_emissions.

    Returns:
        emissions: (L, B, K) float32. In rows with nan or +inf in emissions or scores, all real emissions are nan.
        lengths: (B,) int32.
        transitions: (K, K); with pair_emissions or by_step (L, B, K, K), entry t for the step from position t to t + 1.
        start, end: (K,).
        void: (B,), to be added to the results of each row: nan for an invalid row, otherwise 0. With transitions by
            step, or without `clear`, rows with nan or +inf also get nan.
    """
    transitions, start, end = scores
    caller_emissions = emissions
    emissions, lengths, void = prepare(emissions, seq_length, start.shape[0], batch_first)
    if validate:
        check_values(emissions, tags, seq_length, start.shape[0], batch_first)
    by_step = by_step or pair_emissions is not None
    if by_step:
        transitions = prepare_steps(transitions, caller_emissions, pair_emissions, lengths, batch_first, validate)
    faulty = tensors.nan_in_rows(emissions, lengths) + tensors.nan_in_scores(transitions, start, end)  # (B,)
    faulty = ops.select(lengths > 0, faulty, tensors.zeros_like(faulty))
    emissions = emissions + faulty.reshape(1, -1, 1)
    if clear:
        emissions = tensors.clear_padding(emissions, lengths)
    if by_step or not clear:
        void = void + faulty
    if temperature is not None:
        divisor = prepare_temperature(temperature)
        if not clear:                            # nan on padding would reach the gradient of the divisor
            emissions = tensors.clear_padding(emissions, lengths)
        emissions, transitions = _divided(emissions, divisor), _divided(transitions, divisor)
        start, end = _divided(start, divisor), _divided(end, divisor)
        void = void + divisor * 0.0
    return emissions, lengths, transitions, start, end, void
