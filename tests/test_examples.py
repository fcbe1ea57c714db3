"""The programs in examples/ run as they stand there, in processes of their own, and learn what they teach."""

import os
import re
import subprocess
import sys

from conftest import ROOT


def run(name, *arguments):
    """What an example prints; nothing may be printed beside it."""
    result = subprocess.run([sys.executable, f'examples/{name}.py', *arguments], cwd=ROOT, capture_output=True,
                            text=True, timeout=200, env={**os.environ, 'PYTHONPATH': str(ROOT)})
    assert (result.returncode, result.stderr) == (0, '')
    return result.stdout


def test_the_layer_under_a_network_of_ones_own():
    lines = run('own_network').splitlines()
    losses = [float(re.fullmatch(r'step \d+: loss ([0-9.]+)', line).group(1)) for line in lines[:-1]]
    assert len(losses) == 3 and losses == sorted(losses, reverse=True)
    assert float(re.fullmatch(r'right tags: ([0-9.]+)%', lines[-1]).group(1)) > 98


def test_the_layer_under_mindspores_own_model():
    lines = run('with_model').splitlines()
    losses = [float(line.rpartition(' ')[2]) for line in lines[:-2]]
    assert len(losses) == 10 and losses[-1] < 0.1 * losses[0]
    assert lines[-2:] == ['EU/B rejects/O German/B call/O', 'Peter/B Blackburn/I visits/O Brussels/B']
