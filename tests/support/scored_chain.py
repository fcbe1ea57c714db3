"""A tagging model without a network: its tokens are indices of a table of emissions."""

from types import SimpleNamespace

from ms_crf.models.base import Tags
from ms_crf.models.chains import SCORES, Chain
from ms_crf.text.schemes import allowed_transitions

import numpy as np

from support.oracle import Row

TAGS = ['O', 'B-X', 'I-X']
ALLOWED = allowed_transitions('BIO', TAGS)


class Given:
    """A model whose tokens are row numbers of a random table of emissions."""

    runs_graphs = False
    tasks = frozenset()

    def __init__(self, seed, allowed=ALLOWED):
        rng = np.random.default_rng(seed)
        self.vocabulary, self.table = Tags(TAGS, False), 2 * rng.normal(size=(30, 3))
        self.scores = {'transitions': rng.normal(size=(3, 3)), 'start': rng.normal(size=3), 'end': rng.normal(size=3)}
        self.allowed = allowed

    def run(self, encoded, task, count=1):
        raise NotImplementedError

    def chain(self):
        return Chain(*(self.scores[name] for name in ('transitions', 'start', 'end')), self.allowed, SCORES)

    def encode(self, sentences):
        return SimpleNamespace(rows=[[int(token) for token in tokens] for tokens in sentences],
                               lengths=np.array(list(map(len, sentences))))

    def emissions(self, encoded):
        """Emissions in two batches, beginning with the last sentence, to test that results are put in order."""
        order = np.arange(len(encoded.rows))[::-1]
        for part in (order[:2], order[2:]):
            yield part, [self.table[encoded.rows[index]] for index in part]

    def row(self, tokens, temperature):
        scores = {name: values / temperature for name, values in self.scores.items()}
        return Row(self.table[list(map(int, tokens))] / temperature, scores, self.allowed)
