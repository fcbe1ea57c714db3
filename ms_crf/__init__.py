"""A linear-chain CRF sequence tagger on MindSpore.

The public names are loaded when they are first asked for, so that the parts which need no MindSpore
start without it.
"""

import importlib

from ms_crf import environment

environment.prepare()
__version__ = environment.VERSION

_HOMES = {
    'CRF': 'crf.layer',
    'BiLSTM_CRF': 'nn.bilstm_crf',
    'sequence_mask': 'crf.tutorial',
    'compute_score': 'crf.tutorial',
    'compute_normalizer': 'crf.tutorial',
    'viterbi_decode': 'crf.tutorial',
    'post_decode': 'crf.post_decode',
    'allowed_transitions': 'text.schemes',
    'HMM': 'models.hmm.hmm',
    'Tagger': 'tagger',
    'check_batch': 'crf.validation',
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
