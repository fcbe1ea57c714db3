"""The operators of the LSTM, each made when it is first asked for: before, there may be no library.

Each takes lengths, weights and biases of both directions, products of the input for both, then inputs of its own, as
lstm.cpp says, and gives one flat float32 tensor.
"""

from typing import Any

from ms_crf.native.custom import FLOATS, INTEGERS, operator

_SHARED = [INTEGERS, FLOATS, FLOATS, FLOATS, FLOATS, FLOATS, FLOATS]
# The names in the library, and the types of the inputs of their own.
_OPERATORS: dict[str, tuple[str, list[list[Any]]]] = {
    'states': ('LstmStates', []),
    'states_and_kept': ('LstmStatesAndKept', []),
    'gradients': ('LstmGradients', [FLOATS, FLOATS]),
}


def __getattr__(name: str) -> Any:
    if name not in _OPERATORS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    function, own = _OPERATORS[name]
    globals()[name] = operator(function, [*_SHARED, *own])
    return globals()[name]
