"""Copies of modules for what is compiled inside a `bprop`, and the checks of what MindSpore has to do with them."""

import sys
from types import FunctionType, ModuleType

import mindspore as ms
from mindspore import ops

IS_COPY = False                                                # True in the copies of modules that import the name
_copies: dict[str, ModuleType] = {}                            # by the name of the module that was copied


def copied(module: ModuleType) -> ModuleType:
    """Returns a copy of a module of this package, and of the modules it uses, with functions of its own.

    MindSpore 2.10 compiles `bprop` late, and by then it has emptied the functions with an `if` of constants that it
    compiled before ("The func graph is empty"). So `bprop` needs other functions. MindSpore looks up a name in a
    function in the imported module that the function names as its own.
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
            setattr(copy, name, True if name == 'IS_COPY' else value)
    return _copies[module.__name__]


def _check(holds: bool, assumption: str) -> None:
    if not holds:
        raise RuntimeError(f'second derivatives of the chain need a MindSpore that {assumption}; MindSpore '
                           f'{ms.__version__} does not. Losses, first derivatives and decoding do not need this')


@ops.constexpr(check=False)
def check_is_copy(is_copy: bool) -> None:
    """Raises RuntimeError if names in a copied function mean objects of the original module."""
    _check(is_copy, 'looks up names in a function in the module that function.__module__ names')


@ops.constexpr(check=False)
def check_gradients(gradients: tuple, inputs: tuple) -> None:
    """Raises RuntimeError unless the first gradients are the gradients by the inputs in order; both are shapes."""
    def fits(shape: tuple, other: tuple) -> bool:
        return len(shape) == len(other) and all({None, -1} & {one, two} or one == two for one, two in zip(shape, other))
    _check(len(gradients) >= len(inputs) and all(map(fits, gradients, inputs)),
           'gives the gradients by all inputs in the order of the inputs, from GradOperation(get_all=True)')
