"""Losses of a chain beside the plain negative log likelihood: weighted, cost-augmented, of soft targets."""

from typing import Any

from ms_crf.crf.conditionals import log_conditionals
from ms_crf.crf.inference import path_score
from ms_crf.crf.inputs import check_distributions, check_like, in_range, prepare_tags, tensor_of
from ms_crf.crf.potentials import Potentials
from ms_crf.crf.tensors import (
    LEAST,
    clear_padding,
    continued,
    forbid,
    largest_of,
    nan_where,
    price,
    real,
    reduce_losses,
    sum_of,
    zeros_like,
)
from ms_crf.crf.validation import TOLERANCE

import mindspore as ms
from mindspore import Tensor, ops


class Losses(Potentials):
    """What `CRF` has besides the loss that it gives when it is called. All are reduced as that one is."""

    def loss(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None,
             pair_emissions: Tensor | None = None, tag_weights: Any = None, token_weights: Any = None,
             row_weights: Any = None, cost: Any = None,
             temperature: float | Tensor | None = None) -> Tensor:
        """The negative log likelihood with weights and with costs; without them that of `crf(emissions, tags)`.

        A row's loss is the sum of -w_t log p(y_t | y_1 ... y_(t-1), x) over its tokens, times the weight of the row.
        The weight w_t of a token is that of its tag times its own; with weights of 1 the sum is the negative log
        likelihood. What a mean divides by does not depend on weights.

        With costs, p is that of the chain whose score of each path y' has the sum of cost(y_t, y'_t) added: the
        softmax-margin loss, log sum exp(score(y') + cost(y, y')) - score(y).

        Args:
            emissions: (length, batch, num_tags), or batch first.
            tags: (length, batch), or batch first; negative ones are not known: such a token has no term of its own and
                no cost, and those after it are given the known tags before them.
            seq_length: (batch,).
            pair_emissions: see the class.
            tag_weights: (num_tags,); tensor, array or list, as the other weights.
            token_weights: as tags.
            row_weights: (batch,).
            cost: of a wrong tag, or (num_tags, num_tags), entry (i, j) that of tag j where i is right; the diagonal is
                taken for 0.
            temperature: what all scores are divided by, costs among them; see the class.
        """
        if cost is not None:
            emissions = emissions.astype(ms.float32) + self._costs(emissions, tags, cost)
        if tag_weights is None and token_weights is None:
            losses, lengths = self._losses(emissions, tags, seq_length, pair_emissions, temperature)
        else:
            losses, lengths = self._weighted(emissions, tags, seq_length, tag_weights, token_weights, pair_emissions,
                                             temperature)
        return self._reduced(losses, lengths, row_weights)

    def cross_entropy(self, emissions: Tensor, targets: Tensor, seq_length: Tensor | None = None,
                      pair_emissions: Tensor | None = None, pair_targets: Tensor | None = None,
                      row_weights: Any = None, temperature: float | Tensor | None = None) -> Tensor:
        """The loss of soft targets: the expected negative log likelihood of a tagging that is drawn from them.

        Each row's is the normaliser minus the expected score. With a 1 in each distribution it is the negative log
        likelihood of these tags.

        Args:
            emissions: (length, batch, num_tags), or batch first.
            targets: as emissions, a distribution over the tags of each token.
            seq_length: (batch,).
            pair_emissions: see the class.
            pair_targets: (length - 1, batch, num_tags, num_tags), or batch first, a distribution over the pairs of tags
                at t and t + 1, as `edge_marginals` gives them; without, tokens are taken for independent.
            row_weights: (batch,).
            temperature: see the class. To learn from another chain, give both the same: its `marginals` and
                `edge_marginals` at a temperature as targets here, and that temperature.
        """
        check_like('targets', targets, 'emissions', emissions.shape)
        # Each position's largest is taken from both terms: less to round.
        emissions = emissions.astype(ms.float32)
        peaks = largest_of(forbid(emissions))
        emissions = emissions - ops.select(peaks < LEAST, zeros_like(peaks), peaks)
        every = self.normalizer(emissions, seq_length, pair_emissions, temperature)
        emissions, lengths, transitions, start, end, _ = self._potentials(emissions, seq_length, pair_emissions,
                                                                          temperature=temperature)
        targets = targets.astype(ms.float32)
        if self.batch_first:
            targets = ops.transpose(targets, (1, 0, 2))
        if self.check_values:
            check_distributions('targets', targets, lengths)
        targets = clear_padding(targets, lengths)                # (L, B, K)
        void = _no_distribution(targets, lengths)
        if pair_targets is None:
            pairs = _independent_pairs(targets, pair_emissions is not None)
        else:
            pairs, unfit = self._pair_targets(pair_targets, targets, lengths)
            void = void + unfit
            if pair_emissions is None:
                pairs = pairs.sum(0)
        expected = ops.select(targets > 0.0, price(emissions) * targets, zeros_like(targets))
        losses = every - path_score(expected, lengths, targets, pairs, transitions, start, end) + void
        return self._reduced(losses, lengths, row_weights)

    def path_cross_entropy(self, emissions: Tensor, paths: Tensor, weights: Tensor, seq_length: Tensor | None = None,
                           pair_emissions: Tensor | None = None, row_weights: Any = None,
                           temperature: float | Tensor | None = None) -> Tensor:
        """The loss of a distribution over paths: the sum of their negative log likelihoods times their weights.

        Args:
            emissions: (length, batch, num_tags), or batch first.
            paths: (batch, n, length), as `nbest` returns them; negative tags are not known.
            weights: (batch, n); paths with a weight of 0 are not looked at.
            seq_length: (batch,).
            pair_emissions: see the class.
            row_weights: (batch,).
            temperature: see the class.
        """
        axis = 1
        if self.batch_first:
            axis = 0
        batch, length = emissions.shape[axis], emissions.shape[1 - axis]
        n = paths.shape[1]
        check_like('paths', paths, 'batch, n and length of emissions', (batch, n, length))
        check_like('weights', weights, 'paths[:, :, 0]', (batch, n))
        lengths = seq_length
        if seq_length is None:
            lengths = ops.full((batch,), length, dtype=ms.int32)
        unused = ops.broadcast_to(ops.equal(weights, 0.0).expand_dims(-1), paths.shape)
        tags = ops.select(unused, zeros_like(paths), paths).reshape(batch * n, length)
        if not self.batch_first:
            tags = ops.transpose(tags, (1, 0))
        pairs = pair_emissions
        if pair_emissions is not None:
            pairs = _repeated(pair_emissions, axis, n)
        losses, several = self._losses(_repeated(emissions, axis, n), tags, _repeated(lengths, 0, n), pairs,
                                       temperature)
        losses = losses.reshape(batch, n)
        weights = weights.astype(ms.float32)
        losses = ops.select(ops.equal(weights, 0.0), zeros_like(losses), losses * weights).sum(1)
        return self._reduced(losses, several.reshape(batch, n)[:, 0], row_weights)

    def _reduced(self, losses: Tensor, lengths: Tensor, row_weights: Any) -> Tensor:
        """Losses (B,) times weights, reduced; a row of length 0 has the loss that it has."""
        if row_weights is not None:
            row_weights = tensor_of('row_weights', row_weights)
            check_like('row_weights', row_weights, 'seq_length', losses.shape)
            losses = ops.select(lengths > 0, losses * row_weights.astype(ms.float32), losses)
        return reduce_losses(losses, lengths, self.reduction)

    def _costs(self, emissions: Tensor, tags: Tensor, cost: Any) -> Tensor:
        """What is added to emissions, in their layout."""
        num_tags = self.num_tags
        known = prepare_tags(emissions, tags, num_tags, self.batch_first)         # (L, B)
        cost = tensor_of('cost', cost).astype(ms.float32)
        if len(cost.shape) > 0:
            check_like('cost', cost, 'transitions', (num_tags, num_tags))
        table = ops.broadcast_to(cost, (num_tags, num_tags))
        table = ops.masked_fill(table, ops.eye(num_tags, num_tags, ms.float32) > 0.0, 0.0)
        costs = ops.gather(table, in_range(known, 0, num_tags - 1), 0)
        costs = ops.masked_fill(costs, (known < 0).expand_dims(-1), 0.0)
        if self.batch_first:
            costs = ops.transpose(costs, (1, 0, 2))
        return costs

    def _weighted(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None, tag_weights: Any,
                  token_weights: Any, pair_emissions: Tensor | None,
                  temperature: float | Tensor | None) -> tuple[Tensor, Tensor]:
        """Losses (B,) with weights of tokens, and lengths (B,)."""
        known = prepare_tags(emissions, tags, self.num_tags, self.batch_first)
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, tags, False, temperature=temperature)
        length = emissions.shape[0]
        emissions = clear_padding(emissions, lengths)
        logs = log_conditionals(emissions, known, lengths, transitions, start, end)      # (L, B)
        weights = ops.ones_like(logs)
        if tag_weights is not None:
            tag_weights = tensor_of('tag_weights', tag_weights)
            check_like('tag_weights', tag_weights, 'start_transitions', (self.num_tags,))
            weights = ops.gather(tag_weights.astype(ms.float32), in_range(known, 0, self.num_tags - 1), 0)
        if token_weights is not None:
            token_weights = tensor_of('token_weights', token_weights)
            check_like('token_weights', token_weights, 'tags', tags.shape)
            token_weights = token_weights.astype(ms.float32)
            if self.batch_first:
                token_weights = ops.transpose(token_weights, (1, 0))
            weights = weights * ops.select(real(lengths, length), token_weights, zeros_like(token_weights))
        return void - (weights * logs).sum(0), lengths

    def _pair_targets(self, pair_targets: Tensor, targets: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Pair targets (L, B, K, K), 0 where no real position follows, and nan or 0 (B,): whether they fit targets."""
        length, batch, num_tags = targets.shape
        if self.batch_first:
            check_like('pair_targets', pair_targets, 'the pairs of emissions', (batch, length - 1, num_tags, num_tags))
            pair_targets = ops.transpose(pair_targets, (1, 0, 2, 3))
        else:
            check_like('pair_targets', pair_targets, 'the pairs of emissions', (length - 1, batch, num_tags, num_tags))
        nothing = ops.zeros((1, batch, num_tags, num_tags), ms.float32)
        pairs = nothing
        if length > 1:
            pairs = ops.concat((pair_targets.astype(ms.float32), nothing), 0)
        followed = continued(lengths, length).expand_dims(-1)                     # (L, B, 1)
        pairs = ops.select(followed.expand_dims(-1), pairs, zeros_like(pairs))
        following = ops.concat((targets[1:], targets[:1]), 0)
        off = ops.maximum(ops.abs(pairs.sum(3) - targets), ops.abs(pairs.sum(2) - following))     # (L, B, K)
        off = ops.select(followed, off, zeros_like(off)).sum(2) + ops.maximum(-pairs, 0.0).sum((2, 3))
        return pairs, nan_where(off.sum(0) > TOLERANCE * length)


def _independent_pairs(targets: Tensor, of_steps: bool) -> Tensor:
    """Pairs of neighbours whose targets (L, B, K) are independent: (L, B, K, K) of each step, or the sum (B, K, K)."""
    following = ops.concat((targets[1:], zeros_like(targets[:1])), 0)             # 0 where none follows
    if of_steps:
        return targets.expand_dims(3) * following.expand_dims(2)
    return ops.bmm(ops.transpose(targets, (1, 2, 0)), ops.transpose(following, (1, 0, 2)))


def _no_distribution(targets: Tensor, lengths: Tensor) -> Tensor:
    """nan for rows with a real position whose targets (L, B, K) are negative or don't add up to 1, else 0: (B,)."""
    sums = sum_of(targets).squeeze(-1)                           # (L, B)
    fits = ops.logical_and(ops.abs(sums - 1.0) < TOLERANCE, ops.maximum(-targets, 0.0).sum(2) < TOLERANCE)
    wrong = ops.logical_and(real(lengths, targets.shape[0]), ops.logical_not(fits))
    return nan_where(wrong).sum(0)


def _repeated(tensor: Tensor, axis: int, n: int) -> Tensor:
    """The tensor with each entry of an axis n times."""
    shape = tensor.shape
    repeated = ops.broadcast_to(tensor.expand_dims(axis + 1), shape[:axis + 1] + (n,) + shape[axis + 1:])
    return repeated.reshape(shape[:axis] + (shape[axis] * n,) + shape[axis + 1:])
