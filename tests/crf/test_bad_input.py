"""Each wrong argument raises an error of one line: its name, the expected value and the actual value."""

from ms_crf import (
    CRF,
    BiLSTM_CRF,
    check_batch,
    compute_normalizer,
    compute_score,
    post_decode,
    sequence_mask,
    viterbi_decode,
)

import mindspore as ms
import numpy as np
import pytest

from support.chains import MODES
from support.tensors import float_tensor, int_tensor

EMISSIONS = float_tensor(np.zeros((4, 7, 3)))
TAGS = int_tensor(np.zeros((4, 7)))
LENGTHS = int_tensor([4] * 7)

CASES = {
    'emissions of rank 2': (
        (float_tensor(np.zeros((4, 7))), TAGS, LENGTHS), ValueError,
        'emissions must be (length, batch, num_tags), got shape (4, 7)'),
    'other number of tags': (
        (float_tensor(np.zeros((4, 7, 5))), TAGS, LENGTHS), ValueError,
        'emissions must be (length, batch, num_tags) with num_tags = 3, got shape (4, 7, 5)'),
    'emissions of integers': (
        (int_tensor(np.zeros((4, 7, 3))), TAGS, LENGTHS), TypeError,
        'emissions must be a tensor of floats, got Int32'),
    'tags of floats': (
        (EMISSIONS, float_tensor(np.zeros((4, 7))), LENGTHS), TypeError,
        'tags must be a tensor of integers, got Float32'),
    'tags too short': (
        (EMISSIONS, int_tensor(np.zeros((4, 6))), LENGTHS), ValueError,
        'tags must be (length, batch) like emissions[..., 0] = (4, 7), got shape (4, 6); batch_first is False'),
    'tags in the other layout': (
        (EMISSIONS, int_tensor(np.zeros((7, 4))), LENGTHS), ValueError,
        'tags must be (length, batch) like emissions[..., 0] = (4, 7), got shape (7, 4); batch_first is False'),
    'lengths of the other layout': (
        (EMISSIONS, TAGS, int_tensor([4] * 4)), ValueError,
        'seq_length must be (batch,) = (7,) for emissions (4, 7, 3), got shape (4,); batch_first is False'),
    'lengths of floats': (
        (EMISSIONS, TAGS, float_tensor([4] * 7)), TypeError,
        'seq_length must be a tensor of integers, got Float32'),
}


# Plain operators and operators in C++ check their arguments separately. In a graph both raise the same messages, so one
# kind of graph is enough.
in_both_modes = pytest.mark.parametrize('compiled', [*MODES, 'native pynative'], indirect=True)


