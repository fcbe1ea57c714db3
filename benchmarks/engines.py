"""Compares engines for bulk tagging: python benchmarks/engines.py --run DIR --input FOLDER

The workers of `ms-crf tag-many` tag the shards of a folder, JSON lines with the fields "id" and "text". The engines are
Ray actors (the engine of the command), Ray Data and Dask, with shards as rows or tasks. Each engine runs twice; in the
second run a worker is killed twice with SIGKILL. Seconds are measured for whole processes. Install the engines with
`pip install 'ray[data]' distributed`.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ms_crf.bulk.rows import Fields  # noqa: E402
from ms_crf.bulk.shards import shards_of  # noqa: E402
from ms_crf.bulk.worker import Worker, WorkerSettings  # noqa: E402

import psutil  # noqa: E402
from contestants import processor  # noqa: E402

WORKERS = 2


class Tagging:
    """A worker with its loaded model; `tag` tags a shard and returns the number of lines."""

    def __init__(self, run):
        self.worker = Worker(WorkerSettings(run, '', Fields(), 'jsonl'))
        fault = self.worker.begin().fault
        assert fault is None, fault

    def tag(self, shard):
        done = self.worker.tag(shard, f'{shard.target}.{os.getpid()}.draft')
        assert done.fault is None, done.fault
        return done.lines


def ray_data(run, shards):
    import logging

    import ray
    import ray.data

    class Mapped(Tagging):
        def __call__(self, batch):
            return {'lines': [self.tag(shards[index]) for index in batch['item']]}

    ray.init(num_cpus=WORKERS + 1, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger('ray.data').setLevel(logging.CRITICAL)
    rows = ray.data.from_items(list(range(len(shards)))).map_batches(
        Mapped, fn_constructor_args=(run,), batch_size=1, concurrency=WORKERS, num_cpus=1)
    return sum(row['lines'] for row in rows.take_all())


_made = {}                     # the model of a Dask process, created by the first task


def tag_in_dask(run, shard):
    if run not in _made:
        _made[run] = Tagging(run)
    return _made[run].tag(shard)


def dask(run, shards):
    from distributed import Client, LocalCluster

    with (LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client):
        return sum(client.gather([client.submit(tag_in_dask, run, shard, pure=False) for shard in shards]))


def writers(process):
    """The processes that are writing a shard."""
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if any(file.path.endswith('.draft') for file in child.open_files()):
                yield child
        except psutil.Error:
            continue


def timed(name, arguments, kills):
    """Runs an engine; returns (seconds, output lines, distinct ids, killed workers, other lines on the screen)."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / 'out'
        if name == 'tag-many':
            command = ['-m', 'ms_crf', name, '--workers', str(WORKERS)]
        else:
            output.mkdir()
            command = [__file__, '--engine', name]
        began = time.perf_counter()
        with open(Path(folder) / 'screen', 'w+') as screen:
            process = subprocess.Popen([sys.executable, *command, '--run', arguments.run, '--input', arguments.input,
                                        '--output', output], stdout=screen, stderr=screen, cwd=folder,
                                       env={**os.environ, 'PYTHONPATH': os.pathsep.join([str(ROOT), *sys.path[1:]])})
            killed = []
            while process.poll() is None and len(killed) < kills:
                for worker in writers(process):
                    if worker not in killed and len(killed) < kills:
                        worker.kill()
                        psutil.wait_procs([worker])
                        killed.append(worker)
                time.sleep(0.2)
            if process.wait():
                sys.exit(f'{name} failed: {(Path(folder) / "screen").read_text()}')
            seconds = time.perf_counter() - began
            screen.seek(0)
            said = len(screen.readlines()) - 1
        ids = collections.Counter(json.loads(line)['id'] for path in output.glob('*.jsonl')
                                  for line in path.read_text(encoding='utf-8').splitlines())
        return seconds, sum(ids.values()), len(ids), len(killed), said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--run', required=True)
    parser.add_argument('--input', required=True, help='folder of shards')
    for hidden in ('engine', 'output'):
        parser.add_argument(f'--{hidden}', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.run, arguments.input = os.path.abspath(arguments.run), os.path.abspath(arguments.input)
    if arguments.engine:
        shards = shards_of([arguments.input], arguments.output, 'jsonl')
        print({'ray-data': ray_data, 'dask': dask}[arguments.engine](arguments.run, shards))
        return
    print(f'{processor()}, {os.cpu_count()} cores; {WORKERS} workers\n')
    print('| | killed workers | seconds | lines | distinct ids | other lines on the screen |')
    print('|---|---|---|---|---|---|')
    for name in ('tag-many', 'ray-data', 'dask'):
        for kills in (0, 2):
            seconds, lines, ids, killed, said = timed(name, arguments, kills)
            print(f'| {name} | {killed} | {seconds:.1f} | {lines:,} | {ids:,} | {said} |', flush=True)


if __name__ == '__main__':
    main()
