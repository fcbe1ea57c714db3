"""Constraints of a chain as arrays: the allowed transitions, the allowed first tags and the allowed last tags."""

from typing import NamedTuple

import numpy as np


class Constraints(NamedTuple):
    """Allowed transitions, first tags and last tags of a CRF: bool arrays, True for allowed."""

    transitions: np.ndarray   # (K, K), entry (i, j): whether tag j may follow tag i
    start: np.ndarray         # (K,)
    end: np.ndarray           # (K,)


def check_constraints(constraints: object, num_tags: int) -> Constraints:
    """Constraints as bool arrays of the expected shapes.

    Args:
        constraints: the result of `allowed_transitions`, or three such arrays.
        num_tags: K.

    Raises:
        TypeError: constraints are not three arrays, or not bool.
        ValueError: an array has a wrong shape or allows nothing.
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
            raise ValueError(f'constraints.{name} must allow at least one tag, got False everywhere')
        arrays.append(array)
    return Constraints(*arrays)


def usable_tags(constraints: Constraints) -> np.ndarray:
    """Bool array (K,): True for the tags that occur in some allowed path of some length."""
    def closure(seen: np.ndarray, steps: np.ndarray) -> np.ndarray:
        while True:
            grown = seen | (seen @ steps)
            if (grown == seen).all():
                return seen
            seen = grown
    return closure(constraints.start, constraints.transitions) & closure(constraints.end, constraints.transitions.T)