@in_both_modes
@pytest.mark.parametrize('name', CASES)
def test_bad_input_wrong_arguments(name, compiled):
    arguments, error, message = CASES[name]
    crf = CRF(3)

    def loss(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    with pytest.raises(error) as raised:
        compiled(loss)(*arguments)
    assert str(raised.value).splitlines()[0] == message


@in_both_modes
@pytest.mark.parametrize('method', ['decode', 'marginals', 'normalizer', 'viterbi', 'nbest'])
def test_bad_input_every_method_checks(method, compiled):
    crf = CRF(3)

    def call(emissions, lengths):
        if method == 'nbest':
            return crf.nbest(emissions, 2, lengths)
        if method == 'viterbi':
            return crf(emissions, seq_length=lengths)
        return getattr(crf, method)(emissions, lengths)

    with pytest.raises(ValueError, match=r'emissions must be \(length, batch, num_tags\), got shape \(4, 7\)'):
        compiled(call)(float_tensor(np.zeros((4, 7))), LENGTHS)
    with pytest.raises(ValueError, match=r'seq_length must be \(batch,\) = \(7,\)'):
        compiled(call)(EMISSIONS, int_tensor([4] * 4))


def test_bad_input_arrays_are_not_tensors():
    with pytest.raises(TypeError, match='emissions must be a Tensor, got ndarray'):
        CRF(3)(np.zeros((4, 7, 3), np.float32), TAGS, LENGTHS)
    with pytest.raises(TypeError, match='seq_length must be a Tensor, got list'):
        CRF(3).decode(EMISSIONS, [4] * 7)


@pytest.mark.parametrize('arguments,error,message', [
    ({'num_tags': 0}, ValueError, 'num_tags must be at least 1, got 0'),
    ({'num_tags': 2.0}, TypeError, 'num_tags must be an int, got float'),
    ({'num_tags': True}, TypeError, 'num_tags must be an int, got bool'),
    ({'num_tags': 3, 'reduction': 'max'}, ValueError,
     "reduction must be one of none, sum, mean, token_mean, got 'max'"),
    ({'num_tags': 3, 'batch_first': 'yes'}, TypeError, 'batch_first must be True or False, got str'),
])
def test_bad_input_wrong_options(arguments, error, message):
    with pytest.raises(error, match=message):
        CRF(**arguments)


@pytest.mark.parametrize('n,error', [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_input_wrong_n(n, error):
    with pytest.raises(error, match='n must be'):
        CRF(3).nbest(EMISSIONS, n, LENGTHS)


def test_bad_input_odd_hidden_size():
    with pytest.raises(ValueError, match='hidden_size must be even and at least 2, half for each direction, got 5'):
        BiLSTM_CRF(10, 4, 5, 3)


@pytest.mark.parametrize('arguments,error,message', [
    (([[0, 1, 3]], [3], 3, True), ValueError, 'tags must be below num_tags = 3, got 3 in row 0, position 2'),
    (([[0, 0], [7, 0]], [2, 2], 3), ValueError, 'tags must be below num_tags = 3, got 7 in row 0, position 1'),
    (([[0, 1, 2]], [4], 3, True), ValueError, 'seq_length must be 0 to 3, the padded length, got 4 in row 0'),
    (([[0], [1]], [1, -1], 3, True), ValueError, 'got -1 in row 1'),
    (([[0, 1]], [1, 1], 3, True), ValueError, r'seq_length must be \(1,\), one for each row of tags, got shape \(2,\)'),
    (([0, 1], [1], 3), ValueError, r'tags must have two axes, got shape \(2,\)'),
    (([[0.5]], [1], 3), TypeError, 'tags must be integers, got float64'),
    (([[0]], [1.0], 3), TypeError, 'seq_length must be integers, got float64'),
])
def test_bad_input_check_batch(arguments, error, message):
    with pytest.raises(error, match=message):
        check_batch(*arguments)


def test_bad_input_check_batch_lets_pass_what_is_right():
    check_batch([[0, -1, 99], [2, 1, 0]], [2, 3], 3, batch_first=True)      # -1 is unknown; padding may hold anything
    check_batch(ms.Tensor([[0], [2]]), ms.Tensor([2]), 3)
    check_batch(np.array([[0, 1]]), None, 2)


@pytest.mark.parametrize('arguments,message', [
    ((np.zeros(3), np.zeros((2, 1, 3), int), [3]), r'score must be \(batch, num_tags\), got shape \(3,\)'),
    ((np.zeros((1, 3)), np.zeros((2, 2, 3), int), [3]), r'history must be \(length - 1, 1, 3\) like score'),
    ((np.zeros((1, 3)), np.zeros((2, 1, 3), int), [3, 1]), r'seq_length must be \(1,\) like score\[:, 0\]'),
    ((np.zeros((1, 3)), np.zeros((2, 1, 3), int), [4]), 'seq_length must be 0 to 3'),
    ((np.zeros((2, 0)), np.zeros((1, 2, 0), int), [1, 1]), r'score must have at least one tag, got shape \(2, 0\)'),
    ((np.zeros((0, 3)), np.zeros((1, 2, 3), int), []), r'history must be \(length - 1, 0, 3\) like score'),
    ((np.zeros((1, 3)), [np.zeros((1, 3), int), np.zeros((1, 2), int)], [3]),
     r'history\[1\] must be \(1, 3\) like score, got shape \(1, 2\)'),
    ((np.zeros((1, 3)), np.full((1, 1, 3), 3), [2]), 'history must contain tags from 0 to 2, got 3 for row 0'),
    ((np.zeros((2, 3)), np.full((1, 2, 3), 4), [1, 2]), 'history must contain tags from 0 to 2, got 4 for row 1'),
    ((np.zeros((2, 3)), np.full((1, 2, 3), -1), [2, 1]), 'history must contain tags from 0 to 2, got -1 for row 0'),
    ((np.zeros((2, 3)), np.full((2, 2, 3), 2 ** 40), [1, 3]),
     'history must contain tags from 0 to 2, got 1099511627776'),
])
def test_bad_input_post_decode_checks(arguments, message):
    with pytest.raises(ValueError, match=message):
        post_decode(*arguments)


@pytest.mark.parametrize('history', [np.zeros((4, 0, 3), int), np.zeros((0, 0, 3), int), (),
                                     (np.zeros((0, 3), int),) * 4])
def test_bad_input_post_decode_of_an_empty_batch(history):
    assert post_decode(np.zeros((0, 3)), history, np.zeros(0, int)) == []
    assert post_decode(np.zeros((0, 3)), history, []) == []


def test_bad_input_an_impossible_tag_makes_the_loss_nan(compiled):
    crf = CRF(3)

    def loss(tags):
        return crf(EMISSIONS, tags, LENGTHS)

    run = compiled(loss)
    assert np.isfinite(run(TAGS).asnumpy())
    for tag in (3, 5000):
        tags = np.zeros((4, 7))
        tags[2, 1] = tag
        assert np.isnan(run(int_tensor(tags)).asnumpy())


MASK = int_tensor(np.ones((4, 7)))
SCORES = float_tensor(np.zeros((3, 3))), float_tensor(np.zeros(3)), float_tensor(np.zeros(3))


@pytest.mark.parametrize('function,arguments,error,message', [
    (compute_normalizer, (EMISSIONS, MASK[:3], *SCORES), ValueError,
     'mask must be (length, batch) = (4, 7) for emissions (4, 7, 3), got shape (3, 7)'),
    (compute_normalizer, (EMISSIONS, MASK, SCORES[1], *SCORES[1:]), ValueError,
     'trans must be (num_tags, num_tags) = (3, 3) for emissions (4, 7, 3), got shape (3,)'),
    (viterbi_decode, (EMISSIONS, MASK, SCORES[0], SCORES[1][:1], SCORES[2]), ValueError,
     'start_trans must be (num_tags,) = (3,) for emissions (4, 7, 3), got shape (1,)'),
    (viterbi_decode, (TAGS, MASK, *SCORES), TypeError, 'emissions must be a tensor of floats, got Int32'),
    (compute_score, (EMISSIONS, MASK.astype(ms.float32), LENGTHS, MASK, *SCORES), TypeError,
     'tags must be a tensor of integers, got Float32'),
    (compute_score, (EMISSIONS, TAGS, LENGTHS[:2], MASK, *SCORES), ValueError,
     'seq_ends must be (batch,) = (7,) for emissions (4, 7, 3), got shape (2,)'),
    (compute_score, (EMISSIONS, TAGS, LENGTHS, None, *SCORES), TypeError, 'mask must be a Tensor, got NoneType'),
    (sequence_mask, ([3, 1], 4), TypeError, 'seq_length must be a Tensor, got list'),
    (sequence_mask, (LENGTHS, 4.0), TypeError, 'max_length must be an int, got float'),
    (sequence_mask, (LENGTHS, -1), ValueError, 'max_length must be at least 1, got -1'),
    (sequence_mask, (TAGS, 4), ValueError, 'seq_length must be (batch,), got shape (4, 7)'),
])
def test_bad_input_functions_check(function, arguments, error, message):
    with pytest.raises(error) as raised:
        function(*arguments)
    assert str(raised.value) == message


@in_both_modes
@pytest.mark.parametrize('arguments,error,message', [
    ((TAGS[0], LENGTHS[:4]), ValueError, 'inputs must be (batch, length) with no empty axis, got shape (7,)'),
    ((EMISSIONS[0], LENGTHS[:4]), TypeError, 'inputs must be a tensor of integers, got Float32'),
    ((TAGS, LENGTHS), ValueError, 'seq_length must be (batch,) = (4,), got shape (7,)'),
    ((TAGS, TAGS), ValueError, 'seq_length must be (batch,) = (4,), got shape (4, 7)'),
    ((TAGS, None), TypeError, 'seq_length must be a Tensor, got NoneType'),
])
def test_bad_input_the_cell_checks(arguments, error, message, compiled):
    model = BiLSTM_CRF(10, 4, 6, 3)

    def loss(inputs, lengths):
        return model(inputs, lengths)

    with pytest.raises(error) as raised:
        compiled(loss)(*arguments)
    assert str(raised.value).splitlines()[0] == message
