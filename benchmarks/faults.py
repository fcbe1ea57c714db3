"""Mutation test: inserts deliberate faults into a copy of the project, and checks that the tests find them.

    python benchmarks/faults.py                      # all faults
    python benchmarks/faults.py --only server        # only faults with this word in their file name or text
    python benchmarks/faults.py --quick              # with the quick tests only

The tests of a fault first run in the unchanged copy and must pass there. The exit status is 1 if the tests miss a
fault. If the text of a fault is no longer in its file, the program ends with an error.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 1800.0                         # time limit for the tests of a fault


class Fault(NamedTuple):
    """A small and plausible mistake: a text that occurs once in a file, the wrong text, and the tests that find it."""

    file: str
    right: str
    wrong: str
    tests: str


def _of(folder: str, *faults: tuple[str, str, str, str]) -> list[Fault]:
    return [Fault(f'ms_crf/{folder}/{file}', right, wrong, ' '.join(f'tests/{name}' for name in tests.split()))
            for file, right, wrong, tests in faults]


FAULTS = [
    *_of('crf',
         ('log_domain.py', 'penalized_sums(largest) + log(total)', 'penalized_sums(largest) - log(total)',
          'crf/test_forbidden.py'),
         ('log_domain.py', '(onward[1:], onward[:1])', '(onward[:1], onward[1:])', 'crf/test_forbidden.py'),
         ('scaled.py', 'marginals = joint * weight', 'marginals = forward * weight', 'crf/test_crf.py'),
         ('scaled.py', 'ops.minimum(lengths, 1).astype', 'ops.minimum(lengths, 2).astype', 'crf/test_crf.py'),
         ('scaled.py', 'scale[:-1] * weight[1:]', 'scale[:-1] * weight[:-1]', 'crf/test_crf.py'),
         ('potentials.py', 'select(masks[1], start', 'select(masks[2], start', 'crf/test_constraints.py'),
         ('potentials.py', '_divided(end, divisor)', 'end', 'crf/test_losses.py crf/test_distribution.py'),
         ('inference.py', 'at_last(marked, lengths) * end', 'at_last(marked, lengths) * start', 'crf/test_crf.py'),
         ('tensors.py', '_positions(1, length) < lengths', '_positions(1, length) <= lengths', 'crf/test_crf.py'),
         ('markov.py', 'position = position + 1\n', 'position = position + 0\n', 'crf/test_distribution.py'),
         ('markov.py', 'void - expected(', 'void + expected(', 'crf/test_distribution.py'),
         ('selection.py', 'keys % size', 'keys // size', 'crf/test_nbest.py'),
         ('markov.py', 'ArgMaxWithValue(2)(ops.stop', 'ArgMinWithValue(2)(ops.stop', 'crf/test_mbr.py'),
         ('layer.py', 'every - losses.expected_score(', 'every + losses.expected_score(', 'crf/test_losses.py'),
         ('tutorial.py', 'logical_or(tags < 0, tags >= num_tags)', 'logical_or(tags < 0, tags > num_tags)',
          'crf/test_values.py'),
         ('viterbi.py', 'ops.maximum(lengths - 2, 0).reshape(1, -1, 1)',
          'ops.maximum(lengths - 1, 0).reshape(1, -1, 1)', 'crf/test_crf.py'),
         ('post_decode.py', 'np.arange(batch) * num_tags', 'np.arange(batch) * (num_tags - 1)', 'crf/test_crf.py')),
    *_of('text',
         ('sentence.py', '(begin + shift, end + shift)', '(begin + shift, end)', 'formats'),
         ('metrics.py', 'gold_spans & predicted_spans', 'gold_spans | predicted_spans', 'text/test_text.py'),
         ('bootstrap.py', '(1 + int(far.sum()))', '(0 + int(far.sum()))', 'text/test_bootstrap.py'),
         ('schemes.py', '(before[1], first, position - 1)', '(before[1], first, position)', 'text/test_text.py'),
         ('schemes.py', 'before, after = kind, last + 1', 'before, after = kind, last', 'text/test_text.py'),
         ('partial.py', "'O' in prefix or kind", "'O' in prefix and kind", 'text/test_partly_tagged.py')),
    *_of('formats',
         ('conllu.py', 'int(match[2]) - int(match[1]) + 1', 'int(match[2]) - int(match[1])',
          'formats/test_conllu_files.py'),
         ('columns.py', 'offset += len(sentence.text) + 1', 'offset += len(sentence.text)', 'formats')),
    *_of('models',
         ('chains.py', 'score / temperature', 'score * temperature', 'models/test_temperature.py'),
         ('chains.py', '-(posteriors * np.log(', '(posteriors * np.log(', 'models/test_uncertainty.py'),
         ('hmm/estimation.py', 'batch.lengths - 1, np', 'batch.lengths - 2, np', 'models/test_counting_in_part.py'),
         ('hmm/estimation.py', 'weights[0].sum(0), batch', 'weights[-1].sum(0), batch', 'models/test_hmm.py'),
         ('words/ngrams.py', '= 1 + np.flatnonzero(whole)', '= np.flatnonzero(whole)', 'models/test_ngrams.py')),
    *_of('training',
         ('schedules.py', 'self.good + 1 if finite else 0', 'self.good + 1 if finite else self.good',
          'training/test_loss_scale.py'),
         ('schedules.py', 'rate / (1 + decay * time)', 'rate / (1 - decay * time)', 'training/test_options_at_work.py'),
         ('step.py', 'if parameter.ndim > 1', 'if parameter.ndim > 0', 'nn/test_network.py')),
    *_of('server',
         ('batching.py', 'job.untagged -= size', 'job.untagged -= 1', 'server/test_batching.py'),
         ('batching.py', 'before - job.tokens', 'job.tokens', 'server/test_batching.py'),
         ('reading.py', 'count > most', 'count >= most', 'server/test_answers.py'),
         ('metrics.py', 'self._tokens.inc(tokens)', 'self._tokens.inc(sentences)',
          'server/test_metrics.py server/test_answers.py')),
]


def checked(root: Path = ROOT) -> list[str]:
    """Errors in the table of faults: texts that do not occur exactly once in their file, and missing tests."""
    wrong = []
    for fault in FAULTS:
        path = root / fault.file
        count = path.read_text(encoding='utf-8').count(fault.right) if path.exists() else 0
        if count != 1:
            wrong.append(f'{fault.file}: expected {fault.right!r} once, found it {count} times')
        wrong += [f'{fault.file}: {name} is missing' for name in fault.tests.split() if not (root / name).exists()]
    return wrong


def copied(folder: str) -> Path:
    """Copies the project into a folder, without the corpora next to the project; returns the root of the copy."""
    root = Path(folder, 'project')
    for name in ('ms_crf', 'tests', 'benchmarks', 'configs', 'data', 'docs', 'examples'):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns('__pycache__'))
    for path in ROOT.glob('*.*'):
        if path.is_file():
            shutil.copy(path, root)
    return root


def status_of(root: Path, tests: str, quick: bool) -> int:
    """The exit code of pytest, which stops at the first failure; 1 if the tests exceed the time limit."""
    options = ['-m', 'not slow'] if quick else []
    command = [sys.executable, '-B', '-m', 'pytest', '-n', '0', '-x', '-q', '-p', 'no:cacheprovider', *options]
    try:
        return subprocess.run([*command, *tests.split()], cwd=root, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=SECONDS).returncode
    except subprocess.TimeoutExpired:
        return 1


def is_found(root: Path, fault: Fault, quick: bool) -> bool:
    """Whether the tests find a fault; inserts the fault, runs its tests, and removes the fault again."""
    path = root / fault.file
    text = path.read_text(encoding='utf-8')
    try:
        path.write_text(text.replace(fault.right, fault.wrong), encoding='utf-8')
        status = status_of(root, fault.tests, quick)
    finally:
        path.write_text(text, encoding='utf-8')
    if status not in (0, 1):
        sys.exit(f'{fault.file}: pytest ends with status {status}')
    return status == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default='', help='only faults with this word in file name or text')
    parser.add_argument('--quick', action='store_true', help='only run tests that are not slow')
    options = parser.parse_args()
    if wrong := checked():
        sys.exit('\n'.join(wrong))
    chosen = [fault for fault in FAULTS if options.only in f'{fault.file} {fault.right} {fault.wrong}']
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        root = copied(folder)
        for tests in dict.fromkeys(fault.tests for fault in chosen):
            if status := status_of(root, tests, options.quick):
                sys.exit(f'{tests}: fails without any fault, status {status}')
        for fault in chosen:
            begin = time.monotonic()
            found = is_found(root, fault, options.quick)
            missed += [] if found else [fault]
            print(f'{"found " if found else "MISSED"} {time.monotonic() - begin:6.0f} s  {fault.file}: '
                  f'{fault.right.strip()} -> {fault.wrong.strip()}', flush=True)
    print(f'{len(chosen) - len(missed)} of {len(chosen)} faults found')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
