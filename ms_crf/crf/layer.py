"""The CRF layer: a linear chain over emissions, with its loss, best paths and posteriors."""

from collections.abc import Sequence
from typing import Any

from ms_crf.crf.constraints import Constraints, check_constraints, usable_tags
from ms_crf.crf.decoding import OtherDecoding
from ms_crf.crf.distribution import Distribution
from ms_crf.crf.gradients import (
    LogNormalizer,
    LogNormalizerOfSteps,
    NegativeLogLikelihood,
    NegativeLogLikelihoodOfSteps,
    value_of,
)
from ms_crf.crf.inference import posteriors, posteriors_of_path
from ms_crf.crf.inputs import check_paths, check_values, in_range, prepare_tags
from ms_crf.crf.losses import Losses
from ms_crf.crf.mindspore_fixes import CompilableMethods
from ms_crf.crf.native.cells import Chain, scores_and_history, scores_and_paths
from ms_crf.crf.nbest import best_paths, checked_n
from ms_crf.crf.sets import are_sets, lengths_of, lowered
from ms_crf.crf.tensors import clear_padding, is_fixed, nan_in_rows, zeros_like
from ms_crf.crf.validation import check_batch_first, check_flag, check_reduction, check_table_of_tags
from ms_crf.crf.viterbi import best_paths_of, viterbi_any_length
from ms_crf.crf.viterbi import viterbi as viterbi_fixed_length
from ms_crf.native import custom

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Uniform, initializer


