"""Small trainings: their files and options, how they are stopped, and how two of them are compared."""

import io
import json
import subprocess
import sys

from ms_crf.cli import train
from ms_crf.cli.terminal import Watcher
from ms_crf.runs import records

import numpy as np

from support.paths import ROOT

SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--batch-size', '4',
         '--epochs', '3', '--learning-rate', '0.05', '--average', '0.9', '--scheme', 'BIO', '--device', 'CPU']


def files(corpora, **others):
    named = {part: corpora / f'{part}.tsv' for part in ('train', 'dev', 'test')}
    return [text for name, path in {**named, **others}.items() for text in (f'--{name}', str(path))]


def options_of(arguments):
    """The `Options` of a command line of train.py that begins a new run."""
    return train.options_of(arguments)


def train_py(*arguments):
    """A training in processes of its own, with what it says line by line."""
    return subprocess.Popen([sys.executable, 'train.py', *map(str, arguments)], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class StopAt(Watcher):
    """Says stop after a step."""

    def __init__(self, step):
        super().__init__(io.StringIO())
        self.steps_left = step

    def step(self, sentences, loss):
        super().step(sentences, loss)
        self.steps_left -= 1

    def stopping(self):
        return self.steps_left == 0


def tensors(folder):
    return {name: records.read_tensors(folder / name) for name in (records.STATE, records.WEIGHTS)}


def assert_same_bits(folder, other):
    found, expected = tensors(folder), tensors(other)
    for name, arrays in expected.items():
        assert found[name].keys() == arrays.keys()
        for key, array in arrays.items():
            assert found[name][key].tobytes() == array.tobytes(), f'{key} of {name}'
    scores = [json.loads((place / records.SCORES).read_text()) for place in (folder, other)]
    assert scores[0] == scores[1]


def state_of(folder):
    """Weights, and what the optimizer knows of them, but for the biases of an encoder's keys.

    These add the same to all scores of a query, which a softmax takes out again: their gradients are rounding alone,
    of which Adam makes steps of some size.
    """
    state = records.read_tensors(folder / records.STATE)
    for name, array in state.items():
        if name.endswith('.attention.inputs.bias'):
            state[name] = np.delete(array.reshape(3, -1), 1, 0)              # of queries, keys and values
    return state


def close_to(folder, other, steps):
    """Weights, and what the optimizer knows of them, after so many steps."""
    one, two = map(state_of, (folder, other))
    assert one['position'].tolist() == two['position'].tolist() and one['position'][2] == steps
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_allclose(two[name], array, rtol=2e-3, atol=1e-4, err_msg=name)
    assert max(np.abs(two[name] - array).max() for name, array in one.items() if 'table' not in name) < 1e-4
