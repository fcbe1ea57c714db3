"""Small trainings: files, options, stopping, comparison of two runs, and shared graphs."""

import contextlib
import io
import json
import subprocess
import sys

from ms_crf.cli import train
from ms_crf.cli.terminal import TrainingTerminal
from ms_crf.native import custom
from ms_crf.runs import model_types, records
from ms_crf.training import step
from ms_crf.training.workers import ALONE

import mindspore as ms
import numpy as np

from support.paths import ROOT

SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--batch-size', '4',
         '--epochs', '3', '--learning-rate', '0.05', '--average', '0.9', '--scheme', 'BIO', '--device', 'CPU']


def files(corpora, **others):
    named = {part: corpora / f'{part}.tsv' for part in ('train', 'dev', 'test')}
    return [text for name, path in {**named, **others}.items() for text in (f'--{name}', str(path))]


def options_of(arguments):
    """The `Options` of a train.py command line that starts a new run."""
    return train.options_of(arguments)


def printed(main, *arguments):
    """Runs a command in this process; returns status, output and errors. For fixtures that cannot use `capsys`."""
    streams = [io.TextIOWrapper(io.BytesIO(), 'utf-8', write_through=True) for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = main([*map(str, arguments)])
    return status, *(stream.buffer.getvalue().decode() for stream in streams)


@contextlib.contextmanager
def plugins_forgotten():
    """Removes model types and modules that plugins add in a `with` block, as the end of a process does."""
    types, models, modules, path = dict(model_types.TYPES), list(model_types.MODELS), {*sys.modules}, sys.path[:]
    try:
        yield
    finally:
        model_types.TYPES.clear()
        model_types.TYPES.update(types)
        model_types.MODELS[:], sys.path[:] = models, path
        for name in {*sys.modules} - modules:
            if name.startswith('ms_crf_plugin_') or name == 'own_model':
                del sys.modules[name]


def train_py(*arguments):
    """Starts a training in a new process, with pipes for its output."""
    return subprocess.Popen([sys.executable, 'train.py', *map(str, arguments)], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class StopAt(TrainingTerminal):
    """Stops a training after `step` steps."""

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
    """Weights and optimizer state of a run, without the biases of an encoder's keys.

    A key bias adds the same number to all scores of a query, which softmax cancels. So its gradient is only rounding
    errors, but Adam scales them to steps of normal size.
    """
    state = records.read_tensors(folder / records.STATE)
    for name, array in state.items():
        if name.endswith('.attention.inputs.bias'):
            state[name] = np.delete(array.reshape(3, -1), 1, 0)              # biases of queries, keys and values
    return state


def close_to(folder, other, steps):
    """Checks that two runs have nearly the same weights and optimizer state after `steps` steps."""
    one, two = map(state_of, (folder, other))
    assert one['position'].tolist() == two['position'].tolist() and one['position'][2] == steps
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_allclose(two[name], array, rtol=2e-3, atol=1e-4, err_msg=name)
    assert max(np.abs(two[name] - array).max() for name, array in one.items() if 'table' not in name) < 1e-4


def description(cell):
    """The types and plain attributes of a cell and its subcells: all that a graph depends on, except parameters."""
    found = []
    for name, part in cell.cells_and_names():
        plain = {key: value for key, value in vars(part).items() if not key.startswith('_') and isinstance(
            value, (bool, int, float, str, tuple, list))}
        found.append(f'{name} {type(part).__module__}.{type(part).__qualname__} {plain}')
    return '\n'.join(found)


class SharedGraphs:
    """Compiled functions that trainings with equal networks share, in this process.

    A step takes two seconds to compile. For another training, the parameters of the graph temporarily get the values
    of the training's parameters. Afterwards the results are copied to the training, and the values are restored.
    """

    def __init__(self):
        self.made = {}

    def function(self, key, parameters, make):
        """The function that `make` returns, for these parameters. It is compiled once for each key."""
        shapes = tuple((parameter.name, parameter.shape, parameter.dtype) for parameter in parameters)
        if (key, shapes) not in self.made:
            self.made[key, shapes] = parameters, make()
        own, function = self.made[key, shapes]
        if own is parameters:
            return function

        def in_its_place(*tensors):
            before = [ms.Tensor(parameter.asnumpy().copy()) for parameter in own]
            for parameter, value in zip(own, parameters):
                parameter.copy_(value)                           # 50 times faster than an assignment
            try:
                return function(*tensors)
            finally:
                for parameter, value, kept in zip(own, parameters, before):
                    value.copy_(parameter)
                    parameter.copy_(kept)
        return in_its_place

    def make_step(self, network, optimizer, loss_scale=False, workers=ALONE):
        """Same as `ms_crf.training.step.make_step`, with shared graphs."""
        key = (description(network), description(optimizer), loss_scale, workers, custom.in_use())
        return self.function(key, [*network.get_parameters(), *optimizer.state()],
                             lambda: step.make_step(network, optimizer, loss_scale, workers))

    def make_average(self, network, average, kept=()):
        """Same as `ms_crf.training.step.make_average`, with shared graphs."""
        parameters = [*network.trainable_params(), *average.trainable_params()]
        return self.function(('average', *sorted(kept)), parameters, lambda: step.make_average(network, average, kept))
