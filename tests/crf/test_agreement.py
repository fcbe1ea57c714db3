"""The operators in C++ agree with plain operators in every row, whatever the other rows contain.

Also tests value and gradient of several calls in one compiled function.
"""

from ms_crf import CRF, allowed_transitions
from ms_crf.native import custom, library

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops

from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

pytestmark = pytest.mark.skipif(library.find().path is None, reason=library.find().reason)
LENGTH, BATCH, TAGS = 4, 4, 3
BIO = allowed_transitions('BIO', ['O', 'B', 'I'])


def by_both(call):
    """Results of a call with the operators in C++, then with plain operators."""
    results = []
    for native in (True, False):
        custom.use(native)
        try:
            results.append([tensor.asnumpy() for tensor in call()])
        finally:
            custom.use(True)
    return results


def random_batch(rng):
    """A random layer and batch. Some scores are -inf, +inf or nan; some tags and lengths are unknown or invalid."""
    crf = CRF(TAGS, reduction='none', constraints=BIO if rng.random() < 0.3 else None)
    for parameter in crf.get_parameters():
        values = rng.normal(size=parameter.shape)
        if rng.random() < 0.2:
            values.flat[rng.integers(values.size)] = rng.choice([-np.inf, np.inf, np.nan])
        parameter.set_data(float_tensor(values))
    emissions = rng.normal(size=(LENGTH, BATCH, TAGS)) * rng.choice([1, 50])
    tags = rng.integers(0, TAGS, (LENGTH, BATCH))
    paths = rng.integers(0, TAGS, (BATCH, 2, LENGTH))
    weights = rng.random((BATCH, 2)) * (rng.random((BATCH, 2)) < 0.6)
    for row in range(BATCH):
        if rng.random() < 0.5:
            emissions[rng.integers(LENGTH), row, rng.integers(TAGS)] = rng.choice([np.nan, np.inf, -np.inf])
        if rng.random() < 0.4:
            tags[rng.integers(LENGTH), row] = rng.choice([-1, TAGS, 1000])
            paths[row, rng.integers(2), rng.integers(LENGTH)] = rng.choice([-1, TAGS, 1000])
    lengths = rng.integers(0, LENGTH + 1, BATCH)
    if rng.random() < 0.2:
        lengths[rng.integers(BATCH)] = rng.choice([-1, LENGTH + 1])
    targets = rng.dirichlet(np.ones(TAGS), (LENGTH, BATCH))
    return (crf, float_tensor(emissions), int_tensor(tags), int_tensor(lengths), int_tensor(paths),
            float_tensor(weights), float_tensor(targets))


def check_rows(one, other, what):
    """Compares two results row by row.

    In a row without an allowed path, plain operators add a large penalty for each forbidden step. Rounding then hides
    the other scores, so the tolerance is larger.
    """
    for row, (actual, expected) in enumerate(zip(one, other)):
        hidden = np.abs(np.nan_to_num(expected)).max(initial=0.0) > 1000.0
        np.testing.assert_allclose(actual, expected, 1e-3, 50.0 if hidden else 1e-3, err_msg=f'{what}, row {row}')


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(12))
def test_agreement_rows_of_any_values(seed):
    crf, emissions, tags, lengths, paths, weights, targets = random_batch(np.random.default_rng(seed))
    calls = {
        'loss': lambda: [crf(emissions, tags, lengths)],
        'log_prob': lambda: [crf.log_prob(emissions, tags, lengths)],
        'normalizer': lambda: [crf.normalizer(emissions, lengths)],
        'viterbi': lambda: [crf.viterbi(emissions, lengths)[0]],
        'decode': lambda: crf.decode(emissions, lengths),
        'nbest': lambda: crf.nbest(emissions, 3, lengths),
        'path_cross_entropy': lambda: [crf.path_cross_entropy(emissions, paths, weights, lengths)],
        'cross_entropy': lambda: [crf.cross_entropy(emissions, targets, lengths)]}
    none_allowed = (np.nan_to_num(crf.normalizer(emissions, lengths).asnumpy()) < -1000.0).any()
    if not none_allowed:                                         # else penalties hide which paths are likely
        calls['marginals'] = lambda: [crf.marginals(emissions, lengths).swapaxes(0, 1)]
        calls['path_posteriors'] = lambda: crf.path_posteriors(emissions, ops.maximum(paths[:, 0], 0) % TAGS, lengths)
        calls['mbr_decode'] = lambda: crf.mbr_decode(emissions, lengths)
    for name, call in calls.items():
        for one, other in zip(*by_both(call)):
            check_rows(one, other, name)

    def loss(emissions, weights):
        losses = crf(emissions, tags, lengths) + crf.path_cross_entropy(emissions, paths, weights, lengths)
        return ops.where(ops.isnan(losses), ops.zeros_like(losses), losses).sum()

    def gradients():
        by_inputs, by_scores = ms.grad(loss, (0, 1), crf.trainable_params())(emissions, weights)
        return [by_inputs[0].swapaxes(0, 1), by_inputs[1], *by_scores]

    if not none_allowed:
        for one, other in zip(*by_both(gradients)):
            check_rows(one, other, 'gradient')


