"""Converts the arguments of callers to the form of the recursions: length first, float32, int32.

Shapes: L length, B batch, K tags.
"""

from typing import TypeAlias

from ms_crf.crf import validation
from ms_crf.crf.mindspore_fixes import check_not_traced
from ms_crf.crf.tensors import FORBIDDEN, continued, forbid, lowered, nan_where, ones_like, sizes, turned
from ms_crf.crf.validation import FLOATS, INTEGERS, Described

import mindspore as ms
from mindspore import Tensor, ops
from mindspore.ops.functional import isconstant
from numpy.typing import ArrayLike

Numbers: TypeAlias = float | ArrayLike | Tensor

# These checks run when a graph is compiled, and in PyNative mode in each call. A tensor is described by (type, shape).
_at_compilation = ops.constexpr(check=False)
check_scores = _at_compilation(validation.check_shapes_of_scores)
check_constrained = _at_compilation(validation.check_flag)
check_comparable = _at_compilation(validation.check_comparable)
check_sets = _at_compilation(validation.check_sets)
_check_shape_of_paths = _at_compilation(validation.check_paths_argument)
_check_shape_of_pairs = _at_compilation(validation.check_pair_emissions_argument)
_check_argument = _at_compilation(validation.check_argument)
_check_scalar = _at_compilation(validation.check_scalar)
# Checks of values, only for PyNative mode.
check_sums_of_targets = _at_compilation(validation.check_sums_of_targets)
_check_pair_emissions = _at_compilation(validation.check_pair_emissions)


@ops.constexpr(check=False)
def _check(num_tags: int, batch_first: bool, emissions: Described, tags: Described | None,
           seq_length: Described | None) -> None:
    """Raises TypeError or ValueError unless types and shapes fit; RuntimeError if `ms.jit` traces."""
    check_not_traced()
    validation.check_arguments(num_tags, batch_first, emissions, tags, seq_length)


def check_paths(paths: Tensor, emissions: Tensor, batch_first: bool) -> None:
    """Raises TypeError or ValueError unless paths are integers (B, L) for emissions in the layout of the caller."""
    _check_shape_of_paths(describe('paths', paths), describe('emissions', emissions), batch_first)


@ops.constexpr(check=False)
def _refuse(name: str, argument: object) -> None:
    """Raises TypeError for an argument that is not a tensor."""
    raise TypeError(f'{name} must be a Tensor, got {type(argument).__name__}')


def describe(name: str, argument: Tensor) -> Described:
    """Type and shape of a tensor; raises TypeError, with the name, for anything else."""
    if not isinstance(argument, Tensor):
        _refuse(name, argument)
    return argument.dtype, argument.shape


def _describe_optional(name: str, argument: Tensor | None) -> Described | None:
    """Type and shape of a tensor, or None for None."""
    return None if argument is None else describe(name, argument)


def check_like(name: str, argument: Tensor, form: str, shape: tuple) -> None:
    """Raises TypeError or ValueError unless an argument is a tensor of numbers of this shape; `form` describes the
    shape.
    """
    _check_argument(name, describe(name, argument), form, shape)


@ops.constexpr(check=False)
def _constant(name: str, values: Numbers) -> Tensor:
    """Numbers as a float32 tensor that is a constant of the graph."""
    return Tensor(validation.check_numbers(name, values))


def tensor_of(name: str, values: Numbers) -> Tensor:
    """A tensor unchanged; numbers and arrays as a float32 tensor."""
    if isinstance(values, Tensor):
        return values
    return _constant(name, values)


def has_values(tensor: Tensor) -> bool:
    """Whether the values of a tensor are available: True in PyNative mode, False when a graph is compiled."""
    return isconstant(tensor)


