"""Trains a BiLSTM with a CRF on two sentences and shows what it finds: python -m ms_crf"""

from ms_crf import BiLSTM_CRF, allowed_transitions

import mindspore as ms
import numpy as np
from mindspore import nn
from tqdm import trange

SENTENCES = [
    ('the wall street journal reported today that apple corporation made money', 'B I I I O O O B I O O'),
    ('georgia tech is a university in georgia', 'B I O O O O B'),
]
TAGS = ['B', 'I', 'O']
STEPS = 200


def make_batch():
    """Word ids and tags (batch, length), 0 on padding, lengths (batch,), and the number of words."""
    sentences = [(words.split(), tags.split()) for words, tags in SENTENCES]
    ids = {word: number for number, word in enumerate(dict.fromkeys(sum((words for words, _ in sentences), [])), 1)}
    lengths = [len(words) for words, _ in sentences]
    inputs, tags = np.zeros((2, 2, max(lengths)), np.int32)
    for row, (words, names) in enumerate(sentences):
        inputs[row, :len(words)] = [ids[word] for word in words]
        tags[row, :len(names)] = [TAGS.index(name) for name in names]
    return ms.Tensor(inputs), ms.Tensor(tags), ms.Tensor(lengths, ms.int32), len(ids) + 1


def main():
    ms.set_seed(1)
    inputs, tags, lengths, vocabulary = make_batch()
    model = BiLSTM_CRF(vocabulary, 16, 32, len(TAGS), constraints=allowed_transitions('BIO', TAGS))
    optimizer = nn.Adam(model.trainable_params(), 0.02)
    value_and_grad = ms.value_and_grad(model, None, optimizer.parameters)

    @ms.jit
    def train_step(inputs, lengths, tags):
        loss, gradients = value_and_grad(inputs, lengths, tags)
        return ms.ops.depend(loss, optimizer(gradients))

    @ms.jit
    def tag(inputs, lengths):
        emissions = model.emissions(inputs, lengths)
        paths, _ = model.crf.decode(emissions, lengths)
        return paths, model.crf.marginals(emissions, lengths)

    print('training on two sentences; the first step compiles the graph')
    with trange(STEPS, unit='step') as progress:
        for _ in progress:
            progress.set_postfix(loss=f'{float(train_step(inputs, lengths, tags).asnumpy()):.4f}', refresh=False)
    paths, marginals = (result.asnumpy() for result in tag(inputs, lengths))
    for row, (words, _) in enumerate(SENTENCES):
        print()
        for position, word in enumerate(words.split()):
            best = paths[row, position]
            print(f'{word:<12}{TAGS[best]}  {marginals[row, position, best]:.3f}')


if __name__ == '__main__':
    main()
