"""The CRF layer: a linear chain over emissions, with its losses, best paths, posteriors and samples.

`CRF` declares all calls. The bodies are in other modules: `backends` for the calls that operators in C++ also compute,
`losses`, `markov` and `selection` for the other calls.
"""

from ms_crf.crf import losses, markov, selection
from ms_crf.crf.inference import posteriors
from ms_crf.crf.inputs import Numbers, check_comparable, check_constrained, check_like, prepare_tags
from ms_crf.crf.parameters import Chain
from ms_crf.crf.tensors import lowered, turned
from ms_crf.crf.viterbi import History

from mindspore import Tensor, ops
from numpy.typing import ArrayLike


class CRF(Chain):
    """Linear-chain conditional random field.

    It gives each path of tags the probability exp(score - `normalizer`). The score of a path is the sum of its
    emissions, transitions, start and end.

    Calls of every method have these arguments in common:
        emissions: (length, batch, num_tags), or (batch, length, num_tags) with batch_first, in any float type. They are
            computed in float32.
        seq_length: (batch,), the number of real positions of each row: 0 to length, None for full rows. Rows of length
            0 cost nothing.
        pair_emissions: (length - 1, batch, num_tags, num_tags), or batch first. Entry (t, b, i, j) is added to the
            transition from tag i at position t to tag j at t + 1. Then plain operators compute in the log domain, on
            CPU too. The call itself does not take them; `loss` and `viterbi` do.
        temperature: a number above 0 or a tensor without axes, by which all scores are divided: above 1 the
            distribution is less sure, below 1 surer. A tensor may change without a new graph, and has a gradient.

    All methods work inside `ms.jit`, in GRAPH_MODE and in PYNATIVE_MODE.

    Emissions, pair_emissions and parameters of -inf, or below -1e24, forbid as constraints do, with a gradient of 0.
    All values of a row with nan or +inf in its emissions or pair_emissions are nan, and its best paths are all 0; on
    padding these emissions don't matter. The same holds for a row whose length is below 0 or above the
    padded length: its paths are those of 0 or of all positions. nan and +inf in parameters have this effect on every
    row that they have a part in. An impossible tag, which is not below num_tags, makes nan of the losses of its row.

    Args:
        num_tags: number of tags.
        batch_first: layout of emissions, tags and results.
        reduction: of the losses: 'none' (batch,), 'sum', 'mean' over rows that are not empty, 'token_mean' over real
            positions.
        constraints: what `allowed_transitions` returns. Paths that break them have no part in the
            normaliser and are chosen only where no other path exists; a gold path that breaks them
            costs about 10,000 a break.
        check_values: raise ValueError, with row and position, for a tag or length that can't be and for an
            emission of nan or +inf. In PyNative mode only, where it waits for the values: a graph can't look at
            them, and answers nan. `check_batch` does the same for a batch on the host.

    Parameters: transitions (num_tags, num_tags), entry (i, j) scores tag j after tag i;
    start_transitions and end_transitions (num_tags,).

    Example, of a sentence with two tokens and three tags:
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

    # No argument more: inside a graph, `ms.grad(crf)` must be given all that there are.
    def construct(self, emissions, tags=None, seq_length=None):
        """Returns `loss(emissions, tags, seq_length)`; without tags `viterbi(emissions, seq_length)`.

        The loss has first and second derivatives. Second ones are to be compiled: MindSpore's PyNative mode gets
        those of plain functions wrong.
        """
        if tags is None:
            return self.viterbi(emissions, seq_length)
        return self.loss(emissions, tags, seq_length)

    def loss(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None,
             pair_emissions: Tensor | None = None, tag_weights: Numbers | None = None,
             token_weights: Numbers | None = None, row_weights: Numbers | None = None, cost: Numbers | None = None,
             temperature: float | Tensor | None = None) -> Tensor:
        """The negative log likelihood in float32, reduced; with weights and costs.

        A row's loss is the sum of -w_t log p(y_t | y_1 ... y_(t-1), x) over its tokens, times the weight of the row.
        The weight w_t of a token is the weight of its tag times its own weight. With weights of 1 the sum is the
        negative log likelihood. The divisor of a mean does not depend on weights.

        With costs, p belongs to the chain whose score of each path y' has the sum of cost(y_t, y'_t) added. This is the
        softmax-margin loss, log sum exp(score(y') + cost(y, y')) - score(y).

        Args:
            tags: (length, batch), or batch first; a negative tag is not known. The loss is then the loss of all paths
                through the known tags. With weights, such a token has no term of its own and no cost, and the tokens
                after it are given the known tags before them. Or bool, in the shape of emissions: which tags each token
                may have; the loss is then the loss of all paths through these.
            tag_weights: (num_tags,); tensor, array or list, as the other weights.
            token_weights: in the shape of tags.
            row_weights: (batch,).
            cost: of a wrong tag, or (num_tags, num_tags), entry (i, j) is the cost of tag j where i is right; the
                diagonal counts as 0. Costs are divided by the temperature.
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
        """The loss of soft targets: the expected negative log likelihood of a tagging that is drawn from them, reduced.

        A row's loss is the normaliser minus the expected score. To learn from another chain, give its `marginals` and
        `edge_marginals` at a temperature as targets, and this temperature.

        Args:
            targets: as emissions, a distribution over the tags of each token.
            pair_targets: as pair_emissions, a distribution over the pairs of tags at t and t + 1, as `edge_marginals`
                returns them; without, tokens are independent.
            row_weights: (batch,).
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
        """The loss of a distribution over paths: the weighted sum of their negative log likelihoods, reduced.

        Args:
            paths: (batch, n, length), as `nbest` returns them; negative tags are not known.
            weights: (batch, n); paths with a weight of 0 are not looked at.
            row_weights: (batch,).
        """
        rows = losses.of_each_path(paths, weights, emissions, seq_length, pair_emissions, self.batch_first)
        by_path, lengths = self._losses(*rows, temperature)
        lengths = lengths.reshape(weights.shape)[:, 0]
        return losses.reduced(losses.weighted_sum(by_path, weights), lengths, row_weights, self.reduction)

    def log_prob(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None,
                 pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Log probability (batch,) of tags as `loss` takes them, or of all paths through the known ones."""
        by_row, _ = self._losses(emissions, tags, seq_length, pair_emissions, temperature)
        return -by_row

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                   temperature: float | Tensor | None = None) -> Tensor:
        """Log of the sum over all paths (batch,); 0 for rows of length 0.

        Where all paths are forbidden, over those with the fewest breaks, about -10,000 for each.
        """
        return self.backends.chosen(pair_emissions, temperature).normalizer(self._scores(), emissions, seq_length,
                                                                     pair_emissions, temperature)

    def viterbi(self, emissions: Tensor, seq_length: Tensor | None = None,
                pair_emissions: Tensor | None = None) -> tuple[Tensor, History]:
        """What `post_decode` takes: the score of the best path to each tag, and which tag was before.

        Returns:
            scores (batch, num_tags), and history (length - 1, batch, num_tags), an empty tuple if length is 1.
        """
        return self.backends.chosen(pair_emissions).viterbi(self._scores(), emissions, seq_length, pair_emissions)

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None,
               pair_emissions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Best paths, the lowest tag of equals, and their scores; below -1e30 where all paths are forbidden.

        Returns:
            paths (batch, length) int32, 0 on padding, and scores (batch,).
        """
        return self.backends.chosen(pair_emissions).decode(self._scores(), emissions, seq_length, pair_emissions)

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None,
              pair_emissions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The n best paths, best first.

        exp(score - `normalizer`) is a path's posterior. Where a row has fewer than n allowed paths,
        the rest are zeros with the lowest float32 as score, below every real one.

        Returns:
            paths (batch, n, length) int32, 0 on padding, and scores (batch, n).
        """
        return self.backends.chosen(pair_emissions).nbest(self._scores(), emissions, n, seq_length, pair_emissions)

    def nbest_spans(self, emissions: Tensor, n: int, spans: ArrayLike | Tensor, seq_length: Tensor | None = None,
                    pair_emissions: Tensor | None = None,
                    temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The n best sets of spans, best first: as `nbest`, but taggings that stand for the same spans count once.

        Sets are in the order of the scores of their best taggings. Where a row has fewer than n sets, the rest are
        zeros with the lowest float32 as score and log probability. The temperature does not change which sets they are.

        Args:
            emissions: of a known shape.
            n: number of sets.
            spans: what `span_steps(tags)` returns, or another table (num_tags + 1, num_tags + 1) of integers from 0
                to (num_tags + 1) ** 2 - 1: entry (i, j) is the number of the step from tag i to tag j, the last row
                is for the beginning and the last column for the end. Two taggings count as the same where the numbers
                of all their steps are the same.

        Returns:
            paths (batch, n, length) int32, the best tagging of each set, 0 on padding; scores (batch, n) of these
            taggings, divided by the temperature; and log probabilities (batch, n) of the sets, each summed over all its
            taggings.
        """
        table = selection.table_of(spans, self.num_tags)
        return self.backends.plain.nbest_spans(self._scores(), emissions, n, table, seq_length, pair_emissions,
                                               temperature)

    def mbr_decode(self, emissions: Tensor, seq_length: Tensor | None = None,
                   pair_emissions: Tensor | None = None, constrained: bool = True,
                   temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The tagging with the fewest wrong tags to be expected: minimum Bayes risk under the Hamming loss.

        Args:
            constrained: whether only paths are chosen that constraints and scores of -inf allow; else the likeliest tag
                at each position is, whatever stands before it.
            temperature: of the marginals.

        Returns:
            paths (batch, length) int32, 0 on padding, and the number of right tags to be expected (batch,), the sum of
            their marginals, differentiable.
        """
        check_constrained('constrained', constrained)
        marginals = self.marginals(emissions, seq_length, pair_emissions, temperature)
        if constrained:
            backend, fixed = self.backends.chosen(pair_emissions), ops.stop_gradient(marginals)
            paths = backend.likeliest(self._scores(), emissions, fixed, seq_length, pair_emissions)
        else:
            paths = markov.likeliest(marginals, seq_length, self.batch_first)
        return paths, markov.expected_hits(marginals, paths, self.batch_first)

    def marginals(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                  temperature: float | Tensor | None = None) -> Tensor:
        """Posterior p(tag at the position | emissions) of each tag at each position, differentiable; in the layout of
        emissions, 0 on padding."""
        return self.backends.chosen(pair_emissions, temperature).marginals(self._scores(), emissions, seq_length,
                                                                    pair_emissions, temperature)

    def edge_marginals(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                       temperature: float | Tensor | None = None) -> Tensor:
        """Posterior p(tag i at t, tag j at t + 1 | emissions) of each pair of tags at each step, differentiable; in the
        layout of pair_emissions, 0 on padding."""
        emissions, lengths, steps, start, end, void = self._steps(emissions, seq_length, pair_emissions, temperature)
        _, _, pairs = posteriors(emissions, lengths, steps, start, end, None)
        pairs = (pairs + void.reshape(1, -1, 1, 1))[:-1]
        return turned(pairs, self.batch_first)

    def path_posteriors(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None,
                        pair_emissions: Tensor | None = None,
                        temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Posteriors of the tags of given paths, one by one and each after the one before it.

        Args:
            paths: (batch, length) int32, as `decode` returns them.

        Returns:
            p(the path's tag at the position | emissions) (batch, length), and p(tag at the position | the path's tag
            before it, emissions) of every tag (batch, length, num_tags); 0 on padding. The product of the second
            over the path's own tags is the posterior of the path; for a part of the path, the factor of its first
            tag is taken from the first result.
        """
        backend = self.backends.chosen(pair_emissions, temperature)
        return backend.path_posteriors(self._scores(), emissions, paths, seq_length, pair_emissions, temperature)

    def along(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The old name of `path_posteriors`, which goes with the next version."""
        return self.path_posteriors(emissions, paths, seq_length)

    def entropy(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                temperature: float | Tensor | None = None) -> Tensor:
        """Entropy (batch,) of the distribution over paths, in nats, differentiable; 0 for rows of length 0."""
        return markov.entropy(*self._steps(emissions, seq_length, pair_emissions, temperature))

    def kl(self, other: 'CRF', emissions: Tensor, seq_length: Tensor | None = None,
           other_emissions: Tensor | None = None, pair_emissions: Tensor | None = None,
           other_pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Kullback-Leibler divergence (batch,) of this layer's distribution from another's, in nats, differentiable.

        Args:
            other: a layer with as many tags and the same layout. In a graph, two parameters must not have the same
                name: layers that are not parts of one network need `other.update_parameters_name('other.')` first.
            emissions, pair_emissions: of this layer; seq_length and temperature are of both.
            other_emissions, other_pair_emissions: of the other layer; None if they are the same.

        Returns:
            (batch,), inf, without gradient, where the other layer forbids a path that this one does not; 0 for rows of
            length 0.
        """
        check_comparable(self.num_tags, self.batch_first, other.num_tags, other.batch_first)
        theirs = emissions if other_emissions is None else other_emissions
        their_pairs = pair_emissions if other_pair_emissions is None else other_pair_emissions
        return markov.divergence(*self._steps(emissions, seq_length, pair_emissions, temperature),
                                 *other._steps(theirs, seq_length, their_pairs, temperature))

    def sample(self, emissions: Tensor, n: int, seq_length: Tensor | None = None, seed: int | Tensor = 0,
               pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """n random paths of each row, drawn one independently of the other from the distribution over paths.

        Args:
            n: number of paths.
            seed: an int from 0 to 2**63 - 1, or a tensor of integers without axes, which may change without a new
                graph. The same seed gives the same paths, in graphs and in PyNative mode.

        Returns:
            paths (batch, n, length) int32, 0 on padding, without gradient; of a row whose values are nan, some paths.
        """
        return markov.sampled_paths(n, seed, *self._steps(emissions, seq_length, pair_emissions, temperature))