@ops.constexpr(check=False)
def _check_values(emissions: Tensor, tags: Tensor | None, seq_length: Tensor | None, num_tags: int,
                  batch_first: bool) -> None:
    """Raises ValueError for invalid tags, lengths and emissions; runs on the host."""
    if tags is not None:
        validation.check_batch(tags, seq_length, num_tags, batch_first)
        if len(tags.shape) > 2:                                  # for sets, the normalizer checks the emissions
            return
    elif seq_length is not None:
        validation.check_lengths(seq_length, emissions.shape[0])
    validation.check_emissions(emissions, seq_length)


def check_values(emissions: Tensor, tags: Tensor | None, seq_length: Tensor | None, num_tags: int,
                 batch_first: bool) -> None:
    """Raises ValueError, with row and position, for invalid values in PyNative mode; does nothing in a graph.

    Args:
        emissions: as `prepare` returns them.
        tags, seq_length: arguments of the caller; both may be None.
        num_tags: K.
        batch_first: layout of tags.
    """
    if has_values(emissions):
        _check_values(emissions, tags, seq_length, num_tags, batch_first)


def in_range(integers: Tensor, least: int, most: int) -> Tensor:
    """Integers of any type, clipped to the range from `least` to `most`, as int32.

    They are compared in their own type: a cast to int32 would turn 2**32 + 1 into 1.
    """
    dtype = integers.dtype
    if dtype in (ms.int64, ms.uint32):
        wide = integers.astype(ms.int64)
    elif dtype == ms.uint64:
        wide = integers.astype(ms.int64)                         # values from 2**63 on become negative
        wide = ops.select(wide < 0, most * ones_like(wide), wide)
    else:
        wide = integers.astype(ms.int32)
    return ops.minimum(ops.maximum(wide, least), most).astype(ms.int32)


