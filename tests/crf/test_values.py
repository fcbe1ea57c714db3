"""Values that can't be: tags, lengths, masks and emissions that no shape or type shows, in both modes."""

from ms_crf import (
    CRF,
    BiLSTM_CRF,
    allowed_transitions,
    compute_normalizer,
    compute_score,
    post_decode,
    sequence_mask,
    viterbi_decode,
)
from ms_crf.crf.nbest import LOWEST
from ms_crf.nn.bilstm import BiLSTM
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops
from test_any_length import Everything, exported
from test_crf import functions

from conftest import close, float_tensor, int_tensor, make_crf, parameters
from oracle import Case

NAN, INF = float('nan'), float('inf')
BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
WIDE = [(ms.int64, 2 ** 32 + 1), (ms.int64, 2 ** 62), (ms.uint32, 2 ** 32 - 1), (ms.uint32, 2 ** 31),
        (ms.uint64, 2 ** 32 + 1), (ms.uint64, 2 ** 63 + 1), (ms.uint64, 2 ** 64 - 1), (ms.uint8, 255), (ms.int32, 3)]


def is_nan(found):
    return np.isnan(found.asnumpy()).tolist()


@pytest.mark.parametrize('head', [CRF, Softmax])
def test_a_tag_of_any_width_is_taken_for_no_other(head, compiled):
    """At real positions the loss is nan, on padding it is what it was."""
    layer = head(3, reduction='none')
    emissions, lengths = float_tensor(np.random.default_rng(0).normal(size=(4, 2, 3))), int_tensor([4, 2])
    expected = layer(emissions, int_tensor([[1, 1]] * 4), lengths).asnumpy()

    def loss(emissions, tags):
        return layer(emissions, tags, lengths)

    run = compiled(loss)
    for dtype, tag in WIDE:
        tags = np.ones((4, 2), np.uint64)
        tags[2, 0] = tag
        assert is_nan(run(emissions, ms.Tensor(tags).astype(dtype)))[0]
        tags[2] = [1, tag]
        close(run(emissions, ms.Tensor(tags).astype(dtype)), expected)


@pytest.mark.parametrize('head', [CRF, Softmax])
def test_a_negative_tag_of_any_width_is_not_known(head, compiled):
    layer = head(3, reduction='none')
    emissions = float_tensor(np.random.default_rng(0).normal(size=(4, 2, 3)))
    tags = np.array([[1, 2], [0, 1], [-1, 0], [2, -1]])

    def loss(emissions, tags):
        return layer(emissions, tags)

    expected = layer(emissions, int_tensor(tags)).asnumpy()
    for unknown in (-2 ** 32 + 1, -2 ** 32, -2 ** 63):
        close(compiled(loss)(emissions, ms.Tensor(np.where(tags < 0, unknown, tags))), expected)


@pytest.mark.parametrize('tag', [-1, 3, 2 ** 32, -2 ** 40])
def test_compute_score_of_an_impossible_or_unknown_tag_is_nan(tag, compiled):
    case = Case(0, 5, 4, 3)
    scores = [float_tensor(case.scores[name]) for name in ('transitions', 'start', 'end')]
    emissions, lengths = float_tensor(case.emissions), int_tensor(case.lengths)
    tags = np.where(np.arange(5)[:, None] < case.lengths, case.tags, tag)       # on padding it may stand
    expected = [row.log_normalizer(case.known(b)) for b, row in enumerate(case.rows)]
    mask = sequence_mask(lengths, 5)

    def score(tags):
        return compute_score(emissions, tags, lengths - 1, mask, *scores)

    close(compiled(score)(ms.Tensor(tags)), expected)
    tags[1, 0] = tag
    found = compiled(score)(ms.Tensor(tags))
    assert is_nan(found)[0]
    close(found[1:], expected[1:])


LENGTHS = [(np.int32, -1), (np.int32, 6), (np.int32, -2 ** 31), (np.int64, 2 ** 32 + 2), (np.int64, -2 ** 32 + 2),
           (np.uint8, 200), (np.uint64, 2 ** 64 - 1)]


