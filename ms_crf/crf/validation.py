"""Checks of settings and arguments, which raise TypeError or ValueError with a one-line message.

Types and shapes of tensors are known when a graph is compiled; an axis of any size is None or -1. Values are checked on
the host.
"""

from collections.abc import Callable

from ms_crf.base.memory import check_memory

import numpy as np
from numpy.typing import ArrayLike

TOLERANCE = 1e-3              # largest error of a sum of probabilities
REDUCTIONS = ('none', 'sum', 'mean', 'token_mean')
FLOATS = ('Float16', 'BFloat16', 'Float32', 'Float64')
INTEGERS = ('Int8', 'Int16', 'Int32', 'Int64', 'UInt8', 'UInt16', 'UInt32', 'UInt64')
Described = tuple[object, tuple]   # the type of a tensor and its shape


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raises an error unless a value is an integer of Python or NumPy, not a bool, and at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f'{name} must be an int, got {type(value).__name__}')
    if value < least:
        raise ValueError(f'{name} must be at least {least}, got {value}')


def check_width(name: str, value: int) -> None:
    """Raises an error unless a width can be divided between two directions."""
    check_count(name, value)
    if value < 2 or value % 2:
        raise ValueError(f'{name} must be even and at least 2, half for each direction, got {value}')


def check_table_of_tags(num_tags: int) -> None:
    """Raises an error unless num_tags is valid and a table of all tag pairs fits in memory."""
    check_count('num_tags', num_tags)
    check_memory(4 * int(num_tags) ** 2, f'a table of transitions for num_tags = {num_tags}')


