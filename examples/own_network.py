"""The CRF layer on top of a custom network, trained with `value_and_grad`.

    pip install . && python examples/own_network.py

The task is artificial: a word is a number from 0 to 9. A span begins with a 7 and ends before the next 0.
"""

from ms_crf import CRF, allowed_transitions

import mindspore as ms
import numpy as np
from mindspore import nn, ops

TAGS = ['O', 'B', 'I']
STEPS, BATCH, LENGTH = 60, 32, 12


def sentences(generator):
    """A random batch: words (batch, length), tags (batch, length) and lengths (batch,)."""
    words = generator.integers(1, 10, (BATCH, LENGTH)).astype(np.int32)
    words[generator.random(words.shape) < 0.2] = 0
    tags = np.zeros_like(words)
    inside = np.zeros(BATCH, bool)
    for position in range(LENGTH):
        begins = ~inside & (words[:, position] == 7)
        inside &= words[:, position] != 0
        tags[:, position] = np.where(begins, 1, np.where(inside, 2, 0))
        inside |= begins
    return words, tags, generator.integers(1, LENGTH + 1, BATCH).astype(np.int32)


class Network(nn.Cell):
    """Embeddings, a GRU, a projection to scores of tags, and the CRF layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 16)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.projection = nn.Dense(32, len(TAGS))
        self.crf = CRF(len(TAGS), batch_first=True, reduction='mean', constraints=allowed_transitions('BIO', TAGS))

    def emissions(self, words):
        """The scores of the tags (batch, length, num_tags) of words (batch, length)."""
        hidden, _ = self.gru(self.embedding(words))
        return self.projection(hidden)

    def construct(self, words, tags, lengths):
        """The loss of a batch: negative log likelihood, the mean over the sentences."""
        return self.crf(self.emissions(words), tags, lengths)


def main():
    ms.set_seed(1)
    generator, network = np.random.default_rng(1), Network()
    optimizer = nn.Adam(network.trainable_params(), 0.02)
    value_and_grad = ms.value_and_grad(network, None, optimizer.parameters)

    @ms.jit
    def step(words, tags, lengths):
        loss, gradients = value_and_grad(words, tags, lengths)
        return ops.depend(loss, optimizer(gradients))

    @ms.jit
    def decode(words, lengths):
        return network.crf.decode(network.emissions(words), lengths)

    for number in range(1, STEPS + 1):
        loss = step(*map(ms.Tensor, sentences(generator)))
        if number % 20 == 0:
            print(f'step {number}: loss {float(loss):.3f}')
    words, tags, lengths = sentences(generator)
    paths, _ = decode(ms.Tensor(words), ms.Tensor(lengths))
    real = np.arange(LENGTH) < lengths[:, None]
    print(f'right tags: {(paths.asnumpy() == tags)[real].mean():.1%}')


if __name__ == '__main__':
    main()
