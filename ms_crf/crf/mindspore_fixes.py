"""Workarounds for MindSpore 2.8 to 2.10: base classes that make cells compilable, copyable and safe in mixed precision,
and fix their attributes.

They use names of MindSpore that are not public. A release without one of these names is refused when this is imported.
"""

import functools
import importlib
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import mindspore as ms
from mindspore import Tensor, nn

if TYPE_CHECKING:
    from mindspore.nn import Cell as _Mixin
else:
    _Mixin = object


def private(name: str, purpose: str, *modules: str) -> Any:
    """A name of MindSpore that is not public, from the first of these modules that has it.

    Raises:
        ImportError: none has it; the message says what ms_crf needs it for.
    """
    for module in modules:
        with suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name)
    raise ImportError(f'MindSpore {ms.__version__} has no {name} in {" or ".join(modules)}, which ms_crf needs to '
                      f'{purpose}; install MindSpore 2.8, 2.9 or 2.10')


_KEEP, _REFUSE = 'keep cells in float32', "refuse ms.jit(capture_mode='trace')"
_pynative_executor = private('_pynative_executor', _KEEP, 'mindspore.graph.api', 'mindspore.common.api')
MixedPrecisionType = private('MixedPrecisionType', _KEEP, 'mindspore._c_expression')
AmpDecorator = private('AmpDecorator', _KEEP, 'mindspore.train.amp')
AmpLevel = private('AmpLevel', _KEEP, 'mindspore.train.amp')
create_amp_strategy = private('create_amp_strategy', _KEEP, 'mindspore.train.amp')
_left_alone = private('_subtree_black_list', 'keep classes as they are written', 'mindspore.rewrite.common.namespace')
jit_trace = private('jit_trace', _REFUSE, 'mindspore.graph', 'mindspore.common')
jit_context = private('jit_context', _REFUSE, 'mindspore.graph.jit_context', 'mindspore.common.jit_context')
set_jit_context = private('set_jit_context', _REFUSE, 'mindspore.graph.jit_context', 'mindspore.common.jit_context')

Function = TypeVar('Function', bound=Callable[..., Any])

_NO_CASTS: tuple = (AmpLevel.AmpO0, ms.float16, [], [])
_STRATEGY = create_amp_strategy(*_NO_CASTS)
_NOT_COMPUTING = ('bprop', 'extend_repr')     # a graph reads `bprop` as it is


def in_float32(function: Function) -> Function:
    """The function, in which nothing is cast to 16 bits, whatever mixed precision its surroundings have.

    A graph reads the strategy from the function. PyNative mode has a stack of strategies, and one of types that
    cells were set to, to which operators cast their inputs.
    """
    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        _pynative_executor.set_mixed_precision_type(MixedPrecisionType.FP32)
        try:
            with AmpDecorator(*_NO_CASTS):
                result = function(*arguments, **named)
        except BaseException:
            # MindSpore empties its stack of types when one of its operators fails. To take something from the empty
            # stack would end the process at the next call, so that it is emptied after every exception.
            _pynative_executor.clear_res()
            raise
        _pynative_executor.set_mixed_precision_type(MixedPrecisionType.NOTSET, False)
        return result

    original: Any = function
    wrapped: Any = run
    original.amp_strategy = wrapped.amp_strategy = _STRATEGY
    return wrapped


class InFloat32(_Mixin):
    """A cell that stays in float32 under every kind of mixed precision, which would cast its inputs to 16 bits.

    Sums over paths and the scores of what is forbidden don't fit there. A class with `inside=True` is only called by
    cells of this kind: its methods need nothing in PyNative mode.
    """

    def __init_subclass__(cls, inside: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            if callable(value) and not inside and not name.startswith('_') and name not in _NOT_COMPUTING:
                setattr(cls, name, in_float32(value))

    @property
    def amp_strategy(self) -> Any:
        """What a graph takes for the cell, whatever level its surroundings have."""
        return _STRATEGY

    @amp_strategy.setter
    def amp_strategy(self, strategy: Any) -> None:
        """Level 'auto' of the cell itself changes nothing either."""

    def add_flags(self, **flags: Any) -> Any:
        return super().add_flags(**_in_32_bits(flags))

    def add_flags_recursive(self, **flags: Any) -> Any:
        return super().add_flags_recursive(**_in_32_bits(flags))

    def to_float(self, dst_type: Any) -> Any:
        # A cell of a black list is set to float32, and what comes out of it is cast to 16 bits.
        if dst_type == ms.float32 and _called_by_black_list():
            raise ValueError(f'black_list must not hold {type(self).__name__}, whose results would be cast to 16 bits; '
                             'leave it out: the cell stays in float32 by itself')
        return super().to_float(dst_type)

    def name_cells(self) -> dict:
        # Each of the cells within would be set to 16 bits one by one.
        return {} if _called_by_black_list() else super().name_cells()


def _in_32_bits(flags: dict[str, Any]) -> dict[str, Any]:
    if flags.get('fp16') or flags.get('bf16'):
        return {**flags, 'fp16': False, 'bf16': False, 'fp32': True}
    return flags


def _called_by_black_list() -> bool:
    """Whether what calls us was called by MindSpore's walk through the cells for level O2 and black lists."""
    return sys._getframe(2).f_code.co_name == '_auto_black_list'


# Level O1 and white lists write the classes of all cells anew, which then lack the names of their modules;
# a cell of this list is left as it is.
_left_alone.append(InFloat32)


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


class CompilableMethods(FixedAttributes):
    """A cell whose methods can be compiled by themselves, as in ms.jit(crf.decode).

    MindSpore writes the method's name on the cell when it compiles one, and reads it wherever the cell is
    compiled: after ms.jit(crf.decode) a graph that calls crf(...) would get crf.decode(...). Here the name
    counts only while that method is what is being compiled.
    """

    @property
    def __parse_method__(self) -> str:
        self.__dict__['_in_a_graph'] = True
        for frame, _ in traceback.walk_stack(sys._getframe(1)):
            # The frame of MindSpore's compilation: `obj` is the cell whose method it was asked for.
            compiling: Any = frame.f_locals.get('self') if frame.f_code.co_name == 'compile' else None
            if hasattr(compiling, 'fn') and hasattr(compiling, 'obj'):
                return self._method_to_compile if compiling.obj is self else 'construct'
        return 'construct'

    @__parse_method__.setter
    def __parse_method__(self, name: str) -> None:
        self.__dict__['_method_to_compile'] = name


def check_not_traced() -> None:
    """Raises RuntimeError in a function of `ms.jit(capture_mode='trace')`.

    That mode records which way a condition on values went, and goes it for all other values, silently: what is exact
    only on the other way would come out wrong.
    """
    recording = jit_context()
    if isinstance(recording, jit_trace.TraceJitContext):
        # An exception alone would leave the recording on, and end the process by an abort. So a graph that does
        # nothing is made of it, and forgotten.
        jit_trace._trace_compile_cache.discard(recording.phase)
        jit_trace.tr.get_instance().end_graph([__file__], [1], jit_trace._DEFAULT_JIT_CONFIG, *recording.args[:1])
        set_jit_context(None)
        jit_trace._using_trace = False
        raise RuntimeError("the layer can't be recorded by ms.jit(capture_mode='trace'), which knows no conditions on "
                           "values; leave capture_mode away")