@pytest.mark.parametrize('native', [True, False])
def test_agreement_an_impossible_tag_spoils_its_row_alone(native):
    """An invalid tag makes only the loss of its row nan. All other losses agree with enumeration in float64."""
    case = Case(0, 5, 4, 3)
    crf = CRF(3, reduction='none')
    for name, parameter in (('transitions', crf.transitions), ('start', crf.start_transitions),
                            ('end', crf.end_transitions)):
        parameter.set_data(float_tensor(case.scores[name]))
    tags = case.tags.copy()
    row = int(np.argmax(case.lengths))
    tags[0, row] = 3
    custom.use(native)
    try:
        losses = crf(float_tensor(case.emissions), int_tensor(tags), int_tensor(case.lengths)).asnumpy()
    finally:
        custom.use(True)
    others = np.arange(len(losses)) != row
    assert np.isnan(losses[row])
    close(losses[others], case.losses()[others])


def test_agreement_a_path_of_weight_0_is_not_looked_at():
    crf = CRF(3, reduction='none')
    emissions = float_tensor(np.random.default_rng(0).normal(size=(3, 2, 3)))
    paths = int_tensor([[[0, 1, 2], [9, 9, 9]], [[0, 0, 0], [2, -1, 1]]])
    weights = float_tensor([[1.0, 0.0], [0.5, 0.5]])

    def total(emissions, weights):
        return crf.path_cross_entropy(emissions, paths, weights).sum()

    def everything():
        value, gradients = ms.value_and_grad(total, (0, 1))(emissions, weights)
        return [value, *gradients]

    for one, other in zip(*by_both(everything)):
        assert np.isfinite(one).all()
        close(one, other)


CRF_ = CRF(TAGS, constraints=BIO)
E_, T_ = float_tensor(np.random.default_rng(1).normal(size=(3, 2, TAGS))), int_tensor(np.zeros((3, 2)))
PATHS = int_tensor(np.zeros((2, 3)))


def posteriors_and_loss(emissions):
    chosen, conditional = CRF_.path_posteriors(emissions, PATHS)
    return (chosen ** 2).sum() + (conditional ** 2).sum() + CRF_(emissions, T_)


def marginals_and_entropy(emissions):
    return (CRF_.marginals(emissions) ** 2).sum() + CRF_.entropy(emissions).sum() + CRF_.mbr_decode(emissions)[1].sum()


@pytest.mark.slow
@pytest.mark.parametrize('function', [posteriors_and_loss, marginals_and_entropy])
def test_agreement_value_and_gradient_in_one_compiled_function(function):
    """Value and gradients of a compiled function agree with plain operators and with a finite difference.

    There is no `seq_length`, so the compiler knows all lengths.
    """
    value, (by_emissions, by_scores) = ms.jit(ms.value_and_grad(function, 0, CRF_.trainable_params()))(E_)
    close(value, function(E_).asnumpy())
    custom.use(False)
    try:
        expected, (plain, plain_scores) = ms.value_and_grad(function, 0, CRF_.trainable_params())(E_)
        direction = np.random.default_rng(2).normal(size=E_.shape)
        ahead, back = (float(function(E_ + float_tensor(step * direction))) for step in (1e-2, -1e-2))
    finally:
        custom.use(True)
    close(value, expected.asnumpy())
    for actual, wanted in zip((by_emissions, *by_scores), (plain, *plain_scores)):
        close(actual, wanted.asnumpy())
    assert (by_emissions.asnumpy() * direction).sum() == pytest.approx((ahead - back) / 2e-2, rel=1e-2, abs=1e-2)
