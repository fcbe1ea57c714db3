"""Times tagging against a PyTorch tagger with the same weights: python benchmarks/infer.py --run DIR --input FILE

Each tagger gets lists of tokens and returns lists of tags. Ids, sorting by length and batching are measured; loading
and compiling are not. The PyTorch taggers have the weights of the run, so the tags must be equal; differences are
reported. One PyTorch tagger is the fastest that we could write; it also sorts by length. "plain" is the usual first
version: a packed LSTM, pytorch-crf, batches of 32 sentences in the order of the file. See peer_tagger.py. Each tagger
runs in a separate process, and calls alternate. The first calls do not count, because ms_crf compiles more shapes.

With --stream LINES the program measures infer.py instead: the time to the first tagged line, and peak memory and speed
with 10,000 lines and with LINES lines, which repeat the input.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ms_crf.formats.registry import read_corpus  # noqa: E402
from ms_crf.runs.run import SavedRun  # noqa: E402

import numpy as np  # noqa: E402
from contestants import ask, processor, start, stop  # noqa: E402

NAMES = ('run', 'run with confidences', 'MindIR', 'MindIR with confidences', 'PyTorch', 'PyTorch, plain')


def ours(path, sentences, confidence):
    from ms_crf import Tagger

    tagger = Tagger.load(path)
    return lambda: [tagged.tags for tagged in tagger.tag(sentences, confidence)]


def peer(run, sentences, plain):
    from ms_crf.models.words.batches import EncodedWords
    from ms_crf.models.words.vocabulary import Vocabulary

    import peer_tagger

    vocabulary = SavedRun.open(run).vocabulary(Vocabulary)
    model = peer_tagger.from_run(run, 'packed' if plain else 'padded')
    if plain:
        return lambda: peer_tagger.tag(model, EncodedWords(sentences, vocabulary), vocabulary.tags, 32,
                                       by_length=False)
    return lambda: peer_tagger.tag(model, EncodedWords(sentences, vocabulary), vocabulary.tags)


def contestant(name, arguments):
    sentences = [sentence.tokens for sentence in read_corpus(arguments.input)]
    if 'PyTorch' in name:
        return peer(arguments.run, sentences, 'plain' in name)
    path = f'{arguments.graphs}/{name.replace(" ", "-")}.mindir' if 'MindIR' in name else arguments.run
    return ours(path, sentences, 'confidences' in name)


def serve(name, arguments):
    """Runs as a contestant: answers each input line with the seconds of a call; at the end, writes the tags."""
    work = contestant(name, arguments)
    tags = work()
    for _ in range(arguments.warm_up):
        work()
    print(1, flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        work()
        print(time.perf_counter() - began, flush=True)
    Path(arguments.leave).write_text('\n'.join(map(' '.join, tags)), encoding='utf-8')


def throughput(arguments):
    count = len(read_corpus(arguments.input))
    with tempfile.TemporaryDirectory() as folder:
        for name, options in (('MindIR', []), ('MindIR-with-confidences', ['--confidence'])):
            subprocess.run([sys.executable, '-m', 'ms_crf.export', '--run', arguments.run, '--output',
                            f'{folder}/{name}.mindir', *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        files = {name: f'{folder}/{index}' for index, name in enumerate(NAMES)}
        command = ['--run', arguments.run, '--input', arguments.input, '--graphs', folder, '--warm-up',
                   str(arguments.warm_up)]
        processes = {}
        for name in NAMES:
            processes[name] = start(name, *command, '--leave', files[name])
            processes[name].stdout.readline()                    # waits until the contestant has warmed up
        seconds = {name: [] for name in NAMES}
        for _ in range(arguments.rounds):
            for name, process in processes.items():
                seconds[name].append(ask(process, 'tag')[0])
                time.sleep(0.2)                  # until the threads of this process have stopped spinning
        stop(processes)
        tags = {name: Path(file).read_text(encoding='utf-8').split('\n') for name, file in files.items()}
    print(f'{processor()}, {os.cpu_count()} cores; {count} sentences, {arguments.rounds} rounds\n')
    print('| | sentences/s, median (least–most) | times PyTorch | sentences with other tags |\n|---|---|---|---|')
    medians = {name: np.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        rates = [count / value for value in values]
        other = sum(one != two for one, two in zip(tags[name], tags['PyTorch']))
        print(f'| {name} | {count / medians[name]:,.0f} ({min(rates):,.0f}–{max(rates):,.0f}) '
              f'| {medians["PyTorch"] / medians[name]:.2f} | {other} |')


def first_line(run, text):
    """Seconds from the start of infer.py to its answer to one line."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, 'infer.py', '--run', run], cwd=ROOT, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdin.write(text + '\n')
        process.stdin.flush()
        process.stdout.readline()
        seconds = time.perf_counter() - began
        process.stdin.close()
    return seconds


def stream(arguments):
    lines = [' '.join(sentence.tokens) for sentence in read_corpus(arguments.input)]
    seconds = [first_line(arguments.run, lines[0]) for _ in range(arguments.rounds)]
    print(f'{processor()}, {os.cpu_count()} cores\n')
    print(f'start to first tagged line: {np.median(seconds):.1f} s ({min(seconds):.1f}–{max(seconds):.1f})\n')
    print('| lines | peak memory MB | seconds |\n|---|---|---|')
    for count in (10_000, arguments.stream):
        with tempfile.NamedTemporaryFile('w', suffix='.txt', encoding='utf-8') as file:
            file.writelines(lines[number % len(lines)] + '\n' for number in range(count))
            file.flush()
            began = time.perf_counter()
            process = subprocess.Popen([sys.executable, 'infer.py', '--run', arguments.run, '--input', file.name],
                                       cwd=ROOT, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                sys.exit('infer.py failed')
            print(f'| {count:,} | {usage.ru_maxrss / 1024:.0f} | {time.perf_counter() - began:.1f} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--run', required=True)
    parser.add_argument('--input', required=True)
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--warm-up', type=int, default=60, help='warm-up calls of each tagger (default: %(default)s)')
    parser.add_argument('--stream', type=int, metavar='LINES')
    for hidden in ('graphs', 'contestant', 'leave'):
        parser.add_argument(f'--{hidden}', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.run, arguments.input = os.path.abspath(arguments.run), os.path.abspath(arguments.input)
    if arguments.contestant:
        serve(arguments.contestant, arguments)
    elif arguments.stream:
        stream(arguments)
    else:
        throughput(arguments)


if __name__ == '__main__':
    main()
