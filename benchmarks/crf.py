"""Times the CRF layer against pytorch-crf: python benchmarks/crf.py

Both get the same inputs, scores and lengths, the default number of threads of their framework, and a warm-up. Their
results are compared before the timing. Each framework runs in a separate process, because its threads keep spinning for
a while after a call and would take a core from the other framework. The calls alternate, so that other load on the
machine affects both.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from contestants import ask, calls, processor, start, stop

SHAPES = ((32, 32, 9), (32, 128, 9), (1, 128, 9), (32, 128, 32))
WARM_UP = 30  # calls at the start of each turn, because the framework's threads sleep between turns
TASKS = ('loss + gradient', 'decode to lists')


def make_inputs(batch, length, num_tags):
    rng = np.random.default_rng(batch * length * num_tags)
    scores = {'transitions': (num_tags, num_tags), 'start_transitions': (num_tags,), 'end_transitions': (num_tags,)}
    scores = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in scores.items()}
    lengths = rng.integers(length // 2, length + 1, batch)
    lengths[0] = length
    emissions = rng.normal(size=(batch, length, num_tags)).astype(np.float32)
    return emissions, rng.integers(0, num_tags, (batch, length)), lengths, scores


def ms_crf_tasks(shape):
    """The two tasks as functions without arguments; each returns its result for comparison."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from ms_crf import CRF

    import mindspore as ms

    emissions, tags, lengths, scores = make_inputs(*shape)
    crf = CRF(shape[2], batch_first=True)
    for name, values in scores.items():
        getattr(crf, name).set_data(ms.Tensor(values))
    parameters = [getattr(crf, name) for name in scores]
    counts = lengths.tolist()
    emissions, lengths = ms.Tensor(emissions), ms.Tensor(lengths.astype(np.int32))
    tags = ms.Tensor(tags.astype(np.int32))

    def forward(emissions, tags, lengths):
        return crf(emissions, tags, lengths)

    value_and_grad = ms.jit(ms.value_and_grad(forward, 0, parameters))

    best_paths = ms.jit(crf.decode)

    def loss():
        value, (by_emissions, by_parameters) = value_and_grad(emissions, tags, lengths)
        return float(value.asnumpy()), (by_emissions, *by_parameters)

    def decode():
        paths, _ = best_paths(emissions, lengths)
        return [path[:count] for path, count in zip(paths.asnumpy().tolist(), counts)]

    return loss, decode


def pytorch_crf_tasks(shape):
    import torch
    from torchcrf import CRF

    emissions, tags, lengths, scores = make_inputs(*shape)
    crf = CRF(shape[2], batch_first=True)
    with torch.no_grad():
        for name, values in scores.items():
            getattr(crf, name).copy_(torch.from_numpy(values))
    parameters = [getattr(crf, name) for name in scores]
    emissions = torch.from_numpy(emissions).requires_grad_()
    tags = torch.from_numpy(tags)
    mask = torch.arange(shape[1])[None] < torch.from_numpy(lengths)[:, None]

    def loss():
        for leaf in (emissions, *parameters):
            leaf.grad = None
        value = -crf(emissions, tags, mask, reduction='sum')
        value.backward()
        return value.item(), [leaf.grad for leaf in (emissions, *parameters)]

    def decode():
        with torch.no_grad():
            return crf.decode(emissions, mask)

    return loss, decode


CONTESTANTS = {'ms_crf': ms_crf_tasks, 'pytorch-crf': pytorch_crf_tasks}


def path_scores(shape, paths):
    """Scores of decoded paths in float64. Scores are compared, because two paths may be equally good in float32."""
    emissions, _, lengths, scores = make_inputs(*shape)
    results = []
    for row, path in zip(emissions.astype(np.float64), paths):
        path = np.array(path)
        results.append(row[np.arange(len(path)), path].sum() + scores['transitions'][path[:-1], path[1:]].sum()
                       + scores['start_transitions'][path[0]] + scores['end_transitions'][path[-1]])
    assert [len(path) for path in paths] == lengths.tolist()
    return np.array(results)


def serve(contestant):
    """Runs as a contestant: reads 'prepare B L K FILE' and 'time TASK REPEATS' lines, answers with one line each."""
    tasks = ()
    for line in sys.stdin:
        order, *words = line.split()
        if order == 'prepare':
            *shape, file = words
            shape = tuple(map(int, shape))
            tasks = CONTESTANTS[contestant](shape)
            began = time.perf_counter()
            value, gradients = tasks[0]()
            first = time.perf_counter() - began
            paths = tasks[1]()
            arrays = [np.asarray(g.asnumpy() if hasattr(g, 'asnumpy') else g) for g in gradients]
            np.savez(file, np.array(value), path_scores(shape, paths), *arrays)
            print(first, flush=True)
        else:
            print(*calls(tasks[int(words[0])], WARM_UP, int(words[1])), flush=True)


def check_equal(files, shape):
    ours, theirs = (np.load(file) for file in files)
    for name in ours.files:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-3, err_msg=f'{name} at {shape}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=8, help='rounds of each contestant (default: %(default)s)')
    parser.add_argument('--repeats', type=int, default=50, help='calls in a round (default: %(default)s)')
    parser.add_argument('--contestant', choices=CONTESTANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        serve(arguments.contestant)
        return

    import tempfile
    print(f'{processor()}, {os.cpu_count()} cores; {arguments.rounds} turns of {arguments.repeats} calls each, '
          'medians, spread as 10th to 90th percentile\n')
    print('| (B, L, K) | task | ms_crf ms | pytorch-crf ms | ratio | first call, with compilation, s |')
    print('|---|---|---|---|---|---|')
    processes = {name: start(name) for name in CONTESTANTS}
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            files = [str(Path(folder) / f'{name}.npz') for name in CONTESTANTS]
            first = [ask(processes[name], 'prepare', *shape, file)[0] for name, file in zip(CONTESTANTS, files)]
            check_equal(files, shape)
            for index, task in enumerate(TASKS):
                times = {name: [] for name in CONTESTANTS}
                for _ in range(arguments.rounds):
                    for name in CONTESTANTS:
                        times[name] += ask(processes[name], 'time', index, arguments.repeats)
                        time.sleep(0.1)  # until the threads of this process have stopped spinning
                ours, theirs = (np.percentile(times[name], [50, 10, 90]) * 1e3 for name in CONTESTANTS)
                print(f'| {shape} | {task} | {ours[0]:.2f} ({ours[1]:.2f}–{ours[2]:.2f}) '
                      f'| {theirs[0]:.2f} ({theirs[1]:.2f}–{theirs[2]:.2f}) | {ours[0] / theirs[0]:.2f} '
                      f'| {f"{first[0]:.1f}" if index == 0 else ""} |', flush=True)
    stop(processes)


if __name__ == '__main__':
    main()
