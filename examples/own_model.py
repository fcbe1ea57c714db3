"""A custom model type: word and word shape features, a convolution over neighbouring words, and a CRF.

    ms-crf train --plugin examples/own_model.py --model mine --save runs/mine
    ms-crf infer --plugin examples/own_model.py --run runs/mine --text "Marta Kowalski works in Lisbon ."
    ms-crf export --plugin examples/own_model.py --run runs/mine --output mine.mindir
"""

from ms_crf import CRF
from ms_crf.extend import FeatureKind, FeatureNetwork, clear_padding, register

from mindspore import nn, ops

SHAPES = 5      # padding, lower case, first letter upper case, upper case, other words


def shape_of(word):
    """The shape of a word, from 1 to 4; 0 is padding."""
    return 1 if word.islower() else 2 if word.istitle() else 3 if word.isupper() else 4


class Network(FeatureNetwork):
    """Scores the tags of each word from its own features and the features of its two neighbours."""

    def __init__(self, words, num_tags, options, constraints):
        super().__init__()
        self.words, self.shapes = nn.Embedding(words, options.word_dim), nn.Embedding(SHAPES, 10)
        self.widths = [options.word_dim + 10]
        self.convolution = nn.Dense(3 * self.widths[0], options.hidden, activation='relu')
        self.projection = nn.Dense(options.hidden, num_tags)
        self.head = CRF(num_tags, reduction='mean', constraints=constraints)

    @property
    def tag_bias(self):
        return self.projection.bias

    def emissions_of(self, features, seq_length, keep=None):
        vectors = ops.concat((self.words(features[:, :, 0]), self.shapes(features[:, :, 1])), 2)
        vectors = clear_padding(vectors, seq_length)                   # (length, batch, widths[0])
        if keep is not None:
            vectors = vectors * keep[0]                                # dropout
        boundary = ops.zeros_like(vectors[:1])                         # the neighbour of the first and the last word
        previous = ops.concat((boundary, vectors[:-1]), 0)
        following = ops.concat((vectors[1:], boundary), 0)
        return self.projection(self.convolution(ops.concat((previous, vectors, following), 2)))


@register
class Mine(FeatureKind):
    """The model type `mine`. A token has two features: the id of its word (1 for an unknown word), and its shape."""

    name = 'mine'
    options = ('word_dim', 'hidden')
    count = 2

    @classmethod
    def known(cls, sentences, options):
        words = sorted({token.lower() for tokens in sentences for token in tokens})
        return {word: number for number, word in enumerate(words, 2)}

    @classmethod
    def features(cls, tokens, known):
        return [(known.get(token.lower(), 1), shape_of(token)) for token in tokens]

    @classmethod
    def network(cls, known, num_tags, options, constraints):
        return Network(len(known) + 2, num_tags, options, constraints)
