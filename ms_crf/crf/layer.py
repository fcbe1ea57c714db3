"""The CRF layer: a linear-chain conditional random field over emissions, with its losses and its decoding.

`CRF` inherits the methods that compute probabilities from `distribution.ChainDistribution`. The recursions are in other
modules: `backends` selects between C++ operators and graphs; `losses`, `markov` and `selection` contain the rest.
"""

from ms_crf.crf import losses, markov, selection
from ms_crf.crf.distribution import ChainDistribution
from ms_crf.crf.inputs import Numbers, check_constrained, check_like, prepare_tags
from ms_crf.crf.tensors import lowered
from ms_crf.crf.viterbi import History

from mindspore import Tensor, ops
from numpy.typing import ArrayLike


class CRF(ChainDistribution):
    """Linear-chain conditional random field.

    The score of a path of tags is the sum of its emissions, its transitions, its start score and its end score. The
    probability of a path is exp(score - `normalizer`). All methods work inside `ms.jit`, in GRAPH_MODE and in
    PYNATIVE_MODE.

    Arguments of the methods:
        emissions: (length, batch, num_tags), or (batch, length, num_tags) with batch_first, in any float type. All
            methods compute in float32.
        seq_length: (batch,), the number of real positions of each row, from 0 to length. None if all rows are full.
        pair_emissions: (length - 1, batch, num_tags, num_tags), or (batch, length - 1, num_tags, num_tags) with
            batch_first. Entry (t, b, i, j) is added to the transition from tag i at position t to tag j at t + 1. With
            pair_emissions, plain operators compute in the log domain, also on CPU. A call of the layer itself does not
            accept them; `loss` and `viterbi` do.
        temperature: a number above 0 or a scalar tensor that divides all scores. Above 1 the distribution is less
            certain, below 1 more certain. A tensor has a gradient and can change without a new compilation.

    Special values:
        -inf, or any value below -1e24, in emissions, pair_emissions or parameters forbids a tag or a transition, like a
            constraint. Its gradient is 0.
        nan or +inf in emissions or pair_emissions of a row makes all results of the row nan, and its best paths 0. On
            padding these values have no effect. nan or +inf in a parameter has this effect on every row that uses it.
        A length below 0 or above the padded length makes all results of the row nan. Its paths are computed with the
            length 0 or with the padded length.
        A tag that is not below num_tags makes the loss of its row nan.

    Args:
        num_tags: number of tags.
        batch_first: layout of emissions, tags and results: True for (batch, length, ...).
        reduction: reduction of the losses. 'none' returns (batch,), 'sum' the sum, 'mean' the mean over rows that are
            not empty, 'token_mean' the sum divided by the number of real positions.
        constraints: the result of `allowed_transitions`. Forbidden paths have no part in the normalizer. They are
            chosen only if no other path exists. Each violation in a gold path adds about 10,000 to the loss.
        check_values: whether to raise ValueError, with row and position, for an invalid tag or length and for an
            emission of nan or +inf. This works in PyNative mode only and waits for the values; graphs return nan.
            `check_batch` makes the same checks on the host.

    Parameters: transitions (num_tags, num_tags), where entry (i, j) is the score of tag j after tag i;
    start_transitions (num_tags,) and end_transitions (num_tags,).

    Example with one sentence of two tokens and three tags:
        >>> import mindspore as ms
        >>> from ms_crf import CRF
        >>> crf = CRF(num_tags=3, batch_first=True)
        >>> emissions = ms.Tensor([[[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]])
        >>> tags, seq_length = ms.Tensor([[0, 1]]), ms.Tensor([2])
        >>> gradient = ms.jit(ms.grad(crf, weights=crf.trainable_params()))
        >>> by_emissions, by_scores = gradient(emissions, tags, seq_length)
        >>> by_emissions.shape, [parameter.shape for parameter in by_scores]
        ((1, 2, 3), [(3,), (3,), (3, 3)])
        >>> paths, scores = crf.nbest(emissions, 9, seq_length)
        >>> paths[0, 0].asnumpy().tolist()
        [0, 1]
        >>> probabilities = ms.ops.exp(scores - crf.normalizer(emissions, seq_length))
        >>> f'{float(probabilities.sum()):.3f}'
        '1.000'
    """

    # Exactly these arguments: inside a graph, `ms.grad(crf)` must get a value for each of them.
    def construct(self, emissions, tags=None, seq_length=None):
        """Returns `loss(emissions, tags, seq_length)`, or without tags `viterbi(emissions, seq_length)`.

        The loss has first and second derivatives. Compile the code of second derivatives with `ms.jit`: PyNative mode
        of MindSpore 2.10 computes wrong second derivatives, also of plain functions.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            tags: (length, batch), or (batch, length) with batch_first, as in `loss`. None for the Viterbi scores.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.

        Returns:
            The reduced loss; without tags, scores (batch, num_tags) and history (length - 1, batch, num_tags).

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        if tags is None:
            return self.viterbi(emissions, seq_length)
        return self.loss(emissions, tags, seq_length)

    def loss(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None,
             pair_emissions: Tensor | None = None, tag_weights: Numbers | None = None,
             token_weights: Numbers | None = None, row_weights: Numbers | None = None, cost: Numbers | None = None,
             temperature: float | Tensor | None = None) -> Tensor:
        """Returns the negative log likelihood of tags in float32, reduced, with optional weights and costs.

        The loss of a row is the sum of -w_t log p(y_t | y_1 ... y_(t-1), x) over its tokens, times the weight of the
        row. w_t is the weight of the tag times the weight of the token. Without weights, the sum is the negative log
        likelihood. The divisor of a mean does not depend on the weights.

        With costs, cost(y_t, y'_t) is added to the score of each path y' for each token, and p is the distribution of
        these scores. This is the softmax-margin loss, log sum exp(score(y') + cost(y, y')) - score(y).

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            tags: (length, batch), or (batch, length) with batch_first. A negative tag is unknown: the loss sums over
                all paths through the known tags. With weights, an unknown token has no term and no cost, and the tokens
                after it are conditioned on the known tags. Or bool, in the shape of emissions: the tags that each token
                may have; the loss sums over all paths through these sets, without tag or token weights and costs.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            tag_weights: weight of each tag, (num_tags,); a tensor, an array or a list. None for 1.
            token_weights: weight of each token, in the shape of integer tags. None for 1.
            row_weights: weight of the loss of each row, (batch,); a tensor, an array or a list. None for 1.
            cost: cost of any wrong tag; or (num_tags, num_tags), where entry (i, j) is the cost of predicting tag j
                where tag i is correct, and the diagonal is ignored. The temperature also divides costs.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            A scalar, or (batch,) with reduction 'none'.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        if cost is not None:
            emissions = losses.with_costs(emissions, tags, cost, self.num_tags, self.batch_first)
        if tag_weights is None and token_weights is None:
            by_row, lengths = self._losses(emissions, tags, seq_length, pair_emissions, temperature)
        else:
            known = prepare_tags(emissions, tags, self.num_tags, self.batch_first)
            chain = self._potentials(emissions, seq_length, pair_emissions, temperature, tags, False)
            by_row, lengths = losses.weighted(known, tag_weights, token_weights, self.batch_first, *chain), chain[1]
        return losses.reduced(by_row, lengths, row_weights, self.reduction)

    def cross_entropy(self, emissions: Tensor, targets: Tensor, seq_length: Tensor | None = None,
                      pair_emissions: Tensor | None = None, pair_targets: Tensor | None = None,
                      row_weights: Numbers | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Returns the loss of soft targets: the expected negative log likelihood of tags drawn from them, reduced.

        The loss of a row is the normalizer minus the expected score. To learn from another layer, pass its `marginals`
        and `edge_marginals` at some temperature as targets, and the same temperature.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            targets: probabilities of the tags of each token, in the shape of emissions.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            pair_targets: probabilities of the tag pairs at t and t + 1, in the shape of pair_emissions, as
                `edge_marginals` returns them. None if the tags of different tokens are independent.
            row_weights: weight of the loss of each row, (batch,); a tensor, an array or a list. None for 1.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            A scalar, or (batch,) with reduction 'none'; nan if targets are not distributions, within 0.001.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        check_like('targets', targets, 'emissions', emissions.shape)
        emissions = lowered(emissions)                           # the same from both terms: less to round
        every = self.normalizer(emissions, seq_length, pair_emissions, temperature)
        chain = self._potentials(emissions, seq_length, pair_emissions, temperature)
        by_row = every - losses.expected_score(targets, pair_targets, self.batch_first, self.check_values, *chain)
        return losses.reduced(by_row, chain[1], row_weights, self.reduction)

    def path_cross_entropy(self, emissions: Tensor, paths: Tensor, weights: Tensor, seq_length: Tensor | None = None,
                           pair_emissions: Tensor | None = None, row_weights: Numbers | None = None,
                           temperature: float | Tensor | None = None) -> Tensor:
        """Returns the loss of a distribution over paths: the weighted sum of their negative log likelihoods, reduced.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            paths: (batch, n, length) integers, as `nbest` returns them. A negative tag is unknown.
            weights: weight of each path, (batch, n). Paths with weight 0 are ignored.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            row_weights: weight of the loss of each row, (batch,); a tensor, an array or a list. None for 1.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1.

        Returns:
            A scalar, or (batch,) with reduction 'none'.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        rows = losses.of_each_path(paths, weights, emissions, seq_length, pair_emissions, self.batch_first)
        by_path, lengths = self._losses(*rows, temperature)
        lengths = lengths.reshape(weights.shape)[:, 0]
        return losses.reduced(losses.weighted_sum(by_path, weights), lengths, row_weights, self.reduction)

    def viterbi(self, emissions: Tensor, seq_length: Tensor | None = None,
                pair_emissions: Tensor | None = None) -> tuple[Tensor, History]:
        """Returns the arguments of `post_decode`: for each tag the score of the best path to it, and the history.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.

        Returns:
            scores: score of the best path that ends in each tag, (batch, num_tags).
            history: (length - 1, batch, num_tags), or an empty tuple if length is 1. Entry (t, b, j) is the tag at
                position t of the best path that has tag j at t + 1.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.backends.backend_for(pair_emissions).viterbi(self._scores(), emissions, seq_length, pair_emissions)

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None,
               pair_emissions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the best path of each row and its score.

        Of paths with equal scores, the path with the lowest last tag is chosen, then the lowest tag before it, and so
        on. If all paths of a row are forbidden, a path with the fewest violations is chosen.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.

        Returns:
            paths: (batch, length) int32, 0 on padding.
            scores: (batch,); below -1e30 if all paths of the row are forbidden.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.backends.backend_for(pair_emissions).decode(self._scores(), emissions, seq_length, pair_emissions)

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None,
              pair_emissions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the n best paths of each row, best first.

        The probability of a path is exp(score - `normalizer`). If a row has fewer than n allowed paths, the remaining
        paths are 0 and their score is the lowest float32.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first. The
                shape must be known when a graph is compiled.
            n: number of paths, an int.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.

        Returns:
            paths: (batch, n, length) int32, 0 on padding.
            scores: (batch, n).

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        return self.backends.backend_for(pair_emissions).nbest(self._scores(), emissions, n, seq_length, pair_emissions)

    def nbest_spans(self, emissions: Tensor, n: int, spans: ArrayLike | Tensor, seq_length: Tensor | None = None,
                    pair_emissions: Tensor | None = None,
                    temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the n best sets of spans of each row, best first: paths with the same spans count once.

        Each set is represented by its best path. Sets are sorted by the score of this path. If a row has fewer than n
        sets, the remaining paths are 0 and their score and log probability are the lowest float32.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first. The
                shape must be known when a graph is compiled.
            n: number of sets, an int.
            spans: the result of `span_steps(tags)`, or a table (num_tags + 1, num_tags + 1) of integers from 0 to
                (num_tags + 1) ** 2 - 1. Entry (i, j) is a number for the step from tag i to tag j. The last row is for
                the first tag of a path, the last column for the end of a path. Two paths belong to the same set if the
                numbers of all their steps are equal.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            temperature: a number above 0, or a scalar tensor, that divides all scores. None for 1. The sets do not
                depend on it.

        Returns:
            paths: the best path of each set, (batch, n, length) int32, 0 on padding.
            scores: scores of these paths divided by the temperature, (batch, n).
            log_probs: log probability of each set, summed over all its paths, (batch, n).

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        table = selection.table_of(spans, self.num_tags)
        return self.backends.plain.nbest_spans(self._scores(), emissions, n, table, seq_length, pair_emissions,
                                               temperature)

    def mbr_decode(self, emissions: Tensor, seq_length: Tensor | None = None,
                   pair_emissions: Tensor | None = None, constrained: bool = True,
                   temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the path with the fewest expected wrong tags: minimum Bayes risk under the Hamming loss.

        Args:
            emissions: scores of the tags, (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            seq_length: number of real positions of each row, (batch,), 0 to length. None if all rows are full.
            pair_emissions: scores of tag pairs, (length - 1, batch, num_tags, num_tags), or (batch, length - 1,
                num_tags, num_tags). None for no such scores.
            constrained: True chooses among the paths that constraints and scores of -inf allow. False chooses the most
                probable tag of each position independently.
            temperature: a number above 0, or a scalar tensor, that divides all scores of the marginals. None for 1.

        Returns:
            paths: (batch, length) int32, 0 on padding.
            hits: expected number of correct tags, the sum of their marginals, (batch,); differentiable.

        Raises:
            TypeError or ValueError: an argument has a wrong type or shape.
        """
        check_constrained('constrained', constrained)
        marginals = self.marginals(emissions, seq_length, pair_emissions, temperature)
        if constrained:
            backend, fixed = self.backends.backend_for(pair_emissions), ops.stop_gradient(marginals)
            paths = backend.likeliest(self._scores(), emissions, fixed, seq_length, pair_emissions)
        else:
            paths = markov.likeliest(marginals, seq_length, self.batch_first)
        return paths, markov.expected_hits(marginals, paths, self.batch_first)
