"""The C++ operators as MindSpore operators for graphs and PyNative mode, and the decision when to use them."""

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
_EXPORT = ('mindspore.train.serialization', 'export')          # module and name of the export function

_enabled = True


def use(enabled: bool) -> None:
    """Enables or disables the C++ operators for later compilations and computations.

    Graphs that are compiled already do not change.
    """
    global _enabled
    _enabled = enabled


def operator(function: str, inputs: Sequence[Sequence[Any]]) -> Any:
    """A MindSpore operator that returns one flat float32 tensor.

    Args:
        function: name of the function in the library.
        inputs: for each input, the types that it may have.
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
    """A module of operators, which are created at their first use, because the library may be missing before.

    It is a module because graphs look up names in imported modules.

    Args:
        name: name of the module.
        functions: for each operator name, the name of the function in the library and the types of its inputs.
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
    """Whether the C++ operators are used for the current compilation or computation.

    They are used on CPU if there is a library. Exported graphs do not use them, because they must run without the
    library.
    """
    return (_enabled and ms.get_context('device_target') == 'CPU' and not _exporting()
            and library.find().path is not None)


def _exporting() -> bool:
    """Whether `ms.export` is among the callers."""
    return any((frame.f_globals.get('__name__'), frame.f_code.co_name) == _EXPORT
               for frame, _ in traceback.walk_stack(sys._getframe(1)))
