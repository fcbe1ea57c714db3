"""Measures the value of fine-tuning a run: python benchmarks/finetune.py --corpora A B --embeddings V --work DIR

A and B are folders with train.tsv, dev.tsv and test.tsv. The seed draws some training sentences of each corpus. On
these sentences one model is trained from the beginning. Another model is fine-tuned from the run of the same seed that
was trained on all sentences of the other corpus. Trainings run one at a time, each in a separate process. All runs stay
in DIR; start the program again to continue with the missing runs. `--names PER=person` maps the name of a type to its
name in the other corpus, so that the weights of its tags are used.
"""

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTHING, ALL = 'from nothing', 'all'


def sample(path, count, seed, output):
    """Writes `count` randomly drawn sentences of a column file to `output`, in the order of the file."""
    blocks = [block for block in path.read_text(encoding='utf-8').split('\n\n') if block.strip()]
    chosen = sorted(random.Random(seed).sample(range(len(blocks)), count))
    output.write_text(''.join(blocks[number].strip('\n') + '\n\n' for number in chosen), encoding='utf-8')


def renamed(corpus, names, folder):
    """The folder of a copy of the corpus with renamed span types; the corpus folder itself if `names` is empty."""
    if not names:
        return corpus.absolute()
    made = folder / corpus.name
    made.mkdir(exist_ok=True)
    for part in ('train', 'dev', 'test'):
        text = (corpus / f'{part}.tsv').read_text(encoding='utf-8')
        for name, other in names.items():
            text = re.sub(rf'(?m)^(.*\t[A-Z])-{re.escape(name)}$', rf'\1-{other}', text)
        (made / f'{part}.tsv').write_text(text, encoding='utf-8')
    return made


def train(folder, options):
    """Trains or resumes a run until it is finished; does nothing if the run is finished already."""
    if (folder / 'scores.json').exists():
        return
    how = [*options, '--save', str(folder)]
    if (folder / 'state.ckpt').exists():
        how = ['--resume', str(folder)]
    elif folder.exists():                        # stopped before the first save, so it cannot resume
        shutil.rmtree(folder)
    print(f'training {folder.name}', file=sys.stderr, flush=True)
    subprocess.run([sys.executable, str(ROOT / 'train.py'), *how], check=True, stdout=subprocess.DEVNULL)


def score(folder):
    """The test F1 of a finished run, in percent."""
    return 100 * json.loads((folder / 'scores.json').read_text(encoding='utf-8'))['test']['f1']


def run_of(arguments, corpus, other, size, seed, setting):
    """Returns the folder of a run and trains the run if necessary.

    `setting` is NOTHING for a training from the beginning, otherwise options to use together with --init.
    """
    begins = ''.join(letter if letter.isalnum() or letter in '.-' else '_' for letter in setting) or 'init'
    folder = arguments.work / '-'.join([corpus.name, size, begins, str(seed)])
    train_file = corpus / 'train.tsv'
    if size != ALL:
        train_file = arguments.work / f'{corpus.name}-{size}-{seed}.tsv'
        if not train_file.exists():
            sample(corpus / 'train.tsv', int(size), seed, train_file)
    options = [f'--train={train_file}', *(f'--{part}={corpus}/{part}.tsv' for part in ('dev', 'test')),
               f'--seed={seed}', *([f'--embeddings={arguments.embeddings}'] if arguments.embeddings else [])]
    if setting != NOTHING:
        base = run_of(arguments, other, corpus, ALL, seed, NOTHING)
        options += [f'--init={base}', *setting.split()]
    train(folder, options)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--corpora', nargs=2, type=Path, required=True)
    parser.add_argument('--embeddings', type=Path, help='word vectors for all trainings')
    parser.add_argument('--work', type=Path, required=True, help='folder of the runs; created if missing')
    parser.add_argument('--names', nargs='*', default=[], metavar='OLD=NEW',
                        help='map types of spans to their names in the other corpus')
    parser.add_argument('--sentences', default=f'100,500,{ALL}',
                        help='numbers of training sentences (default: %(default)s)')
    parser.add_argument('--seeds', type=int, default=3, help='number of seeds (default: %(default)s)')
    parser.add_argument('--settings', nargs='*', default=[''],
                        help='options to use together with --init; one table column for each (default: none)')
    arguments = parser.parse_args()
    for name in ('work', 'embeddings'):
        if getattr(arguments, name):
            setattr(arguments, name, getattr(arguments, name).absolute())
    arguments.work.mkdir(parents=True, exist_ok=True)
    names = dict(name.split('=') for name in arguments.names)
    corpora = [renamed(corpus, names, arguments.work) for corpus in arguments.corpora]
    columns = [NOTHING, *arguments.settings]
    cells = {}
    for size in arguments.sentences.split(','):
        for setting in columns:
            for corpus, other in (corpora, corpora[::-1]):
                scores = [score(run_of(arguments, corpus, other, size, seed, setting))
                          for seed in range(1, 1 + arguments.seeds)]
                spread = f' ± {statistics.stdev(scores):.1f}' if len(scores) > 1 else ''
                cells[corpus, size, setting] = f'{statistics.mean(scores):.1f}{spread}'
                print(corpus.name, size, setting, *(f'{one:.2f}' for one in scores), file=sys.stderr, flush=True)
    heads = [NOTHING, *(f'`{f"--init {setting}".strip()}`' for setting in arguments.settings)]
    print('| corpus | sentences |', ' | '.join(heads), '|')
    print('|---' * (2 + len(columns)) + '|')
    for corpus in corpora:
        for size in arguments.sentences.split(','):
            print(f'| {corpus.name} | {size} |', ' | '.join(cells[corpus, size, setting] for setting in columns), '|')


if __name__ == '__main__':
    main()
