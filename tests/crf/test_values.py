"""Invalid values of tags and lengths, of all integer types, make results nan, are clipped or raise errors."""

import itertools

from ms_crf import CRF, BiLSTM_CRF, allowed_transitions, compute_score, post_decode, sequence_mask
from ms_crf.native import custom
from ms_crf.nn.bilstm import BiLSTM
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest

from support.chains import MODES, NOT_IN_A_PLAIN_GRAPH, in_a_plain_graph, parameters
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor, is_nan

pytestmark = pytest.mark.slow

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
# Types and invalid values. A call combines the tags and the lengths at the same index of these lists.
IMPOSSIBLE_TAGS = [(ms.int64, (2 ** 32 + 1, 2 ** 62)), (ms.uint32, (2 ** 32 - 1, 2 ** 31)),
                   (ms.uint64, (2 ** 32 + 1, 2 ** 63 + 1, 2 ** 64 - 1)), (ms.uint8, (255,)), (ms.int32, (3,))]
IMPOSSIBLE_LENGTHS = [(ms.int64, (2 ** 32 + 2, -2 ** 32 + 2)), (ms.uint8, (200,)), (ms.uint64, (2 ** 64 - 1,)),
                      (ms.int32, (-1,)), (ms.int32, (5,))]


def of_all_types(impossible):
    """Endless lists of (type, value) with all types, which together contain each value."""
    for index in itertools.count():
        yield [(dtype, values[index % len(values)]) for dtype, values in impossible]


@pytest.mark.parametrize('compiled,head', [*((mode, CRF) for mode in (*MODES, 'native graph', 'native pynative')),
                                           *((mode, Softmax) for mode in MODES)], indirect=['compiled'])
def test_values_tags_and_lengths_of_any_width_are_taken_for_no_others(head, compiled):
    """Values that a cast to 32 bits would make valid are still invalid.

    An invalid tag or length makes the loss nan, also after a reduction. On padding an invalid tag changes nothing. A
    negative tag is unknown. One function tests all types, so that it is compiled once.
    """
    reductions = ['token_mean'] if in_a_plain_graph(compiled) else ['mean', 'token_mean', 'sum']
    layer, *reducing = [head(3, reduction=reduction) for reduction in ('none', *reductions)]
    if head is CRF:                                              # names in a graph are unique
        for other in reducing:
            other.transitions, other.start_transitions, other.end_transitions = parameters(layer)
    emissions, lengths = float_tensor(np.random.default_rng(0).normal(size=(4, 3, 3))), int_tensor([4, 2, 4])
    known, unknown = np.ones((2, 4, 3), int)
    unknown[1, 2] = -1
    expected, expected_of_unknown = (layer(emissions, int_tensor(tags), lengths).asnumpy() for tags in (known, unknown))
    count = len(IMPOSSIBLE_TAGS)

    def losses(*tensors):                                        # tags of all types, then lengths of all types
        return ([layer(emissions, tensors[index], tensors[count + index]) for index in range(count)],
                [other(emissions, tensors[0], tensors[count]) for other in reducing])

    def typed(arrays, types):
        return [ms.Tensor(array).astype(dtype) for array, (dtype, _) in zip(arrays, types)]

    run = compiled(losses)
    known, full = typed(count * [known], IMPOSSIBLE_TAGS), typed(count * [[4, 2, 4]], IMPOSSIBLE_LENGTHS)
    # A round with plain operators takes four seconds in PyNative mode.
    rounds = 3 if compiled is ms.jit or custom.in_use() or head is Softmax else 1
    negatives = (-2 ** 32 + 1, -2 ** 32, -2 ** 63)[:rounds]
    for negative, impossible_tags, impossible_lengths in zip(
            negatives, of_all_types(IMPOSSIBLE_TAGS), of_all_types(IMPOSSIBLE_LENGTHS)):
        at_real_position, on_padding = np.ones((2, count, 4, 3), np.uint64)
        at_real_position[:, 2, 0] = on_padding[:, 2, 1] = [tag for _, tag in impossible_tags]
        on_padding[0, 1, 2] = negative % 2 ** 64                 # the bits of the int64
        by_tags, reduced = run(*typed(at_real_position, IMPOSSIBLE_TAGS), *full)
        assert all(is_nan(actual)[0] for actual in by_tags) and all(map(is_nan, reduced))
        wrong = [ms.Tensor(np.array([length, 2, 0], ms.dtype_to_nptype(dtype)))
                 for dtype, length in impossible_lengths]
        by_lengths, reduced = run(*known, *wrong)
        assert all(is_nan(actual) == [True, False, False] for actual in by_lengths) and all(map(is_nan, reduced))
        by_tags, reduced = run(*typed(on_padding, IMPOSSIBLE_TAGS), *full)
        for actual, losses_of_rows in zip(by_tags, (expected_of_unknown, *(count - 1) * [expected])):
            close(actual, losses_of_rows)
        assert not any(map(is_nan, reduced))


