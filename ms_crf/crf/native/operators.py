"""The operators of the chain.

Each takes emissions, lengths, transitions, start, end, what is allowed, settings, then inputs of its own, as
operators.cpp says, and gives one flat float32 tensor.
"""

from ms_crf.native.custom import BOOL, FLOATS, INT32, INTEGERS, on_first_use

_SHARED = [FLOATS, INTEGERS, FLOATS, FLOATS, FLOATS, BOOL, INT32]

__getattr__ = on_first_use(globals(), {
    'normalizer': ('ChainNormalizer', _SHARED),
    'loss': ('ChainLoss', [*_SHARED, INTEGERS]),
    'gradients': ('ChainGradients', [*_SHARED, FLOATS, FLOATS]),
    'marginals': ('ChainMarginals', _SHARED),
    'path_posteriors': ('ChainPathPosteriors', [*_SHARED, INTEGERS]),
    'decode': ('ChainDecode', _SHARED),
    'viterbi': ('ChainViterbi', _SHARED),
    'n_best': ('ChainNBest', [*_SHARED, INT32]),
    'path_gradients': ('ChainPathGradients', [*_SHARED, FLOATS, FLOATS]),
    'viterbi_gradients': ('ChainViterbiGradients', [*_SHARED, FLOATS, FLOATS]),
})
