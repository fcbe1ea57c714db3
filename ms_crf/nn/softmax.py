"""A head that predicts each tag independently. It has the methods of `CRF` and is a baseline for the CRF."""

from ms_crf.crf import tensors
from ms_crf.crf.backends import Backends
from ms_crf.crf.inputs import are_sets, check_paths, free_and_restricted, in_range, prepare, prepare_tags
from ms_crf.crf.mindspore_fixes import CompilableMethods, InFloat32
from ms_crf.crf.tensors import clear_padding, nan_in_rows, nan_where, penalized, real, reduce_losses, turned, zeros_like
from ms_crf.crf.validation import check_count, check_flag, check_reduction

import mindspore as ms
from mindspore import Tensor, nn, ops


class Softmax(CompilableMethods, InFloat32, nn.Cell):
    """Independent tags: the probability of a path is the product of the probabilities of its tags.

    Invalid tags and lengths, -inf, +inf and nan have the same effect as in `CRF`.

    Args:
        num_tags: number of tags.
        batch_first: layout of emissions, tags and results: True for (batch, length, ...).
        reduction: reduction of the loss: 'none', 'sum', 'mean' over rows that are not empty, or 'token_mean'.
    """

    def __init__(self, num_tags: int, batch_first: bool = False, reduction: str = 'sum') -> None:
        super().__init__()
        check_count('num_tags', num_tags)
        check_flag('batch_first', batch_first)
        check_reduction(reduction)
        self.num_tags = int(num_tags)
        self.batch_first = batch_first
        self.reduction = reduction
        self.backends = Backends(batch_first=False)

    def extend_repr(self) -> str:
        return f'num_tags={self.num_tags}, batch_first={self.batch_first}, reduction={self.reduction!r}'

    def construct(self, emissions, tags, seq_length=None):
        """Returns the negative log likelihood in float32, reduced.

        Args:
            emissions: (length, batch, num_tags), or (batch, length, num_tags) with batch_first.
            tags: (length, batch), or (batch, length) with batch_first; negative tags are unknown and cost nothing.
                Or bool, in
                the shape of emissions: the tags that each token may have, whose probabilities are added up.
            seq_length: (batch,), or None if all rows are full.
        """
        if are_sets(tags):
            return self._loss_of_sets(emissions, tags, seq_length)
        tags = prepare_tags(emissions, tags, self.num_tags, self.batch_first)
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        log_probabilities = penalized(ops.log_softmax(emissions, 2))                    # (L, B, K)
        live = real(lengths, tags.shape[0])
        known = ops.logical_and(live, tags >= 0)                                    # (L, B)
        impossible = nan_where(ops.logical_and(live, tags >= self.num_tags))        # (L, B)
        index = in_range(tags, 0, self.num_tags - 1).expand_dims(2)
        chosen = ops.gather_elements(log_probabilities, 2, index).squeeze(2)        # (L, B)
        chosen = ops.select(known, chosen, zeros_like(chosen))
        losses = -chosen.sum(0) + impossible.sum(0) + void + nan_in_rows(emissions, lengths)    # (B,)
        return reduce_losses(losses, lengths, self.reduction)

    def _loss_of_sets(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None) -> Tensor:
        """The negative log likelihood of sets of tags, reduced."""
        every, restricted = free_and_restricted(emissions, tags)
        every, lengths, void = prepare(every, seq_length, self.num_tags, self.batch_first)
        restricted, _, _ = prepare(restricted, seq_length, self.num_tags, self.batch_first)
        by_token = ops.logsumexp(every, 2) - tensors.penalized_sums(ops.logsumexp(restricted, 2))   # (L, B)
        by_token = ops.select(real(lengths, by_token.shape[0]), by_token, zeros_like(by_token))
        return reduce_losses(by_token.sum(0) + void + nan_in_rows(every, lengths), lengths, self.reduction)

    def _prepare(self, emissions: Tensor, seq_length: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Emissions (L, B, K), lengths (B,), and a mark (B,) for results of each row: nan for invalid rows, otherwise
        0.
        """
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        return emissions, lengths, void + nan_in_rows(emissions, lengths)

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the most probable tags (batch, length) int32, 0 on padding, and their log probabilities (batch,)."""
        emissions, lengths, void = self._prepare(emissions, seq_length)
        paths, best = ops.ArgMaxWithValue(2)(ops.log_softmax(emissions, 2))                   # (L, B)
        live = real(lengths, paths.shape[0])
        scores = ops.select(live, best, zeros_like(best)).sum(0)
        return turned(paths.astype(ms.int32) * live.astype(ms.int32)), scores + void

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the n most probable paths (batch, n, length) and their log probabilities (batch, n), best first.

        Missing paths are 0, with the lowest float32 as log probability.
        """
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        emissions = clear_padding(ops.log_softmax(emissions, 2), lengths)
        transitions = ops.zeros((self.num_tags, self.num_tags), ms.float32)
        paths, log_probs = self.backends.backend_for().nbest((transitions, transitions[0], transitions[0]), emissions,
                                                             n, lengths, None)
        return paths, log_probs + void.expand_dims(-1)

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """Returns zeros (batch,), because the scores are log probabilities already; nan for invalid rows."""
        _, _, void = self._prepare(emissions, seq_length)
        return void

    def path_posteriors(self, emissions: Tensor, paths: Tensor,
                        seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the posteriors of the tags of paths (batch, length), and all marginals (batch, length, num_tags).

        A tag does not depend on the previous tag, so the posteriors given the previous tag are the marginals.
        """
        check_paths(paths, emissions, self.batch_first)
        marginals = self.marginals(emissions, seq_length)
        marginals = turned(marginals, not self.batch_first)                         # (B, L, K)
        return ops.gather_elements(marginals, 2, paths.expand_dims(2)).squeeze(2), marginals

    def along(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Deprecated alias of `path_posteriors`, which will be removed in the next version."""
        return self.path_posteriors(emissions, paths, seq_length)

    def marginals(self, emissions: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """Returns the probability of each tag at each position, in the layout of emissions, 0 on padding."""
        emissions, lengths, void = self._prepare(emissions, seq_length)
        return turned(clear_padding(ops.softmax(emissions, 2), lengths) + void.expand_dims(-1), self.batch_first)