def check_flag(name: str, value: object) -> None:
    """Raises TypeError unless a value is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f'{name} must be True or False, got {type(value).__name__}')


def check_reduction(reduction: str) -> None:
    """Raises ValueError unless a reduction is one of REDUCTIONS."""
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ValueError(f'reduction must be one of {", ".join(REDUCTIONS)}, got {reduction!r}')


def check_seed(seed: int) -> None:
    """Raises TypeError or ValueError unless a seed is an int from 0 to 2**63 - 1."""
    check_count('seed', seed, 0)
    if seed >= 2 ** 63:
        raise ValueError(f'seed must be below 2 ** 63, got {seed}')


def check_temperature(temperature: object) -> None:
    """Raises TypeError or ValueError unless a temperature is a finite number above 0; not for tensors."""
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float, np.integer, np.floating)):
        raise TypeError(f'temperature must be a number, got {type(temperature).__name__}')
    if not 0.0 < temperature < float('inf'):
        raise ValueError(f'temperature must be above 0, got {temperature}')


def check_numbers(name: str, values: ArrayLike) -> np.ndarray:
    """A number, or an array or list of numbers, as a float32 array; raises TypeError for anything else."""
    array = np.asarray(values)
    if array.dtype.kind not in 'iuf':
        raise TypeError(f'{name} must be a number or a tensor of numbers, got {type(values).__name__}')
    return array.astype(np.float32)


def _refuse(wrong: np.ndarray, message: Callable[..., str]) -> None:
    """Raises ValueError if an entry of `wrong` is True, with the message for the indices of the first such entry."""
    if wrong.any():
        raise ValueError(message(*np.argwhere(wrong)[0]))


def _real(seq_length: ArrayLike, length: int, first: int = 0) -> np.ndarray:
    """Mark (B, length) bool of the real ones of the positions `first`, first + 1, ..."""
    return np.arange(first, first + length) < as_array(seq_length)[:, None]


def check_sums_of_targets(name: str, targets: ArrayLike, seq_length: ArrayLike) -> None:
    """Raises ValueError if targets (length, batch, num_tags) of a real position are not a distribution."""
    targets = as_array(targets).swapaxes(0, 1)                   # (B, L, K)
    sums = targets.sum(2)
    wrong = (np.abs(sums - 1.0) > TOLERANCE) | (targets.min(2) < 0) | np.isnan(sums)
    _refuse(wrong & _real(seq_length, targets.shape[1]), lambda row, position: (
        f'{name} must be distributions, non-negative numbers that add up to 1, got '
        f'{targets[row, position].tolist()} in row {row}, position {position}'))


def as_array(values: ArrayLike) -> np.ndarray:
    """A tensor, an array or a list as a NumPy array."""
    return values.asnumpy() if hasattr(values, 'asnumpy') else np.asarray(values)


def check_integers(name: str, array: np.ndarray) -> None:
    """Raises TypeError unless an array contains integers or is empty."""
    if array.dtype.kind not in 'iu' and array.size:
        raise TypeError(f'{name} must be integers, got {array.dtype}')


def check_lengths(seq_length: ArrayLike, length: int) -> None:
    """Raises ValueError unless every length is from 0 to `length`."""
    lengths = as_array(seq_length)
    _refuse((lengths < 0) | (lengths > length), lambda row: (
        f'seq_length must be 0 to {length}, the padded length, got {lengths[row]} in row {row}'))


def check_emissions(emissions: ArrayLike, seq_length: ArrayLike | None) -> None:
    """Raises ValueError for nan or +inf at a real position of emissions (length, batch, num_tags)."""
    emissions = as_array(emissions).swapaxes(0, 1)               # (B, L, K)
    wrong = np.isnan(emissions) | (emissions == np.inf)
    if seq_length is not None:
        wrong &= _real(seq_length, emissions.shape[1])[..., None]
    _refuse(wrong, lambda row, position, tag: (
        f'emissions must be numbers, or -inf for a forbidden tag, got {emissions[row, position, tag]} in row {row}, '
        f'position {position}, tag {tag}'))


def check_pair_emissions(pair_emissions: ArrayLike, seq_length: ArrayLike) -> None:
    """Raises ValueError for nan or +inf in a real step of pair emissions (length - 1, batch, num_tags, num_tags)."""
    pairs = as_array(pair_emissions).swapaxes(0, 1)              # (B, L - 1, K, K)
    wrong = (np.isnan(pairs) | (pairs == np.inf)) & _real(seq_length, pairs.shape[1], 1)[..., None, None]
    _refuse(wrong, lambda row, step, before, after: (
        f'pair_emissions must be numbers, or -inf for a forbidden step, got {pairs[row, step, before, after]} in row '
        f'{row}, from position {step} to {step + 1}, from tag {before} to {after}'))


def check_mask(mask: ArrayLike) -> None:
    """Raises ValueError unless a mask (length, batch) is 1 on the first positions of each row and 0 after them."""
    mask = as_array(mask).T                                      # (B, L)
    rule = 'mask must be 1 on the first positions of each row and 0 after them'
    _refuse((mask != 0) & (mask != 1), lambda row, position: (
        f'{rule}, got {mask[row, position]:g} in row {row}, position {position}'))
    _refuse(mask[:, :-1] < mask[:, 1:], lambda row, position: (
        f'{rule}, got 0 before 1 in row {row}, position {position}'))


def check_batch(tags: ArrayLike, seq_length: ArrayLike | None, num_tags: int, batch_first: bool = False) -> None:
    """Checks tags and lengths of a batch on the host, because graphs cannot check values.

    Call it where you make the batches. Tags on padding are not checked.

    Args:
        tags: (length, batch), or (batch, length) with batch_first; a tensor, an array or lists. Negative tags are
            unknown.
            Or bool, with a last axis num_tags: the set of tags that each token may have, at least one.
        seq_length: number of real positions of each row, (batch,). None if all rows are full.
        num_tags: number of tags; tags must be below it.
        batch_first: layout of tags.

    Raises:
        ValueError: a tag or length is invalid; the message has row and position. Or a shape is wrong.
        TypeError: tags or lengths are not integers.
    """
    tags = as_array(tags)
    check_count('num_tags', num_tags)
    sets = tags.dtype == bool
    if sets and (tags.ndim != 3 or tags.shape[2] != num_tags):
        raise ValueError(f'bool tags must have three axes, the last of size num_tags = {num_tags}, got shape '
                         f'{tags.shape}')
    if not sets:
        if tags.ndim != 2:
            raise ValueError(f'tags must have two axes, got shape {tags.shape}')
        check_integers('tags', tags)
    tags = tags if batch_first else tags.swapaxes(0, 1)          # (B, L), of sets (B, L, K)
    batch, length = tags.shape[:2]
    live = np.ones((batch, length), bool)
    if seq_length is not None:
        lengths = as_array(seq_length)
        if lengths.shape != (batch,):
            raise ValueError(f'seq_length must be ({batch},), one for each row of tags, got shape {lengths.shape}')
        check_integers('seq_length', lengths)
        check_lengths(lengths, length)
        live = _real(lengths, length)
    _refuse(live & (~tags.any(2) if sets else tags >= num_tags), lambda row, position: (
        f'bool tags must allow at least one tag for each token, got none in row {row}, position {position}' if sets else
        f'tags must be below num_tags = {num_tags}, got {tags[row, position]} in row {row}, position {position}'))


def check_scalar(name: str, tensor: Described, allowed: tuple) -> None:
    """Raises TypeError or ValueError unless a tensor in place of a number is a scalar of an allowed type."""
    dtype, shape = str(tensor[0]), tensor[1]
    if dtype not in allowed:
        raise TypeError(f'{name} must be a number or a tensor of one of {", ".join(allowed)}, got {dtype}')
    if shape != ():
        raise ValueError(f'{name} must be a number or a tensor without axes, got shape {shape}')


def check_argument(name: str, argument: Described, form: str, expected: tuple) -> None:
    """Raises TypeError or ValueError unless a tensor has numbers of the expected shape; `form` describes the shape."""
    dtype, shape = argument
    check_type(name, dtype, 'numbers')
    if differ(shape, expected):
        raise ValueError(f'{name} must have the shape of {form}, {expected}, got {shape}')


def check_shape_is_known(name: str, shape: tuple) -> None:
    """Raises ValueError for a dynamic shape, in a method that needs a fixed shape."""
    if None in shape or -1 in shape:
        raise ValueError(f'{name} needs emissions of a fixed shape, got {shape}; compile it for each shape, without '
                         'dynamic=1, and without dynamic shapes in set_inputs or export')


def check_type(name: str, dtype: object, kind: str) -> None:
    """Raises TypeError unless a tensor has a type of this kind: 'floats', 'integers' or 'numbers'."""
    if str(dtype) not in {'floats': FLOATS, 'integers': INTEGERS, 'numbers': FLOATS + INTEGERS}[kind]:
        raise TypeError(f'{name} must be a tensor of {kind}, got {dtype}')


def differ(shape: tuple, expected: tuple) -> bool:
    """Whether two shapes cannot be equal; None and -1 are axes of any size."""
    return len(shape) != len(expected) or any(not {None, -1} & {one, other} and one != other
                                              for one, other in zip(shape, expected))


def check_arguments(num_tags: int, batch_first: bool, emissions: Described, tags: Described | None = None,
                    seq_length: Described | None = None) -> None:
    """Raises TypeError or ValueError unless the arguments of most calls fit together; None for an absent argument."""
    check_type('emissions', emissions[0], 'floats')
    if tags is not None:
        check_type('tags', tags[0], 'integers')
    if seq_length is not None:
        check_type('seq_length', seq_length[0], 'integers')
    shape = emissions[1]
    layout = '(batch, length, num_tags)' if batch_first else '(length, batch, num_tags)'
    if len(shape) != 3:
        raise ValueError(f'emissions must be {layout}, got shape {shape}')
    if differ(shape[2:], (num_tags,)):
        raise ValueError(f'emissions must be {layout} with num_tags = {num_tags}, got shape {shape}')
    if 0 in shape:
        raise ValueError(f'emissions must be {layout} with no empty axis, got shape {shape}')
    if tags is not None and differ(tags[1], shape[:2]):
        raise ValueError(f'tags must be {layout[:-11]}) like emissions[..., 0] = {shape[:2]}, got shape {tags[1]}; '
                         f'batch_first is {batch_first}')
    batch = shape[0] if batch_first else shape[1]
    if seq_length is not None and differ(seq_length[1], (batch,)):
        raise ValueError(f'seq_length must be (batch,) = ({batch},) for emissions {shape}, got shape {seq_length[1]}; '
                         f'batch_first is {batch_first}')


def check_shapes_of_scores(num_tags: int, transitions: tuple, start: tuple, end: tuple) -> None:
    """Raises ValueError unless the shapes of a layer's parameters fit the number of tags."""
    for name, shape in (('transitions', transitions), ('start_transitions', start), ('end_transitions', end)):
        expected = (num_tags, num_tags) if name == 'transitions' else (num_tags,)
        if shape != expected:
            raise ValueError(f'{name} must have shape {expected} for num_tags = {num_tags}, got {shape}; '
                             'make a new layer for another number of tags')


