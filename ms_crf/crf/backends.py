"""The two implementations of a chain behind one set of methods, and the only place that chooses between them.

`PlainBackend` computes with graphs of MindSpore's operators: on any device, in exported graphs, and with all arguments.
`NativeBackend` computes with operators in C++, on CPU.

Shapes: L length, B batch, K tags. The methods of both take:

    transitions, start, end: (K, K), (K,) and (K,) in float32, as the parameters of a layer are.
    emissions, tags, seq_length, pair_emissions, temperature: as the methods of `CRF` take them.
"""

from ms_crf.crf import operators
from ms_crf.crf.constraints import Constraints
from ms_crf.crf.gradients import PackedSum, value_of
from ms_crf.crf.inference import posteriors, posteriors_of_path
from ms_crf.crf.inputs import check_paths, check_values, in_range, prepare_raw, prepare_tags
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.nbest import best_paths, checked_n
from ms_crf.crf.potentials import Scores, constrained, masks_of, potentials_of, usable_of
from ms_crf.crf.selection import LOWEST, masked_chain, of_each_step
from ms_crf.crf.tensors import FORBIDDEN, LEAST, clear_padding, is_fixed, largest_of, nan_in_rows, zeros_like
from ms_crf.crf.viterbi import best_paths_of, best_scores
from ms_crf.native import custom

import mindspore as ms
from mindspore import Tensor, nn, ops


def _only_forbidding(scores: Tensor, others: Tensor | float) -> Tensor:
    """FORBIDDEN where scores forbid, else the others."""
    return ops.masked_fill(ops.zeros_like(scores) + others, scores < LEAST, FORBIDDEN)


def _forbidding_alone(transitions: Tensor, start: Tensor, end: Tensor) -> Scores:
    return _only_forbidding(transitions, 0.0), _only_forbidding(start, 0.0), _only_forbidding(end, 0.0)


def _as_paths(flat: Tensor, shape: tuple[int, ...]) -> Tensor:
    return ops.stop_gradient(flat).astype(ms.int32).reshape(shape)


class Backends(InFloat32, nn.Cell, inside=True):
    """Both implementations of a chain.

    Args:
        batch_first: layout of emissions and tags.
        allowed: constraints, or None.
        looked_at: whether values that can't be raise ValueError in PyNative mode.
    """

    def __init__(self, batch_first: bool, allowed: Constraints | None = None, looked_at: bool = False) -> None:
        super().__init__(auto_prefix=False)
        self.plain = PlainBackend(batch_first, allowed, looked_at)
        self.native = NativeBackend(batch_first, allowed, looked_at)

    def chosen(self, pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None
               ) -> 'PlainBackend | NativeBackend':
        """The backend for these arguments, where and when this is compiled or computed."""
        if custom.in_use() and pair_emissions is None and temperature is None:
            return self.native
        return self.plain


