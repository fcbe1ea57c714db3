"""Tests all ways to start a command: `ms-crf VERB`, `python -m ms_crf VERB`, and scripts such as `train.py`."""

import subprocess
import sys
from importlib import metadata

from ms_crf.base.environment import VERSION
from ms_crf.cli import console
from ms_crf.native import library

import pytest

from support.paths import ROOT

VERBS = ['train', 'infer', 'export', 'compare', 'evaluate', 'report', 'convert', 'suggest', 'serve', 'tag-many']


def start(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_ways_in_commands_are_listed_without_what_takes_long_to_import():
    program = 'import sys; from ms_crf.cli.main import main; main([]); print("numpy" in sys.modules)'
    result = start('-c', program)
    assert (result.returncode, result.stderr) == (0, '') and result.stdout.endswith('\nFalse\n')
    lines = result.stdout.splitlines()
    assert lines[0] == 'usage: ms-crf COMMAND ...'
    assert [line.split()[0] for line in lines[2:2 + len(console.VERBS)]] == VERBS


def test_ways_in_versions_of_what_is_installed():
    result = start('-m', 'ms_crf', '--version')
    assert (result.returncode, result.stderr) == (0, '')
    assert result.stdout == (f'ms_crf {VERSION}, MindSpore {metadata.version("mindspore")}, NumPy '
                             f'{metadata.version("numpy")}, Python {sys.version.split()[0]}\n'
                             f'on CPU: {library.describe()}\n')


@pytest.mark.parametrize('arguments,message', [
    (['trian'], f"expected one of the commands {', '.join(VERBS)}, got 'trian'; did you mean train?"),
    (['--run'], f"expected one of the commands {', '.join(VERBS)}, got '--run'; see --help"),
    (['--version', 'x'], f"expected one of the commands {', '.join(VERBS)}, got '--version'; see --help")])
def test_ways_in_no_such_command(arguments, message):
    result = start('-m', 'ms_crf', *arguments)
    assert (result.returncode, result.stdout, result.stderr) == (2, '', f'ms-crf: {message}\n')


@pytest.mark.slow
@pytest.mark.parametrize('verb', console.VERBS)
def test_ways_in_one_command_by_each_of_its_names(verb):
    own = console.VERBS[verb][0]
    by_itself = [own] if own.endswith('.py') else ['-m', own] if ' ' not in own else ['-m', 'ms_crf', verb]
    for way, name in ((by_itself, own), (['-m', 'ms_crf', verb], f'ms-crf {verb}')):
        result = start(*way, '--hepl')
        assert (result.returncode, result.stdout) == (2, '')
        assert result.stderr == f'{name}: unrecognized arguments: --hepl; did you mean --help?\n'
        shown = start(*way, '--help')
        assert shown.stdout.startswith(f'usage: {name} ') and (shown.returncode, shown.stderr) == (0, '')
