"""What the operators compute, as graphs of plain operators of MindSpore: what is differentiated in their place.

Posteriors are computed in the log domain, without a condition on values: MindSpore 2.10 cannot run the gradient of a
condition together with other operators ("Invalid formal parameter").

Shapes and first arguments as in `cells`; emissions are (L, B, K), or (B, L, K) with batch_first.
"""

from ms_crf.crf import log_domain, packing, tensors
from ms_crf.crf.inference import posteriors_of_path
from ms_crf.crf.inputs import in_range, prepare
from ms_crf.crf.tensors import FORBIDDEN, LEAST, clear_padding, forbid, largest_of, ones_like, zeros_like

import mindspore as ms
from mindspore import Tensor, ops


def chain_of(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
             allowed: Tensor | None, batch_first: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Emissions (L, B, K), 0 on padding, lengths (B,) and scores as the recursions of the graph take them."""
    num_tags = start.shape[0]
    emissions, lengths, _ = prepare(emissions, lengths, num_tags, batch_first)
    transitions, start, end = forbid(transitions), forbid(start), forbid(end)
    if allowed is not None:
        squared = num_tags * num_tags
        open_steps = allowed[:squared].reshape(num_tags, num_tags) > 0
        open_starts, open_ends = allowed[squared:squared + num_tags] > 0, allowed[squared + num_tags:] > 0
        transitions = ops.select(open_steps, transitions, FORBIDDEN * ones_like(transitions))
        start = ops.select(open_starts, start, FORBIDDEN * ones_like(start))
        end = ops.select(open_ends, end, FORBIDDEN * ones_like(end))
    return clear_padding(emissions, lengths), lengths, transitions, start, end


def pair(factors: Tensor, emissions: Tensor, lengths: Tensor, tags: Tensor | None, transitions: Tensor, start: Tensor,
         end: Tensor, allowed: Tensor | None, batch_first: bool) -> Tensor:
    """The gradients in a packed result times factors, added up: a scalar. Of the values nothing."""
    shape = emissions.shape
    emissions, lengths, transitions, start, end = chain_of(emissions, lengths, transitions, start, end, allowed,
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
    return packing.pair(rows, emissions, tags, lengths, transitions, start, end)


def gradients(packed: Tensor, factors: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
              end: Tensor, allowed: Tensor | None, batch_first: bool) -> Tensor:
    """What `operators.gradients` gives: linear in packed, and in factors (B,)."""
    shape, num_tags, batch = emissions.shape, start.shape[0], factors.shape[0]
    _, lengths, transitions, start, end = chain_of(emissions, lengths, transitions, start, end, allowed, batch_first)
    count = shape[0] * shape[1] * num_tags
    by_emissions = packed[batch:batch + count].reshape(shape)
    if batch_first:
        by_time = ops.transpose(by_emissions * factors.reshape(batch, 1, 1), (1, 0, 2))
        by_emissions = by_emissions * factors.reshape(batch, 1, 1)
    else:
        by_time = by_emissions = by_emissions * factors.reshape(1, batch, 1)
    by_emissions = ops.select(emissions < LEAST, zeros_like(by_emissions), by_emissions)
    by_steps = (packed[batch + count:].reshape(batch, num_tags * num_tags) * factors.reshape(batch, 1)).sum(0)
    by_ends = ops.concat((by_steps, by_time[0].sum(0), tensors.at_last(by_time, lengths).sum(0)), 0)
    scores = ops.concat((transitions.reshape(-1), start, end), 0)
    by_ends = ops.select(scores < LEAST, zeros_like(by_ends), by_ends)
    return ops.concat((by_emissions.reshape(-1), by_ends), 0)


def marginals(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
              allowed: Tensor | None, batch_first: bool) -> Tensor:
    """Posteriors as emissions."""
    emissions, lengths, transitions, start, end = chain_of(emissions, lengths, transitions, start, end, allowed,
                                                           batch_first)
    _, result, _, _ = log_domain.forward_backward(emissions - largest_of(emissions), lengths, transitions, start, end)
    if batch_first:
        result = ops.transpose(result, (1, 0, 2))
    return result


def path_posteriors(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
                    paths: Tensor, allowed: Tensor | None, batch_first: bool) -> Tensor:
    """Posteriors of the tags of paths (B, L) and of every tag after the path's tag before it (B, L, K), flat."""
    chain = chain_of(emissions, lengths, transitions, start, end, allowed, batch_first)
    chosen, conditional = posteriors_of_path(ops.transpose(paths, (1, 0)), *chain, None, True)
    return ops.concat((ops.transpose(chosen, (1, 0)).reshape(-1),
                       ops.transpose(conditional, (1, 0, 2)).reshape(-1)), 0)