class PlainBackend(InFloat32, nn.Cell, inside=True):
    """Graphs of MindSpore's operators; arguments as of `Backends`.

    No method may have the name of a function that it calls: MindSpore 2.10 would compile a call of itself.
    """

    def __init__(self, batch_first: bool, allowed: Constraints | None, looked_at: bool) -> None:
        super().__init__(auto_prefix=False)
        self.batch_first, self.looked_at = batch_first, looked_at
        self.masks, self.usable = masks_of(allowed), usable_of(allowed)
        self.log_normalizer = PackedSum(False, self.usable)
        self.negative_log_likelihood = PackedSum(True, self.usable)

    def potentials(self, transitions, start, end, emissions, seq_length, pair_emissions=None, temperature=None,
                   tags=None, clear=True, by_step=False):
        """What `potentials_of` returns."""
        transitions, start, end = constrained(transitions, start, end, self.masks)
        return potentials_of(transitions, start, end, emissions, seq_length, pair_emissions, temperature, tags,
                             self.batch_first, self.looked_at, clear, by_step)

    def losses(self, transitions, start, end, emissions, tags, seq_length, pair_emissions, temperature):
        """Negative log likelihoods (B,) and lengths (B,) int32."""
        known = prepare_tags(emissions, tags, start.shape[0], self.batch_first)
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, temperature, tags)
        packed = self.negative_log_likelihood(emissions, lengths, transitions, start, end, known)
        return value_of(packed) + void, lengths

    def normalizer(self, transitions, start, end, emissions, seq_length, pair_emissions, temperature):
        """(B,)."""
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, temperature)
        return value_of(self.log_normalizer(emissions, lengths, transitions, start, end, lengths)) + void

    def marginals(self, transitions, start, end, emissions, seq_length, pair_emissions, temperature):
        """In the layout of the emissions."""
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, temperature)
        _, marginals, _ = posteriors(emissions, lengths, transitions, start, end, self.usable)
        marginals = clear_padding(marginals, lengths) + void.expand_dims(-1)
        if self.batch_first:
            marginals = ops.transpose(marginals, (1, 0, 2))
        return marginals

    def path_posteriors(self, transitions, start, end, emissions, paths, seq_length, pair_emissions, temperature):
        """(B, L) and (B, L, K)."""
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, temperature)
        check_paths(paths, emissions, False)
        chosen, conditional = posteriors_of_path(ops.transpose(paths, (1, 0)), emissions, lengths, transitions, start,
                                                 end, self.usable)
        void = void + nan_in_rows(emissions, lengths)
        chosen, conditional = chosen + void, conditional + void.expand_dims(-1)
        return ops.transpose(chosen, (1, 0)), ops.transpose(conditional, (1, 0, 2))

    def viterbi(self, transitions, start, end, emissions, seq_length, pair_emissions):
        """(B, K), and (L - 1, B, K) or an empty tuple."""
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, None, None, False)
        best, history = best_scores(emissions, lengths, transitions, start, end)
        if not is_fixed(emissions):
            history = history[:emissions.shape[0] - 1]
        if len(history) > 0:
            faulty = ops.not_equal(best.sum(1), best.sum(1)).reshape(1, -1, 1)
            history = ops.masked_fill(history, faulty, 0)
        best = ops.select((lengths > 0).expand_dims(-1), best, zeros_like(best))
        return best + void.expand_dims(-1), history

    def decode(self, transitions, start, end, emissions, seq_length, pair_emissions):
        """Paths (B, L) int32 and scores (B,)."""
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, None, None, False)
        paths, best = best_paths_of(emissions, lengths, transitions, start, end)
        return ops.transpose(paths, (1, 0)), best + void

    def likeliest(self, transitions, start, end, emissions, marginals, seq_length, pair_emissions):
        """Allowed paths (B, L) int32 with the largest sums of marginals, which are in the layout of the emissions."""
        if self.batch_first:
            marginals = ops.transpose(marginals, (1, 0, 2))
        emissions, lengths, transitions, start, end, _ = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions)
        scores = _forbidding_alone(transitions, start, end)
        paths, _ = best_paths_of(_only_forbidding(emissions, marginals), lengths, *scores)
        return ops.transpose(paths, (1, 0))

    def nbest(self, transitions, start, end, emissions, n, seq_length, pair_emissions):
        """Paths (B, n, L) int32 and scores (B, n)."""
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions)
        paths, best = best_paths(emissions, lengths, transitions, start, end, checked_n(n, emissions.shape))
        return paths, best + void.expand_dims(-1)

    def nbest_spans(self, transitions, start, end, emissions, n, spans, seq_length, pair_emissions, temperature):
        """Paths (B, n, L) int32, their scores (B, n) and log probabilities of the sets (B, n).

        Args:
            spans: what `selection.table_of` returns. The operators in C++ have no such method.
        """
        n = checked_n(n, emissions.shape)
        emissions, lengths, transitions, start, end, void = self.potentials(
            transitions, start, end, emissions, seq_length, pair_emissions, temperature)
        paths, best = best_paths(emissions, lengths, transitions, start, end, n, spans)
        emissions = emissions - largest_of(emissions)            # less to round
        masked, several, steps = masked_chain(paths, emissions, lengths, transitions, spans)
        log_probs = value_of(self.log_normalizer(masked, several, steps, start, end, several)).reshape(-1, n)
        # In the same way as of the sets, so that both are rounded alike.
        steps = of_each_step(transitions, lengths, emissions.shape[0])
        every = value_of(self.log_normalizer(emissions, lengths, steps, start, end, lengths))
        log_probs = ops.select(ops.equal(best, LOWEST), best, log_probs - every.expand_dims(-1))
        return paths, best + void.expand_dims(-1), log_probs + void.expand_dims(-1)