def check_comparable(num_tags: int, batch_first: bool, other_num_tags: int, other_batch_first: bool) -> None:
    """Raises ValueError unless two layers have the same number of tags and the same layout."""
    if num_tags != other_num_tags:
        raise ValueError(f'other must have the same number of tags, {num_tags}, got {other_num_tags}')
    if batch_first != other_batch_first:
        raise ValueError(f'other must have the same layout, batch_first = {batch_first}, got {other_batch_first}')


def check_paths_argument(paths: Described, emissions: Described, batch_first: bool) -> None:
    """Raises TypeError or ValueError unless paths are integers (batch, length) for these emissions."""
    expected = emissions[1][:2] if batch_first else emissions[1][1::-1]
    check_type('paths', paths[0], 'integers')
    if differ(paths[1], expected):
        raise ValueError(f'paths must be (batch, length) = {expected}, got shape {paths[1]}')


def check_sets(emissions: Described, sets: Described) -> None:
    """Raises ValueError unless sets of tags (bool) have the shape of the emissions."""
    if differ(sets[1], emissions[1]):
        raise ValueError(f'bool tags must have the shape of emissions, {emissions[1]}, got {sets[1]}')


def check_pair_emissions_argument(num_tags: int, batch_first: bool, emissions: Described,
                                  pair_emissions: Described) -> None:
    """Raises TypeError or ValueError unless pair emissions fit the emissions."""
    check_type('pair_emissions', pair_emissions[0], 'floats')
    shape, actual = (tuple(None if size == -1 else size for size in tensor[1])
                     for tensor in (emissions, pair_emissions))
    batch, length = shape[:2] if batch_first else shape[1::-1]
    steps = None if length is None else length - 1
    expected = (*((batch, steps) if batch_first else (steps, batch)), num_tags, num_tags)
    if differ(actual, expected):
        names = 'batch, length - 1' if batch_first else 'length - 1, batch'
        raise ValueError(f'pair_emissions must be ({names}, num_tags, num_tags) = {expected} for emissions '
                         f'{shape}, got shape {pair_emissions[1]}; batch_first is {batch_first}')