class CRF(CompilableMethods, Losses, OtherDecoding, Distribution, nn.Cell):
    """Linear-chain conditional random field.

    It gives each path of tags the probability exp(score - `normalizer`), its score being the sum of its emissions,
    transitions, start and end: `log_prob` is the logarithm of it, `nbest` gives scores, `marginals` the probability
    of each tag at a position, `path_posteriors` that of the tags of a path one by one.

    A path may also be scored pair by pair: `pair_emissions` (length - 1, batch, num_tags, num_tags), or batch first,
    which every method takes (for the call itself: `loss` and `viterbi`), are added to the transitions of each step,
    entry (t, b, i, j) to that from tag i at position t to tag j at t + 1. Then plain operators compute in the log
    domain, on CPU too.

    Every method takes emissions as (length, batch, num_tags), or (batch, length, num_tags) with
    batch_first, in any float type (they are computed in float32), and seq_length (batch,), the number
    of real positions of each row: 0 to length, None for full rows. Rows of length 0 cost nothing.
    All of them work inside `ms.jit`, in GRAPH_MODE and in PYNATIVE_MODE.

    Emissions, pair_emissions and parameters of -inf, or below -1e24, forbid as constraints do, with a gradient of 0.
    All values of a row with nan or +inf in its emissions or pair_emissions are nan, and its best paths are all 0; on
    padding these emissions don't matter. The same holds for a row whose length is below 0 or above the
    padded length: its paths are those of 0 or of all positions. nan and +inf in parameters have this effect on every
    row that they have a part in. An impossible tag, which is not below num_tags, makes nan of the losses of its row.

    Args:
        num_tags: number of tags.
        batch_first: layout of emissions, tags and results.
        reduction: of the loss: 'none' (batch,), 'sum', 'mean' over rows that are not empty,
            'token_mean' over real positions.
        constraints: what `allowed_transitions` returns. Paths that break them have no part in the
            normaliser and are chosen only where no other path exists; a gold path that breaks them
            costs about 10,000 a break.
        check_values: raise ValueError, with row and position, for a tag or length that can't be and for an
            emission of nan or +inf. In PyNative mode only, where it waits for the values: a graph can't look at
            them, and answers nan. `check_batch` does the same for a batch on the host.

    All calls but `crf(...)`, `decode`, `viterbi` and `nbest` divide all scores by `temperature`, a number above 0 or a
    tensor without axes: above 1 the distribution is less sure, below 1 surer. A tensor may change without a new graph,
    and has a gradient.

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

    def __init__(self, num_tags: int, batch_first: bool = False, reduction: str = 'sum',
                 constraints: Sequence[np.ndarray] | None = None, check_values: bool = False) -> None:
        super().__init__()
        check_table_of_tags(num_tags)
        check_batch_first(batch_first)
        check_reduction(reduction)
        check_flag('check_values', check_values)
        num_tags = int(num_tags)
        self.num_tags = num_tags
        self.batch_first = batch_first
        self.reduction = reduction
        self.check_values = check_values
        self.start_transitions = Parameter(initializer(Uniform(0.1), (num_tags,)), name='start_transitions')
        self.end_transitions = Parameter(initializer(Uniform(0.1), (num_tags,)), name='end_transitions')
        self.transitions = Parameter(initializer(Uniform(0.1), (num_tags, num_tags)), name='transitions')
        self.constrained = constraints is not None
        allowed = None
        self._usable = None
        if constraints is not None:
            allowed = check_constraints(constraints, num_tags)
            self._allowed = Tensor(allowed.transitions)
            self._allowed_start = Tensor(allowed.start)
            self._allowed_end = Tensor(allowed.end)
            self._usable = Tensor(usable_tags(allowed))
        self.log_normalizer = LogNormalizer(self._usable)
        self.negative_log_likelihood = NegativeLogLikelihood(self._usable)
        self.log_normalizer_of_steps = LogNormalizerOfSteps()
        self.negative_log_likelihood_of_steps = NegativeLogLikelihoodOfSteps()
        self.native = Chain(batch_first, allowed)

    @property
    def constraints(self) -> Constraints | None:
        """A copy of the constraints as bool arrays, None without."""
        if not self.constrained:
            return None
        return Constraints(*(tensor.asnumpy().copy() for tensor in (self._allowed, self._allowed_start,
                                                                    self._allowed_end)))

    def extend_repr(self) -> str:
        constraints = None
        if self.constrained:
            constraints = f'{int(self._allowed.asnumpy().sum())} of {self.num_tags ** 2} transitions'
        return (f'num_tags={self.num_tags}, batch_first={self.batch_first}, reduction={self.reduction!r}, '
                f'constraints={constraints}, check_values={self.check_values}')

    # No argument more: inside a graph, `ms.grad(crf)` must be given all that there are.
    def construct(self, emissions, tags=None, seq_length=None):
        """What `loss` gives; without tags what `viterbi` gives.

        The loss has first and second derivatives. Second ones are to be compiled: MindSpore's PyNative mode gets
        those of plain functions wrong.

        Args:
            emissions: (length, batch, num_tags), or batch first.
            tags: (length, batch), or batch first; a negative tag means that it is not known, and the
                loss is then that of all paths through the known ones. Or bool, in the shape of emissions: which
                tags each token may have; the loss is then that of all paths through these.
            seq_length: (batch,).

        Returns:
            With tags, the negative log likelihood in float32, reduced. Without, (score, history):
            (batch, num_tags) and (length - 1, batch, num_tags), an empty tuple if length is 1.
        """
        if tags is None:
            return self.viterbi(emissions, seq_length)
        return self.loss(emissions, tags, seq_length)

    def viterbi(self, emissions: Tensor, seq_length: Tensor | None = None,
                pair_emissions: Tensor | None = None) -> tuple[Tensor, Any]:
        """What `post_decode` takes: the score of the best path to each tag, and which tag was before.

        Returns:
            scores (batch, num_tags), and history (length - 1, batch, num_tags), an empty tuple if length is 1.
        """
        if custom.in_use() and pair_emissions is None:
            emissions, lengths, length, batch = self._raw(emissions, seq_length, None)
            flat = self.native.viterbi(emissions, lengths, *self._parameters())
            return scores_and_history(flat, length, batch, self.num_tags)
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, None, False)
        if is_fixed(emissions) and (pair_emissions is None or emissions.shape[0] == 1):
            scores, history = viterbi_fixed_length(emissions, lengths, transitions, start, end)
        else:
            scores, history = viterbi_any_length(emissions, lengths, transitions, start, end)
            history = history[:emissions.shape[0] - 1]
        if len(history) > 0:
            faulty = ops.not_equal(scores.sum(1), scores.sum(1)).reshape(1, -1, 1)
            history = ops.masked_fill(history, faulty, 0)
        scores = ops.select((lengths > 0).expand_dims(-1), scores, zeros_like(scores))
        return scores + void.expand_dims(-1), history

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None,
               pair_emissions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Best paths, the lowest tag of equals, and their scores; below -1e30 where all paths are forbidden.

        Returns:
            paths (batch, length) int32, 0 on padding, and scores (batch,).
        """
        if custom.in_use() and pair_emissions is None:
            emissions, lengths, length, batch = self._raw(emissions, seq_length, None)
            flat = self.native.decode(emissions, lengths, *self._parameters())
            return ops.stop_gradient(flat[batch:]).astype(ms.int32).reshape(batch, length), flat[:batch]
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, None, False)
        paths, score = best_paths_of(emissions, lengths, transitions, start, end)
        return ops.transpose(paths, (1, 0)), score + void

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None,
              pair_emissions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The n best paths, best first.

        exp(score - `normalizer`) is a path's posterior. Where a row has fewer than n allowed paths,
        the rest are zeros with the lowest float32 as score, below every real one.

        Returns:
            paths (batch, n, length) int32, 0 on padding, and scores (batch, n).
        """
        if custom.in_use() and pair_emissions is None:
            emissions, lengths, length, batch = self._raw(emissions, seq_length, None)
            n = checked_n(n, emissions.shape)
            flat = self.native.n_best(emissions, lengths, *self._parameters(), ops.zeros((n,), ms.int32))
            scores, paths = scores_and_paths(flat, length, batch, n)
            return paths, scores
        emissions, lengths, transitions, start, end, void = self._potentials(emissions, seq_length, pair_emissions)
        paths, scores = best_paths(emissions, lengths, transitions, start, end, n)
        return paths, scores + void.expand_dims(-1)

    def marginals(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                  temperature: float | Tensor | None = None) -> Tensor:
        """Posterior p(tag at the position | emissions) of each tag at each position, differentiable; in the layout of
        emissions, 0 on padding."""
        if custom.in_use() and pair_emissions is None and temperature is None:
            emissions, lengths, _, _ = self._raw(emissions, seq_length, None)
            return self.native.marginals(emissions, lengths, *self._parameters())
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, temperature=temperature)
        _, marginals, _ = posteriors(emissions, lengths, transitions, start, end, self._usable)
        marginals = clear_padding(marginals, lengths) + void.expand_dims(-1)
        if self.batch_first:
            marginals = ops.transpose(marginals, (1, 0, 2))
        return marginals

    def path_posteriors(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None,
                        pair_emissions: Tensor | None = None,
                        temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Posteriors of the tags of given paths, one by one and each after the one before it.

        Args:
            emissions: (length, batch, num_tags), or batch first.
            paths: (batch, length) int32, as `decode` returns them.
            seq_length: (batch,).
            pair_emissions, temperature: see the class.

        Returns:
            p(the path's tag at the position | emissions) (batch, length), and p(tag at the position | the path's tag
            before it, emissions) of every tag (batch, length, num_tags); 0 on padding. The product of the second
            over the path's own tags is the posterior of the path; for a part of the path, the factor of its first
            tag is taken from the first result.
        """
        if custom.in_use() and pair_emissions is None and temperature is None:
            emissions, lengths, length, batch = self._raw(emissions, seq_length, None)
            check_paths(paths, emissions, self.batch_first)
            flat = self.native.path_posteriors(emissions, lengths, *self._parameters(), paths)
            count = batch * length
            return flat[:count].reshape(batch, length), flat[count:].reshape(batch, length, self.num_tags)
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, temperature=temperature)
        check_paths(paths, emissions, False)
        paths = ops.transpose(paths, (1, 0))
        chosen, conditional = posteriors_of_path(paths, emissions, lengths, transitions, start, end, self._usable)
        void = void + nan_in_rows(emissions, lengths)
        chosen, conditional = chosen + void, conditional + void.expand_dims(-1)
        return ops.transpose(chosen, (1, 0)), ops.transpose(conditional, (1, 0, 2))

    def along(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The old name of `path_posteriors`, which goes with the next version."""
        return self.path_posteriors(emissions, paths, seq_length)

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None, pair_emissions: Tensor | None = None,
                   temperature: float | Tensor | None = None) -> Tensor:
        """Log of the sum over all paths (batch,); 0 for rows of length 0.

        Where all paths are forbidden, over those with the fewest breaks, about -10,000 for each.
        """
        if custom.in_use() and pair_emissions is None and temperature is None:
            emissions, lengths, _, batch = self._raw(emissions, seq_length, None)
            return self.native.normalizer(emissions, lengths, *self._parameters())[:batch]
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, temperature=temperature)
        if pair_emissions is None:
            rows = self.log_normalizer(emissions, lengths, transitions, start, end)
        else:
            rows = self.log_normalizer_of_steps(emissions, lengths, transitions, start, end)
        return value_of(rows) + void

    def log_prob(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None = None,
                 pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None) -> Tensor:
        """Log probability (batch,) of the tags; of all paths through the known ones if some are negative."""
        losses, _ = self._losses(emissions, tags, seq_length, pair_emissions, temperature)
        return -losses

    def _losses(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None,
                pair_emissions: Tensor | None, temperature: float | Tensor | None = None) -> tuple[Tensor, Tensor]:
        if are_sets(tags):
            return self._losses_of_sets(emissions, tags, seq_length, pair_emissions, temperature)
        if custom.in_use() and pair_emissions is None and temperature is None:
            emissions, lengths, length, batch = self._raw(emissions, seq_length, tags)
            losses = self.native.loss(emissions, lengths, *self._parameters(), tags)[:batch]
            return losses, in_range(lengths, 0, length)
        known = prepare_tags(emissions, tags, self.num_tags, self.batch_first)
        emissions, lengths, transitions, start, end, void = self._potentials(
            emissions, seq_length, pair_emissions, tags, temperature=temperature)
        if pair_emissions is None:
            rows = self.negative_log_likelihood(emissions, known, lengths, transitions, start, end)
        else:
            rows = self.negative_log_likelihood_of_steps(emissions, known, lengths, transitions, start, end)
        return value_of(rows) + void, lengths

    def _losses_of_sets(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None,
                        pair_emissions: Tensor | None,
                        temperature: float | Tensor | None) -> tuple[Tensor, Tensor]:
        if self.check_values:
            check_values(emissions, tags, seq_length, self.num_tags, self.batch_first)
        every, restricted = lowered(emissions, tags)
        losses = (self.normalizer(every, seq_length, pair_emissions, temperature)
                  - self.normalizer(restricted, seq_length, pair_emissions, temperature))
        return losses, lengths_of(emissions, seq_length, self.batch_first)
