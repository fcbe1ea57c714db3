"""Checks of the arguments of a hidden Markov model, and their conversion to arrays."""

import math
from collections.abc import Sequence
from itertools import chain
from numbers import Integral, Number, Real
from typing import Any

from ms_crf.base.memory import check_memory

import numpy as np


def several(sequences: Any, of_words: bool = False, name: str = 'observations') -> tuple[bool, list]:
    """Whether the argument is several sequences, and a list of all sequences; each is an array or a list."""
    separate: list[Any]
    if isinstance(sequences, np.ndarray) and sequences.ndim == 1 and sequences.dtype != object:
        many, separate = False, [sequences]
    else:
        items = as_list(sequences, name, 'a sequence or a list of sequences')
        many = not _is_item(items[0]) if items else of_words
        separate = [item if isinstance(item, list) or (isinstance(item, np.ndarray) and item.ndim)
                    else as_list(item, f'sequence {index}', 'a list')
                    for index, item in enumerate(items)] if many else [items]
    if of_words:
        for index, sequence in enumerate(separate):
            check_tokens(sequence, f'sequence {index}')
    return many, separate


def _is_item(value: Any) -> bool:
    """Whether a value is an item of a sequence, not a sequence."""
    return value is None or isinstance(value, (str, bytes, Number, np.generic)) or getattr(value, 'shape', None) == ()


def as_list(values: Any, name: str, expected: str) -> list:
    """The list of the items of an iterable; raises TypeError for other values, and for sets, dicts and strings."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f'{name} must be {expected}, got a string; split it')
    if hasattr(values, '__array__'):             # a tensor of a framework, or an array; both may have no axes
        values = np.asarray(values)
    if (not hasattr(values, '__iter__') or isinstance(values, (dict, set, frozenset))
            or (isinstance(values, np.ndarray) and not values.ndim)):
        raise TypeError(f'{name} must be {expected}, got {type(values).__name__}')
    return list(values)


def check_tokens(tokens: Any, name: str) -> None:
    """Raises TypeError if a token is not a string."""
    if not set(map(type, tokens)) <= {str}:      # fast for valid tokens
        for position, token in enumerate(tokens):
            if not isinstance(token, str):
                raise TypeError(f'{name} must contain strings, got {type(token).__name__} at position '
                                f'{position}')


def check_count(value: Any, name: str, least: int) -> int:
    """An integer of at least `least`; raises TypeError or ValueError with the name of the argument."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f'{name} must be an integer, got {type(value).__name__}')
    if value < least:
        raise ValueError(f'{name} must be at least {least}, got {value}')
    return int(value)


def check_number(value: Any, name: str) -> float:
    """A number as float; raises TypeError or ValueError for other values and for nan."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f'{name} must be a number, got {type(value).__name__}')
    try:
        value = float(value)
    except OverflowError:
        raise ValueError(f'{name} must be a 64-bit number, got a larger number') from None
    if math.isnan(value):
        raise ValueError(f'{name} must be a number, got nan')
    return value


def generator_of(seed: Any) -> np.random.Generator:
    """The random generator of a seed; raises ValueError for an invalid seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(f'seed must be an integer of at least 0, or another seed of numpy.random.default_rng, '
                         f'got {seed!r:.40}') from None


def check_tables(states: int, symbols: int, advice: str) -> None:
    """Raises ValueError if a model of this size, and intermediate results of its training, do not fit into memory."""
    # The tables, their counts, the new tables, and the transposed tables: 8 bytes for each number.
    check_memory(32 * states * (states + symbols), f'a model of {states:,} states and {symbols:,} symbols', advice)


def check_pairs(sequences: list, states: int) -> None:
    """Raises ValueError if the posteriors of pairs of states do not fit into memory."""
    count = sum(max(len(sequence) - 1, 0) for sequence in sequences)
    check_memory(8 * count * states ** 2, f'an array of {states:,} x {states:,} pairs at {count:,} positions',
                 'set pairs=False, or pass fewer sequences')


