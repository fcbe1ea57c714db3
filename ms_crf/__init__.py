"""A linear-chain CRF sequence tagger on MindSpore.

Public names are imported at their first use, so that parts without MindSpore start quickly.
"""

from typing import TYPE_CHECKING

from ms_crf.base import environment
from ms_crf.base.environment import by_name, loader

if TYPE_CHECKING:                # the names of `_MODULES` for editors and type checkers, which do not run `__getattr__`
    from ms_crf.crf.layer import CRF
    from ms_crf.crf.post_decode import post_decode
    from ms_crf.crf.tutorial import compute_normalizer, compute_score, sequence_mask, viterbi_decode
    from ms_crf.crf.validation import check_batch
    from ms_crf.models.hmm.hmm import HMM
    from ms_crf.nn.bilstm import BiLSTM_CRF
    from ms_crf.tagging.tagger import Tagger
    from ms_crf.text.schemes import allowed_transitions, span_steps

environment.prepare()
__version__ = environment.VERSION

_MODULES = by_name({
    'crf.layer': 'CRF', 'crf.post_decode': 'post_decode',
    'crf.tutorial': 'compute_normalizer compute_score sequence_mask viterbi_decode', 'crf.validation': 'check_batch',
    'models.hmm.hmm': 'HMM', 'nn.bilstm': 'BiLSTM_CRF', 'tagging.tagger': 'Tagger',
    'text.schemes': 'allowed_transitions span_steps'})
__all__ = ['BiLSTM_CRF', 'CRF', 'HMM', 'Tagger', 'allowed_transitions', 'check_batch', 'compute_normalizer',
           'compute_score', 'post_decode', 'sequence_mask', 'span_steps', 'viterbi_decode']
__getattr__ = loader(__name__, globals(), _MODULES)
