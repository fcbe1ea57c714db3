"""What the tests share: the layer with given scores, and running a function in either mode."""

from ms_crf import CRF

import mindspore as ms
import numpy as np
import pytest

NAMES = {'transitions': 'transitions', 'start': 'start_transitions', 'end': 'end_transitions'}


def float_tensor(values):
    return ms.Tensor(np.asarray(values, np.float32))


def int_tensor(values):
    return ms.Tensor(np.asarray(values, np.int32))


def make_crf(case, **options):
    """A CRF with the scores and constraints of an `oracle.Case`."""
    crf = CRF(case.num_tags, constraints=case.constraints, **options)
    for name, parameter in NAMES.items():
        getattr(crf, parameter).set_data(float_tensor(case.scores[name]))
    return crf


def parameters(crf):
    return [getattr(crf, name) for name in NAMES.values()]


def close(found, expected, tolerance=1e-5):
    """Equal within a relative error, of the largest value where single ones are small."""
    found = found.asnumpy() if hasattr(found, 'asnumpy') else np.asarray(found)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(params=['graph', 'pynative'])
def compiled(request):
    """ms.jit in static-graph mode; what it is given, unchanged, in PyNative mode."""
    return ms.jit if request.param == 'graph' else lambda function: function
