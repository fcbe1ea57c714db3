"""Second derivatives of normaliser and loss, for graphs and calls that differentiate a gradient.

Shapes: L length, B batch, K tags; packed gradients are (2 + L + K, B, K), see `packing`.
"""

import sys
from types import FunctionType, ModuleType

from ms_crf.crf import packing
from ms_crf.crf.mindspore_fixes import InFloat32

from mindspore import nn, ops

_zeros, _differentiate = ops.ZerosLike(), ops.GradOperation(get_all=True)   # a cell with the second cannot be copied
_copies: dict[str, ModuleType] = {}                            # by the name of the module that was copied


def copied(module: ModuleType) -> ModuleType:
    """A copy of one of our modules, and of those it uses, with functions of its own.

    MindSpore 2.10 compiles `bprop` late, and by then it has emptied the functions with an `if` of constants that it
    compiled before ("The func graph is empty"): `bprop` must be given others. A name in a function is looked up in
    the imported module that the function says it is from.
    """
    if module.__name__ not in _copies:
        copy = _copies[module.__name__] = ModuleType(f'{module.__name__}_copied')
        sys.modules[copy.__name__] = copy
        for name, value in vars(module).items():
            if name.startswith('__') and name != '__builtins__':
                continue
            if isinstance(value, ModuleType) and value.__name__.startswith('ms_crf.'):
                value = copied(value)
            elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
                value = FunctionType(value.__code__, vars(copy), value.__name__, value.__defaults__)
                value.__module__ = copy.__name__
            elif isinstance(value, FunctionType) and value.__module__.startswith('ms_crf.'):
                value = getattr(copied(sys.modules[value.__module__]), value.__name__)
            setattr(copy, name, value)
    return _copies[module.__name__]


_packing = copied(packing)


class _Pair(InFloat32, nn.Cell):
    """`packing.pair`, of the normaliser unless `with_tags`."""

    def __init__(self, with_tags: bool) -> None:
        super().__init__()
        self.with_tags = with_tags

    def construct(self, emissions, transitions, start, end, factors, tags, lengths):
        lengths, known = ops.stop_gradient(lengths), None
        if self.with_tags:
            known = ops.stop_gradient(tags)
        return _packing.pair(factors, emissions, known, lengths, transitions, start, end)


class WithDerivative(InFloat32, nn.Cell):
    """Packed gradients as they are, with their derivative.

    The derivative is one more pass through the recursions, forth and back. It is compiled and computed only where
    a gradient is differentiated. A third derivative a graph refuses to compile.

    Args:
        with_tags: whether they are of the loss, or of the normaliser, which does not look at tags.
    """

    def __init__(self, with_tags: bool) -> None:
        super().__init__()
        self.pair = _Pair(with_tags)

    def construct(self, emissions, tags, lengths, transitions, start, end, packed):
        return packed

    def bprop(self, emissions, tags, lengths, transitions, start, end, packed, out, dout):
        gradients = _differentiate(self.pair)(emissions, transitions, start, end, dout, tags, lengths)
        # Graphs have no gradients for integers, PyNative mode has: the first ones are meant in both.
        return gradients[0], _zeros(tags), _zeros(lengths), gradients[1], gradients[2], gradients[3], _zeros(packed)
