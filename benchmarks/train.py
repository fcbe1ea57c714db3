"""Times an epoch of `train.py` against PyTorch taggers: python benchmarks/train.py --train A --dev B --test C

There are two PyTorch taggers: the fastest version that we could write, and the usual first version; see
peer_tagger.py. All taggers have the same files, sizes and batch size, the default threads of their framework, and a
first epoch that does not count. Each tagger runs in a separate process, and epochs alternate. Losses are not
comparable, because random numbers differ; the table also shows the score that each tagger has reached.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ms_crf.runs.options import Options  # noqa: E402
from ms_crf.text.metrics import score_in  # noqa: E402

import numpy as np  # noqa: E402
from contestants import Quiet, ask, processor, start, stop  # noqa: E402


def ours(options):
    """A function that trains ms_crf for an epoch and returns (seconds, dev score, test score)."""
    from ms_crf.training.course import start

    run = start(options, Quiet())

    def epoch():
        run.run_epoch()
        return run.metrics[-1]['seconds'], *(main_score(run.corpora, run.score(part)) for part in ('dev', 'test'))
    return epoch


def peer(options, form):
    from ms_crf.formats.dataset import load
    from ms_crf.models.base import kind_of

    import peer_tagger
    import torch

    torch.manual_seed(options.seed)
    corpora = load({part: getattr(options, part) for part in ('train', 'dev', 'test')}, options.scheme,
                   options.column_pair())
    words = kind_of(options).learner(options, corpora, Quiet())
    vocabulary = words.vocabulary
    model = peer_tagger.FORMS[form](vocabulary.num_words, words.word_dim, len(vocabulary.tags), options.hidden,
                                    vocabulary.num_characters, options.char_dim, options.char_width)
    model.words.weight.data = torch.tensor(words.rows)
    optimizers = model.optimizers()
    generator = np.random.default_rng(options.seed)

    def epoch():
        model.train()
        began = time.perf_counter()
        batches = peer_tagger.prepare(model, words.encoded['train'], options.batch_size, generator)
        peer_tagger.run_epoch(model, optimizers, batches)
        seconds = time.perf_counter() - began
        model.eval()
        predicted = {part: peer_tagger.tag(model, words.encoded[part], vocabulary.tags) for part in ('dev', 'test')}
        return seconds, *(main_score(corpora, score_in(corpora.file_scheme, corpora.gold[part], predicted[part],
                                                       corpora.scheme))
                          for part in predicted)
    return epoch


CONTESTANTS = {'ms_crf': ours, 'PyTorch, padded': lambda options: peer(options, 'padded'),
               'PyTorch, packed': lambda options: peer(options, 'packed')}


def main_score(corpora, result):
    return 100 * (result.accuracy if corpora.file_scheme == 'plain' else result.spans.f1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for part in ('train', 'dev', 'test'):
        parser.add_argument(f'--{part}', required=True)
    parser.add_argument('--embeddings', default='')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=5, help='measured epochs of each tagger (default: %(default)s)')
    parser.add_argument('--contestant', choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument('--save', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        options = Options(**{name: getattr(arguments, name) for name in ('train', 'dev', 'test', 'embeddings', 'seed')},
                          char='cnn', bigrams=False, scheme='BIO', batch_size=32, save=arguments.save, patience=0)
        epoch = CONTESTANTS[arguments.contestant](options)
        print(1, flush=True)
        for _ in sys.stdin:
            print(*epoch(), flush=True)
        return
    results = {name: [] for name in CONTESTANTS}
    with tempfile.TemporaryDirectory() as folder:
        processes = {name: start(name, *sys.argv[1:], '--save', f'{folder}/run') for name in CONTESTANTS}
        for process in processes.values():
            process.stdout.readline()
        for _ in range(1 + arguments.rounds):
            for name, process in processes.items():
                results[name].append(ask(process, 'epoch'))
                time.sleep(0.2)                  # until the threads of this process have stopped spinning
        stop(processes)
    print(f'{processor()}, {os.cpu_count()} cores; {arguments.rounds} epochs each, alternating\n')
    print('| | s/epoch, median (least–most) | best dev | its test |\n|---|---|---|---|')
    for name, rows in results.items():
        seconds, dev, test = np.array(rows).T
        best = dev.argmax()
        print(f'| {name} | {np.median(seconds[1:]):.2f} ({seconds[1:].min():.2f}–{seconds[1:].max():.2f}) '
              f'| {dev[best]:.2f} | {test[best]:.2f} |')
    first, *others = (np.median(np.array(rows)[1:, 0]) for rows in results.values())
    print(f'\nratio to the padded one {first / others[0]:.2f}, to the packed one {first / others[1]:.2f}')


if __name__ == '__main__':
    main()
