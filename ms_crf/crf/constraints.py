"""Which tag may follow which under a tag scheme, and which may begin and end a sentence."""

from typing import NamedTuple

from ms_crf.errors import brief

import numpy as np


class Constraints(NamedTuple):
    """What a CRF may choose: bool arrays, True for allowed."""

    transitions: np.ndarray   # (K, K), entry (i, j): tag j may follow tag i
    start: np.ndarray         # (K,)
    end: np.ndarray           # (K,)


# Prefixes of each scheme, and the pairs that may follow each other: within one type and span,
# and otherwise. 'O' never has a type.
_INSIDE = {
    'BIO': {'BI', 'II'},
    'IOB1': {'II', 'BI', 'IB', 'BB'},
    'BIOES': {'BI', 'BE', 'II', 'IE'},
    'BMES': {'BM', 'BE', 'MM', 'ME'},
}
_PREFIXES = {'BIO': 'BIO', 'IOB1': 'BIO', 'BIOES': 'BIOES', 'BMES': 'BMESO'}
_OPENING = {'BIO': 'BO', 'IOB1': 'IO', 'BIOES': 'BSO', 'BMES': 'BSO'}     # may begin a sentence or follow a closed span
_CLOSING = {'BIO': 'BIO', 'IOB1': 'BIO', 'BIOES': 'ESO', 'BMES': 'ESO'}   # may end a sentence or come before a new span


def _split(scheme, tags):
    parts = []
    for index, tag in enumerate(tags):
        if not isinstance(tag, str):
            raise TypeError(f'tags must be strings, got {brief(tag)} at {index}')
        prefix, dash, kind = tag.partition('-')
        well_formed = prefix in tuple(_PREFIXES[scheme]) and (not dash if prefix == 'O' else bool(kind) == bool(dash))
        if not well_formed:
            expected = ', '.join(p if p == 'O' else f'{p}-TYPE' for p in _PREFIXES[scheme])
            raise ValueError(f'tags must be {expected} (or without types) under {scheme}, got {brief(tag)} at {index}')
        parts.append((prefix, kind))
    return parts


def allowed_transitions(scheme, tags):
    """What a tag scheme allows, as `CRF(constraints=...)` takes it.

    Args:
        scheme: 'BIO', 'IOB1', 'BIOES' or 'BMES'.
        tags: the tags in the order of their ids, such as ['O', 'B-PER', 'I-PER'].

    Returns:
        Constraints: transitions (K, K), start (K,), end (K,), True for allowed.
    """
    if not isinstance(scheme, str) or scheme not in _INSIDE:
        raise ValueError(f'scheme must be one of {", ".join(_INSIDE)}, got {brief(scheme)}')
    if isinstance(tags, str) or not hasattr(tags, '__iter__'):
        raise TypeError(f'tags must be a sequence of strings, got {brief(tags)}')
    tags = list(tags)
    if not tags:
        raise ValueError('tags must hold at least one tag, got none')
    repeated = sorted({str(tag) for tag in tags if tags.count(tag) > 1})
    if repeated:
        raise ValueError(f'tags must be different from each other, got {brief(repeated[0])} more than once')
    parts = _split(scheme, tags)
    start = np.array([prefix in _OPENING[scheme] for prefix, _ in parts])
    end = np.array([prefix in _CLOSING[scheme] for prefix, _ in parts])
    inside = np.array([[a + b in _INSIDE[scheme] and kind == next_kind for b, next_kind in parts] for a, kind in parts])
    return Constraints(end[:, None] & start | inside, start, end)


def check_constraints(constraints, num_tags):
    """Constraints as bool arrays of the right shapes, or ValueError or TypeError.

    Args:
        constraints: what `allowed_transitions` returns, or three arrays like it.
        num_tags: K.
    """
    if not isinstance(constraints, (tuple, list)) or len(constraints) != 3:
        raise TypeError('constraints must be (transitions, start, end) as allowed_transitions returns them, '
                        f'got {type(constraints).__name__}')
    arrays = []
    shapes = ((num_tags, num_tags), (num_tags,), (num_tags,))
    for name, array, shape in zip(Constraints._fields, constraints, shapes):
        array = np.asarray(array)
        if array.shape != shape:
            raise ValueError(f'constraints.{name} must have shape {shape} for num_tags = {num_tags}, got {array.shape}')
        if array.dtype != bool:
            raise TypeError(f'constraints.{name} must be bool, True for allowed, got {array.dtype}')
        if not array.any():
            raise ValueError(f'constraints.{name} must allow a tag, got False everywhere')
        arrays.append(array)
    return Constraints(*arrays)


def usable_tags(constraints):
    """(K,) bool: the tags that some allowed path of some length goes through."""
    def closure(seen, steps):
        while True:
            grown = seen | (seen @ steps)
            if (grown == seen).all():
                return seen
            seen = grown
    return closure(constraints.start, constraints.transitions) & closure(constraints.end, constraints.transitions.T)
