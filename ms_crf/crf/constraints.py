"""Which tags may follow each other, begin a sentence and end one: constraints of a chain as arrays."""

from typing import NamedTuple

import numpy as np


class Constraints(NamedTuple):
    """What a CRF may choose: bool arrays, True for allowed."""

    transitions: np.ndarray   # (K, K), entry (i, j): tag j may follow tag i
    start: np.ndarray         # (K,)
    end: np.ndarray           # (K,)


def check_constraints(constraints: object, num_tags: int) -> Constraints:
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


def usable_tags(constraints: Constraints) -> np.ndarray:
    """(K,) bool: the tags that some allowed path of some length goes through."""
    def closure(seen: np.ndarray, steps: np.ndarray) -> np.ndarray:
        while True:
            grown = seen | (seen @ steps)
            if (grown == seen).all():
                return seen
            seen = grown
    return closure(constraints.start, constraints.transitions) & closure(constraints.end, constraints.transitions.T)
