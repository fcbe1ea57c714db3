"""Checks of values: masks of the tutorial's functions, and layers with `check_values`."""

from ms_crf import CRF, BiLSTM_CRF, compute_normalizer, compute_score, sequence_mask, viterbi_decode

import mindspore as ms
import numpy as np
import pytest

from support.tensors import close, float_tensor, int_tensor, is_nan

NAN, INF = float('nan'), float('inf')
MASKS = {
    'got 0 before 1 in row 1, position 1': [[1, 1], [1, 0], [1, 1], [1, 0]],
    'got 0 before 1 in row 0, position 0': [[0, 1], [1, 1], [1, 1], [1, 0]],
    'got 2 in row 0, position 1': [[1, 1], [2, 1], [1, 1], [0, 1]],
}


def tutorial(mask):
    rng = np.random.default_rng(0)
    emissions, tags = float_tensor(rng.normal(size=(4, 2, 3))), int_tensor(np.ones((4, 2)))
    scores = [float_tensor(rng.normal(size=shape)) for shape in ((3, 3), 3, 3)]
    ends = int_tensor([3, 3])
    return {'compute_score': lambda: compute_score(emissions, tags, ends, mask, *scores),
            'compute_normalizer': lambda: compute_normalizer(emissions, mask, *scores),
            'viterbi_decode': lambda: viterbi_decode(emissions, mask, *scores)[0]}


@pytest.mark.parametrize('name', tutorial(None))
@pytest.mark.parametrize('dtype', [ms.int64, ms.float32, ms.uint8])
def test_checked_values_a_mask_with_holes_is_refused(name, dtype):
    for message, mask in MASKS.items():
        with pytest.raises(ValueError, match=f'mask must be 1 on the first positions of each row .*, {message}'):
            tutorial(ms.Tensor(np.array(mask), dtype))[name]()
    with pytest.raises(ValueError, match='got 0 before 1 in row 1, position 1'):
        tutorial(ms.Tensor(np.array([[1, 1], [1, 0], [1, 1], [1, 0]]) > 0))[name]()


@pytest.mark.slow
def test_checked_values_a_mask_with_holes_gives_nan_in_a_graph():
    rng = np.random.default_rng(0)
    emissions, tags = float_tensor(rng.normal(size=(4, 2, 3))), int_tensor(np.ones((4, 2)))
    scores = [float_tensor(rng.normal(size=shape)) for shape in ((3, 3), 3, 3)]

    @ms.jit
    def everything(mask):
        return (compute_score(emissions, tags, tags[0], mask, *scores), compute_normalizer(emissions, mask, *scores),
                viterbi_decode(emissions, mask, *scores)[0][:, 0])

    for actual in everything(int_tensor([[1, 1], [1, 0], [1, 1], [1, 0]])):
        assert is_nan(actual) == [False, True]
    whole = [actual.asnumpy() for actual in everything(int_tensor([[1, 1], [1, 0], [1, 0], [1, 0]]))]
    assert np.isfinite(whole).all()
    mask = sequence_mask(int_tensor([4, 1]), 4)
    for actual, same in zip(whole, (compute_score(emissions, tags, tags[0], mask, *scores),
                                   compute_normalizer(emissions, mask, *scores),
                                   viterbi_decode(emissions, mask, *scores)[0][:, 0])):
        close(actual, same.asnumpy())


FAULTS = {
    'tags must be below num_tags = 3, got 4294967297 in row 1, position 2': {'tags': (2, 1, 2 ** 32 + 1)},
    'tags must be below num_tags = 3, got 3 in row 0, position 3': {'tags': (3, 0, 3)},
    'seq_length must be 0 to 4, the padded length, got 5 in row 0': {'lengths': (0, 5)},
    'seq_length must be 0 to 4, the padded length, got -1 in row 1': {'lengths': (1, -1)},
    'got nan in row 1, position 2, tag 0': {'emissions': (2, 1, 0, NAN)},
    'got inf in row 0, position 3, tag 2': {'emissions': (3, 0, 2, INF)},
}


def batch_with(fault):
    values = {'emissions': np.zeros((4, 2, 3), np.float32), 'tags': np.ones((4, 2), int), 'lengths': np.array([4, 3])}
    for name, (*index, value) in fault.items():
        values[name][tuple(index)] = value
    return values


@pytest.mark.parametrize('batch_first', [False, True])
@pytest.mark.parametrize('message', FAULTS)
def test_checked_values_a_cell_that_checks_values_names_row_and_position(message, batch_first):
    crf = CRF(3, batch_first=batch_first, check_values=True)
    values = batch_with(FAULTS[message])
    if batch_first:
        values['emissions'], values['tags'] = values['emissions'].swapaxes(0, 1).copy(), values['tags'].T.copy()
    emissions, tags, lengths = (ms.Tensor(value) for value in values.values())
    calls = [lambda: crf(emissions, tags, lengths), lambda: crf.log_prob(emissions, tags, lengths)]
    if 'tags' not in FAULTS[message]:
        calls += [lambda: crf(emissions, seq_length=lengths), lambda: crf.decode(emissions, lengths),
                  lambda: crf.nbest(emissions, 2, lengths), lambda: crf.marginals(emissions, lengths),
                  lambda: crf.normalizer(emissions, lengths), lambda: crf.path_posteriors(emissions, tags, lengths)]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_checked_values_a_cell_that_checks_values_lets_pass_what_can_be(compiled):
    """`check_values` accepts unknown tags, -inf, and any values on padding.

    A graph cannot check values, so there an invalid length makes the loss of its row nan.
    """
    crf = CRF(3, reduction='none', check_values=True)
    values = batch_with({'emissions': (3, 1, 0, NAN), 'tags': (3, 1, 99)})
    values['emissions'][0, 0, 0] = -INF
    values['tags'][1, 0] = -5

    def loss(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    run = compiled(loss)
    assert np.isfinite(run(*(ms.Tensor(value) for value in values.values())).asnumpy()).all()
    if compiled is ms.jit:
        assert is_nan(run(*(ms.Tensor(value) for value in batch_with({'lengths': (0, 5)}).values()))) == [True, False]


def test_checked_values_a_whole_model_checks_values():
    model = BiLSTM_CRF(10, 4, 6, 3, check_values=True)
    inputs, tags = int_tensor(np.ones((2, 4))), int_tensor(np.ones((2, 4)))
    with pytest.raises(ValueError, match='seq_length must be 0 to 4, the padded length, got 7 in row 1'):
        model(inputs, int_tensor([4, 7]), tags)
    with pytest.raises(ValueError, match='tags must be below num_tags = 3, got 8 in row 0, position 0'):
        model(inputs, int_tensor([4, 3]), tags + 7)
    assert np.isfinite(model(inputs, int_tensor([4, 3]), tags).asnumpy())
    with pytest.raises(TypeError, match='check_values must be True or False, got int'):
        CRF(3, check_values=1)
