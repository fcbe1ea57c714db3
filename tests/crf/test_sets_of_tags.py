"""Tags as sets: the loss of sets of allowed tags for each token agrees with enumeration of all paths through them."""

from ms_crf import CRF, allowed_transitions, check_batch
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest

from support.chains import make_crf, parameters
from support.oracle import Case, Row
from support.tensors import close, float_tensor, int_tensor

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
SHAPE = 5, 4, 3


def sets_for(seed):
    """Random bools (length, batch, num_tags). Each set contains O, so that constraints leave a path."""
    sets = np.random.default_rng(seed).random(SHAPE) < 0.5
    sets[..., 0] = True
    return sets


def restricted(case, sets):
    """The rows of a case, with only the paths through the sets."""
    return [Row(np.where(sets[:row.length, b], case.emissions[:row.length, b], -np.inf), case.scores, case.constraints)
            for b, row in enumerate(case.rows)]


@pytest.mark.parametrize('compiled,constraints', [
    ('graph', BIO), ('pynative', BIO), ('native graph', BIO), ('native pynative', BIO), ('pynative', None),
    ('native pynative', None)], indirect=['compiled'])
def test_sets_of_tags_it_is_that_of_all_paths_through_the_sets(compiled, constraints):
    case, sets = Case(1, *SHAPE, constraints=constraints), sets_for(2)
    crf = make_crf(case)

    def loss(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    run = compiled(ms.value_and_grad(loss, 0, parameters(crf)))
    value, (by_emissions, by_scores) = run(float_tensor(case.emissions), ms.Tensor(sets), int_tensor(case.lengths))
    some = restricted(case, sets)
    close(value, sum(row.log_normalizer() - part.log_normalizer() for row, part in zip(case.rows, some) if row.length))
    expected = case.by_position(lambda b, row: row.marginals() - some[b].marginals())
    close(by_emissions, expected)
    close(by_scores[0], sum(row.transition_counts() - part.transition_counts() for row, part in zip(case.rows, some)
                            if row.length))
    close(by_scores[1], expected[0].sum(0))
    close(by_scores[2], sum(expected[n - 1, b] for b, n in enumerate(case.lengths) if n))


def test_sets_of_tags_sets_of_one_tag_or_of_all_are_tags():
    case = Case(4, *SHAPE, unknown=0.4)
    tags = np.where(case.tags < 0, -1, case.tags)
    sets = (tags[..., None] == np.arange(3)) | (tags < 0)[..., None]
    for layer in (make_crf(case, reduction='none'), Softmax(3, reduction='none')):
        arguments = float_tensor(case.emissions), int_tensor(case.lengths)
        close(layer(arguments[0], ms.Tensor(sets), arguments[1]),
              layer(arguments[0], int_tensor(tags), arguments[1]).asnumpy())


def test_sets_of_tags_batch_first_and_reductions():
    case, sets = Case(3, *SHAPE), sets_for(7)
    rows = np.array([row.log_normalizer() - part.log_normalizer() if row.length else 0.0
                     for row, part in zip(case.rows, restricted(case, sets))])
    for reduction, expected in (('none', rows), ('sum', rows.sum()), ('mean', rows.sum() / (case.lengths > 0).sum()),
                                ('token_mean', rows.sum() / case.lengths.sum())):
        crf = make_crf(case, batch_first=True, reduction=reduction)
        close(crf(float_tensor(case.emissions.swapaxes(0, 1)), ms.Tensor(sets.swapaxes(0, 1).copy()),
                  int_tensor(case.lengths)), expected)


def test_sets_of_tags_softmax_adds_up_the_tags_of_a_set():
    case, sets = Case(6, *SHAPE), sets_for(8)
    weights = np.exp(case.emissions - case.emissions.max(2, keepdims=True))
    shares = -np.log((weights * sets).sum(2) / weights.sum(2))
    found = Softmax(3, reduction='none')(float_tensor(case.emissions), ms.Tensor(sets), int_tensor(case.lengths))
    close(found, [shares[:n, b].sum() for b, n in enumerate(case.lengths)])


def test_sets_of_tags_what_is_no_set_is_refused():
    case = Case(1, *SHAPE)
    with pytest.raises(ValueError, match=r'bool tags must have the shape of emissions, \(5, 4, 3\), got \(5, 4\)'):
        CRF(3)(float_tensor(case.emissions), ms.Tensor(np.ones((5, 4), bool)))
    sets = sets_for(1)
    check_batch(sets, case.lengths, 3)
    empty = sets.copy()
    empty[0, 2] = False
    empty[4, 1] = False                          # on padding, where it has no influence
    case.lengths[1:3] = 1, 5
    message = 'bool tags must allow at least one tag for each token, got none in row 2, position 0'
    with pytest.raises(ValueError, match=message):
        check_batch(empty, case.lengths, 3)
    with pytest.raises(ValueError, match='got none in row 2, position 0'):
        CRF(3, check_values=True)(float_tensor(np.zeros(SHAPE)), ms.Tensor(empty), int_tensor(case.lengths))
    with pytest.raises(ValueError, match=r'three axes, the last of size num_tags = 4, got shape \(5, 4, 3\)'):
        check_batch(sets, None, 4)
