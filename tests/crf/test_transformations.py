"""Transformations of MindSpore: graphs for any length work, and unsupported transformations are refused."""

import os
import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from support.chains import make_crf, parameters
from support.oracle import Case
from support.paths import ROOT
from support.tensors import close, compiled_graphs, float_tensor, int_tensor

pytestmark = pytest.mark.slow


@pytest.fixture
def case():
    return Case(0, 4, 3, 3)


def test_transformations_loss_and_gradient_are_compiled_once_for_all_lengths():
    cases = [Case(length, length, 4, 3, unknown=0.2 * (length % 2)) for length in (3, 4, 6, 2, 7, 1, 5)]
    for other in cases[1:]:
        other.scores = cases[0].scores
        other.rescore()
    crf = make_crf(cases[0])

    def loss(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    step = ms.jit(ms.value_and_grad(loss, 0, parameters(crf)), dynamic=1)
    compiled = []
    for case in cases:
        value, (by_emissions, by_scores) = step(float_tensor(case.emissions), int_tensor(case.tags),
                                                int_tensor(case.lengths))
        close(value, case.losses().sum())
        for actual, expected in zip((by_emissions, *by_scores), case.gradients()):
            close(actual, expected)
        compiled.append(compiled_graphs())
    # MindSpore compiles a graph for the first length, another for the second, then one for all lengths.
    assert len(set(compiled[2:])) == 1


RECORDED = """
from ms_crf import CRF, compute_normalizer
import mindspore as ms
import numpy as np
crf, emissions = CRF(3), ms.Tensor(np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32))
tags, lengths, mask = ms.ops.zeros((4, 2), ms.int32), ms.Tensor([4, 2]), ms.ops.ones((4, 2), ms.int32)
def loss(emissions):
    return crf(emissions, tags, lengths)
def marginals(emissions):
    return crf.marginals(emissions, lengths)
def normalizer(emissions):
    return compute_normalizer(emissions, mask, crf.transitions, crf.start_transitions, crf.end_transitions)
def results():
    return [float(loss(emissions)), float(ms.jit(loss)(emissions)), float(ms.grad(loss)(emissions).sum())]
before = results()
for function in (loss, marginals, normalizer, loss):
    try:
        ms.jit(function, capture_mode='trace')(emissions)
    except RuntimeError as error:
        print(error)
assert results() == before
"""


def test_transformations_what_is_recorded_by_trace_is_refused(tmp_path):
    """ms.jit with capture_mode='trace' raises an error, because it would always take the branches of the first call.

    Results after the error are the same as before. The test writes a file, because a trace needs the program's file.
    """
    file = tmp_path / 'program.py'
    file.write_text(RECORDED, encoding='utf-8')
    result = subprocess.run([sys.executable, str(file)], env={**os.environ, 'PYTHONPATH': str(ROOT)}, timeout=120,
                            capture_output=True, text=True)
    line = "the layer does not support ms.jit(capture_mode='trace'), which records only one branch of each " \
           'condition; omit capture_mode\n'
    assert (result.returncode, result.stdout, result.stderr) == (0, 4 * line, '')


def test_transformations_what_serves_instead_of_vmap_and_jacobians(case):
    """The Jacobian of the normalizers by `ms.vjp`, row by row, agrees with the enumerated marginals."""
    crf = make_crf(case)
    lengths = int_tensor(case.lengths)

    def normalizer(emissions):
        return crf.normalizer(emissions, lengths)

    rows = []
    for row in range(3):
        factors = float_tensor(np.eye(3)[row])
        rows.append(ms.vjp(normalizer, float_tensor(case.emissions))[1](factors)[0].asnumpy())
    marginals = case.by_position(lambda _, row: row.marginals())
    for b, jacobian in enumerate(rows):
        close(jacobian, marginals * (np.arange(3) == b)[:, None])


def test_transformations_n_best_paths_of_any_shape_are_refused(case, tmp_path, monkeypatch):
    """In a graph for any shape `nbest` raises an error of one line; with a fixed shape it works."""
    crf = make_crf(case)
    monkeypatch.chdir(tmp_path)                                  # MindSpore writes rank_0/ here

    class Best(nn.Cell):
        def construct(self, emissions):
            return crf.nbest(emissions, 2)

    cell = Best()
    cell.set_inputs(ms.Tensor(shape=[None, None, 3], dtype=ms.float32))
    with pytest.raises(ValueError) as raised:
        ms.jit(cell)(float_tensor(case.emissions))
    assert str(raised.value).startswith('nbest needs emissions of a fixed shape, got (None, None, 3)')
    assert ms.jit(crf.nbest)(float_tensor(case.emissions), 2)[0].shape == (3, 2, 4)