def join_symbols(sequences: Sequence[Any], count: int) -> np.ndarray:
    """The symbols of all sequences, concatenated; raises ValueError for a symbol outside 0 to `count` - 1."""
    if all(isinstance(sequence, list) for sequence in sequences):
        joined = list(chain.from_iterable(sequences))
        if set(map(type, joined)) <= {int}:      # fast for valid symbols
            array = np.array(joined)
            if array.dtype == np.int64 and array.min() >= 0 and array.max() < count:
                return array
    checked = [check_symbols(sequence, index, count) for index, sequence in enumerate(sequences)]
    return np.concatenate(checked) if checked else np.zeros(0, np.int64)


def check_symbols(sequence: Any, index: int, count: int | None, name: str = 'symbol') -> np.ndarray:
    """A sequence as an int64 array; raises ValueError for a symbol outside 0 to `count` - 1 (None for no limit)."""
    try:
        array = np.asarray(sequence)
    except (ValueError, TypeError, RuntimeError):                # nested lists of different lengths
        raise ValueError(f'sequence {index} must be a list of {name}s (integers), got nested lists') from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in 'iu'):
        raise ValueError(f'sequence {index} must be a list of {name}s (integers), got '
                         f'{array.dtype} of shape {array.shape}')
    invalid = (array < 0) | (array >= (1 << 62 if count is None else count)) if array.size else np.zeros(0, bool)
    if invalid.any():
        position = int(invalid.argmax())
        most = '' if count is None else f' to {count - 1}'
        raise ValueError(f'sequence {index} must contain {name}s from 0{most}, got {array[position]} at position '
                         f'{position}')
    return array.astype(np.int64)


def _floats(values: Any, name: str) -> np.ndarray:
    """An array of float64; raises TypeError or ValueError for other values."""
    if values is None:
        raise ValueError(f'{name} must be an array, got None; set start, transition and emission together')
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):
        raise ValueError(f'{name} must be an array, got rows of different lengths') from None
    if array.dtype.kind not in 'fiub':
        raise TypeError(f'{name} must contain numbers, got {array.dtype} of shape {array.shape}')
    return array.astype(np.float64)


def check_arrays(start: Any, transition: Any, emission: Any, end: Any, log: Any) -> tuple[np.ndarray, ...]:
    """The four arrays in logarithms; raises ValueError if shapes do not fit or values are not probabilities."""
    if not isinstance(log, (bool, np.bool_)):
        raise TypeError(f'log must be True or False, got {type(log).__name__}')
    start, transition, emission = map(_floats, (start, transition, emission), ('start', 'transition', 'emission'))
    states = len(start) if start.ndim == 1 else 0
    end = _floats(end, 'end') if end is not None else np.full(states, 0.0 if log else 1.0)
    if not states:
        raise ValueError(f'start must be (states,), got shape {start.shape}')
    expected: dict[str, tuple[np.ndarray, tuple]] = {
        'transition': (transition, (states, states)), 'end': (end, (states,)),
        'emission': (emission, (states, emission.shape[-1] if emission.ndim == 2 else 'symbols'))}
    for name, (array, shape) in expected.items():
        if array.shape != shape or not array.size:
            raise ValueError(f'{name} must have the shape {shape} for start of {states} states, got {array.shape}')
    for name, array in (('start', start), ('transition', transition), ('emission', emission), ('end', end)):
        if np.isnan(array).any() or (array == np.inf).any() or (not log and (array < 0).any()):
            raise ValueError(f'{name} must contain {"logarithms" if log else "probabilities"}, '
                             f'got {array[~(array >= 0) | np.isinf(array)].flat[0] if not log else "nan or infinity"}')
        if not log and name != 'end' and not np.allclose(array.sum(-1), 1, atol=1e-6):
            worst = float(np.atleast_1d(array.sum(-1))[np.abs(np.atleast_1d(array.sum(-1)) - 1).argmax()])
            raise ValueError(f'{name} must add up to 1{"" if name == "start" else " in each row"}, got {worst:g}')
    if log:
        return start, transition, emission, end
    with np.errstate(divide='ignore'):
        return np.log(start), np.log(transition), np.log(emission), np.log(end)


