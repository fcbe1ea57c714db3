"""The corpora beside the checkout, and files of a few sentences."""

import random

from support.paths import ROOT

CORPORA = ROOT.parent / 'shared' / 'data'


def write(folder, text, name='corpus.tsv'):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def write_corpus(path, count, seed):
    """Sentences of 3 to 5 words; in the test corpus one of 12, for which a graph is compiled at the very end."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        words = 9 if number == 3 and path.name == 'test.tsv' else rng.randint(0, 2)
        for word in rng.choices('to in at on by'.split(), k=words) + ['of']:
            rows.append(f'{word}\tO')
        rows.append(f'{rng.choice("Xan Xel Xor".split())}\tB-PER')
        rows.append(f'{rng.choice("Yan Yel Yor".split())}\tI-PER\n')
    path.write_text('\n'.join(rows) + '\n', encoding='utf-8')
