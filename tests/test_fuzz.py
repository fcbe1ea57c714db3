"""A short run of benchmarks/fuzz.py: damaged files and odd values end in a result or in one clear line."""

import subprocess
import sys

import pytest

from conftest import ROOT


@pytest.mark.slow
def test_damaged_files_and_odd_values(tmp_path):
    result = subprocess.run(
        [sys.executable, 'benchmarks/fuzz.py', '--seed', '1', '--minutes', '6', '--cases', '1500', '--commands', '12',
         '--keep', str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=560)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert '1500 cases' in result.stdout and '12 commands' in result.stdout
