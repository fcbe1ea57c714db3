"""Tags and lengths that can't be, which no shape or type shows, in both modes."""

from ms_crf import CRF, BiLSTM_CRF, allowed_transitions, compute_score, post_decode, sequence_mask
from ms_crf.nn.bilstm import BiLSTM
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest

from conftest import AllCalls, close, float_tensor, int_tensor
from oracle import Case

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
LONG = 66     # beyond 64 positions recursions go in loops over blocks, and each position's largest is taken out
IMPOSSIBLE_TAGS = {ms.int64: (2 ** 32 + 1, 2 ** 62), ms.uint32: (2 ** 32 - 1, 2 ** 31),
                   ms.uint64: (2 ** 32 + 1, 2 ** 63 + 1, 2 ** 64 - 1), ms.uint8: (255,), ms.int32: (3,)}
IMPOSSIBLE_LENGTHS = {ms.int64: (2 ** 32 + 2, -2 ** 32 + 2), ms.uint8: (200,), ms.uint64: (2 ** 64 - 1,)}


def is_nan(actual):
    return np.isnan(actual.asnumpy()).tolist()


def of_all_types(impossible):
    """Dicts of type and value, each with all types, in which every value occurs."""
    for index in range(max(map(len, impossible.values()))):
        yield {dtype: values[min(index, len(values) - 1)] for dtype, values in impossible.items()}


@pytest.mark.parametrize('head', [CRF, Softmax])
def test_tags_and_lengths_of_any_width_are_taken_for_no_others(head, compiled):
    """An impossible tag at a real position makes the loss nan, on padding it changes nothing; a negative one is not
    known. An impossible length makes it nan as well. All types of both are compiled at once."""
    layer = head(3, reduction='none')
    emissions, lengths = float_tensor(np.random.default_rng(0).normal(size=(4, 2, 3))), int_tensor([4, 2])
    known, full = np.ones((4, 2), int), [ms.Tensor([4, 2], dtype) for dtype in IMPOSSIBLE_LENGTHS]
    count = len(IMPOSSIBLE_TAGS)
    expected = layer(emissions, int_tensor(known), lengths).asnumpy()

    def losses(*tensors):                                        # tags, then lengths; each of all types
        return ([layer(emissions, tags, lengths) for tags in tensors[:count]],
                [layer(emissions, tensors[0], seq_length) for seq_length in tensors[count:]])

    def typed(arrays):
        return [ms.Tensor(array).astype(dtype) for array, dtype in zip(arrays, IMPOSSIBLE_TAGS)]

    run, good = compiled(losses), typed([known] * count)
    for impossible in of_all_types(IMPOSSIBLE_TAGS):
        arrays = np.ones((count, 4, 2), np.uint64)
        arrays[:, 2, 0] = list(impossible.values())
        for actual in run(*typed(arrays), *full)[0]:
            assert is_nan(actual)[0]
        arrays[:, 2] = [[1, tag] for tag in impossible.values()]
        for actual in run(*typed(arrays), *full)[0]:
            close(actual, expected)
    for impossible in of_all_types(IMPOSSIBLE_LENGTHS):
        wrong = [ms.Tensor(np.array([length, 2], ms.dtype_to_nptype(dtype))) for dtype, length in impossible.items()]
        for actual in run(*good, *wrong)[1]:
            assert is_nan(actual) == [True, False]

    tags = np.array([[1, 2], [0, -1], [-1, 0], [2, 1]])
    expected = layer(emissions, int_tensor(tags), lengths).asnumpy()
    for unknown in (-2 ** 32 + 1, -2 ** 32, -2 ** 63):
        negative = ms.Tensor(np.where(tags < 0, unknown, tags))
        close(run(negative, *good[1:], *full)[0][0], expected)


def test_compute_score_of_an_impossible_or_unknown_tag_is_nan(compiled):
    case = Case(0, 5, 4, 3)
    scores = [float_tensor(case.scores[name]) for name in ('transitions', 'start', 'end')]
    emissions, lengths = float_tensor(case.emissions), int_tensor(case.lengths)
    expected = [row.log_normalizer(case.known(b)) for b, row in enumerate(case.rows)]
    mask = sequence_mask(lengths, 5)

    def score(tags):
        return compute_score(emissions, tags, lengths - 1, mask, *scores)

    run = compiled(score)
    for tag in (-1, 3, 2 ** 32, -2 ** 40):
        tags = np.where(np.arange(5)[:, None] < case.lengths, case.tags, tag)       # on padding it may stand
        close(run(ms.Tensor(tags)), expected)
        tags[1, 0] = tag
        actual = run(ms.Tensor(tags))
        assert is_nan(actual)[0]
        close(actual[1:], expected[1:])


