"""The folder of downloaded corpora, and small corpora that tests write."""

import random

from support.paths import ROOT

CORPORA = ROOT.parent / 'shared' / 'data'


def write(folder, text, name='corpus.tsv'):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def write_corpus(path, count, seed):
    """Writes `count` random sentences of 3 to 5 words.

    The fourth sentence of test.tsv has 12 words, so the final evaluation compiles a graph for another length.
    """
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        words = 9 if number == 3 and path.name == 'test.tsv' else rng.randint(0, 2)
        for word in rng.choices('to in at on by'.split(), k=words) + ['of']:
            rows.append(f'{word}\tO')
        rows.append(f'{rng.choice("Xan Xel Xor".split())}\tB-PER')
        rows.append(f'{rng.choice("Yan Yel Yor".split())}\tI-PER\n')
    path.write_text('\n'.join(rows) + '\n', encoding='utf-8')
