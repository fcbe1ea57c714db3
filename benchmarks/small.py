"""Measures training with few sentences: python benchmarks/small.py --train A --dev B --test C

Trains on the first sentences of a corpus, with several settings and several seeds. Trainings run one at a time, each in
a separate process; dev and test are complete. `--program` names the train.py of another version to compare with.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def first_sentences(path, count):
    """The text of the first sentences of a column file."""
    blocks = [block for block in Path(path).read_text(encoding='utf-8').split('\n\n') if block.strip()]
    return '\n\n'.join(block.strip('\n') for block in blocks[:count]) + '\n\n'


def train(program, arguments, folder):
    """Trains; returns (test F1, test accuracy, best epoch, number of epochs), or None if the training was refused.

    F1 and accuracy are in percent.
    """
    command = [sys.executable, program, *arguments, '--save', f'{folder}/run', '--overwrite']
    done = subprocess.run(command, cwd=Path(program).parent, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr, flush=True)
        return None
    scores = json.loads(Path(folder, 'run', 'scores.json').read_text(encoding='utf-8'))
    return 100 * scores['test']['f1'], 100 * scores['test']['accuracy'], scores['best_epoch'], scores['epochs']


def cell(runs):
    """A table cell: mean test F1 and accuracy, and for each run the best epoch and the number of epochs."""
    if None in runs:
        return 'refused'
    score, accuracy, *_ = (statistics.mean(values) for values in zip(*runs))
    return f'{score:.1f} / {accuracy:.1f} ({", ".join(f"{best} of {epochs}" for *_, best, epochs in runs)})'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for part in ('train', 'dev', 'test'):
        parser.add_argument(f'--{part}', default=str(ROOT / 'data' / f'{part}.tsv'), help='(default: %(default)s)')
    parser.add_argument('--sentences', default='20,50,100,200',
                        help='numbers of training sentences (default: %(default)s)')
    parser.add_argument('--seeds', type=int, default=3, help='number of seeds (default: %(default)s)')
    parser.add_argument('--program', default=str(ROOT / 'train.py'), help='(default: %(default)s)')
    parser.add_argument('--settings', nargs='*', default=['', '--average 0 --patience 0'],
                        help='options of each table column (default: %(default)s)')
    arguments = parser.parse_args()
    files = [f'--{part}={Path(getattr(arguments, part)).absolute()}' for part in ('dev', 'test')]
    print(f'| sentences | {" | ".join(f"`{setting}`" if setting else "default" for setting in arguments.settings)} |')
    print('|---' * (1 + len(arguments.settings)) + '|', flush=True)
    for count in map(int, arguments.sentences.split(',')):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, 'train.tsv').write_text(first_sentences(arguments.train, count), encoding='utf-8')
            cells = []
            for setting in arguments.settings:
                runs = []
                for seed in range(1, 1 + arguments.seeds):
                    runs.append(train(Path(arguments.program).absolute(), [
                        f'--train={folder}/train.tsv', *files, '--seed', str(seed), *setting.split()], folder))
                    print(count, setting, seed, runs[-1], file=sys.stderr, flush=True)
                cells.append(cell(runs))
        print(f'| {count} | {" | ".join(cells)} |', flush=True)


if __name__ == '__main__':
    main()
