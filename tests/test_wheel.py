"""What is installed: a wheel in an environment of its own, away from the sources."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from ms_crf.environment import VERSION
from ms_crf.native import library

import pytest

from conftest import ROOT, SMALL, files

pytestmark = pytest.mark.slow


def run(*command, cwd):
    """What a command prints, which knows nothing of the sources."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith('PYTHON')}
    result = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=200, env=clean)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    pytest.importorskip('setuptools')
    folder = tmp_path_factory.mktemp('wheel')
    shutil.copytree(ROOT / 'ms_crf', folder / 'source' / 'ms_crf', ignore=shutil.ignore_patterns('__pycache__'))
    for name in ('pyproject.toml', 'setup.py', 'README.md', 'LICENSE', 'requirements-encoder.txt',
                 'requirements-native.txt', 'requirements-report.txt'):
        shutil.copy(ROOT / name, folder / 'source')
    run(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-index', '--no-build-isolation', '--quiet',
        '-w', folder, folder / 'source', cwd=folder)
    return next(folder.glob('*.whl'))


def test_all_folders_are_in_it(wheel):
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / 'ms_crf').rglob('*')
               if path.suffix in ('.py', '.h', '.cpp', '.html')}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f'ms_crf-{VERSION}.dist-info/METADATA').decode()
    libraries = {name for name in names if name.endswith('.so')}
    checksums = {f'{name}.sha256' for name in libraries}
    others = {name for name in names if '.dist-info/' not in name} - libraries - checksums
    assert others == sources | {'ms_crf/py.typed'}
    if library.find().path is not None:                          # there is a compiler, or was one
        name = f'ms_crf/native/{library.name_of(library.level())}'
        assert name in libraries and checksums <= names and wheel.name.startswith(f'ms_crf-{VERSION}-py3-none-linux_')
    assert 'Requires-Python: <3.13,>=3.10' in metadata
    assert 'Provides-Extra: encoder' in metadata and 'Requires-Dist: mindspore' in metadata


def test_it_trains_tags_and_exports_from_anywhere(wheel, corpora, tmp_path):
    """MindSpore and NumPy are those of the present environment, by its folder of packages behind the new one's."""
    venv.create(tmp_path / 'venv')
    commands = tmp_path / 'venv' / ('Scripts' if os.name == 'nt' else 'bin')
    python = next(commands.glob('python*'))
    packages = run(python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))', cwd=tmp_path).stdout.strip()
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--quiet', '--no-deps', '--no-index', wheel,
        cwd=tmp_path)
    present = {sysconfig.get_path('purelib'), sysconfig.get_path('platlib')}
    with open(os.path.join(packages, 'present.pth'), 'w', encoding='utf-8') as file:
        file.write('\n'.join(present) + '\n')

    away = tmp_path / 'away'
    away.mkdir()
    place = run(python, '-c', 'import ms_crf; print(ms_crf.__file__)', cwd=away).stdout
    assert place.startswith(packages)
    command = commands / 'ms-crf'
    version = run(command, '--version', cwd=away).stdout
    assert version.startswith(f'ms_crf {VERSION}, MindSpore 2.')
    if library.find().path is not None:
        assert version.endswith('on CPU: operators in C++: it came with the package\n')

    trained = run(command, 'train', *files(corpora), *SMALL, '--epochs', '2', '--save', 'run', cwd=away)
    assert 'best epoch' in trained.stdout and trained.stderr == ''
    run(command, 'export', '--run', 'run', '--output', 'model.mindir', cwd=away)
    both = [run(command, 'infer', *model, '--text', 'to Xan Yan', '--format', 'conll', cwd=away)
            for model in (('--run', 'run'), ('--mindir', 'model.mindir'))]
    assert both[0].stdout == both[1].stdout and [line.split('\t')[0] for line in both[0].stdout.splitlines()[:3]] == [
        'to', 'Xan', 'Yan']
    assert {result.stderr for result in both} == {''}

    if library.find().path is not None:                          # a damaged library is not loaded
        shipped = Path(packages, 'ms_crf', 'native', library.name_of(library.level()))
        os.truncate(shipped, shipped.stat().st_size // 2)
        assert 'it came with the package' not in run(command, '--version', cwd=away).stdout
        again = run(command, 'infer', '--run', 'run', '--text', 'to Xan Yan', '--format', 'conll', cwd=away)
        assert again.stdout == both[0].stdout
