"""Brings a caller's tensors into the form of the recursions: length first, float32, int32.

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

# Checks that a graph makes when it is compiled, and PyNative mode at each call. A tensor is described by (type, shape).
_at_compilation = ops.constexpr(check=False)
check_scores = _at_compilation(validation.check_shapes_of_scores)
check_constrained = _at_compilation(validation.check_flag)
check_comparable = _at_compilation(validation.check_comparable)
check_sets = _at_compilation(validation.check_sets)
_check_shape_of_paths = _at_compilation(validation.check_paths_argument)
_check_shape_of_pairs = _at_compilation(validation.check_pair_emissions_argument)
_check_argument = _at_compilation(validation.check_argument)
_check_scalar = _at_compilation(validation.check_scalar)
# Checks of values, for PyNative mode.
check_sums_of_targets = _at_compilation(validation.check_sums_of_targets)
_check_pair_emissions = _at_compilation(validation.check_pair_emissions)


@ops.constexpr(check=False)
def _check(num_tags: int, batch_first: bool, emissions: Described, tags: Described | None,
           seq_length: Described | None) -> None:
    check_not_traced()
    validation.check_arguments(num_tags, batch_first, emissions, tags, seq_length)


def check_paths(paths: Tensor, emissions: Tensor, batch_first: bool) -> None:
    """Raises TypeError or ValueError unless paths are integers (batch, length) for emissions as a caller gave them."""
    _check_shape_of_paths(describe('paths', paths), describe('emissions', emissions), batch_first)


@ops.constexpr(check=False)
def _refuse(name: str, argument: object) -> None:
    raise TypeError(f'{name} must be a Tensor, got {type(argument).__name__}')


def describe(name: str, argument: Tensor) -> Described:
    """(dtype, shape) of a tensor."""
    if not isinstance(argument, Tensor):
        _refuse(name, argument)
    return argument.dtype, argument.shape


def _describe_optional(name: str, argument: Tensor | None) -> Described | None:
    """(dtype, shape) of a tensor, None of None."""
    return None if argument is None else describe(name, argument)


def check_like(name: str, argument: Tensor, form: str, shape: tuple) -> None:
    """Raises TypeError or ValueError unless an argument is a tensor of numbers of this shape, that of `form`."""
    _check_argument(name, describe(name, argument), form, shape)


@ops.constexpr(check=False)
def _constant(name: str, values: Numbers) -> Tensor:
    return Tensor(validation.check_numbers(name, values))


def tensor_of(name: str, values: Numbers) -> Tensor:
    """A tensor as it is, numbers and arrays as float32."""
    if isinstance(values, Tensor):
        return values
    return _constant(name, values)


def has_values(tensor: Tensor) -> bool:
    """Whether one can look at a tensor's values: in PyNative mode; in a graph this is False when it is compiled."""
    return isconstant(tensor)


@ops.constexpr(check=False)
def _check_values(emissions: Tensor, tags: Tensor | None, seq_length: Tensor | None, num_tags: int,
                  batch_first: bool) -> None:
    if tags is not None:
        validation.check_batch(tags, seq_length, num_tags, batch_first)
        if len(tags.shape) > 2:                                  # sets: emissions are looked at with their normaliser
            return
    elif seq_length is not None:
        validation.check_lengths(seq_length, emissions.shape[0])
    validation.check_emissions(emissions, seq_length)


def check_values(emissions: Tensor, tags: Tensor | None, seq_length: Tensor | None, num_tags: int,
                 batch_first: bool) -> None:
    """Raises ValueError, with row and position, for values that can't be; in a graph it does nothing.

    Args:
        emissions: as `prepare` returns them. The rest as they came from the caller; tags or seq_length may be None.
    """
    if has_values(emissions):
        _check_values(emissions, tags, seq_length, num_tags, batch_first)


def in_range(integers: Tensor, least: int, most: int) -> Tensor:
    """Integers of any type as int32, those below `least` as `least` and those above `most` as `most`.

    They are compared in their own width: a cast would cut 2**32 + 1 to 1.
    """
    dtype = integers.dtype
    if dtype in (ms.int64, ms.uint32):
        wide = integers.astype(ms.int64)
    elif dtype == ms.uint64:
        wide = integers.astype(ms.int64)                         # beyond 2**63 it becomes negative
        wide = ops.select(wide < 0, most * ones_like(wide), wide)
    else:
        wide = integers.astype(ms.int32)
    return ops.minimum(ops.maximum(wide, least), most).astype(ms.int32)


