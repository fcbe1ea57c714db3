"""Creation and comparison of tensors, and the number of compiled graphs."""

from ms_crf.crf.mindspore_fixes import private

import mindspore as ms
import numpy as np


def float_tensor(values):
    return ms.Tensor(np.asarray(values, np.float32))


def int_tensor(values):
    return ms.Tensor(np.asarray(values, np.int32))


def close(found, expected, tolerance=1e-5):
    """Asserts equal shapes and nearly equal values.

    Values may differ by `tolerance` times the largest expected value (at least 1), plus the same relative error.
    """
    found = found.asnumpy() if hasattr(found, 'asnumpy') else np.asarray(found)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


def is_nan(actual):
    return np.isnan(actual.asnumpy()).tolist()


def compiled_graphs():
    """The number of graphs that this process has compiled."""
    return len(private('ms_compile_cache', 'count graphs', 'mindspore.graph.api', 'mindspore.common.api'))
