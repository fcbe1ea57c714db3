"""The BiLSTM and its gradients agree with an LSTM in float64 NumPy, which agrees with PyTorch's LSTM."""

from functools import partial

from ms_crf.nn.bilstm import BiLSTM

import mindspore as ms
import numpy as np
import pytest

from support.networks import LSTM_WEIGHTS, bilstm, derivative, lstm_weights
from support.tensors import close, float_tensor, int_tensor

LENGTH, BATCH, WIDTH, HIDDEN = 5, 4, 3, 6


def weighted_by_numpy(names, lengths, factors, arrays):
    """The weighted sum of the outputs by NumPy. `arrays` is a dict of 'inputs' and of the weights by name."""
    weights = [arrays[name] for name in names]
    return sum((bilstm(arrays['inputs'][:length, row], weights[:4], weights[4:]) * factors[:length, row]).sum()
               for row, length in enumerate(lengths) if length)


@pytest.mark.parametrize('training', [pytest.param(False, marks=pytest.mark.quick), True])
def test_bilstm_outputs_and_gradients_are_those_of_numpy(compiled, training):
    """Outputs at real positions and all gradients agree with float64 NumPy, whatever padding contains.

    One compiled function works with all lengths, including 0 and 1.
    """
    ms.set_seed(1)
    lstm = BiLSTM(WIDTH, HIDDEN).set_train(training)
    weights = lstm.trainable_params()
    values = [*lstm_weights(lstm.forward_lstm), *lstm_weights(lstm.backward_lstm)]
    names = [next(parameter.name for parameter in cell.trainable_params() if kind in parameter.name)
             for cell in (lstm.forward_lstm, lstm.backward_lstm) for kind in LSTM_WEIGHTS]
    assert len(weights) == 8 and {weight.name for weight in weights} == set(names)

    def weighted(inputs, lengths, factors):
        outputs = lstm(inputs, lengths)
        return (outputs * factors).sum(), outputs

    run = compiled(ms.value_and_grad(weighted, 0, weights, has_aux=True))
    generator = np.random.default_rng(0)
    for lengths in ([5, 0, 1, 3], [1, 1, 1, 1], [5, 5, 5, 5], [0, 2, 0, 4]):
        real = np.arange(LENGTH)[:, None] < lengths
        inputs = np.where(real[..., None], generator.normal(size=(LENGTH, BATCH, WIDTH)), 50.0).astype(np.float32)
        factors = (generator.normal(size=(LENGTH, BATCH, HIDDEN)) * real[..., None]).astype(np.float32)
        (_, outputs), (by_inputs, by_weights) = run(float_tensor(inputs), int_tensor(lengths), float_tensor(factors))
        for row, length in enumerate(lengths):
            close(outputs.asnumpy()[:length, row],
                  bilstm(inputs[:length, row].astype(float), values[:4], values[4:]).reshape(length, HIDDEN))
        assert not by_inputs.asnumpy()[~real].any()
        arrays = {'inputs': inputs.astype(float), **dict(zip(names, values))}
        gradients = {'inputs': by_inputs, **{weight.name: gradient for weight, gradient in zip(weights, by_weights)}}
        for name, gradient in gradients.items():                 # a random direction involves all entries
            for _ in range(3):
                direction = generator.normal(size=arrays[name].shape)
                expected = derivative(partial(weighted_by_numpy, names, lengths, factors), arrays, name, direction)
                close((gradient.asnumpy() * direction).sum(), expected, 3e-5)


def test_bilstm_the_lstm_in_numpy_is_pytorchs():
    torch = pytest.importorskip('torch')
    ms.set_seed(1)
    lstm = BiLSTM(WIDTH, HIDDEN)
    peer = torch.nn.LSTM(WIDTH, HIDDEN // 2, bidirectional=True).double()
    directions = [lstm_weights(cell) for cell in (lstm.forward_lstm, lstm.backward_lstm)]
    for ending, weights in zip(('', '_reverse'), directions):
        for name, values in zip(LSTM_WEIGHTS, weights):
            getattr(peer, f'{name}_l0{ending}').data = torch.tensor(values)
    inputs, lengths = np.random.default_rng(0).normal(size=(LENGTH, BATCH, WIDTH)), np.array([5, 2, 1, 3])
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(inputs), lengths, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(peer(packed)[0])
    for row, length in enumerate(lengths):
        close(bilstm(inputs[:length, row], *directions), expected.detach().numpy()[:length, row], 1e-12)
