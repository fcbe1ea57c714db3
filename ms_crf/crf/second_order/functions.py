"""Functions of plain operators whose first derivatives are the second derivatives of the chain.

Posteriors are computed in the log domain, which has finite derivatives for all scores, and without a condition on
values: MindSpore 2.10 cannot run the gradient of a condition together with other operators ("Invalid formal
parameter").

Shapes: L length, B batch, K tags. Functions with `layout` take emissions in the layout of the operators in C++.
"""

from ms_crf.crf import log_domain, tensors
from ms_crf.crf.inference import pack, posteriors_of_path
from ms_crf.crf.inputs import in_range, prepare
from ms_crf.crf.potentials import Masks, constrained
from ms_crf.crf.second_order.copies import IS_COPY, check_is_copy
from ms_crf.crf.tensors import LEAST, MISMATCH, clear_padding, largest_of, ones_like, zeros_like

import mindspore as ms
from mindspore import Tensor, ops

_mark = ops.OneHot()
_ONE, _ZERO = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)


def pair(factors: Tensor, emissions: Tensor, tags: Tensor | None, lengths: Tensor, transitions: Tensor, start: Tensor,
         end: Tensor) -> Tensor:
    """Sum of the packed gradients times factors, a scalar. The packed values have no part in it.

    The derivative of this sum is the second derivative of normaliser or loss, applied to the factors. Counts of known
    tags do not change with the scores and are left out.

    Args:
        factors: (2 + L + K, B, K), as `inference.pack` returns them.
        tags: (L, B) int32, negative where not known; None for the normaliser.
        emissions, lengths, transitions, start, end: as of `inference.posteriors`.
    """
    check_is_copy(IS_COPY)
    emissions = emissions - largest_of(emissions)
    value, marginals, pairs, _ = log_domain.forward_backward(emissions, lengths, transitions, start, end)
    nothing = ops.stop_gradient(zeros_like(value))
    total = (pack(nothing, marginals, pairs, lengths) * factors).sum()
    if tags is not None:
        length, _, num_tags = emissions.shape
        live = tensors.real(lengths, length).astype(ms.float32)                # (L, B)
        unknown = live * (tags < 0).astype(ms.float32)
        if largest_of(unknown.reshape(-1)) > 0.0:
            # The paths through the known tags, as in `losses`.
            free = ops.maximum(unknown.expand_dims(-1), _mark(tags, num_tags, _ONE, _ZERO))  # (L, B, K)
            restricted = ops.select(free > 0.0, emissions, MISMATCH * ones_like(emissions))
            _, marginals, pairs, _ = log_domain.forward_backward(
                tensors.clear_padding(restricted, lengths), lengths, transitions, start, end)
            total = total - (pack(nothing, marginals, pairs, lengths) * factors).sum()
    return total


def chain_of(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, masks: Masks,
             batch_first: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Emissions (L, B, K), 0 on padding, lengths (B,) and scores as the recursions of the graph take them."""
    check_is_copy(IS_COPY)
    emissions, lengths, _ = prepare(emissions, lengths, start.shape[0], batch_first)
    return clear_padding(emissions, lengths), lengths, *constrained(transitions, start, end, masks)


def pair_of_flat(factors: Tensor, emissions: Tensor, tags: Tensor | None, lengths: Tensor, transitions: Tensor,
                 start: Tensor, end: Tensor, masks: Masks, batch_first: bool) -> Tensor:
    """`pair` of the gradients in the flat result of the operator in C++."""
    shape = emissions.shape
    emissions, lengths, transitions, start, end = chain_of(emissions, lengths, transitions, start, end, masks,
                                                           batch_first)
    length, batch, num_tags = emissions.shape
    count = length * batch * num_tags
    by_emissions = factors[batch:batch + count].reshape(shape)
    if batch_first:
        by_emissions = ops.transpose(by_emissions, (1, 0, 2))
    rows = ops.concat((ops.zeros((2, batch, num_tags), ms.float32), by_emissions,
                       factors[batch + count:].reshape(num_tags, batch, num_tags)), 0)
    if tags is not None:
        tags = in_range(tags, -1, num_tags)
        if batch_first:
            tags = ops.transpose(tags, (1, 0))
    return pair(rows, emissions, tags, lengths, transitions, start, end)


def gradients(packed: Tensor, factors: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
              end: Tensor, masks: Masks, batch_first: bool) -> Tensor:
    """The result of `operators.gradients`: linear in packed, and in factors (B,)."""
    shape, num_tags, batch = emissions.shape, start.shape[0], factors.shape[0]
    _, lengths, transitions, start, end = chain_of(emissions, lengths, transitions, start, end, masks, batch_first)
    count = shape[0] * shape[1] * num_tags
    by_emissions = packed[batch:batch + count].reshape(shape)
    if batch_first:
        by_emissions = by_emissions * factors.reshape(batch, 1, 1)
        by_time = ops.transpose(by_emissions, (1, 0, 2))
    else:
        by_time = by_emissions = by_emissions * factors.reshape(1, batch, 1)
    by_emissions = ops.select(emissions < LEAST, zeros_like(by_emissions), by_emissions)
    by_steps = (packed[batch + count:].reshape(batch, num_tags * num_tags) * factors.reshape(batch, 1)).sum(0)
    by_ends = ops.concat((by_steps, by_time[0].sum(0), tensors.at_last(by_time, lengths).sum(0)), 0)
    scores = ops.concat((transitions.reshape(-1), start, end), 0)
    by_ends = ops.select(scores < LEAST, zeros_like(by_ends), by_ends)
    return ops.concat((by_emissions.reshape(-1), by_ends), 0)


def marginals(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, masks: Masks,
              batch_first: bool) -> Tensor:
    """Posteriors in the layout of the emissions."""
    emissions, lengths, transitions, start, end = chain_of(emissions, lengths, transitions, start, end, masks,
                                                           batch_first)
    _, result, _, _ = log_domain.forward_backward(emissions - largest_of(emissions), lengths, transitions, start, end)
    if batch_first:
        result = ops.transpose(result, (1, 0, 2))
    return result


def path_posteriors(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
                    paths: Tensor, masks: Masks, batch_first: bool) -> Tensor:
    """Posteriors of the tags of paths (B, L) and of every tag after the path's tag before it (B, L, K), flat."""
    chain = chain_of(emissions, lengths, transitions, start, end, masks, batch_first)
    chosen, conditional = posteriors_of_path(ops.transpose(paths, (1, 0)), *chain, None, True)
    return ops.concat((ops.transpose(chosen, (1, 0)).reshape(-1),
                       ops.transpose(conditional, (1, 0, 2)).reshape(-1)), 0)
