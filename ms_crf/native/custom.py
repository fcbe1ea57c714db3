"""Operators of the library as MindSpore's graphs and PyNative mode take them, and when they are used."""

import itertools
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ms_crf.native import library

import mindspore as ms
from mindspore import ops
from mindspore.ops import CustomRegOp, DataType

INTEGERS = [getattr(DataType, f'{name}_Default') for name in ('I8', 'I16', 'I32', 'I64', 'U8', 'U16', 'U32', 'U64')]
FLOATS, INT32, BOOL = [DataType.F32_Default], [DataType.I32_Default], [DataType.BOOL_Default]
_EXPORT = ('mindspore.train.serialization', 'export')          # the function that exports, and its module

_wanted = True


def use(wanted: bool) -> None:
    """Whether what is compiled or computed from now on may take the operators; what is compiled already stays."""
    global _wanted
    _wanted = wanted


def operator(function: str, inputs: Sequence[Sequence[Any]]) -> Any:
    """An operator that gives one flat float32 tensor.

    Args:
        function: its name in the library.
        inputs: of each input the types it may have.
    """
    register = CustomRegOp(function)
    for index in range(len(inputs)):
        register = register.input(index, f'input_{index}')
    register = register.output(0, 'output').target('CPU')
    for types in itertools.product(*inputs):
        register = register.dtype_format(*types, *FLOATS)
    return ops.Custom(f'{library.find().path}:{function}', None, lambda *types: ms.float32, 'aot',
                      reg_info=register.get_op_info())


class Operators(ModuleType):
    """Operators that are made when they are first asked for: before, there may be no library.

    A module, because graphs look up names in modules that are imported.

    Args:
        name: of the module.
        functions: by the names of the operators, the function in the library and the types of its inputs.
    """

    def __init__(self, name: str, functions: dict[str, tuple[str, Sequence[Sequence[Any]]]]) -> None:
        super().__init__(name)
        self._functions = functions
        sys.modules[name] = self

    def __getattr__(self, name: str) -> Any:
        if name not in self._functions:
            raise AttributeError(f'module {self.__name__!r} has no attribute {name!r}')
        setattr(self, name, operator(*self._functions[name]))
        return vars(self)[name]


@ops.constexpr(check=False)
def in_use() -> bool:
    """Whether what is compiled or computed now takes the operators: on CPU, where there is a library. An exported
    graph does not: it is to run where there is none."""
    return (_wanted and ms.get_context('device_target') == 'CPU' and not _exporting()
            and library.find().path is not None)


def _exporting() -> bool:
    """Whether this is called, however far down, by `ms.export`."""
    return any((frame.f_globals.get('__name__'), frame.f_code.co_name) == _EXPORT
               for frame, _ in traceback.walk_stack(sys._getframe(1)))