def check_parallel(sentences: Any, tags: Any) -> tuple[list, list]:
    """Both arguments as lists of lists; raises TypeError or ValueError if one is invalid or their lengths differ."""
    sentences = [as_list(tokens, f'sentence {index}', 'a list of tokens')
                 for index, tokens in enumerate(as_list(sentences, 'sentences', 'a list of lists of tokens'))]
    tags = [as_list(row, f'tags of sentence {index}', 'a list of tags')
            for index, row in enumerate(as_list(tags, 'tags', 'a list of lists of tags'))]
    if len(sentences) != len(tags):
        raise ValueError(f'tags must contain a list for each sentence ({len(sentences)}), got {len(tags)}')
    for index, (tokens, row) in enumerate(zip(sentences, tags)):
        if len(tokens) != len(row):
            raise ValueError(f'sentence {index} must have a tag for each token ({len(tokens)}), got {len(row)}')
        check_tokens(tokens, f'sentence {index}')
    if not any(map(len, tags)):
        raise ValueError('sentences must contain at least one token, got none')
    return sentences, tags


def check_add(add: Any, zero: bool = False) -> float:
    """The number that is added to counts; raises ValueError unless it is above 0 (with `zero`, at least 0)."""
    value = check_number(add, 'add')
    if not (value > 0 or zero and value == 0):
        raise ValueError(f'add must be {"at least" if zero else "above"} 0, got {add}')
    return value


def check_states_occur(states: Sequence, counts: np.ndarray) -> None:
    """Raises ValueError if a state has no counts; without smoothing its probabilities are undefined."""
    if not counts.all():
        missing = states[int((counts == 0).argmax())]
        raise ValueError(f'add=0 leaves the probabilities of state {missing!r} undefined, because no token has this '
                         'tag; omit it from states, or set add above 0')


def check_sets(sentences: Any, sets: Any, states: int) -> tuple[list, list[np.ndarray]]:
    """Lists of tokens and their sets of tags, without empty sentences.

    Raises:
        TypeError, ValueError: an argument has another form, or a token has no allowed tag.
    """
    sets = [np.asarray(allowed) for allowed in as_list(sets, 'sets', 'a list of arrays')]
    sentences, _ = check_parallel(sentences, [[''] * len(allowed) for allowed in sets])
    for index, allowed in enumerate(sets):
        if allowed.dtype != bool or allowed.shape != (len(sentences[index]), states) or not allowed.any(-1).all():
            raise ValueError(f'sets must contain for sentence {index} an array ({len(sentences[index])}, {states}) of '
                             f'bools with a True in each row, got {allowed.dtype} of shape {allowed.shape}')
    filled = [index for index, tokens in enumerate(sentences) if tokens]
    return [sentences[index] for index in filled], [sets[index] for index in filled]


def check_states(states: Any, tags: Sequence[list]) -> tuple[list, dict]:
    """The states of a model in order, and the index of each state; if `states` is None, the tags that occur, sorted."""
    ordered = None if states is None else as_list(states, 'states', 'a list of tags')
    try:
        ordered = sorted({tag for row in tags for tag in row}) if ordered is None else ordered
        indices = {tag: index for index, tag in enumerate(ordered)}
        # nan is not equal to itself
        missing = next((tag for row in tags for tag in row if tag not in indices or tag != tag), None)
    except TypeError:
        kinds = ', '.join(sorted({type(tag).__name__ for row in tags for tag in row}))
        raise TypeError(f'tags must be strings, or values of one type that can be sorted, got {kinds}') from None
    if missing is not None:
        raise ValueError(f'states must contain all tags, got none for {missing!r}')
    if len(indices) != len(ordered):
        raise ValueError(f'states must be distinct, got {len(ordered)} states, {len(indices)} of them distinct')
    return ordered, indices
