"""The layer and the BiLSTM agree with pytorch-crf and PyTorch's LSTM, at sizes too large for enumeration."""

from ms_crf import CRF, post_decode
from ms_crf.nn.bilstm import BiLSTM

import mindspore as ms
import numpy as np
import pytest

from support.chains import NAMES, parameters
from support.tensors import close, float_tensor, int_tensor

torch = pytest.importorskip('torch', exc_type=ImportError)
torchcrf = pytest.importorskip('torchcrf')


def test_peers_same_as_pytorch_crf(compiled):
    rng = np.random.default_rng(0)
    length, batch, num_tags = 24, 6, 11
    emissions = rng.normal(size=(length, batch, num_tags)).astype(np.float32)
    tags, lengths = rng.integers(0, num_tags, (length, batch)), np.array([24, 1, 13, 24, 5, 2])
    crf = CRF(num_tags, reduction='token_mean')
    peer = torchcrf.CRF(num_tags)
    for name in NAMES.values():
        values = rng.normal(size=getattr(crf, name).shape).astype(np.float32)
        getattr(crf, name).set_data(ms.Tensor(values))
        getattr(peer, name).data = torch.from_numpy(values)
    tag_tensor, length_tensor = int_tensor(tags), int_tensor(lengths)

    def loss(emissions):
        return crf(emissions, tag_tensor, length_tensor)

    def viterbi(emissions):
        return crf(emissions, seq_length=length_tensor)

    value, gradients = compiled(ms.value_and_grad(loss, 0, parameters(crf)))(float_tensor(emissions))
    leaf = torch.from_numpy(emissions).requires_grad_()
    mask = torch.arange(length)[:, None] < torch.from_numpy(lengths)
    expected = -peer(leaf, torch.from_numpy(tags), mask, reduction='token_mean')
    expected.backward()
    close(value, expected.item())
    close(gradients[0], leaf.grad.numpy())
    for actual, name in zip(gradients[1], NAMES.values()):
        close(actual, getattr(peer, name).grad.numpy())
    assert post_decode(*compiled(viterbi)(float_tensor(emissions)), length_tensor) == peer.decode(leaf, mask)


def test_peers_same_as_pytorch_lstm():
    """The BiLSTM agrees with PyTorch's. Weights are copied by name, since both have the same order of gates."""
    rng = np.random.default_rng(0)
    inputs, lengths = rng.normal(size=(9, 4, 5)).astype(np.float32), np.array([9, 4, 1, 6])
    ours = BiLSTM(5, 6)
    peer = torch.nn.LSTM(5, 3, bidirectional=True)
    for cell, suffix in ((ours.forward_lstm, ''), (ours.backward_lstm, '_reverse')):
        for parameter in cell.get_parameters():
            name = parameter.name.rsplit('.', 1)[-1].removesuffix('_reverse')
            values = rng.normal(size=parameter.shape).astype(np.float32)
            parameter.set_data(ms.Tensor(values))
            getattr(peer, name + suffix).data = torch.from_numpy(values)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.from_numpy(inputs), lengths, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(peer(packed)[0], total_length=9)
    actual = ours(float_tensor(inputs), int_tensor(lengths)).asnumpy()
    live = np.arange(9)[:, None] < lengths
    np.testing.assert_allclose(actual[live], expected.detach().numpy()[live], atol=1e-5)
