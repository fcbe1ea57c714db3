"""The wheel, installed into a separate environment without access to the sources."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from ms_crf.base.environment import VERSION
from ms_crf.cli import console
from ms_crf.native import library

import pytest

from support.paths import ROOT
from support.trainings import SMALL

pytestmark = pytest.mark.slow
MODULES = ('export', 'compare')         # commands that also run as modules, with python -m


def called(*command, cwd):
    """The result of a command that cannot find the sources, because no PYTHON* variable is set."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith('PYTHON')}
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=200, env=clean)


def run(*command, cwd):
    """The result of a command that must succeed."""
    result = called(*command, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    pytest.importorskip('setuptools')
    folder = tmp_path_factory.mktemp('wheel')
    shutil.copytree(ROOT / 'ms_crf', folder / 'source' / 'ms_crf', ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copytree(ROOT / 'data', folder / 'source' / 'data')
    for name in ('pyproject.toml', 'setup.py', 'README.md', 'LICENSE', 'requirements-encoder.txt',
                 'requirements-native.txt', 'requirements-report.txt'):
        shutil.copy(ROOT / name, folder / 'source')
    run(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-index', '--no-build-isolation', '--quiet',
        '-w', folder, folder / 'source', cwd=folder)
    return next(folder.glob('*.whl'))


def test_wheel_all_folders_are_in_it(wheel):
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / 'ms_crf').rglob('*')
               if path.suffix in ('.py', '.h', '.cpp', '.html', '.css', '.js', '.txt')}
    sources |= {f'ms_crf/sample/{part}.tsv' for part in ('train', 'dev', 'test')}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f'ms_crf-{VERSION}.dist-info/METADATA').decode()
    libraries = {name for name in names if name.endswith('.so')}
    checksums = {f'{name}.sha256' for name in libraries}
    others = {name for name in names if '.dist-info/' not in name} - libraries - checksums
    assert others == sources | {'ms_crf/py.typed'}
    if library.find().path is not None:                          # this machine can compile, so the wheel has a library
        name = f'ms_crf/native/{library.name_of(library.level())}'
        assert name in libraries and checksums <= names and wheel.name.startswith(f'ms_crf-{VERSION}-py3-none-linux_')
    assert 'Requires-Python: <3.13,>=3.10' in metadata
    assert 'Provides-Extra: encoder' in metadata and 'Requires-Dist: mindspore' in metadata


@pytest.fixture(scope='module')
def installed(wheel, tmp_path_factory):
    """An environment with the wheel: the folder of its commands and the folder of its packages.

    MindSpore and NumPy come from the current environment, whose package folder follows the new one on `sys.path`.
    """
    folder = tmp_path_factory.mktemp('environment')
    venv.create(folder / 'venv')
    commands = folder / 'venv' / ('Scripts' if os.name == 'nt' else 'bin')
    python = next(commands.glob('python*'))
    packages = run(python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))', cwd=folder).stdout.strip()
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--quiet', '--no-deps', '--no-index', wheel,
        cwd=folder)
    present = {sysconfig.get_path('purelib'), sysconfig.get_path('platlib')}
    with open(os.path.join(packages, 'present.pth'), 'w', encoding='utf-8') as file:
        file.write('\n'.join(present) + '\n')
    return commands, packages


def test_wheel_the_package_is_found_from_anywhere(installed, tmp_path):
    commands, packages = installed
    python, away = next(commands.glob('python*')), tmp_path / 'away'
    away.mkdir()
    place = run(python, '-c', 'import ms_crf; print(ms_crf.__file__)', cwd=away).stdout
    assert place.startswith(packages)
    command = commands / 'ms-crf'
    version = run(command, '--version', cwd=away).stdout
    assert version.startswith(f'ms_crf {VERSION}, MindSpore 2.')
    if library.find().path is not None:
        assert version.endswith('on CPU: operators in C++: installed with the package\n')


@pytest.fixture
def empty(tmp_path):
    """An empty folder."""
    folder = tmp_path / 'empty'
    folder.mkdir()
    return folder


