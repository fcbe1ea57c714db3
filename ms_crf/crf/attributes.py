"""Attributes of a cell that are set when it is made and cannot change, and copies of cells."""

import functools
import time
from collections.abc import Callable
from typing import Any

from mindspore import Tensor, nn

_OF_EVERY_CELL = frozenset(vars(nn.Cell()))        # such as `training`, which may change
# What a cell remembers of the graphs that were compiled of it, as it is before there are any.
_WITHOUT_GRAPHS = {'_compile_cache': None, '_phase_cache': None, '_compiled': False, '_in_a_graph': False}


def _fixing(init: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of a class, after which the attributes are fixed if the object is of this very class."""
    @functools.wraps(init)
    def run(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        if type(self).__init__ is run:
            properties = {name for owner in type(self).__mro__ if not issubclass(nn.Cell, owner)
                          for name, value in vars(owner).items() if isinstance(value, property) and value.fset is None}
            names = {*vars(self), *self._params, *self._cells, *properties} - _OF_EVERY_CELL
            self.__dict__['_fixed'] = frozenset(name for name in names if not name.startswith('_'))
            self.__dict__['_fixed_in'] = type(self)
    return run


class FixedAttributes:                             # no base class: mixed precision reads the source of all bases
    """A cell whose public attributes cannot change after its construction: graphs that are compiled, and cells within,
    would not see the change.

    A parameter may be replaced by another one of the same shape, as for weights that two cells share, until a graph
    with the cell has been compiled.

    Copies by `copy.deepcopy` and `pickle` have parameters of their own, and none of the graphs.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if '__init__' in vars(cls):
            setattr(cls, '__init__', _fixing(cls.__init__))  # noqa: B010 - mypy takes it for a method

    def _is_fixed(self, name: str) -> bool:
        # For mixed precision MindSpore writes classes of its own, whose cells begin with the attributes of ours.
        return self.__dict__.get('_fixed_in') is type(self) and name in self.__dict__['_fixed']

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_fixed(name):
            self._check_change(name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_fixed(name):
            raise AttributeError(f'{type(self).__name__}.{name} cannot be deleted')
        super().__delattr__(name)

    def _check_change(self, name: str, value: Any) -> None:
        owner, parameter = type(self).__name__, self.__dict__['_params'].get(name)
        if parameter is None:
            raise AttributeError(f'{owner}.{name} cannot change after construction; make a new {owner}')
        if self.__dict__.get('_in_a_graph'):
            raise AttributeError(f'{owner}.{name} cannot be replaced after a graph was compiled, which would keep the '
                                 f'old parameter; change its values with ops.assign(layer.{name}, values)')
        if not isinstance(value, Tensor):
            raise TypeError(f'{owner}.{name} must be a Parameter or a Tensor, got {type(value).__name__}')
        if value.shape != parameter.shape or 'Float' not in str(value.dtype):
            raise ValueError(f'{owner}.{name} must be floats of shape {parameter.shape}, got {value.dtype} of shape '
                             f'{value.shape}')

    def __getstate__(self) -> Any:
        base, attributes = super().__getstate__()    # type: ignore[misc]
        return base, {**attributes, **_WITHOUT_GRAPHS}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)                  # type: ignore[misc]
        # With this number and the address MindSpore finds graphs again: a copy may get the address of an earlier one.
        self.__dict__['_create_time'] = time.time_ns()
