"""Times bulk tagging against a single process: python benchmarks/bulk.py --run DIR --input FILE

The input lines repeat the sentences of a file of tagged sentences. They are tagged by a `Tagger` in one process, and by
`ms-crf tag-many`. `--kill` sets how often a worker is killed with SIGKILL. The program checks that each id occurs
exactly once, with the same tags. Seconds are measured for whole processes, including loading and compiling. The memory
of the workers is sampled: the peak of a worker in the first third of its time, and in its whole time.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ms_crf.formats.registry import read_corpus  # noqa: E402

import psutil  # noqa: E402
from contestants import processor  # noqa: E402

PAUSE = 0.2                    # seconds between samples of the workers' memory


def write_shards(folder, texts, lines, shards):
    """Writes files of JSON lines whose ids are the numbers from 0."""
    folder.mkdir()
    for shard in range(shards):
        with open(folder / f'{shard:05d}.jsonl', 'w', encoding='utf-8') as file:
            for number in range(shard * lines // shards, (shard + 1) * lines // shards):
                file.write(json.dumps({'id': number, 'text': texts[number % len(texts)]}) + '\n')


def one_process(arguments):
    """The first contestant: writes the tags of each input line as one line, and prints its peak memory in MB."""
    from ms_crf import Tagger

    tagger = Tagger.load(arguments.run)
    paths = sorted(Path(arguments.one).glob('*.jsonl'))
    with contextlib.ExitStack() as files:
        opened = [files.enter_context(open(path, encoding='utf-8')) for path in paths]
        tag_in_turn(tagger, opened, arguments)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def tag_in_turn(tagger, opened, arguments):
    texts = (json.loads(line)['text'].split() for file in opened for line in file)
    with open(arguments.tags, 'w', encoding='utf-8') as file:
        for sentence in tagger.stream(texts, arguments.confidence):
            file.write(' '.join(sentence.tags) + '\n')


def workers_of(process):
    """The worker processes that are tagging, as (process, memory in MB)."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if child.name().startswith('ray::Worker.tag'):
                found.append((child, child.memory_info().rss / 2 ** 20))
        except psutil.Error:
            continue
    return found


def watch(process, output, shards, kills):
    """Samples the memory of the workers and kills some workers; returns samples by process and the number of deaths."""
    samples, killed = collections.defaultdict(list), 0
    while process.poll() is None:
        try:
            found = workers_of(process)
        except psutil.NoSuchProcess:
            break
        for worker, size in found:
            samples[worker.pid].append(size)
        done = len(list(Path(output).glob('*.jsonl')))
        if found and killed < kills and done >= (killed + 1) * shards // (kills + 2):
            worker, _ = found[killed % len(found)]
            worker.kill()
            psutil.wait_procs([worker])
            killed += 1
        time.sleep(PAUSE)
    return samples, killed


def compare(source, output, tags):
    """(number of lines, missing or repeated ids, lines with other tags) of the tagged shards."""
    seen, lines, other, wrong = set(), 0, 0, 0
    with open(tags, encoding='utf-8') as expected:
        for path in sorted(source.glob('*.jsonl')):
            with open(path, encoding='utf-8') as given, open(output / path.name, encoding='utf-8') as found:
                for one, row, text in itertools.zip_longest(expected_of(expected, path), found, given):
                    lines += 1
                    if row is None or text is None or json.loads(row)['id'] != json.loads(text)['id']:
                        wrong += 1
                        continue
                    record = json.loads(row)
                    wrong += record['id'] in seen
                    seen.add(record['id'])
                    other += ' '.join(record['tags']) != one.rstrip('\n')
    return lines, wrong, other


def expected_of(file, path):
    """The next lines of an open file, as many as the file at `path` has."""
    with open(path, 'rb') as other:
        return list(itertools.islice(file, sum(1 for _ in other)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--run', required=True)
    parser.add_argument('--input', help='file of tagged sentences')
    parser.add_argument('--lines', type=int, default=1_000_000, help='number of input lines (default: %(default)s)')
    parser.add_argument('--shards', type=int, default=50, help='number of shards (default: %(default)s)')
    parser.add_argument('--workers', type=int, default=2, help='number of workers (default: %(default)s)')
    parser.add_argument('--kill', type=int, default=2, metavar='N', help='workers to kill (default: %(default)s)')
    parser.add_argument('--confidence', action='store_true')
    for hidden in ('one', 'tags'):
        parser.add_argument(f'--{hidden}', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one_process(arguments)
        return
    options = ['--confidence'] if arguments.confidence else []
    texts = [' '.join(sentence.tokens) for sentence in read_corpus(arguments.input)]
    print(f'{processor()}, {os.cpu_count()} cores; {arguments.lines:,} lines in {arguments.shards:,} shards\n')
    print('| | seconds | lines/s | peak memory MB |\n|---|---|---|---|')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, output, tags = folder / 'in', folder / 'out', folder / 'tags'
        write_shards(source, texts, arguments.lines, arguments.shards)
        began = time.perf_counter()
        one = subprocess.run([sys.executable, __file__, '--run', arguments.run, '--one', source, '--tags', tags,
                              *options], check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        print(f'| one process | {seconds:.1f} | {arguments.lines / seconds:,.0f} | {float(one.stdout):.0f} |',
              flush=True)
        began = time.perf_counter()
        many = subprocess.Popen([sys.executable, '-m', 'ms_crf', 'tag-many', '--run', arguments.run, '--input', source,
                                 '--output', output, '--workers', str(arguments.workers), '--json',
                                 folder / 'summary.json', *options], cwd=folder, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, 'PYTHONPATH': str(ROOT)})
        samples, killed = watch(many, output, arguments.shards, arguments.kill)
        if many.wait():
            sys.exit('tag-many failed')
        seconds = time.perf_counter() - began
        peaks = [(max(sizes[:max(1, len(sizes) // 3)]), max(sizes)) for sizes in samples.values()]
        shown = ', '.join(f'{first:.0f} → {most:.0f}' for first, most in peaks)
        print(f'| {arguments.workers} workers, {killed} killed | {seconds:.1f} | {arguments.lines / seconds:,.0f} '
              f'| {shown} |')
        summary = json.loads((folder / 'summary.json').read_text())
        lines, wrong, other = compare(source, output, tags)
        print(f'\n{lines:,} lines, {wrong:,} ids missing or there again, {other:,} lines with other tags; '
              f'{summary["retries"]} shards retried')


if __name__ == '__main__':
    main()
