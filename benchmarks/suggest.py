"""Simulates active learning: annotating the suggestions of `ms-crf suggest`, compared with random sentences.

A tagger learns from a few annotated sentences, which are drawn at random. In each step more sentences are annotated:
random sentences, or suggestions of the tagger of the previous step. Then a new tagger is trained with early stopping on
dev, and its test score is recorded. Each seed draws other initial sentences, which are the same for all ways.

Finished steps in --folder are skipped, so start the program again to continue.

    python benchmarks/suggest.py --train train.tsv --dev dev.tsv --test test.tsv --embeddings glove.txt --folder DIR
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ms_crf.base.files import write_text  # noqa: E402
from ms_crf.experiments.runner import markdown, mean_and_deviation  # noqa: E402
from ms_crf.formats.registry import read_corpus  # noqa: E402

RANDOM = 'random'


def run(*arguments):
    result = subprocess.run([sys.executable, '-m', 'ms_crf', *map(str, arguments)], cwd=ROOT, capture_output=True,
                            text=True)
    if result.returncode:
        raise SystemExit(result.stderr)
    return result.stdout


def rows(sentences):
    return ''.join(''.join(f'{token}\t{tag}\n' for token, tag in zip(sentence.tokens, sentence.tags)) + '\n'
                   for sentence in sentences)


class Simulation:
    """The simulation with one seed.

    Args:
        parsed: the parsed command-line arguments.
        seed: seed of the random sentences and of the trainings.
    """

    def __init__(self, parsed, seed):
        self.parsed, self.seed, self.folder = parsed, seed, Path(parsed.folder, f'seed-{seed}')
        self.corpus = read_corpus(parsed.train)
        self.order = list(range(len(self.corpus)))
        random.Random(seed).shuffle(self.order)

    def place(self, way, size):
        """The folder of a step; the first step is shared by all ways."""
        return self.folder / f'{way if size > self.parsed.sizes[0] else "start"}-{size}'

    def chosen(self, way, size):
        """The indices of the annotated sentences of a step."""
        sizes = self.parsed.sizes
        if way == RANDOM or size == sizes[0]:
            return self.order[:size]
        note = self.place(way, size) / 'chosen.json'
        if note.exists():
            return json.loads(note.read_text())
        smaller = sizes[sizes.index(size) - 1]
        before = self.chosen(way, smaller)
        rest = [number for number in self.order if number not in set(before)]
        note.parent.mkdir(parents=True, exist_ok=True)
        pool, out = note.with_name('pool.jsonl'), note.with_name('suggested.jsonl')
        write_text(pool, ''.join(json.dumps({'tokens': self.corpus[number].tokens}) + '\n' for number in rest))
        run('suggest', '--run', self.place(way, smaller) / 'run', '--input', pool, '--known',
            self.place(way, smaller) / 'train.tsv', '-n', size - smaller, '--by', way, '--output', out)
        numbers = {tuple(self.corpus[number].tokens): number for number in rest}
        found = [numbers[tuple(json.loads(line)['tokens'])] for line in out.read_text().splitlines()]
        assert len(set(found)) == size - smaller, f'{len(set(found))} sentences, expected {size - smaller}'
        write_text(note, json.dumps(before + found))
        return before + found

    def step(self, way, size):
        """(number of tokens, dev F1, test F1) of a step; trains first if the step is not finished."""
        place = self.place(way, size)
        sentences = [self.corpus[number] for number in self.chosen(way, size)]
        if not (place / 'run' / 'scores.json').exists():
            place.mkdir(parents=True, exist_ok=True)
            write_text(place / 'train.tsv', rows(sentences))
            if (place / 'run' / 'config.json').exists():
                run('train', '--resume', place / 'run')
            else:
                others = ['--embeddings', self.parsed.embeddings] if self.parsed.embeddings else []
                run('train', '--train', place / 'train.tsv', '--dev', self.parsed.dev, '--test', self.parsed.test,
                    '--seed', self.seed, '--save', place / 'run', *others)
        scores = json.loads((place / 'run' / 'scores.json').read_text())
        return sum(len(sentence.tokens) for sentence in sentences), scores['dev']['f1'], scores['test']['f1']


def table(parsed, found):
    """A table with a row for each number of sentences: for each way, the mean test F1 and the number of tokens."""
    rows = []
    for size in parsed.sizes:
        rows.append([f'{size:,}'])
        for way in parsed.by:
            steps = [step for (at, _, named), step in found.items() if (at, named) == (size, way)]
            rows[-1] += [mean_and_deviation([step[2] for step in steps]),
                         f'{statistics.mean(step[0] for step in steps):,.0f}']
    return markdown(['annotated sentences', *(head for way in parsed.by for head in (f'{way}, F1', 'tokens'))], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in ('train', 'dev', 'test'):
        parser.add_argument(f'--{part}', required=True, type=os.path.abspath)
    parser.add_argument('--embeddings', type=os.path.abspath)
    parser.add_argument('--folder', required=True, type=os.path.abspath, help='folder of finished steps')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--sizes', type=lambda text: [int(part) for part in text.split(',')],
                        default=[100, 300, 700, 1500], help='increasing numbers of annotated sentences')
    parser.add_argument('--by', type=lambda text: text.split(','),
                        default=[RANDOM, 'least-confidence', 'mnlp', 'token-entropy'])
    parsed = parser.parse_args()
    found = {}
    for seed in range(1, parsed.seeds + 1):
        simulation = Simulation(parsed, seed)
        for size in parsed.sizes:
            for way in parsed.by:
                found[size, seed, way] = tokens, dev, test = simulation.step(way, size)
                print(f'seed {seed}, {size} sentences, {way}: {tokens} tokens, dev F1 {100 * dev:.2f}, '
                      f'test F1 {100 * test:.2f}', flush=True)
        write_text(Path(parsed.folder, 'table.md'), table(parsed, found) + '\n')
    print(table(parsed, found))


if __name__ == '__main__':
    main()
