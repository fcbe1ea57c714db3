"""Times tagging with two runs, alternating: python benchmarks/two_runs.py RUN OTHER --input FILE

Both taggers get all sentences of FILE as lists of tokens and return tags without confidences. Loading and compiling do
not count. The first calls do not count either, because new shapes are compiled.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ms_crf import Tagger  # noqa: E402
from ms_crf.formats.registry import read_corpus  # noqa: E402

BEFORE, COUNTED = 8, 17                          # warm-up calls and measured calls of each tagger


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('runs', nargs=2, metavar='RUN')
    parser.add_argument('--input', required=True, metavar='FILE')
    arguments = parser.parse_args()
    sentences = [sentence.tokens for sentence in read_corpus(arguments.input)]
    taggers = [Tagger.load(run) for run in arguments.runs]
    seconds = [[], []]
    for turn in range(BEFORE + COUNTED):
        for tagger, own in zip(taggers, seconds):
            began = time.perf_counter()
            list(tagger.tag(sentences, False))
            if turn >= BEFORE:
                own.append(time.perf_counter() - began)
    medians = [statistics.median(own) for own in seconds]
    for run, own, median in zip(arguments.runs, seconds, medians):
        print(f'{run}: {median:.3f} s ({min(own):.3f}-{max(own):.3f}), {len(sentences) / median:,.0f} sentences/s')
    print(f'ratio of the first to the second: {medians[0] / medians[1]:.2f}')


if __name__ == '__main__':
    main()
