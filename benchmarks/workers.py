"""Times distributed training: python benchmarks/workers.py --train FILE --dev FILE [options of train.py]

Measures the seconds of a step with one and more processes (--counts), in separate, alternating trainings. It also
measures the number of bytes that a step sums over the workers, and the time of this sum alone. Steps that compile do
not count.

From bytes and bandwidth the program estimates the time of a step on 8, 64 and 512 machines. Each machine has a share of
the batch and the processors of this machine. Gradients go round a ring of machines: each machine sends and receives 2
(N - 1) / N times the bytes at --bandwidth, with --latency for each of the 2 (N - 1) messages. Work that every machine
repeats (the update, the characters of the batch, the planning) does not shrink.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ms_crf.cli import train  # noqa: E402
from ms_crf.runs.run import SavedRun  # noqa: E402
from ms_crf.training.course import start  # noqa: E402

import numpy as np  # noqa: E402
from contestants import Quiet, processor  # noqa: E402

_SUM = '''
import time
import ms_crf.base.environment
from ms_crf.training import workers
import mindspore as ms
import numpy as np
ms.set_device('CPU')
found = workers.join()
if not workers.is_scheduler():
    add_up = workers.compiled_sum()
    numbers = ms.Tensor(np.ones({count}, np.float32))
    seconds = []
    for _ in range(60):
        began = time.perf_counter()
        add_up(numbers).asnumpy()
        seconds.append(time.perf_counter() - began)
    if found.leads:
        open({path!r}, 'w').write(str(sorted(seconds[10:])[25]))
'''


def numbers_of_a_step(arguments):
    """(steps of an epoch, size of the sum over the workers in each step).

    The sum contains the gradients of all weights, but only the rows of the word table that occur in a batch.
    """
    run = start(train.options_of(arguments), Quiet())
    run.directory.release()
    network, batches = run.network, run.learner.plan(np.random.default_rng([run.options.seed, 1]))
    table = getattr(network, 'row_table', None)
    count = sum(weight.size for weight in network.trainable_params() if weight is not table)
    if table is not None:
        count += round(np.mean([shape.forms for shape, *_ in batches])) * table.shape[1]
    return len(batches), count


def seconds_of_epochs(arguments, workers, folder):
    """Trains; returns the seconds of all epochs except the first, in which graphs are compiled."""
    run = f'{folder}/{workers}-{time.monotonic_ns()}'
    subprocess.run([sys.executable, str(ROOT / 'train.py'), *arguments, '--save', run, '--workers', str(workers)],
                   check=True, stdout=subprocess.DEVNULL)
    return [record['seconds'] for record in SavedRun.open(run).metrics][1:]


def seconds_of_sum(count, workers, folder):
    script, result = Path(folder, 'sum.py'), Path(folder, 'sum.txt')
    script.write_text(_SUM.format(count=count, path=str(result)))
    subprocess.run([sys.executable, '-m', 'mindspore.parallel.cluster.run', f'--worker_num={workers}',
                    f'--local_worker_num={workers}', '--join=True', f'--log_dir={folder}/logs', str(script)],
                   check=True, env={**os.environ, 'PYTHONPATH': str(ROOT)}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return float(result.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--counts', type=int, nargs='+', default=[1, 2], metavar='N',
                        help='numbers of processes (default: 1 2)')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--epochs', type=int, default=4)
    parser.add_argument('--bandwidth', type=float, default=10.0, help='Gbit/s of each machine (default: %(default)s)')
    parser.add_argument('--latency', type=float, default=50.0, help='microseconds per message (default: %(default)s)')
    known, arguments = parser.parse_known_args()
    arguments += ['--epochs', str(known.epochs), '--patience', '0']
    with tempfile.TemporaryDirectory() as folder:
        steps, count = numbers_of_a_step([*arguments, '--save', f'{folder}/none'])
        seconds = {workers: [] for workers in known.counts}
        for _ in range(known.rounds):
            for workers in known.counts:
                seconds[workers] += seconds_of_epochs(arguments, workers, folder)
        sums = {workers: seconds_of_sum(count, workers, folder) for workers in known.counts if workers > 1}
    print(f'{processor()}, {os.cpu_count()} cores; {steps} steps an epoch, {4 * count / 1e6:.2f} MB added up in each\n')
    print('| processes | ms a step, median (least–most) | summing over the workers, measured alone |\n|---|---|---|')
    for workers, values in seconds.items():
        each = [1000 * value / steps for value in values]
        added = f'{1000 * sums[workers]:.1f}' if workers in sums else '–'
        print(f'| {workers} | {statistics.median(each):.1f} ({min(each):.1f}–{max(each):.1f}) | {added} |')
    alone = statistics.median(seconds[known.counts[0]]) / steps
    print('\n| machines | sending, ms a step, on paper |\n|---|---|')
    for machines in (8, 64, 512):
        sent = 2 * (machines - 1) / machines * 32 * count / (known.bandwidth * 1e9)
        print(f'| {machines} | {1000 * (sent + 2 * (machines - 1) * known.latency / 1e6):.1f} |')
    print(f'\nA step of one process takes {1000 * alone:.1f} ms here.')


if __name__ == '__main__':
    main()
