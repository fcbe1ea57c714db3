"""Temperatures, compared with enumeration of all paths with scores divided by the temperature."""

import math

from ms_crf import Tagger
from ms_crf.formats.registry import read_corpus
from ms_crf.models.chains import ChainDecoder, TemperedDecoder, fit_temperature

import numpy as np
import pytest

from support.scored_chain import ALLOWED, TAGS, Given


@pytest.fixture
def sentences():
    rng = np.random.default_rng(7)
    return [[str(token) for token in rng.integers(0, 30, length)] for length in (4, 1, 5, 2, 3, 3, 5, 4)]


@pytest.mark.parametrize('allowed', [ALLOWED, None])
@pytest.mark.parametrize('temperature', [0.4, 1.0, 3.0])
def test_temperature_confidences_are_posteriors_of_scores_that_are_divided(sentences, temperature, allowed):
    given = Given(1, allowed)
    assert isinstance(given, ChainDecoder)
    tagged = Tagger(TemperedDecoder(given, temperature), 'BIO', 'BIO').tag(sentences)
    for tokens, found in zip(sentences, tagged):
        row = given.row(tokens, temperature)
        best = row.best()
        assert found.tags == [TAGS[tag] for tag in best]
        assert found.confidences == pytest.approx(row.marginals()[np.arange(len(tokens)), best])
        assert found.confidence == pytest.approx(np.exp(row.scores.max() - row.log_normalizer()))


def test_temperature_the_gold_tags_are_likeliest_at_the_temperature_that_is_found(sentences):
    given, rng = Given(2), np.random.default_rng(3)
    # Draw gold tags from a less confident model: the same model at temperature 2.
    gold = []
    for tokens in sentences * 8:
        row = given.row(tokens, 2.0)
        weights = np.exp(row.scores - row.log_normalizer())
        gold.append(row.paths[rng.choice(len(row.paths), p=weights / weights.sum())])
    fit = fit_temperature(given, sentences * 8, [[TAGS[tag] for tag in path] for path in gold])

    def loss(temperature):
        rows = [given.row(tokens, temperature) for tokens in sentences]
        return sum(rows[index % 8].loss(path) for index, path in enumerate(gold)) / sum(map(len, gold))

    assert 1.2 < fit.temperature < 3.5 and (fit.sentences, fit.left_out) == (64, 0)
    assert (fit.before, fit.after) == (pytest.approx(loss(1.0)), pytest.approx(loss(fit.temperature)))
    assert all(fit.after < loss(fit.temperature * factor) for factor in (0.5, 0.9, 0.98, 1.02, 1.1, 2))


def test_temperature_sentences_whose_tags_can_not_be_are_left_out_and_counted(sentences):
    given = Given(2)
    tags = [['O'] * len(tokens) for tokens in sentences]
    tags[0], tags[2] = ['I-X'] * 4, ['B-Y', 'O', 'O', 'O', 'O']
    fit = fit_temperature(given, [*sentences, []], [*tags, []])
    without = fit_temperature(given, [sentences[1], *sentences[3:]], [tags[1], *tags[3:]])
    assert (fit.sentences, fit.left_out) == (6, 2) and fit[:3] == pytest.approx(without[:3])
    assert fit_temperature(given, sentences[:1], tags[:1]) is None


def test_temperature_what_is_no_chain_has_no_temperature(sentences):
    given = Given(2)
    given.chain = lambda: None
    assert fit_temperature(given, sentences, [['O'] * len(tokens) for tokens in sentences]) is None
    with pytest.raises(ValueError, match='must be of a model that is a chain'):
        TemperedDecoder(given, 1.0)
    for temperature in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match='temperature must be above 0'):
            TemperedDecoder(Given(2), temperature)


def check_beside_the_model(run, corpora):
    tagger = Tagger.load(run)
    sentences = read_corpus(corpora / 'test.tsv')
    tokens = [*(sentence.tokens for sentence in sentences), ['of']]
    for found, expected in zip(Tagger(TemperedDecoder(tagger.decoder, 1.0), 'BIO', 'BIO').tag(tokens),
                               tagger.tag(tokens)):
        assert found.tags == expected.tags
        assert found.confidences == pytest.approx(expected.confidences, abs=1e-5)
        assert [span.confidence for span in found.spans] == pytest.approx(
            [span.confidence for span in expected.spans], abs=1e-5)
    fit = fit_temperature(tagger.decoder, tokens[:-1], [sentence.tags for sentence in sentences])
    assert fit.after <= fit.before and fit.sentences == len(sentences)


def test_temperature_a_hidden_markov_model_at_temperature_1_is_itself(hmm, corpora):
    check_beside_the_model(hmm, corpora)


@pytest.mark.slow
def test_temperature_a_network_at_temperature_1_is_itself(undisturbed, corpora):
    check_beside_the_model(undisturbed[0], corpora)


def test_temperature_confidences_of_a_hidden_markov_model_do_not_depend_on_its_batch(hmm):
    """Confidences of spans are the same in a batch and alone.

    A span at the end of a short sentence must not continue into the padding of the batch.
    """
    tagger = Tagger.load(hmm)
    sentences = [['of', 'Xan', 'Yel', 'to', 'Xor', 'Yan'], ['to', 'Xel', 'Yan'], ['Xan'], ['of', 'Xor']]
    for tokens, found in zip(sentences, tagger.tag(sentences)):
        [alone] = tagger.tag([tokens])
        assert found.spans and [span[:3] for span in found.spans] == [span[:3] for span in alone.spans]
        assert [span.confidence for span in found.spans] == pytest.approx([span.confidence for span in alone.spans])
