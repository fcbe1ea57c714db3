"""A linear-chain CRF sequence tagger on MindSpore.

The public names are loaded when they are first asked for, so that the parts which need no MindSpore
start without it.
"""

import importlib

from ms_crf import environment

environment.prepare()
__version__ = environment.VERSION

_HOMES = {
    'CRF': 'crf',
    'BiLSTM_CRF': 'tagger_model',
    'sequence_mask': 'functional',
    'compute_score': 'functional',
    'compute_normalizer': 'functional',
    'viterbi_decode': 'functional',
    'post_decode': 'backtrace',
    'allowed_transitions': 'constraints',
    'HMM': 'hmm',
    'Tagger': 'tagger',
    'check_batch': 'checks',
}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