def check_function(emissions: Described, **others: Described) -> None:
    """Raises TypeError or ValueError unless the arguments of a tutorial function fit together."""
    dtype, shape = emissions
    check_type('emissions', dtype, 'floats')
    if len(shape) != 3 or 0 in shape:
        raise ValueError(f'emissions must be (length, batch, num_tags) with no empty axis, got shape {shape}')
    length, batch, num_tags = shape
    expected = {'mask': ('(length, batch)', (length, batch)), 'tags': ('(length, batch)', (length, batch)),
                'seq_ends': ('(batch,)', (batch,)), 'trans': ('(num_tags, num_tags)', (num_tags, num_tags)),
                'start_trans': ('(num_tags,)', (num_tags,)), 'end_trans': ('(num_tags,)', (num_tags,))}
    for name, (dtype, actual) in others.items():
        form, expected_shape = expected[name]
        if actual != expected_shape:
            raise ValueError(f'{name} must be {form} = {expected_shape} for emissions {shape}, got shape {actual}')
        if name in ('tags', 'seq_ends'):
            check_type(name, dtype, 'integers')
        if name.endswith('trans'):
            check_type(name, dtype, 'floats')


def check_lengths_argument(seq_length: Described, batch: int | None = None) -> None:
    """Raises TypeError or ValueError unless seq_length is integers (batch,), in calls without emissions."""
    dtype, shape = seq_length
    check_type('seq_length', dtype, 'integers')
    if differ(shape, (batch,)) or 0 in shape:
        raise ValueError(f'seq_length must be (batch,){"" if batch is None else f" = ({batch},)"}, got shape {shape}')
