"""Times the hidden Markov model against hmmlearn, and with --segment FILE against jieba: python benchmarks/hmm.py

The task is Baum-Welch on 100,000 symbols of 20 kinds with 10 states: as one sequence, and as a thousand sequences. Both
libraries begin with the same parameters. Their calls alternate, and their likelihoods are compared. hmmlearn has two
implementations; 'log' is its default.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path[1:1] = [str(Path(__file__).resolve().parent.parent / folder) for folder in ('tests', 'tests/models')]

from ms_crf import HMM  # noqa: E402
from ms_crf.formats.registry import read_corpus  # noqa: E402

import numpy as np  # noqa: E402
from contestants import processor  # noqa: E402

STATES, SYMBOLS, STEPS = 10, 20, 5


def learn_ours(arrays, sequences):
    return HMM(*arrays).baum_welch(sequences, steps=STEPS, tolerance=-1e9).history[:STEPS]


def learn_theirs(way):
    from hmmlearn.hmm import CategoricalHMM

    def learn(arrays, sequences):
        model = CategoricalHMM(STATES, n_iter=STEPS, tol=-1e9, init_params='', implementation=way, n_features=SYMBOLS)
        model.startprob_, model.transmat_, model.emissionprob_ = arrays
        history, report = [], type(model.monitor_).report       # hmmlearn itself keeps only the last two values
        type(model.monitor_).report = lambda monitor, value: (history.append(value), report(monitor, value))
        try:
            model.fit(np.concatenate(sequences)[:, None], list(map(len, sequences)))
        finally:
            type(model.monitor_).report = report
        return history
    return learn


def baum_welch(rounds):
    generator = np.random.default_rng(0)
    start, transition, emission = (generator.dirichlet(np.ones(width), count) for width, count in (
        (STATES, 1), (STATES, STATES), (SYMBOLS, STATES)))
    arrays = start[0], transition, emission
    symbols = generator.integers(0, SYMBOLS, 100_000)
    contestants = {'ms_crf': learn_ours, 'hmmlearn, log': learn_theirs('log'),
                   'hmmlearn, scaling': learn_theirs('scaling')}
    print('| 100,000 symbols as | s/iteration, median (least–most): ms_crf | hmmlearn, log | hmmlearn, scaling | '
          'ratio to log |\n|---|---|---|---|---|')
    for title, sequences in (('1 sequence', [symbols]), ('1,000 sequences', np.split(symbols, 1000))):
        seconds = {name: [] for name in contestants}
        for _ in range(1 + rounds):
            histories = []
            for name, learn in contestants.items():
                began = time.perf_counter()
                histories.append(learn(arrays, sequences))
                # ms_crf also computes the likelihood after the last step.
                seconds[name].append((time.perf_counter() - began) / STEPS)
            for history in histories[1:]:
                np.testing.assert_allclose(history, histories[0], rtol=1e-9)
        cells = [f'{np.median(values[1:]):.3f} ({min(values[1:]):.3f}–{max(values[1:]):.3f})'
                 for values in seconds.values()]
        ratio = np.median(seconds['ms_crf'][1:]) / np.median(seconds['hmmlearn, log'][1:])
        print(f'| {title} | {" | ".join(cells)} | {ratio:.2f} |')


def segment(path, rounds):
    from jieba import finalseg
    from test_hmm import from_jieba

    model = from_jieba(finalseg)
    sentences = [''.join(sentence.tokens) for sentence in read_corpus(path)][:1000]
    blocks = [block for sentence in sentences for block in re.findall('([\u4E00-\u9FD5]+)', sentence)]

    def ours():
        return [path for path, _ in model.viterbi(list(map(list, blocks)))]

    def theirs():
        return [finalseg.viterbi(block, 'BMES', finalseg.start_P, finalseg.trans_P, finalseg.emit_P)[1]
                for block in blocks]

    seconds = {ours: [], theirs: []}
    for _ in range(1 + rounds):
        results = []
        for work, values in seconds.items():
            began = time.perf_counter()
            results.append(work())
            values.append(time.perf_counter() - began)
    other = sum(one != two for one, two in zip(*results))
    medians = [np.median(values[1:]) for values in seconds.values()]
    print(f'\nsegmentation of {len(sentences):,} sentences, {len(blocks):,} blocks: {medians[0]:.3f} s, jieba '
          f'{medians[1]:.3f} s, {medians[1] / medians[0]:.1f} times as long; blocks that differ: {other}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--segment', metavar='FILE', help='column file of single Chinese characters')
    arguments = parser.parse_args()
    print(f'{processor()}, {os.cpu_count()} cores; {arguments.rounds} rounds\n')
    baum_welch(arguments.rounds)
    if arguments.segment:
        segment(arguments.segment, arguments.rounds)


if __name__ == '__main__':
    main()
