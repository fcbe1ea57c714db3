"""Fuzzing of the Python functions for benchmarks/fuzz.py, with arguments that a program could pass by mistake."""

from ms_crf import CRF, HMM, allowed_transitions, check_batch, post_decode

import numpy as np
from mutations import value_of


class Functions:
    """Cases of function calls.

    Args:
        material: provides a tagger.
    """

    refusals = ValueError, TypeError

    def __init__(self, material):
        self.material = material
        self.cases = [self.call_layer, self.call_hmm, self.call_tagger, self.call_post_decode]

    def call_layer(self, rng):
        kind = rng.randrange(4)
        if kind == 0:
            CRF(
                value_of(rng),
                rng.choice([True, False, value_of(rng)]),
                rng.choice(['sum', 'mean', value_of(rng)]),
                rng.choice([None, value_of(rng)]),
            )
        elif kind == 1:
            allowed_transitions(
                rng.choice(['BIO', 'BMES', value_of(rng)]), rng.choice([['O', 'B', 'I'], value_of(rng)])
            )
        elif kind == 2:
            check_batch(
                rng.choice([[[0, 1], [1, 2]], value_of(rng)]),
                rng.choice([None, [2, 1], value_of(rng)]),
                rng.choice([3, value_of(rng)]),
                rng.choice([True, False]),
            )
        else:
            allowed_transitions('BIO', [value_of(rng) for _ in range(3)])

    def call_hmm(self, rng):
        model = HMM([0.5, 0.5], [[0.5, 0.5], [0.1, 0.9]], [[0.2, 0.8], [0.7, 0.3]])
        kind = rng.randrange(5)
        if kind == 0:
            HMM(
                *(
                    rng.choice([given, value_of(rng)])
                    for given in ([0.5, 0.5], [[0.5, 0.5], [0.1, 0.9]], [[1.0], [1.0]])
                )
            )
        elif kind == 1:
            getattr(model, rng.choice(['log_likelihood', 'posteriors', 'viterbi', 'log_prob', 'forward']))(
                rng.choice([value_of(rng), [0, value_of(rng)], [[0, 1], value_of(rng)], [[0], [value_of(rng)]]])
            )
        elif kind == 2:
            HMM().fit(
                rng.choice([[['a', 'b']], value_of(rng)]),
                rng.choice([[['X', 'Y']], value_of(rng)]),
                rng.choice([0.1, value_of(rng)]),
            )
        elif kind == 3:
            HMM().baum_welch(
                rng.choice([[0, 1, 1, 0], value_of(rng)]), rng.choice([2, value_of(rng)]), steps=2, starts=1
            )
        else:
            model.sample(rng.choice([3, 0, -1, None, 'a', 2.5, True]), rng.choice([0, -1, None, 'a']))

    def call_tagger(self, rng):
        sentences = rng.choice([[['a', value_of(rng)]], [value_of(rng)], value_of(rng), [['a'], value_of(rng)]])
        self.material.tagger.tag(sentences, rng.choice([None, True, False]), rng.choice([0, 0, value_of(rng)]))

    def call_post_decode(self, rng):
        score, history, lengths = np.zeros((2, 3)), np.zeros((4, 2, 3), np.int64), np.array([5, 2])
        given = [score, history, lengths]
        given[rng.randrange(3)] = rng.choice(
            [value_of(rng), np.full((2, 3), 7), np.array([6, -1]), np.zeros((0, 2, 3))]
        )
        post_decode(*given)
