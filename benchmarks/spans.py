"""Measures two ways to handle a span inside a token: extend the span to the token, or split the token at the span.

Tokens of a corpus are joined to raw text, with punctuation next to words. One tagger learns from texts with spans,
which are extended to whole tokens. Another tagger learns from tokens that are split at the boundaries of spans. Both
tag the test texts split at spaces, because unlabelled text has no spans.

    python benchmarks/spans.py --train train.tsv --dev dev.tsv --test test.tsv --embeddings glove.txt
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ms_crf.experiments.runner import mean_and_deviation  # noqa: E402
from ms_crf.formats.registry import read_corpus  # noqa: E402
from ms_crf.text.schemes import spans_of, tags_of  # noqa: E402

CLOSING, OPENING = tuple('.,;:!?)]%\''), tuple('([')
PARTS = ('train', 'dev', 'test')


def raw(sentence):
    """The raw text of a sentence, and its spans as [start, end, type]."""
    text, places = '', []
    for token in sentence.tokens:
        if text and not token.startswith(CLOSING) and not text.endswith(OPENING):
            text += ' '
        places.append((len(text), len(text) + len(token)))
        text += token
    return text, [[places[first][0], places[last][1], kind] for kind, first, last in spans_of(sentence.tags)]


def cut(text, spans):
    """Rows of tokens and BIO tags; tokens are separated by whitespace, and split at the boundaries of spans."""
    borders = sorted({place for start, end, _ in spans for place in (start, end)})
    tokens = []
    for match in re.finditer(r'\S+', text):
        places = [match.start(), *(place for place in borders if match.start() < place < match.end()), match.end()]
        tokens += zip(places, places[1:])
    starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
    tags = tags_of([(kind, starts.index(start), ends.index(end)) for start, end, kind in spans], len(tokens), 'BIO')
    return ''.join(f'{text[start:end]}\t{tag}\n' for (start, end), tag in zip(tokens, tags)) + '\n'


def run(*arguments):
    result = subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(result.stderr)
    return result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in PARTS:
        parser.add_argument(f'--{part}', required=True)
    parser.add_argument('--embeddings', required=True)
    parser.add_argument('--epochs', default='8')
    parser.add_argument('--seeds', type=int, default=3)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inside = total = 0
        for part in PARTS:
            texts = [raw(sentence) for sentence in read_corpus(getattr(parsed, part))]
            (folder / f'{part}.jsonl').write_text(
                ''.join(json.dumps({'text': text, 'entities': spans}) + '\n' for text, spans in texts))
            (folder / f'{part}.tsv').write_text(''.join(cut(text, spans) for text, spans in texts), encoding='utf-8')
            borders = [f' {text} '[start] + f' {text} '[end + 1] for text, spans in texts for start, end, _ in spans]
            inside, total = inside + sum(border != '  ' for border in borders), total + len(borders)
        print(f'{inside:,} of {total:,} spans begin or end within a token')
        for way, ending in (('widened to tokens', 'jsonl'), ('tokens cut', 'tsv')):
            scores = []
            for seed in range(1, parsed.seeds + 1):
                run('train.py', '--train', folder / f'train.{ending}', '--dev', folder / f'dev.{ending}', '--save',
                    folder / f'{ending}{seed}', '--embeddings', parsed.embeddings, '--epochs', parsed.epochs, '--seed',
                    seed)
                made = folder / f'{ending}{seed}'
                table = run('infer.py', '--run', made, '--input', folder / 'test.jsonl', '--score')
                scores.append(float(re.search(r'FB1: +([\d.]+)', table).group(1)) / 100)
            print(f'{way:<20} F1 {mean_and_deviation(scores)}', flush=True)


if __name__ == '__main__':
    main()
