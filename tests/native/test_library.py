"""Where the library of the operators comes from, and when there is none: each case in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

from ms_crf.native import library

import pytest

from conftest import ROOT, files

pytestmark = pytest.mark.skipif(library.find().path is None, reason=library.find().reason)
FIND = 'from ms_crf.native import library; found = library.find(); print(found.path); print(found.reason)'


def start(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in ('XDG_CACHE_HOME', library.SWITCH)}
    environment.update(variables)
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment)


def find(**variables):
    """(path, reason) as a new process has it."""
    output, errors = start('-c', FIND, **variables).communicate()
    assert errors == ''
    path, reason = output.splitlines()
    return None if path == 'None' else Path(path), reason


@pytest.fixture
def nobody(tmp_path):
    """Variables of someone without a C++ compiler."""
    folder = tmp_path / 'bin'
    folder.mkdir()
    return {'PATH': str(folder), 'XDG_CACHE_HOME': str(tmp_path / 'cache')}


def test_compiled_once_into_a_folder_of_the_users_own(tmp_path, nobody):
    """By two processes at once; afterwards no compiler is needed."""
    variables = {'XDG_CACHE_HOME': str(tmp_path / 'cache')}
    both = [start('-c', FIND, **variables) for _ in range(2)]
    paths = {process.communicate()[0].splitlines()[0] for process in both}
    assert len(paths) == 1 and [process.returncode for process in both] == [0, 0]
    path = Path(paths.pop())
    assert path.parent == tmp_path / 'cache' / 'ms_crf' and path.parent.stat().st_mode & 0o777 == 0o700
    assert [name.name for name in path.parent.iterdir()] == [path.name]
    assert find(**nobody)[0] == path


def test_what_others_may_write_to_is_not_loaded(tmp_path, nobody):
    folder = tmp_path / 'cache' / 'ms_crf'
    folder.mkdir(parents=True)
    path = folder / library.name_of(library.level())
    path.write_bytes(b'')
    path.chmod(0o777)
    folder.chmod(0o700)
    assert find(**nobody) == (None, f'{path} is not yours alone: others may write to it')
    folder.chmod(0o777)
    assert find(**nobody) == (None, f'{folder} is not yours alone: others may write to it')
    folder.rename(tmp_path / 'elsewhere')
    folder.symlink_to(tmp_path / 'elsewhere')
    assert find(**nobody) == (None, f'{folder} is not yours alone: others may write to it')


@pytest.mark.parametrize('variables,reason', [
    ({library.SWITCH: '0'}, 'MS_CRF_NATIVE is 0'),
    ({library.SWITCH: 'yes'}, 'MS_CRF_NATIVE must be 0 or 1, got yes'),
    ({'XDG_CACHE_HOME': 'here'}, 'here/ms_crf is not an absolute path')])
def test_why_there_is_none(variables, reason):
    assert find(**variables) == (None, reason)


def test_without_a_compiler(nobody, corpora, tmp_path):
    """train.py says so in one line, and trains; the version tells it as well."""
    nobody['PYTHONPATH'] = str(tmp_path)
    (tmp_path / 'ziglang.py').write_text('raise SystemExit(1)')  # if it is installed, it does not work
    reason = 'no C++ compiler that works was found'
    assert find(**nobody) == (None, f'{reason}; install g++, or pip install ziglang')
    output, errors = start('train.py', '--model', 'hmm', *files(corpora), '--save', str(tmp_path / 'hmm'),
                           **nobody).communicate()
    assert errors == '' and 'saved in' in output                 # which needs none
    output, errors = start('train.py', *files(corpora), '--epochs', '1', '--word-dim', '6', '--hidden', '6', '--save',
                           str(tmp_path / 'run'), '--device', 'CPU', **nobody).communicate()
    assert 'saved in' in output
    lines = [line for line in errors.splitlines() if not re.fullmatch('train.py: compiling .*', line)]
    assert lines == [f'train.py: chain and layers are graphs of plain operators, which are slower: {reason}; '
                     'install g++, or pip install ziglang']


def test_a_compiler_that_does_not_know_the_processor(nobody, tmp_path):
    """It compiles for all processors."""
    compiler = tmp_path / 'bin' / 'c++'
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-march*) exit 1 ;; esac\nPATH={os.environ["PATH"]}\n'
                        f'exec {" ".join(next(library.compilers()))} "$@"\n')
    compiler.chmod(0o755)
    path, reason = find(**nobody)
    assert reason == f'compiled here, in {path.parent}' and library.works(path)


def test_processors_of_three_kinds(tmp_path):
    flags = 'fpu sse2 avx avx2 bmi1 bmi2 f16c fma abm movbe'
    for text, expected in ((f'{flags} avx512f avx512bw avx512cd avx512dq avx512vl', 'x86-64-v4'),
                           (f'{flags} avx512f', 'x86-64-v3'), (flags.replace(' fma', ''), 'x86-64')):
        file = tmp_path / 'cpuinfo'
        file.write_text(f'processor\t: 0\nflags\t\t: {text}\n')
        assert library.level(str(file)) in (expected, None)      # None on processors of another kind
    assert library.name_of('x86-64') != library.name_of('x86-64-v3')
