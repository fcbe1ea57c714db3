"""What the tests share: the layer with given scores, running a function in either mode, a small training."""

import random
import subprocess
import sys
from pathlib import Path

from ms_crf import CRF

import mindspore as ms
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--batch-size', '4',
         '--epochs', '3', '--learning-rate', '0.05', '--average', '0.9', '--device', 'CPU']
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


def write_corpus(path, count, seed):
    """Sentences of 3 to 5 words; in the test corpus one of 12, for which a graph is compiled at the very end."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        words = 9 if number == 3 and path.name == 'test.tsv' else rng.randint(0, 2)
        for word in rng.choices('to in at on by'.split(), k=words) + ['of']:
            rows.append(f'{word}\tO')
        rows.append(f'{rng.choice("Xan Xel Xor".split())}\tB-PER')
        rows.append(f'{rng.choice("Yan Yel Yor".split())}\tI-PER\n')
    path.write_text('\n'.join(rows) + '\n', encoding='utf-8')


@pytest.fixture(scope='session')
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp('corpora')
    for seed, (part, count) in enumerate((('train', 21), ('dev', 6), ('test', 6))):
        write_corpus(folder / f'{part}.tsv', count, seed)
    return folder


def files(corpora, **others):
    named = {part: corpora / f'{part}.tsv' for part in ('train', 'dev', 'test')}
    return [text for name, path in {**named, **others}.items() for text in (f'--{name}', str(path))]


@pytest.fixture(scope='session')
def undisturbed(corpora):
    """A run in a process of its own, with its output."""
    folder = corpora / 'undisturbed'
    result = subprocess.run([sys.executable, 'train.py', *files(corpora), *SMALL, '--save', str(folder)], cwd=ROOT,
                            capture_output=True, text=True, timeout=200)
    return folder, result