def prepare(emissions: Tensor, seq_length: Tensor | None, num_tags: int,
            batch_first: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions, lengths, and which rows are void.

    Returns:
        emissions (L, B, K) in float32, FORBIDDEN instead of -inf; lengths (B,) int32, 0 to L; void (B,) float32,
        nan where seq_length was none of these, else 0: it is added to all values of a row.
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


def given_lengths(emissions: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """Lengths (B,) as they came from the caller; without, the padded length of each row."""
    if seq_length is not None:
        return seq_length
    length, batch = sizes(emissions, batch_first)
    return ops.full((batch,), length, dtype=ms.int32)


def prepare_raw(emissions: Tensor, tags: Tensor | None, seq_length: Tensor | None, num_tags: int,
                batch_first: bool) -> tuple[Tensor, Tensor]:
    """Emissions in float32 and lengths (B,), as the operators in C++ take them: for the rest, as they came."""
    _check(num_tags, batch_first, describe('emissions', emissions), _describe_optional('tags', tags),
           _describe_optional('seq_length', seq_length))
    emissions = emissions.astype(ms.float32)
    return emissions, given_lengths(emissions, seq_length, batch_first)


def prepare_steps(transitions: Tensor, emissions: Tensor, pair_emissions: Tensor | None, lengths: Tensor,
                  batch_first: bool, looked_at: bool) -> Tensor:
    """Scores (L, B, K, K) of the step after each position: transitions and pair emissions, FORBIDDEN instead of -inf, 0
    where no real position follows.

    Args:
        transitions: (K, K) float32.
        emissions, pair_emissions: as they came from the caller; pair emissions may be None.
        lengths: (B,) int32.
        batch_first: the layout of both.
        looked_at: whether nan and +inf in pair emissions raise ValueError in PyNative mode.
    """
    num_tags = transitions.shape[0]
    length, batch = sizes(emissions, batch_first)
    steps = ops.zeros((length, batch, num_tags, num_tags), ms.float32)
    if pair_emissions is not None:
        _check_shape_of_pairs(num_tags, batch_first, describe('emissions', emissions),
                              describe('pair_emissions', pair_emissions))
        if not (isconstant(length) and length == 1):
            pairs = turned(pair_emissions.astype(ms.float32), batch_first)
            if looked_at and has_values(pairs):
                _check_pair_emissions(pairs, lengths)
            steps = ops.concat((pairs, steps[:1]), 0)
    steps = forbid(steps + transitions)
    followed = continued(lengths, length).expand_dims(2).expand_dims(3)       # (L, B, 1, 1)
    return ops.select(followed, steps, ops.zeros_like(steps))


@ops.constexpr(check=False)
def _constant_temperature(temperature: float) -> Tensor:
    validation.check_temperature(temperature)
    return Tensor(float(temperature), ms.float32)


@ops.constexpr(check=False)
def _constant_seed(seed: int) -> Tensor:
    validation.check_seed(seed)
    return Tensor(int(seed), ms.int64)


def prepare_temperature(temperature: float | Tensor) -> Tensor:
    """A scalar tensor (float32), nan where it is not above 0."""
    if not isinstance(temperature, Tensor):
        return _constant_temperature(temperature)
    _check_scalar('temperature', describe('temperature', temperature), FLOATS)
    temperature = temperature.astype(ms.float32)
    return temperature + nan_where(ops.logical_not(temperature > 0.0))


def prepare_seed(seed: int | Tensor) -> Tensor:
    """A scalar tensor (int64)."""
    if not isinstance(seed, Tensor):
        return _constant_seed(seed)
    _check_scalar('seed', describe('seed', seed), INTEGERS)
    return seed.astype(ms.int64)


def prepare_tags(emissions: Tensor, tags: Tensor, num_tags: int, batch_first: bool) -> Tensor:
    """Tags (L, B) int32: -1 where not known, num_tags where there is no such tag."""
    _check(num_tags, batch_first, describe('emissions', emissions), describe('tags', tags), None)
    return turned(in_range(tags, -1, num_tags), batch_first)


# Sets of tags in place of tags: of each token, which tags it may have. The probability of all paths through these sets
# together is the sum over them divided by the sum over all paths: two normalisers, the first of emissions in which
# every other tag is forbidden. So whatever computes normalisers, in C++ or in graphs, computes this and its gradients.
def are_sets(tags: Tensor | None) -> bool:
    """Whether these are sets, bools, and not tags."""
    return isinstance(tags, Tensor) and tags.dtype == ms.bool_


def free_and_restricted(emissions: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Emissions (..., ..., K) in float32 with 0 as the highest of each position, and the same with FORBIDDEN for the
    tags that are not in the sets: of both the normaliser is lower by as much, and loses less to rounding.

    Args:
        emissions: (L, B, K), or batch first.
        allowed: bool, of the same shape.
    """
    check_sets(describe('emissions', emissions), describe('tags', allowed))
    emissions = lowered(emissions)
    return emissions, ops.select(ops.stop_gradient(allowed), emissions, FORBIDDEN * ones_like(emissions))


def lengths_of(emissions: Tensor, seq_length: Tensor | None, batch_first: bool) -> Tensor:
    """Lengths (B,) int32, those that can't be brought into 0 to L."""
    length, _ = sizes(emissions, batch_first)
    return in_range(given_lengths(emissions, seq_length, batch_first), 0, length)
