"""benchmarks/fuzz.py detects each kind of failure, and a short fuzzing run finds no failure in the project."""

import os
import random
import signal
import subprocess
import sys

import pytest

from support.paths import ROOT

sys.path.insert(0, str(ROOT / 'benchmarks'))
import fuzz_material  # noqa: E402
import fuzz_worker  # noqa: E402


class Failing:
    """Cases that fail on purpose, each in a different way; the fuzz worker imports this class."""

    refusals = ValueError

    def __init__(self, _):
        self.cases = [self]
        self.__name__ = 'failing'

    def __call__(self, rng):
        kind = rng.choice(KINDS)
        if kind == 'crash':
            os.kill(os.getpid(), signal.SIGSEGV)
        while kind == 'hang':
            pass
        if kind == 'memory':
            return len(bytearray(2 << 30)) and 'large'
        if kind == 'lines':
            raise ValueError('two\nlines')
        if kind == 'error':
            raise KeyError(kind)
        fuzz_material.check(kind != 'wrong', 'a wrong result')
        return 'fine'


KINDS = ['crash', 'hang', 'memory', 'lines', 'error', 'wrong', 'none']
MESSAGES = {'crash': 'status -11', 'hang': 'Timeout', 'memory': 'GB of memory', 'lines': 'several lines',
            'error': "KeyError: 'error'", 'wrong': 'a wrong result'}


@pytest.mark.slow
def test_fuzz_every_failure_is_noticed_and_attributed_to_its_case(tmp_path, monkeypatch):
    monkeypatch.setitem(fuzz_worker.KINDS, 'failing', fuzz_worker.Kind('test_fuzz.Failing', 0))
    monkeypatch.setattr(fuzz_worker, 'SECONDS', 10)
    monkeypatch.setattr(fuzz_material, 'MEMORY', 1 << 30)
    numbers = {}                                 # by kind, the number of a case that fails in this way
    for number in range(40):
        rng = random.Random(f'3 failing {number}')
        rng.choice([None])                       # the worker draws one of the cases of the class, too
        numbers[rng.choice(KINDS)] = number
    assert numbers.keys() == set(KINDS)
    with fuzz_worker.Worker(tmp_path / 'cases', 3) as worker:
        for kind, number in numbers.items():
            if kind == 'none':
                assert worker.run('failing', number) == ('failing', 'fine')
            else:
                with pytest.raises(fuzz_material.Failure, match=MESSAGES[kind]):
                    worker.run('failing', number)


@pytest.mark.slow
def test_fuzz_no_input_ends_in_anything_but_a_result_or_one_line(tmp_path):
    pytest.importorskip('schemathesis', reason='schemathesis is missing: pip install schemathesis')
    result = subprocess.run(
        [sys.executable, 'benchmarks/fuzz.py', '--seed', '1', '--minutes', '6', '--cases', '100', '--commands', '2',
         '--keep', str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert '100 cases' in result.stdout and '2 commands' in result.stdout
