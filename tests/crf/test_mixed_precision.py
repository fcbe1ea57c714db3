"""Every kind of MindSpore's mixed precision around the layer: its own arithmetic stays in float32, beside float64."""

from ms_crf import CRF, BiLSTM_CRF, allowed_transitions, compute_normalizer, sequence_mask
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from conftest import close, float_tensor, int_tensor, make_crf, parameters
from oracle import Case

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
LEVELS = {
    **{level: lambda net, level=level: ms.amp.auto_mixed_precision(net, level)
       for level in ('O0', 'O1', 'O2', 'O3', 'auto')},
    'white list': lambda net: ms.amp.custom_mixed_precision(
        net, white_list=[nn.Dense, ops.MatMul, ops.BatchMatMul, ops.Exp]),
    'black list': lambda net: ms.amp.custom_mixed_precision(net, black_list=[nn.LayerNorm]),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Where MindSpore may leave the classes that O1 and white lists write anew."""
    monkeypatch.chdir(tmp_path)


class Losses(nn.Cell):
    """The head's loss, behind a layer that may be cast; its weights are 1, so that nothing is rounded there."""

    def __init__(self, head):
        super().__init__()
        self.dense = nn.Dense(3, 3, float_tensor(np.eye(3)), has_bias=False)
        self.head = head

    def construct(self, emissions, tags, lengths):
        return self.head(self.dense(emissions), tags, lengths)


class Marginals(Losses):
    """All that is known of the tags."""

    def construct(self, emissions, lengths):
        emissions = self.dense(emissions)
        paths, scores = self.head.decode(emissions, lengths)
        return self.head.marginals(emissions, lengths), self.head.normalizer(emissions, lengths), paths, scores


def case_of(constraints=None):
    """Scores that 16 bits hold exactly, with sums that they don't."""
    case = Case(1, 6, 4, 3, scale=40.0, constraints=constraints, integers=True)
    case.emissions[np.arange(6)[:, None] >= case.lengths] = 7.0
    return case


def inputs_of(case):
    return float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths)


@pytest.mark.parametrize('level,constraints', [*((level, None) for level in LEVELS), ('O1', BIO), ('auto', BIO)])
def test_loss_and_gradients(level, constraints, compiled):
    case = case_of(constraints)
    crf = make_crf(case)
    mixed = LEVELS[level](Losses(crf))

    def loss(emissions, tags, lengths):
        return mixed(emissions, tags, lengths)

    value, gradients = compiled(ms.value_and_grad(loss, 0, parameters(crf)))(*inputs_of(case))
    assert value.dtype == ms.float32
    close(value, case.losses().sum())
    # What the layer hands on to emissions passes through the 16 bits of the layer before it.
    for actual, expected, tolerance in zip((gradients[0], *gradients[1]), case.gradients(), (1e-2, 1e-5, 1e-5, 1e-5)):
        close(actual, expected, tolerance)


@pytest.mark.parametrize('level', ['O1', 'O2', 'auto', 'white list'])
def test_posteriors_and_paths(level, compiled):
    case = case_of(BIO)
    mixed = LEVELS[level](Marginals(make_crf(case)))

    def known(emissions, lengths):
        return mixed(emissions, lengths)

    marginals, normalizer, paths, scores = compiled(known)(*inputs_of(case)[::2])
    close(marginals, case.by_position(lambda b, row: row.marginals()))
    close(normalizer, [row.log_normalizer() for row in case.rows])
    assert [path[:n].tolist() for path, n in zip(paths.asnumpy(), case.lengths)] == [row.best() for row in case.rows]
    close(scores, [row.scores.max() for row in case.rows])


@pytest.mark.parametrize('level', LEVELS)
def test_softmax_head(level, compiled):
    case = case_of()
    emissions, tags, lengths = inputs_of(case)
    mixed = LEVELS[level](Losses(Softmax(3)))
    top = case.emissions.max(2)
    normalizer = top + np.log(np.exp(case.emissions - top[:, :, None]).sum(2))
    picked = np.take_along_axis(case.emissions, np.maximum(case.tags, 0)[:, :, None], 2)[:, :, 0]
    live = np.arange(6)[:, None] < case.lengths

    def loss(emissions, tags, lengths):
        return mixed(emissions, tags, lengths)

    actual = compiled(loss)(emissions, tags, lengths)
    assert actual.dtype == ms.float32
    close(actual, ((normalizer - picked) * live).sum())


@pytest.mark.parametrize('constraints,dtype', [(None, ms.float16), (BIO, ms.bfloat16)])
def test_level_auto_of_the_layer_itself_and_of_functions(constraints, dtype, compiled):
    case = case_of(constraints)
    emissions, tags, lengths = inputs_of(case)
    mixed, crf = ms.amp.auto_mixed_precision(make_crf(case), 'auto', dtype), make_crf(case)

    def loss(emissions):
        return mixed(emissions, tags, lengths)

    def normalizer(emissions):
        return crf.normalizer(emissions, lengths)

    close(compiled(loss)(emissions), case.losses().sum())
    close(compiled(ms.amp.auto_mixed_precision(normalizer, 'auto', dtype))(emissions),
          [row.log_normalizer() for row in case.rows])
    if constraints is None:
        def tutorial(emissions):
            return compute_normalizer(emissions, sequence_mask(lengths, 6), *parameters(crf))

        close(compiled(ms.amp.auto_mixed_precision(tutorial, 'auto', dtype))(emissions),
              [row.log_normalizer() for row in case.rows])


@pytest.mark.parametrize('compiled,level', [
    *(('pynative', level) for level in LEVELS), *(('graph', level) for level in ('O1', 'O2', 'auto', 'white list'))],
    indirect=['compiled'])
def test_the_whole_model(level, compiled):
    """What comes into its CRF is rounded; what comes out of it agrees with the layer given the same."""
    ms.set_seed(1)
    model = BiLSTM_CRF(9, 6, 8, 3, constraints=BIO)
    for parameter in model.trainable_params():
        parameter.set_data(parameter * 3)
    inputs, lengths, tags = int_tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), int_tensor([4, 2]), int_tensor([[0, 1, 2, 0]] * 2)
    expected, gradients = ms.value_and_grad(model, None, model.trainable_params())(inputs, lengths, tags)
    expected, gradients = float(expected), [gradient.asnumpy() for gradient in gradients]
    mixed = LEVELS[level](model)

    def loss(inputs, lengths, tags):
        return mixed(inputs, lengths, tags)

    value, actual = compiled(ms.value_and_grad(loss, None, model.trainable_params()))(inputs, lengths, tags)
    assert value.dtype == ms.float32
    close(value, expected, 1e-2)
    for one, other in zip(actual, gradients):
        close(one.astype(ms.float32), other, 3e-2)


def test_the_layer_in_a_black_list_is_refused():
    with pytest.raises(ValueError, match='^black_list must not hold CRF, whose results would be cast to 16 bits;'):
        ms.amp.custom_mixed_precision(Losses(CRF(3)), black_list=[CRF])