def test_values_compute_score_of_an_impossible_or_unknown_tag_is_nan(compiled):
    case = Case(0, 5, 4, 3)
    scores = [float_tensor(case.scores[name]) for name in ('transitions', 'start', 'end')]
    emissions, lengths = float_tensor(case.emissions), int_tensor(case.lengths)
    expected = [row.log_normalizer(case.known(b)) for b, row in enumerate(case.rows)]
    mask = sequence_mask(lengths, 5)

    def score(tags):
        return compute_score(emissions, tags, lengths - 1, mask, *scores)

    run = compiled(score)
    for tag in (-1, 3, 2 ** 32, -2 ** 40):
        tags = np.where(np.arange(5)[:, None] < case.lengths, case.tags, tag)       # padding may hold any tag
        close(run(ms.Tensor(tags)), expected)
        tags[1, 0] = tag
        actual = run(ms.Tensor(tags))
        assert is_nan(actual)[0]
        close(actual[1:], expected[1:])


def test_values_bilstm_takes_lengths_for_the_nearest_that_can_be(compiled):
    ms.set_seed(1)
    lstm = BiLSTM(3, 4)
    inputs = float_tensor(np.random.default_rng(0).normal(size=(5, 3, 3)))

    def run(lengths):
        return lstm(inputs, lengths)

    run = compiled(run)
    expected = run(ms.Tensor(np.array([5, 0, 5]))).asnumpy()
    close(run(ms.Tensor(np.array([7, -1, 2 ** 32 + 1]))), expected)
    close(run(ms.Tensor(np.array([5, 0, 5]))), expected)


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # sequence_mask has no operator in C++
def test_values_sequence_mask_takes_lengths_for_the_nearest_that_can_be(compiled):
    def mask(lengths):
        return sequence_mask(lengths, 3, batch_first=True)

    for dtype in (np.int64, np.uint64, np.uint8, np.int32):
        lengths = np.array([200, 2, 0]).astype(dtype)
        if dtype == np.int64:
            lengths[2] = -2 ** 40
        assert compiled(mask)(ms.Tensor(lengths)).asnumpy().tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_values_post_decode_refuses_a_length_that_can_not_be():
    score, history = np.zeros((2, 3)), np.zeros((3, 2, 3), int)
    for wrong in (-1, 5, 2 ** 40):
        with pytest.raises(ValueError, match=f'seq_length must be 0 to 4, the padded length, got {wrong} in row 1'):
            post_decode(score, history, np.array([4, wrong]))


@NOT_IN_A_PLAIN_GRAPH
def test_values_a_whole_model_answers_a_length_that_can_not_be_with_nan(compiled):
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
def test_values_a_layer_that_memory_can_not_hold_is_refused(make, message):
    with pytest.raises(ValueError, match=f'{message} .*of memory, and '):
        make()


def test_values_repr_says_how_the_layer_was_made():
    for crf, expected in (
            (CRF(10), "num_tags=10, batch_first=False, reduction='sum', constraints=None, check_values=False"),
            (CRF(3, True, 'mean', BIO, True), "num_tags=3, batch_first=True, reduction='mean', "
                                              'constraints=8 of 9 transitions, check_values=True'),
            (Softmax(4, reduction='none'), "num_tags=4, batch_first=False, reduction='none'"),
            (BiLSTM_CRF(9, 4, 6, 3), 'num_tags=3, batch_first=True')):
        assert expected in repr(crf)
