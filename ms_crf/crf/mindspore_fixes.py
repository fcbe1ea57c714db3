"""Workarounds for MindSpore 2.8 to 2.10: base classes for cells.

The classes make cells compilable and copyable, keep them in float32 under mixed precision, and fix their attributes.
They use private names of MindSpore. The import raises ImportError if MindSpore has no such name.
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
    """A private name of MindSpore, from the first of these modules that has it.

    Args:
        name: the name.
        purpose: why ms_crf needs it, for the message.
        modules: modules of MindSpore.

    Raises:
        ImportError: no module has the name.
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
_rewrite_exclusions = private('_subtree_black_list', 'exclude classes from rewriting',
                              'mindspore.rewrite.common.namespace')
jit_trace = private('jit_trace', _REFUSE, 'mindspore.graph', 'mindspore.common')
jit_context = private('jit_context', _REFUSE, 'mindspore.graph.jit_context', 'mindspore.common.jit_context')
set_jit_context = private('set_jit_context', _REFUSE, 'mindspore.graph.jit_context', 'mindspore.common.jit_context')

Function = TypeVar('Function', bound=Callable[..., Any])

_NO_CASTS: tuple = (AmpLevel.AmpO0, ms.float16, [], [])
_STRATEGY = create_amp_strategy(*_NO_CASTS)
_NOT_COMPUTING = ('bprop', 'extend_repr')     # a graph reads `bprop` without changes


def in_float32(function: Function) -> Function:
    """The function, with all casts to 16 bits disabled, under every level of mixed precision.

    A graph reads the strategy from the function. PyNative mode has a stack of strategies, and a stack of the types to
    which operators cast the inputs of a cell.
    """
    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        _pynative_executor.set_mixed_precision_type(MixedPrecisionType.FP32)
        try:
            with AmpDecorator(*_NO_CASTS):
                result = function(*arguments, **named)
        except BaseException:
            # MindSpore clears its stack of types when one of its operators fails. Removing an entry of the empty stack
            # would end the process at the next call. So we clear the stack after every exception and remove nothing.
            _pynative_executor.clear_res()
            raise
        _pynative_executor.set_mixed_precision_type(MixedPrecisionType.NOTSET, False)
        return result

    original: Any = function
    wrapped: Any = run
    original.amp_strategy = wrapped.amp_strategy = _STRATEGY
    return wrapped


