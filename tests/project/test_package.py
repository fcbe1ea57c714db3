"""The package as a whole: public names, environment variables, clean output, requirements, old import paths."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import ms_crf

import pytest

PACKAGE = Path(ms_crf.__file__).parent


def run(program, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ('GLOG_v', 'MS_DEV_HOST_BLOCKING_RUN')}
    return subprocess.run([sys.executable, '-c', program], env={**clean, **environment}, check=True, timeout=120,
                          capture_output=True, text=True)


def test_package_constraints_and_the_walk_back_need_no_mindspore():
    program = 'import sys, ms_crf; ms_crf.allowed_transitions, ms_crf.post_decode; print("mindspore" in sys.modules)'
    assert run(program).stdout == 'False\n'


def test_package_public_names():
    for name in ms_crf.__all__:
        assert getattr(ms_crf, name).__doc__, f'{name} has no docstring'
    with pytest.raises(AttributeError, match="module 'ms_crf' has no attribute 'Crf'"):
        _ = ms_crf.Crf


SHOW = 'import os; from ms_crf.base.environment import prepare; {}; print(*map(os.environ.get, ["GLOG_v", "{}"]))'


@pytest.mark.parametrize('call,given,expected', [
    ('prepare("CPU")', {}, '3 1'),
    ('prepare("Ascend")', {}, '3 None'),
    ('prepare("CPU"); prepare("GPU")', {}, '3 None'),
    ('prepare("CPU")', {'GLOG_v': '1', 'MS_DEV_HOST_BLOCKING_RUN': '0'}, '1 0'),
    ('prepare("GPU")', {'MS_DEV_HOST_BLOCKING_RUN': '1'}, '3 1'),
])
def test_package_environment(call, given, expected):
    assert run(SHOW.format(call, 'MS_DEV_HOST_BLOCKING_RUN'), **given).stdout.strip() == expected


@pytest.mark.slow
@pytest.mark.parametrize('first', ['ms_crf', 'mindspore'])
def test_package_nothing_but_the_result_is_printed(first):
    program = '\n'.join([
        f'import {first}',
        'import mindspore as ms',
        'from ms_crf import CRF',
        'ms.set_context(mode=ms.GRAPH_MODE)',
        'crf = CRF(3)',
        'print(len(crf(ms.ops.zeros((4, 2, 3), ms.float32), seq_length=ms.Tensor([4, 2]))[0]))',
    ])
    result = run(program)
    assert (result.stdout, result.stderr) == ('2\n', '')


def test_package_installed_package_needs_what_the_project_needs():
    tomllib = pytest.importorskip('tomllib')
    project = tomllib.loads((PACKAGE.parent / 'pyproject.toml').read_text())['project']
    required = (PACKAGE.parent / 'requirements.txt').read_text().split()
    assert set(required) - set(project['dependencies']) == {name for name in required if name.startswith('pytest')}
    assert set(project['dependencies']) <= set(required)


def test_package_each_python_that_is_claimed_is_checked():
    """The hosted workflow runs .ci/run with each Python version that pyproject.toml claims to support."""
    root = PACKAGE.parent
    project, workflow = ((root / name).read_text() for name in ('pyproject.toml', '.github/workflows/checks.yml'))
    least, above = map(int, re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', project).groups())
    claimed = [f'3.{minor}' for minor in range(least, above)]
    assert re.findall(r'Python :: (3\.\d+)', project) == re.findall(r'"(3\.\d+)"', workflow) == claimed
    assert f'target-version = "py3{least}"' in project and f'python_version = "3.{least}"' in project
    assert 'run: bash .ci/run\n' in workflow and 'python3 -m venv' in (root / '.ci' / 'run').read_text()


@pytest.mark.parametrize('module,name', [
    ('ms_crf.environment', 'prepare'), ('ms_crf.models.base', 'register'), ('ms_crf.models.base', 'Kind'),
    ('ms_crf.models.features', 'FeatureKind'), ('ms_crf.models.features', 'FeatureNetwork'),
    ('ms_crf.models.inheritance', 'put_weights'), ('ms_crf.models.chains', 'ChainDecoder'),
    ('ms_crf.nn.head', 'Head'), ('ms_crf.crf.tensors', 'clear_padding')])
def test_package_extend_earlier_paths_lead_to_the_same(module, name):
    assert getattr(importlib.import_module(module), name) is getattr(importlib.import_module('ms_crf.extend'), name)
