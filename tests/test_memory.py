"""What a process may take of the machine's memory, and what is refused before it is allocated."""

import subprocess
import sys
from pathlib import Path

from ms_crf import memory

import pytest

from conftest import ROOT


def test_memory_that_is_there():
    meminfo = Path('/proc/meminfo')
    if not meminfo.exists():
        pytest.skip('no /proc/meminfo here')
    fields = dict(line.split(':') for line in meminfo.read_text().splitlines())
    whole = sum(int(fields[name].split()[0]) for name in ('MemTotal', 'SwapTotal')) * 1024
    assert 0 < memory.memory_there() <= whole


def test_the_limit_of_a_process():
    resource = pytest.importorskip('resource')
    program = ('from ms_crf.memory import check_memory, memory_there; print(memory_there())\n'
               'check_memory(3 * 10 ** 9, "it")\n'
               'try:\n check_memory(3 * 10 ** 9 + 1, "the other")\n'
               'except ValueError as error:\n print(error)')
    result = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=60,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 * 10 ** 9, 3 * 10 ** 9)))
    assert result.stderr == ''
    assert result.stdout == '3000000000\nthe other needs at least 3.0 GB of memory, and 3.0 GB are there\n'


@pytest.mark.parametrize('own,limits,expected', [
    ('0::/a/b\n', {'memory.max': 'max\n', 'a/memory.max': '5000\n', 'a/b/memory.max': '7000\n'}, {5000, 7000}),
    ('0::/\n', {'memory.max': '800\n'}, {800}),
    ('5:cpu,memory:/d\n1:name=x:/y\n', {'memory/d/memory.limit_in_bytes': '900\n', 'memory.max': '1\n'}, {900}),
    ('0::/../..\n', {}, set())])
def test_control_groups(tmp_path, monkeypatch, own, limits, expected):
    (tmp_path / 'own').write_text(own)
    for name, text in limits.items():
        file = tmp_path / 'groups' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(memory, '_CGROUP', str(tmp_path / 'own'))
    monkeypatch.setattr(memory, '_CGROUPS', str(tmp_path / 'groups'))
    assert set(memory._control_groups()) == expected


def test_a_machine_that_says_nothing(monkeypatch):
    monkeypatch.setattr(memory, 'memory_there', lambda: None)
    memory.check_memory(10 ** 40, 'anything')


def test_figures():
    assert [memory.gigabytes(size) for size in (310_000_000, 4_700_000_000, 23_999_999_999, 10 ** 15, 10 ** 40, 4096)
            ] == ['0.3 GB', '4.7 GB', '23 GB', '1,000,000 GB', f'{10 ** 31:,} GB', '4.1e-06 GB']
