"""Measures training on partially annotated text, compared with other ways to use such text.

Tags are removed from the training sentences: 80, 50 or 20 % of the tags at random, or all names that a simulated
annotator does not know. The annotator knows half of the distinct names, marks each of their occurrences, and marks
nothing else. The ways differ only in the training file:

    unknown         missing tags are '?': the loss sums over all paths through the known tags
    unknown but O   for the annotator: the same, but lower-case words and punctuation are O, unless a word with a
                    capital or a digit is next to them
    as O            missing tags are O
    dropped         sentences with missing tags are removed; for the annotator, sentences without a name are removed,
                    and missing tags in the remaining sentences are O

Tags are in BIOES, so the boundaries of marked names are known. Dev and test are complete. Dev selects the best epoch
and the shift of the score of O; all other options are defaults. The seed also draws the removed tags. Results are
appended to a file of JSON lines. Start the program again to continue; it prints a table of all results in the file.

    python benchmarks/partial.py --data F --embeddings V --results partial.jsonl
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ms_crf.experiments.runner import markdown, mean_and_deviation  # noqa: E402
from ms_crf.formats.registry import read_corpus  # noqa: E402
from ms_crf.text.schemes import spans_of, tags_of  # noqa: E402

RATES, ANNOTATOR, WHOLE = (80, 50, 20), 'names of one annotator', 'nothing'
WAYS = ('unknown', 'unknown but O', 'as O', 'dropped')
SCHEME = 'BIOES'


def tasks():
    """Returns (removed tags, way to use the rest) of each row of the table."""
    yield WHOLE, ''
    for rate in RATES:
        for way in ('unknown', 'as O', 'dropped'):
            yield f'{rate} % of tags', way
    for way in WAYS:
        yield ANNOTATOR, way


def known_tags(sentences, taken, seed):
    """The tags of each sentence, with None for removed tags."""
    draw = random.Random(seed)
    if taken == WHOLE:
        return [in_bioes(sentence.tags) for sentence in sentences]
    if taken != ANNOTATOR:
        rate = int(taken.split()[0]) / 100
        return [[None if draw.random() < rate else tag for tag in in_bioes(sentence.tags)] for sentence in sentences]
    names = sorted({(kind, *sentence.tokens[first:last + 1]) for sentence in sentences
                    for kind, first, last in spans_of(sentence.tags)})
    known = set(draw.sample(names, len(names) // 2))
    found = []
    for sentence in sentences:
        spans = [(kind, first, last) for kind, first, last in spans_of(sentence.tags)
                 if (kind, *sentence.tokens[first:last + 1]) in known]
        tags = tags_of(spans, len(sentence.tokens), SCHEME)
        found.append([None if tag == 'O' else tag for tag in tags])
    return found


def in_bioes(tags):
    """The tags converted to BIOES."""
    return tags_of(spans_of(tags), len(tags), SCHEME)


def write(path, sentences):
    """Writes sentences (tokens, tags) to a column file; returns its path."""
    path.write_text(''.join(''.join(f'{token}\t{tag}\n' for token, tag in zip(tokens, tags)) + '\n'
                            for tokens, tags in sentences), encoding='utf-8')
    return path


def surely_outside(tokens, index):
    """Whether a token and its two neighbours contain neither capitals nor digits."""
    return not any(character.isupper() or character.isdigit() for token in tokens[max(index - 1, 0):index + 2]
                   for character in token)


def rows(sentences, taken, way, seed):
    """Yields (tokens, tags) of the sentences of the training file."""
    for sentence, tags in zip(sentences, known_tags(sentences, taken, seed)):
        nothing = set(tags) == {None} if taken == ANNOTATOR else None in tags
        if way == 'dropped' and nothing:
            continue
        if way == 'unknown but O':
            tags = ['O' if tag is None and surely_outside(sentence.tokens, index) else tag
                    for index, tag in enumerate(tags)]
        filler = '?' if way.startswith('unknown') else 'O'
        yield sentence.tokens, [filler if tag is None else tag for tag in tags]


def train(parsed, sentences, taken, way, seed):
    """Trains once; returns the scores as a record."""
    chosen = list(rows(sentences, taken, way, seed))
    record = {'taken': taken, 'way': way, 'seed': seed, 'sentences': len(chosen)}
    if not any(tag not in ('O', '?') for _, tags in chosen for tag in tags):
        return {**record, 'epochs': 0, 'dev': 0.0, 'test': 0.0}          # no annotated name is left
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, file = folder / 'run', write(folder / 'train.tsv', chosen)
        dev, test = (write(folder / f'{part}.tsv', [(sentence.tokens, in_bioes(sentence.tags)) for sentence in
                                                    read_corpus(Path(parsed.data) / f'{part}.tsv')])
                     for part in ('dev', 'test'))
        result = subprocess.run(
            [sys.executable, ROOT / 'train.py', '--train', file, '--dev', dev, '--test', test, '--embeddings',
             parsed.embeddings, '--save', run, '--seed', str(seed)], capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(result.stderr)
        scores = json.loads((run / 'scores.json').read_text())
    return {**record, 'epochs': scores['epochs'], 'shift': scores['shift'], 'dev': scores['dev']['f1'],
            'test': scores['test']['f1']}


def table(done):
    rows = []
    for taken, way in tasks():
        runs = [record for record in done if (record['taken'], record['way']) == (taken, way)]
        if runs:
            size = statistics.mean(record['sentences'] for record in runs)
            scores = (mean_and_deviation([record[part] for record in runs]) for part in ('dev', 'test'))
            rows.append([taken, way, f'{size:,.0f}', str(len(runs)), *scores])
    return markdown(['taken away', 'what is done with it', 'sentences', 'runs', 'dev F1', 'test F1'], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', required=True, help='folder with train.tsv, dev.tsv and test.tsv')
    parser.add_argument('--embeddings', required=True)
    parser.add_argument('--results', required=True, help='file of JSON lines')
    parser.add_argument('--seeds', type=int, default=3)
    parsed = parser.parse_args()
    results = Path(parsed.results)
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    sentences = read_corpus(Path(parsed.data) / 'train.tsv')
    for seed in range(1, parsed.seeds + 1):
        for taken, way in tasks():
            if any((record['taken'], record['way'], record['seed']) == (taken, way, seed) for record in done):
                continue
            done.append(train(parsed, sentences, taken, way, seed))
            with results.open('a') as file:
                file.write(json.dumps(done[-1]) + '\n')
    print(table(done))


if __name__ == '__main__':
    main()