class InFloat32(_Mixin):
    """Base class of cells that stay in float32 under every level of mixed precision.

    Mixed precision would cast their inputs to 16 bits, whose range is too small for sums over paths and for the scores
    of forbidden tags. A class with `inside=True` is called only by other cells of this kind, and its methods need no
    wrapper in PyNative mode.
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
        """The strategy that a graph uses for the cell, under every level of mixed precision."""

    def add_flags(self, **flags: Any) -> Any:
        return super().add_flags(**_in_32_bits(flags))

    def add_flags_recursive(self, **flags: Any) -> Any:
        return super().add_flags_recursive(**_in_32_bits(flags))

    def to_float(self, dst_type: Any) -> Any:
        # MindSpore sets a cell of a black list to float32 and casts its results to 16 bits.
        if dst_type == ms.float32 and _called_by_black_list():
            raise ValueError(f'black_list must not contain {type(self).__name__}: MindSpore would cast its results to '
                             '16 bits; omit the cell, which always stays in float32')
        return super().to_float(dst_type)

    def name_cells(self) -> dict:
        """No cells for a black list, which would set each inner cell to 16 bits; otherwise as in MindSpore."""
        return {} if _called_by_black_list() else super().name_cells()


def _in_32_bits(flags: dict[str, Any]) -> dict[str, Any]:
    """Flags of a cell with float32 instead of 16 bits."""
    if flags.get('fp16') or flags.get('bf16'):
        return {**flags, 'fp16': False, 'bf16': False, 'fp32': True}
    return flags


def _called_by_black_list() -> bool:
    """Whether the caller was called by the MindSpore function that walks the cells for O2 and black lists."""
    return sys._getframe(2).f_code.co_name == '_auto_black_list'


# Level O1 and white lists rewrite the classes of all cells, and the new classes lack the names of their modules.
# MindSpore does not rewrite the classes in this list.
_rewrite_exclusions.append(InFloat32)


_CELL_ATTRIBUTES = frozenset(vars(nn.Cell()))      # for example `training`, which may change
# Attributes in which a cell stores its compiled graphs, with their values before the first compilation.
_NO_GRAPHS = {'_compile_cache': None, '_phase_cache': None, '_compiled': False, '_in_a_graph': False}


def _fixing(init: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of a class, which fixes the attributes afterwards if the object has exactly this class."""
    @functools.wraps(init)
    def run(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        if type(self).__init__ is run:
            properties = {name for owner in type(self).__mro__ if not issubclass(nn.Cell, owner)
                          for name, value in vars(owner).items() if isinstance(value, property) and value.fset is None}
            names = {*vars(self), *self._params, *self._cells, *properties} - _CELL_ATTRIBUTES
            self.__dict__['_fixed'] = frozenset(name for name in names if not name.startswith('_'))
            self.__dict__['_fixed_in'] = type(self)
    return run


class FixedAttributes:                             # without base class: mixed precision reads the source of all bases
    """Base class of cells whose public attributes cannot change after construction.

    Compiled graphs and inner cells would not see such a change. A parameter may be replaced with another parameter of
    the same shape, for example to share weights, until a graph with the cell is compiled.

    Copies by `copy.deepcopy` and `pickle` have separate parameters and no compiled graphs.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if '__init__' in vars(cls):
            setattr(cls, '__init__', _fixing(cls.__init__))  # noqa: B010 - mypy takes it for a method

    def _is_fixed(self, name: str) -> bool:
        # For mixed precision MindSpore makes new classes, whose cells start with the attributes of our cells.
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
        return base, {**attributes, **_NO_GRAPHS}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)                  # type: ignore[misc]
        # MindSpore identifies compiled graphs by this number and the address, and a copy may get the address of an
        # earlier cell.
        self.__dict__['_create_time'] = time.time_ns()


class CompilableMethods(FixedAttributes):
    """Base class of cells whose methods can be compiled separately, as in ms.jit(crf.decode).

    When MindSpore compiles a method, it writes the name of the method to the cell, and reads the name wherever the cell
    is compiled. So after ms.jit(crf.decode) a graph that calls crf(...) would call crf.decode(...). Here the name has
    an effect only while this method is being compiled.
    """

    @property
    def __parse_method__(self) -> str:
        self.__dict__['_in_a_graph'] = True
        for frame, _ in traceback.walk_stack(sys._getframe(1)):
            # The frame in which MindSpore compiles: `obj` is the cell whose method it compiles.
            compiling: Any = frame.f_locals.get('self') if frame.f_code.co_name == 'compile' else None
            if hasattr(compiling, 'fn') and hasattr(compiling, 'obj'):
                return self._method_to_compile if compiling.obj is self else 'construct'
        return 'construct'

    @__parse_method__.setter
    def __parse_method__(self, name: str) -> None:
        self.__dict__['_method_to_compile'] = name


def check_not_traced() -> None:
    """Raises RuntimeError in a function of `ms.jit(capture_mode='trace')`.

    A trace records the branch that the first call took, and takes it in all later calls without a warning. The results
    of other branches would be wrong.
    """
    recording = jit_context()
    if isinstance(recording, jit_trace.TraceJitContext):
        # An exception alone would leave the trace active, and abort the process. So we end the trace with a graph that
        # does nothing, and discard the graph.
        jit_trace._trace_compile_cache.discard(recording.phase)
        jit_trace.tr.get_instance().end_graph([__file__], [1], jit_trace._DEFAULT_JIT_CONFIG, *recording.args[:1])
        set_jit_context(None)
        jit_trace._using_trace = False
        raise RuntimeError("the layer does not support ms.jit(capture_mode='trace'), which records only one branch of "
                           "each condition; omit capture_mode")
