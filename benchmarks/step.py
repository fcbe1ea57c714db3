"""Times the parts of a training step: python benchmarks/step.py --train A --dev B --test C [--embeddings V]

The measured batch has the median compiled length. Each part is compiled and timed separately, forward and gradient.
For comparison, the program prints the time of the LSTM's matrix products at the speed of a large matrix product.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from contestants import Quiet, calls, processor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ms_crf.cli import train  # noqa: E402
from ms_crf.training.course import start  # noqa: E402

import mindspore as ms  # noqa: E402
from mindspore import ops  # noqa: E402

WARM_UP, REPEATS, LARGE = 20, 100, 1024


def middle_batch(learner):
    """The batch of middle length: its arrays, its shape, the indices of its sentences, and its number of tokens."""
    planned = learner.plan(np.random.default_rng(0))
    lengths = sorted({shape.length for shape, *_ in planned})
    batch = next(one for one in planned if one[0].length == lengths[len(lengths) // 2])
    shape, indices, *_ = batch
    return learner.batch(*batch), shape, indices, int(learner.encoded['train'].lengths[indices].sum())


def summed(cell, position, *inputs):
    """Returns a function that computes the sum of a cell's outputs and its gradients.

    Gradients are computed for the weights, and for the input at `position` unless it is None.
    """
    def total(*arguments):
        return cell(*arguments).sum()

    run = ms.jit(ms.value_and_grad(total, position, ms.ParameterTuple(cell.trainable_params())))
    return lambda: run(*inputs)[0].asnumpy()


def parts(run):
    """The parts of a step as {name: functions}, and the number of operations in the LSTM's matrix products."""
    batch, shape, indices, tokens = middle_batch(run.learner)
    run.learner.batch = lambda *_: batch         # so the time to create the batch is not measured
    network = run.network
    _, _, long_spellings, short_spellings, _, lengths, tags = map(ms.Tensor, batch)
    draw = np.random.default_rng(0).normal
    scores = ms.Tensor(draw(size=(*shape[:2], len(run.learner.vocabulary.tags))).astype(np.float32))
    vectors = [ms.Tensor(draw(size=(*shape[:2], width)).astype(np.float32)) for width in network.widths]
    named = {'all of it, with dropout and the like': [lambda: run._run_step((shape, indices), 0.1)],
             'LSTM': [summed(layer, 0, before, lengths) for layer, before in zip(network.layers, vectors)],
             'characters': [summed(network.characters, None, ids) for ids in (long_spellings, short_spellings)],
             'projection': [summed(network.projection, 0, vectors[-1])],
             'chain': [summed(network.head, 0, scores, tags, lengths)]}
    products = 0
    for width, hidden in zip(network.widths, network.widths[1:]):
        products += 3 * 2 * tokens * 2 * (4 * hidden // 2) * (width + hidden // 2)
    print(f'{processor()}, {os.cpu_count()} cores; {shape.rows} sentences, {tokens} tokens padded to {shape.length}; '
          f'medians of {REPEATS} calls\n')
    return named, products


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ('train', 'dev', 'test'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('--embeddings')
    arguments = parser.parse_args()
    given = [text for name, value in vars(arguments).items() if value for text in (f'--{name}', value)]
    with tempfile.TemporaryDirectory() as folder:
        given += ['--batch-size', '32', '--save', f'{folder}/run']
        run = start(train.options_of(given), Quiet())
        named, products = parts(run)
        print('| part | ms |\n|---|---|')
        for name, functions in named.items():
            took = sum(np.median(calls(function, WARM_UP, REPEATS)) for function in functions)
            print(f'| {name} | {1e3 * took:.2f} |', flush=True)
        run.directory.release()
    matrix = ms.Tensor(np.ones((LARGE, LARGE), np.float32))
    rate = 2 * LARGE ** 3 / np.median(calls(lambda: ops.matmul(matrix, matrix).asnumpy(), WARM_UP, REPEATS))
    print(f'\nproducts of the LSTM: {products / 1e6:,.0f} million operations; a product of {LARGE} by {LARGE} matrices '
          f'does {rate / 1e9:.0f} GFLOP/s, at which they take {1e3 * products / rate:.2f} ms')


if __name__ == '__main__':
    main()
