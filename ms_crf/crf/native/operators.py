"""The operators of the chain, each made when it is first asked for: before, there may be no library.

Each takes emissions, lengths, transitions, start, end, what is allowed, settings, then inputs of its own, as
operators.cpp says, and gives one flat float32 tensor.
"""

from typing import Any

from ms_crf.native.custom import BOOL, FLOATS, INT32, INTEGERS, operator

_SHARED = [FLOATS, INTEGERS, FLOATS, FLOATS, FLOATS, BOOL, INT32]
# The names in the library, and the types of the inputs of their own.
_OPERATORS: dict[str, tuple[str, list[list[Any]]]] = {
    'normalizer': ('ChainNormalizer', []),
    'loss': ('ChainLoss', [INTEGERS]),
    'gradients': ('ChainGradients', [FLOATS, FLOATS]),
    'marginals': ('ChainMarginals', []),
    'path_posteriors': ('ChainPathPosteriors', [INTEGERS]),
    'decode': ('ChainDecode', []),
    'viterbi': ('ChainViterbi', []),
    'n_best': ('ChainNBest', [INT32]),
    'path_gradients': ('ChainPathGradients', [FLOATS, FLOATS]),
    'viterbi_gradients': ('ChainViterbiGradients', [FLOATS, FLOATS]),
}


def __getattr__(name: str) -> Any:
    if name not in _OPERATORS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    function, own = _OPERATORS[name]
    globals()[name] = operator(function, [*_SHARED, *own])
    return globals()[name]
