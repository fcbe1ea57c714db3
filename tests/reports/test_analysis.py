"""The numbers of a report, compared with manually counted values and with NumPy."""

from ms_crf.reports import analysis
from ms_crf.reports.analysis import (
    OTHERS,
    Confidences,
    boundary_error,
    confusion,
    mistakes,
    most_confused,
    of_entities,
    of_tokens,
    paired,
    reliability,
)
from ms_crf.reports.evaluation import Evaluation
from ms_crf.text.schemes import OPEN, spans_of
from ms_crf.text.sentence import Sentence

import numpy as np
import pytest


def evaluation(*rows, scheme='BIO'):
    """An `Evaluation` of rows (tokens, gold, predicted, confidences); the first three are texts, the last is a list.

    The confidence of a span is the confidence of its first token.
    """
    tokens, gold, predicted = ([row[part].split() for row in rows] for part in range(3))
    tagged = []
    for one, tags, row in zip(tokens, predicted, rows):
        confidences = row[3] if len(row) > 3 else None
        spans = [] if scheme == 'plain' else [
            (*span, None if confidences is None else confidences[span[1]]) for span in spans_of(tags)]
        tagged.append(Sentence(one, tags, spans, confidences))
    return Evaluation(tokens, gold, predicted, scheme, tagged)


# Confusion matrix

def test_analysis_each_gold_span_stands_beside_the_one_it_shares_most_with():
    gold = [('X', 0, 2), ('Y', 4, 4), ('X', 6, 7)]
    predicted = [('X', 0, 0), ('Y', 1, 2), ('Z', 4, 5), ('X', 9, 9)]
    assert paired(gold, predicted) == [
        (('X', 0, 2), ('Y', 1, 2)), (('Y', 4, 4), ('Z', 4, 5)), (('X', 6, 7), None),
        (None, ('X', 0, 0)), (None, ('X', 9, 9))]


def test_analysis_of_spans_that_share_as_much_the_closest_is_taken():
    assert paired([('X', 2, 3)], [('X', 0, 2), ('Y', 3, 3)]) == [(('X', 2, 3), ('Y', 3, 3)), (None, ('X', 0, 2))]
    assert paired([('X', 1, 2)], [('Y', 1, 1), ('X', 2, 2)]) == [(('X', 1, 2), ('X', 2, 2)), (None, ('Y', 1, 1))]
    assert paired([], []) == []


@pytest.mark.parametrize('predicted,expected', [
    ((2, 4), 'the same'), ((1, 4), 'longer'), ((2, 6), 'longer'), ((0, 9), 'longer'), ((3, 4), 'shorter'),
    ((2, 2), 'shorter'), ((3, 3), 'shorter'), ((1, 3), 'crossing'), ((4, 5), 'crossing')])
def test_analysis_how_borders_lie(predicted, expected):
    assert boundary_error(('X', 2, 4), ('Y', *predicted)) == expected


def test_analysis_types_and_borders_are_counted():
    found = confusion(evaluation(('a b c d', 'B-X I-X O B-Y', 'B-X O O B-X'), ('a b', 'O B-Y', 'B-X B-Y'),
                                 ('a', 'B-X', 'O')))
    assert found.labels == ['X', 'Y'] and found.others == 0
    assert found.counts == {('X', 'X'): 1, ('Y', 'X'): 1, (None, 'X'): 1, ('Y', 'Y'): 1, ('X', None): 1}
    assert found.boundaries == {('shorter', True): 1, ('the same', False): 1, ('the same', True): 1}
    assert most_confused(found.counts, 2) == [(None, 'X', 1), ('X', None, 1)]


def test_analysis_plain_tags_are_counted_and_the_rare_ones_together():
    rows = [('a b c', 'N V N', 'N N V'), ('a', 'V', 'V')]
    found = confusion(evaluation(*rows, scheme='plain'))
    assert found.counts == {('N', 'N'): 1, ('V', 'N'): 1, ('N', 'V'): 1, ('V', 'V'): 1} and not found.boundaries
    many = ' '.join(f'T{number:02}' for number in range(25))
    again = ' '.join(['T00'] * 24 + ['T24'])
    found = confusion(evaluation((many, many, many), (many, many, again), scheme='plain'))
    assert len(found.labels) == 20 and found.others == 5 and 'T00' in found.labels
    assert sum(found.counts.values()) == 50 and found.counts[OTHERS, OTHERS] > 0


