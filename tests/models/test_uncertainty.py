"""The uncertainty of a model about a sentence, compared with enumeration of all paths."""

import math

from ms_crf.models.chains import gives_entropy, of_confidence, token_entropies

import numpy as np
import pytest

from support.scored_chain import TAGS, Given


@pytest.mark.parametrize('allowed', ['BIO', None])
def test_uncertainty_entropies_of_the_posteriors_of_tokens(allowed):
    model = Given(3) if allowed else Given(3, None)
    rng = np.random.default_rng(5)
    sentences = [[str(token) for token in rng.integers(0, 30, length)] for length in (4, 1, 5, 2, 3)]
    assert gives_entropy(model)
    for tokens, found in zip(sentences, token_entropies(model, sentences), strict=True):
        row = model.row(tokens, 1)
        weights = np.exp(row.scores - row.log_normalizer())
        entropies = []
        for position in range(len(tokens)):
            posterior = [sum(weight for path, weight in zip(row.paths, weights) if path[position] == tag)
                         for tag in range(3)]
            entropies.append(-sum(share * math.log(share) for share in posterior if share > 0))
        assert found.entropy == pytest.approx(sum(entropies) / len(tokens), rel=1e-9)
        assert found.confidence == pytest.approx(weights.max(), rel=1e-9)
        assert found.tags == [TAGS[tag] for tag in row.best()]


def test_uncertainty_measures_of_a_posterior():
    assert of_confidence(0.25, 2, 'least-confidence') == 0.75
    assert of_confidence(0.25, 2, 'mnlp') == pytest.approx(math.log(2))
    assert of_confidence(0.0, 3, 'mnlp') > 200                   # the probability of a long sentence can underflow to 0
