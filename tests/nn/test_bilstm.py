"""The BiLSTM beside PyTorch's over packed sentences, in float64: what it gives, and all its gradients."""

from ms_crf.nn.bilstm import BiLSTM

import mindspore as ms
import numpy as np
import pytest

from support.tensors import close, float_tensor, int_tensor

LENGTH, BATCH, WIDTH, HIDDEN = 5, 4, 3, 6


def pytorchs(torch, lstm):
    """PyTorch's LSTM with the weights of ours, and its name of each of them."""
    peer, names = torch.nn.LSTM(WIDTH, HIDDEN // 2, bidirectional=True).double(), {}
    for ending, cell in (('', lstm.forward_lstm), ('_reverse', lstm.backward_lstm)):
        for parameter in cell.trainable_params():
            kind, = (kind for kind in ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh') if kind in parameter.name)
            names[parameter.name] = f'{kind}_l0{ending}'
            getattr(peer, names[parameter.name]).data = torch.tensor(parameter.asnumpy().astype(float))
    return peer, names


@pytest.mark.parametrize('training', [pytest.param(False, marks=pytest.mark.quick), True])
def test_outputs_and_gradients_are_pytorchs(compiled, training):
    """At real positions, whatever stands on padding; one compiled function serves all lengths, 0 and 1 among them."""
    torch = pytest.importorskip('torch')
    ms.set_seed(1)
    lstm = BiLSTM(WIDTH, HIDDEN).set_train(training)
    weights = lstm.trainable_params()
    assert len(weights) == 8
    peer, names = pytorchs(torch, lstm)

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

        rows = np.flatnonzero(lengths)                           # PyTorch packs no sentence without words
        leaf = torch.tensor(inputs[:, rows].astype(float), requires_grad=True)
        packed = torch.nn.utils.rnn.pack_padded_sequence(leaf, np.array(lengths)[rows], enforce_sorted=False)
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(peer(packed)[0], total_length=LENGTH)
        peer.zero_grad()
        (expected * torch.tensor(factors[:, rows].astype(float))).sum().backward()

        close(outputs.asnumpy()[:, rows] * real[:, rows, None], expected.detach().numpy())
        close(by_inputs.asnumpy()[:, rows], leaf.grad.numpy())
        assert not by_inputs.asnumpy()[~real].any()
        for weight, gradient in zip(weights, by_weights):
            close(gradient, getattr(peer, names[weight.name]).grad.numpy())