# Confidences

def test_analysis_expected_calibration_error_of_a_worked_example():
    """The expected calibration error equals manually computed values, with two bins and with the default bins.

    Of the confidences 0.55 and 0.65 one is correct; the three tokens with 0.95 are all correct.
    """
    found = reliability(Confidences(np.array([0.55, 0.65, 0.95, 0.95, 0.95]), np.array([1, 0, 1, 1, 1], bool)), bins=2)
    assert found.ece == pytest.approx(abs((0.55 + 0.65 + 3 * 0.95) / 5 - 4 / 5))
    found = reliability(Confidences(np.array([0.55, 0.65, 0.95, 0.95, 0.95]), np.array([1, 0, 1, 1, 1], bool)))
    assert found.ece == pytest.approx((0.45 + 0.65 + 3 * 0.05) / 5)
    assert (found.number, found.accuracy) == (5, 0.8) and found.confidence == pytest.approx(0.81)
    assert [(one.number, one.accuracy) for one in found.bins if one.number] == [(1, 1.0), (1, 0.0), (3, 1.0)]


def test_analysis_calibration_beside_numpy():
    rng = np.random.default_rng(4)
    confidences = np.concatenate((rng.random(500), [0.0, 0.1, 0.5, 1.0]))
    right = rng.random(504) < confidences ** 2
    found = reliability(Confidences(confidences, right))
    edges = np.linspace(0, 1, 11)
    expected = 0.0
    for place, one in enumerate(found.bins):
        inside = (confidences > edges[place]) & (confidences <= edges[place + 1]) | ((place == 0) & (confidences == 0))
        assert one.number == inside.sum()
        assert one.confidence == pytest.approx(confidences[inside].mean())
        assert one.accuracy == pytest.approx(right[inside].mean())
        expected += inside.sum() / 504 * abs(confidences[inside].mean() - right[inside].mean())
    assert found.ece == pytest.approx(expected)
    assert reliability(Confidences(np.array([]), np.array([], bool))) is None


def test_analysis_what_is_right_of_tokens_and_of_entities():
    given = evaluation(('a b c d', 'B-X I-X O B-Y', 'B-X O O B-Y', [0.9, 0.4, 0.8, 0.7]), ('a', 'O', 'B-X', [0.6]))
    tokens, entities = of_tokens(given), of_entities(given)
    assert tokens.confidences.tolist() == [0.9, 0.4, 0.8, 0.7, 0.6]
    assert tokens.correct.tolist() == [True, False, True, True, False]
    assert (entities.confidences.tolist(), entities.correct.tolist()) == ([0.9, 0.7, 0.6], [False, True, False])


# Parts of the entities

def scores(parts):
    return {part.name: tuple(part.spans) for part in parts if any(part.spans)}


SENTENCES = (('Ann Lee met Bo', 'B-P I-P O B-P', 'B-P I-P O O'), ('Bo in Rome', 'B-P O B-L', 'B-L O B-L'),
             ('a b c d e Rome', 'O O O O O B-L', 'O O O O B-L B-L'))


def test_analysis_scores_by_length():
    given = evaluation(*SENTENCES)
    assert scores(analysis.by_sentence_length(given)) == {'1 to 5': (2, 3, 4), '6 to 10': (1, 2, 1)}
    assert scores(analysis.by_entity_length(given)) == {'1': (2, 4, 4), '2': (1, 1, 1)}
    assert [part.name for part in analysis.by_entity_length(given)] == ['1', '2', '3', '4', '5 or more']
    assert [part.sentences for part in analysis.by_sentence_length(given)] == [2, 1, 0, 0, 0]
    assert analysis.by_entity_length(given)[2].interval is None


def test_analysis_scores_by_what_training_has_shown():
    training = [Sentence(['Bo', 'and', 'Rome'], ['B-P', 'O', 'B-P'], line=1), Sentence(['Rome'], ['B-L'], line=5),
                Sentence(['Ann'], ['B-P'], line=7)]
    assert scores(analysis.by_training(evaluation(*SENTENCES), training)) == {
        'seen with this type': (2, 2, 4),        # two of Bo and two of Rome
        'seen with other types only': (0, 1, 0),     # the predicted Bo of type L
        'not seen': (1, 2, 1)}                   # Ann Lee, and the predicted e
    assert scores(analysis.by_vocabulary(evaluation(*SENTENCES), {'Ann', 'Bo', 'Rome'}.__contains__)) == {
        'all tokens known': (2, 3, 4), 'a token is unknown': (1, 2, 1)}


