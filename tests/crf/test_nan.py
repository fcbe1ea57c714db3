"""nan and +inf in emissions and parameters: seen in all that is said of their rows, in both modes."""

from ms_crf import CRF
from ms_crf.crf.nbest import LOWEST
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops
from test_values import is_nan

from conftest import AllCalls, close, float_tensor, int_tensor, parameters
from oracle import Case

NAN, INF = float('nan'), float('inf')


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
        chosen, conditional = crf.path_posteriors(emissions, paths, length_tensor)
        return (paths, several, best, scores, score, crf.normalizer(emissions, length_tensor), chosen, conditional,
                ops.transpose(crf.marginals(emissions, length_tensor), (1, 0, 2)))

    run = compiled(everything)
    clean = [actual.asnumpy() for actual in run(float_tensor(emissions))]
    places = [(length // 2, 1, NAN), (0, 0, NAN), (length - 1, 2, NAN), (length // 2, 0, INF)]
    for position, tag, value in places if compiled is ms.jit or length == 5 else places[:1]:
        faulty = emissions.copy()
        faulty[position, 0, tag] = value
        faulty[1:, 1] = value                                    # padding is not looked at
        actual = [tensor.asnumpy() for tensor in run(float_tensor(faulty))]
        for values, expected in zip(actual[2:], clean[2:]):
            assert np.isnan(values[0]).all()
            close(values[1:], expected[1:])
        for paths, expected in zip(actual[:2], clean[:2]):
            assert ((paths >= 0) & (paths < 3)).all() and (paths[1:] == expected[1:]).all()


def test_nan_in_a_parameter_is_seen(compiled):
    case = Case(0, 5, 4, 3)
    case.lengths[:] = [5, 1, 3, 2]
    layer = AllCalls.of(case, compiled)
    emissions, tags, lengths = float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)
    for scores, parameter in zip(case.scores.values(), parameters(layer.crf)):
        for value in (NAN, INF):
            faulty = scores.copy()
            faulty.flat[-1] = value
            ms.ops.assign(parameter, float_tensor(faulty))       # a graph does not see set_data once it is compiled
            actual = layer(emissions, tags, lengths)
            assert is_nan(actual['loss']) and is_nan(actual['normalizer'])[0]
            for several in (actual['decode'][1], actual['nbest'][1], actual['viterbi'][0]):
                assert np.isnan(several.asnumpy()).all()
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

    for actual in compiled(everything)(float_tensor(emissions)):
        assert is_nan(actual) == [True, False, False]


def test_absent_paths_of_a_row_with_nan():
    """More paths asked for than there are, in a row that can't be scored."""
    crf = CRF(2)
    emissions = np.zeros((2, 2, 2))
    emissions[0, 0, 0] = NAN
    _, scores = crf.nbest(float_tensor(emissions), 6)
    assert np.isnan(scores[0].asnumpy()).all()
    assert (scores[1, 4:].asnumpy() == np.float32(LOWEST)).all()