@pytest.mark.parametrize('length,constraints', [(5, BIO), (140, None)])
def test_a_length_that_can_not_be_gives_nan_in_its_row_alone(length, constraints, compiled):
    """All calls stay usable; paths are those of a length of 0 or of the padded length."""
    case = Case(0, 5, 3, 3, constraints=constraints)
    case.emissions = np.concatenate([case.emissions, np.zeros((length - 5, 3, 3))])
    case.tags = np.concatenate([case.tags, np.zeros((length - 5, 3), int)])
    crf = make_crf(case)
    case.lengths[:2] = [5, 3]
    case.rescore()
    run = functions(crf, compiled, 2)
    emissions, tags = float_tensor(case.emissions), int_tensor(np.maximum(case.tags, 0))
    for dtype, wrong in LENGTHS:
        given = case.lengths.astype(dtype)
        given[0] = wrong if wrong != 6 else length + 1
        given = ms.Tensor(given)
        assert is_nan(run['log_prob'](emissions, tags, given)) == [True, False, False]
        if dtype != np.int32:
            continue                                             # each type compiles anew
        assert is_nan(run['loss'](emissions, tags, given)[0])
        for name in ('normalizer', 'decode', 'nbest', 'viterbi'):
            found = run[name](emissions, given)
            values = {'decode': 1, 'nbest': 1, 'viterbi': 0}.get(name)
            found = found if values is None else found[values]
            assert np.isnan(found.asnumpy()[0]).all() and np.isfinite(found.asnumpy()[1:]).all()
        close(run['normalizer'](emissions, given)[1:], [row.log_normalizer() for row in case.rows[1:]])
        marginals = run['marginals'](emissions, given)
        assert np.isnan(marginals[:, 0].asnumpy()).all()
        close(marginals[:, 1:], case.by_position(lambda _, row: row.marginals())[:, 1:])
        paths, _ = run['decode'](emissions, given)
        paths = paths.asnumpy()
        whole = run['decode'](emissions, int_tensor([length if wrong > 0 else 0, *case.lengths[1:]]))[0]
        assert (paths == whole.asnumpy()).all()
        # The compiled functions go on serving good input.
        good = int_tensor(case.lengths)
        close(run['normalizer'](emissions, good), [row.log_normalizer() for row in case.rows])
        assert np.isfinite(run['loss'](emissions, tags, good)[0].asnumpy())


@pytest.mark.parametrize('reduction', ['mean', 'token_mean', 'sum'])
@pytest.mark.parametrize('head', [CRF, Softmax])
def test_no_reduction_hides_a_length_that_can_not_be(head, reduction, compiled):
    layer = head(3, reduction=reduction)
    emissions = float_tensor(np.random.default_rng(0).normal(size=(5, 3, 3)))
    tags = int_tensor(np.ones((5, 3)))

    def loss(lengths):
        return layer(emissions, tags, lengths)

    run = compiled(loss)
    for wrong in (-1, 6):
        assert is_nan(run(int_tensor([5, 3, wrong])))
    assert np.isfinite(run(int_tensor([5, 3, 0])).asnumpy())


def test_lengths_that_can_not_be_in_one_graph_for_all_shapes(tmp_path):
    for head in (make_crf(Case(0, 4, 2, 3)), Softmax(3)):
        everything = exported(Everything(head), tmp_path / type(head).__name__)
        for length in (5, 9):
            emissions = float_tensor(np.random.default_rng(0).normal(size=(length, 3, 3)))
            good = everything(emissions, int_tensor([length, 2, 0]))
            for wrong in (-1, length + 1):
                found = everything(emissions, int_tensor([length, 2, wrong]))
                for values, expected in zip(found[1:4] + found[5:], good[1:4] + good[5:]):
                    close(values[:2], expected[:2].asnumpy())
                    assert np.isnan(values[2].asnumpy()).all()


def test_softmax_head_clamps_lengths(compiled):
    head = Softmax(3, reduction='none')
    emissions, tags = float_tensor(np.random.default_rng(0).normal(size=(4, 3, 3))), int_tensor(np.ones((4, 3)))
    lengths = ms.Tensor(np.array([4, 2 ** 32 + 2, -3]))

    def all_of_it(lengths):
        paths, scores = head.decode(emissions, lengths)
        return (head(emissions, tags, lengths), scores, head.normalizer(emissions, lengths),
                head.nbest(emissions, 2, lengths)[1][:, 0], head.marginals(emissions, lengths).sum((0, 2)),
                head.path_posteriors(emissions, paths, lengths)[0].sum(1))

    for found in compiled(all_of_it)(lengths):
        assert is_nan(found) == [False, True, True]


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
        given = np.array([200, 2, 0]).astype(dtype)
        if dtype == np.int64:
            given[2] = -2 ** 40
        assert compiled(mask)(ms.Tensor(given)).asnumpy().tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_post_decode_refuses_a_length_that_can_not_be():
    score, history = np.zeros((2, 3)), np.zeros((3, 2, 3), int)
    for wrong in (-1, 5, 2 ** 40):
        with pytest.raises(ValueError, match=f'seq_length must be 0 to 4, the padded length, got {wrong} in row 1'):
            post_decode(score, history, np.array([4, wrong]))