def prepare(emissions: Tensor, seq_length: Tensor | None, num_tags: int,
            batch_first: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions and lengths for the recursions, and a mark for rows with invalid lengths.

    Returns:
        emissions: (L, B, K) float32, FORBIDDEN instead of -inf.
        lengths: (B,) int32, clipped to 0 to L.
        void: (B,) float32, nan where seq_length was outside of 0 to L, otherwise 0; to be added to the results of
            each row.
    """
    _check(num_tags, batch_first, describe('emissions', emissions), None, _describe_optional('seq_length', seq_length))
    emissions = forbid(emissions.astype(ms.float32))
    emissions = turned(emissions, batch_first)
    length, batch, _ = emissions.shape
    if seq_length is None:
        return emissions, ops.full((batch,), length, dtype=ms.int32), ops.zeros((batch,), ms.float32)
    beyond = in_range(seq_length, -1, length + 1)
    lengths = ops.minimum(ops.maximum(beyond, 0), length).astype(ms.int32)
    return emissions, lengths, nan_where(ops.not_equal(beyond, lengths))


def lengths_or_full(emissions: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """The lengths (B,) of the caller, or the padded length for each row if they are None."""
    if seq_length is not None:
        return seq_length
    length, batch = sizes(emissions, batch_first)
    return ops.full((batch,), length, dtype=ms.int32)


def prepare_raw(emissions: Tensor, tags: Tensor | None, seq_length: Tensor | None, num_tags: int,
                batch_first: bool) -> tuple[Tensor, Tensor]:
    """Checked emissions in float32 and lengths (B,), for the C++ operators.

    The layout is kept, and lengths and special values are not changed.
    """
    _check(num_tags, batch_first, describe('emissions', emissions), _describe_optional('tags', tags),
           _describe_optional('seq_length', seq_length))
    emissions = emissions.astype(ms.float32)
    return emissions, lengths_or_full(emissions, seq_length, batch_first)


def prepare_steps(transitions: Tensor, emissions: Tensor, pair_emissions: Tensor | None, lengths: Tensor,
                  batch_first: bool, validate: bool) -> Tensor:
    """Scores (L, B, K, K) of the step from each position to the next: transitions plus pair emissions.

    -inf becomes FORBIDDEN. Steps without a real next position are 0.

    Args:
        transitions: (K, K) float32.
        emissions: argument of the caller, for the shape.
        pair_emissions: argument of the caller, or None.
        lengths: (B,) int32.
        batch_first: layout of emissions and pair_emissions.
        validate: whether nan and +inf in pair emissions raise ValueError in PyNative mode.
    """
    num_tags = transitions.shape[0]
    length, batch = sizes(emissions, batch_first)
    steps = ops.zeros((length, batch, num_tags, num_tags), ms.float32)
    if pair_emissions is not None:
        _check_shape_of_pairs(num_tags, batch_first, describe('emissions', emissions),
                              describe('pair_emissions', pair_emissions))
        if not (isconstant(length) and length == 1):
            pairs = turned(pair_emissions.astype(ms.float32), batch_first)
            if validate and has_values(pairs):
                _check_pair_emissions(pairs, lengths)
            steps = ops.concat((pairs, steps[:1]), 0)
    steps = forbid(steps + transitions)
    followed = continued(lengths, length).expand_dims(2).expand_dims(3)       # (L, B, 1, 1)
    return ops.select(followed, steps, ops.zeros_like(steps))


@ops.constexpr(check=False)
def _constant_temperature(temperature: float) -> Tensor:
    """A valid temperature as a float32 tensor that is a constant of the graph."""
    validation.check_temperature(temperature)
    return Tensor(float(temperature), ms.float32)


@ops.constexpr(check=False)
def _constant_seed(seed: int) -> Tensor:
    """A valid seed as an int64 tensor that is a constant of the graph."""
    validation.check_seed(seed)
    return Tensor(int(seed), ms.int64)


def prepare_temperature(temperature: float | Tensor) -> Tensor:
    """The temperature as a scalar tensor in float32, nan if it is not above 0."""
    if not isinstance(temperature, Tensor):
        return _constant_temperature(temperature)
    _check_scalar('temperature', describe('temperature', temperature), FLOATS)
    temperature = temperature.astype(ms.float32)
    return temperature + nan_where(ops.logical_not(temperature > 0.0))


def prepare_seed(seed: int | Tensor) -> Tensor:
    """The seed as a scalar tensor in int64."""
    if not isinstance(seed, Tensor):
        return _constant_seed(seed)
    _check_scalar('seed', describe('seed', seed), INTEGERS)
    return seed.astype(ms.int64)


def prepare_tags(emissions: Tensor, tags: Tensor, num_tags: int, batch_first: bool) -> Tensor:
    """Tags (L, B) int32: -1 for unknown tags, num_tags for tags that are not below num_tags."""
    _check(num_tags, batch_first, describe('emissions', emissions), describe('tags', tags), None)
    return turned(in_range(tags, -1, num_tags), batch_first)


# Bool tags are sets: the tags that each token may have. The probability of the paths through these sets is the sum over
# them divided by the sum over all paths. Its logarithm is the difference of two normalizers, the first of emissions in
# which all other tags are forbidden. So both backends can compute this loss and its gradients.
def are_sets(tags: Tensor | None) -> bool:
    """Whether tags are sets of tags, in a bool tensor."""
    return isinstance(tags, Tensor) and tags.dtype == ms.bool_


def free_and_restricted(emissions: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Emissions, and emissions with FORBIDDEN for the tags that are not in the sets; both in float32.

    From both, the largest emission of each position is subtracted. This lowers both normalizers by the same amount and
    reduces rounding errors.

    Args:
        emissions: (L, B, K), or (B, L, K).
        allowed: bool, of the same shape: the sets.
    """
    check_sets(describe('emissions', emissions), describe('tags', allowed))
    emissions = lowered(emissions)
    return emissions, ops.select(ops.stop_gradient(allowed), emissions, FORBIDDEN * ones_like(emissions))


def clipped_lengths(emissions: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """Lengths (B,) int32, clipped to 0 to L; the padded length for each row if seq_length is None."""
    length, _ = sizes(emissions, batch_first)
    return in_range(lengths_or_full(emissions, seq_length, batch_first), 0, length)
