"""Names for programs that extend ms_crf with model types, networks and heads: `from ms_crf.extend import FeatureKind`.

These names stay the same when their modules move. Names are imported at their first use.
"""

from typing import TYPE_CHECKING

from ms_crf.base.environment import by_name, loader

if TYPE_CHECKING:                # the names of `_MODULES` for editors and type checkers, which do not run `__getattr__`
    from ms_crf.base.environment import prepare
    from ms_crf.crf.tensors import clear_padding
    from ms_crf.models.base import (
        CONFIDENCES,
        EMISSIONS,
        NBEST,
        PATHS,
        Decoder,
        Encoded,
        Kind,
        Learner,
        SentenceError,
        StepLearner,
        Tags,
        register,
    )
    from ms_crf.models.chains import Chain, ChainDecoder
    from ms_crf.models.features import FeatureKind, FeatureNetwork
    from ms_crf.models.inheritance import put_weights, read_base
    from ms_crf.nn.head import Head
    from ms_crf.runs.run import Run

_MODULES = by_name({
    'base.environment': 'prepare', 'crf.tensors': 'clear_padding', 'models.base':
    'CONFIDENCES Decoder EMISSIONS Encoded Kind Learner NBEST PATHS SentenceError StepLearner Tags register',
    'models.chains': 'Chain ChainDecoder', 'models.features': 'FeatureKind FeatureNetwork',
    'models.inheritance': 'put_weights read_base', 'nn.head': 'Head', 'runs.run': 'Run'})
__all__ = ['CONFIDENCES', 'Chain', 'ChainDecoder', 'Decoder', 'EMISSIONS', 'Encoded', 'FeatureKind', 'FeatureNetwork',
           'Head', 'Kind', 'Learner', 'NBEST', 'PATHS', 'Run', 'SentenceError', 'StepLearner', 'Tags',
           'clear_padding', 'prepare', 'put_weights', 'read_base', 'register']
__getattr__ = loader(__name__, globals(), _MODULES)