@pytest.mark.parametrize('length,batch', [(1, 3), (5, 4), (5, 160), (140, 160)])     # each way of finding paths
def test_nan_in_one_emission_is_seen(length, batch, compiled):
    """In its row's scores, wherever it stands; paths are valid, the other rows are as they were."""
    rng = np.random.default_rng(0)
    emissions, lengths = rng.normal(size=(length, batch, 3)).astype(np.float32), rng.integers(1, length + 1, batch)
    lengths[:2] = [length, 1]
    crf = CRF(3)
    length_tensor = int_tensor(lengths)

    def everything(emissions):
        paths, best = crf.decode(emissions, length_tensor)
        several, scores = crf.nbest(emissions, 2, length_tensor)
        score, _ = crf(emissions, seq_length=length_tensor)
        chosen, given_before = crf.path_posteriors(emissions, paths, length_tensor)
        return (paths, several, best, scores, score, crf.normalizer(emissions, length_tensor), chosen, given_before,
                ops.transpose(crf.marginals(emissions, length_tensor), (1, 0, 2)))

    run = compiled(everything)
    clean = [found.asnumpy() for found in run(float_tensor(emissions))]
    for position, tag, value in {(0, 0, NAN), (length - 1, 2, NAN), (length // 2, 1, NAN), (length // 2, 0, INF)}:
        faulty = emissions.copy()
        faulty[position, 0, tag] = value
        faulty[1:, 1] = value                                    # padding is not looked at
        found = [tensor.asnumpy() for tensor in run(float_tensor(faulty))]
        for values, expected in zip(found[2:], clean[2:]):
            assert np.isnan(values[0]).all()
            close(values[1:], expected[1:])
        for paths, expected in zip(found[:2], clean[:2]):
            assert ((paths >= 0) & (paths < 3)).all() and (paths[1:] == expected[1:]).all()


def test_nan_in_a_parameter_is_seen(compiled):
    case = Case(0, 5, 3, 3)
    case.lengths[:] = [5, 1, 3]
    crf = make_crf(case)
    run = functions(crf, compiled, 2)
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    for scores, parameter in zip(case.scores.values(), parameters(crf)):
        for value in (NAN, INF):
            faulty = scores.copy()
            faulty.flat[-1] = value
            ms.ops.assign(parameter, float_tensor(faulty))       # a graph does not see set_data once it is compiled
            assert is_nan(run['loss'](emissions, tags, lengths)[0])
            assert np.isnan(run['decode'](emissions, lengths)[1].asnumpy()).all()
            assert np.isnan(run['nbest'](emissions, lengths)[1].asnumpy()).all()
            assert np.isnan(run['viterbi'](emissions, lengths)[0].asnumpy()).all()
            assert is_nan(run['normalizer'](emissions, lengths))[0]
            ms.ops.assign(parameter, float_tensor(scores))


@pytest.mark.parametrize('value', [NAN, INF])
def test_nan_in_an_emission_of_the_softmax_head_is_seen(value, compiled):
    head = Softmax(3, reduction='none')
    emissions = np.random.default_rng(0).normal(size=(4, 3, 3))
    emissions[2, 0, 1], emissions[2, 1, 1] = value, value        # real, and on padding
    tags, lengths = int_tensor([[0, 1, 2]] * 2 + [[-1, 1, 2]] * 2), int_tensor([4, 2, 4])

    def everything(emissions):
        return (head.decode(emissions, lengths)[1], head.nbest(emissions, 2, lengths)[1][:, 0],
                head(emissions, tags, lengths), head.normalizer(emissions, lengths),
                head.marginals(emissions, lengths).sum((0, 2)))

    for found in compiled(everything)(float_tensor(emissions)):
        assert is_nan(found) == [True, False, False]


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
def test_a_mask_with_holes_is_refused(name, dtype):
    for message, mask in MASKS.items():
        with pytest.raises(ValueError, match=f'mask must be 1 on the real positions, .*, {message}'):
            tutorial(ms.Tensor(np.array(mask), dtype))[name]()
    with pytest.raises(ValueError, match='got 0 before 1 in row 1, position 1'):
        tutorial(ms.Tensor(np.array([[1, 1], [1, 0], [1, 1], [1, 0]]) > 0))[name]()


def test_a_mask_with_holes_gives_nan_in_a_graph():
    rng = np.random.default_rng(0)
    emissions, tags = float_tensor(rng.normal(size=(4, 2, 3))), int_tensor(np.ones((4, 2)))
    scores = [float_tensor(rng.normal(size=shape)) for shape in ((3, 3), 3, 3)]

    @ms.jit
    def everything(mask):
        return (compute_score(emissions, tags, tags[0], mask, *scores), compute_normalizer(emissions, mask, *scores),
                viterbi_decode(emissions, mask, *scores)[0][:, 0])

    for found in everything(int_tensor([[1, 1], [1, 0], [1, 1], [1, 0]])):
        assert is_nan(found) == [False, True]
    whole = [found.asnumpy() for found in everything(int_tensor([[1, 1], [1, 0], [1, 0], [1, 0]]))]
    assert np.isfinite(whole).all()
    mask = sequence_mask(int_tensor([4, 1]), 4)
    for found, same in zip(whole, (compute_score(emissions, tags, tags[0], mask, *scores),
                                   compute_normalizer(emissions, mask, *scores),
                                   viterbi_decode(emissions, mask, *scores)[0][:, 0])):
        close(found, same.asnumpy())


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
    for name, (*place, value) in fault.items():
        values[name][tuple(place)] = value
    return values


@pytest.mark.parametrize('batch_first', [False, True])
@pytest.mark.parametrize('message', FAULTS)
def test_a_cell_that_checks_values_names_row_and_position(message, batch_first):
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


def test_a_cell_that_checks_values_lets_pass_what_can_be(compiled):
    """Unknown tags, -inf, anything on padding; in a graph, where it can't look, faults give nan."""
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


def test_a_whole_model_checks_values():
    model = BiLSTM_CRF(10, 4, 6, 3, check_values=True)
    inputs, tags = int_tensor(np.ones((2, 4))), int_tensor(np.ones((2, 4)))
    with pytest.raises(ValueError, match='seq_length must be 0 to 4, the padded length, got 7 in row 1'):
        model(inputs, int_tensor([4, 7]), tags)
    with pytest.raises(ValueError, match='tags must be below num_tags = 3, got 8 in row 0, position 0'):
        model(inputs, int_tensor([4, 3]), tags + 7)
    assert np.isfinite(model(inputs, int_tensor([4, 3]), tags).asnumpy())
    with pytest.raises(TypeError, match='check_values must be True or False, got int'):
        CRF(3, check_values=1)


def test_a_whole_model_answers_a_length_that_can_not_be_with_nan(compiled):
    model = BiLSTM_CRF(10, 4, 6, 3)
    inputs, tags = int_tensor(np.ones((2, 4))), int_tensor(np.ones((2, 4)))

    def loss(lengths):
        return model(inputs, lengths, tags)

    run = compiled(loss)
    assert is_nan(run(int_tensor([4, 7]))) and is_nan(run(int_tensor([4, -1])))
    assert np.isfinite(run(int_tensor([4, 3])).asnumpy())


def test_absent_paths_of_a_row_with_nan():
    """More paths asked for than there are, in a row that can't be scored."""
    crf = CRF(2)
    emissions = np.zeros((2, 2, 2))
    emissions[0, 0, 0] = NAN
    _, scores = crf.nbest(float_tensor(emissions), 6)
    assert np.isnan(scores[0].asnumpy()).all()
    assert (scores[1, 4:].asnumpy() == np.float32(LOWEST)).all()


def test_repr_says_how_the_layer_was_made():
    for crf, expected in (
            (CRF(10), "num_tags=10, batch_first=False, reduction='sum', constraints=None, check_values=False"),
            (CRF(3, True, 'mean', BIO, True), "num_tags=3, batch_first=True, reduction='mean', "
                                              'constraints=8 of 9 transitions, check_values=True'),
            (Softmax(4, reduction='none'), "num_tags=4, batch_first=False, reduction='none'"),
            (BiLSTM_CRF(9, 4, 6, 3), 'num_tags=3, batch_first=True')):
        assert expected in repr(crf)
