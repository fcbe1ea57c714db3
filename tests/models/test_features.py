"""The features of a custom model type: `count` integers for each token."""

from ms_crf.base.errors import OptionError
from ms_crf.models.features import FeatureKind

import numpy as np
import pytest

TOKENS = ['New', 'York']


def kind(count, features):
    return type('Own', (FeatureKind,), {'name': 'own', 'count': count,
                                        'features': classmethod(lambda cls, tokens, known: features)})


@pytest.mark.parametrize('count,features,rows', [
    (2, [(3, 0), (4, 1)], [[3, 0], [4, 1]]),
    (2, [[3, True], [4, False]], [[3, 1], [4, 0]]),
    (2, np.array([[3, 0], [4, 1]], np.int64), [[3, 0], [4, 1]]),
    (1, [3, 4], [[3], [4]]),
    (1, [(3,), (4,)], [[3], [4]]),
    (1, [True, False], [[1], [0]])])
def test_features_whole_numbers_are_features(count, features, rows):
    encoded = kind(count, features).encode([TOKENS], None)
    assert encoded.features[0].dtype == np.int32 and encoded.features[0].tolist() == rows
    assert encoded.lengths.tolist() == [2]


@pytest.mark.parametrize('count,features,expected', [
    (2, [(3, 0), (4, 1, 5)], "2 integers of 32 bits for each token, got (4, 1, 5) for 'York' at position 1"),
    (2, [3, 4], "2 integers of 32 bits for each token, got 3 for 'New' at position 0"),
    (2, [3, 4, 5, 6], 'an entry for each of the 2 tokens of a sentence, got 4'),
    (2, [(3, 0)], 'an entry for each of the 2 tokens of a sentence, got 1'),
    (2, [(3, 0), (4, 0.5)], "2 integers of 32 bits for each token, got (4, 0.5) for 'York' at position 1"),
    (2, [(3, 'x'), (4, 1)], "2 integers of 32 bits for each token, got (3, 'x') for 'New' at position 0"),
    (1, [3, None], "1 integer of 32 bits for each token, got None for 'York' at position 1"),
    (1, [3, 1 << 31], "1 integer of 32 bits for each token, got 2147483648 for 'York' at position 1"),
    (1, [3, 1 << 80], "1 integer of 32 bits for each token, got 1208925819614629174706176 for 'York' at position"),
    (1, [3, np.nan], "1 integer of 32 bits for each token, got nan for 'York' at position 1"),
    (1, None, 'a list with an entry for each token, got None'),
    (1, 'ab', "a list with an entry for each token, got 'ab'"),
    (1, iter([3, 4]), 'a list with an entry for each token, got <list_iterator')])
def test_features_others_are_refused_in_one_line_that_names_the_kind_the_token_and_what_came(count, features, expected):
    with pytest.raises(OptionError) as raised:
        kind(count, features).encode([TOKENS], None)
    message = str(raised.value)
    assert message.startswith(f'Own.features of the model type own must return {expected}') and '\n' not in message