def test_analysis_parts_of_plain_tags_are_tokens():
    given = evaluation(('a b', 'N V', 'N N'), scheme='plain')
    training = [Sentence(['a', 'b'], ['N', 'N'], line=1)]
    assert scores(analysis.by_training(given, training)) == {
        'seen with this type': (1, 2, 1), 'seen with other types only': (0, 0, 1)}


# Errors

def test_analysis_the_surest_error_comes_first():
    given = evaluation(('a b', 'B-X O', 'O O', [0.6, 0.99]), ('a', 'O', 'O', [0.3]),
                       ('a b', 'O B-Y', 'B-X B-Y', [0.8, 0.7]), ('a b c', 'B-X I-X O', 'O O B-Y', [0.9, 0.5, 0.2]))
    found, number = mistakes(given, 2)
    assert number == 3 and [(one.sentence_index, one.confidence) for one in found] == [(2, 0.8), (0, 0.6)]
    assert [one.sentence_index for one in mistakes(given, 10)[0]] == [2, 0, 3]
    assert mistakes(given, 10)[0][2].confidence == 0.5           # the least confident tag of the missed entity
    gold, predicted = found[0].gold, found[0].predicted
    assert [(piece.text, piece.type, piece.wrong) for piece in gold] == [('a', None, False), ('b', 'Y', False)]
    assert [tuple(piece) for piece in predicted] == [('a', 'X', True, 0.8), ('b', 'Y', False, 0.7)]


def test_analysis_errors_without_confidences_keep_their_order_and_characters_stand_close():
    given = evaluation(('a b c', 'O O O', 'B-X I-X O'), ('a', 'O', 'O'), ('a b', 'B-X O', 'O O'))
    found, number = mistakes(given, 5, '')
    assert number == 2 and [(one.sentence_index, one.confidence) for one in found] == [(0, None), (2, None)]
    assert [piece.text for piece in found[0].gold] == ['abc'] and [piece.text for piece in found[0].predicted] == [
        'ab', 'c']


def test_analysis_of_plain_tags_only_the_wrong_ones_are_marked():
    given = evaluation(('a b c', 'N V N', 'N N N', [0.9, 0.6, 0.9]), scheme='plain')
    [one], _ = mistakes(given, 5)
    assert one.confidence == 0.6
    assert [tuple(piece) for piece in one.predicted] == [('a', None, False, None), ('b', 'N', True, 0.6),
                                                         ('c', None, False, None)]
    assert [piece.type for piece in one.gold] == [None, 'V', None]


# Partially annotated text

def test_analysis_what_nobody_has_judged_is_in_no_figure():
    """Tokens without annotation count in no figure; the expected numbers were counted manually.

    The entity at token 3 could continue into the unannotated token 4, so neither counts. The last entity is missed.
    """
    found = evaluation(('a b c d e f g', 'B-X I-X O B-X ? O B-Y', 'B-X I-X O B-X B-Y O O', [0.9] * 4 + [0.5, 0.8, 0.7]),
                       ('h i', '? B-X', 'B-Y B-X', [0.6, 0.4]))
    found.gold[0][4] = found.gold[1][0] = OPEN
    assert found.unannotated == 2 and found.types == ['X', 'Y']
    assert found.spans == [([('X', 0, 1), ('Y', 6, 6)], [('X', 0, 1)]), ([('X', 1, 1)], [('X', 1, 1)])]
    # Correct, predicted and gold tokens. X has three in the first and one in the second sentence. Y has one, missed.
    assert found.token_counts.sum(0).tolist() == [[4, 4, 4], [0, 0, 1]]
    assert confusion(found).counts == {('X', 'X'): 2, ('Y', None): 1}
    assert of_tokens(found).correct.tolist() == [True, True, True, True, True, False, True]
    assert of_tokens(found).confidences.tolist() == [0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.4]
    assert of_entities(found).confidences.tolist() == [0.9, 0.4] and of_entities(found).correct.all()
    wrong, count = mistakes(found, 9)
    assert count == 1 and [(piece.text, piece.wrong) for piece in wrong[0].gold if piece.type] == [
        ('a b', False), ('g', True)]
