"""The operators as MindSpore's graphs and PyNative mode take them, and when they are used.

Each takes emissions, lengths, transitions, start, end, what is allowed, settings, then inputs of its own, as
operators.cpp says, and gives one flat float32 tensor.
"""

import itertools
import sys
from types import FrameType
from typing import Any

from ms_crf.crf.native import library

import mindspore as ms
from mindspore import ops
from mindspore.ops import CustomRegOp, DataType

_EXPORT = ('mindspore.train.serialization', 'export')          # the function that exports, and its module
_INTEGERS = [getattr(DataType, f'{name}_Default') for name in ('I8', 'I16', 'I32', 'I64', 'U8', 'U16', 'U32', 'U64')]
_F32, _I32, _BOOL = DataType.F32_Default, DataType.I32_Default, DataType.BOOL_Default

# The names in the library, and the types of the inputs of their own.
_OPERATORS: dict[str, tuple[str, list[list[Any]]]] = {
    'normalizer': ('ChainNormalizer', []),
    'loss': ('ChainLoss', [_INTEGERS]),
    'gradients': ('ChainGradients', [[_F32], [_F32]]),
    'marginals': ('ChainMarginals', []),
    'path_posteriors': ('ChainPathPosteriors', [_INTEGERS]),
    'decode': ('ChainDecode', []),
    'viterbi': ('ChainViterbi', []),
    'n_best': ('ChainNBest', [[_I32]]),
    'path_gradients': ('ChainPathGradients', [[_F32], [_F32]]),
    'viterbi_gradients': ('ChainViterbiGradients', [[_F32], [_F32]]),
}


_wanted = True


def use(wanted: bool) -> None:
    """Whether what is compiled or computed from now on may take the operators; what is compiled already stays."""
    global _wanted
    _wanted = wanted


def __getattr__(name: str) -> Any:
    """An operator, made when it is first asked for: before, there may be no library."""
    if name not in _OPERATORS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    function, own = _OPERATORS[name]
    register = CustomRegOp(function)
    for index in range(7 + len(own)):
        register = register.input(index, f'input_{index}')
    register = register.output(0, 'output').target('CPU')
    for lengths, *types in itertools.product(_INTEGERS, *own):
        register = register.dtype_format(_F32, lengths, _F32, _F32, _F32, _BOOL, _I32, *types, _F32)
    operator = ops.Custom(f'{library.find().path}:{function}', None, lambda *types: ms.float32, 'aot',
                          reg_info=register.get_op_info())
    globals()[name] = operator
    return operator


@ops.constexpr(check=False)
def in_use() -> bool:
    """Whether what is compiled or computed now takes the operators: on CPU, where there is a library. An exported
    graph does not: it is to run where there is none."""
    return (_wanted and ms.get_context('device_target') == 'CPU' and not _exporting()
            and library.find().path is not None)


def _exporting() -> bool:
    """Whether this is called, however far down, by `ms.export`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get('__name__'), frame.f_code.co_name) == _EXPORT:
            return True
        frame = frame.f_back
    return False