class NativeBackend(InFloat32, nn.Cell, inside=True):
    """Operators in C++; arguments as of `Backends`. There are neither pair emissions nor a temperature here."""

    def __init__(self, batch_first: bool, allowed: Constraints | None, looked_at: bool) -> None:
        super().__init__(auto_prefix=False)
        self.batch_first, self.looked_at = batch_first, looked_at
        self.packed_losses = operators.PackedSum(batch_first, allowed, True)
        self.packed_normalizer = operators.PackedSum(batch_first, allowed, False)
        self.posteriors = operators.Posteriors(batch_first, allowed, False)
        self.posteriors_of_paths = operators.Posteriors(batch_first, allowed, True)
        self.best_path = operators.BestPaths(batch_first, allowed, True)
        self.best_paths = operators.BestPaths(batch_first, allowed, False)
        self.best_scores = operators.Viterbi(batch_first, allowed)
        self.single = Tensor([0], ms.int32)

    def _prepare(self, num_tags, emissions, seq_length, tags=None):
        """Emissions in float32 and lengths (B,) as they are; the padded length, and the batch."""
        emissions, lengths = prepare_raw(emissions, tags, seq_length, num_tags, self.batch_first)
        length, batch = emissions.shape[0], emissions.shape[1]
        if self.batch_first:
            length, batch = batch, length
        if self.looked_at:
            time_first = emissions
            if self.batch_first:
                time_first = ops.transpose(emissions, (1, 0, 2))
            check_values(time_first, tags, seq_length, num_tags, self.batch_first)
        return emissions, lengths, length, batch

    def losses(self, transitions, start, end, emissions, tags, seq_length, pair_emissions, temperature):
        """Negative log likelihoods (B,) and lengths (B,) int32."""
        emissions, lengths, length, batch = self._prepare(start.shape[0], emissions, seq_length, tags)
        losses = self.packed_losses(emissions, lengths, transitions, start, end, tags)[:batch]
        return losses, in_range(lengths, 0, length)

    def normalizer(self, transitions, start, end, emissions, seq_length, pair_emissions, temperature):
        """(B,)."""
        emissions, lengths, _, batch = self._prepare(start.shape[0], emissions, seq_length)
        return self.packed_normalizer(emissions, lengths, transitions, start, end, lengths)[:batch]

    def marginals(self, transitions, start, end, emissions, seq_length, pair_emissions, temperature):
        """In the layout of the emissions."""
        emissions, lengths, _, _ = self._prepare(start.shape[0], emissions, seq_length)
        return self.posteriors(emissions, lengths, transitions, start, end, lengths)

    def path_posteriors(self, transitions, start, end, emissions, paths, seq_length, pair_emissions, temperature):
        """(B, L) and (B, L, K)."""
        emissions, lengths, length, batch = self._prepare(start.shape[0], emissions, seq_length)
        check_paths(paths, emissions, self.batch_first)
        flat = self.posteriors_of_paths(emissions, lengths, transitions, start, end, paths)
        count = batch * length
        return flat[:count].reshape(batch, length), flat[count:].reshape(batch, length, start.shape[0])

    def viterbi(self, transitions, start, end, emissions, seq_length, pair_emissions):
        """(B, K), and (L - 1, B, K) or an empty tuple."""
        emissions, lengths, length, batch = self._prepare(start.shape[0], emissions, seq_length)
        flat = self.best_scores(emissions, lengths, transitions, start, end)
        num_tags = start.shape[0]
        count = batch * num_tags
        history = ()
        if length > 1:
            history = ops.stop_gradient(flat[count:]).astype(ms.int64).reshape(length - 1, batch, num_tags)
        return flat[:count].reshape(batch, num_tags), history

    def decode(self, transitions, start, end, emissions, seq_length, pair_emissions):
        """Paths (B, L) int32 and scores (B,)."""
        emissions, lengths, length, batch = self._prepare(start.shape[0], emissions, seq_length)
        flat = self.best_path(emissions, lengths, transitions, start, end, self.single)
        return _as_paths(flat[batch:], (batch, length)), flat[:batch]

    def likeliest(self, transitions, start, end, emissions, marginals, seq_length, pair_emissions):
        """Allowed paths (B, L) int32 with the largest sums of marginals, which are in the layout of the emissions."""
        emissions, lengths, length, batch = self._prepare(start.shape[0], emissions, seq_length)
        scores = _forbidding_alone(transitions, start, end)
        flat = self.best_path(_only_forbidding(emissions, marginals), lengths, *scores, self.single)
        return _as_paths(flat[batch:], (batch, length))

    def nbest(self, transitions, start, end, emissions, n, seq_length, pair_emissions):
        """Paths (B, n, L) int32 and scores (B, n)."""
        emissions, lengths, length, batch = self._prepare(start.shape[0], emissions, seq_length)
        n = checked_n(n, emissions.shape)
        flat = self.best_paths(emissions, lengths, transitions, start, end, ops.zeros((n,), ms.int32))
        count = batch * n
        return _as_paths(flat[count:], (batch, n, length)), flat[:count].reshape(batch, n)
