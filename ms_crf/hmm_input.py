"""What a hidden Markov model is given, brought into arrays; and one line about what can't be."""

from itertools import chain

import numpy as np


def several(sequences, of_words=False):
    """Whether these are several sequences, and a list of them."""
    if isinstance(sequences, np.ndarray) and sequences.ndim == 1:
        return False, [sequences]
    if isinstance(sequences, str):
        raise TypeError('expected a sequence or a list of them, got a string; split it')
    sequences = list(sequences)
    if of_words:
        many = not sequences or not isinstance(sequences[0], str)
    else:
        many = bool(sequences) and np.ndim(sequences[0]) > 0
    return many, sequences if many else [sequences]


def join_symbols(sequences, count):
    """Symbols of all sequences one after the other; raises ValueError at what is no number below `count`."""
    if all(isinstance(sequence, list) for sequence in sequences):
        joined = list(chain.from_iterable(sequences))
        if set(map(type, joined)) <= {int}:      # at once what would take long one by one
            array = np.array(joined, np.int64)
            if not array.size or (array.min() >= 0 and array.max() < count):
                return array
    checked = [check_symbols(sequence, number, count) for number, sequence in enumerate(sequences)]
    return np.concatenate(checked) if checked else np.zeros(0, np.int64)


def check_symbols(sequence, number, count, name='symbol'):
    """A sequence as an array of int64; raises ValueError at what is no number below `count`."""
    array = np.asarray(sequence)
    if array.ndim != 1 or (array.size and array.dtype.kind not in 'iu'):
        raise ValueError(f'sequence {number} must be {name}s, whole numbers in one row, got '
                         f'{array.dtype} of shape {array.shape}')
    wrong = (array < 0) | (array >= (array.max(initial=0) + 1 if count is None else count))
    if wrong.any():
        place = int(wrong.argmax())
        most = '' if count is None else f' to {count - 1}'
        raise ValueError(f'sequence {number} must hold {name}s from 0{most}, got {array[place]} at position {place}')
    return array.astype(np.int64)


def check_arrays(start, transition, emission, end, log):
    """The four arrays in logarithms; raises ValueError where they don't fit or are no probabilities."""
    start, transition, emission = (np.asarray(array, np.float64) for array in (start, transition, emission))
    states = len(start) if start.ndim == 1 else 0
    end = np.asarray(end, np.float64) if end is not None else np.full(states, 0.0 if log else 1.0)
    if not states:
        raise ValueError(f'start must be (states,), got shape {start.shape}')
    expected = {'transition': (transition, (states, states)), 'end': (end, (states,)),
                'emission': (emission, (states, emission.shape[-1] if emission.ndim == 2 else 'symbols'))}
    for name, (array, shape) in expected.items():
        if array.shape != shape:
            raise ValueError(f'{name} must be {shape} beside start of {states} states, got shape {array.shape}')
    for name, array in (('start', start), ('transition', transition), ('emission', emission), ('end', end)):
        if np.isnan(array).any() or (array == np.inf).any() or (not log and (array < 0).any()):
            raise ValueError(f'{name} must hold {"logarithms" if log else "probabilities"}, '
                             f'got {array[~(array >= 0) | np.isinf(array)].flat[0] if not log else "nan or infinity"}')
        if not log and name != 'end' and not np.allclose(array.sum(-1), 1, atol=1e-6):
            worst = float(np.atleast_1d(array.sum(-1))[np.abs(np.atleast_1d(array.sum(-1)) - 1).argmax()])
            raise ValueError(f'{name} must add up to 1{"" if name == "start" else " in each row"}, got {worst:g}')
    if log:
        return start, transition, emission, end
    with np.errstate(divide='ignore'):
        return np.log(start), np.log(transition), np.log(emission), np.log(end)


def check_parallel(sentences, tags):
    if len(sentences) != len(tags):
        raise ValueError(f'tags must hold a list for each sentence ({len(sentences)}), got {len(tags)}')
    for number, (tokens, row) in enumerate(zip(sentences, tags)):
        if len(tokens) != len(row):
            raise ValueError(f'sentence {number} must have a tag for each token ({len(tokens)}), got {len(row)}')
    if not any(map(len, tags)):
        raise ValueError('sentences must hold a token, got none')
