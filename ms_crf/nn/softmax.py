"""A head that chooses each tag by itself: what the CRF is compared with, under the same calls."""

from ms_crf.crf import tensors
from ms_crf.crf.backends import Backends
from ms_crf.crf.inputs import are_sets, check_paths, free_and_restricted, in_range, prepare, prepare_tags
from ms_crf.crf.mindspore_fixes import CompilableMethods, InFloat32
from ms_crf.crf.tensors import clear_padding, nan_in_rows, nan_where, price, real, reduce_losses, turned, zeros_like
from ms_crf.crf.validation import check_count, check_flag, check_reduction

import mindspore as ms
from mindspore import Tensor, nn, ops


class Softmax(CompilableMethods, InFloat32, nn.Cell):
    """Independent tags: the probability of a path is the product of its tags'.

    Impossible tags and lengths, -inf, +inf and nan have the meaning that they have in `CRF`.

    Args:
        num_tags: number of tags.
        batch_first: layout of emissions, tags and results, as in `CRF`.
        reduction: of the loss, as in `CRF`.
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
        """Negative log likelihood in float32, reduced; a negative tag is not known and costs nothing. Of sets,
        bool in the shape of emissions, all tags count together."""
        if are_sets(tags):
            return self._loss_of_sets(emissions, tags, seq_length)
        tags = prepare_tags(emissions, tags, self.num_tags, self.batch_first)
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        log_probabilities = price(ops.log_softmax(emissions, 2))                    # (L, B, K)
        live = real(lengths, tags.shape[0])
        known = ops.logical_and(live, tags >= 0)                                    # (L, B)
        impossible = nan_where(ops.logical_and(live, tags >= self.num_tags))        # (L, B)
        index = in_range(tags, 0, self.num_tags - 1).expand_dims(2)
        chosen = ops.gather_elements(log_probabilities, 2, index).squeeze(2)        # (L, B)
        chosen = ops.select(known, chosen, zeros_like(chosen))
        losses = -chosen.sum(0) + impossible.sum(0) + void + nan_in_rows(emissions, lengths)    # (B,)
        return reduce_losses(losses, lengths, self.reduction)

    def _loss_of_sets(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None) -> Tensor:
        every, restricted = free_and_restricted(emissions, tags)
        every, lengths, void = prepare(every, seq_length, self.num_tags, self.batch_first)
        restricted, _, _ = prepare(restricted, seq_length, self.num_tags, self.batch_first)
        by_token = ops.logsumexp(every, 2) - tensors.soften(ops.logsumexp(restricted, 2))   # (L, B)
        by_token = ops.select(real(lengths, by_token.shape[0]), by_token, zeros_like(by_token))
        return reduce_losses(by_token.sum(0) + void + nan_in_rows(every, lengths), lengths, self.reduction)

    def _prepare(self, emissions: Tensor, seq_length: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Emissions (L, B, K), lengths (B,), and what is added to the values of each row (B,): nan, or 0."""
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        return emissions, lengths, void + nan_in_rows(emissions, lengths)

    def decode(self, emissions: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Likeliest tags (batch, length) int32, 0 on padding, and their log probabilities (batch,)."""
        emissions, lengths, void = self._prepare(emissions, seq_length)
        paths, best = ops.ArgMaxWithValue(2)(ops.log_softmax(emissions, 2))                   # (L, B)
        live = real(lengths, paths.shape[0])
        scores = ops.select(live, best, zeros_like(best)).sum(0)
        return turned(paths.astype(ms.int32) * live.astype(ms.int32)), scores + void

    def nbest(self, emissions: Tensor, n: int, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The n likeliest paths (batch, n, length) and their log probabilities (batch, n), as `CRF.nbest`."""
        emissions, lengths, void = prepare(emissions, seq_length, self.num_tags, self.batch_first)
        emissions = clear_padding(ops.log_softmax(emissions, 2), lengths)
        transitions = ops.zeros((self.num_tags, self.num_tags), ms.float32)
        paths, log_probs = self.backends.chosen().nbest((transitions, transitions[0], transitions[0]), emissions, n,
                                                        lengths, None)
        return paths, log_probs + void.expand_dims(-1)

    def normalizer(self, emissions: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """Zeros (batch,): scores are log probabilities already."""
        _, _, void = self._prepare(emissions, seq_length)
        return void

    def path_posteriors(self, emissions: Tensor, paths: Tensor,
                        seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As `CRF.path_posteriors`; here a tag does not depend on the one before it."""
        check_paths(paths, emissions, self.batch_first)
        marginals = self.marginals(emissions, seq_length)
        marginals = turned(marginals, not self.batch_first)                         # (B, L, K)
        return ops.gather_elements(marginals, 2, paths.expand_dims(2)).squeeze(2), marginals

    def along(self, emissions: Tensor, paths: Tensor, seq_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The old name of `path_posteriors`, which goes with the next version."""
        return self.path_posteriors(emissions, paths, seq_length)

    def marginals(self, emissions: Tensor, seq_length: Tensor | None = None) -> Tensor:
        """Probability of each tag at each position, in the layout of emissions, 0 on padding."""
        emissions, lengths, void = self._prepare(emissions, seq_length)
        return turned(clear_padding(ops.softmax(emissions, 2), lengths) + void.expand_dims(-1), self.batch_first)