def test_wheel_the_sample_is_part_of_it(installed, empty):
    """In an empty folder, with default file names, the commands train on the sample, tag, convert and export."""
    commands, packages = installed
    command, text = commands / 'ms-crf', ('--text', 'Marta Kowalski works in Lisbon .')
    trained = run(command, 'train', *SMALL, '--epochs', '1', '--batch-size', '64', cwd=empty)
    assert 'train    2,400 sentences' in trained.stdout and 'saved in runs/sample' in trained.stdout
    assert 'best epoch' in trained.stdout and trained.stderr == ''
    config = json.loads((empty / 'runs' / 'sample' / 'config.json').read_text())
    assert config['options']['train'] == os.path.join(packages, 'ms_crf', 'sample', 'train.tsv')
    tagged = run(command, 'infer', *text, '--format', 'json', '--output', 'tagged.jsonl', cwd=empty)
    assert (tagged.stdout, tagged.stderr) == ('', '')
    run(command, 'convert', 'tagged.jsonl', 'tasks.json', '--to', 'label-studio', cwd=empty)
    assert json.loads((empty / 'tasks.json').read_text())[0]['predictions'][0]['model_version'].startswith('sample@')
    run(command, 'export', cwd=empty)
    by_graph = run(command, 'infer', '--mindir', 'model.mindir', *text, '--format', 'conll', cwd=empty)
    assert by_graph.stderr == ''
    assert [row.split('\t')[1] for row in by_graph.stdout.split('\n')[:6]] == json.loads(
        (empty / 'tagged.jsonl').read_text())['tags']
    if library.find().path is not None:                          # a damaged library is not loaded
        shipped = Path(packages, 'ms_crf', 'native', library.name_of(library.level()))
        whole = shipped.read_bytes()
        os.truncate(shipped, shipped.stat().st_size // 2)
        assert 'installed with the package' not in run(command, '--version', cwd=empty).stdout
        again = run(command, 'infer', *text, '--format', 'conll', cwd=empty)
        assert again.stdout == by_graph.stdout
        shipped.write_bytes(whole)


@pytest.mark.parametrize('verb', console.VERBS)
def test_wheel_help_names_nothing_that_is_not_installed(installed, empty, verb):
    """The help shows the command name that the user typed, and no program or page of the repository."""
    commands, _ = installed
    ways = [([commands / 'ms-crf', verb], f'ms-crf {verb}')]
    if verb in MODULES:
        ways.append(([next(commands.glob('python*')), '-m', f'ms_crf.{verb}'], f'ms_crf.{verb}'))
    for start, name in ways:
        shown = run(*start, '--help', cwd=empty).stdout
        assert shown.startswith(f'usage: {name} ')
        assert not re.search(r'train\.py|infer\.py|docs/|README|data/|site-packages', shown), shown


@pytest.mark.parametrize('verb', ['infer', 'export', 'evaluate', 'suggest', 'serve', 'tag-many'])
def test_wheel_messages_name_the_command_that_was_called(installed, empty, verb):
    commands, _ = installed
    arguments = {'infer': ['--text', 'a'], 'evaluate': ['--input', 'x.tsv'], 'suggest': ['--input', 'x.tsv'],
                 'tag-many': ['--input', 'x.jsonl', '--output', 'out']}.get(verb, [])
    for file in ('x.tsv', 'x.jsonl'):
        (empty / file).write_text('a\tO\n')
    result = called(commands / 'ms-crf', verb, *arguments, cwd=empty)
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr == f'ms-crf {verb}: runs: no run found; create one with: ms-crf train\n'


def test_wheel_no_message_names_a_file_that_is_not_installed():
    """No string in the package, except docstrings, names a program or a documentation page of the repository."""
    named = []
    for path in (ROOT / 'ms_crf').rglob('*.py'):
        tree = ast.parse(path.read_text(encoding='utf-8'))
        docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                      if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
                      and isinstance(node.body[0], ast.Expr)}
        named += [(path.name, node.value) for node in ast.walk(tree)
                  if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
                  and re.search(r'\b(train|infer)\.py|\bdocs/|README|\bdata/', node.value)]
    assert named == [('console.py', 'train.py'), ('console.py', 'infer.py')]     # names of the repository's programs
