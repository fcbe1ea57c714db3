"""Trains `BiLSTM_CRF` with `mindspore.train.Model` on a `mindspore.dataset`.

    pip install . && python examples/with_model.py
"""

from ms_crf import BiLSTM_CRF, post_decode

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.dataset import GeneratorDataset
from mindspore.train import LossMonitor, Model

SENTENCES = [('EU rejects German call', 'B O B O'), ('Peter Blackburn visits Brussels', 'B I O B'),
             ('Germany calls EU', 'B O B'), ('Peter calls German Blackburn', 'B O B I')] * 8
TAGS = ['O', 'B', 'I']
WORDS = {word: number for number, word in enumerate(
    sorted({word for text, _ in SENTENCES for word in text.split()}), 1)}                # 0 is padding


class Sentences:
    """A dataset of (word ids, length, tags). All sentences are padded to the length of the longest sentence."""

    def __init__(self):
        self.longest = max(len(text.split()) for text, _ in SENTENCES)

    def __len__(self):
        return len(SENTENCES)

    def __getitem__(self, index):
        text, names = (part.split() for part in SENTENCES[index])
        words, tags = np.zeros(self.longest, np.int32), np.zeros(self.longest, np.int32)
        words[:len(text)], tags[:len(text)] = [WORDS[word] for word in text], [TAGS.index(name) for name in names]
        return words, np.int32(len(text)), tags


def main():
    ms.set_seed(1)
    ms.dataset.config.set_seed(1)
    dataset = GeneratorDataset(Sentences(), ['words', 'lengths', 'tags'], shuffle=True).batch(8)
    network = BiLSTM_CRF(len(WORDS) + 1, 16, 16, len(TAGS), reduction='mean')
    # The cell returns its loss, so `Model` needs no loss function. Words, lengths and tags are passed in this order.
    model = Model(network, optimizer=nn.Adam(network.trainable_params(), 0.05))
    model.train(10, dataset, callbacks=LossMonitor(4), dataset_sink_mode=False)

    words, lengths, _ = (ms.Tensor(np.stack(column)) for column in zip(*(Sentences()[index] for index in range(2))))
    score, history = network(words, lengths)
    for (text, _), path in zip(SENTENCES, post_decode(score, history, lengths)):
        print(' '.join(f'{word}/{TAGS[tag]}' for word, tag in zip(text.split(), path)))


if __name__ == '__main__':
    main()
