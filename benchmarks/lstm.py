"""Times forward and gradient of the BiLSTM against PyTorch: python benchmarks/lstm.py

All sentences of a batch have the same length, the best case for `nn.LSTM(bidirectional=True)` with a padded batch: one
call of oneDNN for both directions. A packed batch is computed step by step. The results are compared before the timing.
Each contestant runs in a separate process, and calls alternate.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from contestants import ask, calls, processor, start, stop

LENGTHS = (16, 32, 64, 128)
BATCH, WIDTH, UNITS = 32, 150, 100                               # UNITS of one direction
WARM_UP = 10                                                     # calls at the start of each turn
WEIGHTS = {'weight_ih': (4 * UNITS, WIDTH), 'weight_hh': (4 * UNITS, UNITS), 'bias_ih': (4 * UNITS,),
           'bias_hh': (4 * UNITS,)}


def make_inputs(length):
    """Inputs, factors of the outputs in the loss, and weights by name; _reverse marks the second direction."""
    rng = np.random.default_rng(length)
    inputs, factors = (rng.normal(size=(length, BATCH, width)).astype(np.float32) for width in (WIDTH, 2 * UNITS))
    weights = {name + ending: rng.uniform(-0.1, 0.1, shape).astype(np.float32)
               for ending in ('', '_reverse') for name, shape in WEIGHTS.items()}
    return inputs, factors, weights


def ms_crf_step(length):
    """A function without arguments that returns the outputs and the gradients of the input and of the weights."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from ms_crf.nn.bilstm import BiLSTM

    import mindspore as ms

    inputs, factors, weights = make_inputs(length)
    lstm = BiLSTM(WIDTH, 2 * UNITS)
    lstm.set_train()
    parameters = []
    for name, values in weights.items():
        cell = lstm.backward_lstm if name.endswith('_reverse') else lstm.forward_lstm
        parameter, = (one for one in cell.trainable_params() if name.removesuffix('_reverse') in one.name)
        parameter.set_data(ms.Tensor(values))
        parameters.append(parameter)
    inputs, factors, lengths = ms.Tensor(inputs), ms.Tensor(factors), ms.Tensor(np.full(BATCH, length, np.int32))

    def weighted(inputs):
        outputs = lstm(inputs, lengths)
        return (outputs * factors).sum(), outputs

    run = ms.jit(ms.value_and_grad(weighted, 0, parameters, has_aux=True))

    def step():
        (_, outputs), (by_inputs, by_weights) = run(inputs)
        outputs.asnumpy()
        return outputs, by_inputs, *by_weights

    return step


def pytorch_step(length, packs):
    import torch

    inputs, factors, weights = make_inputs(length)
    lstm = torch.nn.LSTM(WIDTH, UNITS, bidirectional=True)
    parameters = []
    for name, values in weights.items():
        kind, _, reverse = name.partition('_reverse')
        parameter = getattr(lstm, f'{kind}_l0{"_reverse" if name.endswith("_reverse") else ""}')
        parameter.data = torch.from_numpy(values)
        parameters.append(parameter)
    inputs, factors = torch.from_numpy(inputs).requires_grad_(), torch.from_numpy(factors)
    lengths = torch.full((BATCH,), length)

    def step():
        for leaf in (inputs, *parameters):
            leaf.grad = None
        if packs:
            packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths)
            outputs = torch.nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])[0]
        else:
            outputs = lstm(inputs)[0]
        (outputs * factors).sum().backward()
        return outputs.detach(), *(leaf.grad for leaf in (inputs, *parameters))

    return step


CONTESTANTS = {'ms_crf': ms_crf_step, 'padded': lambda length: pytorch_step(length, False),
               'packed': lambda length: pytorch_step(length, True)}


def serve(contestant):
    """Runs as a contestant: reads 'prepare L FILE' and 'time REPEATS' lines, answers with one line each."""
    for line in sys.stdin:
        order, *words = line.split()
        if order == 'prepare':
            step = CONTESTANTS[contestant](int(words[0]))
            began = time.perf_counter()
            results = step()
            first = time.perf_counter() - began
            np.savez(words[1], *(np.asarray(one.asnumpy() if hasattr(one, 'asnumpy') else one) for one in results))
            print(first, flush=True)
        else:
            print(*calls(step, WARM_UP, int(words[0])), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=8, help='rounds of each contestant (default: %(default)s)')
    parser.add_argument('--repeats', type=int, default=20, help='calls in a round (default: %(default)s)')
    parser.add_argument('--contestant', choices=CONTESTANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        serve(arguments.contestant)
        return

    import tempfile
    print(f'{processor()}, {os.cpu_count()} cores; batch {BATCH}, {WIDTH} to 2 × {UNITS}, forward and gradient; '
          f'{arguments.rounds} turns of {arguments.repeats} calls each, medians, spread as 10th to 90th percentile\n')
    print('| length | ms_crf ms | PyTorch padded ms | ratio | PyTorch packed ms | ratio | our first call s |')
    print('|---|---|---|---|---|---|---|')
    processes = {name: start(name) for name in CONTESTANTS}
    with tempfile.TemporaryDirectory() as folder:
        for length in LENGTHS:
            files = {name: str(Path(folder) / f'{name}.npz') for name in CONTESTANTS}
            first = {name: ask(processes[name], 'prepare', length, files[name])[0] for name in CONTESTANTS}
            ours, *theirs = (np.load(file) for file in files.values())
            for other in theirs:
                for name in ours.files:
                    scale = np.abs(other[name]).max()
                    np.testing.assert_allclose(ours[name], other[name], rtol=1e-4, atol=1e-5 * scale, err_msg=name)
            times = {name: [] for name in CONTESTANTS}
            for _ in range(arguments.rounds):
                for name in CONTESTANTS:
                    times[name] += ask(processes[name], 'time', arguments.repeats)
                    time.sleep(0.1)                              # until this process's threads have stopped spinning
            shown = {name: np.percentile(of, [50, 10, 90]) * 1e3 for name, of in times.items()}
            cells = [f'{middle:.1f} ({low:.1f}–{high:.1f})' for middle, low, high in shown.values()]
            padded, packed = (shown['ms_crf'][0] / shown[name][0] for name in ('padded', 'packed'))
            print(f'| {length} | {cells[0]} | {cells[1]} | {padded:.2f} | {cells[2]} | {packed:.2f} '
                  f'| {first["ms_crf"]:.1f} |', flush=True)
    stop(processes)


if __name__ == '__main__':
    main()
