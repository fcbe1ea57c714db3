"""The parameters and constraints of a chain, and the preparation that all calls of the layer share."""

from collections.abc import Sequence

from ms_crf.crf.backends import Backends
from ms_crf.crf.constraints import Constraints, check_constraints
from ms_crf.crf.inputs import are_sets, check_scores, check_values, clipped_lengths, free_and_restricted
from ms_crf.crf.mindspore_fixes import CompilableMethods, InFloat32
from ms_crf.crf.potentials import Potentials, Scores
from ms_crf.crf.validation import check_flag, check_reduction, check_table_of_tags

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import Uniform, initializer


class ChainParameters(CompilableMethods, InFloat32, nn.Cell):
    """The parameters and settings of a `CRF`. The docstring of `CRF` describes the arguments."""

    def __init__(self, num_tags: int, batch_first: bool = False, reduction: str = 'sum',
                 constraints: Sequence[np.ndarray] | None = None, check_values: bool = False) -> None:
        super().__init__()
        check_table_of_tags(num_tags)
        check_flag('batch_first', batch_first)
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
        self._allowed = None if constraints is None else check_constraints(constraints, num_tags)
        self.backends = Backends(batch_first, self._allowed, check_values)

    @property
    def constraints(self) -> Constraints | None:
        """A copy of the constraints as bool arrays, or None if there are none."""
        return None if self._allowed is None else Constraints(*(array.copy() for array in self._allowed))

    def extend_repr(self) -> str:
        constraints = None
        if self._allowed is not None:
            constraints = f'{int(self._allowed.transitions.sum())} of {self.num_tags ** 2} transitions'
        return (f'num_tags={self.num_tags}, batch_first={self.batch_first}, reduction={self.reduction!r}, '
                f'constraints={constraints}, check_values={self.check_values}')

    def _scores(self) -> Scores:
        """Transitions (K, K), start (K,) and end (K,) in float32."""
        check_scores(self.num_tags, self.transitions.shape, self.start_transitions.shape, self.end_transitions.shape)
        return (self.transitions.astype(ms.float32), self.start_transitions.astype(ms.float32),
                self.end_transitions.astype(ms.float32))

    def _potentials(self, emissions: Tensor, seq_length: Tensor | None, pair_emissions: Tensor | None,
                    temperature: float | Tensor | None, tags: Tensor | None = None, clear: bool = True,
                    by_step: bool = False) -> Potentials:
        """The inputs of the recursions in plain operators; arguments and result as in `potentials_of`."""
        return self.backends.plain.potentials(self._scores(), emissions, seq_length, pair_emissions, temperature, tags,
                                              clear, by_step)

    def _steps(self, emissions: Tensor, seq_length: Tensor | None, pair_emissions: Tensor | None,
               temperature: float | Tensor | None) -> Potentials:
        """The inputs of the recursions with separate transitions for each step (L, B, K, K)."""
        return self._potentials(emissions, seq_length, pair_emissions, temperature, None, True, True)

    def _losses(self, emissions: Tensor, tags: Tensor, seq_length: Tensor | None, pair_emissions: Tensor | None,
                temperature: float | Tensor | None) -> tuple[Tensor, Tensor]:
        """Losses (B,) of tags or of sets of tags, and lengths (B,) int32."""
        backend, scores = self.backends.backend_for(pair_emissions, temperature), self._scores()
        if not are_sets(tags):
            return backend.losses(scores, emissions, tags, seq_length, pair_emissions, temperature)
        if self.check_values:
            check_values(emissions, tags, seq_length, self.num_tags, self.batch_first)
        every, restricted = free_and_restricted(emissions, tags)
        losses = (backend.normalizer(scores, every, seq_length, pair_emissions, temperature)
                  - backend.normalizer(scores, restricted, seq_length, pair_emissions, temperature))
        return losses, clipped_lengths(emissions, seq_length, self.batch_first)
