"""The two implementations of a chain, with the same methods, and the selection between them.

`PlainBackend` computes with graphs of MindSpore operators: on any device, in exported graphs, and with all arguments.
`NativeBackend` computes with C++ operators on CPU, without pair emissions and temperature.

Shapes: L length, B batch, K tags. Arguments of the methods of both classes:

    scores: transitions (K, K), start (K,) and end (K,) in float32, as the parameters of a layer.
    emissions: (L, B, K), or (B, L, K) with batch_first, in any float type.
    tags: (L, B), or (B, L) with batch_first, integers; negative where unknown.
    seq_length: (B,) integers, or None if all rows are full.
    pair_emissions: (L - 1, B, K, K), or (B, L - 1, K, K) with batch_first; None for no pair emissions.
    temperature: a number above 0 or a scalar tensor; None for 1.
"""

from ms_crf.crf import operators, tensors
from ms_crf.crf.constraints import Constraints, usable_tags
from ms_crf.crf.gradients import PackedSum, value_of
from ms_crf.crf.inference import posteriors, posteriors_of_path
from ms_crf.crf.inputs import check_paths, check_values, in_range, prepare_raw, prepare_tags
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.nbest import best_paths, checked_n
from ms_crf.crf.potentials import Scores, constrained, masks_of, potentials_of
from ms_crf.crf.selection import LOWEST, masked_chain, transitions_by_step
from ms_crf.crf.tensors import FORBIDDEN, LEAST, clear_padding, largest_of, nan_in_rows, sizes, turned, zeros_like
from ms_crf.crf.viterbi import best_paths_of, best_scores
from ms_crf.native import custom

import mindspore as ms
from mindspore import Tensor, nn, ops


def _only_forbidding(scores: Tensor, others: Tensor | float) -> Tensor:
    """FORBIDDEN where scores are forbidden, otherwise the entries of `others`."""
    return ops.masked_fill(ops.zeros_like(scores) + others, scores < LEAST, FORBIDDEN)


def _forbidding_alone(transitions: Tensor, start: Tensor, end: Tensor) -> Scores:
    """Transitions, start and end with FORBIDDEN where they are forbidden, otherwise 0."""
    return _only_forbidding(transitions, 0.0), _only_forbidding(start, 0.0), _only_forbidding(end, 0.0)