def test_a_length_that_can_not_be_gives_nan_in_its_row_alone(compiled):
    """All calls stay usable; paths are those of a length of 0 or of the padded length."""
    wrong_lengths = {LONG: (-1, LONG + 1, -2 ** 31)}             # by the padded length, for which a graph is compiled
    if compiled is not ms.jit:
        wrong_lengths = {5: (-1, 6, -2 ** 31), LONG: (LONG + 1,)}            # PyNative mode takes long for LONG
    for length, wrongs in wrong_lengths.items():
        case = Case(0, 5, 4, 3, constraints=BIO)
        case.emissions = np.concatenate([case.emissions, np.zeros((length - 5, 4, 3))])
        case.tags = np.concatenate([case.tags, np.zeros((length - 5, 4), int)])
        case.lengths[:] = [5, 3, 1, 0]
        case.rescore()
        layer = AllCalls.of(case, compiled)
        emissions, tags = float_tensor(case.emissions), int_tensor(np.maximum(case.tags, 0))
        for wrong in wrongs:
            actual = layer(emissions, tags, int_tensor([wrong, *case.lengths[1:]]))
            assert is_nan(actual['log_prob']) == [True, False, False, False] and is_nan(actual['loss'])
            for values in (actual['normalizer'], actual['decode'][1], actual['nbest'][1], actual['viterbi'][0]):
                assert np.isnan(values.asnumpy()[0]).all() and np.isfinite(values.asnumpy()[1:3]).all()
            close(actual['normalizer'][1:], [row.log_normalizer() for row in case.rows[1:]])
            assert np.isnan(actual['marginals'][:, 0].asnumpy()).all()
            close(actual['marginals'][:, 1:], case.by_position(lambda _, row: row.marginals())[:, 1:])
            whole = layer(emissions, tags, int_tensor([length if wrong > 0 else 0, *case.lengths[1:]]))
            assert (actual['decode'][0].asnumpy() == whole['decode'][0].asnumpy()).all()
        # The compiled function goes on serving good input.
        good = layer(emissions, tags, int_tensor(case.lengths))
        close(good['normalizer'], [row.log_normalizer() for row in case.rows])
        assert np.isfinite(good['loss'].asnumpy())


@pytest.mark.parametrize('head', [CRF, Softmax])
def test_no_reduction_hides_a_length_that_can_not_be(head, compiled):
    first, second, third = layers = [head(3, reduction=reduction) for reduction in ('mean', 'token_mean', 'sum')]
    for layer in layers:
        layer.update_parameters_name(f'{layer.reduction}.')      # a graph has one Parameter of a name
    emissions = float_tensor(np.random.default_rng(0).normal(size=(5, 3, 3)))
    tags = int_tensor(np.ones((5, 3)))

    def losses(lengths):
        return first(emissions, tags, lengths), second(emissions, tags, lengths), third(emissions, tags, lengths)

    run = compiled(losses)
    for wrong in (-1, 6):
        assert all(map(is_nan, run(int_tensor([5, 3, wrong]))))
    assert not any(map(is_nan, run(int_tensor([5, 3, 0]))))


def test_bilstm_takes_lengths_for_the_nearest_that_can_be(compiled):
    ms.set_seed(1)
    lstm = BiLSTM(3, 4)
    inputs = float_tensor(np.random.default_rng(0).normal(size=(5, 3, 3)))

    def run(lengths):
        return lstm(inputs, lengths)

    run = compiled(run)
    expected = run(ms.Tensor(np.array([5, 0, 5]))).asnumpy()
    close(run(ms.Tensor(np.array([7, -1, 2 ** 32 + 1]))), expected)
    close(run(ms.Tensor(np.array([5, 0, 5]))), expected)


def test_sequence_mask_takes_lengths_for_the_nearest_that_can_be(compiled):
    def mask(lengths):
        return sequence_mask(lengths, 3, batch_first=True)

    for dtype in (np.int64, np.uint64, np.uint8, np.int32):
        lengths = np.array([200, 2, 0]).astype(dtype)
        if dtype == np.int64:
            lengths[2] = -2 ** 40
        assert compiled(mask)(ms.Tensor(lengths)).asnumpy().tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_post_decode_refuses_a_length_that_can_not_be():
    score, history = np.zeros((2, 3)), np.zeros((3, 2, 3), int)
    for wrong in (-1, 5, 2 ** 40):
        with pytest.raises(ValueError, match=f'seq_length must be 0 to 4, the padded length, got {wrong} in row 1'):
            post_decode(score, history, np.array([4, wrong]))


def test_a_whole_model_answers_a_length_that_can_not_be_with_nan(compiled):
    model = BiLSTM_CRF(10, 4, 6, 3)
    inputs, tags = int_tensor(np.ones((2, 4))), int_tensor(np.ones((2, 4)))

    def loss(lengths):
        return model(inputs, lengths, tags)

    run = compiled(loss)
    assert is_nan(run(int_tensor([4, 7]))) and is_nan(run(int_tensor([4, -1])))
    assert np.isfinite(run(int_tensor([4, 3])).asnumpy())


@pytest.mark.parametrize('make,message', [
    (lambda: CRF(10 ** 9), 'a table of transitions for num_tags = 1000000000 needs at least 4,000,000,000 GB'),
    (lambda: BiLSTM_CRF(10, 4, 6, np.int32(10 ** 9)), 'a table of transitions for num_tags = 1000000000 needs'),
    (lambda: BiLSTM_CRF(10 ** 12, 4, 6, 3), 'vectors for vocab_size = 1000000000000 and embedding_dim = 4 needs'),
    (lambda: BiLSTM_CRF(10, 4, 10 ** 9, 3), 'an LSTM with input_size = 4 and hidden_size = 1000000000 needs'),
])
def test_a_layer_that_memory_can_not_hold_is_refused(make, message):
    with pytest.raises(ValueError, match=f'{message} .*of memory, and '):
        make()


def test_repr_says_how_the_layer_was_made():
    for crf, expected in (
            (CRF(10), "num_tags=10, batch_first=False, reduction='sum', constraints=None, check_values=False"),
            (CRF(3, True, 'mean', BIO, True), "num_tags=3, batch_first=True, reduction='mean', "
                                              'constraints=8 of 9 transitions, check_values=True'),
            (Softmax(4, reduction='none'), "num_tags=4, batch_first=False, reduction='none'"),
            (BiLSTM_CRF(9, 4, 6, 3), 'num_tags=3, batch_first=True')):
        assert expected in repr(crf)