def _as_paths(flat: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Tags that are stored as floats, as int32 in this shape, without gradient."""
    return ops.stop_gradient(flat).astype(ms.int32).reshape(shape)


class Backends(InFloat32, nn.Cell, inside=True):
    """Both implementations of a chain.

    Args:
        batch_first: layout of emissions and tags.
        allowed: constraints, or None.
        validate: whether invalid values raise ValueError in PyNative mode.
    """

    def __init__(self, batch_first: bool, allowed: Constraints | None = None, validate: bool = False) -> None:
        super().__init__(auto_prefix=False)
        self.plain = PlainBackend(batch_first, allowed, validate)
        self.native = NativeBackend(batch_first, allowed, validate)

    def backend_for(self, pair_emissions: Tensor | None = None, temperature: float | Tensor | None = None
               ) -> 'PlainBackend | NativeBackend':
        """The backend for these arguments, at the time when the calling graph is compiled or computed.

        Args:
            pair_emissions: as in the module's docstring; the C++ operators do not support them.
            temperature: as in the module's docstring; the C++ operators do not support it.
        """
        if custom.in_use() and pair_emissions is None and temperature is None:
            return self.native
        return self.plain


class PlainBackend(InFloat32, nn.Cell, inside=True):
    """Graphs of MindSpore operators. The arguments are described in `Backends`.

    A method must not have the name of a function that it calls: MindSpore 2.10 would compile a call of the method.
    """

    def __init__(self, batch_first: bool, allowed: Constraints | None, validate: bool) -> None:
        super().__init__(auto_prefix=False)
        self.batch_first, self.validate = batch_first, validate
        self.masks, self.usable = masks_of(allowed), None if allowed is None else Tensor(usable_tags(allowed))
        self.log_normalizer = PackedSum(False, self.usable)
        self.negative_log_likelihood = PackedSum(True, self.usable)

    def potentials(self, scores, emissions, seq_length, pair_emissions=None, temperature=None, tags=None, clear=True,
                   by_step=False):
        """Potentials of the constrained chain; arguments and result as in `potentials_of`."""
        transitions, start, end = scores
        scores = constrained(transitions, start, end, self.masks)
        return potentials_of(scores, emissions, seq_length, pair_emissions, temperature, tags, self.batch_first,
                             self.validate, clear, by_step)

    def losses(self, scores, emissions, tags, seq_length, pair_emissions, temperature):
        """Negative log likelihoods (B,) of tags, and lengths (B,) int32."""
        known = prepare_tags(emissions, tags, scores[1].shape[0], self.batch_first)
        *chain, void = self.potentials(scores, emissions, seq_length, pair_emissions, temperature, tags)
        return value_of(self.negative_log_likelihood(*chain, known)) + void, chain[1]

    def normalizer(self, scores, emissions, seq_length, pair_emissions, temperature):
        """Log partition function (B,)."""
        *chain, void = self.potentials(scores, emissions, seq_length, pair_emissions, temperature)
        return value_of(self.log_normalizer(*chain, chain[1])) + void

    def marginals(self, scores, emissions, seq_length, pair_emissions, temperature):
        """Posterior of each tag at each position, in the layout of the emissions."""
        emissions, lengths, transitions, start, end, void = self.potentials(scores, emissions, seq_length,
                                                                            pair_emissions, temperature)
        _, marginals, _ = posteriors(emissions, lengths, transitions, start, end, self.usable)
        return turned(clear_padding(marginals, lengths) + void.expand_dims(-1), self.batch_first)

    def path_posteriors(self, scores, emissions, paths, seq_length, pair_emissions, temperature):
        """Posteriors of the tags of paths (B, L), and of all tags given the previous tag of the path (B, L, K)."""
        emissions, lengths, transitions, start, end, void = self.potentials(scores, emissions, seq_length,
                                                                            pair_emissions, temperature)
        check_paths(paths, emissions, False)
        chosen, conditional = posteriors_of_path(turned(paths), emissions, lengths, transitions, start, end,
                                                 self.usable)
        void = void + nan_in_rows(emissions, lengths)
        return turned(chosen + void), turned(conditional + void.expand_dims(-1))

    def viterbi(self, scores, emissions, seq_length, pair_emissions):
        """Scores of the best path to each tag (B, K), and the history (L - 1, B, K) or an empty tuple."""
        *chain, void = self.potentials(scores, emissions, seq_length, pair_emissions, None, None, False)
        best, history = best_scores(*chain)
        if not tensors.is_fixed(chain[0]):
            history = history[:chain[0].shape[0] - 1]
        if len(history) > 0:
            faulty = ops.not_equal(best.sum(1), best.sum(1)).reshape(1, -1, 1)
            history = ops.masked_fill(history, faulty, 0)
        best = ops.select((chain[1] > 0).expand_dims(-1), best, zeros_like(best))
        return best + void.expand_dims(-1), history

    def decode(self, scores, emissions, seq_length, pair_emissions):
        """Best paths (B, L) int32 and their scores (B,)."""
        *chain, void = self.potentials(scores, emissions, seq_length, pair_emissions, None, None, False)
        paths, best = best_paths_of(*chain)
        return turned(paths), best + void

    def likeliest(self, scores, emissions, marginals, seq_length, pair_emissions):
        """Allowed paths (B, L) int32 with the largest sums of marginals.

        Args:
            marginals: in the layout of the emissions.
        """
        emissions, lengths, transitions, start, end, _ = self.potentials(scores, emissions, seq_length, pair_emissions)
        scores = _forbidding_alone(transitions, start, end)
        paths, _ = best_paths_of(_only_forbidding(emissions, turned(marginals, self.batch_first)), lengths, *scores)
        return turned(paths)

    def nbest(self, scores, emissions, n, seq_length, pair_emissions):
        """The n best paths (B, n, L) int32 and their scores (B, n)."""
        emissions, lengths, transitions, start, end, void = self.potentials(scores, emissions, seq_length,
                                                                            pair_emissions)
        paths, best = best_paths(emissions, lengths, transitions, start, end, checked_n(n, emissions.shape))
        return paths, best + void.expand_dims(-1)

    def nbest_spans(self, scores, emissions, n, spans, seq_length, pair_emissions, temperature):
        """Best paths of the n best sets of spans (B, n, L) int32, their scores and the sets' log probabilities (B, n).

        Args:
            n: number of sets.
            spans: the result of `selection.table_of`. The C++ operators have no such method.
        """
        n = checked_n(n, emissions.shape)
        emissions, lengths, transitions, start, end, void = self.potentials(scores, emissions, seq_length,
                                                                            pair_emissions, temperature)
        paths, best = best_paths(emissions, lengths, transitions, start, end, n, spans)
        emissions = emissions - largest_of(emissions)            # smaller numbers, smaller rounding errors
        masked, several, steps = masked_chain(paths, emissions, lengths, transitions, spans)
        log_probs = value_of(self.log_normalizer(masked, several, steps, start, end, several)).reshape(-1, n)
        # By the same recursion as for the sets, so that both have the same rounding errors.
        steps = transitions_by_step(transitions, lengths, emissions.shape[0])
        every = value_of(self.log_normalizer(emissions, lengths, steps, start, end, lengths))
        log_probs = ops.select(ops.equal(best, LOWEST), best, log_probs - every.expand_dims(-1))
        return paths, best + void.expand_dims(-1), log_probs + void.expand_dims(-1)


class NativeBackend(InFloat32, nn.Cell, inside=True):
    """C++ operators on CPU. The arguments are described in `Backends`; pair emissions and temperature are ignored."""

    def __init__(self, batch_first: bool, allowed: Constraints | None, validate: bool) -> None:
        super().__init__(auto_prefix=False)
        self.batch_first, self.validate = batch_first, validate
        self.packed_losses = operators.NativePackedSum(batch_first, allowed, True)
        self.packed_normalizer = operators.NativePackedSum(batch_first, allowed, False)
        self.posteriors = operators.Posteriors(batch_first, allowed, False)
        self.posteriors_of_paths = operators.Posteriors(batch_first, allowed, True)
        self.best_path = operators.BestPaths(batch_first, allowed, True)
        self.best_paths = operators.BestPaths(batch_first, allowed, False)
        self.best_scores = operators.Viterbi(batch_first, allowed)
        self.single = Tensor([0], ms.int32)

    def _prepare(self, scores, emissions, seq_length, tags=None):
        """Checked arguments of the C++ operators, the padded length and the batch size.

        The operators take emissions in float32, lengths (B,) without changes, and the scores.
        """
        num_tags = scores[1].shape[0]
        emissions, lengths = prepare_raw(emissions, tags, seq_length, num_tags, self.batch_first)
        if self.validate:
            check_values(turned(emissions, self.batch_first), tags, seq_length, num_tags, self.batch_first)
        length, batch = sizes(emissions, self.batch_first)
        return (emissions, lengths, *scores), length, batch

    def losses(self, scores, emissions, tags, seq_length, pair_emissions, temperature):
        """Negative log likelihoods (B,) of tags, and lengths (B,) int32."""
        chain, length, batch = self._prepare(scores, emissions, seq_length, tags)
        return self.packed_losses(*chain, tags)[:batch], in_range(chain[1], 0, length)

    def normalizer(self, scores, emissions, seq_length, pair_emissions, temperature):
        """Log partition function (B,)."""
        chain, _, batch = self._prepare(scores, emissions, seq_length)
        return self.packed_normalizer(*chain, chain[1])[:batch]

    def marginals(self, scores, emissions, seq_length, pair_emissions, temperature):
        """Posterior of each tag at each position, in the layout of the emissions."""
        chain, _, _ = self._prepare(scores, emissions, seq_length)
        return self.posteriors(*chain, chain[1])

    def path_posteriors(self, scores, emissions, paths, seq_length, pair_emissions, temperature):
        """Posteriors of the tags of paths (B, L), and of all tags given the previous tag of the path (B, L, K)."""
        chain, length, batch = self._prepare(scores, emissions, seq_length)
        check_paths(paths, chain[0], self.batch_first)
        flat = self.posteriors_of_paths(*chain, paths)
        count = batch * length
        return flat[:count].reshape(batch, length), flat[count:].reshape(batch, length, scores[1].shape[0])

    def viterbi(self, scores, emissions, seq_length, pair_emissions):
        """Scores of the best path to each tag (B, K), and the history (L - 1, B, K) or an empty tuple."""
        chain, length, batch = self._prepare(scores, emissions, seq_length)
        flat, num_tags = self.best_scores(*chain), scores[1].shape[0]
        count = batch * num_tags
        history = ()
        if length > 1:
            history = ops.stop_gradient(flat[count:]).astype(ms.int64).reshape(length - 1, batch, num_tags)
        return flat[:count].reshape(batch, num_tags), history

    def decode(self, scores, emissions, seq_length, pair_emissions):
        """Best paths (B, L) int32 and their scores (B,)."""
        chain, length, batch = self._prepare(scores, emissions, seq_length)
        flat = self.best_path(*chain, self.single)
        return _as_paths(flat[batch:], (batch, length)), flat[:batch]

    def likeliest(self, scores, emissions, marginals, seq_length, pair_emissions):
        """Allowed paths (B, L) int32 with the largest sums of marginals.

        Args:
            marginals: in the layout of the emissions.
        """
        chain, length, batch = self._prepare(_forbidding_alone(*scores), emissions, seq_length)
        flat = self.best_path(_only_forbidding(chain[0], marginals), *chain[1:], self.single)
        return _as_paths(flat[batch:], (batch, length))

    def nbest(self, scores, emissions, n, seq_length, pair_emissions):
        """The n best paths (B, n, L) int32 and their scores (B, n)."""
        chain, length, batch = self._prepare(scores, emissions, seq_length)
        n = checked_n(n, chain[0].shape)
        flat = self.best_paths(*chain, ops.zeros((n,), ms.int32))
        count = batch * n
        return _as_paths(flat[count:], (batch, n, length)), flat[:count].reshape(batch, n)
